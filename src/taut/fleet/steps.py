"""What happens to one member of a fleet: a round is announced, advised or revealed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..learners import Learner
from ..learners.clipping import clip_of
from ..play import round as rounds
from ..play.advice import as_told
from ..play.round import BITS, Game, GameState, fault
from ..player.extremes import round_extremes
from .seen import Seen

__all__ = [
    "Member",
    "MemberStep",
    "advised_member",
    "announced_member",
    "new_member",
    "revealed_member",
]


class Member(NamedTuple):
    """The state of one member."""

    x: jax.Array
    """The decision to play."""
    game: GameState
    """Its round counts observed rounds only."""
    seen: Seen
    skipped: jax.Array
    """The number of rounds of which nothing was observed."""


def new_member(state: GameState) -> Member:
    """Return a member before its first round."""
    x = jnp.asarray(state.x)
    return Member(x, state, Seen.nothing(x), jnp.asarray(0, jnp.int32))


MemberStep = Callable[[Learner, Game, Member, Any], tuple[Member, jax.Array]]
"""(learner, game, member, z) -> the member afterwards, and one bit for each of `FAULTS`."""


def revealed_member(
    learner: Learner, game: Game, member: Member, z: Any
) -> tuple[Member, jax.Array]:
    """Play a round whose announced constraints were enforced before."""
    after, played = rounds.reveal(learner, game, member.game, z)
    x = played.state.x
    gradient = played.round.gradient(x)
    centre = jnp.asarray(game.domain.centre, x.dtype)
    found = round_extremes(played.round, x, played.loss, gradient, centre)
    seen = member.seen.add(found, member.game.t + member.skipped, x, clip_of(learner))
    bits = after.faults % 2**BITS | fault("loss gradient", gradient)
    return Member(after.x, after, seen, member.skipped), bits


def announced_member(
    learner: Learner, game: Game, member: Member, z: Any
) -> tuple[Member, jax.Array]:
    """Move the decision into the announced constraints of the coming round."""
    heeded = rounds.announce(learner, game, member.game, z)
    bits = fault("data", *rounds.floats_of(z)) | fault("next decision", heeded.x)
    return member._replace(x=heeded.x, game=heeded), bits


def advised_member(
    learner: Learner, game: Game, member: Member, z: Any
) -> tuple[Member, jax.Array]:
    """Mix the advice of the coming round, and move the decision into announced constraints.

    `z` has the announced data, then advice and forecast as `as_told` takes them.
    """
    data, said, predicted = z
    told = as_told(said, predicted, member.game.learner.advice)
    begun = rounds.announce(learner, game, member.game, data, told)
    bits = begun.faults % 2**BITS | fault("data", *rounds.floats_of(data))
    return member._replace(x=begun.x, game=begun), bits | fault("next decision", begun.x)

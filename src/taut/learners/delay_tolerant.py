r"""Delay-tolerant learners: several copies of a learner, each waiting for its own round before it
plays again.

    round t: a copy that waits for nothing plays its decision
    when round s arrives, at the end of round s + delay: the copy that played it takes its step

A copy never plays with outdated information, so it plays its own rounds as if there were no delays.
With delays of at most d rounds, d rounds are on their way at most, and d + 1 copies suffice. The
first free copy plays: without delays the first copy plays alone (Joulani, Gyoergy & Szepesvari,
"Online learning under delayed feedback", ICML 2013, whose reduction it is).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .. import arguments
from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.feedback import Delayed, Feedback
from ..problem.rounds import Round
from .base import Learner, learner_dataclass
from .card import Card, Growth
from .guarantee import Guarantee, Setting
from .half_space.method import HalfSpace
from .protocols import is_random, multiplier_of, seeded


class CopiesState(NamedTuple):
    """The states of all copies."""

    x: jax.Array
    """The decision of the copy that plays."""
    copies: Any
    """Their states, with a leading axis."""
    waiting: jax.Array
    """Which copies wait for the round that they played."""
    playing: jax.Array
    """The copy that plays."""


@learner_dataclass
class DelayTolerant(Learner):
    """A learner for delayed feedback: `delay + 1` copies of another one.

    Guarantee: a bound V(T) of the learner that is concave in T becomes (d + 1) V(T / (d + 1)) under
    delays of at most d rounds, for every quantity that adds up over rounds: regret is O(sqrt((d +
    1) T)). See `docs/theory.md`, L1.

    Arguments:
        learner: the learner, tuned for T / (d + 1) rounds if it needs a horizon.
        delay: d, the longest delay.

    >>> import taut
    >>> taut.DelayTolerant(taut.HalfSpace(eta=0.1, diameter=2.0), delay=3).delay
    3
    """

    learner: Learner
    delay: int = field(metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learner.request_first:
            raise ValueError(
                f"learner: got {self.learner!r}; expected one that decides before a round is "
                "revealed"
            )
        object.__setattr__(self, "delay", arguments.count("delay", self.delay, 0))

    @classmethod
    def tuned(
        cls, constants: Constants, horizon: int, domain: Domain | None = None, delay: int = 1
    ) -> DelayTolerant:
        """Half-space learners without memory, each tuned for T / (d + 1) rounds."""
        copies = arguments.count("delay", delay, 0) + 1
        rounds = -(-arguments.count("horizon", horizon) // copies)
        return cls(HalfSpace.tuned(constants, rounds, domain, memory=0), delay)

    @property
    def random(self) -> bool:
        """Whether the copies draw random numbers."""
        return is_random(self.learner)

    def seeded(self, state: CopiesState, key: jax.Array) -> CopiesState:
        """Give every copy a key of its own."""
        keys = jax.random.split(key, self.delay + 1)
        copies = jax.vmap(partial(seeded, self.learner))(state.copies, keys)
        return state._replace(copies=copies, x=copies.x[0])

    def init(self, x1: jax.Array, count: int) -> CopiesState:
        """All copies start at x1, and the first one plays."""
        copy = self.learner.init(x1, count)
        copies = jax.tree.map(lambda a: jnp.broadcast_to(a, (self.delay + 1, *jnp.shape(a))), copy)
        waiting = jnp.zeros((self.delay + 1,), bool)
        return CopiesState(copy.x, copies, waiting, jnp.zeros((), jnp.int32))

    def step(self, state: CopiesState, round: Round) -> CopiesState:
        """A round without delay: the copy that played takes its step, and plays again."""
        return self.advance(self._stepped(state, round, state.playing, state.x))

    def send(self, state: CopiesState) -> tuple[CopiesState, jax.Array]:
        """The copy that played waits for its round."""
        places = jnp.arange(self.delay + 1)
        return state._replace(waiting=state.waiting | (places == state.playing)), state.playing

    def arrived(self, state: CopiesState, round: Round, tag: jax.Array) -> CopiesState:
        """The copy that played the round takes its step."""
        return self._stepped(state, round, tag)

    def give_up(self, state: CopiesState, tag: jax.Array) -> CopiesState:
        """The copy that played a round does not wait for it any more, and plays again."""
        return state._replace(waiting=state.waiting & (jnp.arange(self.delay + 1) != tag))

    def _stepped(
        self, state: CopiesState, round: Round, which: jax.Array, x: jax.Array | None = None
    ) -> CopiesState:
        """A copy takes its step; `x` is its decision, if that is at hand, so that the round is
        asked about it once."""
        before = self._copy(state, which)
        after = self.learner.step(before if x is None else before._replace(x=x), round)
        copies = jax.tree.map(
            lambda a, leaf: lax.dynamic_update_index_in_dim(a, leaf, which, 0), state.copies, after
        )
        return state._replace(
            copies=copies, waiting=state.waiting & (jnp.arange(self.delay + 1) != which)
        )

    def _copy(self, state: CopiesState, which: jax.Array) -> Any:
        return jax.tree.map(
            lambda a: lax.dynamic_index_in_dim(a, which, 0, keepdims=False), state.copies
        )

    def advance(self, state: CopiesState) -> CopiesState:
        """The first copy that waits for nothing plays next."""
        playing = jnp.argmin(state.waiting).astype(jnp.int32)
        x = lax.dynamic_index_in_dim(state.copies.x, playing, 0, keepdims=False)
        return state._replace(playing=playing, x=x)

    def multiplier(self, state: CopiesState, round: Round) -> jax.Array:
        """Return the multiplier of the copy that plays."""
        copy = self._copy(state, state.playing)._replace(x=state.x)
        return multiplier_of(self.learner, copy, round)

    def uncovered(self, feedback: Feedback) -> str:
        """Delays are covered up to the longest one."""
        if not isinstance(feedback, Delayed):
            return (
                "the guarantees of DelayTolerant cover full information and delays, not "
                f"{feedback.kind} feedback"
            )
        if feedback.slots > self.delay + 1:
            return (
                f"its copies are enough for delays of {self.delay} rounds, not {feedback.slots - 1}"
            )
        return ""

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the sums of the copies' bounds, each over an equal share of the rounds; the peak is
        that of any copy."""
        copies = self.delay + 1
        share = -(-horizon // copies)
        alone = setting if copies == 1 else replace(setting, observed=None)
        for guarantee in self.learner.guarantees(alone, share):
            if guarantee.quantity != "peak violation":
                bound = None if guarantee.bound is None else copies * guarantee.bound
                yield replace(
                    guarantee, source=f"{guarantee.source}, L1 ({copies} copies)", bound=bound
                )
        # One copy may play most of the rounds.
        for guarantee in self.learner.guarantees(alone, horizon):
            if guarantee.quantity == "peak violation":
                yield replace(guarantee, source=f"{guarantee.source}, L1 ({copies} copies)")


CARDS = (
    Card(
        "delay-tolerant",
        DelayTolerant.tuned,
        "Delay-tolerant half-space",
        "Joulani, Gyoergy & Szepesvari, ICML 2013, and docs/theory.md, L1",
        needs=("loss_lipschitz",),
        feedback=("full", "delayed"),
        cost="1 projection, m constraint values, m vector-Jacobian products under delays",
        growth={
            "regret": Growth("sqrt((d + 1) T)", 0.5),
            "violation": Growth("(d + 1)^(1/4) T^(3/4)", 0.75),
            "squared violation": Growth("sqrt((d + 1) T)", 0.5),
        },
    ),
)

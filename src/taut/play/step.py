"""The pure step of a game, for people who compile and map it themselves.

`taut.simulate` and `taut.Player` play rounds with the same functions (`round.py`) and add what a
whole simulation or live use needs. Here the state is a value that goes in and comes out, so that
`jax.jit`, `jax.vmap` and `jax.lax.scan` apply.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import arguments
from ..engine import first_key
from ..jax_internals import is_tracer
from ..learners import Learner
from ..learners.protocols import is_random
from ..problem.compatibility import count_constraints, first_decision
from ..problem.memory import shared_start
from ..problem.problem import Problem
from . import round as rounds
from .advice import as_told, check_advised
from .announced import check_announced
from .packing import as_arrays
from .round import Game, GameState


class Scored(NamedTuple):
    """The score of a decision."""

    x: jax.Array
    """The decision that was played."""
    loss: jax.Array
    excess: jax.Array
    """The values of all constraints, announced ones included: at most 0 where they hold."""


def init(
    learner: Learner,
    problem: Problem,
    z: Any = None,
    *,
    x1: Any = None,
    key: jax.Array | None = None,
) -> GameState:
    """Return the state before round 1.

    Arguments:
        learner: a learner, for example `taut.learner("half-space", problem)`.
        problem: what is played.
        z: data of any one round, needed only if the number of constraints depends on the data. Only
            shapes and types are used.
        x1: the first decision; by default the centre of the domain.
        key: random key, for learners that draw random numbers; by default `jax.random.key(0)`.

    `state.x` is the decision to play, `state.totals` are sums over all rounds so far, and
    `state.faults` is 0 while all numbers are finite. The learner may be traced and mapped: with
    several learners in one tree, `jax.vmap(lambda learner: taut.init(learner, problem))(learners)`.

    >>> import jax, jax.numpy as jnp, taut
    >>> toy = taut.Problem(
    ...     lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    ... )
    >>> learner = taut.ClippedOGD(eta=0.1, sigma=4.0)
    >>> state = taut.init(learner, toy)
    >>> play = jax.jit(lambda state, z: taut.step(learner, toy, state, z))
    >>> for z in jnp.array([[1.0, 0.0], [1.0, 0.0]]):
    ...     state, scored = play(state, z)
    >>> state.x.round(3).tolist(), scored.loss.round(3).item(), state.totals.loss.value.item()
    ([-0.2, 0.0], -0.1, -0.1)
    """
    check_announced((learner,), problem)
    first = first_decision(problem, x1)
    ready = _ready(learner, first)
    return rounds.init(
        ready,
        Game.of(problem),
        first,
        _counts(problem, first, z),
        (first_key() if key is None else key) if is_random(ready) else None,
        shared_start(problem, None, first),
    )


def announce(
    learner: Learner, problem: Problem, state: GameState, z: Any = None, *, advice: Any = None
) -> GameState:
    """Return the state with the decision of the coming round: it satisfies the announced
    constraints, as far as a decision does, and takes advice. `step` does this itself, unless it is
    told otherwise.

    Arguments:
        learner, problem: as in `init`.
        state: the state before the round.
        z: the data of the announced constraints.
        advice: for `taut.Advised(learner, advisers)`, what each adviser would play: (adviser,
            *decision), or a decision for one adviser. If some say nothing, a pair of it and which
            do, (adviser,). Numbers that are not finite are a fault of the state.
    """
    told = None if advice is None else _told(learner, state.x, advice)
    return rounds.announce(_ready(learner, state.x), Game.of(problem), state, z, told)


def _told(learner: Learner, x: jax.Array, advice: Any) -> rounds.Told:
    """Return what advisers say; it may be traced."""
    count = check_advised(learner, None).advisers
    rows, speaks = advice if isinstance(advice, tuple) else (advice, True)
    expected = [(count, *x.shape), *([x.shape] if count == 1 else [])]
    if jnp.shape(rows) not in expected:
        raise ValueError(
            f"advice: got shape {jnp.shape(rows)}; expected {expected[0]}, the decisions of all "
            "advisers"
        )
    if jnp.shape(speaks) not in [(), (count,)]:
        raise ValueError(
            f"advice: got {jnp.shape(speaks)} as the shape of which advisers say something; "
            f"expected {(count,)}"
        )
    return as_told((rows, speaks), None, jnp.zeros(expected[0], x.dtype))


def step(
    learner: Learner,
    problem: Problem,
    state: GameState,
    z: Any,
    *,
    announced: bool = False,
    advice: Any = None,
) -> tuple[GameState, Scored]:
    """Play one round: take advice, enforce announced constraints, score the decision, reveal the
    round.

    Arguments:
        learner, problem: as in `init`.
        state: the state before the round. `state.x` is the decision that is played; with announced
            constraints, what `announce` makes of it.
        z: the round's data.
        announced: whether `announce` was called for this round already.
        advice: as in `announce`.

    Returns the state after the round, with the next decision, and the score of this one.
    """
    game, ready = Game.of(problem), _ready(learner, state.x)
    if not arguments.flag("announced", announced):
        state = announce(learner, problem, state, z, advice=advice)
    elif advice is not None:
        raise TypeError(
            "advice: got advice beside announced=True; expected it in the call of announce"
        )
    after, played = rounds.reveal(ready, game, state, z)
    return after, Scored(played.state.x, played.loss, played.excess)


def _ready(learner: Learner, x: jax.Array) -> Learner:
    """Return the learner with its parameters in the float type of the decision."""
    if any(map(is_tracer, jax.tree.leaves(learner))):
        return learner
    return as_arrays(learner, x.dtype)


def _counts(problem: Problem, x: jax.Array, z: Any) -> tuple[int, int]:
    """Return how many constraints are played and how many are scored."""

    def count(of: Problem) -> int:
        known = of.constants.constraint_count
        if known is not None:
            return known
        if z is None:
            raise ValueError(
                "z: got None; expected the data of one round, because the number of constraints "
                "depends on it: taut.init(learner, problem, z)"
            )
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a)), z)
        return count_constraints(of, x, of.given(shapes, x), "z")

    return count(problem), count(problem.whole())

"""How often a learner asks a round for something, counted while it plays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..jax_internals import trace_state
from ..learners.base import Learner
from ..learners.protocols import Delayed, Grows, RequestFirst, is_random, seeded
from ..problem.problem import Problem
from ..problem.watched import WatchedRound
from .stream import one_seed

ORACLES = ("loss", "gradient", "values", "pullback", "project", "minimise")
"""Loss values, loss gradients, evaluations of all constraints, products with their Jacobian,
projections onto the domain, and linear minimisations over it."""
ROUNDS = 64
"""How many rounds are played at most."""
FILE = "oracles.json"
"""The file beside the results with the calls by learner."""
Calls = Mapping[str, float]


def _counting(counts: Counter[str]) -> Callable[[str, jax.Array], None]:
    """What counts the questions about one round when they are executed. Loss, gradient and values
    at the same decision count once, as they are computed once."""
    seen: dict[tuple[str, int], Any] = {}
    made_in = trace_state()

    def asked(name: str, about: jax.Array) -> None:
        if name in ("loss", "gradient", "values"):
            if (name, id(about)) in seen:
                return
            if trace_state() == made_in:
                seen[name, id(about)] = about
        # An entry of the array makes calls side by side count each.
        jax.debug.callback(lambda _: counts.update([name]), jnp.ravel(about)[0])

    return asked


def count_calls(learner: Learner, problem: Problem, data: Any) -> Calls:
    """Return the mean number of calls of each oracle in a round.

    The calls are counted when they are executed, so those in loops count as often as the loop runs,
    and those in branches only where the branch is taken.

    Arguments:
        learner: a learner that sees whole rounds.
        problem: the problem that it plays.
        data: arrays (seed, round, ...); the first rounds of the first seed are played.

    >>> import taut
    >>> stream = taut.arena.STREAMS["toy"]
    >>> learner = taut.LEARNERS["clipped-ogd"].build(stream.problem, 16)
    >>> count_calls(learner, stream.problem, stream.data(1, 16))["project"]
    1.0
    """
    if isinstance(learner, Delayed):
        return {}
    if isinstance(learner, Grows):
        learner = learner.with_room(ROUNDS)
    first = jax.tree.map(lambda leaf: leaf[:ROUNDS], one_seed(data, 0))
    length = len(jax.tree.leaves(first)[0])
    counts: Counter[str] = Counter()
    state = learner.init(
        jnp.asarray(problem.domain.centre), problem.constants.constraint_count or 1
    )
    if is_random(learner):
        state = seeded(learner, state, jax.random.key(0))

    def play_round(state: Any, z: Any) -> tuple[Any, None]:
        round: Any = WatchedRound(problem.round(z), _counting(counts))
        if isinstance(learner, RequestFirst):
            state = learner.decide(state, round)
        return learner.step(state, round), None

    jax.block_until_ready(jax.jit(lambda state, z: lax.scan(play_round, state, z)[0])(state, first))
    jax.effects_barrier()
    return {name: counts[name] / length for name in ORACLES}

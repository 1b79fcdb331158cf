"""How often a learner asks a round for something, counted while it plays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..jax_internals import trace_state
from ..learners.base import Learner
from ..learners.protocols import Delayed, Grows, RequestFirst, is_random, seeded
from ..problem.constraints import Linearisation
from ..problem.problem import Problem
from ..problem.rounds import FullInformation
from .stream import one_seed

ORACLES = ("loss", "gradient", "values", "pullback", "project", "minimise")
"""Loss values, loss gradients, evaluations of all constraints, products with their Jacobian,
projections onto the domain, and linear minimisations over it."""
ROUNDS = 64
FILE = "oracles.json"
"""The file beside the results with the calls by learner."""
Calls = Mapping[str, float]


@dataclass(frozen=True)
class _Counted:
    """A round that counts what is asked. Questions about the same decision count once, as they are
    answered once."""

    round: FullInformation
    counts: Counter[str]
    seen: dict[tuple[str, int], Any] = field(default_factory=dict)
    made_in: Any = field(default_factory=trace_state)

    @property
    def domain(self) -> Any:
        """The domain, whose projection is not counted if it is called past the round."""
        return self.round.domain

    @property
    def data(self) -> Any:
        """The data of the round."""
        return self.round.data

    def _tick(self, name: str, about: jax.Array, once: bool = True) -> None:
        """Count a question about an array; its entry makes calls side by side count each."""
        if once and (name, id(about)) in self.seen:
            return
        if once and trace_state() == self.made_in:
            self.seen[name, id(about)] = about
        jax.debug.callback(lambda _: self.counts.update([name]), jnp.ravel(about)[0])

    def loss(self, x: jax.Array) -> jax.Array:
        self._tick("loss", x)
        return self.round.loss(x)

    def gradient(self, x: jax.Array) -> jax.Array:
        self._tick("gradient", x)
        return self.round.gradient(x)

    def constraints(self, x: jax.Array) -> Linearisation:
        self._tick("values", x)
        values, pull, push = self.round.constraints(x)

        def pulled(weights: jax.Array) -> jax.Array:
            self._tick("pullback", weights, once=False)
            return pull(weights)

        return Linearisation(values, pulled, push)

    def project(self, x: jax.Array) -> jax.Array:
        self._tick("project", x, once=False)
        return self.round.project(x)

    def minimise(self, direction: jax.Array) -> jax.Array:
        self._tick("minimise", direction, once=False)
        return self.round.minimise(direction)


def count_calls(learner: Learner, problem: Problem, data: Any, rounds: int = ROUNDS) -> Calls:
    """Return the mean number of calls of each oracle in a round.

    The calls are counted when they are executed, so those in loops count as often as the loop runs,
    and those in branches only where the branch is taken.

    Arguments:
        learner: a learner that sees whole rounds.
        problem: the problem that it plays.
        data: arrays (seed, round, ...); the rounds of the first seed are played.
        rounds: how many rounds are played at most.

    >>> import taut
    >>> stream = taut.arena.STREAMS["toy"]
    >>> learner = taut.LEARNERS["clipped-ogd"].build(stream.problem, 16)
    >>> count_calls(learner, stream.problem, stream.data(1, 16))["project"]
    1.0
    """
    if isinstance(learner, Delayed):
        return {}
    if isinstance(learner, Grows):
        learner = learner.with_room(rounds)
    first = jax.tree.map(lambda leaf: leaf[:rounds], one_seed(data, 0))
    length = len(jax.tree.leaves(first)[0])
    counts: Counter[str] = Counter()
    state = learner.init(jnp.asarray(problem.domain.centre), _count_of(problem))
    if is_random(learner):
        state = seeded(learner, state, jax.random.key(0))

    def one(state: Any, z: Any) -> tuple[Any, None]:
        round: Any = _Counted(problem.round(z), counts)
        if isinstance(learner, RequestFirst):
            state = learner.decide(state, round)
        return learner.step(state, round), None

    jax.block_until_ready(jax.jit(lambda state, z: lax.scan(one, state, z)[0])(state, first))
    jax.effects_barrier()
    return {name: counts[name] / length for name in ORACLES}


def _count_of(problem: Problem) -> int:
    return problem.constants.constraint_count or 1

"""Memory of one round: loss and constraints that also depend on x_{t-1}, the decision of the round
before.

Such a problem evaluates `loss(x, RoundData(z, previous))`: the previous decision is part of the
round's data, so everything that takes a problem and data works with it. Two views of the problem
have no memory. `steady` sets the previous decision to x itself: this is what a fixed decision costs
that is played all the time. `recorded` is the problem whose data contain the previous decisions of
a finished run.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..engine import Array, register_dataclass
from .constraints import Constraints, JoinedConstraints
from .problem import Problem
from .streams import Arrays, RoundData, Stream


@dataclass(frozen=True)
class _SteadyLoss:
    """f(x, z, x)."""

    loss: Callable[[jax.Array, Any], Any]

    def __call__(self, x: jax.Array, z: Any) -> Any:
        return self.loss(x, RoundData(z, x))


@register_dataclass
@dataclass(frozen=True)
class _SteadyConstraints(Constraints):
    """g(x, z, x)."""

    inner: Constraints

    @property
    def takes_data(self) -> bool:  # type: ignore[override]
        return self.inner.takes_data

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        return self.inner.values(x, RoundData(z, x))

    def row_names(self, x: Any = None, z: Any = None) -> tuple[str, ...] | None:
        return self.inner.row_names(x, RoundData(z, x))


@dataclass(frozen=True)
class _LossOfData:
    """A loss without memory, for data that come with previous decisions."""

    loss: Callable[[jax.Array, Any], Any]

    def __call__(self, x: jax.Array, z: Any) -> Any:
        return self.loss(x, z.data)


def _steady_constraints(constraints: Constraints) -> Constraints:
    """Replace the user's constraints inside all transforms, which hindsight must see."""
    if isinstance(constraints, JoinedConstraints):
        return JoinedConstraints(
            _steady_constraints(constraints.first), _steady_constraints(constraints.second)
        )
    inner = getattr(constraints, "inner", None)
    if isinstance(inner, Constraints):
        wrapper: Any = constraints
        changed: Constraints = dataclasses.replace(wrapper, inner=_steady_constraints(inner))
        return changed
    return _SteadyConstraints(constraints)


def steady(problem: Problem) -> Problem:
    """Return the problem f(x, z, x), g(x, z, x) without memory: what a decision costs that is
    played in every round.

    The best fixed decision in hindsight belongs to this problem. It can also be played, with the
    original problem as `score`: a learner then has a guarantee for policy regret, see
    `docs/theory.md`.

    The loss must be convex in x and the previous decision together, so that f(x, z, x) is convex.
    Constants that were given for the problem are not those of this one and are dropped, except what
    the domain implies.

    >>> import jax.numpy as jnp, taut
    >>> switching = lambda x, z, previous: z @ x + jnp.abs(x - previous).sum()
    >>> problem = taut.Problem(
    ...     switching, lambda x: x.sum() - 1, taut.Ball(1.0, shape=2), previous=True
    ... )
    >>> float(taut.steady(problem).loss(jnp.ones(2), jnp.ones(2)))
    2.0
    """
    arguments.instance("problem", problem, Problem, "taut.Problem(...)")
    if not problem.previous:
        raise ValueError(
            "problem: got a problem without memory; expected taut.Problem(..., previous=True)"
        )
    return problem.at_rest(
        _SteadyLoss(problem.loss), _steady_constraints(problem.scored_constraints)
    )


def recorded(problem: Problem) -> Problem:
    """Return the problem without memory whose data are `RoundData`, as `linked` makes them."""
    twin = copy.copy(problem)
    if not problem.previous:
        twin.loss = _LossOfData(problem.loss)  # constraints take either kind of data
        twin.programs = None
    twin.previous, twin.start = False, None
    return twin


def linked(problem: Problem, stream: Stream, decisions: Array, first: Any) -> Arrays:
    """Return the stream of the pairs (z_t, x_{t-1}).

    Arguments:
        problem: the problem, whose `start` is the decision before round 1.
        stream: the data of all rounds; an adversary has none.
        decisions: x_1..x_T, (seed, round, *shape).
        first: x_1, which is the decision before round 1 if the problem has no `start`.
    """
    start = first if problem.start is None else problem.start
    data = jax.tree.map(np.asarray, stream.block(0, stream.horizon))
    before = np.broadcast_to(
        np.asarray(start, decisions.dtype), (len(decisions), 1, *problem.domain.shape)
    )
    previous = np.concatenate([before, decisions[:, : stream.horizon - 1]], axis=1)
    return Arrays(RoundData(data, previous), stream.horizon, stream.seeds, True)


def shared_start(problem: Problem, score: Problem | None, first: jax.Array) -> jax.Array | None:
    """Return the decision before round 1 of both problems; None if neither needs it."""
    needing = [
        candidate for candidate in (problem, score) if candidate is not None and candidate.previous
    ]
    if not needing:
        return None
    stated = [candidate.start for candidate in needing if candidate.start is not None]
    if len(stated) == 2 and not np.array_equal(stated[0], stated[1]):
        raise ValueError(
            f"score: got a problem with start={stated[1]}; expected {stated[0]}, as the played "
            "one has"
        )
    return jnp.asarray(stated[0], first.dtype) if stated else first


def is_steady(problem: Problem, original: Problem) -> bool:
    """Whether `problem` is `steady(original)`."""
    if not original.previous or problem.previous:
        return False
    if problem is original.own_rest:
        return True
    return problem.loss == _SteadyLoss(
        original.loss
    ) and problem.constraints == _steady_constraints(original.constraints)


def takes_previous(constraints: Constraints) -> bool:
    """Whether the user's constraints, inside transforms, take the previous decision."""
    inner = getattr(constraints, "inner", None)
    return (
        takes_previous(inner)
        if isinstance(inner, Constraints)
        else bool(getattr(constraints, "takes_previous", False))
    )

"""Projected gradient descent with one CVXPY projection onto the feasible set per round, which the
paper avoids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cases import Case
from .played import Array


def _toy(case: Case, x: Any, cp: Any) -> list[Any]:
    return [cp.norm1(x) <= 1]


def _doubly_stochastic(case: Case, x: Any, cp: Any) -> list[Any]:
    return [cp.sum(x, axis=0) == 1, cp.sum(x, axis=1) == 1, x >= 0]


def _dispatch(case: Case, x: Any, cp: Any) -> list[Any]:
    emission, limit, cap = case.fixed[6:9], case.fixed[9:12], case.fixed[13]
    return [cp.sum(cp.multiply(emission, cp.square(x))) <= cap, x >= 0, x <= limit]


def _logistic(case: Case, x: Any, cp: Any) -> list[Any]:
    return (
        [cp.norm2(x) <= case.fixed[0]]
        if case.count == 1
        else [cp.norm(x, 2, axis=1) <= case.fixed[0]]
    )


def _polyhedron(case: Case, x: Any, cp: Any) -> list[Any]:
    rows, bounds = (
        case.fixed[: case.count * case.size].reshape(case.count, case.size),
        case.fixed[-case.count :],
    )
    return [rows @ x <= bounds]


SETS = {
    "toy": _toy,
    "doubly_stochastic": _doubly_stochastic,
    "dispatch": _dispatch,
    "logistic": _logistic,
    "polyhedron": _polyhedron,
}


def prepare(case: Case, rounds: int) -> Callable[[], Array]:
    """Return a function that runs projected OGD and returns the decisions. The CVXPY problem is
    built once."""
    import cvxpy as cp

    shape = case.problem.domain.shape
    x, point = cp.Variable(shape), cp.Parameter(shape)
    inside = [cp.norm2(cp.vec(x, order="C")) <= case.radius]
    nearest = cp.Problem(
        cp.Minimize(cp.sum_squares(x - point)), SETS[case.kind](case, x, cp) + inside
    )
    data, (eta, _) = case.data(1)[0, :rounds], case.steps
    slope = _slopes(case)

    def play() -> Array:
        decision, decisions = case.first, []
        for z in data:
            point.value = decision - eta * slope(decision, z)
            nearest.solve(solver=cp.CLARABEL)
            decision = np.asarray(x.value)
            decisions.append(decision)
        return np.array(decisions)

    return play


def _slopes(case: Case) -> Callable[[Array, Any], Array]:
    from .naive import STEPS

    step = STEPS[case.kind](case)
    return lambda x, z: step(x, z)[1]


def check(case: Case, decisions: Array) -> float:
    """Return the largest violation of the decisions, and on the toy problem also the difference to
    exact projections."""
    from .naive import STEPS

    step, zero = STEPS[case.kind](case), case.data(1)[0, 0]
    worst = max(float(np.max(step(x, zero)[2])) for x in decisions)
    if case.kind == "toy":
        import taut

        exact = taut.simulate(
            taut.ProjectedOGD(case.steps[0], taut.L1Ball(1.0, shape=2)),
            case.problem,
            case.data(1)[0, : len(decisions) + 1],
            record=("decisions",),
        )
        worst = max(worst, float(np.abs(exact.decisions[0, 1:] - decisions).max()))
    return worst

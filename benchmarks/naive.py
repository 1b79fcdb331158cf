"""A plain NumPy loop over rounds, with a few lines per problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cases import Case
from .played import Array, Play, Played

Step = Callable[[Array, Any], tuple[float, Array, Array, Callable[[Array], Array]]]
"""(x, z) -> loss, its gradient, constraint values, and the vector-Jacobian product."""


def _toy(case: Case) -> Step:
    return lambda x, c: (c @ x, c, np.array([np.abs(x).sum() - 1]), lambda w: w * np.sign(x))


def _doubly_stochastic(case: Case) -> Step:
    d = case.size

    def step(x: Array, y: Array) -> Any:
        error, rows, columns = x - y, x.sum(1) - 1, x.sum(0) - 1

        def pull(w: Array) -> Array:
            by_row, by_column = w[:d] - w[d : 2 * d], w[2 * d : 3 * d] - w[3 * d : 4 * d]
            return by_row[:, None] + by_column - w[4 * d :].reshape(d, d)

        return (
            0.5 * np.sum(error**2),
            error,
            np.concatenate([rows, -rows, columns, -columns, -x.ravel()]),
            pull,
        )

    return step


def _dispatch(case: Case) -> Step:
    a, b, emission, limit = case.fixed[:12].reshape(4, 3)
    xi, cap = case.fixed[12:]

    def step(x: Array, demand: float) -> Any:
        gap = x.sum() - demand
        values = np.concatenate([[emission @ (x * x) - cap], -x, x - limit])
        slope = a * x + b + 2 * xi * gap
        return (
            np.sum((0.5 * a * x + b) * x) + xi * gap**2,
            slope,
            values,
            lambda w: 2 * emission * x * w[0] - w[1:4] + w[4:],
        )

    return step


def _logistic(case: Case) -> Step:
    limit = case.fixed[0]

    def step(x: Array, z: Array) -> Any:
        margin = np.vdot(z, x)
        norms = np.sqrt(1e-16 + np.sum(x * x, axis=-1))
        slope = -z / (1 + np.exp(margin))
        return (
            np.logaddexp(0, -margin),
            slope,
            np.atleast_1d(norms - limit),
            lambda w: (w / norms)[:, None] * x if x.ndim > 1 else w / norms * x,
        )

    return step


def _polyhedron(case: Case) -> Step:
    rows, bounds = (
        case.fixed[: case.count * case.size].reshape(case.count, case.size),
        case.fixed[-case.count :],
    )
    return lambda x, c: (c @ x, c, rows @ x - bounds, lambda w: w @ rows)


STEPS: dict[str, Callable[[Case], Step]] = {
    "toy": _toy,
    "doubly_stochastic": _doubly_stochastic,
    "dispatch": _dispatch,
    "logistic": _logistic,
    "polyhedron": _polyhedron,
}


def prepare(case: Case, seeds: int, rounds: int) -> Play:
    """Return a function that simulates one seed after the other."""
    data = case.data(seeds)[:, :rounds]
    eta, sigma = case.steps
    radius, step, aggregated, count = (
        case.radius,
        STEPS[case.kind](case),
        case.scored < case.count,
        case.scored,
    )

    def play() -> Played:
        loss, worst = np.zeros((seeds, rounds)), np.zeros((seeds, rounds))
        last, violations = [], []
        for s in range(seeds):
            x = case.first.copy()
            total, excess, violation, squared, peak = 0.0, *np.zeros((4, count))
            for t in range(rounds):
                value, slope, values, pull = step(x, data[s, t])
                scored = values
                if aggregated:
                    active = np.arange(values.size) == values.argmax()
                    scored = values[active]
                clipped = np.maximum(scored, 0)
                loss[s, t], worst[s, t] = value, scored.max()
                total += value
                excess, violation, squared = (
                    excess + scored,
                    violation + clipped,
                    squared + clipped**2,
                )
                peak = np.maximum(peak, clipped)
                weights = active * clipped if aggregated else clipped
                x = x - eta * slope - pull(weights / sigma)
                norm = np.linalg.norm(x)
                if norm > radius:
                    x = x * (radius / norm)
            last.append(x)
            violations.append(violation)
        return Played(np.array(last), loss, worst, np.array(violations))

    return play

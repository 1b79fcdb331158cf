"""A NumPy loop over rounds with all seeds in one array, which reduces the overhead per round and
seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cases import Case
from .played import Array, Play, Played

Step = Callable[[Array, Array], tuple[Array, Array, Array, Callable[[Array], Array]]]
"""(x, z), both with a leading seed axis -> losses, gradients, values (seed, m), and the
vector-Jacobian product."""


def _toy(case: Case) -> Step:
    return lambda x, c: (
        np.sum(c * x, -1),
        c,
        np.abs(x).sum(-1, keepdims=True) - 1,
        lambda w: w * np.sign(x),
    )


def _doubly_stochastic(case: Case) -> Step:
    d = case.size

    def step(x: Array, y: Array) -> Any:
        error, rows, columns = x - y, x.sum(2) - 1, x.sum(1) - 1

        def pull(w: Array) -> Array:
            by_row, by_column = (
                w[:, :d] - w[:, d : 2 * d],
                w[:, 2 * d : 3 * d] - w[:, 3 * d : 4 * d],
            )
            return by_row[:, :, None] + by_column[:, None] - w[:, 4 * d :].reshape(-1, d, d)

        values = np.concatenate([rows, -rows, columns, -columns, -x.reshape(len(x), -1)], axis=1)
        return 0.5 * np.sum(error**2, axis=(1, 2)), error, values, pull

    return step


def _dispatch(case: Case) -> Step:
    a, b, emission, limit = case.fixed[:12].reshape(4, 3)
    xi, cap = case.fixed[12:]

    def step(x: Array, demand: Array) -> Any:
        gap = x.sum(1) - demand
        values = np.concatenate([(x * x) @ emission[:, None] - cap, -x, x - limit], axis=1)
        slope = a * x + b + 2 * xi * gap[:, None]
        loss = np.sum((0.5 * a * x + b) * x, axis=1) + xi * gap**2
        return loss, slope, values, lambda w: 2 * emission * x * w[:, :1] - w[:, 1:4] + w[:, 4:]

    return step


def _logistic(case: Case) -> Step:
    shape, limit = (case.count, case.size // case.count), case.fixed[0]

    def step(x: Array, z: Array) -> Any:
        parts = x.reshape(-1, *shape)
        margin = np.sum(z.reshape(parts.shape) * parts, axis=(1, 2))
        norms = np.sqrt(1e-16 + np.sum(parts * parts, axis=2))
        slope = -z / (1 + np.exp(margin)).reshape(-1, *[1] * (z.ndim - 1))
        return (
            np.logaddexp(0, -margin),
            slope,
            norms - limit,
            lambda w: ((w / norms)[:, :, None] * parts).reshape(x.shape),
        )

    return step


def _polyhedron(case: Case) -> Step:
    rows, bounds = (
        case.fixed[: case.count * case.size].reshape(case.count, case.size),
        case.fixed[-case.count :],
    )
    return lambda x, c: (np.sum(c * x, axis=1), c, x @ rows.T - bounds, lambda w: w @ rows)


STEPS: dict[str, Callable[[Case], Step]] = {
    "toy": _toy,
    "doubly_stochastic": _doubly_stochastic,
    "dispatch": _dispatch,
    "logistic": _logistic,
    "polyhedron": _polyhedron,
}


def prepare(case: Case, seeds: int, rounds: int) -> Play:
    """Return a function that simulates all seeds together."""
    data = np.ascontiguousarray(np.moveaxis(case.data(seeds)[:, :rounds], 1, 0))
    eta, sigma = case.steps
    radius, step, aggregated, count = (
        case.radius,
        STEPS[case.kind](case),
        case.scored < case.count,
        case.scored,
    )

    def play() -> Played:
        loss, worst = np.zeros((rounds, seeds)), np.zeros((rounds, seeds))
        x = np.repeat(case.first[None], seeds, axis=0)
        axes = tuple(range(1, x.ndim))
        total, (excess, violation, squared, peak) = np.zeros(seeds), np.zeros((4, seeds, count))
        for t in range(rounds):
            value, slope, values, pull = step(x, data[t])
            scored = values
            if aggregated:
                scored = values.max(1, keepdims=True)
                active = np.arange(values.shape[1]) == values.argmax(1)[:, None]
            clipped = np.maximum(scored, 0)
            loss[t], worst[t] = value, scored.max(1)
            total += value
            excess += scored
            violation += clipped
            squared += clipped**2
            np.maximum(peak, clipped, out=peak)
            weights = active * clipped if aggregated else clipped
            x = x - eta * slope - pull(weights / sigma)
            norms = np.sqrt(np.sum(x * x, axis=axes, keepdims=True))
            x *= np.minimum(1, radius / np.maximum(norms, 1e-300))
        return Played(x, loss.T, worst.T, violation)

    return play

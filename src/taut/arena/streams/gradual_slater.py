"""Constraints that hold on average only, with a Slater gap that is varied."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constants import Constants
from ...problem.domains import Box
from ...problem.problem import Problem
from ..stream import Stream

SIZE, NOISE, PERIOD = 5, 0.35, 200


@cache
def problem(margin: float) -> Problem:
    """Return |x - centre_t|^2 / 2 on the unit box with sum(x) + noise_t - margin <= 0."""
    known = Constants(
        loss_lipschitz=0.8 * np.sqrt(SIZE),
        loss_range=0.32 * SIZE,
        constraint_lipschitz=np.sqrt(SIZE),
        constraint_range=max(SIZE + NOISE - margin, margin + NOISE),
        constraint_count=1,
        strong_convexity=1.0,
        constraint_smoothness=0.0,
        slater=margin,
    )
    return Problem(_loss, _excess, Box(0.0, 1.0, shape=SIZE), known)


def _loss(x: jax.Array, z: Any) -> jax.Array:
    return jnp.sum((x - z["centre"]) ** 2) / 2


def _excess(x: jax.Array, z: Any) -> jax.Array:
    return (
        jnp.sum(x) - z["limit"]
    )  # with the margin in the data, one compiled program serves all margins


def _draw(margin: float, seed: int, rounds: int) -> Any:
    angle = 2 * np.pi * (np.arange(rounds)[:, None] / PERIOD + np.arange(SIZE) / SIZE)
    noise = np.random.default_rng([8, seed]).uniform(-NOISE, NOISE, size=rounds)
    return {"centre": 0.5 + 0.3 * np.cos(angle), "limit": margin - noise}


def _best(margin: float, z: Any, rounds: int) -> float:
    """The best x in the box with sum(x) <= margin, the constraint on average: the mean centre,
    lowered by bisection."""
    mean, low, high = z["centre"].mean(axis=0), 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(mean - middle, 0, 1).sum() > margin else (low, middle)
    x: Array = np.clip(mean - high, 0, 1)
    return float(np.sum((x - z["centre"]) ** 2) / 2)


def stream(margin: float) -> Stream:
    """Return the stream with a Slater gap of `margin` on average."""
    always = margin > NOISE
    return Stream(
        f"gradual-slater-{margin:g}",
        f"quadratic losses with a rotating centre, sum(x) <= {margin:g} on average",
        partial(problem, margin),
        partial(_draw, margin),
        "the gradual Slater sweep in the code of Yu, Lee & Lee 2026",
        "stochastic constraints",
        best=partial(_best, margin),
        comparator="the best fixed decision that satisfies the mean constraint",
        scored="excess",
        known={
            "Slater gap": f"{margin:g} on average",
            "smoothness": "affine",
            "strong convexity": "1",
            "noise": "in the constraints, uniform on (-0.35, 0.35)",
        },
        bounded=("violation", "squared violation", "peak violation", "excess") if always else (),
        refuted=frozenset({"slater"}),
        feasible_rounds=always,
        version=2,
        family="gradual-slater",
    )


STREAMS = tuple(stream(margin) for margin in (0.7, 0.5, 0.3, 0.1))

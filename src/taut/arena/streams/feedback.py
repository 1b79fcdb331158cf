"""Streams of which learners do not see everything: constraint values with errors (the toy, the
polytope and a ball), and values only at the points that are played (the toy and the pool)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.domains import Ball, Box
from ...problem.feedback.bandit import Bandit
from ...problem.feedback.noisy import Noisy
from ...problem.problem import Problem
from ..stream import Stream
from . import half_spaces, toy
from .drifting import DISC, disc
from .half_spaces import inner, unit_losses

SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])


@cache
def _square() -> Problem:
    """The toy with its constraint as four affine rows, each of which has errors of its own."""
    known = toy.problem().constants.with_values(
        constraint_count=4, constraint_smoothness=0.0, constraint_range=1 + 2**0.5
    )
    return Problem(inner, _rows, Ball(1.0, shape=2), known)


def _rows(x: jax.Array) -> jax.Array:
    return jnp.asarray(SIGNS, x.dtype) @ x - 1


@cache
def _ball() -> Problem:
    side = 1 / np.sqrt(10)
    return Problem(inner, disc, Box(-side, side, shape=10), DISC)


def _best_on_square(c: Array, rounds: int) -> float:
    return -float(np.abs(c.sum(axis=0)).max())  # the best vertex


_CLEAN = half_spaces.STREAMS[0]


def _stream(name: str, title: str, scale: float, **facts: Any) -> Stream:
    known = facts.pop("known") | {
        "noise": f"in the constraint values, uniform on (-{scale:g}, {scale:g})"
    }
    noise = Noisy(values=scale, distribution="uniform")
    return Stream(
        name,
        f"{title}, constraint values with errors up to {scale:g}",
        setting="noisy constraints",
        known=known,
        source="constraint values with zero-mean errors, the open question of Yuan & Lamperski, "
        "NeurIPS 2018",
        feedback=noise,
        told={"sigma": noise.values.sigma},
        **facts,
        family="noisy",
    )


_POOL = next(stream for stream in half_spaces.STREAMS if stream.name == "pool-adaptive")


def _values_only(stream: Stream, source: str) -> Stream:
    """The stream without gradients."""
    return replace(
        stream,
        name=f"bandit-{stream.name.partition('-')[0]}",
        title=f"{stream.title}; only values at one or two points are seen",
        setting="values only",
        feedback=Bandit(),
        source=source,
        known=dict(stream.known)
        | {"feedback": "values at the one or two points that a learner plays"},
    )


STREAMS = (
    _stream(
        "noisy-toy",
        "linear losses on the unit disc, |x_1| + |x_2| <= 1 as four rows",
        0.3,
        make=_square,
        draw=toy.STREAMS[0].draw,
        best=_best_on_square,
        known={"Slater gap": "1", "smoothness": "affine"},
    ),
    _stream(
        "noisy-polytope",
        "linear losses in 10 dimensions, 64 fixed half-spaces with slack 0.1",
        0.3,
        make=_CLEAN.make,
        draw=_CLEAN.draw,
        best=_CLEAN.best,
        known=dict(_CLEAN.known),
    ),
    _stream(
        "noisy-ball",
        "linear losses in 10 dimensions, a ball in a box",
        0.03,
        make=_ball,
        draw=partial(unit_losses, 10),
        known={"Slater gap": "0.125", "smoothness": "1", "error bound": "0.5"},
    ),
    _values_only(toy.STREAMS[0], "the toy of Yuan & Lamperski, NeurIPS 2018, without gradients"),
    _values_only(_POOL, "half-spaces that come back, without gradients"),
)

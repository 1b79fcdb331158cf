"""Experiments of published papers, with the parameters of their code: an example with three rows, a
box in a ball, and online regression under changing rows."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constants import Constants
from ...problem.domains import Ball, Box
from ...problem.problem import Problem
from ..stream import Stream
from .half_spaces import inner

LONGEST = 5000
"""The rounds of the example of Yu & Neely, whose losses grow with t."""
LOW = ((1, 1500), (2000, 3500), (4000, 5000))
"""The rounds in which the second part of its losses is negative."""
UNKNOWNS, ROWS = 10, 4
"""The sizes of the regression of Ferreira & Soares."""


@cache
def _rows() -> tuple[Array, Array]:
    """Three rows with entries in [0, 1] and levels in [0, 2]."""
    rng = np.random.default_rng([20, 0])
    return rng.uniform(0, 1, size=(3, 2)), rng.uniform(0, 2, size=3)


@cache
def three_rows() -> Problem:
    """Return linear losses on the box [-1, 1]^2 with A x <= b."""
    a, b = _rows()
    slope = np.sqrt(2) * (LONGEST**0.1 + 2)
    known = Constants(
        loss_lipschitz=slope,
        loss_range=2 * np.sqrt(2) * slope,
        constraint_lipschitz=float(np.linalg.norm(a, axis=1).max()),
        constraint_range=float(np.max(a.sum(axis=1) + b)),
        slater=float(np.min(a.sum(axis=1) + b)),  # at (-1, -1)
        constraint_smoothness=0.0,
        constraint_count=3,
    )

    def excess(x: jax.Array) -> jax.Array:
        return jnp.asarray(a, x.dtype) @ x - jnp.asarray(b, x.dtype)

    return Problem(inner, excess, Box(-1.0, 1.0, shape=2), known)


def _three_parts(seed: int, rounds: int) -> Array:
    """Costs with three parts: uniform of size t^(1/10), uniform on [-1, 0] or [0, 1] by periods,
    and +-1 by a random permutation of the rounds."""
    rng = np.random.default_rng([21, seed])
    t = np.arange(1, rounds + 1)
    first = t[:, None] ** 0.1 * rng.uniform(-1, 1, size=(rounds, 2))
    low = np.any([(t >= begin) & (t <= end) for begin, end in LOW], axis=0)
    second = rng.uniform(0, 1, size=(rounds, 2)) - low[:, None]
    third = (-1.0) ** rng.permutation(t)[:, None]
    return np.asarray(first + second + third)


@cache
def box_in_ball() -> Problem:
    """Return 3 |x - theta_t|^2 on the unit disc with |x_i| <= 1/2 as four rows."""
    reach = 1 + np.sqrt(2)
    known = Constants(
        loss_lipschitz=6 * reach,
        loss_range=3 * reach**2,
        strong_convexity=6.0,
        constraint_lipschitz=1.0,
        constraint_range=1.5,
        slater=0.5,
        error_bound=1 / np.sqrt(2),
        constraint_smoothness=0.0,
        constraint_count=4,
    )
    return Problem(_distance, _faces, Ball(1.0, shape=2), known)


def _distance(x: jax.Array, theta: jax.Array) -> jax.Array:
    return 3 * jnp.sum((x - theta) ** 2)


def _faces(x: jax.Array) -> jax.Array:
    return jnp.concatenate([x, -x]) - 0.5


def _centres(seed: int, rounds: int) -> Array:
    return np.random.default_rng([22, seed]).uniform(-1, 0, size=(rounds, 2))


@cache
def regression() -> Problem:
    """Return |H_t x - y_t|^2 / 2 on the box [0, 1]^10 with A_t x <= b_t."""
    residual = np.sqrt(ROWS) * (UNKNOWNS + 1)  # |h.(x - 1)| <= 10, and the noise is at most 1
    known = Constants(
        loss_lipschitz=np.sqrt(ROWS * UNKNOWNS) * residual,
        loss_range=residual**2 / 2,
        constraint_lipschitz=np.sqrt(4 * UNKNOWNS),
        constraint_range=2.0 * UNKNOWNS,
        constraint_smoothness=0.0,
        constraint_count=ROWS,
    )
    return Problem(_squares, _changing, Box(0.0, 1.0, shape=UNKNOWNS), known)


def _squares(x: jax.Array, z: Any) -> jax.Array:
    return jnp.sum((z["features"] @ x - z["targets"]) ** 2) / 2


def _changing(x: jax.Array, z: Any) -> jax.Array:
    return z["normals"] @ x - z["levels"]


def _measurements(seed: int, rounds: int) -> Any:
    """Features in [-1, 1], targets with truncated normal noise, normals in [0, 2], levels in
    [0, 1]."""
    from scipy.stats import truncnorm

    rng = np.random.default_rng([23, seed])
    # One block of uniform numbers per round, so that fewer rounds are the first ones of more.
    drawn = rng.uniform(size=(rounds, ROWS, 2 * UNKNOWNS + 2))
    features = 2 * drawn[:, :, :UNKNOWNS] - 1
    noise = truncnorm.ppf(drawn[:, :, -1], -1.0, 1.0)
    return {
        "features": features,
        "targets": features.sum(axis=2) + noise,
        "normals": 2 * drawn[:, :, UNKNOWNS : 2 * UNKNOWNS],
        "levels": drawn[:, :, -2],
    }


ITERATIONS, RELAXED, WEIGHT = 600, 1.6, 30.0
"""Of the alternating directions for the best decision of each round."""


def best_of_each_round(z: Any, rounds: int) -> tuple[Array, Array]:
    """Return the best decision of each round and its loss, by alternating directions (ADMM) on all
    rounds at once.

    Normals and levels are not negative, so what is still exceeded is removed by shrinking the
    decision: it is feasible, and its loss is the smallest up to a few parts in a thousand.
    """
    h, y, a, b = (
        np.asarray(z[name][:rounds]) for name in ("features", "targets", "normals", "levels")
    )
    small, transposed = 1e-6, np.swapaxes(a, 1, 2)
    curved = np.swapaxes(h, 1, 2) @ h + WEIGHT * (transposed @ a + np.eye(UNKNOWNS))
    inverse = np.linalg.inv(curved + small * np.eye(UNKNOWNS))
    pull = np.einsum("tij,ti->tj", h, y)
    x = np.zeros((rounds, UNKNOWNS))
    on_rows, on_box = np.zeros((rounds, ROWS)), x
    price_rows, price_box = np.zeros((rounds, ROWS)), x
    for _ in range(ITERATIONS):
        wanted = small * x + pull + WEIGHT * on_box - price_box
        wanted = wanted + (transposed @ (WEIGHT * on_rows - price_rows)[:, :, None])[:, :, 0]
        x = (inverse @ wanted[:, :, None])[:, :, 0]
        rows = RELAXED * (a @ x[:, :, None])[:, :, 0] + (1 - RELAXED) * on_rows
        box = RELAXED * x + (1 - RELAXED) * on_box
        on_rows = np.minimum(rows + price_rows / WEIGHT, b)
        on_box = np.clip(box + price_box / WEIGHT, 0, 1)
        price_rows = price_rows + WEIGHT * (rows - on_rows)
        price_box = price_box + WEIGHT * (box - on_box)
    used = np.maximum((a @ on_box[:, :, None])[:, :, 0], b)
    best = on_box * np.min(b / np.where(used > 0, used, 1), axis=1, keepdims=True)
    errors = (h @ best[:, :, None])[:, :, 0] - y
    return best, np.sum(errors**2, axis=1) / 2


def _best_measurements(z: Any, rounds: int) -> float:
    return float(best_of_each_round(z, rounds)[1].sum())


STREAMS = (
    Stream(
        "three-rows",
        "linear losses of three parts on [-1, 1]^2, three fixed rows with random entries",
        three_rows,
        _three_parts,
        "the example of Yu & Neely, JMLR 21, 2020, with the parameters of the code of Chaudhary "
        "(OCO-Long-Term-Constraints)",
        known={"smoothness": "affine"},
        longest=LONGEST,
        cumulative=False,
        family="three-rows",
    ),
    Stream(
        "box-in-ball",
        "losses 3 |x - theta_t|^2 on the unit disc, |x_i| <= 1/2",
        box_in_ball,
        _centres,
        "Hutchinson & Alizadeh, ICML 2025, with the parameters of their code "
        "(OCO-Polyak-Feasibility-Steps)",
        "strongly convex",
        known={"Slater gap": "0.5", "error bound": "0.707", "strong convexity": "6"},
        feasible=Box(-0.5, 0.5, shape=2),
        family="box-in-ball",
    ),
    Stream(
        "online-regression",
        "squared errors of ten unknowns in [0, 1], four rows A_t x <= b_t that change",
        regression,
        _measurements,
        "Ferreira & Soares, arXiv 2503.13366, with the parameters of their code (Adv-COCO)",
        "changing constraints",
        known={"Slater gap": "none", "smoothness": "affine"},
        shifting=_best_measurements,
        shifts="the best decision of each round, up to a few parts in a thousand",
        longest=2**12,  # what the published results of the suite have
        family="online-regression",
    ),
)

"""Approximation by doubly stochastic matrices. Losses are strongly convex; each equality is two
inequalities."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constants import Constants
from ...problem.domains import Ball
from ...problem.problem import Problem
from ...problem.transforms import max_of
from ..stream import Stream


@dataclass(frozen=True)
class Choice:
    """A choice of what the paper does not specify."""

    size: int = 10
    """d, where the matrices are d x d."""

    @property
    def label(self) -> str:
        """A short text for tables."""
        return f"d = {self.size}"


DEFAULT = Choice()
"""What the reproduction of the paper uses first."""


def problem(choice: Choice = DEFAULT, aggregated: bool = True) -> Problem:
    """Return the problem: minimise sum_t 0.5 ||Y_t - X||_F^2 subject to X 1 = 1, X' 1 = 1, X >= 0.

    The domain is the ball of radius sqrt(d) around 0. With `aggregated`, the constraints are
    replaced by their maximum.
    """
    d = choice.size
    radius = d**0.5
    constants = Constants(
        loss_lipschitz=2 * radius,
        loss_range=2.0 * d,  # half the square of the largest distance; the smallest loss is 0
        constraint_lipschitz=radius,
        constraint_range=d + 1.0,
        strong_convexity=1.0,
        constraint_smoothness=0.0,
    )
    instance = Problem(_loss, _excess, Ball(radius, shape=(d, d)), constants)
    return max_of(instance) if aggregated else instance


def _loss(x: jax.Array, order: jax.Array) -> jax.Array:
    # Y_t has its ones at (i, order_i). A stream of whole matrices would be d times as large.
    e = x - (order[:, None] == jnp.arange(order.shape[0])[None, :]).astype(x.dtype)
    return 0.5 * jnp.vdot(e, e)


def _excess(x: jax.Array) -> tuple[jax.Array, ...]:
    rows, columns = x.sum(axis=1), x.sum(axis=0)
    return rows - 1, 1 - rows, columns - 1, 1 - columns, -x


def permutations(size: int, seeds: int, rounds: int) -> Array:
    """Draw random permutations with shape (seed, round, d). Entry i is the column of the 1 in row i
    of Y_t."""
    return np.stack([_permutations(size, seed, rounds) for seed in range(seeds)])


def _permutations(size: int, seed: int, rounds: int) -> Array:
    drawn = np.random.default_rng([0, 2, seed]).random((rounds, size))
    return drawn.argsort(axis=1).astype(np.int32)


STREAMS = (
    Stream(
        "doubly-stochastic",
        "5 x 5 matrices near random permutations, rows and columns sum to 1, entries are not "
        "negative",
        partial(problem, Choice(5), aggregated=False),
        partial(_permutations, 5),
        "Yuan & Lamperski, NeurIPS 2018, figure 2",
        "strongly convex",
        known={"Slater gap": "none: equalities", "smoothness": "affine", "strong convexity": "1"},
        longest=2**13,
        family="doubly-stochastic",
    ),
)

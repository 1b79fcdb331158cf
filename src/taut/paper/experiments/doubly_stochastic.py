"""Approximation by doubly stochastic matrices (Fig. 2). Losses are strongly convex; each equality is two inequalities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ...arena.contest import Contestant, contest
from ...judge.hindsight import hindsight
from ...play import metrics
from ...play.simulate import simulate
from ...problem.constants import Constants
from ...problem.domains import Ball
from ...problem.problem import Problem
from ...problem.transforms import max_of
from ..contestants import for_strongly_convex_losses

if TYPE_CHECKING:
    import xarray

    from ...modelling.model import Model

__all__ = ["CHOICES", "Choice", "model", "permutations", "play", "problem"]


@dataclass(frozen=True)
class Choice:
    """A choice of what the paper does not specify."""

    size: int = 10
    """d, where the matrices are d x d."""

    @property
    def label(self) -> str:
        """A short text for tables."""
        return f"d = {self.size}"


CHOICES = (Choice(), Choice(5), Choice(15))


def problem(choice: Choice = CHOICES[0], aggregated: bool = True) -> Problem:
    """Return the problem: minimise sum_t 0.5 ||Y_t - X||_F^2 subject to X 1 = 1, X' 1 = 1, X >= 0.

    The domain is the ball of radius sqrt(d) around 0. With `aggregated`, the constraints are replaced by their maximum.
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


def model(choice: Choice = CHOICES[0]) -> Model:
    """Return the same problem, written in CVXPY. The data of a round are the matrix Y_t itself."""
    import cvxpy as cp

    from ...modelling.model import from_cvxpy

    shape, known = (choice.size, choice.size), problem(choice, aggregated=False)
    x, y = cp.Variable(shape, name="x"), cp.Parameter(shape, name="y", bounds=[0, 1])
    doubly_stochastic = [cp.sum(x, axis=1) == 1, cp.sum(x, axis=0) == 1, x >= 0]
    return from_cvxpy(0.5 * cp.sum_squares(x - y), doubly_stochastic, known.domain, known.constants)


def _loss(x: jax.Array, order: jax.Array) -> jax.Array:
    # Y_t has its ones at (i, order_i). A stream of whole matrices would be d times as large.
    e = x - (order[:, None] == jnp.arange(order.shape[0])[None, :]).astype(x.dtype)
    return 0.5 * jnp.vdot(e, e)


def _excess(x: jax.Array) -> tuple[jax.Array, ...]:
    rows, columns = x.sum(axis=1), x.sum(axis=0)
    return rows - 1, 1 - rows, columns - 1, 1 - columns, -x


def permutations(size: int, seeds: int, rounds: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Draw random permutations with shape (seed, round, d). Entry i is the column of the 1 in row i of Y_t."""
    return np.stack(
        [
            np.random.default_rng([seed, 2, s]).random((rounds, size)).argsort(axis=1).astype(np.int32)
            for s in range(seeds)
        ]
    )


def play(
    choice: Choice, horizons: Sequence[int], seeds: int, seed: int = 0,
    contestants: Sequence[Contestant] | None = None, done: Callable[[], None] = lambda: None,
) -> xarray.Dataset:  # fmt: skip
    """Simulate all learners for all horizons and sequences."""
    contestants = for_strongly_convex_losses() if contestants is None else contestants
    instance, orders = problem(choice), permutations(choice.size, seeds, max(horizons), seed)
    best = hindsight(instance, orders, seeds=seeds, prefixes=list(horizons))
    data = contest(contestants, instance, orders, horizons, seeds, best.loss, done)
    data["excess"] = (data["violation"].dims, _signed(contestants, choice, orders, horizons, seeds))
    data.attrs |= {"choice": choice.label, "size": choice.size}
    return data


def _signed(
    contestants: Sequence[Contestant], choice: Choice, orders: np.ndarray[Any, Any], horizons: Sequence[int], seeds: int
) -> np.ndarray[Any, Any]:
    """Return the largest signed sum of a single constraint, by (contestant, seed, horizon).

    The aggregated constraint max(h, -h) is never negative, so its signed sum cannot cancel. The sums of single constraints can.
    """
    played, single = problem(choice), problem(choice, aggregated=False)

    def one(contestant: Contestant) -> np.ndarray[Any, Any]:
        columns = []
        for horizon in horizons:
            learner = contestant.make(played.constants, max(horizons) if contestant.anytime else horizon)
            run = simulate(learner, played, orders, horizon=horizon, seeds=seeds, record=(), score=single)
            columns.append(metrics.excess(run))
        return np.stack(columns, axis=-1)

    with ThreadPoolExecutor(2) as pool:
        return np.stack(list(pool.map(one, contestants)))

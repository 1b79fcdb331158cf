"""Approximation by doubly stochastic matrices: strongly convex losses, equalities as pairs of inequalities (Fig. 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ...arena.contest import Contestant, contest
from ...judge.hindsight import hindsight
from ...problem.constants import Constants
from ...problem.domains import Ball
from ...problem.problem import Problem, max_of
from ..contestants import for_strongly_convex_losses

if TYPE_CHECKING:
    import xarray

    from ...modelling.model import Model

__all__ = ["CHOICES", "Choice", "model", "permutations", "play", "problem"]


@dataclass(frozen=True)
class Choice:
    """What the paper leaves open."""

    size: int = 10
    """d, of the d x d matrices."""

    @property
    def label(self) -> str:
        """For tables."""
        return f"d = {self.size}"


CHOICES = (Choice(), Choice(5), Choice(15))


def problem(choice: Choice = CHOICES[0], aggregated: bool = True) -> Problem:
    """Minimise sum 0.5 ||Y_t - X||_F^2 over X 1 = 1, X' 1 = 1, X >= 0; the outer ball has radius sqrt(d) around 0."""
    d = choice.size
    radius = d**0.5
    constants = Constants(
        loss_lipschitz=2 * radius,
        loss_range=2.0 * d,  # half the square of the largest distance, down to 0
        constraint_lipschitz=radius,
        constraint_range=d + 1.0,
        strong_convexity=1.0,
        constraint_smoothness=0.0,
    )
    game = Problem(_loss, _excess, Ball(radius, shape=(d, d)), constants)
    return max_of(game) if aggregated else game


def model(choice: Choice = CHOICES[0]) -> Model:
    """The same game in CVXPY; a round's data are the matrix Y_t itself."""
    import cvxpy as cp

    from ...modelling.model import from_cvxpy

    shape, known = (choice.size, choice.size), problem(choice, aggregated=False)
    x, y = cp.Variable(shape, name="x"), cp.Parameter(shape, name="y", bounds=[0, 1])
    doubly_stochastic = [cp.sum(x, axis=1) == 1, cp.sum(x, axis=0) == 1, x >= 0]
    return from_cvxpy(0.5 * cp.sum_squares(x - y), doubly_stochastic, known.domain, known.constants)


def _loss(x: jax.Array, order: jax.Array) -> jax.Array:
    # Y_t has its ones at (i, order_i): a stream of whole matrices would be d times as long.
    e = x - (order[:, None] == jnp.arange(order.shape[0])[None, :]).astype(x.dtype)
    return 0.5 * jnp.vdot(e, e)


def _excess(x: jax.Array) -> tuple[jax.Array, ...]:
    rows, columns = x.sum(axis=1), x.sum(axis=0)
    return rows - 1, 1 - rows, columns - 1, 1 - columns, -x


def permutations(size: int, seeds: int, rounds: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Random permutations, (seed, round, d), each a matrix Y_t by its rows' columns."""
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
    """All learners over all horizons and sequences."""
    contestants = for_strongly_convex_losses() if contestants is None else contestants
    game, orders = problem(choice), permutations(choice.size, seeds, max(horizons), seed)
    best = hindsight(game, orders, seeds=seeds, prefixes=list(horizons))
    data = contest(contestants, game, orders, horizons, seeds, best.loss, done)
    data.attrs |= {"choice": choice.label, "size": choice.size}
    return data

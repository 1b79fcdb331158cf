"""Problems with known answers: exact constants, the best decision in closed form, random and
adversarial streams.

Losses and constraints are module-level functions, so that all checks of a problem share its
compiled programs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..problem.constants import Constants
from ..problem.domains import Ball, Box, Domain, L1Ball
from ..problem.problem import Problem
from ..problem.transforms import Tightened

ROUNDS, SEEDS = 120, 3


@dataclass(frozen=True, eq=False)
class KnownProblem:
    """A problem with its answer. Instances are compared by identity and can be cache keys."""

    name: str
    problem: Problem
    draw: Callable[[np.random.Generator, int], Any]
    """(generator, rounds) -> the data of that many rounds."""
    best: Callable[[Any], tuple[Array, float]]
    """Data of one seed -> the best fixed feasible decision and its total loss."""
    reveal: Callable[[jax.Array, jax.Array, jax.Array], Any]
    """An adversary that reacts: its data are of the kind that `best` understands."""
    feasible: Domain | None = None
    """The feasible set, if it has an exact projection."""

    def stream(self, seeds: int = SEEDS, rounds: int = ROUNDS, seed: int = 0) -> Any:
        """Data with leading axes (seed, round)."""
        generators = [np.random.default_rng([seed, k]) for k in range(seeds)]
        return jax.tree.map(
            lambda *a: np.stack(a), *(self.draw(generator, rounds) for generator in generators)
        )

    def optimum(self, stream: Any) -> Array:
        """The total loss of the best decision, for each seed."""
        seeds = len(jax.tree.leaves(stream)[0])
        return np.array(
            [self.best(jax.tree.map(lambda a, k=k: a[k], stream))[1] for k in range(seeds)]
        )

    @cache  # noqa: B019 - cases live as long as the module
    def lowered(self, by: float) -> Problem:
        """The same problem with constraints g - by: the number is traced, so all levels share one
        compiled game."""
        p = self.problem
        return Problem(p.loss, Tightened(p.constraints, -float(by)), p.domain, p.constants)

    def replay(self, decisions: Array, key: jax.Array) -> Any:
        """What the adversary revealed against the decisions (seed, round, ...) of a simulation with
        this key."""
        keys = jax.random.split(key, len(decisions))
        rounds = jnp.arange(1, decisions.shape[1] + 1, dtype=jnp.int32)
        of_seed = jax.vmap(
            lambda t, x, k: self.reveal(t, x, jax.random.fold_in(k, t)), in_axes=(0, 0, None)
        )
        return jax.tree.map(
            np.asarray, jax.jit(jax.vmap(of_seed, in_axes=(None, 0, 0)))(rounds, decisions, keys)
        )


def _unit(a: Any, length: float = 1.0) -> Any:
    return length * a / np.linalg.norm(a, axis=-1, keepdims=True)


def _away(x: jax.Array, length: float) -> jax.Array:
    """`length` in the direction of x; in that of (1, 1, ...) from the origin."""
    x = jnp.where(jnp.all(x == 0), jnp.ones_like(x), x)
    return length * x / jnp.sqrt(jnp.sum(x**2))


# -- The paper's toy: linear losses on the unit disc, |x_1| + |x_2| <= 1


def linear_loss(x: jax.Array, c: jax.Array) -> jax.Array:
    """Return <c, x>."""
    return c @ x


def l1_excess(x: jax.Array) -> jax.Array:
    """Return |x_1| + |x_2| - 1."""
    return jnp.sum(jnp.abs(x)) - 1


def _toy_draw(generator: np.random.Generator, rounds: int) -> Any:
    return _unit(generator.uniform(size=(rounds, 2)) * np.array([1.2, 1.0]))


def _toy_best(c: Any) -> tuple[Array, float]:
    total = c.sum(axis=0)  # the best vertex: minus the sign of the largest total
    i = int(np.argmax(np.abs(total)))
    x = np.zeros(2)
    x[i] = -np.sign(total[i])
    return x, float(total @ x)


def _toy_reveal(t: jax.Array, x: jax.Array, key: jax.Array) -> Any:
    # Thirty rounds straight out of the square, then thirty back in.
    out = -jnp.where(x >= 0, 1.0, -1.0) / jnp.sqrt(2.0)
    return jnp.where((t // 30) % 2 == 0, out, -out)


TOY = KnownProblem(
    "toy",
    Problem(
        linear_loss,
        l1_excess,
        Ball(1.0, shape=2),
        # g runs from -1 at the centre to sqrt(2) - 1; its slope is (+-1, +-1); outside a vertex g
        # is the distance.
        Constants(
            loss_lipschitz=1.0,
            constraint_lipschitz=2**0.5,
            loss_range=2.0,
            constraint_range=1.0,
            slater=1.0,
            error_bound=1.0,
        ),
    ),
    _toy_draw,
    _toy_best,
    _toy_reveal,
    L1Ball(1.0, shape=2),
)


# -- The same with strongly convex losses


def quadratic_loss(x: jax.Array, c: jax.Array) -> jax.Array:
    """Return |x + 1.5 c|^2 / 2."""
    return jnp.sum((x + 1.5 * c) ** 2) / 2


def _onto_square(y: Array) -> Array:
    """The nearest point with |x_1| + |x_2| <= 1, by bisection on the threshold."""
    if np.abs(y).sum() <= 1:
        return y
    low, high = 0.0, float(np.abs(y).max())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(np.abs(y) - middle, 0).sum() > 1 else (low, middle)
    return np.sign(y) * np.maximum(np.abs(y) - high, 0)


def _strong_best(c: Any) -> tuple[Array, float]:
    x = _onto_square(-1.5 * c.mean(axis=0))  # the sum of squares is smallest nearest to their mean
    return x, float(np.sum((x + 1.5 * c) ** 2) / 2)


STRONG = KnownProblem(
    "strong",
    Problem(
        quadratic_loss,
        l1_excess,
        Ball(1.0, shape=2),
        # The gradient x + 1.5 c is at most 2.5 long; losses run from 0.5^2 / 2 to 2.5^2 / 2.
        Constants(
            loss_lipschitz=2.5,
            constraint_lipschitz=2**0.5,
            loss_range=3.0,
            constraint_range=1.0,
            strong_convexity=1.0,
            slater=1.0,
            error_bound=1.0,
        ),
    ),
    _toy_draw,
    _strong_best,
    _toy_reveal,
    L1Ball(1.0, shape=2),
)


# -- A polyhedron: six scaled rows that cut a box out of a ball whose centre is not 0

CENTRE, LOWER, UPPER = (
    np.array([0.5, -0.25, 0.0]),
    np.array([-0.5, -1.0, -0.75]),
    np.array([1.0, 0.5, 1.0]),
)
ROWS = np.concatenate([np.diag([2.0, 1.0, 1.0]), -np.diag([1.0, 1.0, 0.5])])
LEVELS = np.concatenate([[2.0, 1.0, 1.0] * UPPER, -np.array([1.0, 1.0, 0.5]) * LOWER])


def rows_excess(x: jax.Array) -> jax.Array:
    """Return A x - b."""
    return jnp.asarray(ROWS, x.dtype) @ x - jnp.asarray(LEVELS, x.dtype)


def _rows_draw(generator: np.random.Generator, rounds: int) -> Any:
    return _unit(generator.normal(size=(rounds, 3)) + np.array([1.0, -1.0, 0.5]), 3.0)


def _rows_best(c: Any) -> tuple[Array, float]:
    total = c.sum(axis=0)
    x = np.where(total > 0, LOWER, UPPER)
    return x, float(total @ x)


def _rows_reveal(t: jax.Array, x: jax.Array, key: jax.Array) -> Any:
    return -_away(x - jnp.asarray(CENTRE, x.dtype), 3.0)


POLYHEDRON = KnownProblem(
    "polyhedron",
    Problem(
        linear_loss,
        rows_excess,
        Ball(2.0, centre=CENTRE),
        # Slater: the middle of the box is 0.875 from its third lower face, scaled by 0.5. Error
        # bound: at most three faces are passed at once, and the flattest row has slope 0.5.
        Constants(
            loss_lipschitz=3.0,
            constraint_lipschitz=2.0,
            loss_range=12.0,
            constraint_range=float(
                np.max(np.abs(ROWS @ CENTRE - LEVELS) + 2.0 * np.linalg.norm(ROWS, axis=1))
            ),
            constraint_smoothness=0.0,
            slater=0.4375,
            error_bound=0.5 / 3**0.5,
        ),
    ),
    _rows_draw,
    _rows_best,
    _rows_reveal,
    Box(LOWER, UPPER),
)


# -- Doubly stochastic matrices, 3 x 3: 21 constraints, equalities as pairs, so no Slater point

PERMUTATIONS = np.array([np.eye(3)[list(p)] for p in itertools.permutations(range(3))])
STRETCH = 1.2
"""Data are stretched permutations: their mean is not doubly stochastic, so the constraints bind."""


def matching_loss(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return |x - y|^2 / 2."""
    return jnp.sum((x - y) ** 2) / 2


def doubly_stochastic_excess(x: jax.Array) -> tuple[jax.Array, ...]:
    """Return the excess of row sums, column sums (each as a pair of inequalities) and signs."""
    rows, columns = jnp.sum(x, axis=1) - 1, jnp.sum(x, axis=0) - 1
    return rows, -rows, columns, -columns, -x


def _doubly_draw(generator: np.random.Generator, rounds: int) -> Any:
    return (
        STRETCH * PERMUTATIONS[generator.choice(6, size=rounds, p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.1])]
    )


def _doubly_best(y: Any) -> tuple[Array, float]:
    # The mean of the data has row and column sums STRETCH; the nearest matrix with sums 1 lowers
    # all entries alike.
    x = y.mean(axis=0) - (STRETCH - 1) / 3
    assert x.min() >= 0, "too few rounds for the closed form: an entry would be negative"
    return x, float(np.sum((x - y) ** 2) / 2)


def _doubly_reveal(t: jax.Array, x: jax.Array, key: jax.Array) -> Any:
    every = jnp.asarray(STRETCH * PERMUTATIONS, x.dtype)
    return every[jnp.argmin(jnp.tensordot(every, x, axes=2))]  # the permutation least like x


DOUBLY = KnownProblem(
    "doubly-stochastic",
    Problem(
        matching_loss,
        doubly_stochastic_excess,
        Ball(3**0.5, shape=(3, 3)),
        # |x - y| runs from 0.2 sqrt(3) to 2.2 sqrt(3); a row sum has slope sqrt(3) and runs from -3
        # to 3.
        Constants(
            loss_lipschitz=2.2 * 3**0.5,
            constraint_lipschitz=3**0.5,
            loss_range=7.2,
            constraint_range=4.0,
            constraint_smoothness=0.0,
            strong_convexity=1.0,
        ),
    ),
    _doubly_draw,
    _doubly_best,
    _doubly_reveal,
)


# -- Half-planes that move and tilt their weight every round: s_t <a_i, x> <= s_t b_ti, i = 1..4

NORMALS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])


def moving_loss(x: jax.Array, z: Any) -> jax.Array:
    """Return <cost, x>."""
    return z["cost"] @ x


def half_plane_excess(x: jax.Array, z: Any) -> jax.Array:
    """Return the excess of the round's half-planes."""
    return z["normals"] @ x - z["levels"]


def _moving_draw(generator: np.random.Generator, rounds: int) -> Any:
    scale = generator.choice([0.5, 1.0], size=(rounds, 1))
    return {
        "cost": _unit(generator.normal(size=(rounds, 2)) + np.array([1.0, 0.5])),
        "normals": scale[..., None] * NORMALS,
        "levels": scale * generator.uniform(0.2, 0.6, size=(rounds, 4)),
    }


def _moving_best(z: Any) -> tuple[Array, float]:
    # Feasible in every round: a box inside the disc, because levels are at most 0.6.
    right, top, left, bottom = (z["levels"] / np.linalg.norm(z["normals"], axis=-1)).min(axis=0)
    total = z["cost"].sum(axis=0)
    x = np.where(total > 0, [-left, -bottom], [right, top])
    return x, float(total @ x)


def _moving_reveal(t: jax.Array, x: jax.Array, key: jax.Array) -> Any:
    levels = jax.random.uniform(key, (4,), x.dtype, 0.2, 0.6)
    return {"cost": -_away(x, 1.0), "normals": jnp.asarray(NORMALS, x.dtype), "levels": levels}


MOVING = KnownProblem(
    "moving",
    Problem(
        moving_loss,
        half_plane_excess,
        Ball(1.0, shape=2),
        # The centre has a margin of at least 0.2, halved by the smaller weight.
        Constants(
            loss_lipschitz=1.0,
            constraint_lipschitz=1.0,
            loss_range=2.0,
            constraint_range=1.6,
            constraint_smoothness=0.0,
            constraint_count=4,
            slater=0.1,
        ),
    ),
    _moving_draw,
    _moving_best,
    _moving_reveal,
)


# -- A matrix in a box, and one smooth constraint: |X|^2 <= 1


def inner_loss(x: jax.Array, c: jax.Array) -> jax.Array:
    """Return <c, x> of two matrices."""
    return jnp.sum(c * x)


def disc_excess(x: jax.Array) -> jax.Array:
    """Return (|x|^2 - 1) / 2."""
    return (jnp.sum(x**2) - 1) / 2


def _matrix_draw(generator: np.random.Generator, rounds: int) -> Any:
    return _unit(generator.normal(size=(rounds, 6)) + 0.7, 2.0).reshape(rounds, 2, 3)


def _matrix_best(c: Any) -> tuple[Array, float]:
    total = c.sum(axis=0)
    return -total / np.linalg.norm(total), -float(np.linalg.norm(total))


def _matrix_reveal(t: jax.Array, x: jax.Array, key: jax.Array) -> Any:
    return -_away(x, 2.0)


MATRIX = KnownProblem(
    "matrix",
    Problem(
        inner_loss,
        disc_excess,
        Box(-1.0, 1.0, shape=(2, 3)),
        # |x| <= sqrt(6); g = (|x| - 1)(|x| + 1)/2 is at least the distance to the ball.
        Constants(
            loss_lipschitz=2.0,
            constraint_lipschitz=6**0.5,
            loss_range=4 * 6**0.5,
            constraint_range=2.5,
            constraint_smoothness=1.0,
            slater=0.5,
            error_bound=1.0,
        ),
    ),
    _matrix_draw,
    _matrix_best,
    _matrix_reveal,
    Ball(1.0, shape=(2, 3)),
)


PROBLEMS = (TOY, STRONG, POLYHEDRON, DOUBLY, MOVING, MATRIX)

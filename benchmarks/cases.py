"""The problems of the suite, each with its stream, its learner and the numbers that the
hand-written loops need."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut

Array = np.ndarray[Any, Any]
NUMBERS = 400_000
"""Numbers of all decisions of a run of half-space, at most."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with its stream and a learner."""

    name: str
    kind: str
    """Name of the hand-written loop for this problem."""
    problem: taut.Problem
    horizon: int
    draw: Callable[[np.random.Generator, int], Array]
    size: int
    """d, in the sense of the hand-written loops."""
    count: int = 1
    """m, in the sense of the hand-written loops."""
    scored: int = 1
    """Number of constraints whose totals are kept; 1 if the constraints are aggregated."""
    fixed: Array = field(default_factory=lambda: np.zeros(1))
    start: Array | None = None
    slow: int = 200
    """Number of rounds for implementations without a compiled loop."""
    method: str = "clipped-ogd"
    """Name of the learner: "clipped-ogd", or "half-space", the default of taut."""

    def with_method(self, method: str) -> Case:
        """Return the same problem, played by another learner."""
        return replace(self, method=method)

    @property
    def sweeps_do(self) -> bool:
        """Whether two sweeps over the cuts of half-space do in every round. The hand-written
        loops have no exact projection, which other rounds need."""
        return not self.name.startswith("polyhedron")

    @property
    def rounds(self) -> int:
        """How many rounds are timed: all, unless a round of half-space takes too long for that."""
        if self.method == "clipped-ogd":
            return self.horizon
        return min(self.horizon, NUMBERS // self.first.size)

    @property
    def radius(self) -> float:
        """Radius of the ball that is the domain."""
        return float(self.problem.domain.radius)

    @property
    def first(self) -> Array:
        """The first decision x_1."""
        return np.zeros(self.problem.domain.shape) if self.start is None else self.start

    @property
    def learner(self) -> Any:
        """The learner. Clipped-OGD is tuned for the horizon of the case even if an implementation
        simulates only a prefix."""
        if self.method == "half-space":
            return taut.learner("half-space", self.problem)
        return taut.ClippedOGD.tuned(self.problem.constants, self.horizon)

    @property
    def steps(self) -> tuple[float, float]:
        """eta and sigma of Clipped-OGD as floats; half-space has no such numbers."""
        if self.method == "half-space":
            return 0.0, 0.0
        return float(self.learner.eta.value), float(self.learner.sigma)

    def data(self, seeds: int) -> Array:
        """Return the streams with shape (seed, round, ...). The stream of a seed does not depend on
        the number of seeds."""
        return np.stack([_drawn(self, seed) for seed in range(seeds)])

    def placed(self, seeds: int, rounds: int, floating: str = "float64") -> jax.Array:
        """Return the first rounds of the streams in JAX's memory, whose addresses are suitable for
        vector instructions.

        taut and hand-written C read it in place. C takes longer if arrays begin between two cache
        lines.
        """
        return jax.device_put(self.data(seeds)[:, :rounds].astype(floating))


@cache
def _drawn(case: Case, seed: int) -> Array:
    return case.draw(np.random.default_rng(seed), case.horizon)


def forget() -> None:
    """Free all data drawn so far."""
    _drawn.cache_clear()


def toy(horizon: int = 20_000) -> Case:
    """First problem of the paper: a linear loss on the l1 ball in two dimensions."""

    def draw(rng: np.random.Generator, rounds: int) -> Array:
        c = rng.uniform(size=(rounds, 2)) * [1.2, 1.0]
        return c / np.linalg.norm(c, axis=-1, keepdims=True)

    problem = taut.Problem(
        lambda x, c: c @ x,
        lambda x: jnp.sum(jnp.abs(x)) - 1,
        taut.Ball(1.0, shape=2),
        taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=math.sqrt(2), constraint_range=1.0),
    )
    return Case("toy", "toy", problem, horizon, draw, 2, slow=20_000)


def doubly_stochastic(d: int, horizon: int) -> Case:
    """Second problem of the paper: approximate permutation matrices by a doubly stochastic matrix.

    The first decision is a random matrix. From the centre, all row sums would stay equal up to
    rounding, and the rounding errors of each implementation would decide which of the tied
    constraints are active.
    """

    def draw(rng: np.random.Generator, rounds: int) -> Array:
        order = np.argsort(rng.random((rounds, d)), axis=1)
        return np.asarray(order[:, :, None] == np.arange(d), float)

    def loss(x: Any, y: Any) -> Any:
        error = x - y
        return 0.5 * jnp.vdot(error, error)

    def constraints(x: Any) -> Any:
        rows, columns = jnp.sum(x, 1) - 1, jnp.sum(x, 0) - 1
        return rows, -rows, columns, -columns, -x

    constants = taut.Constants(loss_lipschitz=2 * math.sqrt(d), constraint_lipschitz=math.sqrt(d))
    problem = taut.max_of(
        taut.Problem(loss, constraints, taut.Ball(math.sqrt(d), shape=(d, d)), constants)
    )
    start = np.random.default_rng(99).normal(size=(d, d)) / d
    return Case(
        f"doubly stochastic {d}x{d}",
        "doubly_stochastic",
        problem,
        horizon,
        draw,
        d,
        4 * d + d * d,
        start=start,
        slow=1000,
    )


def dispatch(horizon: int = 20_000) -> Case:
    """Third problem of the paper: three generators, an emission cap and limits, aggregated by their
    maximum."""
    a, b = np.array([0.2, 0.12, 0.14]), np.array([1.5, 1.0, 0.6])
    emission, limit = np.array([0.26, 0.38, 0.37]), np.array([20.0, 15.0, 18.0])
    xi, cap = 0.5, 100.0

    def draw(rng: np.random.Generator, rounds: int) -> Array:
        day = np.sin(2 * np.pi * np.arange(rounds) / 288 + rng.uniform(0, 2 * np.pi))
        return 33 + 6 * day + rng.normal(size=rounds)

    def loss(x: Any, demand: Any) -> Any:
        return jnp.sum((0.5 * a * x + b) * x) + xi * (jnp.sum(x) - demand) ** 2

    def constraints(x: Any) -> Any:
        return jnp.sum(emission * x * x) - cap, -x, x - limit

    radius = float(np.linalg.norm(limit))
    constants = taut.Constants(
        loss_lipschitz=float(
            np.linalg.norm(a * radius + b) + 2 * xi * math.sqrt(3) * (math.sqrt(3) * radius)
        ),
        constraint_lipschitz=float(2 * emission.max() * radius),
    )
    problem = taut.max_of(taut.Problem(loss, constraints, taut.Ball(radius, shape=3), constants))
    fixed = np.concatenate([a, b, emission, limit, [xi, cap]])
    return Case("dispatch", "dispatch", problem, horizon, draw, 3, 7, fixed=fixed, slow=10_000)


def logistic(d: int, groups: int, horizon: int) -> Case:
    """Online logistic regression with one constraint per group of coefficients: a limit on the norm
    of the group.

    The decision is a matrix with one row per group, or a vector if there is one group, so that no
    round reshapes it.
    """
    limit = 2.0 / math.sqrt(groups)
    shape = (d,) if groups == 1 else (groups, d // groups)

    def draw(rng: np.random.Generator, rounds: int) -> Array:
        features = rng.normal(size=(rounds, d)) / math.sqrt(d)
        truth = rng.normal(size=d) * 4
        labels = np.where(rng.random(rounds) < 1 / (1 + np.exp(-features @ truth)), 1.0, -1.0)
        return (features * labels[:, None]).reshape(rounds, *shape)

    def loss(x: Any, z: Any) -> Any:
        return jnp.logaddexp(0.0, -jnp.vdot(z, x))

    def constraints(x: Any) -> Any:
        return jnp.sqrt(1e-16 + jnp.sum(x * x, axis=-1)) - limit

    constants = taut.Constants(loss_lipschitz=2.0, constraint_lipschitz=1.0, constraint_range=10.0)
    problem = taut.Problem(loss, constraints, taut.Ball(4.0, shape=shape), constants)
    name = f"logistic d={d} m={groups}"
    return Case(
        name,
        "logistic",
        problem,
        horizon,
        draw,
        d,
        groups,
        groups,
        fixed=np.array([limit]),
        slow=2000,
    )


def polyhedron(d: int, m: int, horizon: int) -> Case:
    """A linear loss over a polyhedron with dense rows, aggregated by their maximum."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(m, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    bounds = rng.uniform(0.1, 0.3, size=m)
    mean = rng.normal(size=d)

    def draw(rng: np.random.Generator, rounds: int) -> Array:
        c = mean + rng.normal(size=(rounds, d))
        return c / np.linalg.norm(c, axis=1, keepdims=True)

    constants = taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=1.0)
    problem = taut.max_of(
        taut.Problem(
            lambda x, c: c @ x, lambda x: rows @ x - bounds, taut.Ball(1.0, shape=d), constants
        )
    )
    fixed = np.concatenate([rows.ravel(), bounds])
    return Case(
        f"polyhedron d={d} m={m}",
        "polyhedron",
        problem,
        horizon,
        draw,
        d,
        m,
        fixed=fixed,
        slow=1000,
    )


def suite() -> tuple[Case, ...]:
    """Return all problems in the order of the table. With ten coefficients there are at most five
    groups of two."""
    return (
        toy(),
        doubly_stochastic(10, 20_000),
        doubly_stochastic(30, 2000),
        dispatch(),
        logistic(10, 1, 20_000),
        logistic(10, 5, 20_000),
        logistic(100, 1, 10_000),
        logistic(100, 20, 10_000),
        logistic(1000, 1, 5000),
        logistic(1000, 20, 5000),
        polyhedron(100, 1000, 1000),
    )

"""Standard streams on which methods are compared beyond the paper. Each is a problem, its data, and what others measured on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

import taut
from taut.paper.experiments import demand, dispatch, doubly_stochastic, toy
from taut.problem.constants import Constants


@dataclass(frozen=True, eq=False)
class Stream:
    """A problem with data for any horizon up to `longest`."""

    name: str
    problem: Callable[[], taut.Problem]
    data: Callable[[int, int], Any]
    """(seeds, rounds) -> arrays (seed, round, ...), or an adversary reveal(round, decision, key)."""
    longest: int = 2**15
    fixed_length: bool = False
    """Whether the stream has one length only, so that there are no exponents."""
    published: dict[str, str] = field(default_factory=dict)
    """Exponents of the clipped violation that a prototype had, by learner."""

    def simulate(self, learner: Any, rounds: int, seeds: int = 3) -> taut.Run:
        """Play a learner, or a method by its name."""
        data = self.data(seeds, rounds)
        horizon = rounds if callable(data) else None
        count = 1 if self.fixed_length else seeds
        return taut.simulate(learner, self.problem(), data, horizon=horizon, seeds=count, record=())

    def best(self, run: taut.Run) -> Any:
        """The total loss of the best fixed decision, by seed."""
        from taut.play.chunks import revealed_data

        source = revealed_data(run) if callable(self.data(1, 2)) else self.data(run.seeds, run.horizon)
        return taut.hindsight(self.problem(), source, seeds=run.seeds).loss


def linear_loss(x: Any, z: Any) -> Any:
    return z["c"] @ x


def row_excess(x: Any, z: Any) -> Any:
    return z["a"] @ x - z["b"]


def cost(x: Any, c: Any) -> Any:
    return c @ x


@cache
def half_spaces(d: int, rows: int = 64, slack: float = 0.1) -> tuple[Any, Any]:
    """Random half-spaces that share a point with slack."""
    rng = np.random.default_rng([0, d])
    a = rng.normal(size=(rows, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    return a, a @ (0.2 * rng.uniform(-1, 1, size=d) / np.sqrt(d)) + slack


def unit_losses(seeds: int, rounds: int, d: int) -> Any:
    """Linear unit losses with a mean direction."""
    direction = np.random.default_rng([1, d]).normal(size=d)
    c = np.stack([np.random.default_rng([2, s]).normal(size=(rounds, d)) for s in range(seeds)])
    c += direction / np.linalg.norm(direction)
    return c / np.linalg.norm(c, axis=-1, keepdims=True)


@cache
def pool_problem(d: int) -> taut.Problem:
    side = 1 / np.sqrt(d)
    known = Constants(
        loss_lipschitz=1.0, constraint_lipschitz=1.0, constraint_count=1, slater=0.1, constraint_smoothness=0.0
    )
    return taut.Problem(linear_loss, row_excess, taut.Box(-side, side, shape=d), known)


def random_rows(d: int) -> Callable[[int, int], Any]:
    """One random row in every round."""

    def data(seeds: int, rounds: int) -> Any:
        a, b = half_spaces(d)
        i = np.stack([np.random.default_rng([3, s]).integers(len(b), size=rounds) for s in range(seeds)])
        return {"c": unit_losses(seeds, rounds, d), "a": a[i], "b": b[i]}

    return data


@cache
def adaptive_rows(d: int) -> Callable[..., Any]:
    """The most violated row with probability 1/2, else a random one."""
    import jax

    a, b = (jnp.asarray(one) for one in half_spaces(d))
    direction = jnp.asarray(np.random.default_rng([1, d]).normal(size=d))
    direction = direction / jnp.linalg.norm(direction)

    def reveal(t: Any, x: Any, key: Any) -> Any:
        coin, row, loss = jax.random.split(key, 3)
        worst = jnp.argmax(a @ x - b)
        i = jnp.where(jax.random.bernoulli(coin), worst, jax.random.randint(row, (), 0, b.shape[0]))
        c = jax.random.normal(loss, x.shape) + direction
        return {"c": c / jnp.sqrt(jnp.sum(c**2)), "a": a[i], "b": b[i]}

    return reveal


@cache
def polytope() -> taut.Problem:
    a, b = half_spaces(10)

    def excess(x: Any) -> Any:
        return jnp.asarray(a, x.dtype) @ x - jnp.asarray(b, x.dtype)

    side = 1 / np.sqrt(10)
    known = Constants(loss_lipschitz=1.0, constraint_lipschitz=1.0, slater=0.1, constraint_smoothness=0.0)
    return taut.max_of(taut.Problem(cost, excess, taut.Box(-side, side, shape=10), known))


@cache
def dispatch_problem(domain: str, series: str = "caiso") -> taut.Problem:
    return dispatch.problem(dispatch.Choice(domain=domain), float(demand_of(series).max()))


@cache
def demand_of(series: str) -> Any:
    assert series == "caiso"
    return demand.rescaled(demand.packaged(), 33.0)


@cache
def toy_problem() -> taut.Problem:
    return toy.problem()


@cache
def strong_toy() -> taut.Problem:
    known = Constants(
        loss_lipschitz=2.5, constraint_lipschitz=2**0.5, strong_convexity=1.0, slater=1.0, error_bound=1.0
    )
    return taut.Problem(_quadratic, toy._excess, taut.Ball(1.0, shape=2), known)


def _quadratic(x: Any, c: Any) -> Any:
    return jnp.sum((x + 1.5 * c) ** 2) / 2


@cache
def doubly_problem() -> taut.Problem:
    return doubly_stochastic.problem(doubly_stochastic.Choice(size=5))


def doubly_data(seeds: int, rounds: int) -> Any:
    return doubly_stochastic.permutations(5, seeds, rounds)


STREAMS = {
    one.name: one
    for one in (
        Stream("toy", toy_problem, toy.costs, published={
            "half-space-anytime": "0.50", "clipped-ogd": "0.50", "surrogate": "0.51", "surrogate-anytime": "0.50",
            "no-slater": "1.0", "block-frank-wolfe": "0.93",
        }),
        Stream("toy strong", strong_toy, toy.costs),
        Stream("doubly stochastic", doubly_problem, doubly_data, longest=2**12),
        Stream("fixed polytope", polytope, lambda seeds, rounds: unit_losses(seeds, rounds, 10),
               published={"half-space": "K=64x3: below 0", "clipped-ogd": "0.50"}),
        Stream("random rows d=10", lambda: pool_problem(10), random_rows(10),
               published={"half-space": "K=8: -0.08", "clipped-ogd": "0.57"}),
        Stream("random rows d=20", lambda: pool_problem(20), random_rows(20), published={"half-space": "K=32: 0.54"}),
        Stream("adaptive rows d=10", lambda: pool_problem(10), lambda seeds, rounds: adaptive_rows(10),
               published={"half-space": "K=8: 0.51"}),
        Stream("dispatch, ball", lambda: dispatch_problem("ball"), lambda seeds, rounds: demand_of("caiso")[None, :rounds],
               longest=2880, fixed_length=True),
        Stream("dispatch, box", lambda: dispatch_problem("box"), lambda seeds, rounds: demand_of("caiso")[None, :rounds],
               longest=2880, fixed_length=True),
    )
}  # fmt: skip

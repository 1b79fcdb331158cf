"""Transforms of the constraints of a problem. Each returns a new problem, whose constants are
updated.

A transform is a class that wraps constraints and adjusts values and Jacobian products. No maximum
is differentiated: the pull-back of `Max` goes directly to the active constraints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from .. import arguments
from ..engine import register_dataclass
from ..jaxpr.maxima import place_of_largest
from .constants import Constants
from .constraints import Constraints, Linearisation, Parts
from .problem import Problem
from .programs import programs_of


def max_of(problem: Problem) -> Problem:
    """Return the problem with its constraints replaced by their maximum (m = 1)."""
    return _transformed(problem, Max(_checked(problem).constraints))


def log_sum_exp(problem: Problem, temperature: float) -> Problem:
    """Return the problem with its constraints replaced by (1/temperature) log sum exp(temperature
    g_i), a smooth maximum.

    It lies at most ln(m)/temperature above the maximum, so a decision is feasible for it if every
    g_i is below minus that. Its smoothness constant grows with the temperature, so Lemma 1 allows
    temperatures up to the order of T^(1/6). Proposition 1 of the paper has temperature 1, with
    which the paper's own toy problem has no feasible point.
    """
    return _transformed(
        problem,
        LogSumExp(_checked(problem).constraints, arguments.positive("temperature", temperature)),
    )


def squared(problem: Problem) -> Problem:
    """Return the problem with the constraints ([g_i]_+)^2, the paper's g-tilde."""
    return _transformed(problem, Squared(_checked(problem).constraints))


def tightened(problem: Problem, rho: float) -> Problem:
    """Return the problem with the constraints g_i + rho <= 0.

    In a model written in CVXPY, inequalities that became part of the domain are played and
    tightened too. Equations of the domain hold exactly in every round and stay as they are.
    """
    rho = arguments.positive("rho", rho)
    problem = _checked(problem).all_rows()
    return _transformed(problem, Tightened(problem.constraints, rho))


def _checked(problem: Any) -> Problem:
    arguments.instance("problem", problem, Problem, "taut.Problem(...)")
    programs_of(problem)  # its transforms share them, also when each is made for one simulation
    return problem


def _transformed(problem: Problem, constraints: Constraints) -> Problem:
    return problem._with(constraints, constraints.constants(problem.constants))


@dataclass(frozen=True)
class Transform(Constraints):
    """Constraints that are computed from other constraints."""

    inner: Constraints
    aggregates: ClassVar[bool] = False
    """Whether the result is one constraint instead of one for each inner constraint."""

    @property
    def takes_data(self) -> bool:  # type: ignore[override]
        """Whether the inner constraints depend on the round's data."""
        return self.inner.takes_data

    def row_names(self, x: Any = None, z: Any = None) -> tuple[str, ...] | None:
        """Return the names of the inner constraints; one constraint for all of them has no name."""
        return None if self.aggregates else self.inner.row_names(x, z)

    def margin(self, count: int) -> float:
        """rho such that every decision with g_i <= -rho for the `count` inner constraints is
        feasible here too.

        With 0 the feasible sets are the same. For every transform, what is feasible here is
        feasible inside.
        """
        return 0.0

    def implied(
        self, quantity: str, bound: float, horizon: int, count: int, expected: bool = False
    ) -> dict[str, float]:
        """Return what a bound on one quantity of these constraints says about the `count`
        constraints inside.

        Quantities are those of `taut.metrics`: the violation is the sum over rounds of the largest
        clipped value, the squared violation is summed over all constraints, and the excess is the
        signed sum of the worst constraint. The default is for one value that is never below any of
        the inner ones. An `expected` bound is one on a mean over seeds.
        """
        return {quantity: bound * (count if quantity == "squared violation" else 1)}


@register_dataclass
@dataclass(frozen=True)
class Max(Transform):
    """max_i g_i: one constraint, the same feasible set. The first largest has the subgradient."""

    aggregates = True

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The largest value, as a vector of one."""
        return jnp.max(self.inner.values(x, z), keepdims=True)

    def linearise(self, x: jax.Array, z: Any) -> Linearisation:
        """Pull back through the active constraints alone."""
        parts, pull, push = self.inner.in_parts(x, z)
        if sum(part.size for part in parts) == 1:
            return self.inner.linearise(x, z)
        largest = reduce(jnp.maximum, [jnp.max(part) for part in parts])
        active = _active_row([jnp.ravel(part) for part in parts])
        active = [jnp.reshape(mask, part.shape) for mask, part in zip(active, parts, strict=True)]

        def pulled(weights: jax.Array) -> jax.Array:
            return pull([mask * weights[0] for mask in active])

        def pushed(direction: jax.Array) -> jax.Array:
            slopes = push(direction)
            return jnp.reshape(sum(jnp.sum(m * s) for m, s in zip(active, slopes, strict=True)), 1)

        return Linearisation(jnp.reshape(largest, 1), pulled, pushed)

    def constants(self, base: Constants) -> Constants:
        """One constraint; Lipschitz constant and range stay, smoothness is lost."""
        smooth = base.constraint_smoothness if base.constraint_count == 1 else None
        return replace(base, constraint_count=1, constraint_smoothness=smooth)


def _active_row(parts: list[jax.Array]) -> list[jax.Array]:
    """Return one mask per part. One entry of all of them is 1: the place of a largest value."""
    best, place, before = parts[0][0], jnp.asarray(0, jnp.int32), 0
    for part in parts:
        here = place_of_largest(part)
        value = lax.dynamic_index_in_dim(part, here, keepdims=False)
        better = value > best
        best, place = jnp.where(better, value, best), jnp.where(better, here + before, place)
        before += part.shape[0]
    place = lax.optimization_barrier(place)  # one number for all parts
    masks, before = [], 0
    for part in parts:
        places = before + lax.iota(jnp.int32, part.shape[0])
        masks.append((places == place).astype(part.dtype))
        before += part.shape[0]
    return masks


@register_dataclass
@dataclass(frozen=True)
class LogSumExp(Transform):
    r"""(1/tau) log sum_i exp(tau g_i): smooth, between max g and max g + ln(m)/tau.

    The paper's Proposition 1 has tau = 1, which lies up to ln m above the maximum for every T and
    can make the feasible set empty, as it does for the paper's own toy problem.
    """

    temperature: Any
    aggregates = True

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The soft maximum, as a vector of one."""
        return self._soft(self.inner.values(x, z))[0]

    def linearise(self, x: jax.Array, z: Any) -> Linearisation:
        """Pull back through the soft-max weights."""
        values, pull, push = self.inner.linearise(x, z)
        soft, weights = self._soft(values)
        return Linearisation(
            soft, lambda w: pull(weights * w), lambda v: jnp.sum(weights * push(v), keepdims=True)
        )

    def margin(self, count: int) -> float:
        """ln(m) / tau, the largest distance from the maximum."""
        return math.log(count) / float(self.temperature)

    def _soft(self, values: jax.Array) -> tuple[jax.Array, jax.Array]:
        tau = jnp.asarray(self.temperature, values.dtype)
        largest = jnp.max(values, keepdims=True)  # subtracted, or exp overflows
        powers = jnp.exp(tau * (values - largest))
        total = jnp.sum(powers, keepdims=True)
        return largest + jnp.log(total) / tau, powers / total

    def constants(self, base: Constants) -> Constants:
        """Gap ln(m)/tau, smoothness L + tau G_g^2; G_g stays: weights sum to 1."""
        tau, slope, bend = (
            float(self.temperature),
            base.constraint_lipschitz,
            base.constraint_smoothness,
        )
        changes: dict[str, Any] = {
            "constraint_count": 1,
            "constraint_smoothness": None
            if bend is None or slope is None
            else bend + tau * slope**2,
        }
        if base.constraint_count is None:  # the gap is unknown, and so is all that it enters
            return replace(base, **changes, constraint_range=None, slater=None, error_bound=None)
        return _lifted(base, math.log(base.constraint_count) / tau, **changes)


@register_dataclass
@dataclass(frozen=True)
class Squared(Transform):
    """([g_i]_+)^2, the paper's g-tilde: the same feasible set, but no Slater point."""

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The squared clipped values."""
        return jnp.maximum(self.inner.values(x, z), 0) ** 2

    def linearise(self, x: jax.Array, z: Any) -> Linearisation:
        """Chain rule with the factor 2 [g_i]_+."""
        values, pull, push = self.inner.linearise(x, z)
        clipped = jnp.maximum(values, 0)
        return Linearisation(
            clipped**2, lambda w: pull(2 * clipped * w), lambda v: 2 * clipped * push(v)
        )

    def implied(
        self, quantity: str, bound: float, horizon: int, count: int, expected: bool = False
    ) -> dict[str, float]:
        """Bounds on sums follow from those on squares by the inequality of Cauchy and Schwarz."""
        bound = max(bound, 0.0)
        if quantity == "peak violation":
            return {quantity: math.sqrt(bound)}
        if quantity == "squared violation":  # a bound on the sum of fourth powers
            return {
                quantity: math.sqrt(horizon * count * bound),
                "violation": (horizon**3 * bound) ** 0.25,
            }
        # What is summed is never negative, so the excess is the largest sum of squares of a single
        # constraint, and the violation the sum of the largest squares.
        every = count * bound
        largest = bound if quantity == "violation" else every
        single = math.sqrt(horizon * bound)
        return {
            "squared violation": every,
            "violation": math.sqrt(horizon * largest),
            "excess": single,
        }

    def constants(self, base: Constants) -> Constants:
        """G_g becomes 2 D G_g, D becomes D^2, L becomes 2 (G_g^2 + D L)."""
        slope, reach, bend = (
            base.constraint_lipschitz,
            base.constraint_range,
            base.constraint_smoothness,
        )
        return replace(
            base,
            constraint_lipschitz=None if slope is None or reach is None else 2 * reach * slope,
            constraint_range=None if reach is None else reach**2,
            constraint_smoothness=None
            if slope is None or reach is None or bend is None
            else 2 * (slope**2 + reach * bend),
            slater=None,
            error_bound=None,
        )


@register_dataclass
@dataclass(frozen=True)
class Tightened(Transform):
    """g_i + rho: a violation of at most rho does not violate the original constraint."""

    rho: Any

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The values, raised by the margin."""
        values = self.inner.values(x, z)
        return values + jnp.asarray(self.rho, values.dtype)

    def linearise(self, x: jax.Array, z: Any) -> Linearisation:
        """The Jacobian does not change."""
        inner = self.inner.linearise(x, z)
        return inner._replace(values=inner.values + jnp.asarray(self.rho, inner.values.dtype))

    def in_parts(self, x: jax.Array, z: Any) -> Parts:
        """The parts, raised by the margin."""
        inner = self.inner.in_parts(x, z)
        return inner._replace(
            values=[part + jnp.asarray(self.rho, part.dtype) for part in inner.values]
        )

    def margin(self, count: int) -> float:
        """rho."""
        return float(self.rho)

    def implied(
        self, quantity: str, bound: float, horizon: int, count: int, expected: bool = False
    ) -> dict[str, float]:
        """The margin is subtracted; [h - rho]_+ is at most h^2 / (4 rho) for h >= 0."""
        rho = float(self.rho)
        # The mean of a clipped number is not the clipped mean.
        if quantity == "peak violation" and not expected:
            above = max(bound - rho, 0.0)
            return {
                quantity: above,
                "violation": horizon * above,
                "squared violation": count * horizon * above**2,
            }
        if quantity == "squared violation":
            return {quantity: bound, "violation": bound / (4 * rho)}
        if quantity == "excess":
            return {quantity: bound - rho * horizon}
        return {quantity: bound}

    def constants(self, base: Constants) -> Constants:
        """The range grows by rho and Slater's margin shrinks by it."""
        rho = float(self.rho)
        if base.slater is not None and rho >= base.slater and "slater" not in base.estimated:
            raise ValueError(
                f"rho: got {rho:g}; expected less than the problem's Slater margin "
                f"{base.slater:g}, beyond which no decision is known to be feasible"
            )
        return _lifted(base, rho, gap=base.gap)


def _lifted(base: Constants, by: float, **changes: Any) -> Constants:
    """Return the constants of constraints that lie between g and g + by."""
    margin = None if base.slater is None or base.slater <= by else base.slater - by
    return replace(
        base,
        **{
            "constraint_range": None
            if base.constraint_range is None
            else base.constraint_range + by,
            "slater": margin,
            "error_bound": None,
            "gap": base.gap + by,
            **changes,
        },
    )

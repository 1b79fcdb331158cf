"""Small convex quadratic programs, solved inside compiled code by a primal-dual interior-point
method.

    minimise 1/2 w'Pw + c'w + caps'e   subject to   A w + a = 0,  G w + h <= e,  e >= 0

P, A, G and caps are constants; a, h and c change from call to call. The caps bound the multipliers
of the limits G w + h <= 0: if they are at least as large as the multipliers of the program without
e, then e = 0 and both programs have the same value. With them there always is a point with slack,
so that the method converges from every start and its multipliers, which are gradients, stay
bounded.

The method is Mehrotra's predictor-corrector method. Linear systems are solved by symmetric
elimination written in JAX, without LAPACK, whose calls inside compiled loops could wait for one
another without end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...engine import Array

if TYPE_CHECKING:
    from .inner_minimum import Inner

STEPS = 60
"""The largest number of steps; most programs take 10 to 20."""
PASSES = 3
"""The number of times that a linear system is solved, each time for what is left over."""
PATIENCE = 6
"""The number of steps without improvement after which the best point is returned."""
FRACTION = 0.995
"""The share of the step to the boundary that is taken."""


class Solved(NamedTuple):
    """The solution w, the multipliers of all rows, and the value of the Lagrangian at both."""

    value: jax.Array
    point: jax.Array
    multipliers: jax.Array


class _State(NamedTuple):
    w: jax.Array
    nu: jax.Array
    s: jax.Array
    """The slack e - G w - h,"""
    lam: jax.Array
    """its multiplier,"""
    e: jax.Array
    kappa: jax.Array
    """and the multiplier of e >= 0."""


def minimum(inner: Inner, rows: jax.Array, costs: jax.Array) -> jax.Array:
    """The smallest value, as a function of the right-hand sides `rows` = (a, h) and the costs c.

    Its gradient follows from the envelope theorem: the multipliers are the derivatives in `rows`,
    the solution is that in `costs`. The function has no second derivatives: they are taken to be
    zero.
    """

    @jax.custom_jvp
    def value(rows: jax.Array, costs: jax.Array) -> jax.Array:
        return solve(inner, rows, costs).value

    @value.defjvp
    def value_jvp(primals: Any, tangents: Any) -> Any:
        solution = jax.tree.map(lax.stop_gradient, solve(inner, *map(lax.stop_gradient, primals)))
        return solution.value, jnp.dot(solution.multipliers, tangents[0]) + jnp.dot(
            solution.point, tangents[1]
        )

    return value(rows, costs)


def solve(inner: Inner, rows: jax.Array, costs: jax.Array) -> Solved:
    """The solution for these right-hand sides and costs, which must not decrease without end."""
    dtype = jnp.result_type(rows, costs)
    assert inner.caps is not None, "the program is used before its multipliers are bounded"
    count, lines = inner.equations, np.asarray(inner.matrix, float)
    # Rows of length one; rows of zeros stay as they are.
    lengths = np.linalg.norm(lines, axis=1)
    lengths = np.where(lengths > 0, lengths, 1.0)
    caps = inner.caps * lengths[count:]
    scaled = _Scaled(
        inner.quadratic,
        lines / lengths[:, None],
        count,
        caps,
        rows / lengths.astype(dtype),
        costs.astype(dtype),
    )
    state = scaled.run()
    multipliers = jnp.concatenate([state.nu, state.lam]) / lengths.astype(dtype)
    return Solved(scaled.lagrangian(state), state.w, multipliers)


class _Scaled:
    """A program whose rows have length one."""

    def __init__(
        self, p: Array, matrix: Array, count: int, caps: Array, rows: Any, costs: Any
    ) -> None:
        dtype = costs.dtype
        self.p, self.a, self.g, self.caps = (
            part.astype(dtype) for part in (p, matrix[:count], matrix[count:], caps)
        )
        self.right, self.limits, self.costs = rows[:count], rows[count:], costs
        self.size = float(max(1.0, np.abs(p).max(initial=0), caps.max()))
        """The order of magnitude of costs and multipliers."""
        self.n, self.count = p.shape[0], count
        self.eps = float(np.finfo(dtype).eps)

    def lagrangian(self, v: _State) -> jax.Array:
        """Errors in the solution and in the multipliers change this value by their product."""
        own = 0.5 * v.w @ (self.p @ v.w) + self.costs @ v.w
        return own + v.nu @ (self.a @ v.w + self.right) + v.lam @ (self.g @ v.w + self.limits)

    def thin(self, spread: jax.Array) -> jax.Array:
        """What is added to equations: little, but they must not outweigh all limits by far."""
        return jnp.minimum(jnp.min(spread), 0.01 / self.size) / 10

    def direction(
        self,
        v: _State,
        minus: jax.Array,
        spread: jax.Array,
        residuals: Any,
        first: Any,
        second: Any,
    ) -> _State:
        """The step for given residuals and products s lam and e kappa.

        It solves Pw + A'nu + G'lam = wanted[0], Aw = wanted[1], Gw - spread lam = wanted[2] in
        several passes, each of which solves for what the last one left over: elimination loses
        accuracy where spread is small, and takes -thin nu into the equations so that nu can be
        eliminated, too.
        """
        pull, primal, equation = residuals
        wanted = -pull, -equation, -(primal - first / v.lam + second / v.kappa)
        thin = self.thin(spread)

        def again(_: Any, reached: Any) -> Any:
            w, nu, lam = reached
            rest_w = wanted[0] - self.p @ w - self.a.T @ nu - self.g.T @ lam
            rest_nu = wanted[1] - self.a @ w
            rest_lam = wanted[2] - self.g @ w + spread * lam
            dw = -(minus @ (rest_w + self.g.T @ (rest_lam / spread) + self.a.T @ (rest_nu / thin)))
            return (
                w + dw,
                nu + (self.a @ dw - rest_nu) / thin,
                lam + (self.g @ dw - rest_lam) / spread,
            )

        start = jnp.zeros_like(self.costs), jnp.zeros_like(self.right), jnp.zeros_like(self.limits)
        dw, dnu, dlam = lax.fori_loop(0, PASSES, again, start)
        return _State(
            dw, dnu, -(first + v.s * dlam) / v.lam, dlam, (v.e * dlam - second) / v.kappa, -dlam
        )

    def residuals(self, v: _State) -> tuple[Any, Any, Any]:
        """Of stationarity, limits and equations. lam + kappa = caps always holds."""
        pull = self.p @ v.w + self.costs + self.g.T @ v.lam + self.a.T @ v.nu
        return pull, self.g @ v.w + self.limits - v.e + v.s, self.a @ v.w + self.right

    def error(self, v: _State, residuals: Any) -> jax.Array:
        """How far the optimality conditions are from holding, relatively."""
        pull, primal, equation = residuals
        size = 1 + jnp.max(jnp.abs(self.limits)) + jnp.max(jnp.abs(self.right), initial=0)
        worst = jnp.maximum(jnp.max(jnp.abs(primal)), jnp.max(jnp.abs(equation), initial=0)) / size
        gap = (v.s @ v.lam + v.e @ v.kappa) / (1 + jnp.abs(self.lagrangian(v)))
        return jnp.maximum(jnp.maximum(worst, jnp.max(jnp.abs(pull)) / self.size), gap)

    def start(self) -> _State:
        """Zero, with slacks around it and multipliers in the middle."""
        half = jnp.asarray(self.caps / 2)
        room = 1 + jnp.max(jnp.abs(self.limits)) / 10
        slack, excess = (jnp.maximum(sign * self.limits, 0) + room for sign in (-1, 1))
        return _State(
            jnp.zeros_like(self.costs), jnp.zeros_like(self.right), slack, half, excess, half
        )

    def step(self, v: _State, residuals: Any) -> _State:
        """Predictor and corrector."""
        spread = v.s / v.lam + v.e / v.kappa
        weighted = self.g / spread[:, None]
        matrix = self.p + self.g.T @ weighted + self.a.T @ self.a / self.thin(spread)
        minus = _swept(matrix + self.eps * self.size * jnp.eye(self.n, dtype=matrix.dtype))
        first, second = v.s * v.lam, v.e * v.kappa
        mu = jnp.mean(first + second)
        ahead = self.direction(v, minus, spread, residuals, first, second)
        length = _length(v, ahead)
        there = jax.tree.map(lambda part, change: part + length * change, v, ahead)
        centre = (jnp.mean(there.s * there.lam + there.e * there.kappa) / mu) ** 3 * mu / 2
        first = first + ahead.s * ahead.lam - centre
        second = second + ahead.e * ahead.kappa - centre
        way = self.direction(v, minus, spread, residuals, first, second)
        length = FRACTION * _length(v, way)
        return jax.tree.map(lambda part, change: part + length * change, v, way)

    def run(self) -> _State:
        """Steps until the optimality conditions hold; the best point if they stop improving."""
        goal = 50 * self.eps

        def going(carry: Any) -> Any:
            k, _, _, least, patience = carry
            return (k < STEPS) & (least > goal) & (patience < PATIENCE)

        def body(carry: Any) -> Any:
            k, v, best, least, patience = carry
            residuals = self.residuals(v)
            error = self.error(v, residuals)
            better = error < least  # False if it is not a number
            best = jax.tree.map(lambda new, old: jnp.where(better, new, old), v, best)
            patience = jnp.where(error < 0.9 * least, 0, patience + 1)
            return k + 1, self.step(v, residuals), best, jnp.where(better, error, least), patience

        first = self.start()
        worst = jnp.asarray(np.inf, self.costs.dtype)
        return lax.while_loop(going, body, (0, first, first, worst, 0))[2]


def _length(v: _State, way: _State) -> jax.Array:
    """The longest step, at most one, that keeps slacks and multipliers above zero."""

    def longest(part: jax.Array, change: jax.Array) -> jax.Array:
        return jnp.min(jnp.where(change < 0, -part / jnp.where(change < 0, change, -1), jnp.inf))

    pairs = zip(v[2:], way[2:], strict=True)
    return jnp.minimum(1.0, jnp.min(jnp.stack([longest(part, change) for part, change in pairs])))


def _swept(matrix: jax.Array) -> jax.Array:
    """Minus the inverse of a positive definite matrix, by symmetric elimination of one entry after
    another.

    A pivot that rounding has made too small is replaced.
    """
    least = 4 * matrix.shape[0] * float(np.finfo(matrix.dtype).eps) * jnp.diag(matrix)

    def eliminate(k: Any, m: jax.Array) -> jax.Array:
        column = m[:, k]
        pivot = jnp.maximum(column[k], least[k])
        row = column / pivot
        m = m - column[:, None] * row[None, :]
        m = m.at[:, k].set(row).at[k, :].set(row)
        return m.at[k, k].set(-1 / pivot)

    return lax.fori_loop(0, matrix.shape[0], eliminate, matrix)

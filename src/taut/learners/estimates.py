r"""Estimates of constraint rows from noisy observations: what `Averaged` keeps, and the linear
model that it hands on.

Each kind of estimate has a state, `begin`, and `update(estimate, t, x, observed)`, which returns
the new state and three arrays: the estimated values at x (m,), the estimated gradients (m, d), and
the weight `rate` whose square root times sigma is the standard deviation of the estimate. Residuals
are the differences between observed and predicted values; their mean square estimates sigma^2.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..problem.constraints import Linearisation


class Estimated(NamedTuple):
    """A linear model of all rows at a decision."""

    values: jax.Array
    slopes: jax.Array
    rate: jax.Array
    bias: jax.Array
    """A bound on the error that has nothing to do with noise."""
    squares: jax.Array
    """The sum of the squared residuals, each divided by its variance under noise of variance 1."""


class Affine(NamedTuple):
    """Means of all observed linear models: each is an unbiased estimate of an affine row, at every
    decision."""

    slopes: jax.Array
    intercepts: jax.Array
    squares: jax.Array

    @classmethod
    def begin(cls, x1: jax.Array, count: int) -> Affine:
        """Return an estimate that has seen nothing."""
        rows = jnp.zeros((count,), x1.dtype)
        return cls(jnp.zeros((count, x1.size), x1.dtype), rows, rows)

    def update(
        self, t: jax.Array, x: jax.Array, observed: Linearisation
    ) -> tuple[Affine, Estimated]:
        """Average what round t showed."""
        flat = x.reshape(-1)
        slopes = observed.jacobian()
        weight = 1 / t.astype(x.dtype)
        predicted = self.slopes @ flat + self.intercepts
        squares = self.squares + (1 - weight) * jnp.square(observed.values - predicted) * (t > 1)
        mean = self.slopes + weight * (slopes - self.slopes)
        intercepts = self.intercepts + weight * (observed.values - slopes @ flat - self.intercepts)
        after = Affine(mean, intercepts, squares)
        return after, Estimated(
            mean @ flat + intercepts, mean, weight, jnp.zeros_like(intercepts), squares
        )


class Smooth(NamedTuple):
    """A moving average of values, carried from decision to decision by the mean of the gradients at
    both."""

    values: jax.Array
    bias: jax.Array
    slopes: jax.Array
    last: jax.Array
    squares: jax.Array

    @classmethod
    def begin(cls, x1: jax.Array, count: int) -> Smooth:
        """Return an estimate that has seen nothing."""
        rows = jnp.zeros((count,), x1.dtype)
        return cls(rows, rows, jnp.zeros((count, x1.size), x1.dtype), x1.reshape(-1), rows)

    def update(
        self,
        t: jax.Array,
        x: jax.Array,
        observed: Linearisation,
        least: jax.Array,
        smoothness: jax.Array,
    ) -> tuple[Smooth, Estimated]:
        """Carry the average to x, then move it towards the observed values by max(least, 1/t).

        The trapezoidal rule for a convex L-smooth function on a step of length h has an error of at
        most L h^2 / 8.
        """
        flat, slopes = x.reshape(-1), observed.jacobian()
        move = flat - self.last
        weight = jnp.maximum(least, 1 / t.astype(x.dtype))
        predicted = self.values + (self.slopes + slopes) @ move / 2
        error = observed.values - predicted
        squares = self.squares + (1 - weight) * jnp.square(error) * (t > 1)
        values = predicted + weight * error
        bias = (1 - weight) * (self.bias + smoothness / 8 * jnp.sum(jnp.square(move)))
        after = Smooth(values, bias, slopes, flat, squares)
        return after, Estimated(values, slopes, weight, bias, squares)


class Held(NamedTuple):
    """Sums over the block in which the decision is held: values, gradients, and the gradient of the
    loss."""

    values: jax.Array
    slopes: jax.Array
    gradient: jax.Array
    squares: jax.Array
    filled: jax.Array
    """Rounds of the current block that have been seen."""

    @classmethod
    def begin(cls, x1: jax.Array, count: int) -> Held:
        """Return empty sums."""
        rows = jnp.zeros((count,), x1.dtype)
        return cls(
            rows,
            jnp.zeros((count, x1.size), x1.dtype),
            jnp.zeros_like(x1),
            rows,
            jnp.zeros((), jnp.int32),
        )

    def update(
        self, x: jax.Array, observed: Linearisation, gradient: jax.Array
    ) -> tuple[Held, Estimated, jax.Array]:
        """Add a round. Returns the sums, the means over the block so far, and the mean gradient of
        the loss."""
        filled = self.filled + 1
        weight = 1 / filled.astype(x.dtype)
        error = observed.values - self.values
        squares = self.squares + (1 - weight) * jnp.square(error) * (filled > 1)
        values = self.values + weight * error
        slopes = self.slopes + weight * (observed.jacobian() - self.slopes)
        mean = self.gradient + weight * (gradient - self.gradient)
        after = Held(values, slopes, mean, squares, filled)
        return after, Estimated(values, slopes, weight, jnp.zeros_like(values), squares), mean

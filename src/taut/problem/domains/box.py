"""The box: lower and upper bounds on every entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import arguments
from ...engine import Array
from .base import Domain, cast, norm, reals, shape_of, working


@dataclass(frozen=True, init=False, eq=False)
class Box(Domain, leaves=("lower", "upper")):
    """The box {x : lower <= x <= upper}; scalar bounds hold for every entry of `shape`."""

    lower: Any
    upper: Any
    shape: tuple[int, ...]

    def __init__(self, lower: Any, upper: Any, shape: int | Sequence[int] | None = None) -> None:
        if shape is None:
            shape = (
                arguments.as_array("lower", lower).shape or arguments.as_array("upper", upper).shape
            )
            if not shape:
                raise TypeError(
                    "shape: got None and scalar bounds; expected the shape of a decision"
                )
        wanted = shape_of(shape)
        low, high = reals("lower", lower, wanted), reals("upper", upper, wanted)
        if np.any(low > high):
            at = tuple(int(i) for i in np.argwhere(low > high)[0])
            raise ValueError(
                f"lower: got {low[at]:g} at index {at}; expected at most upper = {high[at]:g}"
            )
        self._set(lower=low, upper=high, shape=wanted)

    @property
    def middle(self) -> Any:
        """The midpoint, in NumPy."""
        return self.lower + (self.upper - self.lower) / 2

    @property
    def centre(self) -> jax.Array:
        """The midpoint."""
        return jnp.asarray(self.middle)

    @property
    def radius(self) -> Any:
        """Half the diagonal."""
        return self.diameter / 2

    @property
    def diameter(self) -> Any:
        """The diagonal."""
        return norm(self.upper - self.lower)

    def project(self, x: jax.Array) -> jax.Array:
        """Entrywise clipping."""
        x = self._decision(x)
        return jnp.clip(x, *cast(x.dtype, self.lower, self.upper))

    def _project_in_numpy(self, rows: Array) -> Array:
        return np.clip(rows, np.ravel(self.lower), np.ravel(self.upper))

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether lower <= x <= upper in every entry."""
        x = self._decision(x)
        wide = x.astype(working(x))
        lower, upper = cast(wide.dtype, self.lower, self.upper)
        slack = self._slack(x, jnp.maximum(jnp.abs(lower), jnp.abs(upper)), tolerance)
        return jnp.all((wide >= lower - slack) & (wide <= upper + slack))

    def sample(self, key: jax.Array) -> jax.Array:
        """Independent uniform entries."""
        lower, upper = jnp.asarray(self.lower), jnp.asarray(self.upper)
        return jnp.minimum(lower + (upper - lower) * jax.random.uniform(key, self.shape), upper)

    def scaled(self, factor: float) -> Domain:
        """Both bounds times `factor`."""
        return type(self)(factor * self.lower, factor * self.upper, self.shape)

    def _minimisers(self, directions: Any, xp: Any) -> Any:
        """The lower bound where the direction is positive, else the upper bound."""
        return xp.where(directions > 0, self.lower.reshape(1, -1), self.upper.reshape(1, -1))

    def to_cvxpy(self, x: Any) -> list[Any]:
        """Two linear inequalities."""
        return [x >= np.asarray(self.lower), x <= np.asarray(self.upper)]

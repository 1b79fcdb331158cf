"""Balls: all points whose distance from a centre is at most a radius."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import arguments
from ...engine import Array
from ...extras import optional
from ...jax_internals import is_tracer
from .base import Domain, cast, finfo, reals, shape_of, working
from .simplex import onto_simplex


@dataclass(frozen=True, init=False, eq=False)
class _Centred(Domain):
    """What both balls share: a centre and a radius, also the largest distance from the centre."""

    radius: float
    origin: Any  # the centre as a leaf; None is zero, which then costs nothing in every round
    shape: tuple[int, ...]

    def __init__(
        self, radius: float, centre: Any = None, shape: int | Sequence[int] | None = None
    ) -> None:
        if centre is None and shape is None:
            raise TypeError("shape: got None and no centre; expected one of the two")
        wanted = shape_of(arguments.as_array("centre", centre).shape if shape is None else shape)
        origin = None if centre is None else reals("centre", centre, wanted)
        self._set(radius=arguments.positive("radius", radius), origin=origin, shape=wanted)

    @property
    def middle(self) -> Any:
        """The centre as given, or zeros."""
        return np.zeros(self.shape) if self.origin is None else self.origin

    @property
    def centre(self) -> jax.Array:
        """The centre as a JAX array."""
        return jnp.asarray(self.middle)

    @property
    def diameter(self) -> Any:
        """Twice the radius."""
        return 2 * self.radius

    @staticmethod
    @abstractmethod
    def _length(offset: jax.Array) -> jax.Array:
        """The norm the ball is a ball of."""

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether the norm of x - centre is at most the radius."""
        x = self._decision(x)
        radius, middle = cast(working(x), self.radius, self.middle)
        slack = self._slack(x, radius + self._length(middle), tolerance)
        return self._length(x.astype(middle.dtype) - middle) <= radius + slack

    def scaled(self, factor: float) -> Domain:
        """Radius and centre times `factor`."""
        centre = None if self.origin is None else factor * self.origin
        return type(self)(factor * self.radius, centre, self.shape)

    @property
    def _row(self) -> Any:
        """The centre as one flat row."""
        return self.middle.reshape(1, -1)

    def to_dict(self) -> dict[str, Any]:
        """Radius, centre and shape."""
        description = super().to_dict()
        description["centre"] = description.pop("origin")
        return description


class Ball(_Centred, leaves=("radius", "origin")):
    """The Euclidean ball {x : |x - centre| <= radius}; with `shape` alone, centred at zero."""

    def project(self, x: jax.Array) -> jax.Array:
        """centre + (x - centre) / max(1, |x - centre| / radius)."""
        x = self._decision(x)
        dtype = working(x)
        offset = x.astype(dtype)
        if self.origin is not None:
            (middle,) = cast(dtype, self.origin)
            offset = offset - middle
        scale = self.scale(offset)
        if not is_tracer(scale) and np.isnan(scale) and np.isfinite(offset).all():
            return self.project(
                middle + self._nearer(offset) if self.origin is not None else self._nearer(offset)
            )
        inside = offset * scale if self.origin is None else middle + offset * scale
        return inside.astype(x.dtype)

    def _project_in_numpy(self, rows: Array) -> Array:
        offset = rows - self._row
        largest = np.max(np.abs(offset), axis=1, keepdims=True)
        unit = offset / np.where(largest > 0, largest, 1)  # so that squares do not overflow
        length = largest * np.linalg.norm(unit, axis=1, keepdims=True)
        return np.asarray(self._row + offset * (self.radius / np.maximum(length, self.radius)))

    def scale(self, offset: jax.Array) -> jax.Array:
        """The number by which an offset from the centre is multiplied to lie in the ball, at most
        1.

        It is NaN for points so far away that their squares overflow, which a simulation then
        reports.
        """
        dtype = offset.dtype
        (radius,) = cast(dtype, self.radius)
        # The radius is measured as `small`, a power of two whose square is still well above the
        # least float: far points can then be squared without overflow (up to 1e298 radii in 64
        # bits, 1e33 in 32 bits). The square root sees at least small^2, so that its gradient exists
        # at the centre too.
        small: float = 2.0 ** ((finfo(dtype).minexp + finfo(dtype).nmant + 6) // 2)
        # A large radius is measured as more than that, because small / radius would vanish.
        factor = jnp.maximum(small / radius, least := 8.0 * float(finfo(dtype).tiny))
        edge = jnp.where(factor > least, small, factor * radius)
        unit = offset * factor
        squares = jnp.sum(unit * unit)
        return edge / jnp.sqrt(jnp.where(squares > edge**2, squares, edge**2)) + 0 * squares

    def _nearer(self, offset: jax.Array) -> jax.Array:
        """A point in the same direction, far outside the ball but near enough to be squared."""
        # The reciprocal of the largest entry could be denormal.
        smaller = offset * 2.0 ** (-finfo(offset.dtype).maxexp // 2)
        return smaller / jnp.max(jnp.abs(smaller)) * (2.0**20 * self.radius)

    def sample(self, key: jax.Array) -> jax.Array:
        """The first d of d + 2 coordinates of a uniform point of the sphere fill the ball."""
        normal = jax.random.normal(key, (math.prod(self.shape) + 2,))
        point = normal[:-2] * (self.radius / self._length(normal))
        return self.centre + point.reshape(self.shape)

    def _minimisers(self, directions: Any, xp: Any) -> Any:
        """centre - radius * direction / |direction|; the centre for a direction of zeros."""
        # First to size 1, so that squares do not overflow.
        largest = xp.max(xp.abs(directions), axis=1, keepdims=True)
        unit = directions / xp.where(largest > 0, largest, 1)
        length = xp.sqrt(xp.sum(unit * unit, axis=1, keepdims=True))
        return self._row - self.radius * unit / xp.where(length > 0, length, 1)

    def to_cvxpy(self, x: Any) -> list[Any]:
        """One second-order cone."""
        cp = optional("cvxpy")

        return [cp.norm2(cp.vec(x - np.asarray(self.middle), order="C")) <= self.radius]

    @staticmethod
    def _length(offset: jax.Array) -> jax.Array:
        largest = jnp.max(jnp.abs(offset))  # first to size 1, so that squares do not overflow
        unit = offset / jnp.where(largest > 0, largest, 1)
        return largest * jnp.sqrt(jnp.sum(unit * unit))


class L1Ball(_Centred, leaves=("radius", "origin")):
    """The l1 ball {x : sum |x - centre| <= radius}; `shape` without `centre` means centred at zero.

    The point farthest from the centre is a vertex, so `radius` is its Euclidean radius too.
    """

    def project(self, x: jax.Array) -> jax.Array:
        """Soft thresholding at the simplex's threshold; a point inside comes back unchanged."""
        x = self._decision(x)
        radius, middle = cast(working(x), self.radius, self.middle)
        offset = x.astype(middle.dtype) - middle
        sizes, threshold = onto_simplex(jnp.abs(offset).ravel(), radius)
        outside = middle + jnp.sign(offset) * sizes.reshape(self.shape)
        return jnp.where(threshold[0] <= 0, x, outside.astype(x.dtype))

    def _project_in_numpy(self, rows: Array) -> Array:
        offset = rows - self._row
        sizes, threshold = onto_simplex(np.abs(offset), self.radius, np)
        return np.where(threshold <= 0, rows, self._row + np.sign(offset) * sizes)

    def sample(self, key: jax.Array) -> jax.Array:
        """The first d of d + 1 exponentials with random signs, divided by the sum of all sizes."""
        signed = jax.random.laplace(key, (math.prod(self.shape) + 1,))
        point = signed[:-1] * (self.radius / self._length(signed))
        return self.centre + point.reshape(self.shape)

    def _minimisers(self, directions: Any, xp: Any) -> Any:
        """The vertex along the first of the largest entries; the centre for zeros."""
        sizes = xp.abs(directions)
        first = xp.arange(directions.shape[1])[None] == xp.argmax(sizes, axis=1)[:, None]
        return self._row - self.radius * xp.where(first, xp.sign(directions), 0)

    def to_cvxpy(self, x: Any) -> list[Any]:
        """One inequality on a sum of absolute values."""
        cp = optional("cvxpy")

        return [cp.sum(cp.abs(x - np.asarray(self.middle))) <= self.radius]

    @staticmethod
    def _length(offset: jax.Array) -> jax.Array:
        return jnp.sum(jnp.abs(offset))

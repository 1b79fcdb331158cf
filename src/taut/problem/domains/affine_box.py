"""Boxes cut by linear equations: budgets that are spent exactly, balances, and the dynamics of a
storage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...extras import optional
from ...jax_internals import is_tracer
from .base import FAR, Domain, cast, finfo, reals, shape_of, working
from .equations import far_onto_slice, knapsack, onto_equations, onto_slice

FAR_AWAY = 2.0**30
"""Points so many times farther away than the bounds have a method of their own, in NumPy."""
RANK = 1e-10
"""Equations with singular values below this share of the largest are combinations of others."""
STEPS = 40
"""Steps of the random walk that samples the domain."""


@dataclass(frozen=True, init=False, eq=False)
class AffineBox(
    Domain, leaves=("rows", "values", "lower", "upper", "middle", "radius", "diameter")
):
    """The set {x : rows @ x = values, lower <= x <= upper}, where x holds the entries of a decision
    in row order.

    With one equation the projection is found by sorting. With several, an interior-point method
    finds it up to rounding in about ten steps, whose time grows with the cube of the number of
    equations. `radius` and `diameter` are upper bounds that are attained by many sets, such as
    simplices.

    >>> import numpy as np
    >>> half = AffineBox(np.ones(3), 1.0, 0.0, 0.5, shape=3)  # shares of at most one half
    >>> half.project(np.array([2.0, 0.0, 0.0])).tolist()
    [0.5, 0.25, 0.25]
    """

    rows: Any
    values: Any
    lower: Any
    upper: Any
    middle: Any
    radius: float
    diameter: float
    shape: tuple[int, ...]

    def __init__(
        self,
        rows: Any,
        values: Any,
        lower: Any,
        upper: Any,
        shape: int | Sequence[int] | None = None,
    ) -> None:
        matrix = np.atleast_2d(reals("rows", rows))
        if shape is None:
            shape = np.shape(lower) or np.shape(upper) or matrix.shape[1:]
        wanted = shape_of(shape)
        low, high = reals("lower", lower, wanted).ravel(), reals("upper", upper, wanted).ravel()
        if matrix.ndim != 2 or matrix.shape[1] != low.size:
            raise ValueError(
                f"rows: got shape {np.shape(rows)}; expected one row of {low.size} entries per "
                "equation"
            )
        if np.any(low > high):
            at = int(np.argmax(low > high))
            raise ValueError(
                f"lower: got {low[at]:g} at place {at}; expected at most upper = {high[at]:g}"
            )
        matrix, right = _independent(matrix, np.array(reals("values", values, (len(matrix),))))
        low, high = _tightened(matrix, right, low, high)
        middle = np.clip(_project(matrix, right, low, high, (low + high) / 2), low, high)
        numbers = {
            "rows": matrix,
            "values": right,
            "lower": low.reshape(wanted),
            "upper": high.reshape(wanted),
        }
        self._set(**numbers, middle=middle.reshape(wanted), radius=0.0, diameter=0.0, shape=wanted)
        self._set(**self._extent())
        for name in (*numbers, "middle"):
            getattr(self, name).setflags(write=False)

    def _extent(self) -> dict[str, float]:
        """Upper bounds on radius and diameter.

        A square is below its chord: d^2 <= (a + b) d - a b for d in [a, b]. The sum of the chords
        is linear, so that its maximum over the domain is known.
        """
        low, high, middle = (np.ravel(edge) for edge in (self.lower, self.upper, self.middle))
        below, above = low - middle, high - middle
        farthest = self._minimisers(-(below + above)[None], np)[0] - middle
        squares = float((below + above) @ farthest - below @ above)
        radius = math.sqrt(max(0.0, min(squares, float(np.sum(np.maximum(-below, above) ** 2)))))
        diameter = min(2 * radius, float(np.linalg.norm(high - low)))
        if len(self.rows) == 1:  # sum |a_i (x_i - y_i)| is at most twice what can be moved
            row = np.abs(self.rows[0])
            flipped = np.where(self.rows[0] > 0, low, high), np.where(self.rows[0] > 0, high, low)
            left = [abs(float(self.values[0] - self.rows[0] @ edge)) for edge in flipped]
            weights, free = (high - low) * row, row > 0
            order = np.argsort(-((high - low)[free] / row[free]))
            moved = np.clip(
                2 * min(left) - np.append(0, np.cumsum(weights[free][order])[:-1]),
                0,
                weights[free][order],
            )
            squares = float(
                np.sum(moved * ((high - low)[free] / row[free])[order])
                + np.sum((high - low)[~free] ** 2)
            )
            diameter = min(diameter, math.sqrt(squares))
        return {"radius": radius, "diameter": diameter}

    @property
    def centre(self) -> jax.Array:
        """The point of the domain nearest to the middle of the box."""
        return jnp.asarray(self.middle)

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest point, from the multipliers of the equations."""
        x = self._decision(x)
        numbers = cast(working(x), self.rows, self.values, self.lower, self.upper, x)
        rows, values, low, high, flat = (
            array if k < 2 else array.ravel() for k, array in enumerate(numbers)
        )
        if rows.shape[0] == 1:
            projected = onto_slice(rows[0], values[0], low, high, flat, jnp)
        else:
            projected = onto_equations(rows, values, low, high, flat, jnp)
        # Points that are very far away lose all digits. The result is NaN then, which a simulation
        # reports, or is found slowly.
        missed = jnp.max(jnp.abs(rows @ projected - values) - self._room(rows, values, low, high))
        if is_tracer(missed):
            projected = jnp.where(missed <= 0, projected, jnp.nan)
        elif not missed <= 0 and np.isfinite(flat).all():
            projected = jnp.asarray(self._project_in_numpy(np.asarray(flat)[None])[0], flat.dtype)
        return projected.reshape(self.shape).astype(x.dtype)

    def _room(self, rows: Any, values: Any, low: Any, high: Any) -> Any:
        """By how much a projection may miss each equation."""
        sizes = jnp.abs(rows) @ jnp.maximum(jnp.abs(low), jnp.abs(high)) + jnp.abs(values)
        return float(finfo(sizes.dtype).eps) ** 0.5 * sizes

    def _project_in_numpy(self, rows: Array) -> Array:
        matrix, values = np.asarray(self.rows, float), np.asarray(self.values, float)
        low, high = (np.asarray(edge, float).ravel() for edge in (self.lower, self.upper))
        points = np.asarray(rows, float)
        with np.errstate(all="ignore"):
            return np.stack([_project(matrix, values, low, high, point) for point in points])

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether the equations and all bounds hold."""
        x = self._decision(x)
        dtype = working(x)
        rows, values, low, high, wide = cast(
            dtype, self.rows, self.values, self.lower, self.upper, x
        )
        size = jnp.maximum(jnp.abs(low), jnp.abs(high))
        slack = self._slack(x, size, tolerance)
        room = self._slack(x, jnp.abs(rows) @ size.ravel() + jnp.abs(values), tolerance)
        inside = jnp.all((wide >= low - slack) & (wide <= high + slack))
        return inside & jnp.all(jnp.abs(rows @ wide.ravel() - values) <= room)

    def sample(self, key: jax.Array) -> jax.Array:
        """A point that a random walk (hit and run) reaches: it is distributed almost uniformly."""
        rows, low, high, start = map(jnp.asarray, (self.rows, self.lower, self.upper, self.middle))
        low, high, start = low.ravel(), high.ravel(), start.ravel()
        basis = rows / jnp.linalg.norm(rows, axis=1, keepdims=True)

        def step(k: Any, x: jax.Array) -> jax.Array:
            direction_key, length_key = jax.random.split(jax.random.fold_in(key, k))
            direction = jax.random.normal(direction_key, x.shape) * (high > low)
            direction = direction - basis.T @ (basis @ direction)
            moving = jnp.abs(direction) > 1e-12
            one_end, other = ((edge - x) / jnp.where(moving, direction, 1) for edge in (low, high))
            first = jnp.max(jnp.where(moving, jnp.minimum(one_end, other), -jnp.inf))
            last = jnp.min(jnp.where(moving, jnp.maximum(one_end, other), jnp.inf))
            length = first + (last - first) * jax.random.uniform(length_key)
            return jnp.where(jnp.any(moving), jnp.clip(x + length * direction, low, high), x)

        # Fixed entries bend the directions out of the equations; the projection removes that and
        # rounding.
        return self.project(jax.lax.fori_loop(0, STEPS, step, start).reshape(self.shape))

    def scaled(self, factor: float) -> Domain:
        """Values and bounds times `factor`."""
        return type(self)(
            self.rows, factor * self.values, factor * self.lower, factor * self.upper, self.shape
        )

    def _minimisers(self, directions: Any, xp: Any) -> Any:
        """Vertices: by filling up in the order of price, or by linear programming."""
        low, high = self.lower.reshape(-1), self.upper.reshape(-1)
        if len(self.rows) == 1:
            return knapsack(self.rows[0], self.values[0], low, high, directions, xp)
        if xp is np:
            return np.stack(
                [
                    _linear_program(self.rows, self.values, low, high, direction)
                    for direction in directions
                ]
            )
        largest = xp.max(xp.abs(directions), axis=1, keepdims=True)
        unit = directions / xp.where(largest > 0, largest, 1)
        far = self.middle.reshape(1, -1) - FAR * self.diameter * unit
        return jax.vmap(
            lambda point: onto_equations(self.rows, self.values, low, high, point, jnp)
        )(far)

    def _edges(self) -> tuple[Any, Any]:
        """The bounds; with one equation they are tight."""
        return self.lower, self.upper

    def to_cvxpy(self, x: Any) -> list[Any]:
        """Bounds and equations."""
        cp = optional("cvxpy")

        flat = cp.vec(x, order="C")
        inside = [x >= np.asarray(self.lower), x <= np.asarray(self.upper)]
        return [*inside, np.asarray(self.rows) @ flat == np.asarray(self.values)]

    def to_dict(self) -> dict[str, Any]:
        """Equations, bounds and shape."""
        description = super().to_dict()
        return {
            name: value
            for name, value in description.items()
            if name not in ("middle", "radius", "diameter")
        }


def _independent(rows: Array, values: Array) -> tuple[Array, Array]:
    """The same equations with orthonormal rows, if there are several."""
    if not np.all(np.any(rows, axis=1)):
        raise ValueError(
            "rows: got an equation without coefficients; expected at least one number that is "
            "not zero"
        )
    if len(rows) == 1 or np.abs(rows @ rows.T - np.eye(len(rows))).max() <= 1e-12:
        return rows.copy(), values
    scale = np.linalg.norm(rows, axis=1)
    left, sizes, right = np.linalg.svd(rows / scale[:, None], full_matrices=False)
    rank = int(np.sum(sizes > RANK * sizes[0]))
    turned = left.T @ (values / scale)
    if np.any(np.abs(turned[rank:]) > 1e-8 * (1 + np.abs(values / scale).max())):
        raise ValueError(
            "values: got equations that contradict one another; expected equations with a common "
            "solution"
        )
    return np.ascontiguousarray(right[:rank]), turned[:rank] / sizes[:rank]


def _tightened(rows: Array, values: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds that follow from one equation. Raises if nothing satisfies equations and bounds."""
    if len(rows) > 1:
        _linear_program(rows, values, low, high, np.zeros(len(low)))
        return low, high
    (row,) = rows
    small, large = np.minimum(row * low, row * high), np.maximum(row * low, row * high)
    room = 1e-9 * (1 + np.abs(row) @ np.maximum(np.abs(low), np.abs(high)))
    if not small.sum() - room <= values[0] <= large.sum() + room:
        raise ValueError(
            f"values: got {values[0]:g} for an expression between {small.sum():g} and "
            f"{large.sum():g}; expected a value that decisions within the bounds attain"
        )
    with np.errstate(all="ignore"):
        ends = (values[0] - (large.sum() - large)) / row, (values[0] - (small.sum() - small)) / row
    free = row != 0
    least, most = (
        np.where(free, extreme(*ends), edge)
        for extreme, edge in ((np.minimum, low), (np.maximum, high))
    )
    low, high = np.maximum(low, least), np.minimum(high, most)
    return np.minimum(low, high), np.maximum(low, high)


def _project(rows: Array, values: Array, low: Array, high: Array, x: Array) -> Array:
    if len(rows) == 1:
        distance, size = np.max(np.abs(x)), np.max(np.abs(low)) + np.max(np.abs(high))
        project = far_onto_slice if distance > FAR_AWAY * size else partial(onto_slice, xp=np)
        return np.asarray(project(rows[0], values[0], low, high, x))
    return np.asarray(onto_equations(rows, values, low, high, x, np))


def _linear_program(rows: Array, values: Array, low: Array, high: Array, direction: Array) -> Array:
    """A vertex at which <direction, x> is smallest. Raises if the domain is empty."""
    from scipy.optimize import linprog

    solution = linprog(
        direction, A_eq=rows, b_eq=values, bounds=np.stack([low, high], axis=1), method="highs"
    )
    if solution.status == 2:
        raise ValueError(
            "values: got equations that no decision within the bounds satisfies; expected a set "
            "that is not empty"
        )
    if solution.x is None:
        raise ValueError(
            f"rows: got equations for which the linear program failed ({solution.message})"
        )
    return np.clip(solution.x, low, high)

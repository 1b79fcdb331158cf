"""Proven bounds on a function over a domain, by interval and slope arithmetic on its traced
program.

Every intermediate value v of the program is enclosed in two ways. Its interval contains v(x) for
all decisions x of the domain. Its slopes are intervals that contain, for every x, a vector s with
v(x) = v(c) + <s, x - c>, where c is the centre of the domain: this keeps what intervals forget,
that entries of a decision are not all at their limits at once. For an affine function the slopes
are exact numbers, and so are the bounds. Data may be intervals as well; bounds then hold for all
data in them.

The rules for single operations are in `enclosure_rules.py`. An operation without a rule raises
`Unknown`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from ..engine import Array, default_float
from ..jax_internals import Literal
from ..jaxpr.walk import CALLS, called, equations
from ..problem.domains import Ball, Box, Domain, L1Ball
from ..problem.domains.support import bounding_box, centre_of, exact_in_numpy, least_change

__all__ = ["Enclosure", "Space", "Unknown", "enclosed", "work"]

ROUNDING = 1e-11
"""Bounds are widened by this share of the largest number of which they are made."""
ROWS = 2_000_000
"""Values with more slopes than this get none, only an interval."""


class Unknown(Exception):
    """No bound can be derived; the message says why."""


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Bounds on one intermediate value, an array."""

    low: Array
    high: Array
    """Bounds over all decisions,"""
    centre_low: Array
    centre_high: Array
    """at the centre of the domain,"""
    down: Array | None = None
    up: Array | None = None
    """and on the slopes, (entry of the decision, *shape); None if there are none."""
    moves: bool = False
    """Whether the value depends on the decision."""
    root: Enclosure | None = None
    """The value whose square this is."""

    @classmethod
    def fixed(cls, low: Any, high: Any) -> Enclosure:
        """A value that does not depend on the decision."""
        low, high = np.asarray(low), np.asarray(high)
        return cls(low, high, low, high)

    @property
    def thin(self) -> bool:
        """Whether the value is known exactly and does not depend on the decision."""
        return not self.moves and (self.low is self.high or bool(np.all(self.low == self.high)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.low.shape)

    def values(self, function: Callable[[Array], Array]) -> tuple[Array, Array, Array, Array]:
        """A function of the bounds: of the lowest and the largest value, and of both at the
        centre."""
        low, high, centre_low, centre_high = map(
            function, (self.low, self.high, self.centre_low, self.centre_high)
        )
        return low, high, centre_low, centre_high

    def slopes(self, space: Space) -> tuple[Array, Array] | None:
        """The slopes, which are 0 if the value does not depend on the decision."""
        if not self.moves and space.has_room(self.shape):
            zero = np.zeros((space.size, *self.shape))
            return zero, zero
        return None if self.down is None or self.up is None else (self.down, self.up)


class Space:
    """The domain, as far as bounds need it."""

    def __init__(self, domain: Domain) -> None:
        self.domain, self.size = domain, math.prod(domain.shape)
        self.centre = centre_of(domain).astype(float).ravel()
        self.radius = float(domain.radius)
        self.exact = exact_in_numpy(domain)
        self.steep = self.has_room(domain.shape)
        """Whether slopes are computed."""
        if type(domain) is Box:
            self.low, self.high = (
                np.asarray(edge, float).ravel() for edge in (domain.lower, domain.upper)
            )
        elif self.exact and (self.steep or domain._edges() is not None):
            self.low, self.high = bounding_box(domain)
        else:
            self.low, self.high = self.centre - self.radius, self.centre + self.radius
        self.half = np.maximum(self.high - self.centre, self.centre - self.low)
        # Whether changing the signs of x - c leads to another point of the domain.
        self.signs = type(domain) in (Ball, Box, L1Ball)
        self.largest = 0.0
        """The largest number that was added up so far."""

    def has_room(self, shape: tuple[int, ...]) -> bool:
        """Whether slopes of a value of this shape are few enough to be computed."""
        return self.size * math.prod(shape) <= ROWS

    def note(self, values: Iterable[Enclosure]) -> None:
        """Remember the largest number among values, which rounding depends on."""
        for edge in (
            edge for one in values for edge in (one.low, one.high) if edge.dtype.kind == "f"
        ):
            self.largest = max(
                self.largest, float(np.max(np.abs(edge), initial=0, where=np.isfinite(edge)))
            )

    def decision(self) -> Enclosure:
        """The decision itself."""
        shape = self.domain.shape
        low, high, centre = (edge.reshape(shape) for edge in (self.low, self.high, self.centre))
        if not self.steep:
            return Enclosure(low, high, centre, centre, moves=True)
        eye = np.eye(self.size).reshape(self.size, *shape)
        return Enclosure(low, high, centre, centre, eye, eye, True)

    def reach(self, down: Array, up: Array) -> Array:
        """An upper bound on <s, x - c> for all x of the domain and all s between `down` and `up`,
        (size, k) -> (k,)."""
        middle, spread = (down + up).T / 2, (up - down).T / 2
        exact = not spread.any()
        along = self.support(middle)
        if exact:
            return along
        away = np.minimum(np.linalg.norm(spread, axis=1) * self.radius, spread @ self.half)
        largest = np.maximum(np.abs(down), np.abs(up)).T
        whole = np.minimum(np.linalg.norm(largest, axis=1) * self.radius, largest @ self.half)
        if self.signs:
            away, whole = (
                np.minimum(away, self.support(spread)),
                np.minimum(whole, self.support(largest)),
            )
        return np.minimum(along + away, whole)

    def support(self, directions: Array) -> Array:
        """The largest <direction, x - c> over the domain, or an upper bound on it, for each row."""
        if self.exact:
            return -least_change(
                self.domain, -directions, np.broadcast_to(self.centre, directions.shape)
            )
        return np.minimum(
            np.linalg.norm(directions, axis=1) * self.radius, np.abs(directions) @ self.half
        )

    def improved(self, value: Enclosure, lipschitz: float | None = None) -> Enclosure:
        """The enclosure with an interval that makes use of slopes, and of a Lipschitz constant if
        there is one."""
        if not value.moves:
            return value
        low, high, slopes = value.low, value.high, value.slopes(self)
        if slopes is not None:
            down, up = (part.reshape(self.size, -1) for part in slopes)
            high = np.minimum(high, value.centre_high + self.reach(down, up).reshape(value.shape))
            low = np.maximum(low, value.centre_low - self.reach(-up, -down).reshape(value.shape))
        if lipschitz is not None:
            high = np.minimum(high, value.centre_high + lipschitz * self.radius)
            low = np.maximum(low, value.centre_low - lipschitz * self.radius)
        return replace(value, low=low, high=high)


def enclosed(
    function: Callable[..., Any],
    space: Space,
    low: Any = None,
    high: Any = None,
    lipschitz: float | None = None,
) -> tuple[Array, Array, Array]:
    """Bounds from below and from above on all outputs of `function(x, z)` over a domain, and those
    from above at its centre.

    Arguments:
        function: of a decision and data; it returns one array.
        space: the domain.
        low: the data, or their smallest values; trees of arrays.
        high: their largest values, if data are intervals.
        lipschitz: a Lipschitz constant of every output, if one is known.
    """
    high = low if high is None else high
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(low)]
    upper = [np.asarray(leaf) for leaf in jax.tree.leaves(high)]
    closed = _traced(function, space, low)
    space.largest = 0.0
    data = [Enclosure.fixed(_double(a), _double(b)) for a, b in zip(leaves, upper, strict=True)]
    with np.errstate(all="ignore"):
        (found,) = _run(closed, [space.decision(), *data], space)
        found = space.improved(found, lipschitz)
    room = ROUNDING * space.largest
    if not np.all(np.isfinite(found.high)) or not np.all(np.isfinite(found.low)):
        raise Unknown("values are not limited")
    return found.low - room, found.high + room, found.centre_high + room


def work(function: Callable[..., Any], space: Space, data: Any) -> int:
    """The number of slopes, or of values if there are no slopes, that are computed for these
    data."""
    entries = sum(
        math.prod(variable.aval.shape)
        for equation in equations(_traced(function, space, data))
        for variable in equation.outvars
    )
    return (space.size if space.steep else 1) * entries


def _traced(function: Callable[..., Any], space: Space, data: Any) -> Any:
    x = jax.ShapeDtypeStruct(space.domain.shape, default_float())
    like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype), data)
    return jax.make_jaxpr(function)(x, like)


def _double(leaf: Array) -> Array:
    return leaf.astype(float) if leaf.dtype.kind == "f" else leaf


def _run(closed: Any, inputs: Sequence[Enclosure], space: Space) -> list[Enclosure]:
    from .rules import apply

    jaxpr = closed.jaxpr
    constants = [np.asarray(value) for value in closed.consts]
    values = dict(
        zip(
            jaxpr.constvars,
            (Enclosure.fixed(_double(a), _double(a)) for a in constants),
            strict=True,
        )
    )
    values.update(zip(jaxpr.invars, inputs, strict=True))
    space.note(values.values())

    def read(variable: Any) -> Enclosure:
        if isinstance(variable, Literal):
            value = _double(np.asarray(variable.val))
            return Enclosure.fixed(value, value)
        return values[variable]

    for equation in jaxpr.eqns:
        operands = [read(v) for v in equation.invars]
        if equation.primitive.name in CALLS:
            results = _run(called(equation), operands, space)
        else:
            results = apply(equation, operands, space)
        values.update(zip(equation.outvars, results, strict=True))
        space.note(results)
    return [read(v) for v in jaxpr.outvars]

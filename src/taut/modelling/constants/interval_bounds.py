"""Constants of a model as true upper bounds, by interval arithmetic over the domain's box and the
parameters' range."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np

from ...engine import Array
from ...problem.domains import AffineBox, Ball, Blocks, Domain, L1Ball, Product, Simplex, Spectral
from ...problem.domains import Box as DomainBox
from ...problem.domains.support import bounding_box, least_change
from ..translation.attributes import constant_value, is_symmetric, mirrored, pattern
from ..translation.parameters import Range
from .interval_matrices import SPECTRAL
from .interval_rules import RULES
from .intervals import MOST, Span, Unknown, interval_product, joined, scaled, spectral, thin

if TYPE_CHECKING:
    from ..model import Model
    from ..translation.statement import Statement

__all__ = ["Box", "Intervals", "constraint_bounds", "least_upper", "loss_bounds", "whole_box"]

CLOSE = 1.05
"""A bound that is at most this many times a value that is attained is not improved."""
PIECES = 48
"""The number of boxes that are looked at to improve a bound,"""
ENTRIES = 12
"""if decision and data together have at most this many entries."""


ROWS = 200
"""Affine expressions with at most this many entries are bounded over the domain itself, others over
its box."""
ROUNDING = 1e-12


def _is_cut(domain: Domain) -> bool:
    """Whether the domain is smaller than its box and linear functions over it are bounded
    quickly."""
    if isinstance(domain, (Blocks, Product)):
        return any(map(_is_cut, domain.parts)) and all(
            isinstance(one, DomainBox) or _is_cut(one) for one in domain.parts
        )
    return isinstance(domain, (Ball, L1Ball, Simplex)) or (
        isinstance(domain, AffineBox) and len(domain.rows) == 1
    )


class Box(NamedTuple):
    """Decisions and data, both flat, between bounds."""

    low: Array
    high: Array
    size: int
    """The number of entries of a decision."""


def whole_box(model: Model, known: Range) -> Box:
    """The smallest box around the domain, and the range of the parameters."""
    low, high = bounding_box(model.domain)
    return Box(np.append(low, known.lower), np.append(high, known.upper), len(low))


class Intervals:
    """Bounds on the expressions of a model over a box."""

    def __init__(self, model: Statement, box: Box) -> None:
        self.model, self.box, self.size = model, box, box.size
        self._spans: dict[int, Span] = {}
        self._kept: list[Any] = []  # expressions, so that ids are not used again
        self._places: dict[int, slice] = {}
        self._corner: Intervals | None = None
        domain = getattr(model, "domain", None)
        # A single decision, such as the middle of the box, need not be part of the domain.
        several = bool(np.any(box.high[: box.size] > box.low[: box.size]))
        self._whole = domain if several else None
        self._domain = domain if domain is not None and _is_cut(domain) and several else None
        start = box.size
        for parameter in model.parameters:
            self._places[parameter.id] = slice(start, start + parameter.size)
            start += parameter.size

    def of(self, expression: Any) -> Span:
        """Bounds on an expression. Raises `Unknown` if there are none."""
        if id(expression) not in self._spans:
            self._kept.append(expression)
            with np.errstate(all="ignore"):
                self._spans[id(expression)] = self._of(expression)
        return self._spans[id(expression)]

    def _of(self, expression: Any) -> Span:
        if isinstance(expression, cp.Variable):
            return self._variable(expression)
        if isinstance(expression, cp.Parameter):
            return self._parameter(expression)
        constant = constant_value(expression)
        if constant is not None:
            return thin(constant, self.size)
        if isinstance(expression, cp.perspective):
            return self._perspective(expression)
        name = type(expression).__name__
        if name in SPECTRAL:
            return SPECTRAL[name](
                expression, [self.of(expression.args[0])], self._eigenvalues(expression.args[0])
            )
        rule = getattr(type(expression), "interval_rule", RULES.get(name))
        if rule is None:
            raise Unknown
        inner = [self.of(arg) for arg in expression.args]
        if self._domain is not None and not expression.is_affine():
            inner = [
                self._within(arg, span) if arg.is_affine() else span
                for arg, span in zip(expression.args, inner, strict=True)
            ]
        return rule(expression, inner)

    def _within(self, expression: Any, span: Span) -> Span:
        """Tighter bounds on an affine function over a domain that is smaller than its box, such as
        a simplex.

        With the lower corner c of the box, f(x) = f(c) + <slope, x - c>, and no entry of x - c is
        below zero.
        """
        domain = self._domain
        if (
            domain is None
            or span.constant
            or isinstance(expression, cp.Variable)
            or span.size > ROWS
        ):
            return span
        if self._corner is None:
            low = bounding_box(domain)[0]
            first, last = (
                np.append(low, edge[self.size :]) for edge in (self.box.low, self.box.high)
            )
            self._corner = Intervals(self.model, Box(first, last, self.size))
            self._corner._domain = None
        there, corner = (
            self._corner.of(expression),
            np.tile(self._corner.box.low[: self.size], (span.size, 1)),
        )
        low = np.ravel(there.low) + least_change(domain, span.down, corner)
        high = np.ravel(there.high) - least_change(domain, -span.up, corner)
        room = ROUNDING * (1 + np.abs(low) + np.abs(high))
        low, high = (np.reshape(edge, span.low.shape) for edge in (low - room, high + room))
        return span._replace(low=np.maximum(span.low, low), high=np.minimum(span.high, high))

    def _eigenvalues(self, matrix: Any) -> tuple[float, float] | None:
        """Bounds on the eigenvalues of plus or minus a variable and a multiple of the identity, if
        the domain bounds them."""
        if type(matrix).__name__ == "NegExpression":
            found = self._eigenvalues(matrix.args[0])
            return None if found is None else (-found[1], -found[0])
        if (
            type(matrix).__name__ == "AddExpression"
        ):  # a multiple of the identity moves all eigenvalues
            values = [constant_value(one) for one in matrix.args]
            rest = [one for one, value in zip(matrix.args, values, strict=True) if value is None]
            found = self._eigenvalues(rest[0]) if len(rest) == 1 else None
            shift = np.sum(
                [np.broadcast_to(value, matrix.shape) for value in values if value is not None],
                axis=0,
            )
            if found is None or not np.array_equal(shift, shift[0, 0] * np.eye(len(shift))):
                return None
            return found[0] + float(shift[0, 0]), found[1] + float(shift[0, 0])
        if self._whole is None or not isinstance(matrix, cp.Variable):
            return None
        domain, where = self._whole, self.model.spans[matrix.id]
        if isinstance(domain, Blocks):
            places = tuple(range(where.start, where.stop))
            domain = next(
                (
                    part
                    for part, own in zip(domain.parts, domain.places, strict=True)
                    if own == places
                ),
                domain,
            )
        if not isinstance(domain, Spectral) or domain.shape != matrix.shape:
            return None
        low, high = bounding_box(domain.eigenvalues)
        return float(low.min()), float(high.max())

    def _perspective(self, atom: Any) -> Span:
        """s f(x / s), whose gradient in x is that of f at u = x / s, and in s is f(u) - <gradient,
        u>."""
        scale, parts = self.of(atom.args[0]), [self.of(one) for one in atom.f.variables()]
        least, most = float(scale.low.min()), float(scale.high.max())
        if least <= 0 or not parts:
            raise Unknown
        whole = joined(parts)
        low, high = interval_product(
            whole.low, whole.high, np.full(whole.size, 1 / most), np.full(whole.size, 1 / least)
        )
        span = _Ratios(self, atom.f.variables(), low, high).of(atom.f)
        first, last = (np.ravel(edge) for edge in (span.down, span.up))
        value = np.ravel(span.low), np.ravel(span.high)
        turn = interval_product(first, last, low, high)
        ends = interval_product(*value, np.array([least]), np.array([most]))
        down, up, steep = scaled(value[0] - turn[1].sum(), value[1] - turn[0].sum(), scale)
        inner, outer, _ = scaled(first, last, whole)
        size = float(span.steep[0]) * spectral(whole)
        return Span.of(
            np.reshape(ends[0], atom.shape),
            np.reshape(ends[1], atom.shape),
            down + inner.sum(axis=0, keepdims=True),
            up + outer.sum(axis=0, keepdims=True),
            steep + size,
        )

    def _variable(self, variable: Any) -> Span:
        if self.size * variable.size > MOST:
            raise Unknown
        where = self.model.spans[variable.id]
        low, high = (edge[where].reshape(variable.shape) for edge in (self.box.low, self.box.high))
        slopes = np.eye(self.size)[where]
        if is_symmetric(variable):
            other = mirrored(np.arange(variable.size).reshape(variable.shape)).ravel()
            slopes = (slopes + slopes[other]) / 2
            low, high = (low + mirrored(low)) / 2, (high + mirrored(high)) / 2
        mask = pattern(variable).astype(float)
        slopes = slopes * mask.reshape(-1, 1)
        return Span.of(low * mask, high * mask, slopes, slopes)

    def _parameter(self, parameter: Any) -> Span:
        if parameter.id not in self._places:
            return thin(self.model.fixed_value(parameter), self.size)
        where = self._places[parameter.id]
        span = thin(self.box.low[where].reshape(parameter.shape), self.size)
        return span._replace(high=self.box.high[where].reshape(parameter.shape))


class _Ratios(Intervals):
    """Bounds on the function inside a perspective, over its variables divided by the scale."""

    def __init__(self, outer: Intervals, variables: list[Any], low: Array, high: Array) -> None:
        self.model, self.box, self.size = outer.model, outer.box, len(low)
        self._spans, self._kept, self._places = {}, list(variables), outer._places
        self._corner, self._domain, self._whole = None, None, None
        start, slopes = 0, np.eye(len(low))
        for variable in variables:
            own = slice(start, start + variable.size)
            first, last = (edge[own].reshape(variable.shape) for edge in (low, high))
            self._spans[id(variable)] = Span.of(first, last, slopes[own], slopes[own])
            start = own.stop


def loss_bounds(model: Model, box: Box) -> tuple[float, float]:
    """Bounds on the norm of the loss's gradient, and on how much the loss varies over decisions for
    the same data."""
    span = Intervals(model, box).of(model.objective)
    steep, half = float(span.steep[0]), (box.high - box.low)[: box.size] / 2
    moved = float(np.maximum(np.abs(span.down[0]), np.abs(span.up[0])) @ (2 * half))
    value = float(np.max(span.high - span.low))
    return steep, min(moved, value, steep * float(model.domain.diameter))


def constraint_bounds(model: Model, box: Box, rows: list[Any]) -> tuple[float, float]:
    """Bounds on the norms of the gradients and on the absolute values of rows of constraints."""
    every, steep, size = Intervals(model, box), 0.0, 0.0
    n, half = box.size, (box.high - box.low)[: box.size] / 2
    middle = (box.high + box.low)[:n] / 2
    there = Intervals(
        model, Box(np.append(middle, box.low[n:]), np.append(middle, box.high[n:]), n)
    )
    for row in rows:
        span, centre = every.of(row), there.of(row)
        reach = np.maximum(np.abs(span.down), np.abs(span.up)) @ half
        low = np.maximum(np.ravel(span.low), np.ravel(centre.low) - reach)  # the mean value theorem
        high = np.minimum(np.ravel(span.high), np.ravel(centre.high) + reach)
        steep = max(steep, float(span.steep.max(initial=0)))
        size = max(size, float(np.maximum(np.abs(low), np.abs(high)).max(initial=0)))
    return steep, size


def least_upper(
    bound: Callable[[Box], float], box: Box, attained: float, data_only: bool = False
) -> float:
    """The bound over a box, improved by dividing the box where that is cheap; at least the attained
    value.

    With `data_only` the range of the data is divided and that of the decisions is not, for bounds
    on differences between two decisions.
    """
    first = bound(box)
    widths = box.high - box.low
    moving = np.flatnonzero(widths > 0)
    moving = moving[moving >= box.size] if data_only else moving
    if not len(moving):
        return max(first, attained)
    if len(moving) > ENTRIES or first <= CLOSE * attained:
        return max(first, attained)
    queue: list[tuple[float, int, Array, Array]] = [(-first, 0, box.low, box.high)]
    for made in range(1, PIECES, 2):
        top, _, low, high = queue[0]
        if -top <= CLOSE * attained:
            break
        heapq.heappop(queue)
        split = moving[int(np.argmax(((high - low) / np.where(widths > 0, widths, 1))[moving]))]
        middle = (low[split] + high[split]) / 2
        for k, (edge, other) in enumerate(((low, high), (low, high))):
            one, two = edge.copy(), other.copy()
            (two if k == 0 else one)[split] = middle
            # A part of the box cannot have a larger bound than the whole.
            heapq.heappush(queue, (-min(bound(Box(one, two, box.size)), -top), made + k, one, two))
    return max(-queue[0][0], attained)

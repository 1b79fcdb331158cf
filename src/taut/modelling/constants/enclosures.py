"""Enclosures of a model's expressions, over its domain's box and the parameters' range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from ...intervals.arithmetic import linear
from ...intervals.constants import Edges
from ...intervals.enclosure import Enclosure, Interval, Space
from ...intervals.of_cvxpy import Expressions
from ...intervals.pieces import Unknown
from ...problem.domains import (
    AffineBox,
    Ball,
    Blocks,
    Box,
    Domain,
    L1Ball,
    Product,
    Simplex,
    Spectral,
)
from ...problem.domains.support import bounding_box
from ..translation.attributes import constant_value, is_symmetric, pattern, spans_of

if TYPE_CHECKING:
    from ..translation.statement import Statement


def enclosures(model: Statement, box: Edges) -> Expressions:
    """The enclosures of the model's expressions over a box, and over its domain, if it has one."""
    size = box.size
    domain = getattr(model, "domain", None)
    # A single decision, such as the middle of the box, need not be part of the domain.
    several = bool(np.any(box.high[:size] > box.low[:size]))
    domain = domain if several else None
    cut = domain if domain is not None and _is_cut(domain) else None
    space = Space(box.low[:size], box.high[:size], cut, gradients=True)
    places = spans_of(model.parameters, size)

    def leaf(expression: Any) -> Enclosure | None:
        if isinstance(expression, cp.Variable):
            return _variable(space, model.spans[expression.id], expression)
        if isinstance(expression, cp.Parameter):
            if expression.id not in places:
                return Enclosure.fixed(space, model.values_of_fixed[expression.id])
            edges = (edge[places[expression.id]] for edge in (box.low, box.high))
            return Enclosure.fixed(space, *(edge.reshape(expression.shape) for edge in edges))
        constant = constant_value(expression)
        if constant is None:
            return None
        if np.iscomplexobj(constant):
            raise Unknown("complex numbers have no bound")
        return Enclosure.fixed(space, constant)

    def eigenvalues(matrix: Any) -> Interval | None:
        if domain is None or not isinstance(matrix, cp.Variable):
            return None
        return _eigenvalues(domain, model.spans[matrix.id], matrix.shape)

    return Expressions(space, leaf, eigenvalues)


def _variable(space: Space, where: slice, variable: Any) -> Enclosure:
    count = variable.ndim
    u = space.decision(np.arange(where.start, where.stop).reshape(variable.shape))
    if is_symmetric(variable):
        u = linear(u, lambda part: (part + part.swapaxes(count - 2, count - 1)) / 2)
    mask = pattern(variable).astype(float)
    if mask.all():
        return u
    return linear(u, lambda part: part * mask.reshape(*mask.shape, *[1] * (part.ndim - count)))


def _is_cut(domain: Domain) -> bool:
    """Whether the domain is smaller than its box, and bounds linear functions quickly."""
    if isinstance(domain, Product):
        return any(map(_is_cut, domain.parts)) and all(
            isinstance(part, Box) or _is_cut(part) for part in domain.parts
        )
    return isinstance(domain, (Ball, L1Ball, Simplex)) or (
        isinstance(domain, AffineBox) and len(domain.rows) == 1
    )


def _eigenvalues(domain: Domain, where: slice, shape: tuple[int, ...]) -> Interval | None:
    """Bounds on the eigenvalues of a variable, if its part of the domain bounds them."""
    if isinstance(domain, Blocks):
        places = tuple(range(where.start, where.stop))
        parts = zip(domain.parts, domain.places, strict=True)
        domain = next((part for part, own in parts if own == places), domain)
    if not isinstance(domain, Spectral) or domain.shape != shape:
        return None
    low, high = bounding_box(domain.eigenvalues)
    return Interval(low.min(), high.max())

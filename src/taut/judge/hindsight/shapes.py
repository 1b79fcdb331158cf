"""How sets look to a conic solver: a domain, a quadratic constraint, and rows that are equations in disguise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...problem.conic import backend
from .scaling import Array, Frame

__all__ = ["DomainCones", "Quadratic", "SecondOrder", "domain_cones", "opposite_rows", "second_order_cone"]

OPPOSITE = 1e-12
"""Rows that differ from each other's negative by less than this are the two sides of an equation."""


class Quadratic(NamedTuple):
    """1/2 u'Qu + a'u + c <= 0 with Q positive semidefinite."""

    bend: Array
    linear: Array
    constant: float


class DomainCones(NamedTuple):
    """A domain as matrix @ v + s = offsets: s is zero for `equal`, not negative for `below`, in `cones` for the rest.

    v is u, followed by variables of the domain's own.
    """

    equal: Any
    equal_offsets: Array
    below: Any
    below_offsets: Array
    rest: Any
    rest_offsets: Array
    cones: list[Any]


def domain_cones(frame: Frame) -> DomainCones:
    """The domain's constraints on u and on its own further variables, as CVXPY states them for Clarabel."""
    import clarabel
    import cvxpy as cp
    from scipy import sparse

    u = cp.Variable(frame.size)
    x = np.asarray(frame.centre) + float(frame.scale) * u
    stated = frame.domain.to_cvxpy(cp.reshape(x, frame.domain.shape, order="C"))
    program = cp.Problem(cp.Minimize(cp.sum(u)), stated)
    data, _, _ = program.get_problem_data(cp.CLARABEL, canon_backend=backend(program))
    first = data["param_prob"].var_id_to_col[u.id]
    matrix, offsets, dims = sparse.csc_matrix(data["A"]), np.asarray(data["b"], float), data["dims"]
    own = np.arange(first, first + frame.size)
    matrix = matrix[:, np.concatenate([own, np.setdiff1d(np.arange(matrix.shape[1]), own)])]
    cones = [
        *map(clarabel.SecondOrderConeT, dims.soc), *map(clarabel.PSDTriangleConeT, dims.psd),
        *(clarabel.ExponentialConeT() for _ in range(dims.exp)), *map(clarabel.PowerConeT, dims.p3d),
    ]  # fmt: skip
    equal, below = dims.zero, dims.zero + dims.nonneg
    parts = [(matrix[rows], offsets[rows]) for rows in (slice(0, equal), slice(equal, below), slice(below, None))]
    return DomainCones(*parts[0], *parts[1], *parts[2], cones)


class SecondOrder(NamedTuple):
    """A quadratic constraint as offsets - rows @ u in the second-order cone."""

    rows: Array
    offsets: Array
    multiplier: Array
    """Its product with the cone's dual variable is the multiplier of the constraint."""
    linear: Array
    """Which rows the constraint's linear part is in (twice)."""


def second_order_cone(one: Quadratic, relaxed: bool) -> SecondOrder:
    """|F (u - v)| <= r with Q = F'F if the constraint has a centre v; else |(t - 1, 2 F u)| <= t + 1, t = -2 (a'u + c).

    The first is better conditioned; only the second can be relaxed by a level.
    """
    values, vectors = np.linalg.eigh(one.bend)
    kept = values > values.max(initial=0) * 1e-14
    factor = (vectors[:, kept] * np.sqrt(values[kept])).T
    centre = -vectors[:, kept] @ ((vectors[:, kept].T @ one.linear) / values[kept])
    square = float(-one.linear @ centre - 2 * one.constant)
    if not relaxed and square > 0 and np.allclose(one.bend @ centre, -one.linear, rtol=0, atol=1e-13):
        radius = np.sqrt(square)
        rows = np.concatenate([np.zeros((1, len(one.linear))), -factor])
        offsets = np.concatenate([[radius], -factor @ centre])
        return SecondOrder(rows, offsets, np.append(1 / radius, np.zeros(len(factor))), np.zeros(len(offsets)))
    rows = np.concatenate([2 * one.linear[None], 2 * one.linear[None], -2 * factor])
    offsets = np.concatenate([[1 - 2 * one.constant, -1 - 2 * one.constant], np.zeros(len(factor))])
    first = np.concatenate([[1.0, 1.0], np.zeros(len(factor))])
    return SecondOrder(rows, offsets, 2 * first, first)


def opposite_rows(rows: Array, offsets: Array) -> Array:
    """Pairs (i, j) of rows that together say a'u = b. An interior-point method needs to be told."""
    pairs, taken = [], np.zeros(len(rows), bool)
    whole = np.column_stack([rows, offsets])
    along = whole @ np.cos(np.arange(1.0, whole.shape[1] + 1))  # one number a row: opposite rows have opposite ones
    order = np.argsort(along)
    for i in range(len(rows)):
        if taken[i]:
            continue
        start = np.searchsorted(along, -along[i] - 1e-9, sorter=order)
        stop = np.searchsorted(along, -along[i] + 1e-9, sorter=order)
        for j in order[start:stop]:
            if j > i and not taken[j] and np.abs(whole[i] + whole[j]).max() <= OPPOSITE:
                pairs.append((i, j))
                taken[[i, j]] = True
                break
    return np.asarray(pairs, int).reshape(-1, 2)

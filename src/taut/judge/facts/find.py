"""Find all facts of a problem and its data: `facts_of`."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from ...engine import Array, default_float
from ...intervals.enclosure import Space, Unknown
from ...problem.domains import Ball, Box, Domain
from ...problem.domains.support import bounding_box, centre_of, exact_in_numpy, project_rows
from ...problem.problem import Problem
from ...problem.streams import Stream
from .fact import PROVEN, VERIFIED, Fact, Facts
from .half_spaces import MOST, ROOM, Pieces, distinct, nearly_parallel, pieces_of
from .polyhedra import hoffman, vertices
from .ranges import constraint_curvature, constraint_ranges, loss_curvature, loss_ranges
from .slater import slater_point

__all__ = ["facts_of"]

NUMBERS = 1_000_000
"""Numbers of a stream up to which the affine pieces of all rounds are looked at."""
CURVED_ROWS = 4
"""Constraints up to which second derivatives are bounded."""
OUTSIDE = 64
"""Units of rounding by which a vertex of the feasible set may lie outside the domain."""
INTERVALS = "by interval arithmetic"


def facts_of(problem: Problem, stream: Stream | None = None) -> Facts:
    """What can be proven of a problem, for the data of a stream.

    Without data, or if an adversary reveals them, nothing is proven of losses and of constraints
    that change.
    """
    if stream is not None and stream.reacts:
        stream = None
    fixed = not problem.constraints.takes_data
    data = None if fixed else stream
    found: dict[str, Any] = {}
    if stream is not None:
        found |= _of_losses(problem, stream)
    if fixed or data is not None:
        found |= _of_constraints(problem, data)
    return Facts(**found)


def _of_losses(problem: Problem, stream: Stream) -> dict[str, Any]:
    """Convexity, Lipschitz constant, range and strong convexity of the losses of all rounds."""
    found: dict[str, Any] = {}
    rounds = f"{INTERVALS}, over the domain and the data of all {stream.horizon:,} rounds"
    try:
        ranges = loss_ranges(problem, stream)
        found["loss_lipschitz"] = Fact(ranges.lipschitz, PROVEN, rounds)
        found["loss_range"] = Fact(ranges.range, PROVEN, rounds)
    except Unknown:
        pass
    try:
        pieces = _pieces(problem.loss, problem, stream)
        if pieces.convex:
            found["convex_losses"] = _convex(pieces)
        found.setdefault("loss_lipschitz", _steepest(pieces))
        return found
    except Unknown:
        pass
    try:
        least, most = loss_curvature(problem, stream)
    except Unknown:
        return found
    if least >= 0:
        found["convex_losses"] = Fact(1, PROVEN, f"no second derivative is negative, {rounds}")
    if least > 1e-9 * most:
        why = f"the least eigenvalue of second derivatives, {rounds}"
        found["strong_convexity"] = Fact(least, PROVEN, why)
    return found


def _of_constraints(problem: Problem, stream: Stream | None) -> dict[str, Any]:
    """All facts of the constraints: fixed ones if there is no stream."""
    found: dict[str, Any] = {}
    where = f"{INTERVALS}, over the domain"
    if stream is not None:
        where += f" and the data of all {stream.horizon:,} rounds"
    try:
        ranges = constraint_ranges(problem, stream)
        found["constraint_lipschitz"] = Fact(ranges.lipschitz, PROVEN, where)
        found["constraint_range"] = Fact(ranges.range, PROVEN, where)
    except Unknown:
        pass
    try:
        pieces = _pieces(problem.constraints.values, problem, stream)
        found |= _of_pieces(problem, stream, pieces)
        found.setdefault("constraint_lipschitz", _steepest(pieces))
    except Unknown:
        found |= _of_curvature(problem, stream, where)
    point = slater_point(problem, stream)
    if point is None:
        return found
    shown = np.array2string(np.asarray(point.point), precision=4, threshold=6)
    rounds = "" if stream is None else f" in all {stream.horizon:,} rounds"
    room = f"max g <= {-point.room:.6g} at x = {shown}{rounds}"
    found["slater"] = Fact(point.room, VERIFIED, room)
    found["slater_point"] = point.point
    if stream is None:
        why = (
            f"the room {point.room:.6g} at x = {shown} over the largest distance from it, "
            f"{point.distance:.6g}"
        )
        if "convex_constraints" not in found and not problem.proof_of_convexity:
            why += ", if the constraints are convex"
        kappa = Fact(point.room / point.distance, PROVEN, why)
        known = found.get("error_bound")
        found["error_bound"] = kappa if known is None or kappa.value > known.value else known
    return found


def _convex(pieces: Pieces) -> Fact:
    what = "maxima of affine functions" if pieces.sign else "affine functions"
    return Fact(1, PROVEN, f"{what} by the traced program")


def _steepest(pieces: Pieces) -> Fact:
    return Fact((1 + 1e-9) * pieces.steepest, PROVEN, "the steepest affine piece of all rounds")


def _pieces(function: Any, problem: Problem, stream: Stream | None) -> Pieces:
    """The affine pieces of a function; in all rounds of all seeds, (round, ...), if it takes
    data."""
    if stream is None:
        return pieces_of(function, problem.domain.shape, None)
    first = jax.tree.leaves(stream.block(0, 1))
    numbers = sum(np.asarray(leaf).size for leaf in first) * stream.horizon
    rounds = stream.seeds * stream.horizon
    if numbers > NUMBERS or rounds * math.prod(problem.domain.shape) > ROOM:
        raise Unknown("the data are many")
    data = jax.tree.map(
        lambda a: np.asarray(a).reshape(rounds, *np.shape(a)[2:]), stream.block(0, stream.horizon)
    )
    return pieces_of(jax.vmap(function, (None, 0)), problem.domain.shape, data)


def _of_pieces(problem: Problem, stream: Stream | None, pieces: Pieces) -> dict[str, Any]:
    """What follows if all constraints are maxima of affine functions."""
    if not pieces.convex:
        return {}
    affine = pieces.sign == 0
    found: dict[str, Any] = {"convex_constraints": _convex(pieces)}
    if affine:
        found["constraint_smoothness"] = Fact(0.0, PROVEN, "all constraints are affine")
    size = pieces.size
    try:
        normals, _ = distinct(pieces.slopes.reshape(-1, size), pieces.offsets.ravel())
    except Unknown:
        return found
    if not 0 < len(normals) <= MOST:
        return found
    seen = "" if stream is None else f" in the data of {stream.horizon:,} rounds"
    if not nearly_parallel(normals):
        why = f"half-spaces of the traced program{seen}"
        found["half_spaces"] = Fact(len(normals), PROVEN, why)
    if stream is None:
        found |= _hoffman(problem, pieces)
    return found


def _hoffman(problem: Problem, pieces: Pieces) -> dict[str, Any]:
    """The error bound of a polyhedron of few rows.

    The rows of a box belong to the polyhedron. Another domain must contain the polyhedron: its
    boundary would be a part of that of the feasible set otherwise.
    """
    domain, size = problem.domain, pieces.size
    boxed = type(domain) is Box
    if not boxed and (problem.domain_binds or problem.as_stated() is not problem):
        return {}
    space = Space.of(domain)
    if not boxed and not exact_in_numpy(domain):
        return {}
    low, high = (space.low, space.high) if boxed else bounding_box(domain)
    slopes, offsets = pieces.slopes.reshape(-1, size), pieces.offsets.ravel()
    moving = np.any(slopes != 0, axis=1)
    rows: Array = np.unique(np.column_stack([slopes, offsets])[moving], axis=0)
    sides = np.concatenate([np.eye(size), -np.eye(size)]) if boxed else np.zeros((0, size))
    levels = np.concatenate([high, -low]) if boxed else np.zeros(0)
    if not boxed and not _contains(domain, rows):
        return {}
    try:
        kappa = hoffman(rows[:, :-1], rows[:, -1], sides, levels, low, high, _ball(domain))
    except Unknown:
        return {}
    why = f"Hoffman's constant of the polyhedron's {len(rows)} rows"
    return {"error_bound": Fact(kappa, PROVEN, why)}


def _contains(domain: Domain, rows: Array) -> bool:
    """Whether the polyhedron of these rows, (slope, offset), lies in the domain: it is bounded, and
    all its vertices are decisions, up to rounding."""
    points = vertices(rows[:, :-1], rows[:, -1])
    if points is None:
        return False
    inside = project_rows(domain, points)
    away = np.linalg.norm(points - inside, axis=1)
    unit = OUTSIDE * float(np.finfo(default_float()).eps)
    return bool(np.all(away <= unit * (np.linalg.norm(points, axis=1) + float(domain.radius))))


def _ball(domain: Domain) -> tuple[Array, float] | None:
    if type(domain) is not Ball:
        return None
    return centre_of(domain).astype(float).ravel(), float(domain.radius)


def _of_curvature(problem: Problem, stream: Stream | None, where: str) -> dict[str, Any]:
    """Smoothness, and convexity, of constraints that have second derivatives."""
    count = problem.constants.constraint_count
    if count is None or count > CURVED_ROWS:
        return {}
    try:
        least, most = constraint_curvature(problem, stream, count)
    except Unknown:
        return {}
    found = {"constraint_smoothness": Fact(max(abs(least), abs(most)), PROVEN, where)}
    if least >= 0:
        why = f"no second derivative is negative, {where}"
        found["convex_constraints"] = Fact(1, PROVEN, why)
    return found

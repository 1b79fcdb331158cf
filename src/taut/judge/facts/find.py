"""A fact, all facts of a problem, and how they are found: `facts_of`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ...display import Displayed, Summary, number
from ...engine import Array, default_float
from ...intervals.constants import size, variation
from ...intervals.enclosure import Space
from ...intervals.of_jaxpr import enclose
from ...intervals.pieces import MOST, ROOM, Pieces, Unknown
from ...problem.constants import SYMBOLS, Constants
from ...problem.domains import Ball, Box, Domain
from ...problem.domains.support import bounding_box, centre_of, exact_in_numpy, project_rows
from ...problem.evaluation import constraint_evaluation, loss_of_round
from ...problem.problem import Problem
from ...problem.streams import Stream
from .polyhedra import distinct, hoffman, nearly_parallel, vertices
from .ranges import curvature_of, program_of, ranges_of

PROVEN, VERIFIED = "proven", "verified exactly"
"""Derived for all decisions; or evaluated at a decision, in all rounds."""
UPPER = (
    "loss_lipschitz",
    "constraint_lipschitz",
    "loss_range",
    "constraint_range",
    "constraint_smoothness",
    "half_spaces",
)
"""Constants that are stronger the smaller they are."""
LOWER = ("strong_convexity", "slater", "error_bound")
"""Constants that are stronger the larger they are."""
NEARLY = 1e-5
"""A stated constant that is stronger than a fact by less than this, relatively, is that fact: facts
leave room for rounding."""
NUMBERS = 1_000_000
"""Numbers of a stream up to which the affine pieces of all rounds are looked at."""
CURVED_ROWS = 4
"""Constraints up to which second derivatives are bounded."""
OUTSIDE = 64
"""Units of rounding by which a vertex of the feasible set may lie outside the domain."""
INTERVALS, AFFINE = "by interval arithmetic", "affine functions by the traced program"


@dataclass(frozen=True)
class Fact:
    """One number that is certain, and why."""

    value: float
    kind: str
    """`PROVEN` or `VERIFIED`."""
    source: str
    """How it was found, as a part of a sentence."""


@dataclass(frozen=True, repr=False)
class Facts(Displayed):
    """What is proven of a problem and its data; None where nothing is.

    Fields with the name of a constant hold for that constant (see `taut.Constants`).
    """

    convex_losses: Fact | None = None
    """1, if all losses are proven to be convex."""
    convex_constraints: Fact | None = None
    """1, if all constraints are."""
    loss_lipschitz: Fact | None = None
    loss_range: Fact | None = None
    strong_convexity: Fact | None = None
    constraint_lipschitz: Fact | None = None
    constraint_range: Fact | None = None
    constraint_smoothness: Fact | None = None
    slater: Fact | None = None
    slater_point: Array | None = None
    """The decision that has this room."""
    error_bound: Fact | None = None
    half_spaces: Fact | None = None
    """M: the constraints of all rounds are maxima of so many different affine functions, so
    gradients reveal at most M different half-spaces."""

    def strengthened(self, given: Constants) -> Constants:
        """The constants, with each one that is unknown, estimated or weaker than a fact replaced by
        the fact."""
        better: dict[str, Any] = {}
        for name in (*UPPER, *LOWER):
            fact, stated = getattr(self, name, None), getattr(given, name)
            if fact is None or (fact.value == 0 and name != "constraint_smoothness"):
                continue  # theorems are about functions that are not constant
            unknown = stated is None or name in given.estimated
            room = NEARLY * fact.value
            stronger = not unknown and (
                fact.value <= stated + room if name in UPPER else fact.value >= stated - room
            )
            if unknown or stronger:
                better[name] = int(fact.value) if name == "half_spaces" else fact.value
        return given.with_values(exact=True, **better) if better else given

    def proof(self, name: str, constants: Constants) -> Fact | None:
        """The fact that the value of a constant is; None if it is something else."""
        fact: Fact | None = getattr(self, name, None)
        return fact if fact is not None and getattr(constants, name) == fact.value else None

    def to_dict(self) -> dict[str, Any]:
        """All facts as JSON-able values."""
        entries: dict[str, Any] = {}
        for field in fields(self):
            fact = getattr(self, field.name)
            if isinstance(fact, Fact):
                entry = {"value": fact.value, "kind": fact.kind, "source": fact.source}
                entries[field.name] = entry
            elif fact is not None:
                entries[field.name] = np.asarray(fact).tolist()
        return entries

    def _summary(self) -> Summary:
        lines = []
        for field in fields(self):
            fact = getattr(self, field.name)
            if not isinstance(fact, Fact):
                continue
            symbol = SYMBOLS.get(field.name)
            text = f"{symbol} = {number(fact.value)}, " if symbol else f"{number(fact.value)}, "
            text = "" if field.name.startswith("convex") else text
            lines.append((field.name.replace("_", " "), f"{text}{fact.kind}: {fact.source}"))
        return Summary("Facts" if lines else "Facts: none could be proven", lines)


def facts_of(problem: Problem, stream: Stream | None = None) -> Facts:
    """What can be proven of a problem, for the data of a stream.

    Without data, or if an adversary reveals them, nothing is proven of losses and of constraints
    that change.
    """
    if stream is not None and stream.reacts:
        stream = None
    fixed = not problem.constraints.takes_data
    data = None if fixed else stream
    facts: dict[str, Any] = {}
    if stream is not None:
        facts |= _of_losses(problem, stream)
    if fixed or data is not None:
        facts |= _of_constraints(problem, data)
    return Facts(**facts)


def _if_known(find: Callable[..., Any], *args: Any) -> Any:
    """The result of a function, or None if it is unknown."""
    try:
        return find(*args)
    except Unknown:
        return None


def _of_losses(problem: Problem, stream: Stream) -> dict[str, Any]:
    """Convexity, Lipschitz constant, range and strong convexity of the losses of all rounds."""
    facts: dict[str, Any] = {}
    rounds = f"{INTERVALS}, over the domain and the data of all {stream.horizon:,} rounds"
    loss = partial(loss_of_round, problem.loss)
    ranges = _if_known(ranges_of, loss, problem, stream, variation)
    if ranges is not None:
        facts["loss_lipschitz"] = Fact(ranges.lipschitz, PROVEN, rounds)
        facts["loss_range"] = Fact(ranges.range, PROVEN, rounds)
        if ranges.affine:
            return facts | {"convex_losses": Fact(1, PROVEN, AFFINE)}
    pieces = _if_known(_pieces, problem.loss, problem, stream)
    if pieces is not None:
        if pieces.sign >= 0:
            facts["convex_losses"] = _convex(pieces)
        return {"loss_lipschitz": _steepest(pieces)} | facts
    least, most = _if_known(curvature_of, [loss], problem, stream) or (-math.inf, math.inf)
    if least >= 0:
        facts["convex_losses"] = Fact(1, PROVEN, f"no second derivative is negative, {rounds}")
    if least > 1e-9 * most:
        why = f"the least eigenvalue of second derivatives, {rounds}"
        facts["strong_convexity"] = Fact(least, PROVEN, why)
    return facts


def _of_constraints(problem: Problem, stream: Stream | None) -> dict[str, Any]:
    """All facts of the constraints: fixed ones if there is no stream."""
    facts: dict[str, Any] = {}
    where = f"{INTERVALS}, over the domain"
    if stream is not None:
        where += f" and the data of all {stream.horizon:,} rounds"
    ranges = _if_known(ranges_of, problem.constraints.values, problem, stream, size)
    if ranges is not None:
        facts["constraint_lipschitz"] = Fact(ranges.lipschitz, PROVEN, where)
        facts["constraint_range"] = Fact(ranges.range, PROVEN, where)
    pieces = _if_known(_pieces, problem.constraints.values, problem, stream)
    if pieces is not None:
        facts |= _of_pieces(problem, stream, pieces)
        facts.setdefault("constraint_lipschitz", _steepest(pieces))
    else:
        facts |= _of_curvature(problem, stream, where)
    point = slater_point(problem, stream)
    if point is None:
        return facts
    shown = np.array2string(np.asarray(point.point), precision=4, threshold=6)
    rounds = "" if stream is None else f" in all {stream.horizon:,} rounds"
    room = f"max g <= {-point.room:.6g} at x = {shown}{rounds}"
    facts["slater"] = Fact(point.room, VERIFIED, room)
    facts["slater_point"] = point.point
    if stream is None:
        why = (
            f"the room {point.room:.6g} at x = {shown} over the largest distance from it, "
            f"{point.distance:.6g}"
        )
        if "convex_constraints" not in facts and not problem.proof_of_convexity:
            why += ", if the constraints are convex"
        kappa = Fact(point.room / point.distance, PROVEN, why)
        known = facts.get("error_bound")
        facts["error_bound"] = kappa if known is None or kappa.value > known.value else known
    return facts


def _convex(pieces: Pieces) -> Fact:
    return Fact(1, PROVEN, f"maxima of {AFFINE}" if pieces.sign else AFFINE)


def _steepest(pieces: Pieces) -> Fact:
    """A gradient is a mean of slopes, so its norm is no larger than that of the steepest."""
    steepest = float(np.linalg.norm(pieces.rows[:, :-1], axis=-1).max(initial=0))
    return Fact((1 + 1e-9) * steepest, PROVEN, "the steepest affine piece of all rounds")


def _pieces(function: Any, problem: Problem, stream: Stream | None) -> Pieces:
    """The affine pieces of a function; in all rounds of all seeds, (round, ...), if it takes
    data."""
    space, rows, data = Space.of(problem.domain, pieces=True), function, None
    example = None
    if stream is not None:
        count = stream.seeds * stream.horizon
        if count * stream.width > NUMBERS or count * math.prod(problem.domain.shape) > ROOM:
            raise Unknown("the data are many")
        data = jax.tree.map(
            lambda a: np.asarray(a).reshape(count, *np.shape(a)[2:]),
            stream.block(0, stream.horizon),
        )
        rows, example = jax.vmap(function, (None, 0)), jax.tree.map(lambda a: a[0], data)
    program_of(function, space, example)
    pieces = enclose(rows, space, data).pieces
    if pieces is None:
        raise Unknown("the function is not piecewise affine, as far as is known")
    if not np.all(np.isfinite(pieces.functions)):
        raise Unknown("an affine piece is not finite")
    return pieces


def _of_pieces(problem: Problem, stream: Stream | None, pieces: Pieces) -> dict[str, Any]:
    """What follows if all constraints are maxima of affine functions."""
    if pieces.sign < 0:
        return {}
    affine = pieces.sign == 0
    facts: dict[str, Any] = {"convex_constraints": _convex(pieces)}
    if affine:
        facts["constraint_smoothness"] = Fact(0.0, PROVEN, "all constraints are affine")
    normals = _if_known(distinct, pieces.rows)
    if normals is None or not 0 < len(normals) <= MOST:
        return facts
    seen = "" if stream is None else f" in the data of {stream.horizon:,} rounds"
    if not nearly_parallel(normals):
        why = f"half-spaces of the traced program{seen}"
        facts["half_spaces"] = Fact(len(normals), PROVEN, why)
    if stream is None:
        facts |= _hoffman(problem, pieces)
    return facts


def _hoffman(problem: Problem, pieces: Pieces) -> dict[str, Any]:
    """The error bound of a polyhedron of few rows.

    The rows of a box belong to the polyhedron. Another domain must contain the polyhedron: its
    boundary would be a part of that of the feasible set otherwise.
    """
    domain = problem.domain
    entries = math.prod(domain.shape)
    boxed = type(domain) is Box
    if not boxed and (problem.domain_binds or problem.as_stated() is not problem):
        return {}
    if not boxed and not exact_in_numpy(domain):
        return {}
    space = Space.of(domain)
    low, high = (space.low, space.high) if boxed else bounding_box(domain)
    rows: Array = np.unique(pieces.rows[np.any(pieces.rows[:, :-1] != 0, axis=1)], axis=0)
    sides, levels, ball = np.zeros((0, entries)), np.zeros(0), None
    if boxed:
        sides, levels = (
            np.concatenate([np.eye(entries), -np.eye(entries)]),
            np.concatenate([high, -low]),
        )
    elif not _contains(domain, rows):
        return {}
    if type(domain) is Ball:
        ball = centre_of(domain).astype(float).ravel(), float(domain.radius)
    kappa = _if_known(hoffman, rows[:, :-1], rows[:, -1], sides, levels, low, high, ball)
    why = f"Hoffman's constant of the polyhedron's {len(rows)} rows"
    return {} if kappa is None else {"error_bound": Fact(kappa, PROVEN, why)}


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


def _of_curvature(problem: Problem, stream: Stream | None, where: str) -> dict[str, Any]:
    """Smoothness, and convexity, of constraints that have second derivatives."""
    count = problem.constants.constraint_count
    if count is None or count > CURVED_ROWS:
        return {}

    def row(i: int) -> Callable[..., Any]:
        return lambda x, z: problem.constraints.values(x, z)[i]

    bounds = _if_known(curvature_of, list(map(row, range(count))), problem, stream)
    if bounds is None:
        return {}
    least, most = bounds
    facts = {"constraint_smoothness": Fact(max(abs(least), abs(most)), PROVEN, where)}
    if least >= 0:
        why = f"no second derivative is negative, {where}"
        facts["convex_constraints"] = Fact(1, PROVEN, why)
    return facts


STEPS = 40
"""Steps of the search for a decision with more room than the centre."""
UNITS = 64
"""Units of rounding by which the room is reduced."""
ENTRIES = 2_000_000
"""Numbers of the data up to which all rounds are evaluated at once."""
LARGEST = 40_000_000
"""Numbers of the data beyond which changing constraints have no Slater point."""


class SlaterPoint(NamedTuple):
    """A decision, and the room that all constraints have there."""

    point: Array
    room: float
    distance: float
    """The largest distance of a decision from it, or an upper bound."""


def slater_point(problem: Problem, stream: Stream | None = None) -> SlaterPoint | None:
    """The decision with the largest room in proportion to its distance from all others that a short
    search finds; None if it has no room."""
    if problem.constraints.takes_data and (stream is None or stream.reacts):
        return None
    domain = problem.domain
    centre = centre_of(domain)
    best: SlaterPoint | None = None
    for x in (centre, _deepest(problem, stream, centre)):
        if x is None:
            continue
        values, slopes = _at(problem, x, stream)
        sizes = np.abs(values) + np.linalg.norm(slopes, axis=-1) * float(np.linalg.norm(x))
        if not np.all(np.isfinite(sizes)):
            continue
        rounding = UNITS * float(np.finfo(x.dtype).eps) * sizes
        room = float(-(values + rounding).max())
        away = float(np.linalg.norm((x - centre).astype(float)))
        distance = min(float(domain.diameter), away + float(domain.radius))
        if room > 0 and (best is None or room / distance > best.room / best.distance):
            best = SlaterPoint(np.asarray(x), room, distance)
    return best


def _at(problem: Problem, x: Array, stream: Stream | None) -> tuple[Array, Array]:
    """Constraints and their gradients at x in all rounds, (round, constraint) and with an axis for
    entries; of rounds that are many, in parts of which only the largest are kept."""
    evaluation = constraint_evaluation(problem)
    if not problem.constraints.takes_data or stream is None:
        values, slopes = evaluation.slopes(x[None, None])
        return values[0].astype(float), slopes[0].astype(float)
    parts: list[tuple[Array, Array]] = []
    step = max(1, ENTRIES // ((stream.width + x.size) * stream.seeds))
    for start in range(0, stream.horizon, step):
        data = stream.block(start, min(step, stream.horizon - start))
        rows = jax.tree.map(lambda a: np.asarray(a).reshape(1, -1, *np.shape(a)[2:]), data)
        values, slopes = (part[0].astype(float) for part in evaluation.slopes(x[None, None], rows))
        # Two rounds for each constraint are enough: those of its largest value and numbers.
        sizes = np.abs(values) + np.linalg.norm(slopes, axis=-1)
        at = np.concatenate([values.argmax(axis=0), sizes.argmax(axis=0)])
        parts.append((values[at], slopes[at]))
    joined = (np.concatenate(part) for part in zip(*parts, strict=True))
    return tuple(joined)  # type: ignore[return-value]


def _deepest(problem: Problem, stream: Stream | None, centre: Array) -> Array | None:
    """A decision with a small largest constraint, by subgradient steps from the centre."""
    domain, x = problem.domain, centre
    lowest, best = np.inf, None
    if stream is not None and problem.constraints.takes_data:
        numbers = stream.width * stream.seeds * stream.horizon
        if numbers * STEPS > LARGEST:
            return None
    for step in range(STEPS):
        values, slopes = _at(problem, x, stream)
        worst = np.unravel_index(int(np.argmax(values)), values.shape)
        level, slope = float(values[worst]), slopes[worst]
        if not np.isfinite(level):
            return best
        if level < lowest:
            lowest, best = level, x
        length = float(np.linalg.norm(slope))
        if length == 0:
            break
        pace = float(domain.radius) / (2 * np.sqrt(step + 1))
        moved = (x.ravel() - pace * slope / length)[None]
        x = project_rows(domain, moved).reshape(domain.shape).astype(centre.dtype)
    return best

"""A Slater point: a decision at which all constraints have room, in all rounds."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from ...engine import Array
from ...problem.domains.support import centre_of, project_rows
from ...problem.evaluation import constraint_evaluation
from ...problem.problem import Problem
from ...problem.streams import Stream

__all__ = ["SlaterPoint", "room_at", "slater_point"]

STEPS = 40
"""Steps of the search for a decision with more room than the centre."""
UNITS = 64
"""Units of rounding by which the room is reduced."""
ENTRIES = 2_000_000
"""Numbers of the data up to which all rounds are evaluated at once."""
MOST = 40_000_000
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
        room = room_at(problem, x, stream)
        away = float(np.linalg.norm((x - centre).astype(float)))
        distance = min(float(domain.diameter), away + float(domain.radius))
        if room > 0 and (best is None or room / distance > best.room / best.distance):
            best = SlaterPoint(np.asarray(x), room, distance)
    return best


def room_at(problem: Problem, x: Array, stream: Stream | None = None) -> float:
    """-max_i g_i(x) over all rounds, less what rounding can have added. The point must be one of
    the domain."""
    unit = UNITS * float(np.finfo(x.dtype).eps)
    values, slopes = _at(problem, x, stream)
    size = np.abs(values) + np.linalg.norm(slopes, axis=-1) * float(np.linalg.norm(x))
    if not np.all(np.isfinite(size)):
        return -np.inf
    return float(-(values + unit * size).max())


def _at(problem: Problem, x: Array, stream: Stream | None) -> tuple[Array, Array]:
    """Constraints and their gradients at x in all rounds, (round, constraint) and with an axis for
    entries; of rounds that are many, in parts of which only the largest are kept."""
    evaluation = constraint_evaluation(problem)
    if not problem.constraints.takes_data or stream is None:
        values, slopes = evaluation.slopes(x[None, None])
        return values[0].astype(float), slopes[0].astype(float)
    parts: list[tuple[Array, Array]] = []
    first = stream.block(0, 1)
    each = sum(np.asarray(leaf).size for leaf in jax.tree.leaves(first)) + x.size * stream.seeds
    step = max(1, ENTRIES // max(each, 1))
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
        entries = sum(np.asarray(leaf).size for leaf in jax.tree.leaves(stream.block(0, 1)))
        if entries * stream.horizon * STEPS > MOST:
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

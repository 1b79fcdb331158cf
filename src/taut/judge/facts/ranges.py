"""What interval arithmetic proves of losses and constraints over the domain and all data.

These are Lipschitz constants and ranges (`ranges_of`), smoothness and strong convexity
(`curvature_of`), and what every learner satisfies (`trivial_limits`): a guarantee that is not
smaller than that says nothing. The largest values are proven, not sampled: by interval and slope
arithmetic (`taut.intervals`), by constants that are given or exact, and at the vertices of domains
that have few.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ...engine import Array, default_float
from ...intervals.constants import curvature, lipschitz
from ...intervals.enclosure import Enclosure, Space
from ...intervals.of_jaxpr import enclose, has_usual_derivative, traced
from ...intervals.pieces import Unknown
from ...jaxpr.walk import equations
from ...problem.domains import Box, Domain, L1Ball, Simplex
from ...problem.domains.support import centre_of, linear_minimisers
from ...problem.evaluation import loss_of_round
from ...problem.problem import Problem
from ...problem.streams import Stream, as_stream
from ..observed import values_at

WORK, LIMITS = 1_000_000, 5_000_000
"""Slopes that are computed for constants and for limits, at most; beyond that several rounds share
one bound, for all data between their extremes."""
AT_A_TIME = 2_000_000
"""Slopes that are computed at a time."""
CURVED = 24
"""Entries of a decision up to which second derivatives are bounded."""
VERTICES = 256
"""Vertices at which constraints are evaluated, at most."""


class Ranges(NamedTuple):
    """The largest norm of a gradient, and the largest difference (of a loss) or absolute value (of
    a constraint)."""

    lipschitz: float
    range: float
    affine: bool
    """Whether all functions are affine, as far as is known."""


def ranges_of(
    function: Callable[..., Any],
    problem: Problem,
    stream: Stream | None,
    spread: Callable[[Any], float],
) -> Ranges:
    """Of a function of the decision, in all rounds if it takes data. Raises `Unknown` if there is
    no bound.

    Arguments:
        function: losses or constraints.
        problem: whose domain counts.
        stream: its data.
        spread: of an enclosure: the largest difference or the largest absolute value.
    """
    space = Space.of(problem.domain, gradients=True)
    steep, wide, affine = 0.0, 0.0, True
    for bounds, _ in _enclosures(function, space, stream, WORK):
        steep, wide = max(steep, lipschitz(bounds)), max(wide, spread(bounds))
        affine = affine and bounds.affine
    return Ranges(steep, wide, affine)


def curvature_of(
    functions: Sequence[Callable[..., Any]], problem: Problem, stream: Stream | None
) -> tuple[float, float]:
    """Bounds on all eigenvalues of second derivatives of numbers, in all rounds if they take data.
    Raises `Unknown`."""
    if math.prod(problem.domain.shape) > CURVED:
        raise Unknown("the decision has many entries")
    low, high = (None, None) if stream is None else _hull(stream)
    space, bounds = Space.of(problem.domain, gradients=True), []
    for function in functions:
        program_of(function, space, low)
        bounds.append(curvature(function, space, low, high))
    return min(least for least, _ in bounds), max(most for _, most in bounds)


def program_of(function: Callable[..., Any], space: Space, data: Any) -> Any:
    """The traced function; for bounds on gradients and for pieces, whose slopes are gradients, no
    derivative may be one of its own."""
    program = traced(function, space.shape, data)
    if (space.gradients or space.pieces) and not all(map(has_usual_derivative, equations(program))):
        raise Unknown("a function has a derivative of its own")
    return program


def _hull(stream: Stream) -> tuple[Any, Any]:
    """The smallest and the largest of all data, entry by entry."""
    step = max(1, WORK // max(1, stream.width * stream.seeds))
    lows, highs = [], []
    for start in range(0, stream.horizon, step):
        data = jax.tree.map(np.asarray, stream.block(start, min(step, stream.horizon - start)))
        lows.append(jax.tree.map(lambda a: a.min(axis=(0, 1)), data))
        highs.append(jax.tree.map(lambda a: a.max(axis=(0, 1)), data))
    return (
        jax.tree.map(lambda *parts: np.min(parts, axis=0), *lows),
        jax.tree.map(lambda *parts: np.max(parts, axis=0), *highs),
    )


def _enclosures(
    function: Any, space: Space, stream: Stream | None, most: int, steepest: float | None = None
) -> Iterator[tuple[Enclosure, Array]]:
    """Bounds of all rounds, (seed, group, ...), with the number of rounds in each group; of a
    function without data, one bound.

    Rounds are put into groups so that at most so many slopes are computed in all. Data are
    intervals then. `steepest` is a Lipschitz constant, if one is known.
    """
    if stream is None:
        program_of(function, space, None)
        yield enclose(function, space, lipschitz=steepest), np.ones(1)
        return
    first = jax.tree.map(lambda a: np.asarray(a)[0, 0], stream.block(0, 1))
    results = (
        v for equation in equations(program_of(function, space, first)) for v in equation.outvars
    )
    entries = sum(math.prod(variable.aval.shape) for variable in results)
    each = max(1, (space.size if space.has_room(space.shape) else 1) * entries)  # slopes of a round
    rows = jax.vmap(jax.vmap(function, (None, 0)), (None, 0))
    horizon = stream.horizon
    length = max(1, math.ceil(each * horizon * stream.seeds / most))  # rounds per group
    step = length * max(1, AT_A_TIME // (each * stream.seeds))
    for start in range(0, horizon, step):
        count = min(step, horizon - start)
        low = high = jax.tree.map(np.asarray, stream.block(start, count))
        starts = np.arange(0, count, length)
        if length > 1:
            low = jax.tree.map(lambda a, at=starts: np.minimum.reduceat(a, at, axis=1), low)
            high = jax.tree.map(lambda a, at=starts: np.maximum.reduceat(a, at, axis=1), high)
        rounds = np.diff(np.append(starts, count)).astype(float)
        yield enclose(rows, space, low, high, steepest), rounds


# -- What every learner satisfies


@dataclass(frozen=True)
class Limits:
    """What every learner satisfies on these data."""

    by_quantity: dict[str, float] = field(default_factory=dict)
    largest_loss: Array | None = None
    """(seed,) The sum over rounds of the largest loss of the round: the loss of no learner is
    larger."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why losses or constraints have no proven limit."""

    def of_regret(self, loss: Array, regret: Array | None) -> float | None:
        """The largest regret that is possible, if the comparator's loss is `loss - regret`; None if
        it is not known."""
        limits = [self.by_quantity["regret"]] if "regret" in self.by_quantity else []
        if self.largest_loss is not None and regret is not None:
            best = np.asarray(loss) - np.asarray(regret)
            limits.append(float(np.max(self.largest_loss - best)))
        return max(min(limits), 0.0) if limits else None


def trivial_limits(
    problem: Problem, horizon: int, source: Stream | None = None, refuted: Collection[str] = ()
) -> Limits:
    """Find what every learner satisfies.

    Arguments:
        problem: the problem that is scored.
        horizon: the number of rounds.
        source: the data. Without them losses have no limit except a constant, nor have constraints
            that change.
        refuted: assumptions that are refuted; constants among them are not used.
    """
    source = None if source is None else as_stream(source, horizon=horizon)
    names = ("loss_lipschitz", "loss_range", "constraint_lipschitz", "constraint_range")
    # Constants that are only estimated are not used either: samples do not prove a limit.
    wrong = {*refuted, *problem.constants.estimated}
    dropped: dict[str, Any] = {name: None for name in names if name in wrong}
    known = problem.constants.with_values(**dropped) if dropped else problem.constants
    limits: dict[str, float] = {}
    reasons: dict[str, str] = {}
    largest_loss = None
    try:
        largest_loss, spread = _loss_sums(problem, source, known.loss_lipschitz)
        limits["regret"] = float(spread.max())
    except Unknown as error:
        reasons["losses"] = str(error)
    convex = "convex constraints" not in refuted
    try:
        limits |= _constraint_sums(problem, horizon, source, known.constraint_lipschitz, convex)
    except Unknown as error:
        reasons["constraints"] = str(error)
    stated: dict[str, float] = {}
    if known.loss_range is not None:
        stated["regret"] = horizon * known.loss_range
        reasons.pop("losses", None)
    reach, count = known.constraint_range, problem.constants.constraint_count
    if reach is not None:
        stated |= {"violation": horizon * reach, "peak violation": reach, "excess": horizon * reach}
        stated |= {} if count is None else {"squared violation": count * horizon * reach**2}
        reasons.pop("constraints", None)
    for name, limit in stated.items():
        limits[name] = min(limit, limits.get(name, math.inf))
    return Limits(limits, largest_loss, reasons)


def _loss_sums(
    problem: Problem, source: Stream | None, steepest: float | None
) -> tuple[Array, Array]:
    """Per seed, the sums over rounds of the largest loss, and of the largest minus the smallest."""
    if source is None:
        raise Unknown("the data are not there")
    space, function = Space.of(problem.domain), partial(loss_of_round, problem.loss)
    largest, spread = np.zeros(source.seeds), np.zeros(source.seeds)
    for bounds, rounds in _enclosures(function, space, source, LIMITS, steepest):
        shape = source.seeds, len(rounds)
        above, below = (np.broadcast_to(part, shape) for part in (bounds.high, bounds.low))
        largest += above @ rounds
        spread += (above - below) @ rounds
    return largest, spread


def _constraint_sums(
    problem: Problem, horizon: int, source: Stream | None, steepest: float | None, convex: bool
) -> dict[str, float]:
    """What violations cannot exceed; `convex` says whether constraints are convex."""
    constraints, space = problem.scored_constraints, Space.of(problem.domain)
    steepest = steepest if problem.announced is None else None
    blocks: Iterable[tuple[Array, Array]]  # the largest values, and the number of rounds of each
    if not constraints.takes_data:
        high = _largest_values(problem, space, steepest, convex)
        seeds, blocks = 1, ((high, np.array([float(horizon)])),)
    elif source is None:
        raise Unknown("the data are not there")
    else:
        bounds = _enclosures(constraints.values, space, source, LIMITS, steepest)
        seeds, blocks = source.seeds, ((bound.high, rounds) for bound, rounds in bounds)
    sums: Any = 0.0
    violation, squares, peak = np.zeros(seeds), np.zeros(seeds), 0.0
    for largest, rounds in blocks:
        high = np.broadcast_to(largest, (seeds, len(rounds), largest.shape[-1]))
        clipped = np.maximum(high, 0)
        violation += clipped.max(axis=-1) @ rounds
        squares += (clipped**2).sum(axis=-1) @ rounds
        peak = max(peak, float(clipped.max()))
        sums = sums + np.einsum("srm,r->sm", high, rounds)
    return {
        "violation": float(violation.max()),
        "squared violation": float(squares.max()),
        "peak violation": peak,
        "excess": float(np.max(sums)),
    }


def _largest_values(problem: Problem, space: Space, steepest: float | None, convex: bool) -> Array:
    """The largest value of each fixed constraint over the domain, or an upper bound on it."""
    constraints = problem.scored_constraints
    vertices = _vertices(problem.domain) if convex else None
    bounds = []
    try:
        bounds.append(enclose(constraints.values, space, lipschitz=steepest).high)
    except Unknown:
        if steepest is None and vertices is None:
            raise
        if steepest is not None:
            centre = centre_of(problem.domain)[None]
            bounds.append(
                values_at(problem, centre, constraints)[0].astype(float) + steepest * space.radius
            )
    if vertices is not None:  # where a convex function is largest
        at_vertices = values_at(problem, vertices.astype(default_float()), constraints)
        bounds.append(at_vertices.max(axis=0))
    return np.asarray(np.min(bounds, axis=0), float)


def _vertices(domain: Domain) -> Array | None:
    """All vertices of the domain if they are few, else None."""
    entries, shape = math.prod(domain.shape), domain.shape
    if type(domain) is Box and 2**entries <= VERTICES:
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=entries)))
    elif type(domain) is Simplex and entries <= VERTICES:
        corners = -np.eye(entries)
    elif type(domain) is L1Ball and 2 * entries <= VERTICES:
        corners = np.concatenate([np.eye(entries), -np.eye(entries)])
    else:
        return None
    return linear_minimisers(domain, corners).reshape(-1, *shape)

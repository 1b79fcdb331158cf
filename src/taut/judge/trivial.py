"""Trivial bounds: what every learner satisfies on given data, because losses and constraints are
limited over the domain.

A guarantee that is not smaller says nothing. The largest values are proven, not sampled: by
interval and slope arithmetic (`taut.intervals`), by constants that are given or exact,
and at the vertices of domains that have few.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array, default_float
from ..intervals.enclosure import Space, Unknown
from ..intervals.of_jaxpr import enclose
from ..problem.constants import Constants
from ..problem.constraints import Constraints
from ..problem.domains import Box, Domain, L1Ball, Simplex
from ..problem.domains.support import centre_of, linear_minimisers
from ..problem.problem import Problem
from ..problem.streams import Stream
from .facts.ranges import groups
from .probes import values_at

__all__ = ["Limits", "trivial_limits"]

WORK = 5_000_000
"""Slopes that are computed, at most; beyond that several rounds share one bound, for all data
between their extremes."""
VERTICES = 256
"""Vertices at which constraints are evaluated, at most."""


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
        found = [self.by_quantity["regret"]] if "regret" in self.by_quantity else []
        if self.largest_loss is not None and regret is not None:
            found.append(float(np.max(self.largest_loss - (np.asarray(loss) - np.asarray(regret)))))
        return max(min(found), 0.0) if found else None


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
    known = _trusted(problem.constants, refuted)
    found: dict[str, float] = {}
    reasons: dict[str, str] = {}
    largest_loss = None
    try:
        loss = _loss_sums(problem, horizon, source, known.loss_lipschitz)
        largest_loss, spread = loss
        found["regret"] = float(spread.max())
    except Unknown as error:
        reasons["losses"] = str(error)
    if known.loss_range is not None:
        found["regret"] = min(found.get("regret", math.inf), horizon * known.loss_range)
        reasons.pop("losses", None)
    limits: dict[str, float] = {}
    try:
        limits = _constraint_sums(
            problem, horizon, source, known.constraint_lipschitz, "convex constraints" in refuted
        )
    except Unknown as error:
        reasons["constraints"] = str(error)
    reach, count = known.constraint_range, problem.constants.constraint_count
    if reach is not None:
        reasons.pop("constraints", None)
        ranges = {"violation": horizon * reach, "peak violation": reach, "excess": horizon * reach}
        ranges |= {} if count is None else {"squared violation": count * horizon * reach**2}
        limits = {
            name: min(limits.get(name, math.inf), value)
            for name, value in (limits | ranges).items()
        } | {name: min(value, ranges.get(name, math.inf)) for name, value in limits.items()}
    return Limits(found | limits, largest_loss, reasons)


def _trusted(constants: Constants, refuted: Collection[str]) -> Constants:
    """The constants without those that are refuted, or only estimated: samples do not prove a
    limit."""
    names = ("loss_lipschitz", "loss_range", "constraint_lipschitz", "constraint_range")
    dropped: dict[str, Any] = {n: None for n in names if n in refuted or n in constants.estimated}
    return constants.with_values(**dropped) if dropped else constants


def _loss_sums(
    problem: Problem, horizon: int, source: Stream | None, lipschitz: float | None
) -> tuple[Array, Array]:
    """Per seed, the sums over rounds of the largest loss, and of the largest minus the smallest."""
    if source is None:
        raise Unknown("the data are not there")

    def loss(x: jax.Array, z: Any) -> jax.Array:
        return jnp.asarray(problem.loss(x, z), x.dtype)

    space, largest, spread = (
        Space.of(problem.domain),
        np.zeros(source.seeds),
        np.zeros(source.seeds),
    )
    for low, high, rounds in groups(loss, space, source, horizon, WORK):
        rows = jax.vmap(jax.vmap(loss, (None, 0)), (None, 0))
        values = enclose(rows, space, low, high, lipschitz).value
        above, below = (
            np.broadcast_to(part, (source.seeds, len(rounds))) for part in (values.high, values.low)
        )
        largest += above @ rounds
        spread += (above - below) @ rounds
    return largest, spread


def _constraint_sums(
    problem: Problem, horizon: int, source: Stream | None, lipschitz: float | None, bent: bool
) -> dict[str, float]:
    """What violations cannot exceed; `bent` says that constraints are not convex."""
    constraints, space = problem.scored_constraints, Space.of(problem.domain)
    lipschitz = lipschitz if problem.announced is None else None
    if not constraints.takes_data:
        high = _largest_values(problem, constraints, space, lipschitz, bent)
        clipped = np.maximum(high, 0)
        return {
            "violation": horizon * float(clipped.max()),
            "squared violation": horizon * float((clipped**2).sum()),
            "peak violation": float(clipped.max()),
            "excess": horizon * float(high.max()),
        }
    if source is None:
        raise Unknown("the data are not there")
    sums: Any = 0.0
    violation, squares, peak = np.zeros(source.seeds), np.zeros(source.seeds), 0.0
    for low, high_data, rounds in groups(constraints.values, space, source, horizon, WORK):
        function = jax.vmap(jax.vmap(constraints.values, (None, 0)), (None, 0))
        high = enclose(function, space, low, high_data, lipschitz).high
        high = np.broadcast_to(high, (source.seeds, len(rounds), high.shape[-1]))
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


def _largest_values(
    problem: Problem, constraints: Constraints, space: Space, lipschitz: float | None, bent: bool
) -> Array:
    """The largest value of each fixed constraint over the domain, or an upper bound on it."""
    found = []
    try:
        found.append(enclose(constraints.values, space, lipschitz=lipschitz).high)
    except Unknown:
        if lipschitz is None and (bent or _vertices(problem.domain) is None):
            raise
    if lipschitz is not None and not found:
        centre = centre_of(problem.domain)[None]
        found.append(values_at(problem, constraints, centre)[0] + lipschitz * space.radius)
    vertices = None if bent else _vertices(problem.domain)
    if vertices is not None:  # where a convex function is largest
        found.append(values_at(problem, constraints, vertices.astype(default_float())).max(axis=0))
    return np.asarray(np.min(found, axis=0), float)


def _vertices(domain: Domain) -> Array | None:
    """All vertices of the domain if they are few, else None."""
    size, shape = math.prod(domain.shape), domain.shape
    if type(domain) is Box and 2**size <= VERTICES:
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=size)))
    elif type(domain) is Simplex and size <= VERTICES:
        corners = -np.eye(size)
    elif type(domain) is L1Ball and 2 * size <= VERTICES:
        corners = np.concatenate([np.eye(size), -np.eye(size)])
    else:
        return None
    return linear_minimisers(domain, corners).reshape(-1, *shape)

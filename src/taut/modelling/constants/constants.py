"""Constants of a model: exact for affine and quadratic parts, otherwise estimated and marked as
such."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np

from ...engine import Array
from ...intervals.constants import Edges, least_upper, lipschitz, size, variation
from ...intervals.enclosure import Enclosure
from ...intervals.pieces import Unknown
from ...problem.conic import ConicSet
from ...problem.constants import Constants, checked_constants
from ...problem.domains import Box
from ..domains.simple_domain import outwards
from ..translation.parameters import guess_notes
from .enclosures import enclosures
from .search import LOSS, Probe

if TYPE_CHECKING:
    from ..model import Model


LOOSE = 1.5
"""An upper bound above this many times the largest value found is noted."""
LEAST_ROOM = 1e-7
"""Feasibility by less than this share of the range of the constraints proves nothing."""
CONTRADICTION = 1e-6
"""Constraints that every decision exceeds by more than this, relatively, are contradictory."""

SAME = 1e-9
"""Gradients that miss a linear prediction by less than this share of their size are linear."""
CHECKS = 6
"""Random points at which the fit is checked."""
CORNERS = 10
"""Up to this many entries that matter, the largest gradient over a box is computed at its corners,
where it is attained."""
MOST = 20_000_000
"""The largest number of entries of second derivatives."""

Numbers = dict[str, tuple[float, bool]]
"""Name -> (number, whether it is proven)."""


class Derived(NamedTuple):
    """What follows from the structure of a model, and from values and gradients of it."""

    constants: Constants
    feasible: bool
    """Whether a solver found a decision that satisfies all constraints."""
    notes: list[str]


def derived_constants(probe: Probe, constants: Constants) -> Derived:
    """The user's constants, completed by exact ones from structure and by a search for the rest."""
    model = probe.model
    checked_constants(constants)
    if constants.constraint_count not in (None, model.count):
        raise ValueError(
            f"constraint_count: got {constants.constraint_count}; expected {model.count}, what "
            "constraints gives"
        )
    notes = list[str]()
    probe.refuse_infinite()
    entries: Numbers = {
        "radius": (float(model.domain.radius), True),
        "constraint_count": (model.count, True),
        **_of_loss(probe, constants, notes),
        **_of_constraints(probe, constants, notes),
    }
    sure: dict[str, Any] = {name: value for name, (value, proven) in entries.items() if proven}
    rest: dict[str, Any] = {name: value for name, (value, proven) in entries.items() if not proven}
    numbers = Constants().with_values(exact=True, **sure).with_values(estimated=True, **rest)
    numbers = constants.merged(numbers)
    notes += guess_notes(model.parameters, probe.known, numbers.estimated)
    if model.constraints.takes_data:
        return Derived(numbers, False, notes)
    # The power of 10 next to the range of the constraints.
    unit = float(f"1e{round(np.log10(numbers.constraint_range or 1.0))}")
    depth = _deepest(model, unit)
    if depth > CONTRADICTION:
        raise ValueError(
            f"constraints: got max_i g_i(x) >= {unit * depth:.6g} > 0 for all x of the domain; "
            "expected a domain with a feasible decision"
        )
    if not np.isfinite(depth):  # the solver failed
        return Derived(numbers, False, notes)
    room = -outwards(depth, 1.0)
    if room <= LEAST_ROOM:
        return Derived(numbers, True, notes)
    numbers = numbers.merged(Constants().with_values(exact=True, slater=unit * room))
    return Derived(numbers, True, notes)


def of_more_rows(own: Constants, constants: Constants, derived: Constants) -> Constants:
    """The constants `own` of a model that plays more rows than another one, with what the user
    changed in that one from `derived` to `constants`.

    What bounds all rows must hold for the new ones, too: the larger of both bounds, the smaller of
    both margins.
    """
    changed: dict[str, Any] = {}
    for name in ("loss_lipschitz", "loss_range", "strong_convexity"):
        if getattr(constants, name) != getattr(derived, name):
            changed[name] = getattr(constants, name)
    for name, safer in (("constraint_lipschitz", max), ("constraint_range", max), ("slater", min)):
        stated, mine = getattr(constants, name), getattr(own, name)
        if stated == getattr(derived, name) or stated is None or mine is None:
            continue
        if safer(stated, mine) != mine:
            changed[name] = stated
    return own.with_values(**changed)


def _of_loss(probe: Probe, constants: Constants, notes: list[str]) -> Numbers:
    model, n = probe.model, probe.size
    loss = None
    if model.objective.is_quadratic():
        loss = fitted(probe, LOSS, True)
    if loss is not None:
        sure = not loss.moved_by(n + np.flatnonzero(probe.known.guessed))
        lowest, highest = float(loss.modulus()[0]), float(loss.curvature()[0])
        return {
            "loss_lipschitz": (float(loss.steepest().max()), sure),
            "loss_range": (float(loss.range().max()), sure),
            "strong_convexity": (lowest if lowest > 1e-9 * highest else 0.0, True),
        }
    slope, reach = constants.loss_lipschitz, constants.loss_range
    if slope is None:
        slope = probe.steepest(LOSS)
    if reach is None:
        reach = min(probe.range(), slope * float(model.domain.diameter))
    bounded = partial(_bounded, probe, [model.objective], notes)
    return {
        "strong_convexity": (probe.modulus(), False),
        "loss_lipschitz": bounded("loss_lipschitz", lipschitz, slope),
        "loss_range": bounded("loss_range", variation, reach),
    }


def _bounded(
    probe: Probe,
    rows: list[Any],
    notes: list[str],
    name: str,
    constant: Callable[[Enclosure], float],
    attained: float,
) -> tuple[float, bool]:
    """A true bound on a constant of all rows, if intervals give one and the range of the data is
    stated; otherwise the value that was attained."""
    model, known = probe.model, probe.known
    if model.guessed(rows, known):
        return attained, False

    def bound(box: Edges) -> float:
        bounds = enclosures(model, box)
        return max(constant(bounds.of(row)) for row in rows)

    try:
        number = least_upper(bound, known.box, attained, data_only=name == "loss_range")
    except Unknown:
        return attained, False
    if number > LOOSE * attained:
        notes.append(
            f"{name}: {number:.4g} is an upper bound by interval arithmetic; the largest value "
            f"that was found is {attained:.4g}"
        )
    return number, True


def _of_constraints(probe: Probe, constants: Constants, notes: list[str]) -> Numbers:
    model, n, takes_data = probe.model, probe.size, bool(probe.model.constraints.takes_data)
    rows = [row for excess in model.excesses for row in excess.rows]
    if not any(row.variables() for row in rows):
        # A constraint that always holds: any bound is valid.
        names = ("constraint_lipschitz", "constraint_range", "constraint_smoothness")
        return dict.fromkeys(names, (1.0, True))
    # Row 0 is the loss.
    ends = 1 + np.cumsum([row.size for row in rows])
    places = [np.arange(end - row.size, end) for end, row in zip(ends, rows, strict=True)]
    kinds: dict[str, list[int]] = {"affine": [], "quadratic": [], "other": []}
    for k, row in enumerate(rows):
        kind = "affine" if row.is_affine() else "quadratic" if row.is_quadratic() else "other"
        kinds[kind].append(k)
    guesses = n + np.flatnonzero(probe.known.guessed)
    slopes, reaches, bends, sure, smooth = [0.0], [0.0], [0.0], True, True
    for kind in ("affine", "quadratic"):
        if not kinds[kind]:
            continue
        which = np.concatenate([places[k] for k in kinds[kind]])
        if kind == "affine" and not takes_data:
            seen = probe(probe.middle[None])
            fit: Quadratics | None = Quadratics(
                probe, seen.values[0, which], seen.slopes[0, which], None
            )
        else:
            fit = fitted(probe, which, takes_data)
        if fit is None:  # not quadratic in data and decision together
            kinds["other"] += kinds[kind]
            continue
        slopes.append(float(fit.steepest().max()))
        reaches.append(float(fit.largest().max()))
        bends.append(float(fit.curvature().max()))
        sure &= not fit.shifted_by(guesses)
    if kinds["other"]:
        rest = np.concatenate([places[k] for k in kinds["other"]])
        others = [rows[k] for k in kinds["other"]]
        bounded = partial(_bounded, probe, others, notes)
        if constants.constraint_lipschitz is None:
            number, proven = bounded("constraint_lipschitz", lipschitz, probe.steepest(rest))
            slopes.append(number)
            sure &= proven
        if constants.constraint_range is None:
            number, proven = bounded("constraint_range", size, probe.largest(rest))
            reaches.append(number)
            sure &= proven
        bend = probe.curvature(rest) if all(map(is_smooth, rows)) else None
        smooth = bend is not None
        bends.append(bend or 0.0)
    out = {"constraint_lipschitz": (max(slopes), sure), "constraint_range": (max(reaches), sure)}
    return out | {"constraint_smoothness": (max(bends), not kinds["other"])} if smooth else out


def _deepest(model: Model, unit: float) -> float:
    """min over the domain of max_i g_i / unit.

    Below zero it is minus Slater's epsilon, above zero nothing is feasible; minus infinity if the
    solver failed.
    """
    flat, level = model.flat_copy(), cp.Variable()
    rows = [flat.of(row) <= unit * level for excess in model.excesses for row in excess.rows]
    domain = model.domain.to_cvxpy(cp.reshape(flat.variable, model.domain.shape, order="C"))
    feasible = ConicSet([flat.variable, level], [*rows, *flat.links, *domain])
    solution = feasible.minimise(np.append(np.zeros(model.size), 1.0))
    return float(feasible.wanted(solution)[-1]) if solution.status == "solved" else -np.inf


def is_smooth(row: Any) -> bool:
    """Whether the row has no kink, by CVXPY's rules."""
    return bool(row.is_affine() or row.is_quadratic() or getattr(row, "is_smooth", lambda: False)())


# Functions that are quadratic in decision and data together: fitted from gradients, bounded in
# closed form.


class Quadratics(NamedTuple):
    """k quadratic functions of w around the middle of its range; affine ones, if `bend` is None."""

    probe: Probe
    value: Array
    slope: Array
    bend: Array | None

    def steepest(self) -> Array:
        """For each function a bound on the norm of its gradient; attained over small boxes."""
        probe, n = self.probe, self.probe.size
        if self.bend is None:
            return np.linalg.norm(self.slope[:, :n], axis=1)
        spread = np.abs(self.bend[:, :n]) @ probe.half
        boxed = np.linalg.norm(np.abs(self.slope[:, :n]) + spread, axis=1)
        centre = np.ravel(np.asarray(probe.domain.centre, float)) - probe.middle[:n]
        there = np.linalg.norm(self.slope[:, :n] + self.bend[:, :n, :n] @ centre, axis=1)
        turn = np.linalg.norm(np.abs(self.bend[:, :n, n:]) @ probe.half[n:], axis=1)
        round_ = there + self.curvature() * float(probe.domain.radius) + turn
        bound = np.minimum(boxed, round_)
        moving = np.flatnonzero(np.any(self.bend[:, :n], axis=(0, 1)) & (probe.half > 0))
        if isinstance(probe.domain, Box) and len(moving) <= CORNERS:
            corners = np.array(list(product((-1.0, 1.0), repeat=len(moving)))).reshape(
                2 ** len(moving), -1
            )
            steps = corners * probe.half[moving]
            slopes = self.slope[:, None, :n] + np.einsum(
                "kij,cj->kci", self.bend[:, :n, moving], steps
            )
            bound = np.minimum(bound, np.linalg.norm(slopes, axis=2).max(axis=1))
        return bound

    def curvature(self) -> Array:
        """For each function the largest second derivative in the decision."""
        n = self.probe.size
        if self.bend is None:
            return np.zeros(len(self.value))
        return np.abs(np.linalg.eigvalsh(self.bend[:, :n, :n])).max(axis=1)

    def modulus(self) -> Array:
        """For each function the smallest second derivative in the entries that are free to move."""
        free = np.flatnonzero(self.probe.half[: self.probe.size] > 0)
        if not free.size or self.bend is None:
            return np.zeros(len(self.value))
        return np.linalg.eigvalsh(self.bend[:, free[:, None], free])[:, 0]

    def largest(self) -> Array:
        """For each function a bound on its absolute value."""
        half = self.probe.half
        linear = np.abs(self.slope) @ half
        if self.bend is None:
            return np.abs(self.value) + linear
        bent = np.einsum("kij,i,j->k", np.abs(self.bend), half, half) / 2
        convex = np.linalg.eigvalsh(self.bend)[:, 0] >= -SAME * np.abs(self.bend).max(initial=0)
        low = self.value - linear - np.where(convex, 0, bent)
        return np.maximum(np.abs(self.value + linear + bent), np.abs(low))

    def range(self) -> Array:
        """For each function, convex in the decision, a bound on its range for the same data."""
        n, half = self.probe.size, self.probe.half
        if self.bend is None:
            return 2 * np.abs(self.slope[:, :n]) @ half[:n]
        slope = np.abs(self.slope[:, :n]) + np.abs(self.bend[:, :n, n:]) @ half[n:]
        bent = np.einsum("kij,i,j->k", np.abs(self.bend[:, :n, :n]), half[:n], half[:n]) / 2
        return np.minimum(
            2 * slope @ half[:n] + bent, self.steepest() * float(self.probe.domain.diameter)
        )

    def moved_by(self, entries: Array) -> bool:
        """Whether any gradient in the decision depends on these entries of w."""
        return self.bend is not None and bool(
            np.any(self.bend[:, : self.probe.size][:, :, entries])
        )

    def shifted_by(self, entries: Array) -> bool:
        """Whether any value or gradient depends on these entries of w."""
        return bool(np.any(self.slope[:, entries])) or (
            self.bend is not None and bool(np.any(self.bend[:, entries]))
        )


def fitted(probe: Probe, rows: Array, takes_data: bool) -> Quadratics | None:
    """These rows, or None if they are not all quadratic in decision and data together.

    Second derivatives are differences of gradients, exact for quadratics, and are then checked at
    random points.
    """
    width, moving = probe.width, probe.width if takes_data else probe.size
    steps = np.where(probe.half > 0, probe.half, 1.0)
    random = np.random.default_rng(0)
    checks = random.uniform(-1, 1, size=(CHECKS, width)) * steps
    values, slopes = probe(probe.middle[None])
    value, slope = values[:, rows], slopes[:, rows]
    if slope.shape[1] * width * width > MOST or not np.all(np.isfinite(slope)):
        return None
    bend = np.zeros((slope.shape[1], width, width))
    moved = probe(probe.middle + np.diag(steps)[:moving]).slopes[:, rows]
    bend[:, :, :moving] = np.moveaxis(moved - slope, 0, -1) / steps[:moving]
    bend = (bend + np.swapaxes(bend, 1, 2)) / 2
    # Rounding would count as dependence.
    bend[np.abs(bend) <= 1e-12 * np.abs(bend).max(initial=0)] = 0
    values, there = (part[:, rows] for part in probe(probe.middle + checks))
    turn = np.einsum("kij,pj->pki", bend, checks)
    size = np.abs(slope).max() + np.abs(bend).max(initial=0) * np.abs(steps).max() + 1e-300
    fits = np.abs(there - slope - turn).max() <= SAME * size
    predicted = value + np.einsum("pki,pi->pk", slope + turn / 2, checks)
    fits &= np.abs(values - predicted).max() <= SAME * (
        np.abs(predicted).max() + size * np.abs(steps).max()
    )
    return Quadratics(probe, value[0], slope[0], bend) if fits else None

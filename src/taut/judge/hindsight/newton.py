"""The exact route: aggregate the losses, minimise their quadratic models over the feasible set, prove the result.

If every loss is affine or quadratic the model is the aggregate itself and one step ends it. Otherwise the steps are
Newton's, each with an aggregated Hessian and a line search between feasible points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...problem.problem import Problem
from ...problem.streams import Stream
from .cuts import Oracle
from .cutting_planes import cutting_planes
from .feasible_set import Region
from .lower_bound import Proof
from .scaling import Array, Frame
from .stream_sums import Model, bad_round, mean_losses, quadratic_sums
from .structure import fixed_structure, loss_kind, probe_varying, sample_points, simplified

__all__ = ["Found", "refuse_below_tangent", "solve"]

NEWTON = 100
"""Most Newton steps, each with its passes over the stream."""
SHORTEST = 1e-6
"""A line search that arrives here has failed: the losses are not smooth."""
MISFIT = 1e-9
"""A round whose loss differs by more than this share from its quadratic polynomial is not quadratic."""
SHARE = 10.0
"""How many times `Structure.allowed` a constraint may be at a solution: tangents aim at once, rounding adds to it."""
PROBES = 8
"""Random decisions at which the rounds' losses are compared with their polynomials, one a block."""
WITNESSES = 3
"""Random decisions at which the convexity of aggregated losses is checked."""


@dataclass(frozen=True)
class Found:
    """The best fixed decision of each element (seed, prefix), flat; totals, not means."""

    decision: Array
    loss: Array
    gap: Array
    violation: Array
    multipliers: Array | None
    solver: str


class Objective:
    """The mean loss of each element: a quadratic polynomial where all losses are, else evaluated by passes.

    `known` is what `loss_kind` would find out, if it is known; every round is held to it all the same.
    """

    def __init__(
        self, problem: Problem, frame: Frame, stream: Stream, ends: tuple[int, ...], rng: np.random.Generator,
        known: tuple[str, Array | None] | None = None,
    ) -> None:  # fmt: skip
        self.loss, self.frame, self.stream, self.ends = problem.loss, frame, stream, ends
        self.elements = stream.seeds * len(ends)
        self.rounds = np.tile(np.asarray(ends, float), stream.seeds)
        self.kind, common = known or loss_kind(problem.loss, frame, stream, ends, rng)
        self._polynomial: Model | None = None
        if self.kind in ("affine", "quadratic"):
            self._polynomial = self._collapsed(common, sample_points(frame, rng, 1 + PROBES)[1:])
            if self._polynomial is None:
                self.kind = "smooth"

    def _collapsed(self, common: Array | None, probes: Array) -> Model | None:
        """All losses of an element as one polynomial, unless the pass finds a round that is not quadratic."""
        sums = quadratic_sums(self.loss, self.frame, self.stream, self.ends, common, probes)
        if np.any(sums.misfit > MISFIT):
            return None
        size = self.frame.size
        if common is None:
            curvature = np.asarray(sums.curvature).reshape(-1, size, size) / self.rounds[:, None, None]
        else:
            curvature = common[None]
        return Model(sums.value.ravel() / self.rounds, sums.slope.reshape(-1, size) / self.rounds[:, None], curvature)

    @property
    def quadratic(self) -> bool:
        """Whether models are exact."""
        return self._polynomial is not None

    def at(self, u: Array, todo: Array, bent: bool | None = None) -> Model:
        """The model around each element's own point, without curvature if not `bent`; a polynomial is exact."""
        if self._polynomial is None:
            bent = self.kind == "smooth" if bent is None else bent
            return mean_losses(self.loss, self.frame, self.stream, self.ends, u, todo, bent)
        base = self._polynomial
        turn = u @ base.curvature[0] if len(base.curvature) == 1 else np.einsum("eij,ej->ei", base.curvature, u)
        slope = base.slope + turn
        return Model(base.value + np.sum((base.slope + slope) / 2 * u, axis=1), slope, base.curvature)


def solve(problem: Problem, stream: Stream, ends: tuple[int, ...], tolerance: float, rng: np.random.Generator) -> Found:
    """The best fixed decisions for all seeds and prefixes (`ends`, ascending), each proven."""
    frame = Frame.of(problem.domain)
    constraints = simplified(problem.constraints)
    if constraints.takes_data:
        structure = probe_varying(constraints, frame, stream, ends, rng)
    else:
        structure = fixed_structure(constraints, frame, rng)
    region = Region(Oracle(constraints, frame, stream), structure, stream, ends)
    objective = Objective(problem, frame, stream, ends, rng)
    while True:
        search = _Search(objective, region, tolerance)
        search.run()
        wrong = region.mistaken(search.u)
        if not wrong.size:
            break
        region.demote(wrong)
    if not objective.quadratic:
        search.check_convex(sample_points(frame, rng, 1 + WITNESSES)[1:])
    return search.found()


class _Search:
    """Newton's method for all elements side by side, so that they share the passes over the stream."""

    def __init__(self, objective: Objective, region: Region, tolerance: float) -> None:
        self.objective, self.region, self.tolerance = objective, region, tolerance
        count = objective.elements
        self.u = np.zeros((count, objective.frame.size))
        self.excess = np.zeros(count)
        """A bound on how far each point is from feasible, by rounding or because tangents were good enough."""
        self.model: Model
        self.gap = np.full(count, np.inf)
        self.proofs: dict[int, Proof] = {}
        self.steps = self.planes = 0

    def run(self) -> None:
        """Until every element's gap is proven, or nothing more can be gained."""
        todo = np.ones(len(self.u), bool)
        if not self.objective.quadratic:
            self.u, self.excess = self._feasible_start()
        self.model = self.objective.at(self.u, todo)
        self._refuse_values()
        if self.objective.kind == "kinked":
            self._cut(todo)
            return
        stuck = np.zeros(len(todo), bool)
        while (todo & ~stuck).any() and self.steps < NEWTON:
            self.steps += 1
            self._refuse_concave(todo & ~stuck)
            stuck |= self._step(todo & ~stuck)
            self._measure([int(e) for e in np.flatnonzero(todo)])
            todo = self.gap > self.tolerance / 2
        if todo.any() and not self.objective.quadratic:
            self._cut(todo)

    def _step(self, todo: Array) -> Array:
        """One step of Newton's method; marks elements that cannot move any more."""
        enough = np.full(len(todo), self.tolerance / 4)
        if not self.objective.quadratic:  # early models need no more accuracy than they have
            enough = np.maximum(enough, np.minimum(1e-3 * self.gap, 1e-4))
        target, excess, proofs = self.region.minimise(self.model, self.u, todo, enough)
        self.proofs.update(proofs)
        if not self.objective.quadratic:
            return self._line_search(target, excess, todo)
        self.u, self.model = target, self.objective.at(target, todo)
        return todo

    def _cut(self, todo: Array) -> None:
        """Leave elements to cutting planes."""
        found = cutting_planes(self.objective.at, self.region, self.u, todo, self.tolerance)
        self.u, self.planes = found.u, found.steps
        self.proofs.update(found.proofs)
        self.model = self.objective.at(self.u, np.ones(len(todo), bool), bent=False)
        gap = np.maximum(found.value - found.lower, 0) / np.maximum(1 / self.objective.rounds, np.abs(found.value))
        self.gap = np.where(todo, gap, self.gap)

    def _feasible_start(self) -> tuple[Array, Array]:
        """The feasible decision nearest to the centre, from which line searches stay feasible."""
        size, count = self.objective.frame.size, self.objective.elements
        nearest = Model(np.zeros(count), np.zeros((count, size)), np.eye(size)[None])
        return self.region.minimise(nearest, self.u, np.ones(count, bool), np.full(count, 1e-4))[:2]

    def _line_search(self, target: Array, excess: Array, todo: Array) -> Array:
        """Move towards the model's minimisers as far as the losses really fall; marks elements that cannot move.

        What falls is the loss plus multipliers times excess: the start may owe part of its low loss to the latter.
        """
        way = np.where(todo[:, None], target - self.u, 0)
        price = np.asarray([sum(self.proofs[e].weights.values()) if on else 0.0 for e, on in enumerate(todo)])
        owed = price * self.excess
        fall = np.minimum(np.sum(self.model.slope * way, axis=1) - owed, 0)
        length = np.where(todo, 1.0, 0.0)
        open_ = todo.copy()
        start, result = self.model, self.model
        rounding = 1e-13 * (np.abs(start.value) + np.abs(fall))
        while open_.any():
            trial = self.objective.at(self.u + length[:, None] * way, open_)
            with np.errstate(invalid="ignore"):
                good = open_ & (trial.value <= start.value + length * (owed + 1e-4 * fall) + rounding)
            good &= np.isfinite(trial.slope).all(axis=1) & np.isfinite(trial.curvature).all(axis=(1, 2))
            result = Model(*(_where(good, new, old) for new, old in zip(trial, result, strict=True)))
            open_ &= ~good
            length = np.where(open_, length / 2, length)
            given_up = open_ & (length < SHORTEST)
            length, open_ = np.where(given_up, 0.0, length), open_ & ~given_up
        self.u, self.model = self.u + length[:, None] * way, result
        self.excess = np.where(todo, (1 - length) * self.excess + length * excess, self.excess)
        return todo & (length == 0)

    def _measure(self, elements: list[int]) -> None:
        value, slope = self.model.value[elements], self.model.slope[elements]
        lower = self.region.lower(elements, self.u, value, slope, self.proofs)
        gap = np.maximum(value - lower, 0) / np.maximum(1 / self.objective.rounds[elements], np.abs(value))
        self.gap[elements] = np.where(np.isnan(gap), np.inf, gap)

    def _refuse_values(self) -> None:
        if not all(np.isfinite(part).all() for part in self.model):
            bad = bad_round(self.objective.stream, self.objective.ends)
            if bad is not None:
                raise ValueError(f"stream: got a value that is not finite in round {bad}; expected finite numbers")
            raise ValueError(
                "loss: got a value, gradient or Hessian that is not finite at a feasible decision; expected numbers"
            )

    def _refuse_concave(self, todo: Array) -> None:
        for e in [0] if len(self.model.curvature) == 1 else np.flatnonzero(todo):
            self._refuse_bend(self.model.curvature[e], int(e))

    def _refuse_bend(self, bend: Array, e: int) -> None:
        values = np.linalg.eigvalsh(bend)
        if values[0] < -1e-9 * max(abs(values[-1]), abs(values[0])) - 1e-12 * float(np.abs(self.model.slope[e]).max()):
            scale = float(self.objective.frame.scale)
            raise ValueError(
                f"loss: got losses whose sum over {int(self.objective.rounds[e])} rounds is not convex: its mean has "
                f"the curvature {values[0] / scale**2:.3g} in some direction; expected a convex sum"
            )

    def check_convex(self, witnesses: Array) -> None:
        """Look at the losses far from the solution, where the proof relies on them lying above their tangent."""
        for witness in witnesses:
            there = self.objective.at(np.tile(witness, (len(self.u), 1)), np.ones(len(self.u), bool))
            rounds = self.objective.rounds.astype(int).tolist()
            refuse_below_tangent(self.model.value, self.model.slope, self.u, witness, there.value, rounds)
            for e in np.flatnonzero(np.isfinite(there.curvature).all(axis=(1, 2))):
                self._refuse_bend(np.asarray(there.curvature[e]), int(e))

    def found(self) -> Found:
        """The result, or an error if some element is not proven."""
        rounds = self.objective.rounds
        missing = np.zeros(self.region.structure.count)
        weights = np.stack([
            self.region.multipliers(self.proofs[e]) if e in self.proofs else missing for e in range(len(self.u))
        ])  # fmt: skip
        excess = self.region.excess(self.u)
        worst, share = excess.max(axis=1), (excess / self.region.structure.allowed).max(axis=1)
        # A constraint that is violated by a rounding may have bought a loss below the optimum.
        bought = np.sum(weights * np.maximum(excess, 0), axis=1) / np.maximum(1 / rounds, np.abs(self.model.value))
        gap = np.maximum(self.gap, bought)
        proven = (gap <= self.tolerance) & (share <= SHARE)
        if not proven.all():
            e = int(np.argmin(proven))
            raise RuntimeError(
                f"tolerance: got a certified relative gap of {gap[e]:.2g} and max_i g_i = {worst[e]:.2g} after "
                f"{self.steps + self.planes} steps, for {int(rounds[e])} rounds; expected at most {self.tolerance:.2g} "
                "and about 1e-9. A feasible set without interior can be the reason: its multipliers need not exist"
            )
        frame = self.objective.frame
        decision = np.asarray(frame.centre) + float(frame.scale) * self.u
        return Found(decision, self.model.value * rounds, gap, worst, weights * rounds[:, None], self._name())

    def _name(self) -> str:
        if self.objective.quadratic:
            return f"clarabel, {self.objective.kind} objective"
        if self.planes:
            return f"cutting planes + clarabel ({self.planes} iterations)"
        return f"newton + clarabel ({self.steps} iterations)"


def refuse_below_tangent(
    value: Array, slope: Array, u: Array, witness: Array, there: Array, rounds: Sequence[int]
) -> None:
    """Raise if mean losses, with value and slope at `u`, are smaller at `witness` than their tangents allow."""
    plane = value + np.sum(slope * (witness - u), axis=1)
    size = np.abs(value) + np.abs(plane) + np.linalg.norm(slope, axis=1)
    below = plane - there
    if np.any(below > 1e-9 * size):
        e = int(np.argmax(below - 1e-9 * size))
        raise ValueError(
            f"loss: got losses whose sum over {rounds[e]} rounds is not convex: its mean lies {below[e]:.3g} below its "
            "tangent at the solution; expected a convex sum"
        )


def _where(mask: Array, new: Array, old: Array) -> Array:
    return np.where(mask.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

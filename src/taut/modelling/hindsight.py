"""Hindsight from a model's own CVXPY expressions: stated once, solved with Clarabel, proven by dual variables.

Quadratic losses are added up into one polynomial, whatever the horizon. Other losses become epigraphs, one a round, as
long as that many rounds fit into a program; beyond, smooth ones take Newton steps with aggregated Hessians.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import jax
import numpy as np

from ..judge.hindsight.newton import Found, Objective
from ..judge.hindsight.scaling import Frame, least_over_domain, onto_domain
from ..judge.hindsight.stream_sums import mean_losses, worst_rounds
from ..problem.constraints import Constraints
from ..problem.streams import Stream
from ..problem.transforms import Max, Squared
from .conic import Answer, Conic
from .inequalities import Excess
from .round_programs import Rounds

if TYPE_CHECKING:
    from .model import Model

__all__ = ["solve"]

Array = np.ndarray[Any, Any]

ROWS = 40_000
"""The most rows that rounds may bring into one program."""
CLOSE = 1e-11
"""A relative gap that needs no second opinion."""
NEWTON = 50
SHORTEST = 1e-9
"""A line search that arrives here has failed."""
FEASIBLE = 1e-8
"""The largest value of a constraint that counts as feasible, as a share of the constraint's size."""


def solve(
    model: Model, stream: Stream, ends: tuple[int, ...], tolerance: float, rng: np.random.Generator
) -> Found | None:
    """The best fixed decisions for all seeds and prefixes, each proven; None if another route has to be taken.

    That is so for constraints that are no longer the model's own (tightened, smoothed), for losses with kinks over
    streams too long for one program, and whenever a gap above `tolerance` is left.
    """
    if not _applies(model):
        return None
    task = _Task(model, stream, ends, rng)
    todo = np.ones(task.elements, bool)
    if task.objective is not None and task.objective.quadratic:
        polynomial = task.objective.at(np.zeros((task.elements, model.size)), todo)
        found = [task.program(e, polynomial.slope[e], polynomial.bend(e)) for e in range(task.elements)]
        kind = f"{task.objective.kind} losses added up"
    elif task.fits():
        found = [task.program(e, np.zeros(model.size), None) for e in range(task.elements)]
        kind = "one epigraph a round"
    else:
        return _by_newton(task, tolerance)
    if any(one is None for one in found):
        return None
    steps = [one for one in found if one is not None]
    u = onto_domain(task.frame, np.stack([one.u for one in steps]))
    slopes = np.stack([one.slope for one in steps])
    low = np.asarray([one.constant for one in steps]) + np.sum(slopes * u, axis=1)
    low += least_over_domain(task.frame, slopes, u)
    if task.objective is not None and task.objective.quadratic:
        low += polynomial.value
    return task.found(u, low, np.stack([one.multipliers for one in steps]), kind, tolerance)


def _applies(model: Model) -> bool:
    """Whether the constraints, perhaps aggregated or squared, still are what the model's expressions say."""
    constraints: Constraints = model.constraints
    while isinstance(constraints, (Max, Squared)):
        constraints = constraints.inner
    known = {parameter.id for parameter in (*model.parameters, *model.fixed)}
    shadow = model.shadow()
    copies = [shadow.of(part) for part in (model.objective, *(one.expression for one in model.excesses))]
    # Some atoms (huber, perspective) hold parameters that copies do not reach.
    whole = not any(parameter.id in known for copy in copies for parameter in copy.parameters())
    return whole and constraints is model.written


class _Step(NamedTuple):
    """One program's answer: on the feasible set the objective is at least <slope, u> + constant."""

    u: Array
    slope: Array
    constant: float
    multipliers: Array
    answer: Answer


class _Task:
    """A model, a stream and prefixes: the elements (seed, prefix), in this order."""

    def __init__(self, model: Model, stream: Stream, ends: tuple[int, ...], rng: np.random.Generator) -> None:
        self.model, self.stream, self.ends, self.rng = model, stream, ends, rng
        self.frame = Frame.of(model.domain)
        self.elements = stream.seeds * len(ends)
        self.rounds = np.tile(np.asarray(ends, float), stream.seeds)
        self.steady = [one for one in model.excesses if not model.changing(one.expression)]
        self.varying = [one for one in model.excesses if model.changing(one.expression)]
        self.objective: Objective | None = None
        if model.objective.is_quadratic():
            self.objective = Objective(model, self.frame, stream, ends, rng, self._known())
        self.conic = self._conic()

    def _known(self) -> tuple[str, Array | None] | None:
        """What the expressions tell of the losses, which every round is then held to."""
        if self.model.curvature is None:
            return None
        bend = self.model.curvature * float(self.frame.scale) ** 2
        return ("quadratic" if np.any(bend) else "affine"), bend

    def _conic(self) -> Conic:
        """All that does not change with the round, stated once."""
        shadow, domain = self.model.shadow(framed=True), self.model.domain
        tracked = [
            Excess(shadow.of(one.expression), one.equality).constraint
            for one in self.steady
            if one.expression.variables()
        ]
        inside = domain.to_cvxpy(cp.reshape(shadow.decision, domain.shape, order="C"))
        return Conic.of([shadow.variable], [*tracked, *shadow.ties, *inside], tracked)

    @property
    def with_losses(self) -> bool:
        """Whether losses enter programs round by round."""
        return self.objective is None or not self.objective.quadratic

    @cached_property
    def data(self) -> Array:
        """All data of all seeds, (seed, round, entry)."""
        if not self.model.parameters:
            return np.zeros((self.stream.seeds, self.ends[-1], 0))
        block = self.stream.block(0, self.ends[-1])
        return np.concatenate([np.asarray(a, float).reshape(*a.shape[:2], -1) for a in block], axis=2)

    @cached_property
    def parts(self) -> Rounds:
        """What one round brings into a program."""
        return Rounds(self.model, self.varying, self.with_losses, self.data[0, 0])

    def fits(self) -> bool:
        """Whether all rounds fit into one program, and CVXPY's statement of a round really is affine in the data."""
        return self.ends[-1] * self.parts.height <= ROWS and self.parts.faithful(self.data[-1, -1])

    def program(self, e: int, slope: Array, curvature: Array | None) -> _Step | None:
        """Solve one element's program: the quadratic plus what rounds bring; None if that fails."""
        conic, places = self.conic, list[list[Array]]()
        if self.varying or self.with_losses:
            if not self.fits():
                return None
            seed, prefix = divmod(e, len(self.ends))
            rounds, counts = np.unique(self.data[seed, : self.ends[prefix]], axis=0, return_counts=True)
            conic, places = self.parts.join(self.conic.rows, rounds, counts / self.ends[prefix])
        return self.minimised(conic, slope, curvature, places, int(self.rounds[e]))

    def minimised(
        self, conic: Conic, slope: Array, curvature: Array | None, places: list[list[Array]], rounds: int
    ) -> _Step | None:
        """Solve a program as well as the proofs of its answers tell; None if the solver fails."""
        best: _Step | None = None
        least = np.inf
        for answer in conic.answers(slope, curvature):
            if answer.status == "infeasible":
                when = f" in all of {rounds} rounds" if self.varying else ""
                raise ValueError(
                    f"constraints: got none of the domain's decisions feasible{when}; expected a domain that contains a "
                    "decision with g(x) <= 0"
                )
            if answer.status != "solved":
                continue
            proof, constant = conic.bound(answer, slope, curvature)
            value = conic.value(answer, slope, curvature)
            lowest = float(proof @ answer.x) + float(least_over_domain(self.frame, proof[None], answer.x[None])[0])
            gap = abs(value - constant - lowest)  # below zero if the answer is not quite feasible
            if best is None or gap < least:
                least = gap
                best = _Step(answer.x, proof, constant, self.multipliers(conic, answer, places), answer)
            if least <= CLOSE * abs(value):
                break
        return best

    def multipliers(self, conic: Conic, answer: Answer, places: list[list[Array]]) -> Array:
        """One for each constraint that is played; those of several rounds are added, equalities split by sign."""
        fixed, changing = iter(conic.duals(answer)), iter(places)
        parts = []
        for one in self.model.excesses:
            if not one.expression.variables():
                dual = np.zeros(one.expression.size)
            elif self.model.changing(one.expression):
                dual = sum(np.sign(where) * answer.z[np.abs(where) - 1] for where in next(changing))
            else:
                dual = next(fixed)
            parts += [np.maximum(dual, 0)] + ([np.maximum(-dual, 0)] if one.equality else [])
        return np.concatenate(parts)

    def mean_losses(self, u: Array) -> Array:
        """The mean loss of each element at its own point."""
        everyone = np.ones(self.elements, bool)
        if self.objective is not None:
            return np.asarray(self.objective.at(u, everyone, False).value)
        return np.asarray(mean_losses(self.model.loss, self.frame, self.stream, self.ends, u, everyone, False).value)

    def excess(self, u: Array) -> Array:
        """The constraints at each element's point, (element, constraint); of several rounds, the largest."""
        written = self.model.written
        if written.takes_data:
            everyone = np.ones(self.elements, bool)
            return worst_rounds(written, self.frame, self.stream, self.ends, u, everyone)[0].max(axis=1)
        return np.asarray(jax.jit(jax.vmap(lambda v: written.values(self.frame.decision(v), None)))(u))

    def found(self, u: Array, low: Array, multipliers: Array, kind: str, tolerance: float) -> Found | None:
        """The result, if every element is proven; `low` bounds the mean losses of feasible decisions from below."""
        excess, inner, depth = self.excess(u), self.model.inner, self.model.constants.slater
        if inner is not None and depth is not None and np.any(excess > 0):
            # What the solver's tolerance let through is taken back, if it costs little, by a step towards the inside.
            share = np.maximum(excess.max(axis=1), 0)
            way = (inner - np.asarray(self.frame.centre)) / float(self.frame.scale) - u
            moved = u + (share / (share + depth))[:, None] * way
            worth = self.mean_losses(moved)
            cheap = worth - low <= tolerance * np.maximum(1 / self.rounds, np.abs(worth))
            u = np.where(cheap[:, None], moved, u)
            excess = self.excess(u)
        value = self.mean_losses(u)
        size = np.maximum(1 / self.rounds, np.abs(value))
        # A constraint that is violated by a rounding may have bought a loss below the optimum.
        bought = np.sum(multipliers * np.maximum(excess, 0), axis=1)
        gap = np.maximum(np.maximum(value - low, 0), bought) / size
        reach = max(1.0, self.model.constants.constraint_range or 1.0)
        if not np.all(gap <= tolerance) or np.any(excess > FEASIBLE * reach):
            return None
        decision = np.asarray(self.frame.centre) + float(self.frame.scale) * u
        total = multipliers * self.rounds[:, None]
        name = f"clarabel, the model's own program, {kind}"
        return Found(decision, value * self.rounds, gap, excess.max(axis=1), total, name)


def _by_newton(task: _Task, tolerance: float) -> Found | None:
    """Newton's method over the model's own feasible set, all elements side by side; None if losses are not smooth."""
    if task.varying:
        return None
    objective = task.objective or Objective(task.model, task.frame, task.stream, task.ends, task.rng)
    if objective.kind == "kinked":
        return None
    size, count = task.model.size, task.elements

    def minimised(slope: Array, curvature: Array) -> _Step | None:
        return task.minimised(task.conic, slope, curvature, [], 0)

    start = minimised(np.zeros(size), np.eye(size))
    if start is None:
        return None
    u, todo = np.tile(start.u, (count, 1)), np.ones(count, bool)
    low, multipliers = np.full(count, -np.inf), np.zeros((count, task.model.count))
    here = objective.at(u, todo, True)
    for _ in range(NEWTON):
        open_ = np.flatnonzero(todo).tolist()
        targets = {e: minimised(here.slope[e] - here.bend(e) @ u[e], here.bend(e)) for e in open_}
        steps = {e: step for e, step in targets.items() if step is not None}
        if len(steps) < len(targets):
            return None
        way = np.zeros_like(u)
        for e, step in steps.items():
            way[e] = step.u - u[e]
        length, here = _searched(objective, u, way, here, todo)
        u = u + length[:, None] * way
        for e, step in steps.items():
            slope, constant = task.conic.bound(step.answer, here.slope[e])  # under the tangent of the losses themselves
            least = float(least_over_domain(task.frame, slope[None], u[e][None])[0])
            low[e] = here.value[e] - here.slope[e] @ u[e] + constant + slope @ u[e] + least
            multipliers[e] = step.multipliers
        gap = (here.value - low) / np.maximum(1 / task.rounds, np.abs(here.value))
        todo &= (gap > tolerance / 2) & (length > 0)
        if not todo.any():
            break
    return task.found(u, low, multipliers, "newton steps", tolerance)


def _searched(objective: Objective, u: Array, way: Array, start: Any, todo: Array) -> tuple[Array, Any]:
    """How far to go along each way, halving until the losses really fall; and the losses' model there."""
    fall = np.sum(start.slope * way, axis=1)
    length, left, found = todo.astype(float), todo.copy(), start
    rounding = 1e-13 * (np.abs(start.value) + np.abs(fall))
    while left.any():
        trial = objective.at(u + length[:, None] * way, left, True)
        good = left & (trial.value <= start.value + 1e-4 * length * fall + rounding)
        good &= np.isfinite(trial.slope).all(axis=1) & np.isfinite(trial.curvature).all(axis=(1, 2))
        mask = [good.reshape(-1, *(1,) * (a.ndim - 1)) for a in found]
        found = type(found)(*(np.where(m, new, old) for m, new, old in zip(mask, trial, found, strict=True)))
        left &= ~good
        length = np.where(left, length / 2, length)
        lost = left & (length < SHORTEST)
        length, left = np.where(lost, 0.0, length), left & ~lost
    return length, found

"""Hindsight from a model's own CVXPY expressions: stated once, solved with Clarabel, proven by dual
variables.

Quadratic losses are added up into one polynomial, whatever the horizon. Other losses become one
epigraph per round, as long as all rounds fit into one program; for longer streams, smooth losses
take Newton steps with aggregated Hessians.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy import sparse

from ..engine import Array
from ..judge.hindsight.newton import State, newton
from ..judge.hindsight.objective import Objective, StreamObjective, objective_of
from ..judge.hindsight.result import Found, relative_gap
from ..judge.hindsight.scaling import ScaledConstraints, Scaling
from ..judge.hindsight.stream_sums import Taylor, worst_rounds
from ..problem.conic import ConicForm, ConicSet, Solution, conic_form
from ..problem.constraints import Constraints
from ..problem.streams import Stream
from ..problem.transforms import Max, Squared
from .translation.inequalities import Excess

if TYPE_CHECKING:
    from .model import Model

__all__ = ["Rounds", "solve"]


ROWS = 40_000
"""The largest number of rows that rounds may add to one program; larger programs are slower than
Newton steps."""
CLOSE = 1e-11
"""A relative gap that needs no second attempt of the solver."""
SOLVED_FEASIBLE = 1e-8
"""The largest value of a constraint at a solution, in its unit: the accuracy of conic solvers."""


def solve(
    model: Model, stream: Stream, ends: tuple[int, ...], tolerance: float, rng: np.random.Generator
) -> Found | None:
    """The best fixed decisions for all seeds and prefixes, each proven; None if the generic route
    must be taken.

    That is the case for constraints that are no longer the model's own (tightened, smoothed), for
    losses with kinks over streams too long for one program, and whenever a gap above `tolerance`
    remains.
    """
    if not _applies(model):
        return None
    task = _Task(model, stream, ends, rng)
    if not model.parametrized and (task.varying or not task.quadratic):
        return _by_newton(task, tolerance)  # the rows of a round are not affine in its data
    everyone = np.ones(task.elements, bool)
    if task.quadratic:
        taylor = task.objective.value_slope_curvature(
            np.zeros((task.elements, model.size)), everyone
        )
        programs = [
            task.program(e, taylor.slope[e], taylor.hessian(e)) for e in range(task.elements)
        ]
        kind, constant = f"{task.objective.kind} losses added up", taylor.value
    elif task.fits():
        programs = [task.program(e, np.zeros(model.size), None) for e in range(task.elements)]
        kind, constant = "one epigraph per round", np.zeros(task.elements)
    else:
        return _by_newton(task, tolerance)
    proven = [program for program in programs if program is not None]
    if len(proven) < len(programs):
        return None
    u = task.scaling.project(np.stack([program.u for program in proven]))
    slopes = np.stack([program.slope for program in proven])
    lower = (
        constant + np.asarray([program.constant for program in proven]) + np.sum(slopes * u, axis=1)
    )
    lower += task.scaling.least_change(slopes, u)
    return task.found(
        u, lower, np.stack([program.multipliers for program in proven]), kind, tolerance
    )


def _applies(model: Model) -> bool:
    """Whether the constraints, perhaps aggregated or squared, still are those of the model's
    expressions."""
    constraints: Constraints = model.constraints
    while isinstance(constraints, (Max, Squared)):
        constraints = constraints.inner
    known = {parameter.id for parameter in (*model.parameters, *model.fixed)}
    flat = model.flat_copy()
    copies = [
        flat.of(part)
        for part in (model.objective, *(excess.expression for excess in model.excesses))
    ]
    # Some atoms (huber) hold parameters that copies do not reach.
    complete = not any(parameter.id in known for copy in copies for parameter in copy.parameters())
    return complete and constraints is model.written


class _Proven(NamedTuple):
    """One program's solution: on the feasible set the objective is at least <slope, u> +
    constant."""

    u: Array
    slope: Array
    constant: float
    multipliers: Array
    solution: Solution


class _NoSolution(Exception):
    """The solver failed; the generic route must be taken."""


class _Task:
    """A model, a stream and prefixes: the elements (seed, prefix), in this order."""

    def __init__(
        self, model: Model, stream: Stream, ends: tuple[int, ...], rng: np.random.Generator
    ) -> None:
        self.model, self.stream, self.ends, self.rng = model, stream, ends, rng
        self.scaling = Scaling.measured(model, model.written, stream, ends, rng)
        self.unit = float(self.scaling.loss_unit)
        self.elements = stream.seeds * len(ends)
        self.rounds = np.tile(np.asarray(ends, float), stream.seeds)
        self.steady = [excess for excess in model.excesses if not model.changing(excess.expression)]
        self.varying = [excess for excess in model.excesses if model.changing(excess.expression)]
        self.objective: Objective = StreamObjective(model, self.scaling, stream, ends)
        if model.objective.is_quadratic():
            self.objective = objective_of(model, self.scaling, stream, ends, rng, self._known())
        self.steady_set = self._steady_set()

    def _known(self) -> tuple[str, Array | None] | None:
        """The kind of the losses and their common Hessian, if the expressions tell; every round is
        checked against it."""
        if self.model.curvature is None:
            return None
        hessian = self.model.curvature * float(self.scaling.radius) ** 2 / self.unit
        return ("quadratic" if np.any(hessian) else "affine"), hessian

    def _steady_set(self) -> ConicSet:
        """The domain and all constraints that do not change with the round, stated once."""
        flat, domain = self.model.scaled_copy(), self.model.domain
        tracked = [
            Excess(flat.of(excess.expression), excess.equality).constraint
            for excess in self.steady
            if excess.expression.variables()
        ]
        inside = domain.to_cvxpy(cp.reshape(flat.decision, domain.shape, order="C"))
        return ConicSet.of([flat.variable], [*tracked, *flat.ties, *flat.links, *inside], tracked)

    @property
    def quadratic(self) -> bool:
        """Whether the losses are added up; otherwise they enter programs round by round."""
        return self.objective.quadratic

    @cached_property
    def data(self) -> Array:
        """All data of all seeds, (seed, round, entry)."""
        if not self.model.parameters:
            return np.zeros((self.stream.seeds, self.ends[-1], 0))
        block = self.stream.block(0, self.ends[-1])
        return np.concatenate(
            [np.asarray(a, float).reshape(*a.shape[:2], -1) for a in block], axis=2
        )

    @cached_property
    def parts(self) -> Rounds:
        """The rows that one round adds to a program."""
        unit = None if self.quadratic else self.unit
        return Rounds(self.model, self.varying, unit, self.data[0, 0])

    def fits(self) -> bool:
        """Whether all rounds fit into one program, and CVXPY's statement of a round is affine in
        the data."""
        return self.ends[-1] * self.parts.height <= ROWS and self.parts.faithful(self.data[-1, -1])

    def program(self, e: int, slope: Array, curvature: Array | None) -> _Proven | None:
        """Solve one element's program: the quadratic plus the rows of its rounds; None if that
        fails."""
        feasible, dual_rows = self.steady_set, list[list[Array]]()
        if self.varying or not self.quadratic:
            if not self.fits():
                return None
            seed, prefix = divmod(e, len(self.ends))
            rounds, counts = np.unique(
                self.data[seed, : self.ends[prefix]], axis=0, return_counts=True
            )
            feasible, dual_rows = self.parts.join(
                self.steady_set.form, rounds, counts / self.ends[prefix]
            )
        return self.minimised(feasible, slope, curvature, dual_rows)

    def minimised(
        self,
        feasible: ConicSet,
        slope: Array,
        curvature: Array | None,
        dual_rows: list[list[Array]],
    ) -> _Proven | None:
        """The solver's attempt whose dual variables prove the most; None if the solver fails."""
        best: _Proven | None = None
        least = np.inf
        for solution in feasible.solutions(slope, curvature):
            if solution.status == "infeasible":
                return None  # the generic route proves it and finds the least-violating decision
            if solution.status != "solved":
                continue
            x = feasible.wanted(solution)
            proof, constant = feasible.bound(solution, slope, curvature)
            value = feasible.value(solution, slope, curvature)
            lowest = float(proof @ x) + float(self.scaling.least_change(proof[None], x[None])[0])
            gap = abs(value - constant - lowest)  # below zero if the solution is not quite feasible
            if best is None or gap < least:
                least = gap
                best = _Proven(
                    x, proof, constant, self.multipliers(feasible, solution, dual_rows), solution
                )
            if least <= CLOSE * abs(value):
                break
        return best

    def multipliers(
        self, feasible: ConicSet, solution: Solution, dual_rows: list[list[Array]]
    ) -> Array:
        """One per constraint that is played, for losses in units; those of several rounds are
        added, those of equalities split by sign."""
        fixed, changing = iter(feasible.duals(solution)), iter(dual_rows)
        parts = []
        for excess in self.model.excesses:
            if not excess.expression.variables():
                dual = np.zeros(excess.expression.size)
            elif self.model.changing(excess.expression):
                dual = sum(np.sign(rows) * solution.z[np.abs(rows) - 1] for rows in next(changing))
            else:
                dual = next(fixed)
            parts += [np.maximum(dual, 0)] + ([np.maximum(-dual, 0)] if excess.equality else [])
        return np.concatenate(parts)

    def mean_losses(self, u: Array) -> Array:
        """The mean loss of each element at its own point."""
        return np.asarray(self.objective.value_slope(u, np.ones(self.elements, bool)).value)

    def excess(self, u: Array) -> Array:
        """The constraints at each element's point, (element, constraint); of several rounds, the
        largest."""
        constraints = ScaledConstraints(self.model, self.model.written, self.scaling)
        if constraints.takes_data:
            everyone = np.ones(self.elements, bool)
            values = worst_rounds(constraints, self.stream, self.ends, u, everyone)[0].max(axis=1)
        else:
            values = constraints.values(u)
        return values * self.scaling.units

    def found(
        self, u: Array, lower: Array, multipliers: Array, kind: str, tolerance: float
    ) -> Found | None:
        """The result, if every element is proven; `lower` bounds the mean losses of feasible
        decisions from below."""
        excess, inner, depth = self.excess(u), self.model.inner, self.model.constants.slater
        if inner is not None and depth is not None and np.any(excess > 0):
            # A step towards the inside removes the violation that the solver's tolerance allowed,
            # if it costs little.
            violation = np.maximum(excess.max(axis=1), 0)
            direction = np.asarray(self.scaling.scaled(inner)) - u
            moved = u + (violation / (violation + depth))[:, None] * direction
            cheap = relative_gap(self.mean_losses(moved), lower, self.rounds) <= tolerance
            u = np.where(cheap[:, None], moved, u)
            excess = self.excess(u)
        value = self.mean_losses(u)
        # A constraint that is violated by rounding may have bought a loss below the optimum.
        loss_bought_by_violation = np.sum(multipliers * np.maximum(excess, 0), axis=1)
        gap = relative_gap(
            value,
            np.minimum(np.minimum(lower, value), value - loss_bought_by_violation),
            self.rounds,
        )
        if not np.all(gap <= tolerance) or np.any(excess > SOLVED_FEASIBLE * self.scaling.units):
            return None
        totals = self.unit * self.rounds
        return Found(
            self.scaling.flat_decision(u),
            totals * value,
            gap,
            excess.max(axis=1),
            totals[:, None] * multipliers,
            f"clarabel, the model's own program, {kind}",
            self.unit,
        )


class _OwnFeasibleSet:
    """The model's own feasible set, in the form that Newton's method asks for. Its points are
    feasible."""

    def __init__(self, task: _Task) -> None:
        self.task = task

    def minimise(
        self, taylor: Taylor, at: Array, mask: Array, tolerance: Array
    ) -> tuple[Array, Array, dict[int, _Proven]]:
        """For each marked element the minimiser of its Taylor polynomial, always as accurate as the
        solver can."""
        u, proofs = at.copy(), dict[int, _Proven]()
        for e in np.flatnonzero(mask).tolist():
            hessian = taylor.hessian(e)
            proven = self.task.minimised(
                self.task.steady_set, taylor.slope[e] - hessian @ at[e], hessian, []
            )
            if proven is None:
                raise _NoSolution
            u[e], proofs[e] = proven.u, proven
        return u, np.zeros(len(at)), proofs

    def lower(
        self, elements: list[int], u: Array, value: Array, slope: Array, proofs: Mapping[int, Any]
    ) -> Array:
        """Lower bounds on the optimal mean losses, under their tangents at `u`."""
        lower = np.zeros(len(elements))
        for i, e in enumerate(elements):
            proof, constant = self.task.steady_set.bound(proofs[e].solution, slope[i])
            least = float(self.task.scaling.least_change(proof[None], u[e][None])[0])
            lower[i] = value[i] - slope[i] @ u[e] + constant + proof @ u[e] + least
        return lower

    def multiplier_sum(self, proof: _Proven) -> float:
        """Unused, because the excess is zero."""
        return 0.0


def _by_newton(task: _Task, tolerance: float) -> Found | None:
    """Newton's method over the model's own feasible set; None if losses are not smooth or the
    solver fails."""
    if task.varying:
        return None
    objective = task.objective
    if not task.model.objective.is_quadratic():  # whether there are kinks is not known yet
        objective = objective_of(task.model, task.scaling, task.stream, task.ends, task.rng)
    if objective.kind == "kinked":
        return None
    feasible, count, size = _OwnFeasibleSet(task), task.elements, task.model.size
    everyone, nothing = np.ones(1, bool), np.zeros((1, size))
    try:
        distance = Taylor(np.zeros(1), nothing, np.eye(size)[None])
        u = np.tile(feasible.minimise(distance, nothing, everyone, np.zeros(1))[0], (count, 1))
        taylor = objective.value_slope_curvature(u, np.ones(count, bool))
        state = newton(
            objective,
            feasible,
            State(u, np.zeros(count), taylor, np.full(count, np.inf)),
            tolerance,
        )
    except _NoSolution:
        return None
    value, slope = state.taylor.value, state.taylor.slope
    lower = feasible.lower(list(range(count)), state.u, value, slope, state.proofs)
    multipliers = np.stack([state.proofs[e].multipliers for e in range(count)])
    return task.found(state.u, lower, multipliers, "Newton steps", tolerance)


SAME = 1e-9
"""Numbers that differ by less than this, relatively, are equal: the check of the affine map."""


class Rounds:
    """The part of a program that changes with the round: the loss as an epigraph, and constraints.

    Arguments:
        model: the model.
        excesses: the constraints that change with the round.
        loss_unit: what the loss is divided by; None if it is not part of it.
        example: one round's data, flat.
    """

    def __init__(
        self, model: Model, excesses: list[Excess], loss_unit: float | None, example: Array
    ) -> None:
        self._flat, self._model = model.scaled_copy(), model
        self._levels = [] if loss_unit is None else [cp.Variable()]
        self._tracked = [
            Excess(self._flat.of(excess.expression), excess.equality).constraint
            for excess in excesses
        ]
        epigraph = [self._flat.of(model.objective) <= loss_unit * one for one in self._levels]
        objective = cp.Minimize(cp.sum(self._flat.variable) + sum(self._levels))
        self._program = cp.Problem(objective, [*self._tracked, *epigraph, *self._flat.links])
        base = self._form(example)
        self.form, self._base, self._example = base, _numbers(base), example
        self._slopes = np.zeros((len(self._base), len(example)))
        for i, unit in enumerate(np.eye(len(example))):
            self._slopes[:, i] = _numbers(self._form(example + unit)) - self._base

    def _form(self, data: Array) -> ConicForm:
        for parameter, value in zip(self._flat.parameters, self._model.data_of(data), strict=True):
            parameter.save_value(
                value
            )  # without CVXPY's checks, because these data may violate attributes
        return conic_form(self._program, [self._flat.variable, *self._levels], self._tracked)

    @property
    def height(self) -> int:
        """Rows for each round."""
        return len(self.form.offsets)

    def faithful(self, data: Array) -> bool:
        """Whether CVXPY's own statement of a round has the numbers that the affine map predicts."""
        truth = _numbers(self._form(data))
        guess = self._base + self._slopes @ (data - self._example)
        return len(truth) == len(guess) and bool(
            np.all(np.abs(truth - guess) <= SAME * (1 + np.abs(truth)))
        )

    def join(
        self, fixed: ConicForm, data: Array, weights: Array
    ) -> tuple[ConicSet, list[list[Array]]]:
        """The fixed rows and those of all rounds (round, entry), whose losses cost `weights`.

        Also returns, for every constraint that changes with the round, its rows in each round,
        counted from 1.
        """
        count, size = len(data), len(fixed.columns)
        numbers = self._base + (data - self._example) @ self._slopes.T
        rows, width = self.form.matrix.shape
        matrices, offsets = (
            numbers[:, : rows * width].reshape(count, rows, width),
            numbers[:, rows * width :],
        )
        own = np.setdiff1d(
            np.arange(width), self.form.columns[:size]
        )  # the level and auxiliary variables
        start = fixed.matrix.shape[1]
        shift = np.zeros((count, width), int)
        shift[:, own] = start + np.arange(count * len(own)).reshape(count, -1)
        shift[:, self.form.columns[:size]] = fixed.columns
        r, i, j = np.nonzero(matrices)
        height = fixed.matrix.shape[0]
        shape = (count * rows, start + count * len(own))
        below = sparse.csc_matrix((matrices[r, i, j], (r * rows + i, shift[r, j])), shape)
        above = fixed.matrix.copy()
        above.resize(height, shape[1])
        costs = np.zeros(shape[1])
        for level in self.form.columns[size:]:
            costs[shift[:, level]] = weights
        form = ConicForm(
            sparse.vstack([above, below], format="csc"),
            np.concatenate([fixed.offsets, offsets.ravel()]),
            fixed.cones + self.form.cones * count,
            fixed.columns,
            fixed.dual_rows,
            fixed.zero,
            fixed.positive,
        )
        places = [
            [np.sign(where) * (np.abs(where) + height + t * rows) for t in range(count)]
            for where in self.form.dual_rows
        ]
        return ConicSet(form, costs), places


def _numbers(form: ConicForm) -> Array:
    return np.concatenate([np.asarray(form.matrix.toarray()).ravel(), form.offsets])

"""The feasible set: convex quadratics are minimised over it, and multipliers become proofs.

Affine constraints are rows of the program, quadratic ones second-order cones. All others, and whatever accuracy the cones
leave on the table, are won by tangents: minimise over the tangents known so far, add those that the minimiser violates,
and give the next objective the curvature of the constraints that were active (sequential quadratic programming). For
polyhedra that is Kelley's method, which ends after finitely many tangents; for smooth constraints it converges quadratically.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ..streams import Stream
from .aggregate import Model, worst_rounds
from .cones import Answer, Infeasible, Level, Program, Quadratic, Unbounded
from .detect import Structure
from .frame import Array, Frame, least_over_domain, onto_domain
from .tangents import FIXED, Key, Oracle, Pool

__all__ = ["FEASIBLE", "Proof", "Region"]

FEASIBLE = 1e-9
"""The largest value of a constraint that counts as feasible, as a share of the constraint's size."""
NEAR = 1e-6
"""Constraints above minus this share of their size are near enough to matter."""
STEPS = 400
NEWTON_STEPS = 60
"""After this many steps no curvature is lent to the objective any more: pure cutting planes, which cannot cycle."""
ENOUGH = 1e-10
"""A relative gap that needs no second look."""
NEGLIGIBLE = 1e-13
"""Multipliers below this share of the largest are not looked at twice."""
AT_ONCE = 24
"""How many tangents one point may add."""


@dataclass(frozen=True)
class Proof:
    """What an element's multipliers say: slope @ y <= offset for all feasible y."""

    slope: Array
    offset: float
    row_slope: Array
    row_offset: float
    weights: dict[Key, float]
    """Multipliers of everything but rows, by constraint and round."""
    rows: Array
    """Multipliers of the rows, in the constraints' own units."""


@dataclass
class _Group:
    """Elements that share constraints, and so cuts."""

    elements: list[int]
    exact: Program | None
    """With quadratic constraints as cones; None if there are none."""
    outer: Program
    """With tangents instead."""
    pool: Pool
    lent: dict[int, Array]
    """Curvature lent by each element's active constraints."""


class Region:
    """The decisions that are feasible for each element (seed, prefix)."""

    def __init__(self, oracle: Oracle, structure: Structure, stream: Stream, ends: tuple[int, ...]) -> None:
        self.oracle, self.frame, self.structure = oracle, oracle.frame, structure
        self.stream, self.ends = stream, ends
        self.varying = oracle.constraints.takes_data
        self.rounds = np.tile(np.asarray(ends), stream.seeds)
        self.seeds = np.repeat(np.arange(stream.seeds), len(ends))
        self._lay_out()

    def demote(self, wrong: Array) -> None:
        """Know the constraints `wrong` by their tangents only from now on."""
        self.structure = self.structure.without(wrong)
        self._lay_out()

    def _lay_out(self) -> None:
        structure, size = self.structure, self.frame.size
        lengths = np.linalg.norm(structure.slopes, axis=1)
        flat = (lengths == 0) & (structure.offsets > FEASIBLE * structure.reach[structure.affine])
        if flat.any():
            self._refuse(float(structure.offsets[flat].max()))
        self.row_of = np.flatnonzero(lengths > 0)
        self.lengths = lengths[self.row_of]
        rows = structure.slopes[self.row_of] / self.lengths[:, None]
        offsets = -structure.offsets[self.row_of] / self.lengths
        self.bend_sizes = np.linalg.norm(structure.linear, axis=1) + np.abs(structure.bends).max(axis=(1, 2), initial=0)
        self._refuse_concave()
        quadratics = [
            Quadratic(bend / s, linear / s, float(constant / s))
            for bend, linear, constant, s in zip(
                structure.bends, structure.linear, structure.constant, self.bend_sizes, strict=True
            )
        ]
        self.curved = np.union1d(structure.quadratic, structure.others).astype(int)
        everyone = list(range(len(self.rounds)))
        shared = [[e for e in everyone if self.seeds[e] == s] for s in range(self.stream.seeds)]
        outer = Program(self.frame, rows, offsets, [])
        exact = Program(self.frame, rows, offsets, quadratics) if quadratics else None
        self.groups = [
            _Group(elements, exact, outer.copy() if self.varying else outer, Pool(size), {})
            for elements in (shared if self.varying else [everyone])
        ]

    def minimise(self, model: Model, at: Array, todo: Array, tolerance: float) -> tuple[Array, dict[int, Proof]]:
        """For each marked element, the feasible minimiser of its model (expanded at `at`), and the proof of it.

        `tolerance` is what the model's own relative gap should be; nothing is promised, proofs are checked by the caller.
        """
        u, proofs = at.copy(), {}
        for group in self.groups:
            wanted = [e for e in group.elements if todo[e]]
            start, count = 0, len(wanted) if self.varying else 1
            while start < len(wanted):  # few elements first, whose tangents then serve the others
                batch = wanted[start : start + count]
                self._solve(group, batch, model, at, u, proofs, tolerance)
                start, count = start + count, 2 * count
        return u, proofs

    def _solve(
        self, group: _Group, batch: list[int], model: Model, at: Array, u: Array, proofs: dict[int, Proof], tolerance: float
    ) -> None:
        """Sequential quadratic programming on all elements of the batch at once; fills `u` and `proofs`."""
        working = list(batch)
        idle = dict.fromkeys(batch, 0)
        for step in range(STEPS):
            group.pool.clock += 1
            group.pool.prune(40 * self.frame.size + 400)
            for program in (group.outer, group.exact):
                if program is not None:
                    program.set_cuts(*group.pool.arrays())
            for e in working:
                u[e], proofs[e] = self._program(group, e, model, at[e], u[e], step)
            u[working] = onto_domain(self.frame, u[working])
            shift = u - at
            bent = np.stack([model.bend(e) @ shift[e] for e in working])
            slope = model.slope[working] + bent
            value = model.value[working] + np.sum((model.slope[working] + slope) / 2 * shift[working], axis=1)
            size = np.maximum(1 / self.rounds[working], np.abs(value))
            gap = np.abs(value - self.lower(working, u, value, slope, proofs)) / size
            keys, worst = self._violated(working, u, gap > tolerance)
            tangents = self.oracle.tangents(
                [key for e in working for key in keys[e]],
                np.asarray([u[e] for e in working for _ in keys[e]]).reshape(-1, self.frame.size),
                [int(self.seeds[e]) for e in working for _ in keys[e]],
            )
            left, cursor = [], 0
            for e, one in zip(working, gap, strict=True):
                fresh = [group.pool.add(t) for t in tangents[cursor : cursor + len(keys[e])]]
                cursor += len(keys[e])
                idle[e] = 0 if any(fresh) else idle[e] + 1
                if (worst[e] > FEASIBLE or one > tolerance) and idle[e] < 4:
                    left.append(e)
            working = left
            if not working:
                return

    def _program(
        self, group: _Group, e: int, model: Model, at: Array, u: Array, step: int
    ) -> tuple[Array, Proof]:
        """Solve one element's program, with cones at first, then with tangents."""
        curvature = model.bend(e)
        slope = model.slope[e] - curvature @ at
        lent = group.lent.pop(e, None)
        if step == 0 and lent is None and group.exact is not None:
            program = group.exact
        else:
            program = group.outer
            if lent is not None and step < NEWTON_STEPS:
                curvature, slope = curvature + lent, slope - lent @ u
        active = group.pool.active(int(self.rounds[e])) if self.varying else None
        try:
            answer = program.minimise(curvature, slope, active, thorough=step > 0)
        except Infeasible:
            self._explain(group, program, active)
        except Unbounded:
            raise ValueError("loss: got losses that are unbounded below over the feasible set; expected a minimum") from None
        group.pool.mark_used(answer.cuts)
        weights, bend = group.pool.weights(answer.cuts), group.pool.bend(answer.cuts)
        for i, multiplier in enumerate(answer.quadratics):
            key, weight = (int(self.structure.quadratic[i]), FIXED), float(multiplier) / self.bend_sizes[i]
            weights[key] = weights.get(key, 0.0) + weight
            bend = weight * self.structure.bends[i] + (0 if bend is None else bend)
        if bend is not None:
            group.lent[e] = bend
        return answer.u, self._proof(answer, weights)

    def _proof(self, answer: Answer, weights: dict[Key, float]) -> Proof:
        rows = answer.rows / self.lengths
        return Proof(answer.slope, answer.offset, answer.row_slope, answer.row_offset, weights, rows)

    def lower(self, elements: list[int], u: Array, value: Array, slope: Array, proofs: dict[int, Proof]) -> Array:
        r"""Lower bounds on the optimal mean losses, given value and gradient at feasible points `u`.

        For every feasible y, with p @ y <= o proven by multipliers: f(y) >= f(u) + <f'(u), y - u> + (p @ y - o), which is
        affine in y and minimised over the domain. The tangents that p is made of may touch elsewhere; if that costs
        accuracy, new ones that touch at u are tried with the same multipliers.
        """
        points = u[elements]
        planes = np.stack([proofs[e].slope for e in elements])
        gain = np.asarray([proofs[e].slope @ u[e] - proofs[e].offset for e in elements])
        best = value + gain + least_over_domain(self.frame, slope + planes, points)
        if np.all(np.abs(value - best) <= ENOUGH * np.maximum(1 / self.rounds[elements], np.abs(value))):
            return best
        keys = []
        for i, e in enumerate(elements):
            weights = proofs[e].weights
            least = NEGLIGIBLE * max(weights.values(), default=0.0)
            keys += [(i, key, weight) for key, weight in weights.items() if weight > least]
        if not keys:
            return best
        touching = self.oracle.tangents(
            [key for _, key, _ in keys], points[[i for i, _, _ in keys]], [int(self.seeds[elements[i]]) for i, _, _ in keys]
        )
        planes = np.stack([proofs[e].row_slope for e in elements])
        gain = np.asarray([proofs[e].row_slope @ u[e] - proofs[e].row_offset for e in elements])
        for (i, _, weight), tangent in zip(keys, touching, strict=True):
            planes[i] += weight * tangent.slope
            gain[i] += weight * (tangent.value + tangent.slope @ (points[i] - tangent.u))
        bound = value + gain + least_over_domain(self.frame, slope + planes, points)
        return np.maximum(best, bound)

    def _violated(self, elements: list[int], u: Array, unproven: Array) -> tuple[dict[int, list[Key]], dict[int, float]]:
        """For each element: the constraints whose tangents should be added, and the largest value in units of `reach`."""
        keys: dict[int, list[Key]] = {e: [] for e in elements}
        worst: dict[int, float] = dict.fromkeys(elements, -np.inf)
        if not self.curved.size:
            return keys, worst
        reach = self.structure.reach[self.curved]
        if self.varying:
            todo = np.zeros(len(self.rounds), bool)
            todo[elements] = True
            blocks, when = worst_rounds(self.oracle.constraints, self.frame, self.stream, self.ends, u, todo)
        else:
            fixed = self.oracle.values(u[elements])[:, self.curved]
        for i, e in enumerate(elements):
            values = blocks[e] / reach if self.varying else (fixed[i] / reach)[None]
            if np.isnan(values).any():
                raise ValueError("constraints: got a value that is not a number inside the domain; expected finite numbers")
            worst[e] = float(values.max())
            floor = -NEAR if unproven[i] else FEASIBLE
            picked = [(float(values[b, c]), b, c) for b, c in np.argwhere(values > floor)]
            picked.sort(reverse=True)
            keys[e] = [
                (int(self.curved[c]), int(when[e][b, c]) if self.varying else FIXED) for _, b, c in picked[:AT_ONCE]
            ]
        return keys, worst

    def excess(self, u: Array) -> Array:
        """The constraints at each element's point, (element, constraint); of several rounds, the largest."""
        if not self.varying:
            return self.oracle.values(u)
        everyone = np.ones(len(self.rounds), bool)
        return worst_rounds(self.oracle.constraints, self.frame, self.stream, self.ends, u, everyone)[0].max(axis=1)

    def mistaken(self, u: Array) -> Array:
        """Constraints that are not what they were taken for, seen at the elements' points."""
        if self.varying:
            return np.zeros(0, int)
        structure, values = self.structure, self.oracle.values(u)
        wrong = np.zeros(structure.count, bool)
        for which, predicted in zip((structure.affine, structure.quadratic), structure.predicted(u), strict=True):
            wrong[which] = np.any(np.abs(values[:, which] - predicted) > FEASIBLE * structure.reach[which], axis=0)
        return np.flatnonzero(wrong)

    def multipliers(self, proof: Proof) -> Array:
        """One multiplier a constraint; those of several rounds are added."""
        out = np.zeros(self.structure.count)
        out[self.structure.affine[self.row_of]] = proof.rows
        for (i, _), weight in proof.weights.items():
            out[i] += weight
        return out

    def _explain(self, group: _Group, program: Program, active: Array | None) -> NoReturn:
        """Prove that no decision is feasible, or say that it could not be told."""
        level = Level(1 / self.lengths, 1 / self.bend_sizes[: len(program.quadratics)], 1 / np.asarray(group.pool.lengths))
        answer = program.least_violation(level, active)
        least = float(least_over_domain(self.frame, answer.slope[None], np.zeros((1, self.frame.size)))[0])
        bound = (least - answer.offset) / answer.weight if answer.weight > 0 else -np.inf
        if bound > 0:
            self._refuse(bound)
        raise RuntimeError(
            "constraints: the solver met none of the domain's decisions feasible, but that could not be proven "
            f"(max_i g_i >= {bound:.3g}); expected a feasible decision with some slack"
        )

    def _refuse(self, bound: float) -> NoReturn:
        when = f" in all of {self.ends[-1]} rounds" if self.varying else ""
        raise ValueError(
            f"constraints: got none of the domain's decisions feasible{when}: max_i g_i(x) >= {bound:.6g} > 0 for all of "
            "them; expected a domain that contains a decision with g(x) <= 0"
        )

    def _refuse_concave(self) -> None:
        for i, bend, size in zip(self.structure.quadratic, self.structure.bends, self.bend_sizes, strict=True):
            least = float(np.linalg.eigvalsh(bend)[0])
            if least < -1e-9 * size:
                raise ValueError(
                    f"constraints: got a function that is not convex: constraint {i} is quadratic with the curvature "
                    f"{least / float(self.frame.scale) ** 2:.3g}; expected convex constraints"
                )


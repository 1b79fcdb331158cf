"""The feasible set: convex quadratics are minimised over it, and multipliers become proofs.

Affine constraints are rows of the program, quadratic ones second-order cones. All others, and whatever accuracy the
cones leave on the table, are won by tangents: minimise over the tangents known so far, add those that the minimiser
violates, and give the next objective the curvature of the constraints that were active (sequential quadratic
programming). For polyhedra that is Kelley's method, which ends after finitely many tangents; for smooth constraints it
converges quadratically.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ...problem.streams import Stream
from .cuts import FIXED, Key, Oracle, Pool
from .lower_bound import Proof, lower_bounds
from .program import Infeasible, Level, Program, Unbounded
from .scaling import Array, least_over_domain, onto_domain
from .shapes import Quadratic
from .stream_sums import Model, worst_rounds
from .structure import Structure

__all__ = ["Region"]

NEAR = 1e-6
"""Constraints above minus this share of their reach are near enough to matter."""
STEPS = 400
NEWTON_STEPS = 60
"""After this many steps no curvature is lent to the objective any more: pure cutting planes, which cannot cycle."""
LARGEST = 1e12
"""Curvature beyond this multiple of the losses' own comes from multipliers that do not exist."""
ENOUGH = 1e-10
"""A relative gap that needs no second look."""
PATIENCE = 4
"""Steps that add no tangent after which more would not help."""
AT_ONCE = 24
"""How many tangents one point may add."""


@dataclass
class _Group:
    """Elements that share constraints, and so cuts."""

    exact: Program | None
    """With quadratic constraints as cones; None if there are none."""
    outer: Program
    """With tangents instead."""
    pool: Pool
    lent: dict[int, Array]
    """Curvature lent by each element's active constraints."""

    def prepare(self, limit: int) -> None:
        """Give the programs the cuts of the pool, of which no more than `limit` are kept."""
        self.pool.clock += 1
        self.pool.prune(limit)
        for program in (self.outer, self.exact):
            if program is not None:
                program.set_cuts(*self.pool.arrays())


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
        flat = (lengths == 0) & (structure.offsets > structure.allowed[structure.affine])
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
        outer = Program(self.frame, rows, offsets, [])
        exact = Program(self.frame, rows, offsets, quadratics) if quadratics else None
        count = self.stream.seeds if self.varying else 1
        self.groups = [_Group(exact, outer.copy(), Pool(size), {}) for _ in range(count)]

    def minimise(self, model: Model, at: Array, todo: Array, tolerance: Array) -> tuple[Array, Array, dict[int, Proof]]:
        """For each marked element, the feasible minimiser of its model (expanded at `at`), its excess, and its proof.

        `tolerance` is what each model's own relative gap should be; nothing is promised, the caller checks the proofs.
        """
        u, excess = at.copy(), np.zeros(len(at))
        proofs: dict[int, Proof] = {}
        wanted = np.flatnonzero(todo).tolist()
        # Passes over the stream serve all elements. Tangents of fixed constraints are found by few, and serve the rest.
        start, count = 0, len(wanted) if self.varying else 1
        while start < len(wanted):
            self._solve(wanted[start : start + count], model, at, u, excess, proofs, tolerance)
            start, count = start + count, 2 * count
        return u, excess, proofs

    def _solve(
        self, batch: list[int], model: Model, at: Array, u: Array, excess: Array, proofs: dict[int, Proof],
        tolerance: Array,
    ) -> None:  # fmt: skip
        """Sequential quadratic programming on all elements of the batch at once; fills `u`, `excess` and `proofs`."""
        working = list(batch)
        idle = dict.fromkeys(batch, 0)
        for step in range(STEPS):
            for group in self.groups:
                group.prepare(40 * self.frame.size + 400)
            for e in working:
                u[e], proofs[e] = self._program(self._group_of(e), e, model, at[e], u[e], step)
            u[working] = onto_domain(self.frame, u[working])
            shift = u - at
            bent = np.stack([model.bend(e) @ shift[e] for e in working])
            slope = model.slope[working] + bent
            value = model.value[working] + np.sum((model.slope[working] + slope) / 2 * shift[working], axis=1)
            size = np.maximum(1 / self.rounds[working], np.abs(value))
            gap = np.abs(value - self.lower(working, u, value, slope, proofs)) / size
            # Cones that are active leave digits of the decision on the table even if the gap is small.
            polish = [e for e in working if step == 0 and self.structure.quadratic.size and e in self._group_of(e).lent]
            keys, worst = self._violated(working, u, (gap > tolerance[working]) | np.isin(working, polish))
            tangents = self.oracle.tangents(
                [key for e in working for key in keys[e]],
                np.asarray([u[e] for e in working for _ in keys[e]]).reshape(-1, self.frame.size),
                [int(self.seeds[e]) for e in working for _ in keys[e]],
            )
            left, cursor = [], 0
            for e, one in zip(working, gap, strict=True):
                fresh = [self._group_of(e).pool.add(t) for t in tangents[cursor : cursor + len(keys[e])]]
                cursor += len(keys[e])
                excess[e] = max(worst[e], 0) * self.structure.allowed.max()
                idle[e] = 0 if any(fresh) else idle[e] + 1
                if (worst[e] > 1 or one > tolerance[e] or e in polish) and idle[e] < PATIENCE:
                    left.append(e)
            working = left
            if not working:
                return

    def _program(self, group: _Group, e: int, model: Model, at: Array, u: Array, step: int) -> tuple[Array, Proof]:
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
            raise ValueError("loss: got losses unbounded below over the feasible set; expected a minimum") from None
        group.pool.mark_used(answer.cuts)
        weights, bend = group.pool.weights(answer.cuts), group.pool.bend(answer.cuts)
        for i, multiplier in enumerate(answer.quadratics):
            key, weight = (int(self.structure.quadratic[i]), FIXED), float(multiplier) / self.bend_sizes[i]
            weights[key] = weights.get(key, 0.0) + weight
            bend = weight * self.structure.bends[i] + (0 if bend is None else bend)
        if bend is not None and np.abs(bend).max() < LARGEST * max(1.0, float(np.abs(model.bend(e)).max())):
            group.lent[e] = bend
        return answer.u, Proof.of(answer, weights, answer.rows / self.lengths)

    def lower(self, elements: list[int], u: Array, value: Array, slope: Array, proofs: dict[int, Proof]) -> Array:
        """Lower bounds on the optimal mean losses, given value and gradient at points `u`; see `lower_bounds`."""
        chosen, seeds = [proofs[e] for e in elements], self.seeds[elements].tolist()
        size = np.maximum(1 / self.rounds[elements], np.abs(value))
        return lower_bounds(self.oracle, seeds, u[elements], value, slope, chosen, ENOUGH * size)

    def _violated(
        self, elements: list[int], u: Array, unproven: Array
    ) -> tuple[dict[int, list[Key]], dict[int, float]]:
        """For each element: the constraints whose tangents should be added; the largest value in units of `allowed`."""
        keys: dict[int, list[Key]] = {e: [] for e in elements}
        straight = self.structure.predicted(u[elements])[0] / self.structure.allowed[self.structure.affine]
        worst = dict(zip(elements, straight.max(axis=1, initial=-np.inf).tolist(), strict=True))
        if not self.curved.size:
            return keys, worst
        allowed, near = self.structure.allowed[self.curved], -NEAR * self.structure.reach[self.curved]
        if self.varying:
            todo = np.zeros(len(self.rounds), bool)
            todo[elements] = True
            blocks, when = worst_rounds(self.oracle.constraints, self.frame, self.stream, self.ends, u, todo)
        else:
            fixed = self.oracle.values(u[elements])[:, self.curved]
        for i, e in enumerate(elements):
            values = blocks[e] if self.varying else fixed[i][None]
            if np.isnan(values).any():
                raise ValueError("constraints: got a value that is not a number inside the domain; expected numbers")
            worst[e] = max(worst[e], float((values / allowed).max()))
            hits = np.argwhere(values > (near if unproven[i] else allowed))
            picked = sorted(((float(values[b, c] / allowed[c]), b, c) for b, c in hits), reverse=True)
            keys[e] = [
                (int(self.curved[c]), int(when[e][b, c]) if self.varying else FIXED) for _, b, c in picked[:AT_ONCE]
            ]
        return keys, worst

    def tighten(self, elements: list[int], u: Array) -> list[float]:
        """Add the tangents that the elements' points violate; returns their largest values in units of `allowed`."""
        keys, worst = self._violated(elements, u, np.zeros(len(elements), bool))
        for e in elements:
            points = np.repeat(u[e][None], len(keys[e]), axis=0)
            for tangent in self.oracle.tangents(keys[e], points, [int(self.seeds[e])] * len(keys[e])):
                self._group_of(e).pool.add(tangent)
        return [worst[e] for e in elements]

    def with_planes(self, e: int, slopes: Array, offsets: Array) -> tuple[Program, Array | None, Pool]:
        """The element's program with further cuts after those of its pool, and which of the cuts count."""
        group = self._group_of(e)
        program = group.outer.copy()
        cuts, cut_offsets = group.pool.arrays()
        program.set_cuts(np.vstack([cuts, slopes]), np.append(cut_offsets, offsets))
        active = group.pool.active(int(self.rounds[e])) if self.varying else None
        return program, None if active is None else np.append(active, np.ones(len(offsets), bool)), group.pool

    def _group_of(self, e: int) -> _Group:
        return self.groups[int(self.seeds[e])] if self.varying else self.groups[0]

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
            wrong[which] = np.any(np.abs(values[:, which] - predicted) > structure.allowed[which], axis=0)
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
        bends, cuts = self.bend_sizes[: len(program.quadratics)], np.asarray(group.pool.lengths)
        level = Level(1 / self.lengths, 1 / bends, 1 / cuts)
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
        when = f" over {self.ends[-1]} rounds" if self.varying else ""
        raise ValueError(
            f"constraints: got max_i g_i(x) >= {bound:.6g} > 0{when} for all x of the domain; expected a domain with a "
            "decision for which g(x) <= 0"
        )

    def _refuse_concave(self) -> None:
        for i, bend, size in zip(self.structure.quadratic, self.structure.bends, self.bend_sizes, strict=True):
            least = float(np.linalg.eigvalsh(bend)[0])
            if least < -1e-9 * size:
                raise ValueError(
                    f"constraints: got a function that is not convex: constraint {i} is quadratic with the curvature "
                    f"{least / float(self.frame.scale) ** 2:.3g}; expected convex constraints"
                )

"""The feasible set: minimises convex quadratics over it and turns multipliers into proofs.

Affine constraints are rows of the program, quadratic ones second-order cones. All others are
approximated by tangents: minimise over the tangents known so far, add those that the minimiser
violates, and add the curvature of the active constraints to the next objective (sequential
quadratic programming). Tangents also remove the violation that remains after the conic solve. For
polyhedra this is Kelley's method, which ends after finitely many tangents; for smooth constraints
it converges quadratically.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np

from ...engine import Array
from ...problem.feasibility import NoFeasibleDecision
from ...problem.streams import Stream
from .cuts import FIXED, Key, Oracle, Pool, Proof, lower_bounds
from .objective import Taylor, worst_rounds
from .program import Infeasible, Level, Program, ProvenMinimiser, Quadratic, Unbounded
from .result import NoInterior, NotCertified, relative_gap
from .structure import Structure, refuse_concave_constraints
from .tolerances import (
    CURVATURE_STEPS,
    FEASIBLE,
    LARGEST_CURVATURE,
    LEAST_VIOLATION,
    NEAR,
    NO_INTERIOR,
    PROVEN,
    TANGENT_PATIENCE,
    TANGENT_STEPS,
    TANGENTS_AT_ONCE,
    VIOLATION_STEPS,
)


@dataclass
class _Group:
    """Elements that share constraints and therefore cuts."""

    exact: Program | None
    """With quadratic constraints as cones; None if there are none."""
    outer: Program
    """With tangents instead."""
    pool: Pool
    constraint_curvature: dict[int, Array]
    """The curvature that each element's active constraints add to its objective."""

    def prepare(self, limit: int) -> None:
        """Give the programs the cuts of the pool, of which no more than `limit` are kept."""
        self.pool.clock += 1
        self.pool.prune(limit)
        for program in (self.outer, self.exact):
            if program is not None:
                program.set_cuts(*self.pool.arrays())


class Region:
    """The decisions that are feasible, for each element (seed, prefix)."""

    def __init__(
        self, oracle: Oracle, structure: Structure, stream: Stream, ends: tuple[int, ...]
    ) -> None:
        self.oracle, self.scaling, self.structure = oracle, oracle.scaling, structure
        self.stream, self.ends = stream, ends
        self.varying = oracle.constraints.takes_data
        self.units = np.broadcast_to(np.asarray(self.scaling.units), (structure.count,))
        self.rounds = np.tile(np.asarray(ends), stream.seeds)
        self.seeds = np.repeat(np.arange(stream.seeds), len(ends))
        self._lay_out()

    def demote(self, wrong: Array) -> None:
        """Approximate the constraints `wrong` by their tangents only from now on."""
        self.structure = self.structure.without(wrong)
        self._lay_out()

    def _lay_out(self) -> None:
        structure, size = self.structure, self.scaling.size
        lengths = np.linalg.norm(structure.slopes, axis=1)
        flat = (lengths == 0) & (structure.offsets > FEASIBLE)
        if flat.any():
            least = float((structure.offsets * self.units[structure.affine])[flat].max())
            self._refuse(0, LeastViolation(np.zeros(size), least, least))
        self.row_of = np.flatnonzero(lengths > 0)
        self.lengths = lengths[self.row_of]
        rows = structure.slopes[self.row_of] / self.lengths[:, None]
        offsets = -structure.offsets[self.row_of] / self.lengths
        self.sizes = np.linalg.norm(structure.linear, axis=1) + np.abs(structure.hessians).max(
            axis=(1, 2), initial=0
        )
        refuse_concave_constraints(
            structure.quadratic, structure.hessians, self.sizes, self.scaling
        )
        quadratics = [
            Quadratic(hessian / s, linear / s, float(constant / s))
            for hessian, linear, constant, s in zip(
                structure.hessians, structure.linear, structure.constant, self.sizes, strict=True
            )
        ]
        self.curved = np.union1d(structure.quadratic, structure.others).astype(int)
        outer = Program(self.scaling, rows, offsets, [])
        exact = Program(self.scaling, rows, offsets, quadratics) if quadratics else None
        count = self.stream.seeds if self.varying else 1
        self.groups = [_Group(exact, outer.copy(), Pool(size), {}) for _ in range(count)]

    def minimise(
        self, taylor: Taylor, at: Array, mask: Array, tolerance: Array
    ) -> tuple[Array, Array, dict[int, Proof]]:
        """For each marked element, the feasible minimiser of its polynomial (expanded at `at`), its
        excess, and its proof.

        `tolerance` is the relative gap to aim at in each polynomial; the caller must check the
        proofs.
        """
        u, excess = at.copy(), np.zeros(len(at))
        proofs: dict[int, Proof] = {}
        wanted = np.flatnonzero(mask).tolist()
        # Passes over the stream serve all elements. Tangents of fixed constraints are found by a
        # few elements and serve the rest.
        start, count = 0, len(wanted) if self.varying else 1
        while start < len(wanted):
            self._solve(wanted[start : start + count], taylor, at, u, excess, proofs, tolerance)
            start, count = start + count, 2 * count
        return u, excess, proofs

    def _solve(
        self,
        batch: list[int],
        taylor: Taylor,
        at: Array,
        u: Array,
        excess: Array,
        proofs: dict[int, Proof],
        tolerance: Array,
    ) -> None:
        """Sequential quadratic programming on all elements of the batch at once; fills `u`,
        `excess` and `proofs`."""
        working = list(batch)
        idle = dict.fromkeys(batch, 0)
        # Feasible, but not proven: older tangents, nearly parallel to the newest, spoil
        # multipliers.
        settled: set[int] = set()
        for step in range(TANGENT_STEPS):
            for group in self.groups:
                group.prepare(40 * self.scaling.size + 400)
            for e in working:
                u[e], proofs[e] = self._program(
                    self.group_of(e), e, taylor, at[e], u[e], step, e in settled
                )
            u[working] = self.scaling.project(u[working])
            shift = u - at
            hessian_u = np.stack([taylor.hessian(e) @ shift[e] for e in working])
            slope = taylor.slope[working] + hessian_u
            value = taylor.value[working] + np.sum(
                (taylor.slope[working] + slope) / 2 * shift[working], axis=1
            )
            gap = np.abs(
                relative_gap(
                    value, self.lower(working, u, value, slope, proofs), self.rounds[working]
                )
            )
            # Decisions on active cones are accurate to half the digits only, even if the gap is
            # small: tangents follow.
            polish = [
                e for e in working if step == 0 and e in self.group_of(e).constraint_curvature
            ]
            polish = polish if self.structure.quadratic.size else []
            keys, worst = self._violated(
                working, u, (gap > tolerance[working]) | np.isin(working, polish)
            )
            tangents = self.oracle.tangents(
                [key for e in working for key in keys[e]],
                np.asarray([u[e] for e in working for _ in keys[e]]).reshape(-1, self.scaling.size),
                [int(self.seeds[e]) for e in working for _ in keys[e]],
            )
            left, cursor = [], 0
            for e, one in zip(working, gap, strict=True):
                fresh = [
                    self.group_of(e).pool.add(t) for t in tangents[cursor : cursor + len(keys[e])]
                ]
                cursor += len(keys[e])
                excess[e] = max(worst[e], 0) * FEASIBLE
                # Steps with curvature may stand still at a kink; cutting planes then go on.
                idle[e] = 0 if any(fresh) or step < CURVATURE_STEPS else idle[e] + 1
                settled.discard(e)
                if worst[e] <= 1:
                    settled.add(e)
                if (worst[e] > 1 or one > tolerance[e] or e in polish) and idle[
                    e
                ] < TANGENT_PATIENCE:
                    left.append(e)
            working = left
            if not working:
                return

    def _program(
        self, group: _Group, e: int, taylor: Taylor, at: Array, u: Array, step: int, newest: bool
    ) -> tuple[Array, Proof]:
        """Solve one element's program, with cones at first, then with tangents, perhaps only the
        newest of each constraint."""
        curvature = taylor.hessian(e)
        slope = taylor.slope[e] - curvature @ at
        added = group.constraint_curvature.pop(e, None)
        if step == 0 and added is None and group.exact is not None:
            program = group.exact
        else:
            program = group.outer
            if added is not None and step < CURVATURE_STEPS:
                curvature, slope = curvature + added, slope - added @ u
        active = group.pool.active(int(self.rounds[e])) if self.varying else None
        if newest and added is not None and step < CURVATURE_STEPS:
            last = group.pool.newest()
            active = last if active is None else active & last
        try:
            minimiser = program.minimise(curvature, slope, active, thorough=step > 0)
        except Infeasible:
            self._explain(e)
        except Unbounded:
            raise ValueError(
                "loss: got losses unbounded below over the feasible set; expected a minimum"
            ) from None
        group.pool.mark_used(minimiser.cuts)
        weights, hessian = (
            self.weights(group.pool, minimiser, minimiser.cuts),
            group.pool.hessian(minimiser.cuts),
        )
        for i, multiplier in enumerate(minimiser.quadratics):
            bent = float(multiplier) / self.sizes[i] * self.structure.hessians[i]
            hessian = bent + (0 if hessian is None else hessian)
        own = max(1.0, float(np.abs(taylor.hessian(e)).max()))
        if hessian is not None and np.abs(hessian).max() < LARGEST_CURVATURE * own:
            group.constraint_curvature[e] = hessian
        return minimiser.u, Proof(minimiser, weights)

    def weights(self, pool: Pool, minimiser: ProvenMinimiser, cuts: Array) -> dict[Key, float]:
        """The multipliers of everything but rows, by constraint, given those of the pool's cuts."""
        weights = pool.weights(cuts)
        for i, multiplier in enumerate(minimiser.quadratics):
            key = int(self.structure.quadratic[i]), FIXED
            weights[key] = weights.get(key, 0.0) + float(multiplier) / self.sizes[i]
        return weights

    def lower(
        self, elements: list[int], u: Array, value: Array, slope: Array, proofs: Mapping[int, Proof]
    ) -> Array:
        """Lower bounds on the optimal mean losses, given value and gradient at points `u`; see
        `lower_bounds`."""
        chosen, seeds = [proofs[e] for e in elements], self.seeds[elements].tolist()
        enough = PROVEN * np.maximum(1 / self.rounds[elements], np.abs(value))
        return lower_bounds(self.oracle, seeds, u[elements], value, slope, chosen, enough)

    def _violated(
        self, elements: list[int], u: Array, unproven: Array
    ) -> tuple[dict[int, list[Key]], dict[int, float]]:
        """For each element: the constraints whose tangents should be added; the largest value in
        units of FEASIBLE."""
        keys: dict[int, list[Key]] = {e: [] for e in elements}
        straight = self.structure.predicted(u[elements])[0] / FEASIBLE
        worst = dict(zip(elements, straight.max(axis=1, initial=-np.inf).tolist(), strict=True))
        if not self.curved.size:
            return keys, worst
        if self.varying:
            mask = np.zeros(len(self.rounds), bool)
            mask[elements] = True
            blocks, when = worst_rounds(self.oracle.constraints, self.stream, self.ends, u, mask)
        else:
            fixed = self.oracle.values(u[elements])[:, self.curved]
        for i, e in enumerate(elements):
            values = blocks[e] if self.varying else fixed[i][None]
            if np.isnan(values).any():
                raise ValueError(
                    "constraints: got a value that is not a number inside the domain; expected "
                    "numbers"
                )
            worst[e] = max(worst[e], float(values.max()) / FEASIBLE)
            hits = np.argwhere(values > (-NEAR if unproven[i] else FEASIBLE))
            picked = sorted(((float(values[b, c]), b, c) for b, c in hits), reverse=True)
            keys[e] = [
                (int(self.curved[c]), int(when[e][b, c]) if self.varying else FIXED)
                for _, b, c in picked[:TANGENTS_AT_ONCE]
            ]
        return keys, worst

    def tighten(self, elements: list[int], u: Array) -> list[float]:
        """Add the tangents that the elements' points violate; returns their largest values in units
        of FEASIBLE."""
        keys, worst = self._violated(elements, u, np.zeros(len(elements), bool))
        for e in elements:
            points = np.repeat(u[e][None], len(keys[e]), axis=0)
            for tangent in self.oracle.tangents(
                keys[e], points, [int(self.seeds[e])] * len(keys[e])
            ):
                self.group_of(e).pool.add(tangent)
        return [worst[e] for e in elements]

    def with_planes(
        self, e: int, slopes: Array, offsets: Array
    ) -> tuple[Program, Array | None, Pool]:
        """The element's program with further cuts after those of its pool, and which of the cuts
        count."""
        group = self.group_of(e)
        program = (group.exact or group.outer).copy()
        cuts, cut_offsets = group.pool.arrays()
        program.set_cuts(np.vstack([cuts, slopes]), np.append(cut_offsets, offsets))
        active = group.pool.active(int(self.rounds[e])) if self.varying else None
        return (
            program,
            None if active is None else np.append(active, np.ones(len(offsets), bool)),
            group.pool,
        )

    def group_of(self, e: int) -> _Group:
        """The programs and cuts that the element uses."""
        return self.groups[int(self.seeds[e])] if self.varying else self.groups[0]

    def excess(self, u: Array) -> Array:
        """The constraints at each element's point, (element, constraint); of several rounds, the
        largest."""
        if not self.varying:
            return self.oracle.values(u)
        everyone = np.ones(len(self.rounds), bool)
        return worst_rounds(self.oracle.constraints, self.stream, self.ends, u, everyone)[0].max(
            axis=1
        )

    def worst(self, e: int, u: Array) -> tuple[Array, Array]:
        """The constraints of one element at `u` and their rounds, (block, constraint)."""
        if not self.varying:
            values = self.oracle.values(u[None])
            return values, np.full(values.shape, FIXED)
        mask = np.arange(len(self.rounds)) == e
        points = np.tile(u, (len(self.rounds), 1))
        values, rounds = worst_rounds(self.oracle.constraints, self.stream, self.ends, points, mask)
        return values[e], rounds[e]

    def mistaken(self, u: Array) -> Array:
        """Constraints whose values at the elements' points are not those of the affine or quadratic
        function assumed."""
        if self.varying:
            return np.zeros(0, int)
        structure, values = self.structure, self.oracle.values(u)
        wrong = np.zeros(structure.count, bool)
        for which, predicted in zip(
            (structure.affine, structure.quadratic), structure.predicted(u), strict=True
        ):
            wrong[which] = np.any(np.abs(values[:, which] - predicted) > FEASIBLE, axis=0)
        return np.flatnonzero(wrong)

    def multipliers(self, proof: Proof) -> Array:
        """One multiplier per constraint, in its unit; those of several rounds are added."""
        out = np.zeros(self.structure.count)
        out[self.structure.affine[self.row_of]] = proof.minimiser.rows / self.lengths
        for (i, _), weight in proof.weights.items():
            out[i] += weight
        return out

    def _explain(self, e: int) -> NoReturn:
        """Raise: no decision is feasible, if that can be proven; otherwise that it could not be
        decided."""
        least = least_violation(self, e, np.ones(self.structure.count))
        if least.bound > 0:
            self._refuse(e, self._in_the_users_units(e, least))
        self.refuse_no_interior(e, least)
        raise NotCertified(
            "not certified: the solver found none of the domain's decisions feasible, but that "
            f"could not be proven (max_i g_i >= {least.bound * self.units.max():.3g}); expected "
            "constraints that some decision satisfies with slack"
        )

    def _in_the_users_units(self, e: int, least: LeastViolation) -> LeastViolation:
        """The least violation without units, given the one in units, whose bound is positive."""
        largest, smallest = self.units.max(), self.units.min()
        if largest > smallest:
            plain = least_violation(self, e, largest / self.units)
            if plain.bound <= 0:  # units that differ too much for the solver
                violation = float((self.worst(e, least.u)[0] * self.units).max())
                return LeastViolation(least.u, violation, least.bound * smallest)
            least = plain
        return LeastViolation(least.u, least.violation * largest, least.bound * largest)

    def refuse_no_interior(self, e: int, least: LeastViolation | None = None) -> None:
        """Raise if no decision satisfies the constraints with slack, so that multipliers need not
        exist."""
        least = least or least_violation(self, e, np.ones(self.structure.count))
        if not (least.bound > -NO_INTERIOR and least.violation <= NO_INTERIOR):
            return
        shown = np.array2string(self.scaling.flat_decision(least.u), precision=6, threshold=8)
        unit = float(self.units.max())
        raise NoInterior(
            "constraints: got a feasible set without interior: max_i g_i(x) >= "
            f"{min(least.bound, 0.0) * unit:.2g} for all x of the domain, and max_i g_i <= "
            f"{least.violation * unit:.2g} at x = {shown}. "
            "Expected constraints that some decision satisfies with slack, because otherwise no "
            "multipliers need exist that prove a decision optimal. Relax them, as in g(x) <= "
            f"{1e-6 * unit:.2g}, or write a set that is a single point or a plane as affine "
            "equalities (g, -g)"
        )

    def _refuse(self, e: int, least: LeastViolation) -> NoReturn:
        decision = self.scaling.flat_decision(least.u).reshape(self.scaling.domain.shape)
        which = (int(self.rounds[e]), int(self.seeds[e])) if self.varying else (None, None)
        raise NoFeasibleDecision(decision, least.violation, least.bound, *which)


class LeastViolation(NamedTuple):
    """The least-violating point that was found, its largest constraint value, and a proven lower
    bound on that value."""

    u: Array
    violation: float
    bound: float


def least_violation(region: Region, e: int, weights: Array) -> LeastViolation:
    """Kelley's method for min over the domain of max_i g_i / w_i, with weights w (over all rounds
    of element `e`, if constraints change).

    The minimiser over the tangents known so far is where the next tangents are taken. Multipliers
    bound its value from below.
    """
    pool, program = region.group_of(e).pool, region.group_of(e).outer.copy()
    rows = weights[region.structure.affine[region.row_of]] / region.lengths
    best = LeastViolation(np.zeros(region.scaling.size), np.inf, -np.inf)
    for _ in range(VIOLATION_STEPS):
        program.set_cuts(*pool.arrays())
        active = pool.active(int(region.rounds[e])) if region.varying else None
        cuts = weights[[i for i, _ in pool.keys]] / np.asarray(pool.lengths)
        level = Level(rows, np.zeros(0), cuts)
        minimiser = program.least_violation(level, active)
        least = float(
            region.scaling.least_change(minimiser.slope[None], np.zeros((1, region.scaling.size)))[
                0
            ]
        )
        if minimiser.weight > 0:
            best = best._replace(
                bound=max(best.bound, (least - minimiser.offset) / minimiser.weight)
            )
        if not np.isfinite(minimiser.u).all():
            break
        u = region.scaling.project(minimiser.u[None])[0]
        violation, keys = _above(region, e, u, weights, best.bound)
        if violation < best.violation:
            best = best._replace(u=u, violation=violation)
        if best.violation - best.bound <= LEAST_VIOLATION * max(1.0, abs(best.violation)):
            break
        points = np.repeat(u[None], len(keys), axis=0)
        tangents = region.oracle.tangents(keys, points, [int(region.seeds[e])] * len(keys))
        if not any([pool.add(tangent) for tangent in tangents]):
            break
    return best


def _above(
    region: Region, e: int, u: Array, weights: Array, level: float
) -> tuple[float, list[Key]]:
    """The largest weighted value of the element's constraints at `u`, and the constraints above the
    level, largest first."""
    values, rounds = region.worst(e, u)
    values = values / weights
    order = np.argsort(values, axis=None)[::-1][:TANGENTS_AT_ONCE]
    picked = [np.unravel_index(int(i), values.shape) for i in order if values.flat[i] > level]
    return float(values.max()), [(int(i), int(rounds[block, i])) for block, i in picked]

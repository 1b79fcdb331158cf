"""The feasible set: minimises convex quadratics over it and turns multipliers into proofs.

Affine constraints are rows of the program, quadratic ones second-order cones. All others are
approximated by tangents, which are valid everywhere because constraints are convex: minimise over
the tangents known so far, add those that the minimiser violates, and add the curvature of the
active constraints to the next objective (sequential quadratic programming). Tangents also remove
the violation that remains after the conic solve. For polyhedra this is Kelley's method, which ends
after finitely many tangents; for smooth constraints it converges quadratically.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...engine import Array
from ...problem.feasibility import NoFeasibleDecision
from .objective import Blocks, Element, Taylor, relative_gap
from .program import Infeasible, Level, Program, ProvenMinimiser, Quadratic, Unbounded
from .result import NoInterior, NotCertified
from .scaling import FIXED, Key, ScaledConstraints, Tangent
from .structure import Structure, refuse_concave_constraints
from .tolerances import (
    CURVATURE_STEPS,
    FEASIBLE,
    HUGE,
    LARGEST_CURVATURE,
    LEAST_VIOLATION,
    NEAR,
    NEGLIGIBLE,
    NEGLIGIBLE_CURVATURE,
    NO_INTERIOR,
    PROVEN,
    TANGENT_PATIENCE,
    TANGENT_STEPS,
    TANGENTS_AT_ONCE,
    USED,
    VIOLATION_STEPS,
)


class Proof(NamedTuple):
    """What multipliers prove: minimiser.slope @ y <= minimiser.offset for all feasible y."""

    minimiser: ProvenMinimiser
    weights: dict[Key, float]
    """Multipliers of everything but rows, by constraint and round."""


class Minimum(NamedTuple):
    """The feasible minimiser of a polynomial."""

    u: Array
    excess: float
    """A bound on how far it is from feasible, because tangents were good enough."""
    proof: Proof
    curvature: Array | None
    """What the active constraints add to the curvature of the next polynomial; None if nothing."""


@dataclass(eq=False)
class Cut:
    """A tangent of unit length."""

    key: Key
    slope: Array
    offset: float
    length: float
    """By which the tangent was divided."""
    hessian: Array | None
    mark: tuple[Any, ...]
    """What two cuts that are the same up to rounding have in common."""
    used: int
    """The time at which it last had a multiplier."""


class Pool:
    """The cuts that are known."""

    def __init__(self, size: int) -> None:
        self.size, self.cuts, self.clock = size, list[Cut](), 0

    def add(self, tangent: Tangent) -> bool:
        """Keep a tangent, unless it is known already."""
        length = float(np.linalg.norm(tangent.slope))
        if length == 0:
            if tangent.offset >= 0:
                return False
            length = 1.0  # 0 @ u <= -value: no point satisfies it, and the solver will say so
        slope, offset = tangent.slope / length, tangent.offset / length
        mark = (tangent.key, *np.round(np.append(slope, offset), 12).tolist())
        for cut in self.cuts:
            if cut.mark == mark:
                return False
        hessian = None if tangent.hessian is None else tangent.hessian / length
        self.cuts.append(Cut(tangent.key, slope, offset, length, hessian, mark, self.clock))
        return True

    def rows(self) -> tuple[Array, Array]:
        """Slopes and offsets of all cuts."""
        slopes = np.zeros((len(self.cuts), self.size))
        offsets = np.zeros(len(self.cuts))
        for i, cut in enumerate(self.cuts):
            slopes[i], offsets[i] = cut.slope, cut.offset
        return slopes, offsets

    def active(self, rounds: int, newest: bool = False) -> Array | None:
        """Which cuts belong to the first `rounds` rounds, or are the last ones of their constraint
        and round among these; None means all."""
        active, last = np.zeros(len(self.cuts), bool), dict[Key, int]()
        for i, cut in enumerate(self.cuts):
            active[i] = cut.key[1] < rounds
            if newest and cut.key in last:
                active[last[cut.key]] = False
            last[cut.key] = i
        return None if active.all() else active

    def mark_used(self, multipliers: Array) -> None:
        """Note which cuts have multipliers."""
        for i in np.flatnonzero(multipliers > USED * multipliers.max(initial=0)):
            self.cuts[i].used = self.clock

    def prune(self, limit: int) -> None:
        """Drop the cuts that were used longest ago until `limit` are left."""
        self.clock += 1
        if len(self.cuts) > limit:
            used = np.array([cut.used for cut in self.cuts])
            self.cuts = [self.cuts[i] for i in np.sort(np.argsort(used, kind="stable")[-limit:])]


class Region:
    """The feasible decisions of each element."""

    def __init__(
        self, constraints: ScaledConstraints, structure: Structure, blocks: Blocks
    ) -> None:
        self.constraints, self.scaling, self.structure = constraints, constraints.scaling, structure
        self.blocks = blocks
        self.varying = constraints.takes_data
        self.units = np.broadcast_to(np.asarray(self.scaling.units), (structure.count,))
        self._lay_out()

    def demote(self, wrong: Array) -> None:
        """Approximate the constraints `wrong` by their tangents only from now on."""
        self.structure = self.structure.without(wrong)
        self._lay_out()

    def _lay_out(self) -> None:
        """State the program with quadratic constraints as cones (`exact`, None if there are none)
        and with tangents instead (`outer`). Elements with the same constraints share tangents."""
        structure, scaling = self.structure, self.scaling
        affine, quadratic, hessians = structure.affine, structure.quadratic, structure.hessians
        slopes, values = structure.linear[affine], structure.constant[affine]
        lengths = np.linalg.norm(slopes, axis=1)
        flat = (lengths == 0) & (values > FEASIBLE)
        if flat.any():
            least = float((values * self.units[affine])[flat].max())
            nowhere = LeastViolation(np.zeros(scaling.size), least, least)
            self._refuse(Element(0, self.blocks.ends[0]), nowhere)
        self.row_of = np.flatnonzero(lengths > 0)
        self.lengths = lengths[self.row_of]
        rows = slopes[self.row_of] / self.lengths[:, None]
        offsets = -values[self.row_of] / self.lengths
        linear = structure.linear[quadratic]
        self.sizes = np.linalg.norm(linear, axis=1) + np.abs(hessians).max(axis=(1, 2), initial=0)
        refuse_concave_constraints(quadratic, hessians, self.sizes, scaling)
        quadratics = []
        for i, size in enumerate(self.sizes):
            constant = float(structure.constant[quadratic[i]] / size)
            quadratics.append(Quadratic(hessians[i] / size, linear[i] / size, constant))
        self.curved = np.union1d(structure.quadratic, structure.others).astype(int)
        self.outer = Program(scaling, rows, offsets, [])
        self.exact = Program(scaling, rows, offsets, quadratics) if quadratics else None
        self._pools: dict[int, Pool] = {}

    def pool_of(self, element: Element) -> Pool:
        """The tangents that are known for an element."""
        seed = element.seed if self.varying else 0
        return self._pools.setdefault(seed, Pool(self.scaling.size))

    def minimise(
        self,
        element: Element,
        taylor: Taylor,
        at: Array,
        tolerance: float,
        curvature: Array | None = None,
    ) -> Minimum:
        """The feasible minimiser of a polynomial, by sequential quadratic programming.

        Arguments:
            element: whose constraints hold.
            taylor: the polynomial, expanded at `at`.
            at: a point.
            tolerance: the relative gap to aim at in the polynomial; the caller must check the
                proof.
            curvature: of the active constraints at `at`, if it is known.
        """
        pool, u, idle, feasible = self.pool_of(element), at, 0, False
        for step in range(TANGENT_STEPS):
            pool.prune(40 * self.scaling.size + 400)
            program = self.exact if step == 0 and curvature is None and self.exact else self.outer
            hessian, slope = taylor.curvature, taylor.slope - taylor.curvature @ at
            bent = curvature is not None and step < CURVATURE_STEPS
            if curvature is not None and bent:
                hessian, slope = hessian + curvature, slope - curvature @ u
            # Feasible, but not proven: older tangents, nearly parallel to the newest, spoil
            # multipliers.
            active = pool.active(element.rounds, newest=bent and feasible)
            minimiser = self._solved(element, program, hessian, slope, active, step > 0)
            curvature = self._curvature(pool, minimiser, taylor)
            proof = self.proof(pool, minimiser, minimiser.cuts)
            u = self.scaling.project(minimiser.u[None])[0]
            here = taylor.at(u - at)
            lower = self.lower(element, u, here.value, here.slope, proof)
            proven = abs(relative_gap(here.value, lower, element.rounds)) <= tolerance
            # Decisions on active cones are accurate to half the digits only, even if the gap is
            # small: tangents follow.
            polish = step == 0 and curvature is not None and self.structure.quadratic.size > 0
            worst, keys = self._violated(element, u, FEASIBLE if proven and not polish else -NEAR)
            fresh = self._add(pool, element, keys, u)
            # Steps with curvature may stand still at a kink; cutting planes then go on.
            idle = 0 if fresh or step < CURVATURE_STEPS else idle + 1
            feasible = worst <= FEASIBLE
            if (feasible and proven and not polish) or idle >= TANGENT_PATIENCE:
                break
        return Minimum(u, max(worst, 0.0), proof, curvature)

    def _solved(
        self,
        element: Element,
        program: Program,
        curvature: Array,
        slope: Array,
        active: Array | None,
        thorough: bool,
    ) -> ProvenMinimiser:
        """The minimiser of a program with the element's tangents; see `Program.minimise`."""
        pool = self.pool_of(element)
        program.set_cuts(*pool.rows())
        try:
            minimiser = program.minimise(curvature, slope, active, thorough)
        except Infeasible:
            self._explain(element)
        except Unbounded:
            raise ValueError(
                "loss: got losses unbounded below over the feasible set; expected a minimum"
            ) from None
        pool.mark_used(minimiser.cuts)
        return minimiser

    def _curvature(self, pool: Pool, minimiser: ProvenMinimiser, taylor: Taylor) -> Array | None:
        """The weighted curvature of the active constraints; None if there is none, or if it comes
        from multipliers that do not exist."""
        parts = [
            float(multiplier) / size * hessian
            for multiplier, size, hessian in zip(
                minimiser.quadratics, self.sizes, self.structure.hessians, strict=False
            )
        ]
        used = NEGLIGIBLE_CURVATURE * minimiser.cuts.max(initial=0)
        for multiplier, cut in zip(minimiser.cuts, pool.cuts, strict=True):
            if multiplier > used and cut.hessian is not None:
                parts.append(np.clip(multiplier * cut.hessian, -HUGE, HUGE))
        if not parts:
            return None
        curvature = np.sum(parts, axis=0)
        largest = LARGEST_CURVATURE * max(1.0, float(np.abs(taylor.curvature).max()))
        return curvature if np.abs(curvature).max() < largest else None

    def proof(self, pool: Pool, minimiser: ProvenMinimiser, cuts: Array) -> Proof:
        """The minimiser with its multipliers by constraint, given those of the pool's cuts."""
        weights: dict[Key, float] = {}
        for i in np.flatnonzero(cuts).tolist():
            key, length = pool.cuts[i].key, pool.cuts[i].length
            weights[key] = weights.get(key, 0.0) + float(cuts[i]) / length
        for i, multiplier in enumerate(minimiser.quadratics):
            key = int(self.structure.quadratic[i]), FIXED
            weights[key] = weights.get(key, 0.0) + float(multiplier) / self.sizes[i]
        return Proof(minimiser, weights)

    def lower(self, element: Element, u: Array, value: float, slope: Array, proof: Proof) -> float:
        r"""A lower bound on a convex function over the feasible set, from its value and gradient at
        `u`.

        For every feasible y, with p @ y <= o proven by multipliers: f(y) >= f(u) + <f'(u), y - u> +
        (p @ y - o), which is affine in y and minimised over the domain. The tangents that p is made
        of may touch elsewhere than at u; if the bound is not close to the value, new ones that
        touch at u are tried with the same multipliers.
        """
        minimiser, weights = proof

        def bound(plane: Array, offset: float) -> float:
            with np.errstate(over="ignore", invalid="ignore"):  # endless multipliers prove nothing
                least = self.scaling.least_change((slope + plane)[None], u[None])[0]
                low = float(value + plane @ u - offset + least)
            return -np.inf if np.isnan(low) else low

        best = bound(minimiser.slope, minimiser.offset)
        if abs(value - best) <= PROVEN * max(1 / element.rounds, abs(value)):
            return best
        negligible = NEGLIGIBLE * max(weights.values(), default=0.0)
        keys = [key for key, weight in weights.items() if weight > negligible]
        if not keys:
            return best
        plane, offset = minimiser.row_slope, minimiser.row_offset
        for tangent in self.constraints.tangents(keys, u, self.blocks.stream, element.seed):
            plane = plane + weights[tangent.key] * tangent.slope
            offset = offset + weights[tangent.key] * tangent.offset
        return max(best, bound(plane, offset))

    def _violated(self, element: Element, u: Array, level: float) -> tuple[float, list[Key]]:
        """The largest constraint value, and the constraints that are not rows and above `level`,
        largest first."""
        affine = self.structure.predicted(u)[self.structure.affine]
        worst = float(affine.max(initial=-np.inf))
        if not self.curved.size:
            return worst, []
        values, rounds = self.worst(element, u)
        values, rounds = values[:, self.curved], rounds[:, self.curved]
        if np.isnan(values).any():
            raise ValueError(
                "constraints: got a value that is not a number inside the domain; expected numbers"
            )
        order = np.argsort(-values, axis=None, kind="stable")[:TANGENTS_AT_ONCE]
        places = [np.unravel_index(i, values.shape) for i in order if values.flat[i] > level]
        keys = [(int(self.curved[c]), int(rounds[b, c])) for b, c in places]
        return max(worst, float(values.max())), keys

    def _add(self, pool: Pool, element: Element, keys: list[Key], u: Array) -> bool:
        """Add the tangents of these constraints at `u`; returns whether one of them is new."""
        tangents = self.constraints.tangents(keys, u, self.blocks.stream, element.seed)
        return any([pool.add(tangent) for tangent in tangents])

    def tighten(self, element: Element, u: Array) -> float:
        """Add the tangents that `u` violates; returns the largest constraint value."""
        worst, keys = self._violated(element, u, FEASIBLE)
        self._add(self.pool_of(element), element, keys, u)
        return worst

    def worst(self, element: Element, u: Array) -> tuple[Array, Array]:
        """The constraints at `u` and their rounds, (block, constraint); of each block the largest
        values."""
        if not self.varying:
            values = self.constraints.values(u)[None]
            return values, np.full(values.shape, FIXED)
        parts = [self.constraints.worst(u, block) for block in self.blocks.of(element)]
        return np.stack([highest for highest, _ in parts]), np.stack([at for _, at in parts])

    def mistaken(self, u: Array) -> Array:
        """Constraints whose values at `u` are not those of the affine or quadratic function
        assumed."""
        if self.varying:
            return np.zeros(0, int)
        wrong = np.abs(self.constraints.values(u) - self.structure.predicted(u)) > FEASIBLE
        wrong[self.structure.others] = False
        return np.flatnonzero(wrong)

    def multipliers(self, proof: Proof | None) -> Array:
        """One multiplier per constraint, in its unit; those of several rounds are added."""
        out = np.zeros(self.structure.count)
        if proof is not None:
            out[self.structure.affine[self.row_of]] = proof.minimiser.rows / self.lengths
            for (i, _), weight in proof.weights.items():
                out[i] += weight
        return out

    def _explain(self, element: Element) -> NoReturn:
        """Raise: no decision is feasible, if that can be proven; otherwise that it could not be
        decided."""
        least = self._least_violation(element, np.ones(self.structure.count))
        if least.bound > 0:
            self._refuse(element, self._in_the_users_units(element, least))
        self.refuse_no_interior(element, least)
        raise NotCertified(
            "not certified: the solver found none of the domain's decisions feasible, but that "
            f"could not be proven (max_i g_i >= {least.bound * self.units.max():.3g}); expected "
            "constraints that some decision satisfies with slack"
        )

    def _in_the_users_units(self, element: Element, least: LeastViolation) -> LeastViolation:
        """The least violation without units, given the one in units, whose bound is positive."""
        largest, smallest = self.units.max(), self.units.min()
        if largest > smallest:
            plain = self._least_violation(element, largest / self.units)
            if plain.bound <= 0:  # units that differ too much for the solver
                violation = float((self.worst(element, least.u)[0] * self.units).max())
                return LeastViolation(least.u, violation, least.bound * smallest)
            least = plain
        return LeastViolation(least.u, least.violation * largest, least.bound * largest)

    def refuse_no_interior(self, element: Element, least: LeastViolation | None = None) -> None:
        """Raise if no decision satisfies the constraints with slack, so that multipliers need not
        exist."""
        least = least or self._least_violation(element, np.ones(self.structure.count))
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

    def _refuse(self, element: Element, least: LeastViolation) -> NoReturn:
        decision = self.scaling.flat_decision(least.u).reshape(self.scaling.domain.shape)
        which = (element.rounds, element.seed) if self.varying else (None, None)
        raise NoFeasibleDecision(decision, least.violation, least.bound, *which)

    def _least_violation(self, element: Element, weights: Array) -> LeastViolation:
        """Kelley's method for min over the domain of max_i g_i / w_i, with weights w (over all
        rounds of the element, if constraints change).

        The minimiser over the tangents known so far is where the next tangents are taken.
        Multipliers bound its value from below.
        """
        pool = self.pool_of(element)
        rows = weights[self.structure.affine[self.row_of]] / self.lengths
        best = LeastViolation(np.zeros(self.scaling.size), np.inf, -np.inf)
        for _ in range(VIOLATION_STEPS):
            self.outer.set_cuts(*pool.rows())
            cuts = np.array([weights[cut.key[0]] / cut.length for cut in pool.cuts], float)
            level = Level(rows, cuts)
            minimiser = self.outer.least_violation(level, pool.active(element.rounds))
            least = self.scaling.least_change(minimiser.slope[None], np.zeros_like(best.u)[None])[0]
            if minimiser.weight > 0:
                bound = float(least - minimiser.offset) / minimiser.weight
                best = best._replace(bound=max(best.bound, bound))
            if not np.isfinite(minimiser.u).all():
                break
            u = self.scaling.project(minimiser.u[None])[0]
            values, rounds = self.worst(element, u)
            values = values / weights
            if values.max() < best.violation:
                best = best._replace(u=u, violation=float(values.max()))
            if best.violation - best.bound <= LEAST_VIOLATION * max(1.0, abs(best.violation)):
                break
            order = np.argsort(values, axis=None)[::-1][:TANGENTS_AT_ONCE]
            places = [np.unravel_index(i, values.shape) for i in order]
            above = [(int(i), int(rounds[b, i])) for b, i in places if values[b, i] > best.bound]
            if not self._add(pool, element, above, u):
                break
        return best


class LeastViolation(NamedTuple):
    """The least-violating point that was found, its largest constraint value, and a proven lower
    bound on that value."""

    u: Array
    violation: float
    bound: float

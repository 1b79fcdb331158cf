"""The smallest value of a small quadratic program as a CVXPY atom, which taut compiles and bounds.

The caps of `interior_point` must be at least as large as the multipliers of the program at some
solution, for all decisions and data. Solutions of a quadratic program solve the linear program with
the costs c + Pw, so that vertices of {v : W'v = -(c + Pw), v_I >= 0} are multipliers. Each is
-B'(c + Pw), where B inverts independent rows of W; all such rows are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from cvxpy.atoms.atom import Atom
from scipy.optimize import linprog

from ...engine import Array
from ...intervals.arithmetic import last, reduced
from ...intervals.enclosure import Enclosure, Interval, result
from ...intervals.pieces import Unknown
from ...problem.conic import Columns, Solver, linear_cones
from .interior_point import minimum

if TYPE_CHECKING:
    from ..translation.parameters import Range
    from ..translation.statement import Statement


BASES = 50_000
"""The largest number of sets of rows that are looked at."""
ROOM = 1e-6
"""Bounds that a solver found are widened by this share."""


class Inner:
    """The constants of a program. `matrix` has independent equations first, then at least one
    limit.

    `names` are those of its variables, for messages.
    """

    def __init__(self, quadratic: Array, matrix: Array, equations: int, names: str) -> None:
        self.quadratic, self.matrix = quadratic, matrix
        self.equations, self.names = equations, names
        self.caps: Array | None = None
        self._low, self._high = np.zeros(0), np.zeros(0)  # bounds on c + Pw
        self._solver: Solver | None = None
        self._slopes: dict[bytes, tuple[Array, Array]] = {}
        self._minimum: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what cannot be copied."""
        return self.__dict__ | {"_solver": None, "_minimum": None}

    def minimum(self, rows: jax.Array, costs: jax.Array) -> jax.Array:
        """The smallest value for right-hand sides and costs, traced once per type of numbers."""
        if self._minimum is None:
            self._minimum = jax.jit(partial(minimum, self))
        return cast(jax.Array, self._minimum(rows, costs))

    def prepare(self, low: Array, high: Array) -> None:
        """Find the caps for all right-hand sides, then costs, between `low` and `high`."""
        rows = len(self.matrix)
        lower, upper = low[rows:].copy(), high[rows:].copy()
        curved = np.flatnonzero(np.any(self.quadratic, axis=1))
        least = np.array([self._least(k, 1.0, low, high) for k in curved.tolist()])
        most = -np.array([self._least(k, -1.0, low, high) for k in curved.tolist()])
        part = self.quadratic[np.ix_(curved, curved)]
        lower[curved] += np.maximum(part, 0) @ least + np.minimum(part, 0) @ most
        upper[curved] += np.maximum(part, 0) @ most + np.minimum(part, 0) @ least
        self._low, self._high = lower, upper
        caps = self._largest_multipliers()
        self._minimum, self._slopes = None, {}
        self.caps = np.maximum(caps, 1e-3 * (caps.max() or 1.0)) * (1 + ROOM)

    def _largest_multipliers(self) -> Array:
        """Upper bounds on the multipliers of the limits at all vertices, for all c + Pw between
        bounds.

        At a vertex, multipliers other than zero belong to independent rows. These are all equations
        and some of the limits.
        """
        p, m = self.equations, len(self.matrix) - self.equations
        active = [k for k in range(p) if np.any(self.matrix[k])]
        rank = int(np.linalg.matrix_rank(self.matrix))
        choose = rank - len(active)
        if comb(m, choose) > BASES:
            raise ValueError(
                f"recourse: got {self.names}, whose program has {m} limits on {rank} variables in "
                "one round; expected fewer"
            )
        picked = np.array(list(combinations(range(p, p + m), choose)), int).reshape(
            comb(m, choose), choose
        )
        bases = np.concatenate([np.tile(active, (len(picked), 1)).astype(int), picked], axis=1)
        middle, room = (self._low + self._high) / 2, (self._high - self._low) / 2
        caps = np.zeros(m)
        for some in np.array_split(bases, max(1, len(bases) // 5000)):
            rows = self.matrix[some]
            sizes = np.linalg.svd(rows, compute_uv=False)
            regular = sizes[:, -1] > 1e-9 * sizes[:, 0] if rank else np.ones(len(rows), bool)
            inverse = np.linalg.pinv(rows[regular])  # (basis, entry, row)
            most = -(middle @ inverse) + room @ np.abs(inverse)
            limits = most[:, len(active) :]
            # A multiplier that is always below zero excludes the basis.
            able = np.all(limits >= -1e-9, axis=1)
            np.maximum.at(caps, some[regular][able][:, len(active) :] - p, limits[able])
        return caps

    def _least(self, k: int, sign: float, low: Array, high: Array) -> float:
        """A lower bound on the k-th entry of w times the sign, at solutions for all right-hand
        sides and costs between bounds.

        If the constraints do not bound it, a solution satisfies one of the limits in which the
        entry is with equality, or the loss is stationary in it.
        """
        rows, n = self.matrix.shape
        p = self.equations
        goal = np.zeros(2 * n + rows)  # w, right-hand sides, costs
        goal[k] = sign
        rows_and_data = np.concatenate([self.matrix, np.eye(rows), np.zeros((rows, n))], axis=1)
        box = [(None, None)] * n + list(zip(low, high, strict=True))

        def solved(more: Array) -> Any:
            equal = np.concatenate([rows_and_data[:p], more])
            return linprog(
                goal, rows_and_data[p:], np.zeros(rows - p), equal, np.zeros(len(equal)), bounds=box
            )

        solutions = [solved(np.zeros((0, len(goal))))]
        if solutions[0].status == 3 and not np.any(self.matrix[:p, k]):
            flat = np.concatenate([self.quadratic[k], np.zeros(rows), np.identity(n)[k]])
            cases = [flat, *(rows_and_data[i] for i in range(p, rows) if self.matrix[i, k])]
            solutions = [solution for case in cases if (solution := solved(case[None])).status != 2]
        if not solutions or any(solution.status != 0 for solution in solutions):
            raise ValueError(
                f"recourse: got squares or costs with data of {self.names}, which the constraints "
                "do not bound; expected bounds= for these variables"
            )
        value = min(float(solution.fun) for solution in solutions)
        return value - ROOM * (1 + abs(value))

    def reach(self, low: Array, high: Array, entries: Array) -> Array:
        """Bounds on the absolute values of these entries of the solution."""
        edges = [[self._least(int(k), sign, low, high) for sign in (1.0, -1.0)] for k in entries]
        return np.abs(np.array(edges).reshape(-1, 2)).max(axis=1, initial=0)

    def slopes(self, turn: Array) -> tuple[Array, Array]:
        """Bounds on the entries of v'turn, (entry,), for all multipliers v below the caps."""
        key = turn.tobytes()
        if key not in self._slopes:
            n, p = self.matrix.shape[1], self.equations
            assert self.caps is not None
            equal = np.concatenate([self.matrix.T, np.eye(n)], axis=1)
            free = [(None, None) if np.any(row) else (0, 0) for row in self.matrix[:p]]
            costs = zip(self._low, self._high, strict=True)
            box = [*free, *((0, cap) for cap in self.caps), *costs]
            edges = np.zeros((2, turn.shape[1]))
            for j in np.flatnonzero(np.any(turn, axis=0)):
                for k, sign in enumerate((1.0, -1.0)):
                    goal = np.append(sign * turn[:, j], np.zeros(n))
                    solution = linprog(goal, A_eq=equal, b_eq=np.zeros(n), bounds=box)
                    edges[k, j] = sign * solution.fun if solution.status == 0 else -sign * np.inf
            room = ROOM * (1 + np.abs(edges))
            self._slopes[key] = edges[0] - room[0], edges[1] + room[1]
        return self._slopes[key]

    def value(self, rows: Array, costs: Array) -> float:
        """The smallest value, by Clarabel."""
        count, n = self.matrix.shape
        p, m = self.equations, count - self.equations
        assert self.caps is not None
        if self._solver is None:
            slack, none = -np.eye(m), np.zeros((m, n))
            matrix = np.block(
                [[self.matrix[:p], np.zeros((p, m))], [self.matrix[p:], slack], [none, slack]]
            )
            self._solver = Solver(Columns.of(matrix), linear_cones(p, 2 * m))
        slope, offsets = np.append(costs, self.caps), np.append(-rows, np.zeros(m))
        solutions = self._solver.solutions(self.quadratic, slope, offsets)
        best = min(solutions, key=lambda solution: solution.error)
        w = best.v[:n]
        return float(0.5 * w @ self.quadratic @ w + slope @ best.v)


class InnerMinimum(Atom):  # type: ignore[misc]
    """The sum over b of min {1/2 w'Pw + c_b'w : A w + a_b = 0, G w + h_b <= 0}, convex in a and h.

    Where no w is feasible, the value is that of the program in which violations of limits cost the
    largest multipliers, see `interior_point`.

    Arguments:
        equations: a, (b, row).
        limits: h, (b, row).
        costs: c, (b, entry), without variables.
        inner: the constants P, A and G.
    """

    def __init__(self, equations: Any, limits: Any, costs: Any, inner: Inner) -> None:
        self.inner = inner
        super().__init__(equations, limits, costs)

    def shape_from_args(self) -> tuple[int, ...]:
        """A number."""
        return ()

    def sign_from_args(self) -> tuple[bool, bool]:
        """Unknown."""
        return (False, False)

    def is_atom_convex(self) -> bool:
        """Convex in the right-hand sides."""
        return not self.args[2].variables()

    def is_atom_concave(self) -> bool:
        """Not concave."""
        return False

    def is_incr(self, idx: int) -> bool:
        """A tighter limit cannot make the minimum smaller."""
        return idx == 1

    def is_decr(self, idx: int) -> bool:
        """Not decreasing."""
        return False

    def get_data(self) -> list[Any]:
        """What copies are made with."""
        return [self.inner]

    def name(self) -> str:
        """How messages call it."""
        return f"best choice of {self.inner.names}"

    def numeric(self, values: list[Any]) -> Any:
        """The value."""
        equations, limits, costs = (np.asarray(value, float) for value in values)
        rows = np.concatenate([equations, limits], axis=1)
        return np.asarray(sum(self.inner.value(r, c) for r, c in zip(rows, costs, strict=True)))

    def _grad(self, values: list[Any]) -> list[Any]:
        """Not needed: everybody differentiates `jax_operation`."""
        return [None] * len(values)

    def _domain(self) -> list[Any]:
        return []

    def jax_operation(self) -> Any:
        """The value as a JAX function of the arguments."""

        def best(a: jax.Array, h: jax.Array, c: jax.Array) -> jax.Array:
            return self.inner.minimum(jnp.concatenate([a, h]), c)

        all_best = jax.vmap(best)

        def value(*args: jax.Array) -> jax.Array:
            dtype = jnp.result_type(float, *args)
            return jnp.sum(all_best(*(jnp.asarray(part, dtype) for part in args)))

        return value

    def interval_rule(self, *of: Enclosure) -> Enclosure:
        """Bounds on the value and its gradient, from bounds on the arguments."""
        return _bounds(self.inner, *of)


def _edges(of: Sequence[Enclosure]) -> tuple[Array, Array]:
    """Bounds on right-hand sides and costs, (b, entry)."""
    count = len(of[1].low)
    low, high = (
        np.concatenate([part.reshape(count, -1) for part in parts], axis=1)
        for parts in ([u.low for u in of], [u.high for u in of])
    )
    return low, high


def _bounds(inner: Inner, equations: Enclosure, limits: Enclosure, costs: Enclosure) -> Enclosure:
    low, high = _edges((equations, limits, costs))
    count, rows = len(limits.low), len(inner.matrix)
    middle, room = (low + high) / 2, (high - low) / 2
    least, most = inner.slopes(np.eye(rows))  # bounds on the multipliers
    slope = np.maximum(np.abs(least), np.abs(most))
    value = sum(inner.value(data[:rows], data[rows:]) for data in middle)
    moving = np.flatnonzero(np.any(room[:, rows:] > 0, axis=0))
    far = inner.reach(low.min(axis=0), high.max(axis=0), moving)
    reach = float(np.sum(room[:, :rows] @ slope) + np.sum(room[:, rows + moving] @ far)) + 1e-9 * (
        1 + abs(value)
    )
    if costs.moves:
        raise Unknown("costs that depend on the decision have no bound")
    around = Interval(np.asarray(value - reach), np.asarray(value + reach))
    gradients = [equations.gradient, limits.gradient]
    # Affine right-hand sides.
    if all(gradient is not None and gradient.known for gradient in gradients):
        turns = np.concatenate(
            [
                gradient.low.reshape(count, -1, gradient.low.shape[-1])
                for gradient in gradients
                if gradient
            ],
            axis=1,
        )
        ends = [Interval(*inner.slopes(turn)) for turn in turns]
        return result((equations, limits), around, around, sum(ends[1:], ends[0]))
    p = inner.equations
    parts = (equations, least[:p], most[:p]), (limits, least[p:], most[p:])
    terms = [
        (last(enclosure, None), Interval(np.tile(low, count), np.tile(high, count)))
        for enclosure, low, high in parts
    ]
    return reduced(around, around, np.inf, *terms)


def bound_multipliers(statement: Statement, known: Range) -> None:
    """Bound the multipliers of all programs in the loss, for all decisions and data."""
    from ..constants.enclosures import enclosures

    bounds = enclosures(statement, known.box)
    queue = [statement.objective]
    while queue:
        atom = queue.pop()
        queue += atom.args
        if not isinstance(atom, InnerMinimum):
            continue
        without_bounds = statement.guessed(atom.args, known)
        if without_bounds:
            raise ValueError(
                f"parameters: got {', '.join(without_bounds)} without bounds; expected bounds, "
                f"because the choice of {atom.inner.names} depends on them"
            )
        try:
            least, most = _edges([bounds.of(argument) for argument in atom.args])
        except Unknown:
            raise ValueError(
                f"recourse: got {atom.inner.names}, whose constraints contain an expression of "
                "the decision without a known bound; expected affine expressions"
            ) from None
        atom.inner.prepare(least.min(axis=0), most.max(axis=0))

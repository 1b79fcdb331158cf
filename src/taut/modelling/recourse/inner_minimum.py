"""The smallest value of a small quadratic program as a CVXPY atom: CVXPY can solve it, taut can
compile and bound it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
from cvxpy.atoms.atom import Atom
from cvxpy.reductions.dcp2cone.canonicalizers import CANON_METHODS
from cvxpy.utilities import scopes
from scipy import sparse

from ...engine import Array, double_precision
from ...intervals.arithmetic import last, reduced
from ...intervals.enclosure import Enclosure, Interval, Unknown, result
from .inner import Inner
from .interior_point import solve

if TYPE_CHECKING:
    from ...problem.domains import Domain
    from ..translation.statement import Statement

__all__ = ["InnerMinimum", "prepare", "solves_programs"]


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
        """Convex in the right-hand sides. CVXPY's rules for parameters count them as variables."""
        costs = self.args[2]
        return bool(costs.is_affine()) if scopes.dpp_scope_active() else not costs.variables()

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
        equations, limits, costs = (jnp.asarray(value, float) for value in values)
        with double_precision():
            solution = jax.vmap(lambda r, c: solve(self.inner.program, r, c))(
                jnp.hstack([equations, limits]), costs
            )
        p = self.inner.equations
        slopes = (solution.multipliers[:, :p], solution.multipliers[:, p:], solution.point)
        return [sparse.csc_matrix(np.ravel(slope, order="F")[:, None]) for slope in slopes]

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


def _canonical(atom: Any, args: list[Any], solver_context: Any = None) -> tuple[Any, list[Any]]:
    """The program itself, for CVXPY's solvers."""
    equations, limits, costs = args
    program = atom.inner.program
    p = program.equations
    w, excess = cp.Variable((limits.shape[0], program.matrix.shape[1])), cp.Variable(limits.shape)
    rows = [equations + w @ program.matrix[:p].T == 0] if p else []
    rows += [limits + w @ program.matrix[p:].T <= excess, excess >= 0]
    value = cp.sum(cp.multiply(costs, w)) + cp.sum(excess @ program.caps)
    values, vectors = np.linalg.eigh(program.quadratic)
    root = (vectors * np.sqrt(np.maximum(values, 0) / 2))[
        :, values > 1e-13 * max(values.max(), 1e-300)
    ]
    if not root.shape[1]:
        return value, rows
    level = cp.Variable()
    flat = cp.vec(w @ root, order="F")
    return value + level, [*rows, cp.SOC(level + 1, cp.hstack([level - 1, 2 * flat]))]


CANON_METHODS[InnerMinimum] = _canonical


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
    value = sum(inner.value(one[:rows], one[rows:]) for one in middle)
    moving = np.flatnonzero(np.any(room[:, rows:] > 0, axis=0))
    far = inner.reach(low.min(axis=0), high.max(axis=0), moving)
    reach = float(np.sum(room[:, :rows] @ slope) + np.sum(room[:, rows + moving] @ far)) + 1e-9 * (
        1 + abs(value)
    )
    if costs.moves:
        raise Unknown("costs that depend on the decision have no bound")
    around = Interval(np.asarray(value - reach), np.asarray(value + reach))
    gradients = [equations.gradient, limits.gradient]
    if all(one is not None and one.known for one in gradients):  # affine right-hand sides
        turns = np.concatenate(
            [one.low.reshape(count, -1, one.low.shape[-1]) for one in gradients if one], axis=1
        )
        ends = [Interval(*inner.slopes(turn)) for turn in turns]
        return result((equations, limits), around, around, sum(ends[1:], ends[0]))
    p = inner.equations
    parts = (equations, least[:p], most[:p]), (limits, least[p:], most[p:])
    terms = [
        (last(one, None), Interval(np.tile(low, count), np.tile(high, count)))
        for one, low, high in parts
    ]
    return reduced(around, around, np.inf, *terms)


def _programs(expression: Any) -> list[InnerMinimum]:
    queue, programs = [expression], list[InnerMinimum]()
    while queue:
        node = queue.pop()
        if isinstance(node, InnerMinimum):
            programs.append(node)
        queue += node.args
    return programs


def solves_programs(expression: Any) -> bool:
    """Whether an expression contains programs that are solved."""
    return bool(_programs(expression))


def prepare(statement: Statement, domain: Domain) -> None:
    """Bound the multipliers of all programs in the loss, for all decisions of the domain and all
    data."""
    from ..constants.enclosures import edges_of, enclosures
    from ..translation.parameters import parameter_range

    atoms = _programs(statement.objective)
    if not atoms:
        return
    known = parameter_range(statement, domain)
    bounds = enclosures(statement, edges_of(statement, domain, known))
    for atom in atoms:
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

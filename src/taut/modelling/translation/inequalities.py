"""CVXPY constraints and variable attributes as expressions that must not exceed zero."""

from __future__ import annotations

from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.constraints.nonpos import Inequality, NonNeg, NonPos
from cvxpy.constraints.zero import Equality, Zero

from ...problem.domains import Domain
from ...problem.domains.support import bounding_box
from .attributes import is_symmetric, limits, mirrored, pattern

__all__ = ["Excess", "attribute_constraints", "excesses", "excesses_of"]


class Excess(NamedTuple):
    """An expression that must not exceed zero, or must equal zero. An equality is played as two
    inequalities."""

    expression: Any
    equality: bool = False
    label: str = "constraint"
    """The name of the constraint; its entries add their index."""
    shape: tuple[int, ...] | None = None
    """The shape of the constraint before entries were left out; `None` if all are there."""
    places: tuple[int, ...] | None = None
    """The positions of the entries that are left in an array of that shape, in C order."""
    induced: bool = False
    """Whether it was added because there is no feasible choice after the data where it fails."""

    @property
    def rows(self) -> list[Any]:
        """The expressions that learners see."""
        return [self.expression, -self.expression] if self.equality else [self.expression]

    @property
    def constraint(self) -> Any:
        """The CVXPY constraint."""
        return self.expression == 0 if self.equality else self.expression <= 0


def excesses(
    variables: list[Any],
    rows: list[Excess],
    domain: Domain,
    spans: dict[int, slice],
    semidefinite: set[int],
) -> tuple[list[Excess], list[Excess], list[str]]:
    """Excesses that are at most 0 exactly on the feasible set, bounds of variables that the domain
    implies, and notes that say how variable attributes are treated.

    The `rows` of the stated constraints come first. `semidefinite` are variables, by id, that the
    domain keeps semidefinite.
    """
    found = list(rows)
    implied: list[Excess] = []
    notes = []
    low, high = bounding_box(domain)
    for variable in variables:
        lower, upper = (np.ravel(edge) for edge in limits(variable))
        span, name = spans[variable.id], variable.name()
        for side, stated, inside in (
            ("lower", lower, np.all(low[span] >= lower)),
            ("upper", upper, np.all(high[span] <= upper)),
        ):
            if not np.any(np.isfinite(stated) & np.ravel(pattern(variable))):
                continue
            notes.append(
                f"{name}: {side} bounds are part of {'the domain' if inside else 'constraints'}"
            )
            label = f"{name}: {side} bound"
            bounds = [
                one._replace(label=label) for c in _bounds(variable, side) for one in excesses_of(c)
            ]
            (implied if inside else found).extend(bounds)
        if is_symmetric(variable):
            notes.append(
                f"{name}: symmetry is part of the domain; only the symmetric part of a decision "
                "counts"
            )
            _check_mirror(name, variable.shape, low[span], high[span])
        if not np.all(pattern(variable)):
            notes.append(
                f"{name}: zeros are part of the domain; only the other entries of a decision count"
            )
        for sign, attribute in ((-1.0, "PSD"), (1.0, "NSD")):
            if variable.attributes[attribute] and variable.id in semidefinite:
                notes.append(f"{name}: {attribute} is part of the domain")
            elif variable.attributes[attribute]:
                found.append(Excess(cp.lambda_max(sign * variable), label=f"{name}: {attribute}"))
                notes.append(f"{name}: {attribute} is a constraint on an eigenvalue")
    if not found:  # without constraints: one that always holds
        found = [Excess(cp.Constant(-1.0))]
    return found, implied, notes


def excesses_of(constraint: Any) -> list[Excess]:
    """One CVXPY constraint."""
    if isinstance(constraint, Inequality):
        return [Excess(constraint.expr)]
    if isinstance(constraint, (Equality, Zero)):
        return [Excess(constraint.expr, equality=True)]
    if isinstance(constraint, NonPos):
        return [Excess(constraint.args[0])]
    if isinstance(constraint, NonNeg):
        return [Excess(-constraint.args[0])]
    if isinstance(constraint, cp.PSD):
        matrix = constraint.args[0]
        # CVXPY asks lambda_max for symmetry; the constraint is on the symmetric part.
        return [
            Excess(
                cp.lambda_max(
                    -(matrix if matrix.is_symmetric() else (matrix + mirrored(matrix)) / 2)
                )
            )
        ]
    if isinstance(constraint, cp.SOC):
        t, x = constraint.args
        length = cp.norm(x, 2) if x.ndim <= 1 else cp.norm(x, 2, axis=constraint.axis)
        return [
            Excess(
                length - (t if length.shape == t.shape else cp.reshape(t, length.shape, order="F"))
            )
        ]
    if isinstance(constraint, cp.ExpCone):  # y exp(x / y) <= z is x + y log(y / z) <= 0
        x, y, z = constraint.args
        return [Excess(x + cp.rel_entr(y, z))]
    if isinstance(constraint, (cp.PowCone3D, cp.PowConeND)):
        return [Excess(_power_cone(constraint))]
    raise ValueError(
        f"constraints: got {type(constraint).__name__} in {constraint}; expected <=, >=, ==, >>, "
        "<<, a second-order cone, an exponential cone or a power cone"
    )


def _power_cone(constraint: Any) -> Any:
    """|z| minus the weighted geometric mean of the other parts, entry by entry."""
    if isinstance(constraint, cp.PowCone3D):
        x, y, z = (cp.vec(arg, order="C") for arg in constraint.args)
        parts = [cp.hstack([x[i], y[i]]) for i in range(z.size)]
        first = np.ravel(np.broadcast_to(constraint.alpha.value, z.shape))
        weights = np.stack([first, 1 - first], axis=1)
    else:
        bases, z = constraint.args
        columns = bases if constraint.axis == 0 else bases.T
        columns = cp.reshape(columns, (columns.shape[0], -1), order="F")
        parts = [columns[:, i] for i in range(z.size)]
        powers = np.asarray(constraint.alpha.value, float)
        weights = (powers if constraint.axis == 0 else powers.T).reshape(columns.shape[0], -1).T
    means = [
        cp.geo_mean(part, list(share), approx=False)
        for part, share in zip(parts, weights, strict=True)
    ]
    return cp.abs(cp.vec(z, order="C")) - cp.hstack(means)


def attribute_constraints(variables: list[Any]) -> list[Any]:
    """The attributes as CVXPY constraints, except symmetry and zeros, which are built into the
    expressions."""
    found = []
    for variable in variables:
        found += _bounds(variable, "lower") + _bounds(variable, "upper")
        if variable.attributes["PSD"]:
            found.append(variable >> 0)
        if variable.attributes["NSD"]:
            found.append(variable << 0)
    return found


def _bounds(variable: Any, side: str) -> list[Any]:
    lower, upper = limits(variable)
    edge, sign = (lower, 1.0) if side == "lower" else (upper, -1.0)
    finite = np.isfinite(edge) & pattern(variable)
    if not finite.any():
        return []
    if finite.all():
        return [sign * variable >= sign * edge]
    return [sign * variable[finite] >= sign * edge[finite]]


def _check_mirror(name: str, shape: tuple[int, ...], low: Any, high: Any) -> None:
    """The symmetric part of a decision must lie in the domain like the decision itself."""
    if any(
        not np.array_equal(edge.reshape(shape), mirrored(edge.reshape(shape)))
        for edge in (low, high)
    ):
        raise ValueError(
            f"domain: got a set that is not invariant under transposing {name}; expected one "
            "that is, because the variable is symmetric"
        )

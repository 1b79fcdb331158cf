"""CVXPY constraints and variable attributes as expressions that must not exceed zero."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.constraints.nonpos import Inequality, NonNeg, NonPos
from cvxpy.constraints.zero import Equality, Zero

from ...engine import Array
from ...problem.constraints import distinct
from .attributes import limits, mirrored, pattern
from .reading import checked


class Excess(NamedTuple):
    """An expression that must not exceed zero; with `equality` neither it nor its negative."""

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

    def entries(self, places: Array) -> Excess:
        """Some of the entries, in C order."""
        chosen = cp.vec(self.expression, order="C")[places]
        shape = self.expression.shape
        return Excess(chosen, self.equality, self.label, shape, tuple(places.tolist()))

    @property
    def constraint(self) -> Any:
        """The CVXPY constraint."""
        return self.expression == 0 if self.equality else self.expression <= 0


def stated_rows(constraints: list[Any], induced: frozenset[int] = frozenset()) -> list[Excess]:
    """The excesses of constraints, with their names; those in `induced` were added by taut."""
    return [
        excess._replace(label=label_of(constraint, position), induced=constraint.id in induced)
        for position, constraint in enumerate(constraints, 1)
        for excess in excesses_of(constraint)
    ]


def excesses_of(constraint: Any) -> list[Excess]:
    """One CVXPY constraint."""
    if isinstance(constraint, (Inequality, Equality)):
        return [Excess(constraint.expr, isinstance(constraint, Equality))]
    if isinstance(constraint, (NonPos, Zero)):
        return [Excess(constraint.args[0], isinstance(constraint, Zero))]
    if isinstance(constraint, NonNeg):
        return [Excess(-constraint.args[0])]
    if isinstance(constraint, cp.PSD):
        matrix = constraint.args[0]
        # CVXPY asks lambda_max for symmetry; the constraint is on the symmetric part.
        symmetric = matrix if matrix.is_symmetric() else (matrix + mirrored(matrix)) / 2
        return [Excess(cp.lambda_max(-symmetric))]
    if isinstance(constraint, cp.SOC):
        t, x = constraint.args
        length = cp.norm(x, 2) if x.ndim <= 1 else cp.norm(x, 2, axis=constraint.axis)
        return [Excess(length - cp.reshape(t, length.shape, order="F"))]
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
    """The attributes as constraints, except symmetry and zeros, which are built in."""
    constraints = []
    for variable in variables:
        constraints += bounds_of(variable)
        if variable.attributes["PSD"]:
            constraints.append(variable >> 0)
        if variable.attributes["NSD"]:
            constraints.append(variable << 0)
    return constraints


def bounds_of(variable: Any, sides: Sequence[str] = ("lower", "upper")) -> list[Any]:
    """The numbers that bound a variable by its attributes, as CVXPY constraints."""
    constraints = []
    for side, edge in zip(("lower", "upper"), limits(variable), strict=True):
        sign = 1.0 if side == "lower" else -1.0
        finite = np.isfinite(edge) & pattern(variable)
        if side not in sides or not finite.any():
            continue
        if finite.all():
            constraints.append(sign * variable >= sign * edge)
        else:
            constraints.append(sign * variable[finite] >= sign * edge[finite])
    return constraints


LONGEST = 48
"""A constraint that takes more letters is named by its position."""


def label_of(constraint: Any, position: int) -> str:
    """The label that the user set by `set_label`, or the constraint as text, or its position."""
    label = getattr(constraint, "label", None)
    if label:
        return str(label)
    text = re.sub(r"\s+", " ", str(constraint)).replace(", None, False)", ")")
    text = re.sub(r"(\d)\.0\b", r"\1.", text)
    text = re.sub(r"(\d)\.(?!\d)", r"\1", text)
    return text if len(text) <= LONGEST else f"constraint {position}"


def numbered(label: str, shape: tuple[int, ...], places: Iterable[int] | None = None) -> list[str]:
    """Names of the entries of an array, or of those at some places in row order."""
    if not shape:
        return [label]
    indices = (np.unravel_index(place, shape) for place in places or range(int(np.prod(shape))))
    return [f"{label}[{', '.join(str(int(i)) for i in index)}]" for index in indices]


def row_names(excesses: list[Excess]) -> tuple[str, ...]:
    """One name per row that is played: entries get an index, an equality two names."""
    plain: list[str] = []
    for excess in excesses:
        shape = excess.expression.shape if excess.shape is None else excess.shape
        rows = numbered(excess.label, shape if np.prod(shape) > 1 else (), excess.places)
        sides = (" (not above)", " (not below)") if excess.equality else ("",)
        plain += [f"{row}{side}" for side in sides for row in rows]
    return distinct(plain)


def announced_rows(
    announced: list[Any], recourse: Iterable[Any], variables: list[Any]
) -> list[Excess]:
    """Announced constraints on the decision's `variables` as convex excesses."""
    if not announced:
        return []
    _, stated, used = checked(cp.Constant(0.0), announced, "announced")
    for variable in used:
        if any(variable is known for known in variables):
            continue
        late = any(variable is known for known in recourse)
        why = "chosen after the data" if late else "in neither the loss nor other constraints"
        raise ValueError(
            f"announced: got the variable {variable.name()}, which is {why}; expected "
            "constraints on the decision"
        )
    return stated_rows(stated)

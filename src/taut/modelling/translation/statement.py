"""A model as the user states it: an objective and constraints, of variables and parameters.

A statement knows where the entries of each variable are in a flat decision, and which parameters
change with the round. Everything else about a model follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import cvxpy as cp
import jax
import numpy as np

from ...engine import Array
from ..recourse.after_data import without_recourse
from .attributes import counted, shaped, ties, value_of, wrapped
from .inequalities import Excess, announced_rows, refuse_unknown
from .parameters import Range, chosen_parameters, refuse_foreign
from .reading import checked, parameters_of
from .round_data import Keys

__all__ = ["FlatCopy", "Statement"]


class FlatCopy:
    """Copies of CVXPY expressions whose variables are parts of one flat variable.

    Arguments:
        variables: the model's variables; their entries, in row order, follow one another in the
            flat decision.
        parameters: those that change with the round: copies take their place, in `parameters`.
        fixed: constants in place of the parameters that do not change, by the parameter's `id()`.

    `ties` are constraints that keep irrelevant parts of a decision (the antisymmetric part of a
    symmetric variable, entries outside of a pattern) at zero. `links` are constraints that programs
    with the copies need, too.
    """

    def __init__(
        self,
        variables: list[Any],
        parameters: list[Any],
        fixed: dict[int, Any],
    ) -> None:
        size = sum(variable.size for variable in variables)
        self.variable = cp.Variable(size)
        self.parameters = [_twin(parameter) for parameter in parameters]
        self._twins: dict[int, Any] = {
            id(p): twin for p, twin in zip(parameters, self.parameters, strict=True)
        }
        self._twins |= fixed
        self.ties: list[Any] = []
        self.links: list[Any] = []
        start = 0
        for variable in variables:
            part = self.variable[start : start + variable.size]
            self._twins[id(variable)] = wrapped(variable, part)
            self.ties += ties(variable, part)
            start += variable.size

    def of(self, part: Any) -> Any:
        """The copy of an expression or constraint. It may add to `links`."""
        for atom in _perspectives(part):
            if id(atom) not in self._twins:
                self._twins[id(atom)] = self._perspective(atom)
        return part.tree_copy(dict(self._twins))

    def _perspective(self, atom: Any) -> Any:
        """CVXPY takes perspectives of variables only: copies of them, which `links` set equal to
        the decision's parts."""
        scale = cp.Variable(nonneg=True)
        fresh = {id(variable): cp.Variable(variable.shape) for variable in atom.f.variables()}
        self.links.append(scale == cp.sum(self._twins[id(atom.args[0])]))
        self.links += [
            fresh[id(variable)] == self._twins[id(variable)] for variable in atom.f.variables()
        ]
        inner = [
            None if f is None else f.tree_copy(self._twins | fresh)
            for f in (atom.f, atom.f_recession)
        ]
        return cp.perspective(inner[0], scale, inner[1])

    def assign(self, data: tuple[Any, ...], check: bool = True) -> None:
        """Give the per-round parameters the values of one round, which CVXPY checks against their
        attributes."""
        for parameter, value in zip(self.parameters, data, strict=True):
            if check:
                parameter.value = value
            else:
                parameter.save_value(value)


def _perspectives(part: Any) -> list[Any]:
    """The perspectives inside an expression or constraint, the inner ones of several first."""
    queue, perspectives, seen = [part], list[Any](), set[int]()
    while queue:
        node = queue.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, cp.perspective):
            perspectives.append(node)
            queue.append(node.f)
        queue += node.args
    return perspectives[::-1]


def _twin(parameter: Any) -> Any:
    given = {
        name: value
        for name, value in parameter.attributes.items()
        if value is not False and value is not None
    }
    given.pop(
        "sparsity", None
    )  # data are dense arrays, which CVXPY does not accept for sparse parameters
    return cp.Parameter(parameter.shape, name=parameter.name(), **given)


class Statement:
    """The expressions of a model, without the variables that are chosen after the data of a round.

    Arguments:
        loss: as in `taut.from_cvxpy`, like all others but `values`.
        constraints: see `loss`.
        recourse: see `loss`.
        per_round: see `loss`.
        announced: see `loss`.
        values: the values of parameters by id; None stands for those that they have now. Values
            that are assigned later have no effect, because loss, domain and hindsight must use the
            same numbers.
    """

    def __init__(
        self,
        loss: Any,
        constraints: Any,
        recourse: Any,
        per_round: Any,
        announced: Any,
        values: Mapping[int, Array] | None,
    ) -> None:
        self.after = without_recourse(loss, constraints, recourse, per_round, values)
        """The model without the variables that are chosen after the data of a round."""
        self.objective, self.stated = checked(self.after.loss, self.after.constraints)
        self.announced_rows: list[Excess] = announced_rows(announced, self.after.values)
        """What must not exceed zero and is known before a decision is played."""
        parts = [self.objective, *self.stated]
        self.variables = _leaves(parts, "variables")
        self.size = sum(variable.size for variable in self.variables)
        refuse_unknown(self.announced_rows, self.variables)
        parts += [row.expression for row in self.announced_rows]
        parameters = _leaves(parts, "parameters")
        refuse_foreign(parameters, self.variables)
        known: dict[int, Any] = {
            p.id: value_of(p) if values is None else values.get(p.id) for p in parameters
        }
        self.parameters = chosen_parameters(parameters, per_round, known)
        """The parameters that change with the round."""
        changing = {parameter.id for parameter in self.parameters}
        self.fixed = [parameter for parameter in parameters if parameter.id not in changing]
        self.values_of_fixed: dict[int, Any] = {p.id: known[p.id] for p in self.fixed}
        self.keys = Keys(self.parameters, self.fixed)
        """Whether CVXPY's conic form of the model is affine in the data."""

    @property
    def decision_shape(self) -> tuple[int, ...]:
        """The shape of a decision: that of the only variable, otherwise (size,)."""
        only = self.variables[0]
        return tuple(only.shape) if len(self.variables) == 1 and only.shape else (self.size,)

    @cached_property
    def spans(self) -> dict[int, slice]:
        """Where each variable's entries, in row order, are in a flat decision, by the variable's
        id."""
        ends = np.cumsum([variable.size for variable in self.variables]).tolist()
        return {v.id: slice(end - v.size, end) for v, end in zip(self.variables, ends, strict=True)}

    def entry(self, i: int) -> str:
        """The name of the i-th entry of a flat decision."""
        for variable in self.variables:
            span = self.spans[variable.id]
            if span.start <= i < span.stop:
                place = ", ".join(
                    str(int(k)) for k in np.unravel_index(i - span.start, variable.shape or (1,))
                )
                return f"{variable.name()}[{place}]" if variable.shape else str(variable.name())
        raise IndexError(f"i: got {i}; expected less than {self.size}")

    def variable_values(self, x: jax.Array) -> dict[int, jax.Array]:
        """The values of all variables in a decision, by id."""
        if len(self.variables) == 1 and x.shape == self.variables[0].shape:  # nothing to split
            return {self.variables[0].id: counted(self.variables[0], x)}
        flat = x.reshape(-1)
        return {v.id: shaped(v, flat[self.spans[v.id]]) for v in self.variables}

    def parameter_values(self, z: Any) -> dict[int, Any]:
        """The values of all parameters in a round with the data z, by id; None stands for no
        data."""
        if z is None or not self.parameters:
            return self.values_of_fixed
        data = z if isinstance(z, tuple) else self.keys.arranged(z, check=False)
        changing = {p.id: part for p, part in zip(self.parameters, data, strict=True)}
        return self.values_of_fixed | changing

    def data_of(self, flat: Array) -> tuple[Array, ...]:
        """One round's data from a flat vector of all parameters that change."""
        ends = np.cumsum([parameter.size for parameter in self.parameters], dtype=int)
        return tuple(
            flat[end - p.size : end].reshape(p.shape)
            for p, end in zip(self.parameters, ends, strict=True)
        )

    def fixed_value(self, parameter: Any) -> Array:
        """The value of a parameter that does not change with the round."""
        return np.asarray(self.values_of_fixed[parameter.id], float)

    def changing(self, part: Any) -> bool:
        """Whether an expression or constraint contains a parameter that changes with the round."""
        ids = {parameter.id for parameter in self.parameters}
        return any(parameter.id in ids for parameter in parameters_of(part))

    def guessed(self, parts: list[Any], known: Range) -> list[str]:
        """The names of the parameters in these expressions whose range is a guess."""
        used = {parameter.id for part in parts for parameter in parameters_of(part)}
        return [
            parameter.name()
            for parameter, guess in zip(self.parameters, self.data_of(known.guessed), strict=True)
            if np.any(guess) and parameter.id in used
        ]

    def flat_copy(self) -> FlatCopy:
        """Copies of the expressions over one flat variable, the decision."""
        return FlatCopy(self.variables, self.parameters, self._constants)

    @cached_property
    def _constants(self) -> dict[int, Any]:
        """A CVXPY constant for each parameter that does not change, by the parameter's `id()`."""
        return {id(p): cp.Constant(self.values_of_fixed[p.id]) for p in self.fixed}


def _leaves(parts: list[Any], kind: str) -> list[Any]:
    """Variables or parameters in the order of their creation, which is also their position in a
    stream."""
    leaves = {leaf.id: leaf for part in parts for leaf in getattr(part, kind)()}
    return [leaves[key] for key in sorted(leaves)]

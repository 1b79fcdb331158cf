"""A model as the user states it: an objective and constraints, of variables and parameters.

A statement knows where the entries of each variable are in a flat decision, and which parameters
change with the round. Everything else about a model follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import cvxpy as cp
import jax
import numpy as np
from scipy import sparse

from ...engine import Array
from ...problem.constants import Constants
from ...problem.domains import Domain
from ..recourse.after_data import without_recourse
from .affine_forms import AffineForms
from .attributes import (
    counted,
    is_symmetric,
    mirrored,
    pattern,
    shaped,
    spans_of,
    ties,
    value_of,
    wrapped,
)
from .inequalities import announced_rows, numbered
from .parameters import Range, chosen_parameters, refuse_foreign
from .reading import checked, leaves_of, parameters_of, unpacked
from .round_data import Keys


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

    def __init__(self, variables: list[Any], parameters: list[Any], fixed: dict[int, Any]) -> None:
        self.variable = cp.Variable(sum(variable.size for variable in variables))
        self.parameters = []
        for parameter in parameters:
            attributes = {k: v for k, v in parameter.attributes.items() if v is not False}
            # CVXPY does not accept dense arrays for sparse parameters.
            attributes["sparsity"] = None
            self.parameters.append(
                cp.Parameter(parameter.shape, name=parameter.name(), **attributes)
            )
        self._twins: dict[int, Any] = {
            id(p): twin for p, twin in zip(parameters, self.parameters, strict=True)
        }
        self._twins |= fixed
        self.ties: list[Any] = []
        self.links: list[Any] = []
        spans = spans_of(variables)
        for variable in variables:
            part = self.variable[spans[variable.id]]
            self._twins[id(variable)] = wrapped(variable, part)
            self.ties += ties(variable, part)

    def of(self, part: Any) -> Any:
        """The copy of an expression or constraint. It may add to `links`."""
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
        for atom in reversed(perspectives):  # the inner ones of several first
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

    def assign(self, data: tuple[Any, ...]) -> None:
        """Give the per-round parameters the values of one round."""
        for parameter, value in zip(self.parameters, data, strict=True):
            parameter.save_value(value)


class Request(NamedTuple):
    """The arguments of `from_cvxpy`, kept to build the model again with all rows."""

    loss: Any
    constraints: Any
    domain: Domain | str | None = None
    constants: Constants | None = None
    per_round: Any = None
    domain_binds: bool = False
    recourse: Any = None
    announced: Any = ()
    values: Mapping[int, Array] | None = None
    """Values of parameters, by id; None stands for those that they have now. Values that are
    assigned later have no effect, because loss, domain and hindsight must use the same numbers."""
    play_implied: bool = False
    """Whether inequalities that hold on the whole domain are played."""


class Statement:
    """The expressions of a model, without variables that are chosen after the data."""

    def __init__(self, request: Request) -> None:
        loss, constraints, marked = unpacked(request.loss, request.constraints)
        _, announced, _ = unpacked(cp.Constant(0.0), request.announced)
        parameters = leaves_of([loss, *constraints, *announced], "parameters")
        known: dict[int, Any] = {
            p.id: value_of(p) if request.values is None else request.values.get(p.id)
            for p in parameters
        }
        self.parameters = chosen_parameters(parameters, request.per_round, known)
        """The parameters that change with the round."""
        self.data_spans = spans_of(self.parameters)
        """Where each of them is in a flat vector of one round's data, by id."""
        self.fixed = [p for p in parameters if p.id not in self.data_spans]
        self.values_of_fixed: dict[int, Any] = {p.id: known[p.id] for p in self.fixed}
        self.keys = Keys(self.parameters, self.fixed)
        self.after = without_recourse(
            loss, constraints, marked, request.recourse, self.values_of_fixed
        )
        """The model without the variables that are chosen after the data of a round."""
        self.objective, self.stated, self.variables = checked(
            self.after.loss, self.after.constraints
        )
        refuse_foreign(parameters, self.variables)
        self.size = sum(variable.size for variable in self.variables)
        self.spans = spans_of(self.variables)
        """Where each variable's entries are in a flat decision, by the variable's id."""
        self.announced_rows = announced_rows(announced, self.after.values, self.variables)
        """What must not exceed zero and is known before a decision is played."""

    @property
    def decision_shape(self) -> tuple[int, ...]:
        """The shape of a decision: that of the only variable, otherwise (size,)."""
        only = self.variables[0]
        return tuple(only.shape) if len(self.variables) == 1 and only.shape else (self.size,)

    @cached_property
    def forms(self) -> AffineForms:
        """Affine forms over the flat decision, without data. Symmetry and zeros are built in."""
        leaves: dict[int, Any] = {}
        for variable in self.variables:
            rows = np.arange(variable.size)
            mask = np.ravel(pattern(variable)).astype(float)
            columns = self.spans[variable.id].start + rows
            matrix = sparse.csr_matrix((mask, (rows, columns)), (variable.size, self.size))
            if is_symmetric(variable):
                other = np.ravel(mirrored(rows.reshape(variable.shape)))
                matrix = (matrix + matrix[other]) / 2
            leaves[variable.id] = matrix
        return AffineForms(leaves, self.size, self.values_of_fixed)

    @cached_property
    def entries(self) -> list[str]:
        """The names of the entries of a flat decision."""
        return [name for v in self.variables for name in numbered(v.name(), v.shape)]

    def variable_values(self, x: jax.Array) -> dict[int, jax.Array]:
        """The values of all variables in a decision, by id."""
        if len(self.variables) == 1 and x.shape == self.variables[0].shape:  # nothing to split
            return {self.variables[0].id: counted(self.variables[0], x)}
        flat = x.reshape(-1)
        return {v.id: shaped(v, flat[self.spans[v.id]]) for v in self.variables}

    def parameter_values(self, z: Any) -> dict[int, Any]:
        """The values of all parameters for the data z of a round, by id; None if there are none."""
        if z is None or not self.parameters:
            return self.values_of_fixed
        data = z if isinstance(z, tuple) else self.keys.arranged(z, check=False)
        changing = {p.id: part for p, part in zip(self.parameters, data, strict=True)}
        return self.values_of_fixed | changing

    def data_of(self, flat: Any) -> tuple[Any, ...]:
        """One round's data from a flat NumPy or JAX vector of all parameters that change."""
        return tuple(flat[self.data_spans[p.id]].reshape(p.shape) for p in self.parameters)

    def changing(self, part: Any) -> bool:
        """Whether an expression or constraint contains a parameter that changes with the round."""
        return any(parameter.id in self.data_spans for parameter in parameters_of(part))

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
        fixed = {id(p): cp.Constant(self.values_of_fixed[p.id]) for p in self.fixed}
        return FlatCopy(self.variables, self.parameters, fixed)

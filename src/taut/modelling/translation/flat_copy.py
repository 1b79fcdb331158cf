"""Copies of a model's expressions over one flat variable, so that solving never changes the user's
own variables."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from ...engine import Array
from .attributes import ties, wrapped

__all__ = ["FlatCopy"]


class FlatCopy:
    """Copies of CVXPY expressions whose variables are affine in one flat variable.

    Arguments:
        variables: the model's variables; their entries, in row order, follow one another in the
            flat decision.
        parameters: those that change with the round: copies take their place, in `parameters`.
        fixed: constants in place of the parameters that do not change, by the parameter's `id()`.
        centre: the flat decision is centre + scale * `variable`.
        scale: see `centre`.

    `ties` are constraints that keep irrelevant parts of a decision (the antisymmetric part of a
    symmetric variable, entries outside of a pattern) at zero. `links` are constraints that programs
    with the copies need, too.
    """

    def __init__(
        self,
        variables: list[Any],
        parameters: list[Any],
        fixed: dict[int, Any],
        centre: Array | None = None,
        scale: float = 1.0,
    ) -> None:
        size = sum(variable.size for variable in variables)
        self.variable = cp.Variable(size)
        self.decision = (
            self.variable if centre is None else np.ravel(centre) + scale * self.variable
        )
        self.parameters = [_twin(parameter) for parameter in parameters]
        self._twins: dict[int, Any] = {
            id(p): twin for p, twin in zip(parameters, self.parameters, strict=True)
        }
        self._twins |= fixed
        self.ties: list[Any] = []
        self.links: list[Any] = []
        start = 0
        for variable in variables:
            part = self.decision[start : start + variable.size]
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

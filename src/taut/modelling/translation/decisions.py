"""Decisions of a model: the entries of all variables, one after another, and their names and
shapes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import numpy as np

from ...problem.domains import Domain
from .attributes import counted, shaped

__all__ = ["Decisions"]


class Decisions:
    """The part of a model that knows where each variable is in a flat decision."""

    variables: list[Any]
    size: int
    domain: Domain

    def _shape(self) -> tuple[int, ...]:
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

    def present(self, decision: Any) -> Any:
        """Decisions in the user's form: an array in the shape of the only variable, or a dict by
        name.

        Leading axes, as in `run.decisions`, stay.
        """
        decision = decision if hasattr(decision, "shape") else np.asarray(decision, float)
        lead = decision.shape[: max(decision.ndim - len(self.domain.shape), 0)]
        if decision.shape[len(lead) :] != self.domain.shape:
            raise ValueError(
                f"decision: got shape {decision.shape}; expected {self.domain.shape} after any "
                "leading axes"
            )
        flat = decision.reshape((*lead, self.size))
        parts = {v.name(): shaped(v, flat[..., self.spans[v.id]]) for v in self.variables}
        return parts if len(parts) > 1 else next(iter(parts.values()))

    def assemble(self, decision: Any) -> Any:
        """The decision with the parts that `present` gives: by name, or the only one as an
        array."""
        parts = (
            decision.toarray() if hasattr(decision, "toarray") else decision
        )  # CVXPY's values of diagonal variables
        if not isinstance(parts, Mapping):
            if len(self.variables) > 1 or np.shape(parts) != self.variables[0].shape:
                return parts  # flat, as decisions are inside a run
            parts = {self.variables[0].name(): parts}
        parts = {
            name: part.toarray() if hasattr(part, "toarray") else part
            for name, part in parts.items()
        }
        wanted = {variable.name(): variable.shape for variable in self.variables}
        shapes = {name: np.shape(part) for name, part in parts.items()}
        if shapes != wanted:
            raise ValueError(f"decision: got parts of the shapes {shapes}; expected {wanted}")
        return np.concatenate([np.ravel(parts[name]) for name in wanted]).reshape(self.domain.shape)

    def _split(self, x: jax.Array) -> dict[int, jax.Array]:
        if len(self.variables) == 1 and x.shape == self.variables[0].shape:  # nothing to split
            return {self.variables[0].id: counted(self.variables[0], x)}
        flat = x.reshape(-1)
        return {v.id: shaped(v, flat[self.spans[v.id]]) for v in self.variables}

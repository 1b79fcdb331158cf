"""Models with `taut.previous(x)`, whose loss or constraints depend on the decision of the round
before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax

from ..problem.constraints import Constraints, UserConstraints
from ..problem.problem import Problem
from .translation.parameters import is_previous
from .translation.round_data import Keys

if TYPE_CHECKING:
    from .model import Model


class RememberingModel(Problem):
    """A problem from CVXPY expressions that contain previous decisions.

    `model` is the model in which these are parameters like all others.
    """

    def __init__(self, model: Model, start: Any = None) -> None:
        self.model = model
        self.others = [parameter for parameter in model.parameters if not is_previous(parameter)]
        self.keys = Keys(self.others, model.fixed)
        super().__init__(
            self._filled(model.loss),
            self._filled_constraints(model.constraints),
            model.domain,
            model.constants,
            model.domain_binds,
            coordinate_names=model.coordinate_names,
            previous=True,
            start=None if start is None else model.assemble(start),
        )
        if model.announced is not None:
            self.announced = self._filled_constraints(model.announced)
        self.announced_count = model.announced_count
        self.proof_of_convexity = model.proof_of_convexity
        self.proof_of_domain = model.proof_of_domain
        self.written = self.constraints

    @property
    def notes(self) -> list[str]:
        """How variable attributes and the domain are treated."""
        return self.model.notes

    def _filled(self, function: Callable[[jax.Array, Any], Any]) -> Callable[..., Any]:
        """A function of decision, data and previous decision, from one of the model's data."""

        def filled(x: jax.Array, z: Any, before: jax.Array) -> Any:
            parts = self.model.variable_values(before)
            others = iter(self._tuple(z))
            data = tuple(
                parts[p._taut_variable.id].reshape(p.shape) if is_previous(p) else next(others)
                for p in self.model.parameters
            )
            return function(x, data)

        return filled

    def _filled_constraints(self, stated: Any) -> UserConstraints:
        if not stated.takes_data:
            return stated
        return replace(stated, function=self._filled(stated.function), takes_previous=True)

    def _tuple(self, data: Any) -> tuple[Any, ...]:
        if data is None:  # rows without other parameters than previous decisions
            return (None,) * len(self.others)
        return data if isinstance(data, tuple) else self.keys.arranged(data, check=False)

    def arrange(self, data: Any) -> Any:
        """Data keyed by parameter, name or position, without the previous decisions."""
        return self.keys.stream(data, self.present)

    def arrange_announced(self, data: Any) -> Any:
        """Data keyed likewise, of the parameters that announced constraints use."""
        return self.keys.announced(data, self.model.announced_parameters)

    def present(self, decision: Any) -> Any:
        """Decisions in the user's form."""
        return self.model.present(decision)

    def assemble(self, decision: Any) -> Any:
        """The decision with the parts that `present` gives."""
        return self.model.assemble(decision)

    def at_rest(self, loss: Callable[[jax.Array, Any], Any], constraints: Constraints) -> Problem:
        """The model in which variables stand in the place of their previous values; its hindsight
        has its own route."""
        if (
            self.constraints is not self.written
            or self.start is not None
            or self.announced is not None
        ):
            return super().at_rest(loss, constraints)
        self.own_rest = self.model.with_own_previous
        return self.own_rest

"""Models with `taut.previous(x)`, whose loss or constraints depend on the decision of the round
before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax

from ..engine import register_dataclass
from ..problem.constraints import Constraints
from ..problem.problem import LossWithPrevious, Problem
from ..problem.streams import RoundData
from .translation.parameters import is_previous
from .translation.round_data import Keys

if TYPE_CHECKING:
    from .model import Model


@register_dataclass
@dataclass(frozen=True)
class _Filled(Constraints):
    """Constraints of a model, whose parameters for previous decisions are filled in."""

    stated: Constraints
    fill: Callable[[Any], Any] = field(metadata={"static": True})

    @property
    def takes_data(self) -> bool:  # type: ignore[override]
        return self.stated.takes_data

    @property
    def takes_previous(self) -> bool:
        """Whether the previous decision matters; taken for granted if data do."""
        return self.stated.takes_data

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        return self.stated.values(x, None if z is None else self.fill(z))

    def row_names(self, x: Any = None, z: Any = None) -> tuple[str, ...] | None:
        return self.stated.row_names()


class RememberingModel(Problem):
    """A problem from CVXPY expressions that contain previous decisions.

    `model` is the model in which these are parameters like all others.
    """

    def __init__(self, model: Model, start: Any = None) -> None:
        self.model = model
        self.others = [parameter for parameter in model.parameters if not is_previous(parameter)]
        self.keys = Keys(self.others, model.fixed)
        loss, fill = model.loss, self._filled

        def filled_loss(x: jax.Array, z: Any, before: jax.Array) -> Any:
            return loss(x, fill(RoundData(z, before)))

        super().__init__(
            filled_loss,
            _Filled(model.constraints, fill),
            model.domain,
            model.constants,
            model.domain_binds,
            coordinate_names=model.coordinate_names,
            previous=True,
            start=None if start is None else model.assemble(start),
        )
        self.announced = None if model.announced is None else _Filled(model.announced, fill)
        self.announced_count = model.announced_count
        assert isinstance(self.loss, LossWithPrevious)
        self.proof_of_convexity = model.proof_of_convexity
        self.proof_of_domain = model.proof_of_domain
        self.written = self.constraints

    @property
    def notes(self) -> list[str]:
        """How variable attributes and the domain are treated."""
        return self.model.notes

    def _filled(self, z: RoundData) -> tuple[Any, ...]:
        """The data of all parameters of the model, in its order."""
        parts = self.model.variable_values(z.previous)
        data = iter(self._tuple(z.data))
        return tuple(
            parts[p._taut_variable.id].reshape(p.shape) if is_previous(p) else next(data)
            for p in self.model.parameters
        )

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

"""The previous decision in CVXPY models: `taut.previous(x)` is a parameter whose data are x_{t-1},
which taut fills in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import jax
import numpy as np

from ...engine import register_dataclass
from ...problem.constraints import Constraints
from ...problem.problem import LossWithPrevious, Problem
from ...problem.round_data import RoundData
from ...problem.streams import StatefulAdversary, Stream, required_arguments
from ...problem.tables import plain
from .attributes import limits
from .parameters import Keys

__all__ = ["RememberingModel", "is_previous", "previous"]


def previous(variable: Any) -> Any:
    """Return the decision of the round before in place of a CVXPY variable: a parameter that needs
    no data.

    The same variable always gives the same parameter. Loss and constraints must be convex in the
    variable when the previous decision is replaced by the variable itself, because a fixed decision
    is its own previous one.

    >>> import cvxpy as cp, numpy as np, taut
    >>> x, c = cp.Variable(2, name="x", bounds=[0, 1]), cp.Parameter(2, name="c", bounds=[-1, 1])
    >>> loss = c @ x + 0.1 * cp.norm1(x - taut.previous(x))
    >>> problem = taut.from_cvxpy(loss, [cp.sum(x) <= 1, x - taut.previous(x) <= 0.2])
    >>> problem.previous, len(problem.model.parameters)
    (True, 2)
    """
    if not isinstance(variable, cp.Variable):
        raise TypeError(f"variable: got {type(variable).__name__}; expected a cvxpy.Variable")
    known = getattr(variable, "_taut_previous", None)
    if known is None:
        low, high = (np.asarray(edge, float).reshape(variable.shape) for edge in limits(variable))
        bounded = bool(np.all(np.isfinite(low)) and np.all(np.isfinite(high)))
        known = cp.Parameter(
            variable.shape,
            name=f"previous({variable.name()})",
            **({"bounds": [low, high]} if bounded else {}),
        )
        known._taut_variable = variable
        variable._taut_previous = known
    return known


def is_previous(parameter: Any) -> bool:
    """Return whether a parameter stands for the previous decision."""
    return getattr(parameter, "_taut_variable", None) is not None


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
        """Whether the constraints depend on the previous decision; taken for granted if they depend
        on data."""
        return self.stated.takes_data

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        return self.stated.values(x, None if z is None else self.fill(z))


class RememberingModel(Problem):
    """A problem from CVXPY expressions that contain previous decisions.

    `model` is the model in which these are parameters like all others.
    """

    def __init__(self, model: Any, make: Callable[..., Any], start: Any = None) -> None:
        self.model, self._make = model, make
        self._rest: Any = None
        for parameter in filter(is_previous, model.parameters):
            if not any(parameter._taut_variable is variable for variable in model.variables):
                name = parameter._taut_variable.name()
                raise ValueError(
                    f"previous({name}): got a variable that the model does not contain; expected "
                    "one that it does"
                )
        self.others = [parameter for parameter in model.parameters if not is_previous(parameter)]
        self.keys = Keys(self.others)
        self._reveals: dict[Any, Any] = {}
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
        assert isinstance(self.loss, LossWithPrevious)
        self.constraint_names = model.constraint_names
        self.proof_of_convexity = model.proof_of_convexity
        self.proof_of_domain = model.proof_of_domain
        self.implied = model.implied
        self.written = self.constraints

    @property
    def notes(self) -> list[str]:
        """How variable attributes and the domain are treated."""
        notes: list[str] = self.model.notes
        return notes

    def _filled(self, z: RoundData) -> tuple[Any, ...]:
        """The data of all parameters of the model, in its order."""
        parts = self.model._split(z.previous)
        given = iter(self._tuple(z.data))
        return tuple(
            parts[p._taut_variable.id].reshape(p.shape) if is_previous(p) else next(given)
            for p in self.model.parameters
        )

    def _tuple(self, data: Any) -> tuple[Any, ...]:
        if not self.others:
            return ()
        return data if isinstance(data, tuple) else self.keys.arranged(data, check=False)

    def arrange(self, data: Any) -> Any:
        """Data keyed by parameter, name or position, without the previous decisions."""
        if data is None or isinstance(data, Stream):
            return data
        if isinstance(data, StatefulAdversary):
            return StatefulAdversary(self.arrange(data.reveal), data.state)
        if callable(data):
            if data not in self._reveals:
                self._reveals[data] = self._arranging(data)
            return self._reveals[data]
        data = plain(data, self.keys.labels)
        return self.keys.arranged(data) if self.others else data

    def _arranging(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def keyed(data: Any, check: bool = False) -> Any:
            return self.keys.arranged(data, check) if self.others else data

        def chunk(start: int, length: int) -> Any:
            return keyed(function(start, length), check=True)

        def reveal(round: jax.Array, decision: jax.Array, key: jax.Array) -> Any:
            return keyed(function(round, self.present(decision), key))

        def reveal_with_state(
            state: Any, round: jax.Array, decision: jax.Array, key: jax.Array
        ) -> Any:
            after, z = function(state, round, self.present(decision), key)
            return after, keyed(z)

        wrappers: dict[int, Callable[..., Any]] = {2: chunk, 3: reveal, 4: reveal_with_state}
        return wrappers.get(required_arguments(function), function)

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
        if self._rest is None:
            places = {id(p): p._taut_variable for p in self.model.parameters if is_previous(p)}
            objective = self.model.objective.tree_copy(dict(places))
            stated = [one.tree_copy(dict(places)) for one in self.model.stated]
            self._rest = self._make(
                objective, stated, self.domain, None, self.others or None, self.domain_binds, []
            )
        rest: Problem = self._rest
        return rest

"""Games from CVXPY: disciplined convex programming proves convexity, translation compiles, the box bounds the domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
from cvxpy.utilities.debug_tools import build_non_disciplined_error_msg

from ..constants import Constants
from ..domains import Domain
from ..problem import Problem
from .boxes import bounding_box
from .constraints import excesses
from .scale import model_constants
from .translate import Evaluate, translate

__all__ = ["Model", "from_cvxpy"]

Array = np.ndarray[Any, Any]


def from_cvxpy(
    loss: Any,
    constraints: Sequence[Any] = (),
    domain: Domain | None = None,
    constants: Constants | None = None,
    per_round: Sequence[Any] | None = None,
) -> Model:
    """The game whose loss and constraints are CVXPY expressions.

    Arguments:
        loss: a scalar convex expression of variables and parameters.
        constraints: `<=`, `>=`, `==` (affine; played as pairs of inequalities, as in the paper), `>>` and `<<`, and
            second-order cones. They may contain parameters that change with the round.
        domain: the set decisions are projected on, of shape (n,) or that of the only variable; by default the bounding
            box of the feasible set, found by solving for it.
        constants: what is known; the rest is exact where loss and constraints are affine or quadratic, else estimated.
        per_round: the parameters that change with the round; by default those without a value. The others are fixed at
            the values they have now.

    Convexity is proven: what disciplined convex programming does not accept is refused with CVXPY's own explanation.
    The stream is keyed by parameter, by name or by position; `taut.Player(...).decision` is a dict if there are several
    variables.
    """
    return Model(loss, constraints, domain, constants, per_round)


class Model(Problem):
    """A problem with the CVXPY expressions it came from.

    `variables` and `parameters` are CVXPY's; `notes` say what became of variable attributes and of the domain.
    """

    def __init__(
        self, loss: Any, constraints: Sequence[Any] = (), domain: Domain | None = None,
        constants: Constants | None = None, per_round: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        self.objective, self.stated = _checked(loss, constraints)
        program = cp.Problem(cp.Minimize(self.objective), self.stated)
        self.variables: list[Any] = _refuse_integers(program.variables())
        self.parameters: list[Any] = _per_round(program.parameters(), per_round)
        self.notes: list[str] = []
        fixed = {p.id: jnp.asarray(_dense(p.value)) for p in program.parameters() if p not in self.parameters}
        if domain is None:
            domain, found = bounding_box(self.variables, self.stated, self.parameters, self.shape)
            self.notes += found
        elif domain.shape != self.shape:
            raise ValueError(f"domain: got decisions of shape {domain.shape}; expected {self.shape}")
        rows, found = excesses(self.variables, self.stated, domain, self.spans())
        self.notes += found
        self._fixed = fixed
        value, parts = translate(self.objective), [translate(row) for row in rows]
        changing = {p.id for p in self.parameters}
        takes_data = any(p.id in changing for row in rows for p in row.parameters())
        super().__init__(self._loss(value), self._excess(parts, takes_data), domain, constants)
        self.constants = model_constants(self, rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a decision: that of the only variable, else a vector of all entries."""
        if len(self.variables) == 1:
            return tuple(self.variables[0].shape)
        return (sum(v.size for v in self.variables),)

    def spans(self) -> dict[int, slice]:
        """Where each variable's entries, in row order, are in a flat decision."""
        found, start = {}, 0
        for variable in self.variables:
            found[variable.id] = slice(start, start + variable.size)
            start += variable.size
        return found

    def split(self, x: Any) -> dict[int, Any]:
        """A decision by variable id."""
        flat = x.reshape(-1)
        spans = self.spans()
        return {v.id: flat[spans[v.id]].reshape(v.shape) for v in self.variables}

    def present(self, decision: Array) -> Any:
        """The decision as the user knows it: an array for one variable, a dict by name for several."""
        if len(self.variables) == 1:
            return decision
        parts = self.split(decision)
        return {variable.name(): parts[variable.id] for variable in self.variables}

    def arrange(self, data: Any) -> Any:
        """Data keyed by parameter, name or position, as the tuple that loss and constraints take."""
        if callable(data) or not self.parameters:
            return data
        if isinstance(data, Mapping):
            return tuple(self._entry(data, parameter) for parameter in self.parameters)
        if isinstance(data, (tuple, list)) and not _is_numbers(data):
            if len(data) != len(self.parameters):
                raise ValueError(f"stream: got {len(data)} arrays; expected {self._names()}, one for each parameter")
            return tuple(np.asarray(part) for part in data)
        if len(self.parameters) == 1:
            return (np.asarray(data) if not isinstance(data, jax.Array) else data,)
        raise TypeError(f"stream: got one array; expected a dict or a tuple with one for each of {self._names()}")

    def _entry(self, data: Mapping[Any, Any], parameter: Any) -> Any:
        for key, value in data.items():
            if key is parameter or (isinstance(key, str) and key == parameter.name()):
                return value if isinstance(value, (np.ndarray, jax.Array)) else np.asarray(value)
        given = ", ".join(key.name() if isinstance(key, cp.Parameter) else repr(key) for key in data)
        raise ValueError(f"stream: got data for {given}; expected {self._names()}, and {parameter.name()} is missing")

    def _names(self) -> str:
        return ", ".join(parameter.name() for parameter in self.parameters)

    def _values(self, z: Any) -> dict[int, Any]:
        if isinstance(z, Mapping):
            z = self.arrange(z)
        elif not isinstance(z, (tuple, list)):
            z = (z,) if self.parameters else ()
        return self._fixed | {p.id: part for p, part in zip(self.parameters, z, strict=False)}

    def _loss(self, value: Evaluate) -> Any:
        def loss(x: jax.Array, z: Any) -> jax.Array:
            return value(self.split(x), self._values(z)).reshape(())

        return loss

    def _excess(self, parts: list[Evaluate], takes_data: bool) -> Any:
        def values(x: jax.Array, z: Any) -> list[jax.Array]:
            variables, parameters = self.split(x), self._values(z)
            return [part(variables, parameters) for part in parts]

        if takes_data:
            return values
        return lambda x: values(x, ())


def _checked(loss: Any, constraints: Sequence[Any]) -> tuple[Any, list[Any]]:
    if isinstance(loss, cp.Minimize):
        loss = loss.expr
    if not isinstance(loss, cp.Expression):
        raise TypeError(f"loss: got {type(loss).__name__}; expected a CVXPY expression")
    if loss.size != 1:
        raise ValueError(f"loss: got an expression of shape {loss.shape}; expected a scalar")
    if isinstance(constraints, cp.Constraint):
        constraints = [constraints]
    for one in constraints:
        if not isinstance(one, cp.Constraint):
            raise TypeError(f"constraints: got {one!r}; expected CVXPY constraints such as x <= 1")
    program = cp.Problem(cp.Minimize(cp.sum(loss)), list(constraints))
    if not program.variables():
        raise ValueError("loss: got no CVXPY variable in loss or constraints; expected at least one decision variable")
    if not program.is_dcp():
        raise ValueError(
            f"loss, constraints: not convex by CVXPY's rules. {build_non_disciplined_error_msg(program, 'DCP')}"
        )
    if not program.is_dcp(dpp=True):
        culprits = [str(part) for part in (loss, *constraints) if not part.is_dcp(dpp=True)]
        raise ValueError(
            "loss, constraints: convex only for fixed parameters (not DPP): a product of two parameters, or of a parameter "
            f"with an expression whose curvature it changes, in {'; '.join(culprits)}; expected parameters to enter affinely"
        )
    return loss, list(constraints)


def _refuse_integers(variables: list[Any]) -> list[Any]:
    for variable in variables:
        for attribute in ("integer", "boolean", "complex", "hermitian", "imag"):
            if variable.attributes.get(attribute):
                raise ValueError(
                    f"variable {variable.name()}: got {attribute}=True; expected real, continuous variables"
                )
    return variables


def _per_round(parameters: list[Any], chosen: Sequence[Any] | None) -> list[Any]:
    if chosen is None:
        return [p for p in parameters if p.value is None]
    names = {p.name(): p for p in parameters}
    found = [names.get(p) if isinstance(p, str) else p for p in chosen]
    for given, parameter in zip(chosen, found, strict=True):
        if parameter not in parameters:
            raise ValueError(f"per_round: got {given}; expected parameters of the model: {', '.join(names)}")
    for parameter in parameters:
        if parameter.value is None and parameter not in found:
            raise ValueError(f"parameter {parameter.name()}: got no value; expected one, or the parameter in per_round")
    return [p for p in parameters if p in found]


def _dense(value: Any) -> Array:
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value, float)


def _is_numbers(data: Sequence[Any]) -> bool:
    return bool(data) and all(isinstance(entry, (int, float, np.number)) for entry in data)

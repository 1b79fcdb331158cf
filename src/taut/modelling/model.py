"""Problems from CVXPY expressions: convexity is proven, expressions are compiled, a bounding box is the domain."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import cvxpy as cp
import jax
import numpy as np

from ..display import Summary
from ..engine import Array, double_precision
from ..problem.constants import Constants
from ..problem.constraints import Constraints
from ..problem.domains import Box, Domain
from ..problem.feasibility import mark_feasible
from ..problem.problem import Problem
from ..problem.streams import StatefulAdversary, Stream, required_arguments
from ..problem.tables import plain
from .atom_domains import atom_domains, check_atoms
from .atoms.table import refuse_unsupported
from .attributes import counted, is_symmetric, limits, mirrored, shaped, value_of
from .auxiliary import auxiliary_notes
from .bounding_box import LARGEST, bounding_box, outwards
from .constants import deepest, is_smooth, model_constants, parameter_range, polynomial_loss
from .constraint_names import row_names
from .dcp import checked, is_parametrized
from .evaluation import Probe
from .flat_copy import FlatCopy
from .inequalities import attribute_constraints, excesses, excesses_of
from .parameters import Keys, Range, guess_notes
from .per_round import chosen_parameters, fixed_with_data, refuse_unused
from .presolve import stated_box, without_implied
from .previous import RememberingModel, is_previous
from .reading import parameters_of
from .translate import translate, translate_all

__all__ = ["Model", "from_cvxpy"]


NAMED = 1000
"""Entries of decisions with more entries have no names."""
CONTRADICTION = 1e-6
"""Constraints are contradictory if the least-violating decision exceeds them by more than this, relatively."""


def from_cvxpy(
    loss: Any,
    constraints: Sequence[Any] = (),
    domain: Domain | None = None,
    constants: Constants | None = None,
    per_round: Any = None,
    domain_binds: bool = False,
) -> Any:
    """The problem whose loss and constraints are CVXPY expressions.

    Arguments:
        loss: a scalar convex expression of variables and parameters, or an objective (`cp.Maximize` of a gain), or a
            whole `cp.Problem`.
        constraints: `<=`, `>=`, `==` (affine; played as pairs of inequalities, as in the paper), `>>` and `<<` (on an
            eigenvalue), second-order, exponential and power cones, also in nested lists. They may contain parameters that
            change with the round.
        domain: the set decisions are projected on, of the shape of the only variable or flat; by default the bounding
            box of the feasible set. It is computed from the constraints without per-round parameters.
        constants: known constants; the others are exact where loss or constraints are affine or quadratic, else upper bounds
            by interval arithmetic, or estimated where there are none.
        per_round: the parameters that change with the round, or their names (or the only one); by default those
            without a value, and those that a stream has data for. The others are fixed at the values they have now.
        domain_binds: whether the given domain is a constraint itself, not only a set that contains the feasible one. A
            domain that takes over variable attributes always is.

    Convexity is proven: models that disciplined convex programming does not accept are refused.
    Streams are keyed by parameter, by name or by position. With several variables, decisions are flat inside a run, and
    a dict by name in `taut.Player(...).decision` and `problem.present(...)`. `problem.notes` says how variable
    attributes and the domain are treated. `taut.previous(x)` stands for the decision of the round before.

    >>> import cvxpy as cp, numpy as np
    >>> x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    >>> game = from_cvxpy(c @ x, [cp.norm1(x) <= 1])
    >>> game.domain.lower.tolist(), game.domain.upper.tolist(), round(game.constants.loss_lipschitz, 6)
    ([-1.0, -1.0], [1.0, 1.0], 1.414214)
    """
    model = Model(loss, constraints, domain, constants, per_round, domain_binds)
    return RememberingModel(model, Model) if any(map(is_previous, model.parameters)) else model


class Model(Problem):
    """A problem made from CVXPY expressions, which it keeps.

    `objective`, `stated`, `variables` and `parameters` (those that change with the round) are the user's own;
    `excesses` are what must not exceed zero, in the order of the constraints that are played.
    """

    proof_of_convexity = "disciplined convex programming"

    def __init__(
        self, loss: Any, constraints: Sequence[Any] = (), domain: Domain | None = None,
        constants: Constants | None = None, per_round: Any = None, domain_binds: bool = False,
        values: Mapping[int, Array] | None = None,
    ) -> None:  # fmt: skip
        self.objective, self.stated = checked(loss, constraints)
        self.variables = _leaves([self.objective, *self.stated], "variables")
        every = _leaves([self.objective, *self.stated], "parameters")
        # Values that are assigned later have no effect: loss, domain and hindsight must use the same numbers.
        known: dict[int, Any] = {p.id: value_of(p) if values is None else values.get(p.id) for p in every}
        self.parameters = chosen_parameters(every, per_round, known)
        self.keys = Keys(self.parameters)
        self.fixed = [parameter for parameter in every if not any(parameter is one for one in self.parameters)]
        self._values_of_fixed: dict[int, Any] = {parameter.id: known[parameter.id] for parameter in self.fixed}
        self._given = (loss, constraints, domain, constants, domain_binds)
        self._chosen = per_round is not None
        self._with_data: dict[tuple[int, ...], Model] = {}
        self.parametrized = is_parametrized(self.objective, self.stated, self._constants_for_fixed)
        self.size = sum(variable.size for variable in self.variables)
        self.notes: list[str] = []
        if not self.parametrized:
            self.notes.append(
                "parameters are multiplied by one another or enter a matrix of a quadratic form (not DPP): hindsight solves "
                "the sum of the losses, not one program of all rounds, unless they are quadratic"
            )
        for one in self.stated:
            excesses_of(one)  # refuses unsupported constraints before anything is solved
        for part in (self.objective, *self.stated):
            refuse_unsupported(part)
        self.notes += auxiliary_notes(self)
        atoms = atom_domains([self.objective, *self.stated])
        if domain is None:
            domain = self._derived([constraint for _, constraint in atoms])
        elif not isinstance(domain, Domain):
            raise TypeError(f"domain: got {domain!r}; expected a taut domain such as taut.Box(0, 1, shape=2)")
        elif domain.shape not in ((self.size,), self._shape()):
            raise ValueError(f"domain: got decisions of shape {domain.shape}; expected {self._shape()}")
        self.excesses, notes = excesses(self.variables, self.stated, domain, self.spans)
        self.excesses, implied = without_implied(self, self.excesses, domain)
        notes += implied
        self.notes += notes
        self.count = sum(row.size for one in self.excesses for row in one.rows)
        self._reveals: dict[Any, Any] = {}
        self.inner: Array | None = None
        """The flat decision that satisfies all constraints by the largest margin, if there is a margin."""
        binds = domain_binds or bool(atoms) or any("part of the domain" in note for note in notes)
        names = list(map(self.entry, range(self.size))) if self.size <= NAMED else None
        super().__init__(self._loss(), self._excess(), domain, None, domain_binds=binds, coordinate_names=names)
        if self.count <= NAMED:
            self.constraint_names = tuple(row_names(self.excesses))
        self.written: Constraints = self.constraints
        """The constraints before any transform."""
        self.constants = self._constants(constants or Constants(), atoms)
        self._derived_constants = self.constants

    def _derived(self, finite: list[Any]) -> Domain:
        """The bounding box of the set that the constraints without per-round parameters describe."""
        every = [*self.stated, *attribute_constraints(self.variables), *finite]
        steady = [one for one in every if not self.changing(one)]
        if self.size > LARGEST:
            lower, upper = stated_box(self, steady, *_stated(self.variables))
        if self.size <= LARGEST or not np.all(np.isfinite(upper - lower)):
            lower, upper = stated_box(self, steady, *bounding_box(self.flat_copy(), steady, self.entry))
        for variable in filter(is_symmetric, self.variables):  # mirror images are equal but for rounding
            low, high = (edge[self.spans[variable.id]].reshape(variable.shape) for edge in (lower, upper))
            lower[self.spans[variable.id]] = np.minimum(low, mirrored(low)).ravel()
            upper[self.spans[variable.id]] = np.maximum(high, mirrored(high)).ravel()
        rest = "" if len(steady) == len(every) else ", without constraints that change with the round"
        if self.size > LARGEST:
            self.notes.append("domain: the bounds that are stated for each entry, because there are many entries")
            self.proof_of_domain = "its edges are stated"
        else:
            self.notes.append(f"domain: the bounding box of the feasible set{rest}")
            self.proof_of_domain = "its edges were solved for"
        return Box(lower.reshape(self._shape()), upper.reshape(self._shape()))

    def _constants(self, given: Constants, atoms: list[tuple[Any, Any]]) -> Constants:
        """Complete the user's constants. Also checks the domains of atoms, and finds the curvature and a Slater point."""
        if not isinstance(given, Constants):
            raise TypeError(f"constants: got {given!r}; expected taut.Constants(...)")
        if given.constraint_count not in (None, self.count):
            raise ValueError(
                f"constraint_count: got {given.constraint_count}; expected {self.count}, what constraints gives"
            )
        with double_precision():
            probe = Probe(self)
            check_atoms(self, atoms, probe, parameter_range(self))
            loss = polynomial_loss(self, probe)
            known = model_constants(self, given, probe, loss)
        self.notes += guess_notes(self.parameters, parameter_range(self), known.estimated)
        self.curvature: Array | None = None
        """The loss's second derivatives, if they are the same in every round."""
        if loss is not None:
            self.curvature = np.zeros((self.size,) * 2) if loss.bend is None else loss.bend[0, : self.size, : self.size]
        if self.constraints.takes_data:
            return known
        depth, point = deepest(self, self.excesses)
        if depth > CONTRADICTION * max(1.0, known.constraint_range or 1.0):
            raise ValueError(
                f"constraints: got max_i g_i(x) >= {depth:.6g} > 0 for all x of the domain; expected a domain with a "
                "feasible decision"
            )
        if np.isfinite(depth):
            mark_feasible(self)
        room = -outwards(depth, 1.0)
        if not 1e-7 < room < np.inf:
            return known
        self.inner = point
        return known.merged(Constants().with_values(exact=True, slater=room))

    def _shape(self) -> tuple[int, ...]:
        """The shape of a decision: that of the only variable, otherwise (size,)."""
        only = self.variables[0]
        return tuple(only.shape) if len(self.variables) == 1 and only.shape else (self.size,)

    @cached_property
    def spans(self) -> dict[int, slice]:
        """Where each variable's entries, in row order, are in a flat decision, by the variable's id."""
        ends = np.cumsum([variable.size for variable in self.variables]).tolist()
        return {v.id: slice(end - v.size, end) for v, end in zip(self.variables, ends, strict=True)}

    def entry(self, i: int) -> str:
        """The name of the i-th entry of a flat decision."""
        for variable in self.variables:
            span = self.spans[variable.id]
            if span.start <= i < span.stop:
                place = ", ".join(str(int(k)) for k in np.unravel_index(i - span.start, variable.shape or (1,)))
                return f"{variable.name()}[{place}]" if variable.shape else str(variable.name())
        raise IndexError(f"i: got {i}; expected less than {self.size}")

    def changing(self, part: Any) -> bool:
        """Whether an expression or constraint contains a parameter that changes with the round."""
        ids = {parameter.id for parameter in self.parameters}
        return any(parameter.id in ids for parameter in parameters_of(part))

    def flat_copy(self, scaled: bool = False) -> FlatCopy:
        """Copies of the expressions over one flat decision, or over one in units of the radius around the centre."""
        fixed = self._constants_for_fixed
        if not scaled:
            return FlatCopy(self.variables, self.parameters, fixed)
        scale = float(self.domain.radius) or 1.0
        return FlatCopy(self.variables, self.parameters, fixed, np.asarray(self.domain.centre, float), scale)

    def present(self, decision: Any) -> Any:
        """Decisions in the user's form: an array in the shape of the only variable, or a dict by name.

        Leading axes, as in `run.decisions`, stay.
        """
        decision = decision if hasattr(decision, "shape") else np.asarray(decision, float)
        lead = decision.shape[: max(decision.ndim - len(self.domain.shape), 0)]
        if decision.shape[len(lead) :] != self.domain.shape:
            raise ValueError(
                f"decision: got shape {decision.shape}; expected {self.domain.shape} after any leading axes"
            )
        flat = decision.reshape((*lead, self.size))
        parts = {v.name(): shaped(v, flat[..., self.spans[v.id]]) for v in self.variables}
        return parts if len(parts) > 1 else next(iter(parts.values()))

    def assemble(self, decision: Any) -> Any:
        """The decision with the parts that `present` gives: by name, or the only one as an array."""
        parts = decision
        if not isinstance(parts, Mapping):
            if len(self.variables) > 1 or np.shape(parts) != self.variables[0].shape:
                return parts  # flat, as decisions are inside a run
            parts = {self.variables[0].name(): parts}
        wanted = {variable.name(): variable.shape for variable in self.variables}
        shapes = {name: np.shape(part) for name, part in parts.items()}
        if shapes != wanted:
            raise ValueError(f"decision: got parts of the shapes {shapes}; expected {wanted}")
        return np.concatenate([np.ravel(parts[name]) for name in wanted]).reshape(self.domain.shape)

    def arrange(self, data: Any) -> Any:
        """Data keyed by parameter, name or position, as the tuple that loss and constraints take.

        Their shapes and the parameters' attributes, on which convexity rests, are checked.
        """
        if data is None or isinstance(data, Stream):
            return data
        if callable(data):
            key = data if isinstance(data, Hashable) else id(data)
            if key not in self._reveals:  # the same function gives the same wrapper, so that it is compiled once
                self._reveals[key] = self._arranging(data)
            return self._reveals[key]
        if isinstance(data, StatefulAdversary):
            return StatefulAdversary(self.arrange(data.reveal), data.state)
        if isinstance(data, list) and 1 < len(self.parameters) == len(data):
            return self._keyed(tuple(map(plain, data)))
        return self._keyed(plain(data, self.keys.labels | {parameter.name() for parameter in self.fixed}))

    def _keyed(self, data: Any, check: bool = True) -> Any:
        refuse_unused(data, self.fixed, self.keys.labels)
        return self.keys.arranged(data, check) if self.parameters else data

    def for_data(self, stream: Any) -> Problem:
        """The model in which the parameters that the stream has data for change with the round; it is built once."""
        named = fixed_with_data(self.fixed, stream)
        if not named or self._chosen:  # a choice by per_round= stands: `arrange` refuses other data
            return self
        names = ", ".join(parameter.name() for parameter in named)
        if self.constraints is not self.written:
            raise ValueError(
                f"stream: got data for {names}, with a value in the model that was transformed; expected "
                f"per_round=[{names}] in from_cvxpy"
            )
        key = tuple(parameter.id for parameter in named)
        if key not in self._with_data:
            loss, constraints, domain, constants, binds = self._given
            chosen = [*self.parameters, *named]
            twin = Model(loss, constraints, domain, constants, chosen, binds, self._values_of_fixed)
            twin.notes.append(f"{names}: changes with the round, because the stream has data for it")
            self._with_data[key] = twin
        twin = self._with_data[key]
        return twin if self.constants is self._derived_constants else twin.with_constants(self.constants)

    def _arranging(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def chunk(start: int, length: int) -> Any:
            return self._keyed(function(start, length))

        def reveal(round: jax.Array, decision: jax.Array, key: jax.Array) -> Any:
            return self._keyed(function(round, self.present(decision), key), check=False)

        def reveal_with_state(state: Any, round: jax.Array, decision: jax.Array, key: jax.Array) -> Any:
            after, z = function(state, round, self.present(decision), key)
            return after, self._keyed(z, check=False)

        wrappers: dict[int, Callable[..., Any]] = {2: chunk, 3: reveal, 4: reveal_with_state}
        return wrappers.get(required_arguments(function), function)

    def estimate_constants(self, stream: Any, key: jax.Array, **options: Any) -> Constants:
        """These constants, with the estimated ones replaced by samples of the stream."""
        changed = self.for_data(stream)
        if changed is not self:
            return changed.estimate_constants(stream, key, **options)
        unknown = dict.fromkeys(self.constants.estimated) | {"strong_convexity": 0.0}
        unknown = {name: value for name, value in unknown.items() if name in self.constants.estimated}
        known = self.with_constants(self.constants.with_values(**unknown))  # type: ignore[arg-type]
        found = Problem.estimate_constants(known, stream, key, **options)
        if self.constraints is self.written and not all(is_smooth(one.expression) for one in self.excesses):
            found = found.with_values(constraint_smoothness=self.constants.constraint_smoothness)  # samples miss kinks
        return found

    def offline(self, stream: Stream, ends: tuple[int, ...], tolerance: float, rng: np.random.Generator) -> Any:
        """Hindsight solved from the expressions themselves; None if the generic route must be taken."""
        from .hindsight import solve

        return solve(self, stream, ends, tolerance, rng)

    def guessed(self, parts: list[Any], known: Range) -> bool:
        """Whether expressions contain a parameter whose range is a guess."""
        ends = np.cumsum([parameter.size for parameter in self.parameters])
        unsure = {
            p.id for p, end in zip(self.parameters, ends, strict=True) if np.any(known.guessed[end - p.size : end])
        }
        return any(parameter.id in unsure for part in parts for parameter in parameters_of(part))

    def fixed_value(self, parameter: Any) -> Array:
        """The value of a parameter that does not change with the round."""
        return np.asarray(self._values_of_fixed[parameter.id], float)

    def data_of(self, flat: Array) -> tuple[Array, ...]:
        """One round's data from a flat vector of all parameters."""
        ends = np.cumsum([parameter.size for parameter in self.parameters], dtype=int)
        return tuple(flat[end - p.size : end].reshape(p.shape) for p, end in zip(self.parameters, ends, strict=True))

    def _values(self, z: Any) -> dict[int, Any]:
        z = () if not self.parameters else z if isinstance(z, tuple) else self.keys.arranged(z, check=False)
        return self._values_of_fixed | {p.id: part for p, part in zip(self.parameters, z, strict=True)}

    @cached_property
    def _constants_for_fixed(self) -> dict[int, Any]:
        """A CVXPY constant for each parameter that does not change, by the parameter's `id()`."""
        return {id(parameter): cp.Constant(self._values_of_fixed[parameter.id]) for parameter in self.fixed}

    def _split(self, x: jax.Array) -> dict[int, jax.Array]:
        if len(self.variables) == 1 and x.shape == self.variables[0].shape:  # nothing to split
            return {self.variables[0].id: counted(self.variables[0], x)}
        flat = x.reshape(-1)
        return {v.id: shaped(v, flat[self.spans[v.id]]) for v in self.variables}

    def _loss(self) -> Callable[[jax.Array, Any], jax.Array]:
        value = translate(self.objective)

        def loss(x: jax.Array, z: Any) -> jax.Array:
            return value(self._split(x), self._values(z)).reshape(())

        return loss

    def _excess(self) -> Callable[..., list[jax.Array]]:
        rows = [row for one in self.excesses for row in one.rows]
        values = translate_all(rows)

        def excess(x: jax.Array, z: Any) -> list[jax.Array]:
            return values(self._split(x), self._values(z))

        def steady(x: jax.Array) -> list[jax.Array]:
            return values(self._split(x), self._values_of_fixed)

        return excess if any(self.changing(row) for row in rows) else steady

    def _summary(self) -> Summary:
        general = super()._summary()
        variables = ", ".join(f"{v.name()}{list(v.shape) if v.shape else ''}" for v in self.variables)
        facts = [("variables", variables), ("per round", self.keys.names or "nothing")]
        facts += [fact for fact in general.facts if fact[0] not in ("loss", "decision")]
        return Summary(general.title, facts, general.grids, self.notes)


def _stated(variables: list[Any]) -> tuple[Array, Array]:
    """The bounds in the variables' attributes, flat."""
    low, high = zip(*map(limits, variables), strict=True)
    return tuple(np.concatenate([np.ravel(edge) for edge in edges]) for edges in (low, high))  # type: ignore[return-value]


def _leaves(parts: list[Any], kind: str) -> list[Any]:
    """Variables or parameters in the order of their creation, which is also their position in a stream."""
    found = {leaf.id: leaf for part in parts for leaf in getattr(part, kind)()}
    return [found[key] for key in sorted(found)]

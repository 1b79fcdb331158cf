"""Problems from CVXPY expressions: convexity is proven, expressions are compiled, a bounding box is
the domain.

`from_cvxpy` is what users call. `Model` lists the stages between a user's expressions and a
problem; what they need is in the four folders beside this file.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..display import Summary
from ..engine import double_precision
from ..problem.constants import Constants
from ..problem.constraints import Constraints, UserConstraints
from ..problem.domains import Domain
from ..problem.feasibility import mark_feasible
from ..problem.problem import Problem
from .constants.constants import derived_constants, is_smooth, of_more_rows
from .constants.search import Probe
from .domains.atom_domains import atom_domains, check_atoms
from .domains.presolve import rows_to_play
from .domains.simple_domain import Detected, derived_domain
from .recourse.after_data import chosen_values
from .recourse.inner_minimum import InnerMinimum, bound_multipliers
from .remembering import RememberingModel
from .translation.attributes import shaped
from .translation.inequalities import Excess, excesses_of, row_names, stated_rows
from .translation.parameters import is_previous, parameter_range
from .translation.reading import parameters_of
from .translation.statement import Request, Statement
from .translation.translate import translate, translate_rows

NAMED = 1000
"""Entries of decisions with more entries have no names."""


def from_cvxpy(
    loss: Any,
    constraints: Sequence[Any] = (),
    domain: Domain | str | None = None,
    constants: Constants | None = None,
    per_round: Any = None,
    domain_binds: bool = False,
    recourse: Any = None,
    *,
    announced: Sequence[Any] = (),
    start: Any = None,
) -> Any:
    """The problem whose loss and constraints are CVXPY expressions.

    Arguments:
        loss: a scalar convex expression of variables and parameters, or an objective (`cp.Maximize`
            of a gain), or a whole `cp.Problem`.
        constraints: `<=`, `>=`, `==` (affine; played as pairs of inequalities, as in the paper),
            `>>` and `<<` (on an eigenvalue), second-order, exponential and power cones, also in
            nested lists. They may contain parameters that change with the round.
        domain: the set decisions are projected on, of the shape of the only variable or flat. By
            default it is derived from the constraints without per-round parameters: simplices,
            balls, l1 balls, equations within bounds and semidefinite matrices are recognised, and
            all other entries get the bounding box of the feasible set. With `domain="box"` all
            entries get the bounding box, and everything else is played as constraints.
        constants: known constants; the others are exact where loss or constraints are affine or
            quadratic, else upper bounds by interval arithmetic, or estimated where there are none.
        per_round: the parameters that change with the round, or their names (or the only one); by
            default those without a value. The others are fixed at the values they have now.
        domain_binds: whether the given domain is a constraint itself, not only a set that contains
            the feasible one. A domain that takes over variable attributes always is.
        recourse: the variables, or their names, that are chosen after the data of a round are
            known, such as epigraph and slack variables; see `taut.recourse`. By default those that
            have no bounds of their own and are in the loss and in constraints with data. A model
            that leaves the question open is refused; `[]` says that there are none.
        announced: constraints that are known before a round's decision is played, such as ramp
            limits around `taut.previous(x)` or a capacity that is announced; see `taut.Problem`.
            They do not count for the domain.
        start: for a model with `taut.previous(x)`, the decision before round 1, as an array or as a
            dict by name.

    Convexity is proven: models that disciplined convex programming does not accept are refused.
    Streams are keyed by parameter, by name or by position. With several variables, decisions are
    flat inside a run, and a dict by name in `taut.Player(...).decision` and `problem.present(...)`.
    `problem.notes` says how variable attributes and the domain are treated. `taut.previous(x)`
    stands for the decision of the round before.

    >>> import cvxpy as cp, numpy as np
    >>> x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    >>> game = from_cvxpy(c @ x, [cp.norm1(x) <= 1, x >= -0.5])
    >>> (
    ...     game.domain.lower.tolist(),
    ...     game.domain.upper.tolist(),
    ...     round(game.constants.loss_lipschitz, 6),
    ... )
    ([-0.5, -0.5], [1.0, 1.0], 1.414214)
    """
    arguments.flag("domain_binds", domain_binds)
    request = Request(
        loss, constraints, domain, constants, per_round, domain_binds, recourse, announced
    )
    model = Model(request)
    if any(map(is_previous, model.parameters)):
        return RememberingModel(model, start)
    if start is not None:
        raise ValueError(
            "start: got a decision for a model without taut.previous(x); expected it only with one"
        )
    return model


class Model(Statement, Problem):
    """A problem made from CVXPY expressions, which it keeps.

    `objective`, `stated`, `variables` and `parameters` (those that change with the round) are the
    user's own; `excesses` are what must not exceed zero, in the order of the constraints that are
    played.
    """

    proof_of_convexity = "disciplined convex programming"

    def __init__(self, request: Request) -> None:
        # Read the expressions, minimise out variables that are chosen after the data, and prove
        # convexity.
        Statement.__init__(self, request)
        self.request = request
        # Translate the loss, and turn constraints into expressions that must not exceed zero. All
        # are translated here, so that what cannot be is refused before anything is solved.
        loss, rows = self._loss(), stated_rows(self.stated, self.after.induced)
        self._rows(rows)
        conditions = atom_domains([self.objective, *self.stated], self.after.conditions)
        # Choose the set that decisions are projected on, and leave out the rows that hold on all
        # of it.
        domain = _domain(self, rows, [constraint for _, constraint in conditions])
        known = parameter_range(self, domain.domain)
        if InnerMinimum in self.objective.atoms():
            bound_multipliers(self, known)
        self._played = played = rows_to_play(self, rows, domain, known, request.play_implied)
        self.excesses, self.proof_of_domain = played.excesses, domain.proof
        self.notes: list[str] = [*self.after.notes, *domain.notes, *played.notes]
        finite = [row for _, each in conditions for row in excesses_of(each)]
        self._implied = [
            row for row in (*played.implied, *finite) if not self.changing(row.expression)
        ]
        self.count = sum(row.size for excess in self.excesses for row in excess.rows)
        few = self.count <= NAMED
        Problem.__init__(
            self,
            loss,
            self._constraints(self.excesses),
            domain.domain,
            None,
            # A derived domain contains the feasible set, so that it stands for the rows that are
            # left out. A given domain may be smaller than the feasible set.
            request.domain_binds or played.unseen or bool(domain.proof),
            constraint_names=row_names(self.excesses) if few else None,
            coordinate_names=self.entries if self.size <= NAMED else None,
            announced=self._rows(self.announced_rows) if self.announced_rows else None,
        )
        if isinstance(self.announced, UserConstraints):
            self.announced_count = sum(
                row.size for each in self.announced_rows for row in each.rows
            )
            if few:
                self.announced = replace(self.announced, names=row_names(self.announced_rows))
        self.written: Constraints = self.constraints
        """The constraints before any transform."""
        # Evaluate loss and rows at many points, to check that atoms are defined on the whole
        # domain, and to complete the user's constants.
        with double_precision():
            probe = Probe(self, known)
            self.notes += check_atoms(probe, conditions)
            derived = derived_constants(probe, request.constants or Constants())
        self.constants = derived.constants
        self.derived_constants = derived.constants
        """The constants before the user replaced any."""
        self.notes += derived.notes
        if derived.feasible:
            mark_feasible(self)

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
        """The decision with the parts that `present` gives, by name or as an array."""
        if not isinstance(decision, Mapping):
            only = _array(decision)
            if len(self.variables) > 1 or np.shape(only) != self.variables[0].shape:
                return only  # flat, as decisions are inside a run
            decision = {self.variables[0].name(): only}
        parts = {name: _array(part) for name, part in decision.items()}
        wanted = {variable.name(): variable.shape for variable in self.variables}
        shapes = {name: np.shape(part) for name, part in parts.items()}
        if shapes != wanted:
            raise ValueError(f"decision: got parts of the shapes {shapes}; expected {wanted}")
        return np.concatenate([np.ravel(parts[name]) for name in wanted]).reshape(self.domain.shape)

    def arrange(self, data: Any) -> Any:
        """Data keyed by parameter, name or position, as the tuple that loss and constraints take.

        Their shapes and the parameters' attributes, on which convexity rests, are checked.
        """
        return self.keys.stream(data, self.present)

    def arrange_announced(self, data: Any) -> Any:
        """Data keyed likewise, at least those of the parameters in announced constraints."""
        return self.keys.announced(data, self.announced_parameters)

    @cached_property
    def announced_parameters(self) -> frozenset[int]:
        """The ids of the parameters in announced constraints."""
        used = [p for row in self.announced_rows for p in parameters_of(row.expression)]
        return frozenset(parameter.id for parameter in used)

    def all_rows(self) -> Problem:
        """The model in which rows that are part of the domain are played like all others, unless
        they are equations.

        Transforms that change the right-hand side, such as `taut.tightened`, need them.
        """
        if self.constraints is not self.written or not self._played.left_out:
            return self
        twin = self._with_all_rows
        if self.constants is self.derived_constants:
            return twin
        return twin.with_constants(
            of_more_rows(twin.constants, self.constants, self.derived_constants)
        )

    @cached_property
    def _with_all_rows(self) -> Model:
        twin = Model(
            self.request._replace(
                values=self.values_of_fixed,
                domain=self.domain,
                per_round=self.parameters or self.request.per_round,
                domain_binds=bool(self.domain_binds),
                play_implied=True,
            )
        )
        twin.proof_of_domain = self.proof_of_domain
        return twin

    def as_stated(self) -> Problem:
        """The model with all stated constraints, also those that hold on the whole domain."""
        if not self._played.left_out and not self._implied:
            return self
        twin = copy.copy(self)
        rows = [
            row
            for row in (*self._played.stated, *self._implied)
            if self.constraints.takes_data or not self.changing(row.expression)
        ]
        twin.constraints = UserConstraints.of(self._constraints(rows))
        twin.programs = None
        return twin

    @cached_property
    def with_own_previous(self) -> Model:
        """The model in which variables stand in the place of their previous values."""
        places = {id(p): p._taut_variable for p in self.parameters if is_previous(p)}
        others = [parameter for parameter in self.parameters if not is_previous(parameter)]
        return Model(
            Request(
                self.objective.tree_copy(dict(places)),
                [constraint.tree_copy(dict(places)) for constraint in self.stated],
                self.domain,
                per_round=others or None,
                domain_binds=bool(self.domain_binds),
                recourse=[],
            )
        )

    def estimate_constants(self, stream: Any, key: jax.Array, **options: Any) -> Constants:
        """These constants, with the estimated ones replaced by samples of the stream."""
        unknown: dict[str, Any] = dict.fromkeys(self.constants.estimated)
        if "strong_convexity" in unknown:
            unknown["strong_convexity"] = 0.0
        known = self.with_constants(self.constants.with_values(**unknown))
        estimated = Problem.estimate_constants(known, stream, key, **options)
        smooth = all(is_smooth(excess.expression) for excess in self.excesses)
        if smooth or self.constraints is not self.written:
            return estimated
        # Samples miss kinks.
        return estimated.with_values(constraint_smoothness=self.constants.constraint_smoothness)

    def recourse_values(self, decision: Any, data: Any) -> dict[str, Any]:
        """The values, by name, of the variables that are chosen after the data of one round."""
        x = jnp.asarray(self.assemble(decision), float).reshape(self.domain.shape)
        leaves = self.variable_values(x), self.parameter_values(self.arrange(data))
        if self.after.program is not None:
            loss, constraints = self.after.program
            return chosen_values(loss, constraints, list(self.after.values), leaves[0] | leaves[1])
        return {
            variable.name(): np.asarray(translate(value)(*leaves))
            for variable, value in self.after.values.items()
        }

    def _loss(self) -> Callable[[jax.Array, Any], jax.Array]:
        value = translate(self.objective)

        def loss(x: jax.Array, z: Any) -> jax.Array:
            return value(self.variable_values(x), self.parameter_values(z)).reshape(())

        return loss

    def _constraints(self, excesses: list[Excess]) -> Callable[..., list[jax.Array]]:
        values = self._rows(excesses)
        changing = any(self.changing(excess.expression) for excess in excesses)
        return values if changing else lambda x: values(x, None)

    def _rows(self, excesses: list[Excess]) -> Callable[[jax.Array, Any], list[jax.Array]]:
        values = translate_rows([row for excess in excesses for row in excess.rows])

        def rows(x: jax.Array, z: Any) -> list[jax.Array]:
            return values(self.variable_values(x), self.parameter_values(z))

        return rows

    def _summary(self) -> Summary:
        general = super()._summary()
        variables = ", ".join(
            f"{v.name()}{list(v.shape) if v.shape else ''}" for v in self.variables
        )
        facts = [("variables", variables), ("per round", self.keys.names or "nothing")]
        facts += [fact for fact in general.facts if fact[0] not in ("loss", "decision")]
        return Summary(general.title, facts, general.grids, self.notes)


def _domain(model: Model, rows: list[Excess], conditions: list[Any]) -> Detected:
    """The domain that the user gives, checked, or one that is derived from the constraints."""
    domain = model.request.domain
    if domain is None or isinstance(domain, str):
        if domain not in (None, "box"):
            raise ValueError(
                f'domain: got {domain!r}; expected "box" or a taut domain such as taut.Box(0, 1, '
                "shape=2)"
            )
        finite = [condition for condition in conditions if condition.variables()]
        chosen = derived_domain(model, rows, finite, box_only=domain == "box")
    elif isinstance(domain, Domain):
        chosen = Detected(domain, {}, set(), [], "")
    else:
        raise TypeError(
            f"domain: got {domain!r}; expected a taut domain such as taut.Box(0, 1, shape=2)"
        )
    if chosen.domain.shape not in ((model.size,), model.decision_shape):
        raise ValueError(
            f"domain: got decisions of shape {chosen.domain.shape}; expected {model.decision_shape}"
        )
    return chosen


def _array(value: Any) -> Any:
    """CVXPY's values of diagonal variables are sparse."""
    return value.toarray() if hasattr(value, "toarray") else value

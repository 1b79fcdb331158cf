"""Problems from CVXPY expressions: convexity is proven, expressions are compiled, a bounding box is
the domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np

from ..display import Summary
from ..engine import Array, double_precision
from ..problem.constants import Constants
from ..problem.constraints import Constraints, UserConstraints
from ..problem.domains import Domain
from ..problem.feasibility import mark_feasible
from ..problem.problem import Problem
from ..problem.streams import Stream
from .constants.constants import (
    deepest,
    is_smooth,
    model_constants,
    parameter_range,
    polynomial_loss,
)
from .constants.evaluation import Probe
from .domains.atom_domains import atom_domains, check_atoms
from .domains.bounding_box import outwards
from .domains.derived_domain import derived
from .domains.presolve import without_implied
from .recourse.after_data import chosen_values, without_recourse
from .recourse.inner_minimum import prepare
from .translation.announced import announced_rows, refuse_unknown
from .translation.atoms.table import refuse_unsupported
from .translation.attributes import is_symmetric, pattern, value_of
from .translation.constraint_names import label_of, row_names
from .translation.dcp import checked, is_parametrized
from .translation.decisions import Decisions
from .translation.flat_copy import FlatCopy
from .translation.inequalities import Excess, excesses, excesses_of
from .translation.parameters import Keys, guess_notes
from .translation.per_round import chosen_parameters, fixed_with_data
from .translation.previous import RememberingModel, is_previous
from .translation.round_data import RoundData
from .translation.translate import translate, translate_all, translate_rows

__all__ = ["Model", "from_cvxpy"]


NAMED = 1000
"""Entries of decisions with more entries have no names."""
CONTRADICTION = 1e-6
"""Constraints are contradictory if the least-violating decision exceeds them by more than this,
relatively."""


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
            default those without a value, and those that a stream has data for. The others are
            fixed at the values they have now.
        domain_binds: whether the given domain is a constraint itself, not only a set that contains
            the decisions that satisfy all constraints and variable attributes.
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
    model = Model(
        loss, constraints, domain, constants, per_round, domain_binds, recourse, announced=announced
    )
    if any(map(is_previous, model.parameters)):
        return RememberingModel(model, Model, start)
    if start is not None:
        raise ValueError(
            "start: got a decision for a model without taut.previous(x); expected it only with one"
        )
    return model


class Model(RoundData, Decisions, Problem):
    """A problem made from CVXPY expressions, which it keeps.

    `objective`, `stated`, `variables` and `parameters` (those that change with the round) are the
    user's own; `excesses` are what must not exceed zero, in the order of the constraints that are
    played.
    """

    proof_of_convexity = "disciplined convex programming"

    def __init__(
        self,
        loss: Any,
        constraints: Sequence[Any] = (),
        domain: Domain | str | None = None,
        constants: Constants | None = None,
        per_round: Any = None,
        domain_binds: bool = False,
        recourse: Any = None,
        values: Mapping[int, Array] | None = None,
        play_all: bool = False,
        announced: Sequence[Any] = (),
    ) -> None:
        self.after = after = without_recourse(loss, constraints, recourse, per_round, values)
        self.objective, self.stated = checked(after.loss, after.constraints)
        self.announced_rows = announced_rows(announced, self.recourse)
        """What must not exceed zero and is known before a decision is played."""
        parts = [self.objective, *self.stated]
        self.variables = _leaves(parts, "variables")
        refuse_unknown(self.announced_rows, self.variables)
        every = _leaves([*parts, *(one.expression for one in self.announced_rows)], "parameters")
        # Values that are assigned later have no effect: loss, domain and hindsight must use the
        # same numbers.
        known: dict[int, Any] = {
            p.id: value_of(p) if values is None else values.get(p.id) for p in every
        }
        self.parameters = chosen_parameters(every, per_round, known)
        self.keys = Keys(self.parameters)
        self.fixed = [
            parameter for parameter in every if not any(parameter is one for one in self.parameters)
        ]
        self._values_of_fixed: dict[int, Any] = {
            parameter.id: known[parameter.id] for parameter in self.fixed
        }
        self._given = (loss, constraints, domain, constants, domain_binds, recourse)
        self._announced = announced
        self._chosen = per_round is not None
        self._with_data: dict[tuple[int, ...], Model] = {}
        self.parametrized = is_parametrized(self.objective, self.stated, self._constants_for_fixed)
        self.size = sum(variable.size for variable in self.variables)
        self.notes: list[str] = after.notes
        if not self.parametrized:
            self.notes.append(
                "parameters are multiplied by one another or enter a matrix of a quadratic form "
                "(not DPP): hindsight solves the sum of the losses, not one program of all "
                "rounds, unless they are quadratic"
            )
        rows = [  # refuses unsupported constraints
            row._replace(label=label_of(one, position), induced=one.id in after.induced)
            for position, one in enumerate(self.stated, 1)
            for row in excesses_of(one)
        ]
        for part in (self.objective, *self.stated):
            refuse_unsupported(part)
        atoms = atom_domains([self.objective, *self.stated], after.conditions)
        held, semidefinite = dict[int, Array](), set[int]()
        if domain is None or isinstance(domain, str):
            domain, held, semidefinite, found = derived(
                self, rows, [one for _, one in atoms if one.variables()], _is_box(domain)
            )
            self.notes += found
        self._check_domain(domain)
        self.excesses, bounds, notes = excesses(
            self.variables, rows, domain, self.spans, semidefinite
        )
        self.excesses, self._unplayed, left_out = without_implied(
            self, self.excesses, domain, held, play_all
        )
        self.notes += notes + left_out
        self.notes += [
            f"{one.label}: an equation with data of the round, played as two inequalities. No "
            "fixed decision need satisfy it in "
            "all rounds: measure regret against taut.hindsight(problem, stream, "
            'comparator="per-round")'
            for one in self.excesses
            if one.equality and self.changing(one.expression)
        ]
        self.count = sum(row.size for one in self.excesses for row in one.rows)
        self._reveals: dict[Any, Any] = {}
        self.inner: Array | None = None
        """The flat decision that satisfies all constraints by the largest margin, if there is a
        margin."""
        # Loss and constraints do not see whether a matrix is symmetric, or has its zeros.
        unseen = any(is_symmetric(one) or not np.all(pattern(one)) for one in self.variables)
        binds = domain_binds or unseen or bool(self.proof_of_domain)
        known_before = self._rows(self.announced_rows) if self.announced_rows else None
        super().__init__(
            self._loss(),
            self._excess(),
            domain,
            None,
            binds,
            coordinate_names=list(map(self.entry, range(self.size)))
            if self.size <= NAMED
            else None,
            announced=known_before,
        )
        if self.count <= NAMED:
            self.constraint_names = tuple(row_names(self.excesses))
        self.written: Constraints = self.constraints
        """The constraints before any transform."""
        if not self.proof_of_domain:
            self.implied = self._implied([*bounds, *self._unplayed], atoms)
        self.constants = self._constants(constants or Constants(), atoms)
        self._derived_constants = self.constants

    def _check_domain(self, domain: Any) -> None:
        if not isinstance(domain, Domain):
            raise TypeError(
                f"domain: got {domain!r}; expected a taut domain such as taut.Box(0, 1, shape=2)"
            )
        if domain.shape not in ((self.size,), self._shape()):
            raise ValueError(
                f"domain: got decisions of shape {domain.shape}; expected {self._shape()}"
            )
        prepare(self, domain)  # programs that are solved in every round

    def all_rows(self) -> Problem:
        """The model in which rows that are part of the domain are played like all others, unless
        they are equations.

        Transforms that change the right-hand side, such as `taut.tightened`, need them.
        """
        if self.constraints is not self.written or all(one.equality for one in self._unplayed):
            return self
        if () not in self._with_data:
            loss, constraints, _, constants, binds, recourse = self._given
            chosen = self.parameters if self._chosen or self.parameters else None
            self._with_data[()] = Model(
                loss,
                constraints,
                self.domain,
                constants,
                chosen,
                binds,
                recourse,
                self._values_of_fixed,
                True,
                self._announced,
            )
            self._with_data[()].proof_of_domain = self.proof_of_domain
        return self._with_data[()]._with_known(self)

    def _with_known(self, stated: Model) -> Problem:
        """This model, which plays more rows than `stated`, with the constants that the user gave
        that one.

        What bounds all rows must hold for the new ones, too: the larger of both bounds, the smaller
        of both margins.
        """
        given, derived, own = stated.constants, stated._derived_constants, self.constants
        if given is derived:
            return self
        changed: dict[str, Any] = {}
        for name in ("loss_lipschitz", "loss_range", "strong_convexity"):
            if getattr(given, name) != getattr(derived, name):
                changed[name] = getattr(given, name)
        for name, safer in (
            ("constraint_lipschitz", max),
            ("constraint_range", max),
            ("slater", min),
        ):
            numbers = getattr(given, name), getattr(own, name)
            if (
                numbers[0] != getattr(derived, name)
                and None not in numbers
                and safer(numbers) != numbers[1]
            ):
                changed[name] = numbers[0]
        return self.with_constants(own.with_values(**changed)) if changed else self

    def as_played(self, played: Problem | None) -> Problem:
        """The form of this model that a run played, if its stream had data for parameters with a
        value."""
        same = isinstance(played, Model) and all(played._given[k] is self._given[k] for k in (0, 1))
        return (
            played
            if same and isinstance(played, Model) and len(played.parameters) > len(self.parameters)
            else self
        )

    def _constants(self, given: Constants, atoms: list[tuple[Any, Any]]) -> Constants:
        """Complete the user's constants. Also checks the domains of atoms, and finds the curvature
        and a Slater point."""
        if not isinstance(given, Constants):
            raise TypeError(f"constants: got {given!r}; expected taut.Constants(...)")
        if given.constraint_count not in (None, self.count):
            raise ValueError(
                f"constraint_count: got {given.constraint_count}; expected {self.count}, what "
                "constraints gives"
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
            self.curvature = (
                np.zeros((self.size,) * 2)
                if loss.bend is None
                else loss.bend[0, : self.size, : self.size]
            )
        if self.constraints.takes_data:
            return known
        depth, point = deepest(self, self.excesses)
        if depth > CONTRADICTION * max(1.0, known.constraint_range or 1.0):
            raise ValueError(
                f"constraints: got max_i g_i(x) >= {depth:.6g} > 0 for all x of the domain; "
                "expected a domain with a feasible decision"
            )
        if np.isfinite(depth):
            mark_feasible(self)
        room = -outwards(depth, 1.0)
        if not 1e-7 < room < np.inf:
            return known
        self.inner = point
        return known.merged(Constants().with_values(exact=True, slater=room))

    def flat_copy(self, scaled: bool = False) -> FlatCopy:
        """Copies of the expressions over one flat decision, or over one in units of the radius
        around the centre."""
        fixed = self._constants_for_fixed
        if not scaled:
            return FlatCopy(self.variables, self.parameters, fixed)
        scale = float(self.domain.radius) or 1.0
        return FlatCopy(
            self.variables, self.parameters, fixed, np.asarray(self.domain.centre, float), scale
        )

    def for_data(self, stream: Any) -> Problem:
        """The model in which the parameters that the stream has data for change with the round; it
        is built once."""
        named = fixed_with_data(self.fixed, stream)
        if not named or self._chosen:  # a choice by per_round= stands: `arrange` refuses other data
            return self
        names = ", ".join(parameter.name() for parameter in named)
        if self.constraints is not self.written:
            raise ValueError(
                f"stream: got data for {names}, with a value in the model that was transformed; "
                f"expected per_round=[{names}] in from_cvxpy"
            )
        key = tuple(parameter.id for parameter in named)
        if key not in self._with_data:
            loss, constraints, domain, constants, binds, recourse = self._given
            chosen = [*self.parameters, *named]
            twin = Model(
                loss,
                constraints,
                domain,
                constants,
                chosen,
                binds,
                recourse,
                self._values_of_fixed,
                False,
                self._announced,
            )
            twin.notes.append(
                f"{names}: changes with the round, because the stream has data for it"
            )
            self._with_data[key] = twin
        twin = self._with_data[key]
        return (
            twin
            if self.constants is self._derived_constants
            else twin.with_constants(self.constants)
        )

    def estimate_constants(self, stream: Any, key: jax.Array, **options: Any) -> Constants:
        """These constants, with the estimated ones replaced by samples of the stream."""
        changed = self.for_data(stream)
        if changed is not self:
            return changed.estimate_constants(stream, key, **options)
        unknown = dict.fromkeys(self.constants.estimated) | {"strong_convexity": 0.0}
        unknown = {
            name: value for name, value in unknown.items() if name in self.constants.estimated
        }
        known = self.with_constants(self.constants.with_values(**unknown))  # type: ignore[arg-type]
        found = Problem.estimate_constants(known, stream, key, **options)
        if self.constraints is self.written and not all(
            is_smooth(one.expression) for one in self.excesses
        ):
            found = found.with_values(
                constraint_smoothness=self.constants.constraint_smoothness
            )  # samples miss kinks
        return found

    def offline(
        self, stream: Stream, ends: tuple[int, ...], tolerance: float, rng: np.random.Generator
    ) -> Any:
        """Hindsight solved from the expressions themselves; None if the generic route must be
        taken."""
        from .hindsight import solve

        return solve(self, stream, ends, tolerance, rng)

    @cached_property
    def _constants_for_fixed(self) -> dict[int, Any]:
        """A CVXPY constant for each parameter that does not change, by the parameter's `id()`."""
        return {
            id(parameter): cp.Constant(self._values_of_fixed[parameter.id])
            for parameter in self.fixed
        }

    @property
    def recourse(self) -> dict[Any, Any]:
        """For each variable that is chosen after the data, its best value as an expression of
        decision and data.

        It is None if a program is solved for the value.
        """
        return self.after.values

    def recourse_values(self, decision: Any, data: Any) -> dict[str, Any]:
        """The values, by name, of the variables that are chosen after the data of one round."""
        decision, data = jnp.asarray(self.assemble(decision), float), self.arrange(data)
        leaves = self._split(decision.reshape(self.domain.shape)), self._values(data)
        if self.after.program is not None:
            loss, constraints = self.after.program
            return chosen_values(loss, constraints, list(self.recourse), leaves[0] | leaves[1])
        found = translate_all(list(self.recourse.values()))(*leaves)
        names = [variable.name() for variable in self.recourse]
        return {name: np.asarray(value) for name, value in zip(names, found, strict=True)}

    def _loss(self) -> Callable[[jax.Array, Any], jax.Array]:
        value = translate(self.objective)

        def loss(x: jax.Array, z: Any) -> jax.Array:
            return value(self._split(x), self._values(z)).reshape(())

        return loss

    def _excess(self) -> Callable[..., list[jax.Array]]:
        values = self._rows(self.excesses)

        def steady(x: jax.Array) -> list[jax.Array]:
            return values(x, None)

        return values if any(self.changing(one.expression) for one in self.excesses) else steady

    def _implied(self, excesses: list[Excess], atoms: list[tuple[Any, Any]]) -> Constraints | None:
        """What holds on the whole domain and does not change with the round; None if nothing does.

        Arguments:
            excesses: rows and bounds of variables that are not played.
            atoms: atoms with the constraints without which they are not defined.
        """
        stated = [*excesses, *(one for _, atom in atoms for one in excesses_of(atom))]
        steady = [one for one in stated if not self.changing(one.expression)]
        values = self._rows(steady)
        return UserConstraints.of(lambda x: values(x, None)) if steady else None

    def _rows(self, excesses: list[Excess]) -> Callable[[jax.Array, Any], list[jax.Array]]:
        values = translate_rows([row for one in excesses for row in one.rows])

        def rows(x: jax.Array, z: Any) -> list[jax.Array]:
            return values(self._split(x), self._values_of_fixed if z is None else self._values(z))

        return rows

    def _summary(self) -> Summary:
        general = super()._summary()
        variables = ", ".join(
            f"{v.name()}{list(v.shape) if v.shape else ''}" for v in self.variables
        )
        facts = [("variables", variables), ("per round", self.keys.names or "nothing")]
        facts += [fact for fact in general.facts if fact[0] not in ("loss", "decision")]
        return Summary(general.title, facts, general.grids, self.notes)


def _is_box(domain: str | None) -> bool:
    if domain not in (None, "box"):
        raise ValueError(
            f'domain: got {domain!r}; expected "box" or a taut domain such as taut.Box(0, 1, '
            "shape=2)"
        )
    return domain == "box"


def _leaves(parts: list[Any], kind: str) -> list[Any]:
    """Variables or parameters in the order of their creation, which is also their position in a
    stream."""
    found = {leaf.id: leaf for part in parts for leaf in getattr(part, kind)()}
    return [found[key] for key in sorted(found)]

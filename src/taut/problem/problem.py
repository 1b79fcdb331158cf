"""A problem: loss, constraints, domain and constants. It knows nothing of learners."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..display import Displayed, Grid, Summary, counted, number
from ..engine import Array, default_float, notice_precision, random_key
from .constants import SYMBOLS, Constants, checked_constants
from .constraints import Constraints, JoinedConstraints, UserConstraints
from .domains import Domain
from .rounds import FullInformation
from .streams import RoundData, as_stream, required_arguments
from .tables import check_order, labels_of, looks_up_names, plain
from .tracing import traced

if TYPE_CHECKING:
    from ..judge.facts.find import Facts


class Problem(Displayed):
    r"""An online problem: in every round a decision x_t in B is played, then f_t(x) = loss(x, z_t)
    is revealed.

    Every decision should satisfy g(x_t) <= 0.

    Arguments:
        loss: `loss(x, z)`, scalar and convex in x, written in `jax.numpy`.
        constraints: `constraints(x)`, or `constraints(x, z)` if they change from round to round: a
            scalar, a vector or several arrays, convex in x. Feasible means that every entry is at
            most 0. A dict of arrays, or a dict of such functions, names the constraints.
        domain: B, which contains the feasible set and is cheap to project on. Decisions have its
            shape.
        constants: known constants; those that follow from the domain are added, the others can be
            estimated.
        domain_binds: whether the domain is a constraint itself (limits that are always enforced),
            not only a set that contains the feasible one.
        constraint_names: names of the values of `constraints`, for tables and figures; by default
            the keys if it returns a dict, in the order of the dict. Announced constraints have the
            names of their own dict.
        coordinate_names: names of the entries of a decision, for example the columns of a table.
        previous: whether loss and constraints also depend on the decision of the round before. The
            loss is then `loss(x, z, previous)`, convex in x and previous together, and constraints
            may take `(x, z, previous)` too; both may leave out trailing arguments that they do not
            use. Learners see the previous decision as data of the round.
        start: with `previous=True`, the decision before round 1; by default the first decision
            itself.
        announced: constraints that are known before a round's decision is played, with the same
            arguments as `constraints`: ramp limits around the previous decision, or a capacity that
            is announced. Learners of the half-space family move into them before they play; other
            learners are refused. They are scored like all constraints, after the others. All
            constraints may be announced: `constraints` is then None.

    Gradients come from automatic differentiation.

    >>> import jax.numpy as jnp, taut
    >>> toy = taut.Problem(
    ...     lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    ... )
    >>> toy.constants.radius, toy.constants.constraint_count
    (1.0, 1)
    """

    proof_of_convexity: str = ""
    """How convexity of loss and constraints was proved; empty if it is only assumed."""
    proof_of_domain: str = ""
    """How it was proved that the domain contains the feasible set; empty if it is only assumed."""
    previous: bool = False
    """Whether loss and constraints take `RoundData(z, previous)`."""
    start: Array | None = None
    """The decision before round 1, for a problem with memory; by default the first decision."""
    announced: Constraints | None = None
    """Constraints that are known before a round's decision is played."""
    announced_count: int | None = None
    """The number of announced constraints, if it is known without the data of a round."""
    own_rest: Problem | None = None
    """The problem that `taut.steady` returned, if it was not made from loss and constraints."""
    domain: Domain
    _named: tuple[tuple[Any, ...], tuple[str, ...] | None] | None = None
    """What `names_for` returned last, with the functions and shapes that it belongs to."""
    programs: Any = None
    """Programs compiled for this problem, which are freed with it (see `programs.py`)."""

    def __init__(
        self,
        loss: Callable[..., Any],
        constraints: Callable[..., Any] | Constraints | None,
        domain: Domain,
        constants: Constants | None = None,
        domain_binds: bool = False,
        *,
        constraint_names: Sequence[str] | None = None,
        coordinate_names: Sequence[str] | None = None,
        previous: bool = False,
        start: Any = None,
        announced: Callable[..., Any] | None = None,
    ) -> None:
        notice_precision()
        if not isinstance(previous, bool):
            raise TypeError(
                f"previous: got {arguments.shown(previous)}; expected True or False. The decision "
                "before round 1 is start=..."
            )
        taken = _check_loss(loss, previous)
        if not isinstance(domain, Domain):
            raise TypeError(
                f"domain: got {arguments.shown(domain)}; expected a taut domain such as "
                "taut.Ball(1.0, shape=2)"
            )
        constants = Constants() if constants is None else checked_constants(constants)
        arguments.flag("domain_binds", domain_binds)
        self.previous = previous
        self.loss: Callable[[jax.Array, Any], Any] = (
            LossWithPrevious(loss, taken == 3) if previous else loss
        )
        names = _names("constraint_names", constraint_names, None)
        only = constraints is None and announced is not None
        if announced is not None:
            named = names if only else None
            self.announced = UserConstraints.of(announced, previous, "announced", named)
        if only:
            constraints = _NOTHING
        elif isinstance(constraints, Constraints) and names is not None:
            raise TypeError(
                f"constraint_names: got {len(names)} names for constraints of the class "
                f"{type(constraints).__name__}; expected None, because they have names of their own"
            )
        self.constraints = (
            constraints
            if isinstance(constraints, Constraints)
            else UserConstraints.of(constraints, previous, names=names)
        )
        self.domain = domain
        self.start = _start(domain, previous, start)
        self.domain_binds = domain_binds
        _check_announced(self)
        self.constants = _completed(self, constants)
        self.coordinate_names = _names(
            "coordinate_names", coordinate_names, math.prod(domain.shape)
        )

    def round(self, data: Any, previous: Any = None) -> FullInformation:
        """Return the round in which `data` is revealed, after the decision `previous`."""
        if self.previous and previous is not None:
            data = RoundData(data, previous)
        return FullInformation(self.loss, self.constraints, self.domain, data)

    def given(self, data: Any, previous: Any) -> Any:
        """Return the second argument of loss and constraints: data, perhaps with `previous`."""
        return RoundData(data, previous) if self.previous else data

    @property
    def scored_constraints(self) -> Constraints:
        """All constraints by which decisions are scored: `constraints`, then the announced ones."""
        if self.announced is None:
            return self.constraints
        if self.constraints is _NOTHING:
            return self.announced
        return JoinedConstraints(self.constraints, self.announced)

    @property
    def constraint_names(self) -> tuple[str, ...] | None:
        """The names of all constraints by which decisions are scored, announced ones last.

        None if they have none, or if the names come with the values of functions that take data;
        `names_for` returns those.
        """
        scored = self.scored_constraints
        if scored.takes_data:
            return scored.row_names()
        return self.names_for(jax.ShapeDtypeStruct(self.domain.shape, default_float()), None)

    def names_for(self, x: Any, z: Any) -> tuple[str, ...] | None:
        """Return the names of all scored constraints, for a decision and data (with the previous
        decision, if needed) of these shapes and types; None if there are none."""
        z = z if self.scored_constraints.takes_data else None
        leaves, structure = jax.tree.flatten((x, z))
        shapes = (structure, *((leaf.shape, leaf.dtype) for leaf in leaves))
        about = (self.constraints, self.announced, shapes)
        if self._named is None or not all(map(_same, about, self._named[0])):
            shaped = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (x, z))
            self._named = about, self.scored_constraints.row_names(*shaped)
        return self._named[1]

    def whole(self) -> Problem:
        """Return the problem with announced constraints like all others, without constants."""
        if self.announced is None:
            return self
        twin = copy.copy(self)
        twin.constraints, twin.announced, twin.programs = self.scored_constraints, None, None
        names = (
            "constraint_lipschitz",
            "constraint_range",
            "constraint_smoothness",
            "constraint_count",
            "slater",
            "error_bound",
        )
        unknown: dict[str, Any] = dict.fromkeys(names)
        twin.constants = _completed(twin, replace(self.constants, **unknown, gap=0.0))
        return twin

    def at_rest(self, loss: Callable[[jax.Array, Any], Any], constraints: Constraints) -> Problem:
        """Return the problem without memory that `taut.steady` describes, with these functions."""
        twin = copy.copy(self)
        twin.loss, twin.constraints = loss, constraints
        twin.previous, twin.start, twin.announced, twin.programs = False, None, None, None
        count = None if self.announced is not None else self.constants.constraint_count
        twin.constants = _completed(
            twin, Constants(radius=self.constants.radius, constraint_count=count)
        )
        return twin

    def arrange(self, data: Any) -> Any:
        """Convert a user's data to what loss and constraints take: tables and lists of numbers
        become arrays.

        Models written in CVXPY key the data by parameter.
        """
        if type(data) is np.ndarray:
            return data
        check_order(data, self.coordinate_names)
        names = labels_of(data)
        return plain(data, names if names and self._takes_names else ())

    @cached_property
    def _takes_names(self) -> bool:
        """Whether loss or constraints look up data by name, as in `z["demand"]`."""
        x = jax.ShapeDtypeStruct(self.domain.shape, default_float())
        parts = (self.loss, self.scored_constraints.values)
        return any(looks_up_names(part, x, self.given) for part in parts)

    def arrange_announced(self, data: Any) -> Any:
        """Convert the data of one round that are known before it. Models written in CVXPY need only
        the parameters that announced constraints use."""
        return self.arrange(data)

    def all_rows(self) -> Problem:
        """Return the problem with all rows; CVXPY models leave out those of the domain."""
        return self

    def as_stated(self) -> Problem:
        """Return the problem with all constraints that describe the feasible set, also those that
        hold on the whole domain and are therefore not played."""
        return self

    def present(self, decision: Array) -> Any:
        """Convert a decision for the user. Models written in CVXPY name its parts."""
        return decision

    def assemble(self, decision: Any) -> Any:
        """Convert a user's decision to an array: the inverse of `present`. Its entries may be given
        by their names, as a dict or a row of a table."""
        names, named = self.coordinate_names, isinstance(decision, Mapping)
        if names is None or not (named or labels_of(decision)):
            return decision
        if sorted(decision.keys()) != sorted(names):
            raise ValueError(
                f"decision: got the entries {', '.join(map(str, decision.keys()))}; expected "
                f"{', '.join(names)}"
            )
        return np.reshape([decision[name] for name in names], self.domain.shape)

    def estimate_constants(
        self,
        stream: Any,
        key: jax.Array,
        *,
        horizon: int | None = None,
        seeds: int | None = None,
        samples: int = 512,
    ) -> Constants:
        """Estimate unknown constants from samples of the domain and the stream. They are marked as
        estimated.

        A sampled maximum is a lower bound on the true one, so a certificate shows the mark.
        """
        from .estimation import estimate

        notice_precision()
        key = random_key("key", key)
        known = estimate(
            self,
            as_stream(self.arrange(stream), horizon=horizon, seeds=seeds),
            key,
            arguments.count("samples", samples, most=10**7),
        )
        return self.constants.merged(known)

    def facts(
        self, stream: Any = None, *, horizon: int | None = None, seeds: int | None = None
    ) -> Facts:
        """Prove what can be proven of the problem before a run: print the result to see it.

        Facts are Lipschitz constants, ranges, convexity, a Slater point, an error bound and the
        number of half-spaces that the constraints consist of. Certificates and `taut.recommend` use
        them. They come from the traced program and the domain; those of losses, and of constraints
        that change, also need the data, `horizon` and `seeds` as in `taut.simulate`. If they depend
        on the previous decision (`previous=True`), they are proven for a certificate only.
        """
        from ..judge.facts.find import facts_of
        from .compatibility import count_constraints, first_decision, round_shapes

        notice_precision()
        if stream is None:
            return facts_of(self)
        source = as_stream(self.arrange(stream), horizon=horizon, seeds=seeds)
        if not source.reacts:
            x = first_decision(self, None)
            count_constraints(self, x, self.given(round_shapes(source, x, None), x), "stream")
        return facts_of(self, None if self.previous else source)

    def with_constants(self, constants: Constants) -> Problem:
        """Return the same problem with other constants."""
        return self._with(self.constraints, checked_constants(constants))

    def _with(self, constraints: Constraints, constants: Constants) -> Problem:
        """Return a copy that keeps what a subclass adds, such as names of parameters."""
        twin = copy.copy(self)
        twin.constraints = constraints
        twin.constants = _completed(twin, constants)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Leave compiled programs out of copies and pickles."""
        left_out = ("programs", "_named", "_takes_names")
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def _summary(self) -> Summary:
        known, count = self.constants, self.constants.constraint_count
        known_names = self.constraint_names
        names = f": {', '.join(known_names)}" if known_names else ""
        changing = " (change with the round)" if self.constraints.takes_data else ""
        function = self.loss.function if isinstance(self.loss, LossWithPrevious) else self.loss
        loss = getattr(function, "__name__", type(function).__name__)
        facts = [
            ("loss", "given as a lambda" if loss == "<lambda>" else loss),
            ("constraints", ("unknown number" if count is None else str(count)) + names + changing),
            ("domain", repr(self.domain)),
        ]
        if self.announced is not None:
            facts.append(("announced", "some constraints are known before a decision is played"))
        if self.previous:
            facts.append(("memory", "depends on the decision of the round before"))
        if self.coordinate_names:
            facts.append(("decision", ", ".join(self.coordinate_names)))
        constants = Grid(
            ("constant", "symbol", "value", "source"),
            tuple(
                (name, symbol, number(getattr(known, name)), known.source(name))
                for name, symbol in SYMBOLS.items()
                if getattr(known, name) is not None
                and (name != "strong_convexity" or known.strong_convexity)
            ),
            left=("constant", "symbol", "source"),
        )
        return Summary(
            f"{type(self).__name__} with decisions of shape {self.domain.shape}",
            facts,
            (constants,),
        )


def _check_announced(problem: Problem) -> None:
    """Refuse announced constraints that are no real numbers, if they take no data."""
    announced = problem.announced
    if announced is not None and not announced.takes_data:
        x = jax.ShapeDtypeStruct(problem.domain.shape, default_float())
        traced("announced(x)", "announced", "announced", lambda y: announced.values(y, None), x)


def _completed(problem: Problem, constants: Constants) -> Constants:
    """Add the constants that follow from the domain and from the number of constraints."""
    known = constants
    if known.radius is None:
        if float(problem.domain.radius) == 0:
            raise ValueError(
                f"domain: got {problem.domain!r}, which holds a single decision; expected a "
                "larger set"
            )
        known = known.with_values(radius=float(problem.domain.radius), exact=True)
    if not problem.constraints.takes_data:
        x = jax.ShapeDtypeStruct(problem.domain.shape, default_float())
        values = traced(
            "constraints(x)",
            "constraints",
            "constraints",
            lambda y: problem.constraints.values(y, None),
            x,
        )
        count = int(values.shape[0])
        if known.constraint_count is None:
            known = known.with_values(constraint_count=count, exact=True)
        elif known.constraint_count != count:
            values = "1 value" if count == 1 else f"{count} values"
            raise ValueError(
                f"constraint_count={known.constraint_count}, but constraints(x) returns {values}. "
                "Correct it or leave it out."
            )
        if known.constraint_range is None and known.constraint_lipschitz is not None:
            at_centre = np.asarray(problem.constraints.values(problem.domain.centre, None))
            reach = float(np.max(np.abs(at_centre))) + known.constraint_lipschitz * float(
                problem.domain.radius
            )
            known = _implied(known, "constraint_range", reach, "constraint_lipschitz")
    if known.loss_range is None and known.loss_lipschitz is not None:
        reach = known.loss_lipschitz * float(problem.domain.diameter)
        known = _implied(known, "loss_range", reach, "loss_lipschitz")
    return known


def _implied(known: Constants, name: str, value: float, source: str) -> Constants:
    return known.with_values(
        **{name: value}, estimated=source in known.estimated, exact=source in known.exact
    )


def _same(entry: Any, other: Any) -> bool:
    """Return whether two entries of the key of `names_for` are the same."""
    return entry is other or (isinstance(entry, tuple) and entry == other)


def _satisfied(x: jax.Array) -> float:
    return -1.0


_NOTHING = UserConstraints.of(_satisfied)
"""What learners see of the constraints if all of them are announced: one that always holds."""


@dataclass(frozen=True)
class LossWithPrevious:
    """A user's loss in a problem with memory, as a function of x and `RoundData`."""

    function: Callable[..., Any]
    takes_previous: bool

    def __call__(self, x: jax.Array, z: RoundData) -> Any:
        """Return the value at x with the data of a round."""
        if self.takes_previous:
            return self.function(x, z.data, z.previous)
        return self.function(x, z.data)


def _check_loss(loss: Any, previous: bool) -> int:
    """Return how many arguments the loss is called with."""
    if not callable(loss):
        cvxpy = type(loss).__module__.startswith("cvxpy")
        mend = (
            ". A CVXPY model becomes a problem with taut.from_cvxpy(loss, constraints)"
            if cvxpy
            else ""
        )
        raise TypeError(f"loss: got {arguments.shown(loss)}; expected a function loss(x, z){mend}")
    try:
        required = required_arguments(loss)
        most = len(inspect.signature(loss).parameters)
    except TypeError:  # a function without a signature that can be read
        return 3 if previous else 2
    if previous and required == 3:
        return 3
    if required > 2 or most < 2:
        try:
            inspect.signature(loss).bind(None, None)
        except TypeError:
            expected = (
                "three, loss(x, z, previous), or two, loss(x, z)" if previous else "two, loss(x, z)"
            )
            mend = (
                ". For a loss that depends on the decision of the round before, set previous=True"
                if required == 3
                else ""
            )
            raise TypeError(
                f"loss: got a function with {counted(required, 'required argument')}; expected "
                f"{expected}: the decision and the round's data{mend}"
            ) from None
    return 2


def _start(domain: Domain, previous: bool, start: Any) -> Array | None:
    """Check the decision before round 1."""
    if start is None:
        return None
    if not previous:
        raise ValueError(
            "start: got a decision for a problem without memory; expected it only with "
            "previous=True"
        )
    decision = arguments.finite("start", start)
    if decision.shape != domain.shape:
        raise ValueError(
            f"start: got shape {decision.shape}; expected {domain.shape}, that of the domain"
        )
    if not np.asarray(domain.contains(jnp.asarray(decision, default_float()))):
        raise ValueError(
            f"start: got {arguments.shown(start)}, outside the domain; expected a decision inside"
        )
    return np.asarray(decision, float)


def _names(argument: str, texts: Sequence[str] | None, count: int | None) -> tuple[str, ...] | None:
    if texts is None:
        return None
    if isinstance(texts, str):
        raise TypeError(f"{argument}: got {texts!r}; expected a list of names")
    names = tuple(map(str, texts))
    if count is not None and len(names) != count:
        raise ValueError(f"{argument}: got {len(names)} names; expected {count}")
    if len(set(names)) < len(names):
        raise ValueError(f"{argument}: got {list(names)}; expected names that differ")
    return names

"""What theory says about a learner: a bound on each quantity with its assumptions.

Read `Guarantee` first, then `Setting`, which holds what bounds need to know about a problem and a
run.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from .. import arguments
from ..engine import Array
from ..problem.constants import SYMBOLS, Constants
from .theorem import OutsideTheorem, error_bound_from_slater, path_cost

QUANTITIES = ("regret", "violation", "squared violation", "peak violation", "excess")
"""What bounds are about. Regret is the loss beyond that of the best fixed decision. Violation is
the clipped sum of the largest constraint, and the peak its largest value in a round; the squared
violation is summed over all constraints; the excess is the signed sum of the worst constraint."""


class Assumes(StrEnum):
    """Assumptions other than the value of a constant; assumptions about constants have the name of
    the constant."""

    CONVEX_LOSSES = "convex losses"
    CONVEX_CONSTRAINTS = "convex constraints"
    DOMAIN = "domain"
    """The domain contains the feasible set."""
    CENTRE_FEASIBLE = "centre feasible"
    FEASIBLE = "a decision that is feasible in all rounds"
    """Every theorem assumes it; certificates name it where it is in doubt, that is if constraints
    change."""
    PROJECTION = "projection"
    """The set that is projected on is the feasible set."""
    FIXED_CONSTRAINTS = "fixed constraints"
    AFFINE_CONSTRAINTS = "affine constraints"
    CONSTRAINT_NORM = "operator norm of the constraints"
    """The learner's parameter for the largest singular value of the constraints' Jacobian is at
    least the true one."""
    STOCHASTIC = "independent, identically distributed rounds"
    LINEAR = "linear losses and constraints"
    IDLE = "a decision that earns and uses nothing"
    OBLIVIOUS = "data that do not depend on the decisions"
    LOSS_VALUES = "losses between -F and F"
    NOISE = "zero-mean errors"
    """Errors of one round have mean zero given all earlier rounds, and are sub-Gaussian with the
    learner's sigma."""
    ANNOUNCED_HOLD = "announced constraints hold in all rounds"
    ANNOUNCED_TOWARDS = "enforcing announced constraints does not lead away from the comparator"
    EXACT_PROJECTIONS = "exact projections on the kept cuts"
    """After every round all kept cuts held, and none was dropped: the learner's state says so."""
    NO_JUMPS = "gradients that are not clipped"
    """No loss gradient is more than `clip` times as long as every one before it. After a run, what
    was clipped is a part of the bound, and this is not assumed."""
    STANDING_STILL = "the previous decision satisfies the announced constraints"


BASE = (Assumes.CONVEX_LOSSES, Assumes.CONVEX_CONSTRAINTS, Assumes.DOMAIN)
"""What nearly every theorem assumes."""


@dataclass(frozen=True)
class Guarantee:
    """One bound on one quantity with all that it rests on, or the reason why a theorem gives
    none."""

    quantity: str
    bound: float | None
    source: str
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    """Why there is no bound; empty if there is one."""
    expected: bool = False
    """Whether the bound is on the expectation over seeds; it says nothing about a single seed."""
    moving: bool = False
    """Whether regret is meant against the comparator that moves along `Setting.path_length`, not a
    fixed decision."""

    def __post_init__(self) -> None:
        arguments.one_of("quantity", self.quantity, QUANTITIES)
        arguments.instance("source", self.source, str, "the theorem, a text")
        if self.bound is not None:
            object.__setattr__(self, "bound", arguments.not_nan("bound", self.bound))
        # A text would count as one assumption per letter.
        arguments.instance("assumptions", self.assumptions, tuple, "a tuple of names")
        arguments.instance("reason", self.reason, str, "a text, empty if there is a bound")
        arguments.flags(self)

    @classmethod
    def none(cls, quantity: str, source: str, reason: str) -> Guarantee:
        """Record that a theorem gives no bound, and why."""
        return cls(quantity, None, source, (), reason)

    def become(
        self, quantity: str, bound: float | None = None, source: str | None = None
    ) -> Guarantee:
        """Return what this guarantee implies for another quantity, with the same assumptions."""
        bound = self.bound if bound is None else bound
        return replace(self, quantity=quantity, bound=bound, source=source or self.source)


def with_excess(
    guarantees: Callable[[Any, Setting, int], Iterable[Guarantee]],
) -> Callable[[Any, Setting, int], Iterator[Guarantee]]:
    """Make the method `guarantees` of a learner yield its bounds on the violation for the excess
    too: a signed sum is never above the clipped one."""

    @functools.wraps(guarantees)
    def yielded(learner: Any, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        for guarantee in guarantees(learner, setting, horizon):
            yield guarantee
            if guarantee.quantity == "violation":
                yield guarantee.become("excess")

    return yielded


def smallest(guarantees: Iterable[Guarantee]) -> dict[str, Guarantee]:
    """Return the smallest finite bound on each quantity, in the order of `QUANTITIES`."""
    best: dict[str, Guarantee] = {}
    for guarantee in guarantees:
        if guarantee.bound is None or not math.isfinite(guarantee.bound):
            continue
        known = best.get(guarantee.quantity)
        if known is None or known.bound is None or guarantee.bound < known.bound:
            best[guarantee.quantity] = guarantee
    return {quantity: best[quantity] for quantity in QUANTITIES if quantity in best}


@dataclass(frozen=True)
class ObservedAdvice:
    """What a run with advisers observed besides."""

    gap: float
    """Delta_{T-1} + Delta_T, by which the mixture is behind its best expert at most."""
    learner: Observed
    """At the decisions of the learner, which are not those that were played."""


@dataclass(frozen=True)
class Observed:
    """What a run observed in all its rounds, for bounds that depend on it. Maxima and sums are over
    rounds.

    With several seeds every entry is the largest over the seeds, so that a bound computed from it
    holds for each seed.
    """

    loss_slope: float
    """The largest |q_t|, q_t being what the learner accepted of the gradient p_t = df_t(x_t): all
    of it, unless the learner clips gradients."""
    squared_slopes: float
    """The sum over rounds of |q_t|^2."""
    first_squared_slope: float
    """The smallest over seeds of |q_t|^2 in the first round in which it is not zero; 0 if it always
    is."""
    constraint_slope: float | None = None
    """The largest |dg_{t,i}(x_t)| over rounds, i being the largest constraint of the round."""
    slopes: Array | None = None
    """|q_t| itself, (seed, round), unless the rounds are very many."""
    clipped_slopes: float = 0.0
    """The sum over rounds of |p_t| - |q_t|."""
    path: float | None = None
    """The sum over rounds of |x_{t+1} - x_t|."""
    correction: float = 0.0
    """What feasibility moves take off the bound on regret (docs/theory.md, H2): the smallest over
    seeds of the sum over rounds of m_t^2 / (2 eta_t)."""
    advice: ObservedAdvice | None = None
    """In a run with advisers."""


@dataclass(frozen=True)
class Setting:
    """What bounds need to know about a problem and a run, besides the learner's own parameters."""

    constants: Constants
    diameter: float
    """Largest distance between two points of the domain."""
    constraints_fixed: bool = True
    """Whether the constraints are the same in every round."""
    initial_violation: float | None = None
    """max_i [g_i(x_1)]_+, if it is known."""
    initial_excess: float | None = None
    """max_i g_i(x_1), if it is known."""
    constraints_affine: bool = False
    """Whether every constraint is known to be affine in the decision."""
    observed: Observed | None = None
    """What a finished run observed; `None` before a run."""
    size: int = 1
    """The number of entries of a decision."""
    announced: bool = False
    """Whether some constraints are announced, and enforced before a decision is played."""
    path_length: float | None = None
    """Sum of |u_{t+1} - u_t| of a moving comparator; `None` for a fixed one."""

    def __post_init__(self) -> None:
        arguments.flags(self)

    def evaluate(
        self,
        quantity: str,
        formula: Callable[..., float],
        source: str,
        needs: Iterable[str] = (),
        assumptions: Iterable[str] = BASE,
        *,
        expected: bool = False,
        **numbers: Any,
    ) -> Guarantee:
        """Evaluate a bound, or say why there is none.

        Arguments:
            quantity: one of `QUANTITIES`.
            formula: a function of keyword arguments, usually from `taut.bounds`. It raises
                `OutsideTheorem` for parameters that the theorem does not cover.
            source: the theorem.
            needs: constants that must be known, besides those that are parameters of the formula
                without a default; those that are no parameters of it are assumed all the same.
            assumptions: what else the theorem assumes.
            expected: whether the bound is on the expectation over seeds.
            numbers: all other arguments of the formula. What is not among them and is a parameter
                of the formula is taken from the setting: its constants, if they are known, and the
                diameter. Each constant that is taken becomes an assumption of the guarantee.
        """
        parameters = inspect.signature(formula).parameters
        every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        if "diameter" in parameters:
            numbers.setdefault("diameter", self.diameter)
        taken = [
            name
            for name, parameter in parameters.items()
            if name in SYMBOLS
            and name not in numbers
            and (
                parameter.default is parameter.empty
                or (parameter.default is None and self._value(name) is not None)
            )
        ]
        needs = tuple(dict.fromkeys((*needs, *taken)))
        missing = [n for n in needs if self._value(n) is None]
        if missing:
            listed = ", ".join(f"{n} ({SYMBOLS[n]})" for n in missing)
            return Guarantee.none(quantity, source, f"{listed} is not known")
        try:
            asked = {name: self._value(name) for name in needs if every or name in parameters}
            bound = formula(**asked | numbers)
        except OutsideTheorem as error:
            return Guarantee.none(quantity, source, str(error))
        rests = tuple(str(assumption) for assumption in dict.fromkeys((*assumptions, *needs)))
        return Guarantee(quantity, float(bound), source, rests, "", expected)

    def error_bound(self) -> tuple[float | None, tuple[str, ...]]:
        """Return kappa, given or from a Slater point, and the constant that it rests on."""
        known = self.constants
        if known.error_bound is not None:
            return known.error_bound, ("error_bound",)
        if known.slater is not None:
            kappa = error_bound_from_slater(slater=known.slater, distance=self.diameter)
            return kappa, ("slater",)
        return None, ()

    def less_convex_than(self, modulus: float) -> str:
        """Say why losses are not known to have this modulus, which a step is for; empty if they
        are."""
        known = self.constants.strong_convexity
        if modulus <= known * (1 + 1e-12):
            return ""
        return f"the step is for losses with H = {modulus:g}; they are known to have H = {known:g}"

    def along_path(
        self, fixed: Guarantee, last_step: float, diameter: float | None = None
    ) -> Guarantee:
        """Return the bound on regret against the comparator that moves, given the one against a
        fixed decision.

        It holds for learners whose proof is a sum by parts of squared distances; see
        `taut.bounds.path_cost`.

        Arguments:
            fixed: the bound against a fixed decision; the entry is returned as it is without a
                path, or if it has no bound.
            last_step: the smallest step that counts.
            diameter: of the set of all decisions; by default that of the domain.
        """
        if self.path_length is None or fixed.bound is None:
            return fixed
        across = self.diameter if diameter is None else diameter
        cost = path_cost(path_length=self.path_length, diameter=across, last_step=last_step)
        return replace(
            fixed,
            bound=fixed.bound + cost,
            source=f"{fixed.source}, with the path of the comparator",
            moving=True,
        )

    def _value(self, name: str) -> Any:
        value = getattr(self.constants, name)
        return None if name == "strong_convexity" and value == 0 else value

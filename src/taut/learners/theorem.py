"""What the formulas of bounds share: how their numbers are checked, the error of a formula whose
theorem does not cover its parameters, sums of step sizes, and what a bound on one quantity says
about another.

A formula takes plain numbers by keyword. It holds for all admissible parameters (not only tuned
ones), for every convex problem with these constants and for any data, including data chosen by an
adaptive adversary. `taut.bounds` lists all of them; each is in the file of its method.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from .. import arguments

Number = TypeVar("Number")
Positive: TypeAlias = float
NonNegative: TypeAlias = float
Share: TypeAlias = float
"""Strictly between 0 and 1."""
Power: TypeAlias = float
"""0, or strictly between 0 and 1."""
Count: TypeAlias = int
"""At least 1."""


class OutsideTheorem(ValueError):
    """The parameters are admissible numbers, but the theorem says nothing about them; the text says
    why."""


def _number(name: str, value: Any) -> Any:
    # Without this, NaN could give a bound that is a number: max(0, NaN) is 0 in Python.
    arguments.not_nan(name, value)
    return value


def _power(name: str, value: Any) -> float:
    return 0.0 if value == 0 else arguments.fraction(name, value)


_CHECKS: dict[str, tuple[Callable[[str, Any], Any], str]] = {
    "float": (_number, "float"),
    "int": (_number, "int"),
    "bool": (arguments.flag, "bool"),
    "Positive": (arguments.positive, "float"),
    "NonNegative": (arguments.non_negative, "float"),
    "Share": (arguments.fraction, "float"),
    "Power": (_power, "float"),
    "Count": (arguments.count, "int"),
}
"""For each annotation, the check and what a user reads in the signature."""


def formula(function: Callable[..., Number]) -> Callable[..., Number]:
    """Make a function a formula: its numbers are checked to be what their annotations say."""
    return formula_of(None)(function)


def formula_of(shared: type | None) -> Callable[[Callable[..., Number]], Callable[..., Number]]:
    """Make functions formulas that take the numbers of a dataclass besides their own.

    The formulas of one family need nearly the same numbers. These are the fields of the dataclass
    `shared`, and the function gets an instance of it as its first argument; the formula is called
    with all numbers by keyword.
    """

    def decorate(function: Callable[..., Number]) -> Callable[..., Number]:
        own = dict(inspect.signature(function).parameters)
        common = {}
        if shared is not None:
            del own[next(iter(own))]
            common = dict(inspect.signature(shared).parameters)
        checks, parameters = {}, []
        for name, parameter in (common | own).items():
            kind, _, rest = str(parameter.annotation).partition(" | ")
            plain = kind
            if kind in _CHECKS:
                checks[name], plain = _CHECKS[kind]
            shown = parameter.replace(annotation=f"{plain} | {rest}" if rest else plain)
            parameters.append(
                shown.replace(kind=parameter.KEYWORD_ONLY) if shared is not None else shown
            )
        signature = inspect.Signature(parameters, return_annotation="float")

        @functools.wraps(function)
        def checked(*positional: Any, **named: Any) -> Number:
            values = signature.bind(*positional, **named).arguments
            for name, check in checks.items():
                optional = parameters_by_name[name].annotation.endswith("None")
                if name in values and not (values[name] is None and optional):
                    values[name] = check(name, values[name])
            if shared is None:
                return function(**values)
            numbers = {name: values.pop(name) for name in common if name in values}
            return function(shared(**numbers), **values)

        parameters_by_name = signature.parameters
        checked.__signature__ = signature  # type: ignore[attr-defined]
        return checked

    return decorate


@dataclass(frozen=True)
class Steps:
    r"""The step sizes eta_t = scale / (t + offset)^exponent, t = 1, 2, ..., with an upper bound on
    their sums.

    A decreasing convex function lies below its average over an interval centred at t
    (Hermite-Hadamard), hence sum_{t=1}^T (t + o)^-p <= integral of s^-p from o + 1/2 to o + T +
    1/2.
    """

    scale: float
    exponent: float = 0.0
    offset: int = 0

    def at(self, t: int) -> float:
        """The step size of round t."""
        return self.scale / math.pow(t + self.offset, self.exponent)

    def sum(self, horizon: int) -> float:
        """At least the sum of eta_t over t = 1..horizon."""
        return self.scale * self._power_sum(horizon, self.exponent)

    def sum_of_squares(self, horizon: int) -> float:
        """At least the sum of eta_t^2 over t = 1..horizon."""
        return self.scale**2 * self._power_sum(horizon, 2 * self.exponent)

    def _power_sum(self, horizon: int, power: float) -> float:
        if horizon <= 0 or power == 0:
            return float(max(horizon, 0))
        low = self.offset + 0.5
        logarithm, rest = math.log1p(horizon / low), 1 - power
        if rest == 0:
            return logarithm
        # (high^rest - low^rest) / rest
        return math.pow(low, rest) * math.expm1(rest * logarithm) / rest

    def distance_term(self, horizon: int, radius: float, diameter: float) -> float:
        """At least sum_t (b_t - b_{t+1}) / (2 eta_t), b_1 <= radius^2 and b_t <= diameter^2, steps
        not increasing.

        Abel summation: b_1 / (2 eta_1) + sum_{t>1} b_t (1/eta_t - 1/eta_{t-1}) / 2.
        """
        later = math.expm1(self.exponent * math.log((horizon + self.offset) / (1 + self.offset)))
        return (radius**2 + diameter**2 * later) / (2 * self.at(1))


def range_of_losses(loss_range: float | None, loss_lipschitz: float, diameter: float) -> float:
    """F, or G_f times the diameter where that is less or F is not known."""
    largest = diameter * loss_lipschitz
    return largest if loss_range is None else min(loss_range, largest)


def diameter_of(diameter: float | None, radius: float) -> float:
    """The largest distance between two decisions, or, where it is not known, twice the radius."""
    return 2 * radius if diameter is None else max(diameter, radius)


@formula
def violation_from_squared(*, horizon: Count, squared_violation: NonNegative) -> float:
    """Sum of violations from the sum of their squares: sqrt(T Q), by Cauchy-Schwarz (proof of
    Proposition 2)."""
    return math.sqrt(horizon * squared_violation)


@formula
def peak_from_squared(*, squared_violation: NonNegative) -> float:
    """Largest violation from the sum of squares: sqrt(Q), for one square is at most all of them."""
    return math.sqrt(squared_violation)


@formula
def tightening_cost(
    *,
    horizon: Count,
    margin: NonNegative,
    slater: Positive,
    loss_lipschitz: NonNegative,
    diameter: Positive,
    loss_range: NonNegative | None = None,
) -> float:
    r"""Regret lost when the learner is given g + rho instead of g: G_f D rho T / epsilon, rho =
    `margin` <= epsilon.

    With x* the best feasible decision and g_i(u) <= -epsilon, the decision (1 - rho/epsilon) x* +
    (rho/epsilon) u is feasible for g + rho and at most D rho / epsilon away from x*; by convexity
    its loss exceeds that of x* by at most F rho / epsilon too, whichever is less. Add this to the
    regret bound of the tightened problem. No violation at all follows if rho is at least the peak
    violation there, computed with the error bound of {g <= -rho}, not of {g <= 0}.
    """
    if margin > slater:
        raise OutsideTheorem(
            f"margin: got {margin:g}; expected at most slater = {slater:g}, else nothing may be "
            "feasible"
        )
    each = range_of_losses(loss_range, loss_lipschitz, diameter)
    return each * margin / slater * horizon


@formula
def path_cost(*, path_length: NonNegative, diameter: Positive, last_step: float) -> float:
    """D P / eta: what a comparator that moves along a path of length P adds to a bound on regret
    against a fixed one, if its proof sums

        f_t(x_t) - f_t(u) <= (|x_t - u|^2 - |x_{t+1} - u|^2) / (2 eta_t) + (terms without u)

    for all u that are feasible in round t, with steps that do not increase (docs/theory.md, H8).

    Arguments:
        path_length: P = sum_t |u_{t+1} - u_t|; u_t must be feasible in round t.
        diameter: D, the largest distance between two points of the domain.
        last_step: the smallest step that counts: eta_T, or eta_{T-1} for strongly convex losses
            with eta_t = 1 / (H (t + shift)).

    >>> path_cost(path_length=3.0, diameter=2.0, last_step=0.1)
    60.0
    """
    if path_length == 0:
        return 0.0
    return diameter * path_length / arguments.positive("last_step", last_step)


@formula
def error_bound_from_slater(*, slater: Positive, distance: Positive) -> float:
    """The error bound that Slater's condition gives: epsilon / `distance`.

    If g(u) <= -epsilon and g(x) = v > 0, the point (epsilon x + v u) / (epsilon + v) is feasible,
    so d(x) <= |x - u| v / epsilon. `distance` is the largest |x - u| over the domain, at most its
    diameter.
    """
    return slater / distance

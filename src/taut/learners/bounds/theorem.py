"""What all formulas share: how they are called, how their numbers are checked, and the error of a
formula whose theorem does not cover its parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from ... import arguments

__all__ = [
    "Count",
    "NonNegative",
    "OutsideTheorem",
    "Positive",
    "Power",
    "Share",
    "formula",
    "formula_of",
]

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


def formula_of(
    shared: type | None,
) -> Callable[[Callable[..., Number]], Callable[..., Number]]:
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
            given = signature.bind(*positional, **named).arguments
            for name, check in checks.items():
                optional = parameters_by_name[name].annotation.endswith("None")
                if name in given and not (given[name] is None and optional):
                    given[name] = check(name, given[name])
            if shared is None:
                return function(**given)
            numbers = {name: given.pop(name) for name in common if name in given}
            return function(shared(**numbers), **given)

        parameters_by_name = signature.parameters
        checked.__signature__ = signature  # type: ignore[attr-defined]
        return checked

    return decorate

"""What all formulas share: the error of a formula whose theorem does not cover its parameters, and
a check of numbers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ... import arguments

__all__ = ["OutsideTheorem", "with_numbers"]

Formula = TypeVar("Formula", bound=Callable[..., Any])


class OutsideTheorem(ValueError):
    """The parameters are admissible numbers, but the theorem says nothing about them; the text says
    why."""


def with_numbers(formula: Formula) -> Formula:
    """Return the formula behind a check that its arguments are what their annotations say.

    Without it, NaN could give a bound that is a number: max(0, NaN) is 0 in Python.
    """
    declared = inspect.signature(formula).parameters
    real = {
        name
        for name, one in declared.items()
        if str(one.annotation).split(" |")[0] in ("float", "int")
    }
    flags = {name for name, one in declared.items() if one.annotation == "bool"}
    places = tuple(declared)

    @functools.wraps(formula)
    def checked(*positional: Any, **named: Any) -> Any:
        for name, value in (*zip(places, positional, strict=False), *named.items()):
            if name in flags:
                arguments.flag(name, value)
            elif name in real and value is not None:
                arguments.not_nan(name, value)
        return formula(*positional, **named)

    return cast(Formula, checked)

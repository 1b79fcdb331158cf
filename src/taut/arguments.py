"""Checks of users' arguments. Every message names the argument, the value and what was expected."""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
import os
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
LONGEST = 100
"""Longer values are described by their class in messages."""
SHORT_LIST = 4
"""So many choices are listed before a suggestion; of more, the suggestion comes first."""


def not_nan(name: str, value: Any, expected: str = "a real number") -> float:
    """Return `value` as a float; it must be a real number, or infinite."""
    if isinstance(value, (bool, str, bytes)) or value is None:
        raise TypeError(f"{name}: got {shown(value)}; expected {expected}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: got {shown(value)}; expected {expected}") from None
    if math.isnan(number):
        raise ValueError(f"{name}: got nan; expected {expected}")
    return number


def real(name: str, value: Any) -> float:
    """Return `value` as a float; it must be a finite real number."""
    number = not_nan(name, value, "a finite real number")
    if math.isinf(number):
        raise ValueError(f"{name}: got {number}; expected a finite real number")
    return number


def positive(name: str, value: Any) -> float:
    """Return `value` as a float; it must be positive."""
    number = real(name, value)
    if number <= 0:
        raise ValueError(f"{name}: got {number:g}; expected a positive number")
    return number


def non_negative(name: str, value: Any) -> float:
    """Return `value` as a float; it must not be negative."""
    number = real(name, value)
    if number < 0:
        raise ValueError(f"{name}: got {number:g}; expected a number that is not negative")
    return number


def fraction(name: str, value: Any) -> float:
    """Return `value` as a float; it must be strictly between 0 and 1."""
    number = real(name, value)
    if not 0 < number < 1:
        raise ValueError(f"{name}: got {number:g}; expected a number strictly between 0 and 1")
    return number


def flag(name: str, value: Any) -> bool:
    """Return `value`, which must be True or False: other values, such as the text "no", have a
    truth value too."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: got {shown(value)}; expected True or False")
    return bool(value)


class TooSmall(ValueError):
    """A number is below what is possible."""

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(argument, message)
        self.argument = argument
        """The argument that the number was given for."""

    def __str__(self) -> str:
        return f"{self.args[0]}: {self.args[1]}"


def flags(record: Any) -> None:
    """Check the fields of a dataclass that are True or False."""
    for field in dataclasses.fields(record):
        if field.type in (bool, "bool"):
            flag(field.name, getattr(record, field.name))


def count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return `value` as an integer; it must be at least `least`, and at most `most` if that is
    given."""
    if isinstance(value, bool) or not isinstance(value, (numbers.Integral, np.integer)):
        whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
        if not whole:
            raise TypeError(f"{name}: got {value!r}; expected a whole number of at least {least}")
    number = int(value)
    if number < least:
        raise TooSmall(name, f"got {number}; expected a whole number of at least {least}")
    if most is not None and number > most:
        raise ValueError(f"{name}: got {number:g}; expected a whole number of at most {most}")
    return number


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value`, which must be one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: got {shown(value)}{expected_one_of(value, choices, repr)}")
    return value


def expected_one_of(value: Any, choices: Iterable[str], show: Callable[[str], str] = str) -> str:
    """Return the end of a message: what was expected. A suggestion comes before a long list."""
    names = list(choices)
    hint, listed = did_you_mean(value, names), ", ".join(map(show, names))
    if hint and len(names) > SHORT_LIST:
        return f"{hint} Expected one of {listed}"
    return f"; expected one of {listed}{hint}"


def did_you_mean(value: Any, choices: Iterable[str]) -> str:
    """Return a suggestion for a name that is nearly one of `choices`, to be put at the end of a
    message; else nothing."""
    if not isinstance(value, str):
        return ""
    near = difflib.get_close_matches(value, list(choices), 5, 0.75)
    near.sort(key=lambda name: not name.startswith(value))  # the beginning of a name is a name
    return f". Did you mean {near[0]!r}?" if near else ""


def shown(value: Any) -> str:
    """Return what came in few words: the shape of an array, the name of a function or a class, a
    short `repr`."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return f"the function {value.__name__}"
    if isinstance(value, types.GeneratorType):
        return "a generator"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and hasattr(value, "dtype"):
        return f"an array of shape {shape}"
    text = repr(value)
    if len(text) <= LONGEST and "\n" not in text and " at 0x" not in text.lower():
        return text
    return f"an object of class {type(value).__name__}"


def instance(name: str, value: Any, kind: type[T], expected: str) -> T:
    """Return `value`, which must be an instance of `kind`; `expected` says what is expected and how
    to get it."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: got {shown(value)}; expected {expected}")
    return value


def path(name: str, value: Any) -> Path:
    """Return `value` as a path; it must be a text or a `pathlib.Path`."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name}: got {shown(value)}; expected a path, as a text or a pathlib.Path")
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(f"{name}: got {text!r}; expected the name of a file or folder")
    return Path(text)


def entries(value: Any) -> str:
    """Return the numbers of an array as a text, of a long one the first and the last."""
    return np.array2string(np.asarray(value), threshold=8)


def as_array(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return `value` as a NumPy array. Masked entries are refused, because NumPy would use the
    numbers behind the mask."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError(
            f"{name}: got a masked array; expected numbers everywhere: fill them in with "
            ".filled(value)"
        )
    try:
        return native(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name}: got a value that is not an array ({error}); expected real numbers"
        ) from None


def native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array in the machine's order of bytes and with floats of at most 64 bits; JAX knows
    no others."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(float)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def finite(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return `value` as a NumPy array; all its entries must be finite real numbers."""
    array = as_array(name, value)
    if array.dtype == object or not (
        np.issubdtype(array.dtype, np.number) or np.issubdtype(array.dtype, np.bool_)
    ):
        raise TypeError(f"{name}: got values of type {array.dtype}; expected real numbers")
    if np.issubdtype(array.dtype, np.complexfloating):
        raise TypeError(f"{name}: got complex numbers; expected real ones")
    if np.issubdtype(array.dtype, np.floating) and not np.all(np.isfinite(array)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(
            f"{name}: got {array[where]} at index {where}; expected finite numbers only"
        )
    return array

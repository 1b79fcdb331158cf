"""Tracing a user's function for its output shapes, with errors that say what in the function to
change.

JAX calls a function with placeholders that have a shape but no value. What works with numbers can
therefore fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from .streams import data_of

MANY = 6
"""More arrays than these are counted in messages, not listed."""


MISTAKES: dict[type[Exception], tuple[str, str]] = {
    jax.errors.TracerBoolConversionError: (
        "decides by a value of its arguments, in `if`, `while`, `and`, `or`, `max` or `min` of "
        "Python",
        "Use jnp.where(condition, a, b), jnp.maximum(a, b) or jnp.minimum(a, b) instead",
    ),
    jax.errors.TracerArrayConversionError: (
        "passes its arguments to a function of NumPy or SciPy",
        "Use the function of the same name in jax.numpy (jnp)",
    ),
    jax.errors.NonConcreteBooleanIndexError: (
        "selects entries by a condition, as in x[x > 0], so that the shape of the result depends "
        "on values",
        "Use jnp.where(x > 0, x, 0.0), which keeps the shape",
    ),
    **dict.fromkeys(
        (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError),
        (
            "turns its arguments into numbers of Python, as float(x), int(x), math.sqrt(x) or "
            "range(x) do",
            "Use jax.numpy functions such as jnp.sqrt, and x.astype",
        ),
    ),
}
"""Errors of JAX about a function that does not work with placeholders: what the function does, and
what to write instead. Subclasses come before their classes."""


class UnusableOutput(Exception):
    """What a user's function returned cannot be used. The message names the function's argument."""


class UnusableType(UnusableOutput, TypeError):
    """The output is of a wrong type."""


class UnusableValue(UnusableOutput, ValueError):
    """The output has a wrong size."""


def traced(
    called: str,
    argument: str,
    data_argument: str,
    function: Callable[..., Any],
    *values: Any,
    reveals: bool = False,
) -> Any:
    """Return the shapes and types of what `function(*values)` returns.

    Arguments:
        called: the call as the user would write it, for example "loss(x, z)".
        argument: the argument to blame if the function itself is wrong.
        data_argument: the argument to blame if decision and data do not fit together.
        function: the user's function.
        values: a decision and one round's data, or their shapes and types; None for data that are
            not used.
        reveals: whether the function is an adversary, whose values end with decision and key.
    """
    try:
        return jax.eval_shape(function, *values)
    except UnusableOutput:
        raise
    except tuple(MISTAKES) as error:
        what, mend = next(words for kind, words in MISTAKES.items() if isinstance(error, kind))
        raise TypeError(
            f"{argument}: {called} {what}. JAX traces the function with placeholders that have no "
            f"value; expected operations of jax.numpy only. {mend}"
        ) from error
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        inputs = (
            f"a decision of shape {tuple(values[-2].shape)}"
            if reveals
            else _given(*values, of_stream=data_argument == "stream")
        )
        raise ValueError(
            f"{data_argument}: {called} raised {type(error).__name__} when called with {inputs}: "
            f"{_first_lines(error)}"
        ) from error


def shapes_of(tree: Any) -> str:
    """Return the shapes of a pytree; of many arrays their number and the first one's shape."""
    leaves = jax.tree.leaves(tree)
    if len(leaves) <= MANY:
        return str(jax.tree.map(lambda leaf: tuple(leaf.shape), tree))
    return (
        f"[{len(leaves)} arrays, the first of shape {tuple(leaves[0].shape)}] (a list is a "
        "collection of arrays: if its entries are rounds, join them with numpy.stack)"
    )


def scalar(value: Any) -> jax.Array:
    """Return what a loss returned as an array; refuse `None` and collections by name."""
    if value is None:
        raise UnusableType(
            "loss: loss(x, z) returned None; expected a number. Is the `return` missing?"
        )
    if isinstance(value, (tuple, list, dict)):
        raise UnusableType(
            f"loss: loss(x, z) returned a {type(value).__name__}; expected one number per round"
        )
    return jnp.asarray(value)


def refuse_array(shape: tuple[int, ...], name: str) -> NoReturn:
    """Raise an error about a loss that has a shape; `name` is what the user calls the data."""
    raise UnusableValue(
        f"loss: got an array of shape {shape} for one round's data; expected a scalar, for example "
        f"jnp.sum(...). If the leading axis of {name} is the seed, say how many with seeds=..."
    )


def _given(x: Any, z: Any = None, *, of_stream: bool) -> str:
    """Describe decision and data, for error messages."""
    shown, data = f"x of shape {tuple(x.shape)}", data_of(z)
    if data is None:
        return shown
    axis = " (the leading axis of the stream counts rounds)" if of_stream else ""
    return f"{shown} and one round's data z of shape {shapes_of(data)}{axis}"


def _first_lines(error: BaseException) -> str:
    text = str(error).split("\nSee https")[0].strip()
    return text if len(text) <= 600 else text[:597] + "..."

"""Rewrite a round so that XLA's CPU backend compiles it well. The numbers stay the same, up to
rounding.

The backend compiles three patterns badly. They are rewritten before compilation, by tracing the
round and evaluating the traced program again:

- A sum or maximum over several axes becomes nested scalar loops; one over a single axis becomes
  vector instructions, which is eight times faster for a 10 x 10 matrix. So the axes of a reduction
  are merged. XLA would undo that without a barrier.
- An array that two operations use is computed twice if it looks cheap. A value marked by
  `computed_once` becomes a result of the loop body, which has to be stored, so it is computed once.
- Each sum over a long decision passes over memory once more. `wide_rounds` forms several at once.

`separate_zeros` and `hidden_zero` work around others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from ..jax_internals import Literal, bind, plain
from . import wide_rounds

__all__ = ["computed_once", "hidden_zero", "rewritten", "separate_zeros"]

_ONCE = "taut: computed once"
_REDUCTIONS = frozenset(
    ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or")
)
_CALLS = frozenset(("jit", "pjit"))


def computed_once(x: jax.Array) -> jax.Array:
    """Return `x`, marked so that a `rewritten` function returns it among its stored values."""
    named: jax.Array = checkpoint_name(x, _ONCE)
    return named


def separate_zeros(
    shape: tuple[int, ...], dtype: Any, number: int, counter: jax.Array
) -> jax.Array:
    """Return zeros that XLA does not recognise as equal to other zeros.

    XLA merges equal constants into one array and would then copy it for every record of the loop.

    Arguments:
        shape, dtype: of the array.
        number: a positive number, different for every array.
        counter: a traced number that is never negative.
    """
    return jnp.full(shape, jnp.where(counter < -number, 1, 0), dtype)


def hidden_zero(counter: jax.Array) -> jax.Array:
    """Return -0.0, which changes no number that it is added to, without XLA knowing.

    A product that is added to it is rounded. XLA may otherwise compute the product and the sum that
    follows with one rounding.

    Arguments:
        counter: a traced number that is never negative.
    """
    return jnp.where(counter < 0, 1.0, -0.0)


def rewritten(function: Callable[..., Any]) -> Callable[..., tuple[Any, list[jax.Array]]]:
    """Rewrite `function`. The result returns the same values, and a list of those marked by
    `computed_once`.

    Values that are marked inside a loop or a branch are not in the list.

    >>> values, stored = rewritten(lambda x: jnp.sum(computed_once(2 * x)))(jnp.ones((2, 3)))
    >>> float(values), stored[0].shape
    (12.0, (2, 3))
    """

    def evaluated(*args: Any) -> tuple[Any, list[jax.Array]]:
        if plain():
            return function(*args), []
        traced, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        try:
            outputs, stored = _rewritten(traced, jax.tree.leaves(args))
        except (
            Exception
        ):  # a version of JAX whose traced programs are different: slower, but the same numbers
            return function(*args), []
        kept = {
            id(output) for output in outputs
        }  # values that are returned anyway need no second place
        return jax.tree.unflatten(jax.tree.structure(shapes), outputs), [
            x for x in stored if id(x) not in kept
        ]

    return evaluated


def _rewritten(traced: Any, arguments: Sequence[Any]) -> tuple[list[Any], list[jax.Array]]:
    def without_calls(*arguments: Any) -> tuple[list[Any], list[jax.Array]]:
        stored: list[jax.Array] = []
        return _evaluate(traced.jaxpr, traced.consts, arguments, stored), stored

    if traced.effects or not any(
        wide_rounds.is_wide(jnp.shape(argument)) for argument in arguments
    ):
        return without_calls(*arguments)
    program, shapes = jax.make_jaxpr(without_calls, return_shape=True)(*arguments)
    outputs: tuple[list[Any], list[jax.Array]]
    outputs = jax.tree.unflatten(
        jax.tree.structure(shapes), wide_rounds.evaluate(program, arguments)
    )
    return outputs


def _evaluate(
    jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any], stored: list[jax.Array]
) -> list[Any]:
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        name, inputs = equation.primitive.name, [value(atom) for atom in equation.invars]
        if name in _CALLS:
            inner = equation.params["jaxpr"]
            outputs = _evaluate(inner.jaxpr, inner.consts, inputs, stored)
        elif name in _REDUCTIONS and _adjacent(equation.params["axes"]):
            outputs = [_merged(equation, inputs[0])]
        elif name == "dot_general" and _is_inner_product(equation, inputs):
            outputs = [jnp.sum(lax.optimization_barrier(inputs[0]) * inputs[1])]
        else:
            outputs = bind(equation, inputs)
        if name == "name" and equation.params["name"] == _ONCE:
            stored += outputs
        known.update(zip(equation.outvars, outputs, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _merged(equation: Any, operand: jax.Array) -> Any:
    """Reduce over one axis that has the entries of all axes of the reduction, which are
    adjacent."""
    first, last = equation.params["axes"][0], equation.params["axes"][-1] + 1
    before, reduced, after = operand.shape[:first], operand.shape[first:last], operand.shape[last:]
    flat = lax.optimization_barrier(jnp.reshape(operand, (*before, math.prod(reduced), *after)))
    return equation.primitive.bind(flat, **{**equation.params, "axes": (first,)})


def _adjacent(axes: Sequence[int]) -> bool:
    return len(axes) > 1 and tuple(axes) == tuple(range(axes[0], axes[0] + len(axes)))


def _is_inner_product(equation: Any, operands: Sequence[Any]) -> bool:
    """Whether a product is an inner product of vectors of one float type, and not, for example, an
    outer product."""
    left, right = operands
    (contracted, _), _ = equation.params["dimension_numbers"]
    if len(contracted) != 1:
        return False
    return (
        jnp.ndim(left) == 1 == jnp.ndim(right)
        and left.dtype == right.dtype
        and left.dtype.kind == "f"
    )

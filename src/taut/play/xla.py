"""A round as XLA's CPU backend compiles it well: the same numbers, written in another way.

Two habits of the compiler cost more than the arithmetic of a round. Both are met by tracing the round and evaluating
what was traced again:

- A sum or maximum over several axes becomes nested scalar loops, over one axis vector instructions: eight times faster
  for a 10 x 10 matrix. So the axes of a reduction are merged. XLA would undo that, but for a barrier in between.
- An array that two operations use is computed twice if it looks cheap. A value named by `once` is handed out to be kept
  from round to round, and what is kept has to be computed and stored: once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

__all__ = ["lowered", "once"]

_ONCE = "taut: computed once"
_REDUCTIONS = frozenset(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"))
_CALLS = frozenset(("jit", "pjit"))


def once(x: jax.Array) -> jax.Array:
    """`x`, marked to be among the values that a `lowered` function hands out."""
    named: jax.Array = checkpoint_name(x, _ONCE)
    return named


def lowered(function: Callable[..., Any]) -> Callable[..., tuple[Any, list[jax.Array]]]:
    """`function` rewritten; it returns what it did, and the values marked by `once` (save those in a loop or a branch).

    >>> values, marked = lowered(lambda x: jnp.sum(once(2 * x)))(jnp.ones((2, 3)))
    >>> float(values), marked[0].shape
    (12.0, (2, 3))
    """

    def evaluated(*args: Any) -> tuple[Any, list[jax.Array]]:
        traced, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        marked: list[jax.Array] = []
        outputs = _evaluate(traced.jaxpr, traced.consts, jax.tree.leaves(args), marked)
        return jax.tree.unflatten(jax.tree.structure(shapes), outputs), marked

    return evaluated


def _evaluate(jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any], marked: list[jax.Array]) -> list[Any]:
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, jex.Literal) else known[atom]

    for equation in jaxpr.eqns:
        name, inputs = equation.primitive.name, [value(atom) for atom in equation.invars]
        if name in _CALLS:
            inner = equation.params["jaxpr"]
            outputs = _evaluate(inner.jaxpr, inner.consts, inputs, marked)
        elif name in _REDUCTIONS and _adjacent(equation.params["axes"]):
            outputs = [_merged(equation, inputs[0])]
        elif name == "dot_general" and _of_vectors(inputs):
            outputs = [jnp.sum(lax.optimization_barrier(inputs[0]) * inputs[1])]
        else:
            outputs = _bound(equation, inputs)
        if name == "name" and equation.params["name"] == _ONCE:
            marked += outputs
        known.update(zip(equation.outvars, outputs, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _merged(equation: Any, operand: jax.Array) -> Any:
    """The reduction over one axis that has the entries of all its axes, which are adjacent."""
    first, last = equation.params["axes"][0], equation.params["axes"][-1] + 1
    before, reduced, after = operand.shape[:first], operand.shape[first:last], operand.shape[last:]
    flat = lax.optimization_barrier(jnp.reshape(operand, (*before, math.prod(reduced), *after)))
    return equation.primitive.bind(flat, **{**equation.params, "axes": (first,)})


def _bound(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """The results of `equation` for these operands."""
    bound = equation.primitive.get_bind_params(equation.params)
    functions, parameters = bound if isinstance(bound, tuple) else ((), bound)  # a pair before JAX 0.9.2
    results = equation.primitive.bind(*functions, *operands, **parameters)
    return list(results) if equation.primitive.multiple_results else [results]


def _adjacent(axes: Sequence[int]) -> bool:
    return len(axes) > 1 and tuple(axes) == tuple(range(axes[0], axes[0] + len(axes)))


def _of_vectors(operands: Sequence[Any]) -> bool:
    """Whether a product is an inner product of vectors of one float type; flat views of matrices are among them."""
    left, right = operands
    return jnp.ndim(left) == 1 == jnp.ndim(right) and left.dtype == right.dtype and left.dtype.kind == "f"

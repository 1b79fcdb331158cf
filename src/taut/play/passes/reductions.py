"""Sums and maxima over several axes are merged into one axis, and inner products become sums.

XLA's CPU backend compiles a reduction over several axes into nested scalar loops, and one over a
single axis into vector instructions, which is eight times faster for a 10 x 10 matrix. Merging adds
up the same numbers in the same order. XLA would undo it without the barrier. Inside one kernel an
inner product of two vectors becomes a scalar loop too; as a sum of products it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from ...jax_internals import bind
from ...jaxpr.walk import evaluate

if TYPE_CHECKING:
    from . import RoundFacts

__all__ = ["REDUCTIONS"]

MERGED = frozenset(("reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_sum"))
INLINED = frozenset(("jit", "pjit"))


class Reductions:
    """Merge the axes of reductions."""

    name: ClassVar[str] = "reductions"
    options: ClassVar[dict[str, Any]] = {}

    def suits(self, facts: RoundFacts) -> bool:
        """Return whether XLA compiles for a CPU."""
        return facts.backend == "cpu"

    def of_round(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """Return the round with merged reductions."""

        def evaluated(*arguments: Any) -> Any:
            program, shapes = jax.make_jaxpr(body, return_shape=True)(*arguments)
            results = evaluate(program, jax.tree.leaves(arguments), _rule, INLINED)
            return jax.tree.unflatten(jax.tree.structure(shapes), results)

        return evaluated

    def of_program(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the program as it is."""
        return program


def _rule(equation: Any, operands: list[Any]) -> Sequence[Any]:
    if equation.primitive.name == "dot_general" and _is_inner_product(equation):
        left, right = operands
        return [jnp.sum(lax.optimization_barrier(left) * right)]
    axes = tuple(equation.params.get("axes", ()))
    adjacent = len(axes) > 1 and axes == tuple(range(axes[0], axes[0] + len(axes)))
    if equation.primitive.name not in MERGED or not adjacent:
        return bind(equation, operands)
    (operand,), first, last = operands, axes[0], axes[-1] + 1
    merged = math.prod(operand.shape[first:last])
    shape = (*operand.shape[:first], merged, *operand.shape[last:])
    flat = lax.optimization_barrier(jnp.reshape(operand, shape))
    return [equation.primitive.bind(flat, **{**equation.params, "axes": (first,)})]


def _is_inner_product(equation: Any) -> bool:
    """Return whether a product is that of two vectors, all in 32 or all in 64 bits.

    Narrower floats are added up in wider ones, which is left to XLA.
    """
    operands = (*equation.invars, *equation.outvars)
    left, right, result = (atom.aval for atom in operands)
    same = left.dtype == right.dtype == result.dtype and left.dtype in (jnp.float32, jnp.float64)
    return bool(same) and left.ndim == right.ndim == 1 and result.ndim == 0


REDUCTIONS = Reductions()

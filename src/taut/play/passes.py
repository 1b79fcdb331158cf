"""Passes: optional rewritings of the compiled loop that change its speed and no number.

`TAUT_PASSES=none` in the environment, or `taut.engine.passes()`, switches all of them off;
`python -m benchmarks.passes` shows what each one gains. A pass that does not gain 1.2 times
somewhere is deleted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .. import engine
from ..jax_internals import TESTED, bind, mark_call
from ..jaxpr.exactness import unsafe_operation
from ..jaxpr.walk import rewritten

HUGE = 2**17
"""Numbers of a decision beyond which XLA uses several threads for a single operation."""
Function = Callable[..., Any]
MERGED = frozenset(("reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_sum"))
SEPARATE = frozenset(
    (
        "approx_top_k",
        "cholesky",
        "cholesky_update",
        "conv_general_dilated",
        "debug_callback",
        "eig",
        "eigh",
        "ffi_call",
        "fft",
        "geqp3",
        "geqrf",
        "hessenberg",
        "householder_product",
        "infeed",
        "io_callback",
        "lu",
        "lu_pivots_to_permutation",
        "ormqr",
        "outfeed",
        "pure_callback",
        "qr",
        "schur",
        "select_and_scatter_add",
        "sort",
        "svd",
        "top_k",
        "triangular_solve",
        "tridiagonal",
        "tridiagonal_solve",
    )
)
"""Operations that no kernel can contain. Scatters are others."""


@dataclass(frozen=True, eq=False)
class Pass:
    """An optional rewriting of the loop on a CPU."""

    name: str
    of_round: Callable[[Function], Function] | None = None
    """Returns a function that computes the same as the one that plays a round."""
    of_program: Callable[[Function], Function] | None = None
    """Returns a function of arrays that computes the same as the one that plays a chunk, and may
    return further arrays behind its results."""
    options: dict[str, Any] = field(default_factory=dict)
    """For XLA, per compilation."""
    any_version: bool = False
    """Whether it applies to versions of XLA in which it was not tested."""
    most: float = math.inf
    """The largest number of entries of a decision."""


def _faster(equation: Any, operands: list[Any]) -> Sequence[Any]:
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
    left, right = equation.invars[0].aval, equation.invars[1].aval
    result = equation.outvars[0].aval
    same = left.dtype == right.dtype == result.dtype and left.dtype in (jnp.float32, jnp.float64)
    return bool(same) and left.ndim == right.ndim == 1 and result.ndim == 0


class NoKernel(Exception):
    """A program has operations that no kernel can contain."""


def _in_one_kernel(program: Function) -> Function:
    """Return the program in one kernel. It raises `NoKernel` where no kernel can contain it."""

    def extended(*leaves: Any) -> list[Any]:
        """Return one result more, which uses all arguments: XLA ends the process if a marked
        function does not use one of them (jaxlib 0.10.2)."""
        first: Any = 0
        for leaf in leaves:
            if not leaf.size:
                raise NoKernel("an array without entries")
            key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            numbers = jax.random.key_data(leaf) if key else leaf
            first = first + jnp.ravel(numbers)[0].astype(jnp.float32)
        return [*program(*leaves), first]

    def in_one_kernel(*leaves: Any) -> list[Any]:
        called = jax.jit(extended)
        check_for_kernel(jax.make_jaxpr(called)(*leaves))
        return mark_call(called(*leaves))  # traced once only

    extended.__name__ = in_one_kernel.__name__ = program.__name__  # shown in profiles
    return in_one_kernel


def check_for_kernel(program: Any) -> None:
    """Raise `NoKernel` if a traced program cannot, or must not, be one kernel."""
    name = unsafe_operation(program, _needs_more_than_a_kernel)
    if name:
        raise NoKernel(name)


def _needs_more_than_a_kernel(equation: Any) -> bool:
    name = equation.primitive.name
    if name != "dot_general":
        return name in SEPARATE or name.startswith("scatter")
    # It multiplies matrices if both operands have axes of their own in the result.
    (contracted, _), (batched, _) = equation.params["dimension_numbers"]
    shared = len(contracted) + len(batched)
    left, right = equation.invars
    return bool(left.aval.ndim > shared and right.aval.ndim > shared)


REDUCTIONS = Pass("reductions", of_round=partial(rewritten, rule=_faster), any_version=True)
"""Sums and maxima over several axes are merged into one axis, and inner products become sums.

XLA's CPU backend compiles a reduction over several axes into nested scalar loops, and one over a
single axis into vector instructions, which is eight times faster for a 10 x 10 matrix. Merging adds
up the same numbers in the same order. XLA would undo it without the barrier. Inside one kernel an
inner product of two vectors becomes a scalar loop too; as a sum of products it does not."""
OPTIONS = Pass(
    "options",
    options={
        # Otherwise reductions of 32 or more numbers become windows, which are not vectorised.
        "xla_disable_hlo_passes": "tree_reduction_rewriter",
        # xla_backend_optimization_level stays at 3, the default. With 1, programs are compiled in a
        # quarter less time, but LLVM ends the process for some of them.
        # Looks closely at which arrays are in use at the same time: a round copies fewer of them.
        **engine.unless_chosen({"xla_cpu_copy_insertion_use_region_analysis": True}),
        # Rounds with exact projections are compiled in half the time. Those with announced
        # constraints then take a little longer, but seconds of compilation outweigh microseconds
        # per round in all but very long games.
        **engine.unless_chosen({"xla_cpu_use_fusion_emitters": False}),
    },
)
"""Compiler options with which XLA's CPU backend compiles loops over short rounds better. They were
chosen by measurement."""
KERNEL = Pass(
    "kernel",
    of_program=_in_one_kernel,
    # XLA would hand long sums to a library, which no kernel can contain.
    options={"xla_cpu_experimental_ynn_fusion_type": ""},
    most=HUGE,
)
"""A whole chunk is compiled into one kernel of XLA's CPU backend.

Otherwise the backend dispatches every operation of every round, unless the loop's arrays are small.
XLA compiles a function into one kernel if its call carries a mark. It cannot do so with operations
that call a library or start threads. And inside one kernel it may compute a number twice, with
different rounding, so a program that selects by equality of computed floats is not marked either.
In other versions of XLA than those that were tested, the mark could end the process."""
PASSES: tuple[Pass, ...] = (REDUCTIONS, OPTIONS, KERNEL)
"""All passes, in the order in which they are applied."""


def suitable(size: int) -> tuple[Pass, ...]:
    """Return the passes that are switched on and apply to decisions of so many numbers."""
    if jax.default_backend() != "cpu":
        return ()
    chosen = engine.chosen_passes()
    tested = jax.__version__.startswith(TESTED)
    passes = []
    for each in PASSES:
        switched_on = chosen is None or each.name in chosen
        if switched_on and size <= each.most and (tested or each.any_version):
            passes.append(each)
    return tuple(passes)

"""A whole chunk is compiled into one kernel of XLA's CPU backend.

Otherwise the backend dispatches every operation of every round, unless the loop's arrays are small.
XLA compiles a function into one kernel if its call carries a mark. It cannot do so with operations
that call a library or start threads. And inside one kernel it may compute a number twice, with
different rounding, so a program that selects by equality of computed floats is not marked either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp

from ...jax_internals import TESTED, mark_call
from ...jaxpr.exactness import compares_computed_floats
from ...jaxpr.walk import equations

if TYPE_CHECKING:
    from . import RoundFacts

__all__ = ["KERNEL"]

HUGE = 2**17
"""Numbers of a decision beyond which XLA uses several threads for a single operation."""
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


class Kernel:
    """Mark a program to be one kernel."""

    name: ClassVar[str] = "kernel"
    options: ClassVar[dict[str, Any]] = {
        # XLA would hand long sums to a library, which no kernel can contain.
        "xla_cpu_experimental_ynn_fusion_type": ""
    }

    def suits(self, facts: RoundFacts) -> bool:
        """Return whether the mark was tested in this version of XLA, whose compiler would otherwise
        end the process."""
        tested = facts.backend == "cpu" and facts.jax.startswith(TESTED)
        return tested and facts.size <= HUGE

    def of_round(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the round as it is."""
        return body

    def of_program(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """Return the program in one kernel. It raises `NoKernel` where no kernel can contain it."""

        def in_one_kernel(*leaves: Any) -> list[Any]:
            called = jax.jit(_with_first_numbers(program))
            if not all(leaf.size for leaf in leaves):
                raise NoKernel("an array without entries")
            check_for_kernel(jax.make_jaxpr(called)(*leaves))
            return mark_call(called(*leaves))  # traced once only

        in_one_kernel.__name__ = program.__name__  # shown in profiles
        return in_one_kernel


class NoKernel(Exception):
    """A program has operations that no kernel can contain."""


def check_for_kernel(program: Any) -> None:
    """Raise `NoKernel` if a traced program cannot, or must not, be one kernel."""
    for equation in equations(program):
        name = equation.primitive.name
        scatters = name.startswith("scatter")
        multiplies = name == "dot_general" and _multiplies_matrices(equation)
        if name in SEPARATE or scatters or multiplies:
            raise NoKernel(name)
    compared = compares_computed_floats(program)
    if compared:
        raise NoKernel(f"floats are compared by {compared}")


def _with_first_numbers(program: Callable[..., Any]) -> Callable[..., Any]:
    """Return the program with one result more, which uses all arguments: XLA ends the process if a
    marked function does not use one of them (jaxlib 0.10.2)."""

    def extended(*leaves: Any) -> list[Any]:
        numbers = [
            jax.random.key_data(a) if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a
            for a in leaves
        ]
        first = sum(jnp.ravel(a)[0].astype(jnp.float32) for a in numbers)
        return [*program(*leaves), first]

    extended.__name__ = program.__name__
    return extended


def _multiplies_matrices(equation: Any) -> bool:
    """Return whether both operands of a product have axes of their own in the result."""
    contracted, batched = equation.params["dimension_numbers"]
    free = (
        operand.aval.ndim - len(contracted[side]) - len(batched[side])
        for side, operand in enumerate(equation.invars)
    )
    return all(free)


KERNEL = Kernel()

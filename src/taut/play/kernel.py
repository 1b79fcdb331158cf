"""Compile a whole chunk into one kernel of XLA's CPU backend.

Otherwise the backend runs the loop over rounds as one kernel and each operation before and after it
as another. It hands the small ones to a pool of threads, although each takes less than a
microsecond, and waits for those threads: on a busy machine that takes many times longer than the
rounds. XLA calls a function that is marked as a small call from a single kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from ..jax_internals import ClosedJaxpr, Jaxpr, mark_call

__all__ = ["Separate", "check_for_kernel", "equations", "first_numbers", "in_one_kernel"]

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
"""Operations that XLA does not compile into the kernel of a loop: they call a library, or start
threads. Scatters are others."""


class Separate(Exception):
    """A function has operations that no kernel can contain."""


def check_for_kernel(program: Any) -> None:
    """Raise `Separate` if a traced program has operations that no kernel can contain."""
    if any(map(_is_separate, equations(program))):
        raise Separate


def first_numbers(arguments: Any, floating: Any) -> jax.Array:
    """Return the sum of the first numbers of all arrays, which a function that is compiled into one
    kernel has to return.

    XLA ends the process if such a function does not use one of its arguments (jaxlib 0.10.2).
    """
    arrays = (
        jax.random.key_data(a) if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a
        for a in jax.tree.leaves(arguments)
    )
    return sum(
        (jnp.ravel(array)[0].astype(floating) for array in arrays if array.size),
        jnp.zeros((), floating),
    )


def in_one_kernel(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return `function(*arguments)` inside compiled code, marked to be one kernel.

    The function has to return the `first_numbers` of its arguments as part of its results. Raises
    `Separate` if no kernel can contain it.
    """
    leaves, structure = jax.tree.flatten(arguments)
    shapes: list[Any] = []

    def on_leaves(*leaves: Any) -> list[Any]:
        results, shape = jax.tree.flatten(function(*jax.tree.unflatten(structure, leaves)))
        shapes.append(shape)
        return results

    on_leaves.__name__ = getattr(function, "__name__", "in_one_kernel")  # shown in profiles
    called = jax.jit(on_leaves)
    if not all(leaf.size for leaf in leaves):
        raise Separate
    check_for_kernel(jax.make_jaxpr(called)(*leaves))
    return jax.tree.unflatten(shapes[0], mark_call(called(*leaves)))  # traced once only


def equations(program: Any) -> Iterator[Any]:
    """Yield all equations of a traced program, those of inner programs too."""
    program = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    for equation in program.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(inner, (ClosedJaxpr, Jaxpr)):
                    yield from equations(inner)


def _is_separate(equation: Any) -> bool:
    name = equation.primitive.name
    if name == "dot_general":
        return _multiplies_matrices(equation)
    return name in SEPARATE or name.startswith("scatter")


def _multiplies_matrices(equation: Any) -> bool:
    """Return whether both operands of a product have axes of their own in the result, as those of
    an outer product too."""
    contracted, batched = equation.params["dimension_numbers"]
    free = (
        operand.aval.ndim - len(contracted[side]) - len(batched[side])
        for side, operand in enumerate(equation.invars)
    )
    return all(free)

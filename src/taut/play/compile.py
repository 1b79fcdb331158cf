"""Compile the function that plays a chunk or a round, with the passes that suit it."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import jax

from ..jax_internals import TESTED
from ..problem.problem import Problem
from ..problem.programs import programs_of
from .passes import KERNEL, NoKernel, Pass, suitable

LOG = logging.getLogger(__name__)
QUICK: dict[str, Any] = {"xla_backend_optimization_level": 0}
"""Compiling takes less than half the time, and the program runs up to ten times longer."""
if jax.__version__.startswith(TESTED):  # another version may not know the option
    QUICK["xla_cpu_use_fusion_emitters"] = False  # half the rest, in long programs

Rewrite = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Executable:
    """A compiled function. It takes arguments of the same structure, shapes and types as those that
    it was compiled for."""

    program: Any
    """What XLA compiled: a function of leaves."""
    structure: Any
    """That of the results."""
    blank: Any
    """The last argument that was made to compile; None if there was none."""

    def __call__(self, *arguments: Any) -> Any:
        """Return a tree."""
        leaves = self.program(*jax.tree.leaves(arguments))
        return jax.tree.unflatten(self.structure, leaves[: self.structure.num_leaves])


def compiled(
    problem: Problem,
    function: Callable[..., Any],
    static: Hashable,
    arguments: tuple[Any, ...],
    quick: bool = False,
    in_pieces: Callable[..., Any] | None = None,
    blank: Callable[[], Any] | None = None,
) -> Executable:
    """Return `function(static, rewrite, *arguments)`, compiled for arguments like these.

    Arguments:
        problem: what is played. It keeps the compiled functions.
        function: defined at module level. It gets `static`, then a function that rewrites rounds,
            then the arguments.
        static: what is compiled in.
        arguments: trees of arrays.
        quick: whether to compile quickly rather than well, for a function that is called once.
        in_pieces: a function that computes the same and is compiled instead where no kernel can
            contain the program; by default `function`.
        blank: makes one more argument, whose shapes and types follow from the others.
    """
    leaves, structure = jax.tree.flatten(arguments)
    passes = suitable(math.prod(problem.domain.shape))
    key: list[Any] = [function, static, structure, passes, quick]
    for leaf in leaves:
        key += leaf.shape, leaf.dtype

    def make() -> Executable:
        last = None if blank is None else blank()
        passed = arguments if blank is None else (*arguments, last)
        options = QUICK if quick else {}
        return Executable(*_compile(function, static, passed, passes, options, in_pieces), last)

    return programs_of(problem).get(tuple(key), make, compiles=True)


def _compile(
    function: Callable[..., Any],
    static: Hashable,
    arguments: tuple[Any, ...],
    passes: tuple[Pass, ...],
    options: dict[str, Any],
    in_pieces: Callable[..., Any] | None = None,
) -> tuple[Any, Any]:
    """Compile a function with all passes; in pieces if no kernel can contain it.

    That shows while the function is traced, or when XLA refuses to compile it.
    """
    leaves, structure = jax.tree.flatten(arguments)
    results: list[Any] = []
    if KERNEL not in passes and in_pieces is not None:
        function = in_pieces

    def rewrite(body: Callable[..., Any]) -> Callable[..., Any]:
        for each in passes:
            body = body if each.of_round is None else each.of_round(body)
        return body

    def on_leaves(*leaves: Any) -> list[Any]:
        outputs = function(static, rewrite, *jax.tree.unflatten(structure, leaves))
        flat, shape = jax.tree.flatten(outputs)
        results[:] = [shape]
        return flat

    on_leaves.__name__ = function.__name__  # shown in profiles
    program: Callable[..., Any] = on_leaves
    chosen: dict[str, Any] = {}
    for each in passes:
        program = program if each.of_program is None else each.of_program(program)
        chosen |= each.options
    chosen |= options
    try:
        executable = jax.jit(program).trace(*leaves).lower().compile(compiler_options=chosen)
    except (NoKernel, jax.errors.JaxRuntimeError) as reason:
        if KERNEL not in passes:
            raise
        LOG.debug("%s is compiled in pieces: %s", function.__name__, reason)
        rest = tuple(each for each in passes if each is not KERNEL)
        return _compile(function, static, arguments, rest, options, in_pieces)
    with _Count.lock:
        _Count.compiled += 1
    return executable, results[0]


class _Count:
    lock = threading.Lock()
    compiled = 0


def count_compiled() -> int:
    """Return how many functions were compiled in this process so far, for tests that nothing is
    compiled twice."""
    return _Count.compiled

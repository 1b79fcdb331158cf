"""Evaluation of traced functions in tests, without compiling them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from taut.jaxpr import in_numpy as numpy_programs


def in_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, traced for the shapes of its first call and evaluated in NumPy, or compiled if
    that is not possible."""
    programs: dict[Any, Any] = {}
    compiled = jax.jit(function)

    def call(*given: Any) -> Any:
        leaves, tree = jax.tree.flatten(given)
        leaves = [np.asarray(leaf) for leaf in leaves]
        key = (tree, *((leaf.shape, leaf.dtype) for leaf in leaves))
        if key not in programs:
            traced, shape = jax.make_jaxpr(function, return_shape=True)(*given)
            programs[key] = numpy_programs.in_numpy(traced, 1), jax.tree.structure(shape)
        program, form = programs[key]
        if program is None:
            return jax.tree.map(np.asarray, compiled(*given))
        results = program.run([leaf[None] for leaf in leaves])
        return jax.tree.unflatten(form, [result[0] for result in results])

    return call

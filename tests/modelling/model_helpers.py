"""What tests of models share."""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.jaxpr import in_numpy as numpy_programs


def rng_of(*seed):
    return np.random.default_rng(seed)


@cache
def compiled(model):
    return jax.jit(model.written.values)


def excess(model, x, z=None):
    return np.asarray(compiled(model)(jnp.asarray(x), z))


def linear(**attributes):
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", **attributes)
    return taut.from_cvxpy(c @ x, [cp.norm1(x) <= 1], "box"), c


def in_numpy(function):
    """The function, traced for the shapes of its first call and evaluated in NumPy, or compiled if
    that is not possible. Compiling takes longer than most tests."""
    programs = {}

    def call(*given):
        leaves, tree = jax.tree.flatten(given)
        leaves = [np.asarray(leaf) for leaf in leaves]
        key = (tree, *((leaf.shape, leaf.dtype) for leaf in leaves))
        if key not in programs:
            traced, shape = jax.make_jaxpr(function, return_shape=True)(*given)
            programs[key] = numpy_programs.in_numpy(traced, 1), jax.tree.structure(shape)
        program, form = programs[key]
        if program is None:
            return jax.tree.map(np.asarray, jax.jit(function)(*given))
        results = program.run([leaf[None] for leaf in leaves])
        return jax.tree.unflatten(form, [result[0] for result in results])

    return call

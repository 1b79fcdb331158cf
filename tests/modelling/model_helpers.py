"""What tests of models share."""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np

import taut


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

"""What tests of models share."""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import numpy as np

import taut
from without_compiling import in_numpy


def rng_of(*seed):
    return np.random.default_rng(seed)


@cache
def evaluated(model):
    return in_numpy(model.written.values)


def excess(model, x, z=None):
    return np.asarray(evaluated(model)(np.asarray(x, float), z))


def linear(**attributes):
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", **attributes)
    return taut.from_cvxpy(c @ x, [cp.norm1(x) <= 1], "box"), c

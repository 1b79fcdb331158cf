"""Programs in NumPy: every operation against JAX, on random numbers of all types."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from random_operations import FLOATS, OTHERS, TYPES, numbers, operations

from taut.jaxpr.in_numpy import in_numpy
from taut.jaxpr.numpy_rules import NAMES
from taut.jaxpr.walk import CALLS, equations

LEADS = ((3, 1), (1, 4), (3, 4), (1, 1))


def batch(rng, dtype, inputs):
    """Arrays like the inputs with two leading axes, some of length 1."""
    leads = [LEADS[rng.integers(len(LEADS))] for _ in inputs]
    return [numbers(rng, dtype, lead + np.shape(a)) for lead, a in zip(leads, inputs, strict=True)]


def mapped(function, arrays):
    """The function mapped over two leading axes, as JAX does it."""
    wide = [jnp.broadcast_to(a, (3, 4, *a.shape[2:])) for a in arrays]
    return jax.vmap(jax.vmap(function))(*wide)


def same(here, there, name):
    assert here.dtype == there.dtype, name
    here = np.broadcast_to(here, there.shape)
    if here.dtype.kind == "f":
        tolerance = 64 * np.finfo(here.dtype).eps
        np.testing.assert_allclose(here, there, rtol=tolerance, atol=tolerance, err_msg=name)
    else:
        np.testing.assert_array_equal(here, there, err_msg=name)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_operation_agrees_with_jax(dtype):
    rng = np.random.default_rng(0)
    claimed = []
    for name, function, inputs in operations(rng, dtype):
        program = in_numpy(jax.make_jaxpr(function)(*inputs), 2)
        if program is not None:
            claimed.append((name, function, program, batch(rng, dtype, inputs)))
    expected = jax.jit(
        lambda every: [
            jax.tree.leaves(mapped(function, arrays))
            for (_, function, _, _), arrays in zip(claimed, every, strict=True)
        ]
    )([arrays for *_, arrays in claimed])
    for (name, _, program, arrays), there in zip(claimed, expected, strict=True):
        for a, b in zip(program.run(arrays), there, strict=True):
            same(a, np.asarray(b), f"{name} of {dtype}")
    assert len(claimed) > 50


def test_the_random_operations_contain_every_rule_and_nothing_else_is_claimed():
    rng = np.random.default_rng(0)
    claimed = set()
    for dtype in ("float64", "int32", "uint8", "bool"):
        for _, function, inputs in operations(rng, dtype):
            program = jax.make_jaxpr(function)(*inputs)
            if in_numpy(program, 1) is not None:
                claimed |= {equation.primitive.name for equation in equations(program)}
    # Before 0.10 JAX wrote these three with other operations.
    later = {"stack", "tile", "unstack"} if jax.__version_info__ < (0, 10) else set()
    later |= set() if hasattr(lax, "one_minus_square") else {"one_minus_square"}
    assert claimed - CALLS == NAMES - later


@pytest.mark.parametrize("dtype", OTHERS)
def test_half_precision_and_complex_numbers_are_left_to_the_compiler(dtype):
    for name, function, inputs in operations(np.random.default_rng(0), dtype):
        program = jax.make_jaxpr(function)(*inputs)
        assert in_numpy(program, 1) is None or not program.jaxpr.eqns, name


UNCLAIMED = {
    "wide product": FLOATS[:1],
    "reshape in another order": TYPES,
    "cut by padding": TYPES,
    "pad with data": TYPES,
    "places in data": TYPES,
    "places by row": TYPES,
    "sort by two": TYPES,
    "round away": FLOATS,
    "reduce_max of nothing": TYPES,
    "reduce_min of nothing": TYPES,
    "as float16": TYPES,
}


@cache
def cases(dtype):
    """The operations by their names."""
    found = operations(np.random.default_rng(0), dtype)
    return {name: (function, inputs) for name, function, inputs in found}


@pytest.mark.parametrize("name", UNCLAIMED)
def test_what_numpy_does_otherwise_is_left_to_the_compiler(name):
    for dtype in UNCLAIMED[name]:
        function, inputs = cases(dtype)[name]
        assert in_numpy(jax.make_jaxpr(function)(*inputs), 1) is None, dtype


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.linalg.svd(x)[1],
        lambda x: jax.lax.map(jnp.sin, x),
        lambda x: jax.lax.while_loop(lambda v: v.sum() > 0, lambda v: v - 1, x),
        lambda x: jax.lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
        jax.scipy.special.erf,
        lambda x: x.at[0].set(1.0),
    ],
)
def test_what_has_no_rule_is_left_to_the_compiler(function):
    assert in_numpy(jax.make_jaxpr(function)(np.ones((2, 3))), 1) is None


def test_work_counts_numbers_and_operations_and_outputs_that_are_not_needed_cost_nothing():
    def function(x, z):
        return jnp.sum(x), jnp.exp(x) @ z

    program = in_numpy(jax.make_jaxpr(function)(np.ones(5), np.ones(5)), 1)
    x, z = np.ones((1, 5)), np.ones((7, 5))
    assert program.work([x, z]) == 3000 + 1 + 5 + 7 * 5
    assert program.first(1).work([x, z]) == 1000 + 1
    total, product = program.run([x, z])
    assert total.shape == (1,)
    np.testing.assert_allclose(product, np.full(7, 5 * np.e))
    (alone,) = program.first(1).run([x, z])
    np.testing.assert_array_equal(alone, total)

"""Which comparisons a compiler may decide in two ways, because it may compute a float twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from taut.jaxpr.exactness import unsafe_operation
from taut.jaxpr.maxima import by_index, entry_of_largest

X, Y = jnp.arange(4.0), jnp.ones(4)
W = np.array([1.0, 2.0, 3.0, 4.0])


def computed(x, y):
    """Numbers that are computed."""
    return x * y + 1


def masked(x, y):
    v = computed(x, y)
    return jnp.where(v == jnp.max(v), v, 0)


SAFE = {
    "no comparison": lambda x, y: jnp.sin(x) @ y,
    "numbers that come from nothing": lambda x, y: lax.iota(float, 4) * x > y,
    "inputs": lambda x, y: x == y,
    "inputs that are moved": lambda x, y: jnp.flip(x)[:2] == jnp.concatenate([y, -x])[3:5],
    "an input and a constant": lambda x, y: (x == W) & (x == 3),
    "an input and its maximum, by position": lambda x, y: jnp.arange(4) == jnp.argmax(x * y),
    "whole numbers": lambda x, y: jnp.floor(x * y).astype(int) == 3,
    "flags": lambda x, y: (x * y > 1) == (y > 0),
    "order of computed numbers": lambda x, y: x * y > y + 1,
    "order with a number": lambda x, y: jnp.where(x * y > 0, x, y),
    "nan": lambda x, y: jnp.isnan(computed(x, y)),
    "infinity": lambda x, y: computed(x, y) == jnp.inf,
    "minus infinity, in a branch": lambda x, y: lax.cond(
        x[0] > 0, lambda v: v == -jnp.inf, lambda v: v != jnp.inf, computed(x, y)
    ),
    "finite": lambda x, y: jnp.isfinite(computed(x, y)),
    "largest with a number": lambda x, y: jnp.max(computed(x, y)) > 0.5,
    "largest below a margin": lambda x, y: computed(x, y) >= jnp.max(computed(x, y)) - 1e-6,
    "largest of stored numbers": lambda x, y: x >= jnp.max(x),
    "the larger of two, and another": lambda x, y: x + y >= jnp.maximum(x * y, y + 1),
    "the larger of two, computed with": lambda x, y: (v := x * y) >= jnp.maximum(v, y) - 1e-6,
    "clipped, with a number": lambda x, y: jnp.maximum(x * y, 0) > 0,
    "two largest": lambda x, y: jnp.max(x * y) >= jnp.max(y + x),
    "derivative of a maximum of two": lambda x, y: jax.grad(
        lambda x: jnp.sum(by_index(jnp.maximum)(x * y, 3 - x))
    )(x),
    "derivative of a maximum by index": lambda x, y: jax.grad(
        lambda x: by_index(jnp.max)(x * y + 1)
    )(x),
    "one-hot of the largest": lambda x, y: entry_of_largest(x * y),
    "the carry of a loop": lambda x, y: lax.scan(lambda c, v: (c, c == v), x[0] * y[0], jnp.sin(x)),
    "a call with inputs": jax.jit(lambda x, y: jax.jit(jnp.equal)(x, y) & (y > 0)),
}
UNSAFE = {
    "computed numbers": (lambda x, y: x * y == y + 1, "eq"),
    "a computed number and a constant": (lambda x, y: jnp.where(x * y != 0, x, y), "ne"),
    "a computed number and an input": (lambda x, y: x == x * y, "eq"),
    "the largest": (masked, "eq"),
    "not below the largest": (
        lambda x, y: computed(x, y) >= jnp.max(computed(x, y)),
        "ge",
    ),
    "the largest, from the other side": (
        lambda x, y: jnp.max(computed(x, y)) <= computed(x, y),
        "le",
    ),
    "the smallest": (lambda x, y: computed(x, y) <= jnp.min(computed(x, y)), "le"),
    "the largest of each row": (
        lambda x, y: jnp.outer(x, y) >= jnp.max(jnp.outer(x, y), axis=1, keepdims=True),
        "ge",
    ),
    "records so far": (lambda x, y: (v := computed(x, y)) >= lax.cummax(v), "ge"),
    "the larger of two": (lambda x, y: (v := x * y) >= jnp.maximum(v, y + 1), "ge"),
    "the larger of three, moved": (
        lambda x, y: jnp.flip(v := x * y) < jnp.flip(jnp.maximum(jnp.maximum(v, 2 * y), x))[:4],
        "lt",
    ),
    "outside of an interval": (lambda x, y: (v := x * y) > jnp.clip(v, 0.0, 2.0), "gt"),
    "inside a call": (jax.jit(lambda x, y: jax.jit(jnp.equal)(x * y, y)), "eq"),
    "inside a call whose operands are computed outside": (
        lambda x, y: jax.jit(lambda u: u == 1)(x * y),
        "eq",
    ),
    "the result of a call": (lambda x, y: jax.jit(jnp.sin)(x) == y, "eq"),
    "inside a scan": (
        lambda x, y: lax.scan(lambda c, v: (c + v, (c + v) == 2.0), 0.0, x),
        "eq",
    ),
    "the result of a scan": (lambda x, y: lax.scan(lambda c, v: (c + v, v), 0.0, x)[0] == 3, "eq"),
    "inside a branch": (lambda x, y: lax.cond(x[0] > 0, masked, jnp.add, x, y), "eq"),
    "inside the condition of a loop": (
        lambda x, y: lax.while_loop(lambda c: 2 * c != 8.0, lambda c: c + 1, x[0]),
        "ne",
    ),
    "inside the body of a loop": (
        lambda x, y: lax.fori_loop(0, 3, lambda i, c: jnp.where(c * y == 1, c, c + 1), x),
        "eq",
    ),
    "inside a function with a derivative of its own": (
        lambda x, y: jax.nn.relu(x * y) == 0,
        "eq",
    ),
    "derivative of a maximum": (lambda x, y: jax.grad(lambda x: jnp.max(x * y + 1))(x), "eq"),
    "derivative of a maximum in a loop": (
        lambda x, y: lax.scan(
            lambda c, v: (c - jax.grad(lambda u: jnp.max(u * v + y))(c), None), x, y
        ),
        "eq",
    ),
    "mapped": (jax.vmap(lambda x, y: x * y == 1.0), "eq"),
}


@pytest.mark.parametrize("name", SAFE)
def test_safe(name):
    assert unsafe_operation(jax.make_jaxpr(SAFE[name])(X, Y)) == ""


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe(name):
    function, comparison = UNSAFE[name]
    assert unsafe_operation(jax.make_jaxpr(function)(X, Y)) == comparison


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint])
@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_inside_of_calls(name, wrap):
    function, comparison = UNSAFE[name]
    program = jax.make_jaxpr(wrap(function))(X, Y)
    assert unsafe_operation(program) == comparison

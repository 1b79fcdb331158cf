"""Rounds with long decisions: sums are formed by one operation, numbers are multiplied first, and
results stay what they were."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taut.play import wide_rounds
from taut.play.wide_rounds import LONG_ROW, WIDE
from taut.play.xla import rewritten

N = WIDE + 32
X = np.random.default_rng(0).normal(size=N)
ROWS = X.reshape(5, -1)
assert LONG_ROW <= ROWS.shape[1] < WIDE


def chain(x):
    """The second sum depends on the first, the third on neither."""
    first = jnp.sum(x)
    return jnp.sum(x * first), jnp.sum(x * x)


def diamond(x):
    """Two sums, one that depends on both, and one that joins the first two although it is written
    last."""
    a, b = jnp.sum(x * x), jnp.sum(jnp.abs(x))
    return jnp.sum(x / (a + b)), a - b, jnp.sum(jnp.exp(x))


def many_stages(x):
    for _ in range(4):
        x = x / jnp.sqrt(jnp.sum(x * x)) - jnp.sum(x) / N
    return x


# Name -> the function, its argument, and how many sums each operation forms.
CASES = {
    "two": (lambda x: (jnp.sum(x), jnp.sum(x * x)), X, [2]),
    "chain": (chain, X, [2, 1]),
    "diamond": (diamond, X, [3, 1]),
    "four stages": (many_stages, X, [2, 2, 2, 2]),
    "inner product and norm": (lambda x: (jnp.vdot(x, 2 * x), jnp.linalg.norm(x)), X, [2]),
    "over everything and by row": (
        lambda x: (jnp.vdot(x, 2 * x), jnp.sum(x * x, axis=1)),
        ROWS,
        [2],
    ),
    "by row and by column": (lambda x: (jnp.sum(x, axis=1), jnp.sum(x, axis=0)), ROWS, [1, 1]),
    "over everything and by column": (lambda x: (jnp.sum(x * x), jnp.sum(x, axis=0)), ROWS, [1, 1]),
    "short rows": (lambda x: (jnp.sum(x * x), jnp.sum(x, axis=1)), X.reshape(-1, 5), [1, 1]),
    "two matrices": (lambda x: (jnp.sum(x * x, axis=1), jnp.sum(x, axis=1), jnp.sum(x)), ROWS, [3]),
    "gradients": (jax.grad(lambda x: jnp.sum(x * x) * jnp.sum(jnp.cos(x))), X, [2]),
    "short arrays": (lambda x: (jnp.sum(x[:9]), jnp.sum(x[:9] ** 2)), X, []),
    "maxima": (lambda x: (jnp.max(x), jnp.min(x), jnp.sum(x)), X, [1]),
    "whole numbers": (lambda x: (jnp.sum((x > 0).astype(int)), jnp.sum(x)), X, [1]),
    "two precisions": (lambda x: (jnp.sum(x), jnp.sum(x.astype(jnp.float32))), X, [1, 1]),
    "two precisions by row": (
        lambda x: (jnp.sum(x, axis=1), jnp.sum(x.astype(jnp.float32))),
        ROWS,
        [1, 1],
    ),
    "branches and loops": (
        lambda x: (
            jax.lax.cond(x[0] > 0, jnp.sum, lambda y: jnp.sum(y * y), x),
            jax.lax.fori_loop(0, 3, lambda i, s: s + jnp.sum(x * i), 0.0),
            jnp.sum(x),
            jnp.sum(x**3),
        ),
        X,
        [2],
    ),
    "nothing but a constant": (lambda x: (jnp.sum(jnp.ones(N)), jnp.sum(x)), X, [2]),
}


def operations(function, x):
    """How many sums of long arrays each operation of the rewritten function forms, in the order of
    evaluation."""
    program = jax.make_jaxpr(lambda x: rewritten(function)(x)[0])(x)
    found = []
    for equation in program.eqns:
        if equation.primitive.name in ("reduce", "reduce_sum"):
            arrays = [a.aval for a in equation.invars if np.prod(a.aval.shape) >= WIDE]
            if arrays and jnp.issubdtype(arrays[0].dtype, jnp.floating):
                found.append(len(arrays))
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers_in_fewer_passes(name):
    function, x, expected = CASES[name]
    wanted, (found, _) = function(x), rewritten(function)(x)
    assert jax.tree.structure(wanted) == jax.tree.structure(found)
    for one, other in zip(jax.tree.leaves(wanted), jax.tree.leaves(found), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(
            one, other, rtol=1e-5 if one.dtype == np.float32 else 1e-12, atol=1e-13
        )
    assert operations(function, x) == expected


def test_seeds_side_by_side():
    batch = np.stack([X, X[::-1], 2 * X])
    found = jax.jit(jax.vmap(lambda x: rewritten(diamond)(x)[0]))(batch)
    for row, x in enumerate(batch):
        np.testing.assert_allclose([part[row] for part in found], diamond(x), rtol=1e-12)


def test_nan_is_kept():
    broken = X.copy()
    broken[7] = np.nan
    found, _ = rewritten(lambda x: (jnp.sum(x), jnp.sum(jnp.ones(N)), jnp.sum(0 * x)))(broken)
    np.testing.assert_array_equal(found, [np.nan, N, np.nan])


def test_effects_stay_in_their_order(capfd):
    def function(x):
        a = jnp.sum(x)
        jax.debug.print("first {}", a, ordered=True)
        jax.debug.print("second", ordered=True)
        return a, jnp.sum(x * x)

    found, _ = jax.jit(rewritten(function))(X)
    jax.effects_barrier()
    np.testing.assert_allclose(found, function(X), rtol=1e-12)
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()[:2]] == [
        "first",
        "second",
    ]


def test_an_operation_that_fails_is_left_to_jax(monkeypatch):
    monkeypatch.setattr(wide_rounds, "evaluate", lambda *_: 1 / 0)
    found, stored = rewritten(diamond)(X)
    np.testing.assert_allclose(found, diamond(X), rtol=1e-12)
    assert stored == []


def multiplications(function, *arguments):
    """How many multiplications of long arrays remain after a function is rewritten and compiled."""
    text = jax.jit(lambda *a: rewritten(function)(*a)[0]).lower(*arguments).compile().as_text()
    return len(re.findall(rf"f64\[{N}\]\S* multiply\(", text))


PRODUCTS = {
    "two numbers": (lambda a, b, x: a * (b * x), 1),
    "in another order": (lambda a, b, x: (x * b) * a, 1),
    "three numbers": (lambda a, b, x: a * (b * (3.0 * x)), 1),
    "outer product": (lambda a, b, x: a * jax.lax.dot_general(b, x, (((), ()), ((), ()))), 1),
    "both used": (lambda a, b, x: (b * x, a * (b * x)), 2),
    "a sum between": (lambda a, b, x: a * (b * x + 1), 2),
    "array and array": (lambda a, b, x: a * (x * x), 2),
    "gradient step": (
        lambda a, b, x: x - a * jax.grad(lambda y: jnp.exp(b * jnp.vdot(X, y)))(x),
        2,
    ),  # X * x is one
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_numbers_are_multiplied_first(name):
    function, expected = PRODUCTS[name]
    wanted, (found, _) = function(0.3, 0.7, X), rewritten(function)(0.3, 0.7, X)
    for one, other in zip(jax.tree.leaves(wanted), jax.tree.leaves(found), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-14)
    assert multiplications(function, 0.3, 0.7, X) == expected


def test_whole_numbers_and_other_precisions_are_multiplied_as_they_are():
    k, narrow = jnp.arange(N), jnp.asarray(X, jnp.float32)
    found, _ = rewritten(lambda k: 3 * (5 * k))(k)
    np.testing.assert_array_equal(found, 15 * np.arange(N))
    found, _ = rewritten(lambda x: jnp.float32(0.1) * (jnp.float32(3) * x))(narrow)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, 0.3 * X, rtol=1e-6)


def test_an_infinite_number_is_not_hidden():
    found, _ = rewritten(lambda a, x: 0.5 * (a * x))(np.inf, X)
    assert np.isinf(found).all()

"""Losses of integers, bits and half precision: hindsight and certificates against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut

ROUNDS = 60
RNG = np.random.default_rng(0)
C = RNG.normal(size=(ROUNDS, 3))
K = RNG.integers(-9, 10, size=ROUNDS)
BYTES = RNG.integers(-120, 121, size=(ROUNDS, 2, 4)).astype(np.int8)
HALVES = RNG.uniform(100, 500, size=(ROUNDS, 2, 4)).astype(np.float16)


def wide_product(pair, dtype):
    contracted = (((0,), (0,)), ((), ()))
    return jax.lax.dot_general(pair[0], pair[1], contracted, preferred_element_type=dtype)


def truncated(a, b):
    return np.trunc(a / b).astype(int)


FACTORS = {
    "odd or even": (
        lambda k: jnp.where((k & 1) == 1, 2, -1),
        K,
        np.where((K & 1) == 1, 2, -1),
    ),
    "not": (lambda k: ~k, K, ~K),
    "or": (lambda k: k | 2, K, K | 2),
    "xor": (lambda k: k ^ 5, K, K ^ 5),
    "shifts": (lambda k: (k << 2) + (k >> 1), K, (K << 2) + (K >> 1)),
    "quotient": (lambda k: k // 4, K, K // 4),
    "remainder": (lambda k: k % 4, K, K % 4),
    "truncated quotient": (lambda k: jax.lax.div(k, 4), K, truncated(K, 4)),
    "int8 into int32": (
        lambda pair: wide_product(pair, jnp.int32),
        BYTES,
        np.sum(BYTES[:, 0].astype(int) * BYTES[:, 1], axis=1),
    ),
    "float16 into float32": (
        lambda pair: wide_product(pair.astype(jnp.float16), jnp.float32),
        HALVES,
        np.sum(HALVES[:, 0].astype(np.float32) * HALVES[:, 1].astype(np.float32), axis=1),
    ),
    "float16": (
        lambda pair: jnp.sum(pair[0].astype(jnp.float16) * jnp.float16(0.1)),
        HALVES,
        np.sum(HALVES[:, 0] * np.float16(0.1), axis=1, dtype=np.float32),
    ),
    "a float as a byte": (
        lambda pair: (1e3 * pair[0, 0]).astype(jnp.int8),
        HALVES.astype(float) - 300,
        np.clip(np.trunc(1e3 * (HALVES[:, 0, 0].astype(float) - 300)), -128, 127),
    ),
}
TOLERANCE = {"float16": 2e-3}
NOT_PLAYED = ("float16 into float32",)
"""The compiled round multiplies these in half precision."""


@pytest.mark.parametrize("name", FACTORS)
def test_integers_and_halves_count_as_in_numpy(name):
    factor, data, numbers = FACTORS[name]
    problem = taut.Problem(
        lambda x, z: factor(z[1]) * (z[0] @ x),
        lambda x: jnp.abs(x).sum() - 1,
        taut.Ball(1.0, shape=3),
    )
    total = np.sum(numbers.astype(float)[:, None] * C, axis=0)
    expected = -np.abs(total).max()  # a linear function is smallest at a vertex of the l1 ball
    tolerance = TOLERANCE.get(name, 1e-8)
    best = taut.hindsight(problem, (C, data))
    assert best.loss[0] == pytest.approx(expected, rel=tolerance)
    assert best.gap[0] <= 1e-8

    if name in NOT_PLAYED:
        return
    run = taut.simulate(problem, (C, data), record=("loss", "excess", "decisions"))
    losses = numbers.astype(float) * np.sum(C * run.decisions[0], axis=1)
    regret = losses.sum() - expected
    assert taut.metrics.regret(run, best)[0] == pytest.approx(regret, rel=tolerance)
    row = {row.quantity: row for row in run.certificate().rows}["regret"]
    assert row.mean == pytest.approx(regret, rel=tolerance)

"""Rewriting a round for the compiler changes no number; games side by side in threads are the same
games."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from taut.play.xla import computed_once, rewritten

import taut

X = np.random.default_rng(0).normal(size=(3, 4, 5))

FUNCTIONS = {
    "sum over all": jnp.sum,
    "sum over two, keeping one": lambda x: jnp.sum(x, axis=(0, 1)),
    "sum over two that are not adjacent": lambda x: jnp.sum(x, axis=(0, 2)),
    "maximum and minimum": lambda x: (jnp.max(x), jnp.min(x, axis=(1, 2))),
    "logic": lambda x: (jnp.all(x > -9), jnp.any(x > 9)),
    "product": lambda x: jnp.prod(x, axis=(1, 2)),
    "inner product": lambda x: jnp.vdot(x, 2 * x),
    "inner product of whole numbers": lambda x: jnp.vdot(jnp.arange(3), jnp.arange(3)),
    "outer product": lambda x: jnp.tensordot(x[0, 0], x[0, 1], axes=0),
    "gradients of all rows of a single row": lambda x: jax.vmap(
        jax.vjp(lambda y: jnp.ravel(jnp.arange(5.0) @ y), x[0, 0])[1]
    )(jnp.eye(1)),
    "matrix product": lambda x: x[0] @ x[0].T,
    "norm": lambda x: jnp.linalg.norm(x.ravel()),
    "soft maximum": jax.nn.logsumexp,
    "branch": lambda x: jax.lax.cond(x[0, 0, 0] > 0, jnp.sum, lambda y: -jnp.max(y), x),
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, s: s + jnp.sum(x * i), 0.0),
    "scan": lambda x: jax.lax.scan(lambda s, y: (s + jnp.sum(y), jnp.max(y)), 0.0, x),
    "custom rule": lambda x: jax.nn.relu(x).sum(),
    "tree": lambda x: {"a": (jnp.sum(x), None), "b": [x]},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_numbers(name):
    function = FUNCTIONS[name]
    wanted, (found, stored) = function(X), rewritten(function)(X)
    assert stored == []
    assert jax.tree.structure(wanted) == jax.tree.structure(found)
    for one, other in zip(jax.tree.leaves(wanted), jax.tree.leaves(found), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


def test_under_transformations():
    def function(x):
        return jnp.sum(jnp.abs(x) ** 2) + jnp.max(x)

    changed = lambda x: rewritten(function)(x)[0]  # noqa: E731
    for transform in (jax.grad, jax.vmap, lambda f: jax.jit(jax.vmap(jax.grad(f)))):
        np.testing.assert_allclose(transform(changed)(X), transform(function)(X), rtol=1e-13)


def test_data_in_a_closure():
    @jax.jit
    def outer(x, y):
        return rewritten(lambda u: jnp.sum(u * y))(x)[0]

    np.testing.assert_allclose(outer(X, X), np.sum(X * X), rtol=1e-13)


def test_stored_values_are_handed_out():
    def function(x):
        y = computed_once(3 * x)
        return jnp.sum(y), jax.lax.cond(
            x[0, 0, 0] > 0, computed_once, lambda u: -u, x
        )  # what a branch marks stays there

    _, stored = rewritten(jax.jit(function))(X)
    assert len(stored) == 1
    np.testing.assert_allclose(stored[0], 3 * X)


def test_constraints_in_parts_have_the_joined_maximum():
    def joined(x):
        return jnp.concatenate([jnp.sum(x, 1) - 1, -x.ravel()])

    for x in (X[0], np.zeros((4, 5)), np.ones((4, 5))):
        domain = taut.Ball(9.0, shape=(4, 5))
        one = taut.max_of(
            taut.Problem(lambda x, z: z, lambda x: (jnp.sum(x, 1) - 1, -x), domain)
        ).constraints
        other = taut.max_of(taut.Problem(lambda x, z: z, joined, domain)).constraints
        one, other = one.linearise(jnp.asarray(x), None), other.linearise(jnp.asarray(x), None)
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_allclose(
            one.pullback(jnp.ones(1)), other.pullback(jnp.ones(1)), rtol=1e-14
        )
        np.testing.assert_allclose(
            one.pushforward(jnp.asarray(X[1])), other.pushforward(jnp.asarray(X[1])), rtol=1e-12
        )


@pytest.mark.parametrize(
    ("seeds", "learners", "rooms"), [(6, 1, (1, 15)), (4, 4, (5, 40)), (1, 4, (10,))]
)
def test_plays_in_groups_are_the_same_plays(seeds, learners, rooms, monkeypatch):
    rng = np.random.default_rng(1)
    data = rng.normal(size=(seeds, 20, 5))
    methods = [taut.ClippedOGD(eta=0.1 * (i + 1), sigma=4.0) for i in range(learners)]

    def play(room):
        monkeypatch.setattr(taut.play.loop, "SIDE_BY_SIDE", room)
        problem = taut.Problem(
            lambda x, c: c @ x, lambda x: x - 0.3, taut.Ball(1.0, shape=5)
        )  # new, so compiled anew
        return taut.simulate(methods, problem, data, seeds=seeds, record=("loss", "decisions"))

    wanted = play(10**6)
    for room in rooms:
        found = play(room)
        np.testing.assert_allclose(found.loss, wanted.loss, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.decisions, wanted.decisions, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            found.totals.squared, wanted.totals.squared, rtol=1e-12, atol=1e-12
        )


def test_threads_play_the_same_games():
    rng = np.random.default_rng(2)
    problem = taut.Problem(
        lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    )
    learner = taut.ClippedOGD(eta=0.1, sigma=4.0)
    streams = [rng.normal(size=(30 + i, 2)) for i in range(8)]
    jobs = [functools.partial(taut.simulate, learner, problem, stream) for stream in streams]
    for run, stream in zip(taut.simulate_all(jobs, threads=3), streams, strict=True):
        np.testing.assert_array_equal(run.loss, taut.simulate(learner, problem, stream).loss)


def test_threads_refuse_what_is_no_job():
    with pytest.raises(TypeError, match="jobs: got 3; expected functions"):
        taut.simulate_all([3])
    with pytest.raises(ValueError, match="threads: got 0"):
        taut.simulate_all([], threads=0)
    with pytest.raises(ZeroDivisionError):
        taut.simulate_all([lambda: 1, lambda: 1 / 0])

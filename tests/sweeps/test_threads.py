"""Simulations in threads are the same simulations."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import taut


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

"""Hindsight and certificates keep nothing of a problem alive: its functions are freed with it."""

import gc
import weakref

import jax.numpy as jnp
import numpy as np

import taut


def used_and_dropped(number):
    data = np.random.default_rng(number).normal(size=(20, 2))

    def loss(x, z):
        return z @ x

    def constraints(x):
        return jnp.abs(x).sum() - 1

    problem = taut.Problem(
        loss, constraints, taut.Ball(1.0, shape=2), taut.Constants(error_bound=1.0, slater=1.0)
    )
    best = taut.hindsight(problem, data)
    taut.hindsight(problem, data, comparator="per-round")
    taut.hindsight(problem, data[:, None], seeds=20)
    player = taut.Player(taut.ClippedOGD(0.1, 4.0), problem)
    for z in data:
        player.observe(z)
    player.certificate(stream=data, best=best)
    return weakref.ref(loss), weakref.ref(constraints)


def test_the_functions_of_a_problem_are_freed_after_hindsight_and_certificates():
    gone = [one for number in range(2) for one in used_and_dropped(number)]
    gc.collect()
    assert [one() for one in gone] == [None] * len(gone)

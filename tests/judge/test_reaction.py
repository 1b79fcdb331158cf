"""Theorems for data that do not depend on the decisions do not stand against an adversary that
reacts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import GAME, ROUNDS, learner
from taut.judge.certify import reacts_to_decisions
from taut.learners import Assumes

OBLIVIOUS, STOCHASTIC = str(Assumes.OBLIVIOUS), str(Assumes.STOCHASTIC)


def follows(t, x, key):
    """Away from the decision."""
    return -x


def draws(t, x, key):
    """Independent of the decision, although it could see it."""
    return jax.random.uniform(key, x.shape)


def counts(state, t, x, key):
    return state + 1, jnp.stack([state, state])


def remembers(state, t, x, key):
    return state + x.sum(), jnp.stack([state, state])


def played(name, stream, problem=GAME, **options):
    made = learner(name)
    rounds = {"horizon": ROUNDS} if callable(stream) or not hasattr(stream, "shape") else {}
    return taut.simulate(made, problem, stream, unproven=True, **rounds, **options)


def resting(certificate):
    """Rows whose bound rests on data that do not depend on decisions, with what is refuted."""
    return {
        row.quantity: row.refuted_assumptions
        for row in certificate.rows
        if row.guarantee is not None and {OBLIVIOUS, STOCHASTIC} & set(row.guarantee.assumptions)
    }


@pytest.mark.parametrize("name", ["two-point", "one-point", "bounded-game"])
def test_no_such_bound_stands_against_an_adversary_that_reacts(name, tmp_path):
    run = played(name, follows)
    rows = resting(run.certificate(best=0.0, check=False))
    assert rows
    assert all({OBLIVIOUS, STOCHASTIC} & set(refuted) for refuted in rows.values()), rows
    run.save(tmp_path / "run.nc")
    loaded = taut.Run.load(tmp_path / "run.nc")
    data = taut.play.replay.revealed_data(run)
    again = resting(loaded.certificate(problem=GAME, data=data, best=0.0, check=False))
    assert again == rows


@pytest.mark.parametrize("stream", [draws, np.full((ROUNDS, 2), 0.5)], ids=["drawn", "given"])
def test_they_stand_where_the_data_do_not_depend_on_decisions(stream):
    certificate = played("two-point", stream).certificate(best=0.0, check=False)
    assert not any(OBLIVIOUS in refuted for refuted in resting(certificate).values())
    status = {one.name: one.status for one in certificate.assumptions}
    assert status[OBLIVIOUS] == "verified exactly"


def test_the_previous_decision_is_data_that_depend_on_decisions():
    memory = taut.Problem(
        lambda x, z, previous: jnp.sum((x - z) ** 2) + jnp.sum((x - previous) ** 2),
        GAME.constraints.function,
        GAME.domain,
        GAME.constants,
        previous=True,
    )
    certificate = played("two-point", np.full((ROUNDS, 2), 0.5), memory).certificate(check=False)
    assert all(OBLIVIOUS in refuted for refuted in resting(certificate).values())


def test_the_decision_is_followed_through_state_loops_and_branches():
    first = np.zeros(2)

    def branches(t, x, key):
        return jax.lax.cond(t > 3, lambda: x, lambda: 0 * x)

    def loops(t, x, key):
        return jax.lax.fori_loop(0, 3, lambda i, y: y + x, jnp.zeros(2))

    def shapes(t, x, key):
        return jnp.zeros_like(x)

    for function, reacts in (
        (follows, True),
        (draws, False),
        (branches, True),
        (loops, True),
        (shapes, False),
        (jax.jit(follows), True),
        (jax.jit(draws), False),
    ):
        stream = taut.problem.streams.as_stream(function, horizon=3)
        assert reacts_to_decisions(stream, first) == reacts
    for function, reacts in ((counts, False), (remembers, True)):
        stream = taut.problem.streams.as_stream(taut.adversary(function, np.zeros(())), horizon=3)
        assert reacts_to_decisions(stream, first) == reacts


def test_every_bound_on_an_expectation_says_where_its_data_come_from():
    """A theorem on expectations that holds against adversaries that react would say so here."""
    for name in taut.LEARNERS:
        made = learner(name)
        setting = taut.judge.guarantees.setting_of(GAME)
        for bound in made.guarantees(setting, ROUNDS):
            if bound.expected and bound.bound is not None:
                assert {OBLIVIOUS, STOCHASTIC} & set(bound.assumptions), (name, bound)

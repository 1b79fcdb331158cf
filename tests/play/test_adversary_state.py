"""Adversaries that carry a state from round to round: compiled, one state per seed, resumed bit for
bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import ALL, GAME, assert_bit_equal
from taut.play.simulation import Simulation

LEARNER = taut.ClippedOGD(0.3, 5.0)
START = {"mean": np.zeros(2), "count": np.zeros((), np.int32)}
ROUNDS = 23


def reveal(state, round, decision, key):
    """Reveal the mean of all decisions so far, with some noise that differs by seed."""
    count = state["count"] + 1
    mean = state["mean"] + (decision - state["mean"]) / count.astype(decision.dtype)
    return {"mean": mean, "count": count}, 2 * mean - 1 + 0.3 * jax.random.normal(
        key, (2,), decision.dtype
    )


def play(**options):
    stream = taut.adversary(reveal, START)
    options = {
        "horizon": ROUNDS,
        "seeds": 2,
        "record": ALL,
        "chunk": 10,
        "key": jax.random.key(3),
        **options,
    }
    return taut.simulate(LEARNER, GAME, stream, **options)


def test_the_state_is_that_of_the_decisions_of_the_same_seed():
    run = play()
    keys = jax.random.split(jax.random.key(3), 2)
    for seed in range(2):
        for t in range(ROUNDS):
            noise = jax.random.normal(jax.random.fold_in(keys[seed], t + 1), (2,))
            z = 2 * run.decisions[seed, : t + 1].mean(axis=0) - 1 + 0.3 * np.asarray(noise)
            assert run.loss[seed, t] == pytest.approx(
                0.5 * np.sum((run.decisions[seed, t] - z) ** 2)
            )


def test_a_simulation_is_resumed_with_the_adversary_state(tmp_path, monkeypatch):
    whole, real = play(), Simulation._play_chunk

    def stopping(self, carry, data, start, rounds):
        if start >= 10:
            raise KeyboardInterrupt
        return real(self, carry, data, start, rounds)

    monkeypatch.setattr(Simulation, "_play_chunk", stopping)
    with pytest.raises(KeyboardInterrupt):
        play(checkpoint=tmp_path)
    monkeypatch.undo()
    other = taut.adversary(reveal, {**START, "mean": np.ones(2)})
    with pytest.raises(ValueError, match="different problem"):
        taut.simulate(
            LEARNER,
            GAME,
            other,
            horizon=ROUNDS,
            seeds=2,
            record=ALL,
            chunk=10,
            key=jax.random.key(3),
            checkpoint=tmp_path,
        )
    assert_bit_equal(play(checkpoint=tmp_path), whole)


def test_the_revealed_data_and_the_certificate_of_a_run():
    run = play(seeds=1)
    data = taut.play.replay.revealed_data(run)
    np.testing.assert_allclose(0.5 * np.sum((run.decisions - data) ** 2, axis=-1), run.loss)
    assert run.certificate(check=False).comparator is not None
    known = GAME.estimate_constants(taut.adversary(reveal, START), jax.random.key(0), horizon=10)
    assert known.loss_lipschitz > 0


def test_numbers_that_are_not_finite_are_reported_with_their_round():
    def exploding(state, round, decision, key):
        return state + 1, decision * 0 + 1 / (2 - state)

    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 3"):
        taut.simulate(LEARNER, GAME, taut.adversary(exploding, np.zeros(2)), horizon=5)


@pytest.mark.parametrize("seeds", [1, 3])
def test_an_adversary_that_draws_nothing_and_looks_at_nothing_is_played(seeds):
    """Its random key and its round are not used by anything in the compiled program."""
    run = taut.simulate(
        LEARNER, GAME, lambda t, x, key: jnp.array([1.0, -0.5]), horizon=7, seeds=seeds, record=ALL
    )
    fixed = np.tile([1.0, -0.5], (seeds, 7, 1))
    np.testing.assert_allclose(
        run.loss, taut.simulate(LEARNER, GAME, fixed, seeds=seeds).loss, rtol=1e-13
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: taut.adversary(lambda t, x, key: x, np.zeros(2)),
            "reveal: got .*expected a function reveal",
        ),
        (lambda: taut.adversary(reveal, None), "state: got no array"),
        (
            lambda: taut.simulate(LEARNER, GAME, reveal, horizon=5),
            r"expected taut.adversary\(reveal, state\)",
        ),
        (
            lambda: taut.simulate(LEARNER, GAME, taut.adversary(reveal, START)),
            "horizon is required",
        ),
        (lambda: _simulated(lambda s, t, x, key: x), "expected two things"),
        (
            lambda: _simulated(lambda s, t, x, key: (jnp.zeros(3), x)),
            r"returned a state with \(\(3,\)",
        ),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def _simulated(reveal):
    return taut.simulate(LEARNER, GAME, taut.adversary(reveal, np.zeros(2)), horizon=5)

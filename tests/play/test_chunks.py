"""Chunks: their default length, their limits, and the data that an adversary revealed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import ALL, FOUR, GAME, assert_bit_equal, targets
from taut.play import chunks, layout
from taut.play.compile_key import RECORDS
from taut.play.layout import default_chunk_length
from taut.play.replay import revealed_data
from taut.play.run import RECORDS as PUBLIC

CLIPPED = taut.ClippedOGD(0.3, 5.0)


@pytest.mark.parametrize("size", [0, 1, 8, 100, 1000, 2**13, 2**15, 2**20, 2**40])
def test_default_chunk_length(size):
    length = default_chunk_length(size)
    power = length - 8
    assert power & (power - 1) == 0  # a power of two, plus 8
    assert layout.SHORTEST <= power <= layout.LONGEST
    if layout.SHORTEST < power < layout.LONGEST:
        assert power * size <= layout.CHUNK_BYTES < 2 * power * size


@pytest.mark.parametrize("option", [{"chunk": 2**31}, {"every": 2**31}, {"chunk": 2**40, "every": 2**40}])
def test_chunk_and_every_beyond_the_horizon_allocate_nothing(option, monkeypatch):
    seen = []
    prepare = chunks.Simulation.prepare.__func__

    def spy(cls, **keywords):
        simulation = prepare(cls, **keywords)
        seen.append(simulation.key.length)
        return simulation

    monkeypatch.setattr(chunks.Simulation, "prepare", classmethod(spy))
    run = taut.simulate(CLIPPED, GAME, targets(rounds=5), record=ALL, **option)
    assert max(seen) <= 40_000
    assert run.every == option.get("every", 1)
    np.testing.assert_array_equal(run.loss, taut.simulate(CLIPPED, GAME, targets(rounds=5)).loss)
    assert run.decisions.shape == (1, 5 if run.every == 1 else 0, 2)


def test_every_equal_to_the_horizon_keeps_the_last_round():
    run = taut.simulate(CLIPPED, GAME, targets(rounds=5), record=ALL, every=5)
    every = taut.simulate(CLIPPED, GAME, targets(rounds=5), record=ALL)
    np.testing.assert_array_equal(run.decisions, every.decisions[:, 4:])


def test_public_records_are_records_of_the_loop():
    assert set(PUBLIC) == set(RECORDS) - {"data", "proposals"}


def reveal(t, x, key):
    return {"z": jax.random.normal(key, (2,), x.dtype) - x, "t": t}


PROBLEM = taut.Problem(
    lambda x, z: 0.5 * jnp.sum((x - z["z"]) ** 2), lambda x: jnp.sum(jnp.abs(x)) - 1, taut.Ball(1.5, shape=2)
)


@pytest.mark.parametrize("seeds", [None, 3])
def test_revealed_data_are_those_that_were_played(seeds, monkeypatch):
    run = taut.simulate(CLIPPED, PROBLEM, reveal, horizon=300, seeds=seeds, key=jax.random.key(4), record=ALL)
    monkeypatch.setattr(layout, "LONGEST", 256)  # several chunks
    monkeypatch.setattr(layout, "SHORTEST", 64)
    data = revealed_data(run)
    assert data["z"].shape == (seeds or 1, 300, 2)
    np.testing.assert_array_equal(data["t"], np.broadcast_to(np.arange(1, 301), (seeds or 1, 300)))
    losses = 0.5 * np.sum((run.decisions - data["z"]) ** 2, axis=-1)
    np.testing.assert_allclose(losses, run.loss, rtol=1e-12)
    again = taut.simulate(CLIPPED, PROBLEM, data, seeds=seeds or 1, record=ALL)
    np.testing.assert_allclose(again.decisions, run.decisions, rtol=1e-12, atol=1e-12)


def test_runs_without_an_adversary_have_no_revealed_data(tmp_path):
    run = taut.simulate(CLIPPED, GAME, targets(rounds=5))
    with pytest.raises(ValueError, match="run: got a run that has no adversary"):
        revealed_data(run)


def test_one_learner_of_a_sweep_and_one_seed_are_the_same_bits_without_the_axis():
    z = targets(rounds=40)
    plain = taut.simulate(CLIPPED, FOUR, z, record=ALL)
    assert_bit_equal(taut.simulate([CLIPPED], FOUR, z, record=ALL)[0], plain)
    assert_bit_equal(taut.simulate(CLIPPED, FOUR, z[None], seeds=1, record=ALL), plain)

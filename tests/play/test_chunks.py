"""Chunks: their default length, their limits, and the data that an adversary revealed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import ALL, FOUR, GAME, WIDE, assert_bit_equal, targets
from taut.play import simulation
from taut.play.buffers import aligned
from taut.play.compile import count_compiled
from taut.play.loop import RECORDS
from taut.play.replay import revealed_data
from taut.play.simulation import Simulation, chunk_of_any_length, default_chunk_length
from taut.runs.run import RECORDS as PUBLIC

CLIPPED = taut.ClippedOGD(0.3, 5.0)


@pytest.mark.parametrize("size", [0, 1, 8, 100, 1000, 2**13, 2**15, 2**20, 2**40])
def test_default_chunk_length(size):
    length = default_chunk_length(size)
    power = length - 8
    assert power & (power - 1) == 0  # a power of two, plus 8
    assert simulation.SHORTEST <= power <= simulation.LONGEST
    if simulation.SHORTEST < power < simulation.LONGEST:
        assert power * size <= simulation.CHUNK_BYTES < 2 * power * size


@pytest.mark.parametrize(
    "option", [{"chunk": 2**31}, {"every": 2**31}, {"chunk": 2**40, "every": 2**40}]
)
def test_chunk_and_every_beyond_the_horizon_allocate_nothing(option, monkeypatch):
    seen = []
    prepare = Simulation.__init__

    def spy(self, **keywords):
        prepare(self, **keywords)
        seen.append(self.shape.length)

    monkeypatch.setattr(Simulation, "__init__", spy)
    run = taut.simulate(CLIPPED, GAME, targets(rounds=5), record=ALL, **option)
    assert max(seen) <= 40_000
    assert run.every == option.get("every", 1)
    np.testing.assert_array_equal(run.loss, taut.simulate(CLIPPED, GAME, targets(rounds=5)).loss)
    assert run.decisions.shape == (1, 5 if run.every == 1 else 0, 2)


@pytest.mark.parametrize("few", simulation.FEW)
def test_short_and_long_simulations_agree(few):
    """Each has a program of its own, and `chunk_of_any_length` makes them share one."""
    z = targets(rounds=few + 1)
    problem = taut.Problem(GAME.loss, lambda x: jnp.sum(jnp.abs(x)) - 1, GAME.domain)
    before = count_compiled()
    short, long = (taut.simulate(CLIPPED, problem, data) for data in (z[:-1], z))
    assert count_compiled() == before + 2
    np.testing.assert_array_equal(short.loss[0], long.loss[0, :-1])
    again = taut.simulate(CLIPPED, problem, z, chunk=chunk_of_any_length(len(z)))
    before = count_compiled()
    shared = taut.simulate(CLIPPED, problem, z[:-1], chunk=chunk_of_any_length(len(z) - 1))
    assert count_compiled() == before
    np.testing.assert_array_equal(again.loss, long.loss)
    np.testing.assert_array_equal(shared.loss, short.loss)


def test_every_equal_to_the_horizon_keeps_the_last_round():
    run = taut.simulate(CLIPPED, GAME, targets(rounds=5), record=ALL, every=5)
    every = taut.simulate(CLIPPED, GAME, targets(rounds=5), record=ALL)
    np.testing.assert_array_equal(run.decisions, every.decisions[:, 4:])


def test_public_records_are_records_of_the_loop():
    assert set(PUBLIC) == set(RECORDS) - {"data", "proposals", "own decisions", "path"}


def reveal(t, x, key):
    return {"z": jax.random.normal(key, (2,), x.dtype) - x, "t": t}


PROBLEM = taut.Problem(
    lambda x, z: 0.5 * jnp.sum((x - z["z"]) ** 2),
    lambda x: jnp.sum(jnp.abs(x)) - 1,
    taut.Ball(1.5, shape=2),
)


@pytest.mark.parametrize("seeds", [None, 3])
def test_revealed_data_are_those_that_were_played(seeds, monkeypatch):
    run = taut.simulate(
        CLIPPED, PROBLEM, reveal, horizon=300, seeds=seeds, key=jax.random.key(4), record=ALL
    )
    monkeypatch.setattr(simulation, "LONGEST", 256)  # several chunks
    monkeypatch.setattr(simulation, "SHORTEST", 64)
    data = revealed_data(run)
    assert data["z"].shape == (seeds or 1, 300, 2)
    np.testing.assert_array_equal(data["t"], np.broadcast_to(np.arange(1, 301), (seeds or 1, 300)))
    losses = 0.5 * np.sum((run.decisions - data["z"]) ** 2, axis=-1)
    np.testing.assert_allclose(losses, run.loss, rtol=1e-12)
    again = taut.simulate(CLIPPED, PROBLEM, data, seeds=seeds or 1, record=ALL)
    np.testing.assert_allclose(again.decisions, run.decisions, rtol=1e-12, atol=1e-12)


def test_a_function_may_overwrite_the_arrays_that_it_returned_before():
    """Its arrays lie so that the compiled loop could read them in place."""
    z = np.random.default_rng(0).normal(size=(2000, 600))
    scratch = aligned((1, 200, 600), float)[0]

    def chunk(start, length):
        scratch[:length] = z[start : start + length]
        return scratch[:length]

    expected = taut.simulate(CLIPPED, WIDE, z, chunk=200)
    assert_bit_equal(taut.simulate(CLIPPED, WIDE, chunk, horizon=2000, chunk=200), expected)


def test_the_first_number_that_is_not_finite_is_named():
    z = targets(rounds=50)
    z[25], z[45] = np.nan, np.inf
    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 26"):
        taut.simulate(CLIPPED, GAME, z, chunk=20)


@pytest.mark.parametrize("size", [2, 600])
def test_a_loss_that_calls_back_is_played_and_its_own_error_is_raised(size):
    calls, last = [], [float("inf")]

    def counted(u):
        calls.append(None)
        if len(calls) > last[0]:
            raise RuntimeError("an error of the user's own")
        return np.asarray(u)

    @jax.custom_jvp
    def called(u):
        return jax.pure_callback(
            counted, jax.ShapeDtypeStruct(u.shape, u.dtype), u, vmap_method="expand_dims"
        )

    called.defjvp(lambda primals, tangents: (called(primals[0]), tangents[0]))
    problem = taut.Problem(
        lambda x, z: jnp.sum((called(x) - z) ** 2),
        lambda x: jnp.sum(x * x) - 1,
        taut.Ball(2.0, shape=size),
    )
    z = np.random.default_rng(0).normal(size=(60, size))
    runs = [taut.simulate(CLIPPED, problem, z, chunk=chunk) for chunk in (60, 8)]
    np.testing.assert_array_equal(runs[0].loss, runs[1].loss)
    last[0] = len(calls) + 20
    with pytest.raises(Exception, match="an error of the user's own"):
        taut.simulate(CLIPPED, problem, z, chunk=8)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_an_error_between_two_chunks_does_not_lose_those_before(tmp_path, monkeypatch, kind):
    z, play_chunk = targets(rounds=50), Simulation._play_chunk
    whole = taut.simulate(CLIPPED, GAME, z, chunk=20)

    def stopping(self, carry, data, start, rounds):
        if start >= 40:
            raise kind
        return play_chunk(self, carry, data, start, rounds)

    monkeypatch.setattr(Simulation, "_play_chunk", stopping)
    with pytest.raises(kind):
        taut.simulate(CLIPPED, GAME, z, chunk=20, checkpoint=tmp_path)
    monkeypatch.undo()
    assert {path.name for path in tmp_path.glob("records-*")} == {
        "records-20.npz",
        "records-40.npz",
    }
    assert_bit_equal(taut.simulate(CLIPPED, GAME, z, chunk=20, checkpoint=tmp_path), whole)


def test_runs_without_an_adversary_have_no_revealed_data(tmp_path):
    run = taut.simulate(CLIPPED, GAME, targets(rounds=5))
    with pytest.raises(ValueError, match="run: got a run that has no adversary"):
        revealed_data(run)


def test_one_learner_of_a_sweep_and_one_seed_are_the_same_bits_without_the_axis():
    z = targets(rounds=40)
    plain = taut.simulate(CLIPPED, FOUR, z, record=ALL)
    assert_bit_equal(taut.simulate([CLIPPED], FOUR, z, record=ALL)[0], plain)
    assert_bit_equal(taut.simulate(CLIPPED, FOUR, z[None], seeds=1, record=ALL), plain)

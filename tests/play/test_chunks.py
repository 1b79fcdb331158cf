"""Chunks: their default length, their limits, and the data that an adversary revealed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from taut.play.compile_key import RECORDS

import taut
from small_games import ALL, FOUR, GAME, WIDE, assert_bit_equal, targets
from taut.play import chunks, layout
from taut.play.buffers import aligned
from taut.play.compile import count_compiled
from taut.play.replay import revealed_data
from taut.play.simulation import default_chunk_length, without_waste
from taut.runs.run import RECORDS as PUBLIC

CLIPPED = taut.ClippedOGD(0.3, 5.0)


@pytest.mark.parametrize("size", [0, 1, 8, 100, 1000, 2**13, 2**15, 2**20, 2**40])
def test_default_chunk_length(size):
    length = default_chunk_length(size)
    power = length - 8
    assert power & (power - 1) == 0  # a power of two, plus 8
    assert layout.SHORTEST <= power <= layout.LONGEST
    if layout.SHORTEST < power < layout.LONGEST:
        assert power * size <= layout.CHUNK_BYTES < 2 * power * size


@pytest.mark.parametrize(
    "option", [{"chunk": 2**31}, {"every": 2**31}, {"chunk": 2**40, "every": 2**40}]
)
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


@pytest.mark.parametrize("size", [1, 16, 160, 4000, 2**17])
@pytest.mark.parametrize(
    "horizon", [1, 2, 7, 1000, 1025, 5000, 8192, 8193, 16384, 20_000, 32_768, 100_000]
)
def test_records_of_one_chunk_are_hardly_longer_than_the_horizon(horizon, size):
    usual = default_chunk_length(size)
    length = without_waste(usual, horizon, size)
    assert length <= usual
    if horizon > usual or usual * size <= layout.LARGE:
        assert length == usual
    else:
        assert horizon <= length
        assert length <= max(1.25 * horizon, horizon + 1) + 8  # the 8 keep rows of seeds apart


def test_few_horizons_with_large_records_need_another_program():
    lengths = {without_waste(32_776, horizon, 160) for horizon in range(16_385, 32_769)}
    assert len(lengths) == 4
    z = np.resize(targets(seeds=10), (10, 9000, 2))
    first = taut.simulate(CLIPPED, GAME, z, seeds=10)
    assert first.loss.base.nbytes <= 1.25 * first.loss.nbytes
    before = count_compiled()
    second = taut.simulate(CLIPPED, GAME, z[:, :8900], seeds=10)
    assert count_compiled() == before
    np.testing.assert_array_equal(second.loss, first.loss[:, :8900])


def test_every_equal_to_the_horizon_keeps_the_last_round():
    run = taut.simulate(CLIPPED, GAME, targets(rounds=5), record=ALL, every=5)
    every = taut.simulate(CLIPPED, GAME, targets(rounds=5), record=ALL)
    np.testing.assert_array_equal(run.decisions, every.decisions[:, 4:])


def test_public_records_are_records_of_the_loop():
    assert set(PUBLIC) == set(RECORDS) - {"data", "proposals"}


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
    monkeypatch.setattr(layout, "LONGEST", 256)  # several chunks
    monkeypatch.setattr(layout, "SHORTEST", 64)
    data = revealed_data(run)
    assert data["z"].shape == (seeds or 1, 300, 2)
    np.testing.assert_array_equal(data["t"], np.broadcast_to(np.arange(1, 301), (seeds or 1, 300)))
    losses = 0.5 * np.sum((run.decisions - data["z"]) ** 2, axis=-1)
    np.testing.assert_allclose(losses, run.loss, rtol=1e-12)
    again = taut.simulate(CLIPPED, PROBLEM, data, seeds=seeds or 1, record=ALL)
    np.testing.assert_allclose(again.decisions, run.decisions, rtol=1e-12, atol=1e-12)


def test_a_function_may_overwrite_the_arrays_that_it_returned_before():
    """Chunks overlap in time. Data of a function that are read in place must not change while they
    are read."""
    z = np.random.default_rng(0).normal(size=(2000, 600))
    scratch = aligned((1, 200, 600), float)[0]

    def chunk(start, length):
        scratch[:length] = z[start : start + length]
        return scratch[:length]

    expected = taut.simulate(CLIPPED, WIDE, z, chunk=200)
    assert_bit_equal(taut.simulate(CLIPPED, WIDE, chunk, horizon=2000, chunk=200), expected)


def test_a_chunk_is_started_before_the_one_before_is_looked_at(monkeypatch):
    order = []
    start, finish = chunks.Simulation._start, chunks.Simulation._finish

    def starting(self, state, data, begun, rounds):
        order.append(f"start {begun}")
        return start(self, state, data, begun, rounds)

    def finishing(self, totals, started):
        order.append(f"finish {started.start}")
        return finish(self, totals, started)

    monkeypatch.setattr(chunks.Simulation, "_start", starting)
    monkeypatch.setattr(chunks.Simulation, "_finish", finishing)
    z = targets(rounds=50)
    run = taut.simulate(CLIPPED, GAME, z, chunk=20)
    assert order == ["start 0", "start 20", "finish 0", "start 40", "finish 20", "finish 40"]
    order.clear()
    again = taut.simulate(
        CLIPPED, GAME, lambda begun, length: z[begun : begun + length], horizon=50, chunk=20
    )
    assert order == ["start 0", "finish 0", "start 20", "finish 20", "start 40", "finish 40"]
    assert_bit_equal(again, run)


def test_the_first_number_that_is_not_finite_is_named_although_chunks_overlap():
    z = targets(rounds=50)
    z[25], z[45] = np.nan, np.inf
    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 26"):
        taut.simulate(CLIPPED, GAME, z, chunk=20)


@pytest.mark.parametrize("size", [2, 600])
def test_a_loss_that_calls_back_is_played_in_overlapping_chunks_too(size):
    """The callback needs the interpreter while the next chunk is being started; an error of its own
    is raised."""
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
def test_a_chunk_that_cannot_be_started_does_not_lose_the_one_before(tmp_path, monkeypatch, kind):
    z, start = targets(rounds=50), chunks.Simulation._start
    whole = taut.simulate(CLIPPED, GAME, z, chunk=20)

    def stopping(self, state, data, begun, rounds):
        if begun >= 40:
            raise kind
        return start(self, state, data, begun, rounds)

    monkeypatch.setattr(chunks.Simulation, "_start", stopping)
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

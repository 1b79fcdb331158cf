"""Streams: arrays of any kind, memory maps, chunk functions and adversaries look alike to a
game."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import BALL, GAME, ROUNDS, clipped_by_hand, outside_diamond, targets
from taut.play import simulation
from taut.play.buffers import aligned
from taut.problem.streams import Adversary, Arrays, Chunks, Stream, as_stream

CLIPPED = taut.ClippedOGD(0.3, 5.0)


def simulated(stream, problem=GAME, **options):
    return taut.simulate(CLIPPED, problem, stream, record=("loss",), chunk=16, **options)


@pytest.fixture(scope="module")
def expected():
    """Losses of the same game over two seeds, by hand."""
    return np.stack([clipped_by_hand(z, 0.3, 5.0)[1] for z in targets(seeds=2)])


def memory_map(array, path):
    stored = np.lib.format.open_memmap(
        path / "stream.npy", mode="w+", dtype=array.dtype, shape=array.shape
    )
    stored[...] = array
    stored.flush()
    return np.load(path / "stream.npy", mmap_mode="r")


@pytest.mark.parametrize("kind", [">f8", np.longdouble, ">i4"])
def test_other_orders_of_bytes_and_longer_floats_give_the_same_game(kind):
    z, x1 = np.round(4 * targets()), np.array([0.5, 0.25])
    wanted = simulated(z, x1=x1)
    found = simulated(z.astype(kind), x1=x1.astype(">f8" if kind == ">i4" else kind))
    np.testing.assert_array_equal(found.loss, wanted.loss)
    assert all(
        leaf.dtype.isnative for leaf in jax.tree.leaves(found.stream.block(0, 5))
    )  # what hindsight reads
    live = taut.Player(CLIPPED, GAME, x1=x1)
    for one in (z[0].astype(kind), z[1]) if kind != ">i4" else z[:2].astype(kind):
        live.observe(one)
    np.testing.assert_allclose(live.totals.loss, wanted.loss[0, :2].sum(), rtol=1e-14)


@pytest.mark.parametrize("kind", ["numpy", "jax", "memory map", "chunks", "jax chunks", "stream"])
@pytest.mark.parametrize("seeds", [None, 2])
def test_sources_give_the_same_game(kind, seeds, expected, tmp_path):
    z = targets(seeds=2)
    wanted = expected
    if seeds is None:
        z, wanted = z[0], expected[:1]

    def rows(start, length):
        return z[start : start + length] if seeds is None else z[:, start : start + length]

    stream = {
        "numpy": lambda: z,
        "jax": lambda: jnp.asarray(z),
        "memory map": lambda: memory_map(z, tmp_path),
        "chunks": lambda: rows,
        "jax chunks": lambda: lambda start, length: jnp.asarray(rows(start, length)),
        "stream": lambda: as_stream(z, seeds=seeds),
    }[kind]()
    run = simulated(stream, seeds=seeds, horizon=ROUNDS if callable(stream) else None)
    np.testing.assert_allclose(run.loss, wanted, atol=1e-12)
    assert isinstance(run.stream, Chunks if "chunks" in kind else Arrays)


def test_data_are_read_in_place_where_they_lie_well(expected, monkeypatch):
    """The last chunk reads rounds before it too, because a compiled chunk has a fixed length."""
    z = targets(seeds=2)[0]
    well = aligned(z.shape, z.dtype)
    well[...] = z
    ill = np.zeros(z.size + 1)[1:].reshape(z.shape)
    ill[...] = z
    read_in_place, real = [], simulation.in_place

    def spy(data, length, borrowed):
        read_in_place.append(np.shares_memory(array := real(data, length, borrowed), data))
        return array

    monkeypatch.setattr(simulation, "in_place", spy)
    for stream in (well, ill):
        np.testing.assert_allclose(simulated(stream).loss, expected[:1], atol=1e-12)
    assert read_in_place == [True] * 4 + [False] * 4


def test_memory_map_is_read_chunk_by_chunk(tmp_path):
    z = memory_map(targets(), tmp_path)
    stream = as_stream(z)
    assert stream.data is z
    block = stream.block(3, 4)
    assert block.shape == (1, 4, 2)
    assert np.shares_memory(block, z)


def test_chunk_function_is_asked_for_whole_chunks_in_order():
    asked = []

    def chunk(start, length):
        asked.append((start, length))
        return targets()[start : start + length]

    simulated(chunk, horizon=40)
    assert asked == [(0, 1), (0, 16), (16, 16), (32, 8)]  # the first shows what data look like


@pytest.mark.parametrize("make", [dict, tuple, list], ids=lambda kind: kind.__name__)
def test_pytrees_of_arrays(make, expected):
    z = targets(seeds=2)
    first, second = z[..., 0], z[..., 1]
    stream = {"first": first, "deep": {"second": second}} if make is dict else make([first, second])

    def loss(x, z):
        point = [z["first"], z["deep"]["second"]] if make is dict else list(z)
        return 0.5 * jnp.sum((x - jnp.stack(point)) ** 2)

    problem = taut.Problem(loss, outside_diamond, BALL)
    np.testing.assert_allclose(simulated(stream, problem, seeds=2).loss, expected, atol=1e-12)


@pytest.mark.parametrize(
    "dtype", [np.int64, np.int8, np.uint16, np.bool_, np.float16, np.longdouble]
)
def test_data_of_any_real_type(dtype):
    signs = np.random.default_rng(0).integers(0, 2, ROUNDS).astype(dtype)

    def loss(x, z):
        return jnp.where(z > 0, x[0], -x[0])

    problem = taut.Problem(loss, outside_diamond, BALL)
    run = taut.simulate(CLIPPED, problem, signs, record=("loss", "decisions"), chunk=16)
    x = run.decisions[0, :, 0]
    np.testing.assert_array_equal(run.loss[0], np.where(signs > 0, x, -x))


def test_whole_numbers_index_a_table():
    table = jnp.asarray(targets(rounds=4))

    def loss(x, z):
        return 0.5 * jnp.sum((x - table[z]) ** 2)

    which = np.random.default_rng(1).integers(0, 4, ROUNDS)
    run = simulated(which, taut.Problem(loss, outside_diamond, BALL))
    np.testing.assert_allclose(
        run.loss[0], clipped_by_hand(np.asarray(table)[which], 0.3, 5.0)[1], atol=1e-12
    )


def test_a_stream_is_taken_again_and_cut():
    z = targets(seeds=2)
    stream = as_stream(z, seeds=2)
    assert as_stream(stream) is stream
    shorter = as_stream(stream, horizon=7)
    assert (shorter.horizon, stream.horizon) == (7, ROUNDS)
    run = simulated(stream, horizon=7)
    assert run.loss.shape == (2, 7)
    assert run.stream.horizon == 7
    again = simulated(run.stream)
    np.testing.assert_array_equal(again.loss, run.loss)


def test_functions_are_told_apart_by_their_required_arguments():
    def chunk(start, length, scale=1.0):
        return np.zeros((length, 2))

    def reveal(round, decision, key, scale=1.0):
        return scale * decision

    assert isinstance(as_stream(chunk, horizon=5), Chunks)
    assert isinstance(as_stream(reveal, horizon=5), Adversary)
    assert isinstance(as_stream(jax.jit(reveal), horizon=5), Adversary)
    partial = functools.partial(reveal, scale=2.0)
    assert as_stream(partial, horizon=5, seeds=3).reacts
    assert not as_stream(chunk, horizon=5).reacts


def test_a_stream_of_the_users_own():
    class Constant(Stream):
        horizon, seeds = ROUNDS, 2

        def block(self, start, length):
            return np.full((2, length, 2), 0.5)

    np.testing.assert_allclose(
        simulated(Constant()).loss,
        [clipped_by_hand([[0.5, 0.5]] * ROUNDS, 0.3, 5.0)[1]] * 2,
        atol=1e-12,
    )

"""Memory for data of chunks: never used twice at a time, kept for later up to a limit."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import taut
from small_games import GAME, WIDE, assert_bit_equal, targets
from taut.play import buffers
from taut.play.buffers import aligned, give_back, in_place, is_aligned

CLIPPED = taut.ClippedOGD(0.3, 5.0)


@pytest.fixture
def free(monkeypatch):
    """The memory that is free, which no other test has used."""
    made = []
    monkeypatch.setattr(buffers, "_free", made)
    return made


def block(rounds):
    return np.arange(float(rounds)).reshape(1, rounds)


def test_memory_in_use_is_not_given_to_anybody_else(free):
    mine, yours = [], []
    first, second = in_place(block(100), 128, mine), in_place(block(100), 128, yours)
    assert not np.shares_memory(first, second)
    give_back(mine)
    assert np.shares_memory(in_place(block(90), 99, []), first)  # larger memory will do
    assert not np.shares_memory(in_place(block(90), 99, []), first)


def test_the_smallest_memory_that_is_large_enough_is_taken(free):
    sizes = [4000, 2000, 500]
    give_back([aligned((size,), np.uint8) for size in sizes])
    borrowed = []
    for _ in range(2):
        in_place(block(100), 125, borrowed)
    assert [memory.size for memory in borrowed] == [2000, 4000]
    assert [memory.size for memory in free] == [500]


def test_what_was_not_used_for_the_longest_time_is_freed(free, monkeypatch):
    monkeypatch.setattr(buffers, "KEPT", 2500)
    for size in (1000, 2000):
        give_back([aligned((size,), np.uint8)])
    assert [memory.size for memory in free] == [2000]
    give_back([aligned((3000,), np.uint8)])
    assert free == []


def test_data_are_copied_unless_they_can_be_read_in_place(free):
    well, borrowed = aligned((2, 8, 3), float), []
    well[...] = np.arange(48.0).reshape(2, 8, 3)
    assert in_place(well, 8, borrowed) is well
    assert borrowed == []
    copied = in_place(well[:, :5], 8, borrowed)
    assert is_aligned(copied)
    assert copied.shape == (2, 8, 3)
    np.testing.assert_array_equal(copied[:, :5], well[:, :5])
    other = in_place(well[:, 1:], 8, borrowed)  # a second array of the same chunk
    assert not np.shares_memory(copied, other)
    assert len(borrowed) == 2


def test_chunks_of_ill_placed_data_are_copied_into_the_same_memory(free):
    well = aligned((2000, 600), float)
    well[...] = np.random.default_rng(0).normal(size=well.shape)
    ill = aligned((well.size + 1,), float)[1:].reshape(well.shape)
    ill[...] = well
    expected = taut.simulate(CLIPPED, WIDE, well, chunk=200)
    assert not free  # nothing was copied
    assert_bit_equal(taut.simulate(CLIPPED, WIDE, ill, chunk=200), expected)
    assert len(free) == 1


def test_threads_share_memory_and_not_each_others_data(free):
    streams = [np.random.default_rng(k).normal(size=(2, 300, 600)) for k in range(8)]
    expected = [taut.simulate(CLIPPED, WIDE, z, seeds=2, chunk=64) for z in streams]
    jobs = [partial(taut.simulate, CLIPPED, WIDE, z, seeds=2, chunk=64) for z in streams]
    for _ in range(2):
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda job: job(), jobs))
        for one, other in zip(found, expected, strict=True):
            assert_bit_equal(one, other)
    assert 0 < len(free) <= 4  # one chunk of each thread


def test_data_that_are_not_finite_do_not_keep_memory_from_others(free):
    z = targets(seeds=3, rounds=50)
    bad = z.copy()
    bad[1, 7] = np.nan
    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 8"):
        taut.simulate(CLIPPED, GAME, bad, seeds=3)
    again = taut.simulate(CLIPPED, GAME, z, seeds=3)
    assert_bit_equal(again, taut.simulate(CLIPPED, GAME, z, seeds=3))

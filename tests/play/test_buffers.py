"""Memory for data of chunks: never used twice at a time, kept for later up to a limit."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import taut
from small_games import GAME, WIDE, assert_bit_equal, targets
from taut.play import buffers
from taut.play.buffers import Buffers, Staging, aligned, is_aligned

CLIPPED = taut.ClippedOGD(0.3, 5.0)


@pytest.fixture
def own(monkeypatch):
    """Buffers that no other test has used."""
    made = Buffers()
    monkeypatch.setattr(buffers, "BUFFERS", made)
    return made


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_in_use_is_not_given_to_anybody_else():
    shared = Buffers()
    first, second = shared.take(1000), shared.take(1000)
    assert not np.shares_memory(first, second)
    shared.give_back(first)
    assert shared.take(900) is first  # larger memory will do
    assert not np.shares_memory(shared.take(900), first)


def test_the_smallest_memory_that_is_large_enough_is_taken():
    shared = Buffers()
    large, small, tiny = (aligned((size,), np.uint8) for size in (4000, 2000, 500))
    for memory in (large, small, tiny):
        shared.give_back(memory)
    assert shared.take(1000) is small
    assert shared.take(1000) is large


def test_what_was_not_used_for_the_longest_time_is_freed(monkeypatch):
    monkeypatch.setattr(buffers, "KEPT", 2500)
    shared = Buffers()
    old, new, huge = (aligned((size,), np.uint8) for size in (1000, 2000, 3000))
    for memory in (old, new):
        shared.give_back(memory)
    assert shared.take(500) is new
    shared.give_back(huge)
    assert shared.take(500) is not huge


def test_data_are_copied_unless_they_can_be_read_in_place(own):
    well, staging = aligned((2, 8, 3), float), Staging()
    well[...] = np.arange(48.0).reshape(2, 8, 3)
    assert staging.copy(well, 8) is well
    copied = staging.copy(well[:, :5], 8)
    assert is_aligned(copied)
    assert copied.shape == (2, 8, 3)
    np.testing.assert_array_equal(copied[:, :5], well[:, :5])
    other = staging.copy(well[:, 1:], 8)  # a second array of the same chunk
    assert not np.shares_memory(copied, other)
    staging.end()
    assert address(own.take(other.nbytes)) in (address(copied), address(other))
    staging.end()  # nothing is given back twice
    assert not np.shares_memory(own.take(1), own.take(1))


def test_chunks_of_ill_placed_data_are_copied_into_the_same_memory(own):
    well = aligned((2000, 600), float)
    well[...] = np.random.default_rng(0).normal(size=well.shape)
    ill = aligned((well.size + 1,), float)[1:].reshape(well.shape)
    ill[...] = well
    expected = taut.simulate(CLIPPED, WIDE, well, chunk=200)
    assert not own._free  # nothing was copied
    assert_bit_equal(taut.simulate(CLIPPED, WIDE, ill, chunk=200), expected)
    assert len(own._free) == 1


def test_threads_share_memory_and_not_each_others_data(own):
    streams = [np.random.default_rng(k).normal(size=(2, 300, 600)) for k in range(8)]
    expected = [taut.simulate(CLIPPED, WIDE, z, seeds=2, chunk=64) for z in streams]
    jobs = [partial(taut.simulate, CLIPPED, WIDE, z, seeds=2, chunk=64) for z in streams]
    for _ in range(2):
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda job: job(), jobs))
        for one, other in zip(found, expected, strict=True):
            assert_bit_equal(one, other)
    assert 0 < len(own._free) <= 4  # one chunk of each thread


def test_data_that_are_not_finite_do_not_keep_memory_from_others(own):
    z = targets(seeds=3, rounds=50)
    bad = z.copy()
    bad[1, 7] = np.nan
    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 8"):
        taut.simulate(CLIPPED, GAME, bad, seeds=3)
    again = taut.simulate(CLIPPED, GAME, z, seeds=3)
    assert_bit_equal(again, taut.simulate(CLIPPED, GAME, z, seeds=3))

"""Data that are used in place are played in longer chunks. No number depends on it, not even the
last bits of totals."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import assert_bit_equal
from taut.play import chunks, layout
from taut.play.buffers import aligned

SIZE, ROUNDS = 150, 250
CLIPPED = taut.ClippedOGD(0.3, float(SIZE))
RECORDED = ("loss", "excess")


def linear(x, z):
    return jnp.vdot(z, x)


def problem(constraints=lambda x: jnp.sum(x) - 0.1):
    return taut.Problem(linear, constraints, taut.Ball(1.5, shape=SIZE))


def in_place(z):
    memory = aligned(z.shape, z.dtype)
    memory[...] = z
    return memory


def elsewhere(z):
    """The same numbers at an address that XLA copies from."""
    memory = aligned((z.size + 1,), z.dtype)[1:].reshape(z.shape)
    memory[...] = z
    return memory


DATA = np.random.default_rng(0).normal(size=(ROUNDS, SIZE))


@pytest.fixture(autouse=True)
def lengths(monkeypatch):
    """Short chunks of 24 rounds, and the numbers of rounds and blocks of all chunks that are
    played."""
    monkeypatch.setattr(layout, "CHUNK_BYTES", 2**15)
    played = []

    def spy(programs, key, *arguments):
        played.append((int(arguments[-1][1]), key.blocks))
        return original(programs, key, *arguments)

    original = chunks.play
    monkeypatch.setattr(chunks, "play", spy)
    return played


LONG = [(96, 4), (96, 4), (58, 4)]
SHORT = [(24, 1)] * 10 + [(10, 1)]


@pytest.mark.parametrize(
    "constraints",
    [
        lambda x: jnp.sum(x) - 0.1,
        lambda x: x - 0.02,
        lambda x: (jnp.sum(jnp.abs(x)) - 1, jnp.sum(x * x) - 0.5),
    ],
    ids=["one", "many", "two"],
)
def test_the_same_bits_wherever_the_data_lie(lengths, constraints):
    game = problem(constraints)
    runs = {}
    for place in (in_place, elsewhere, jax.device_put):
        lengths.clear()
        runs[place] = taut.simulate(CLIPPED, game, place(DATA), record=RECORDED)
        assert lengths == (SHORT if place is elsewhere else LONG)
    assert_bit_equal(runs[in_place], runs[elsewhere])
    assert_bit_equal(runs[jax.device_put], runs[elsewhere])
    totals = runs[in_place].totals
    np.testing.assert_allclose(totals.loss, runs[elsewhere].loss.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(
        totals.peak.max(axis=-1), np.maximum(runs[elsewhere].excess, 0).max(axis=1), rtol=1e-12
    )
    assert (totals.peak > 0).any()


@pytest.mark.parametrize("order", [(in_place, elsewhere), (elsewhere, in_place)])
def test_repeated_calls_look_at_each_array_anew(lengths, order):
    game, given = problem(), {}
    for place in 2 * order:
        lengths.clear()
        run = taut.simulate(CLIPPED, game, given.setdefault(place, place(DATA)), record=RECORDED)
        assert lengths == (SHORT if place is elsewhere else LONG)
        assert_bit_equal(run, taut.simulate(CLIPPED, game, elsewhere(DATA), record=RECORDED))


@pytest.mark.parametrize(
    "change",
    ["chunk", "every row recorded", "few rounds", "another type", "an adversary", "a function"],
)
def test_chunks_stay_short(lengths, change):
    z, stream, options = in_place(DATA), None, {"record": RECORDED}
    if change == "chunk":
        options["chunk"] = 24
    elif change == "every row recorded":
        options["record"] = ("loss", "decisions")
    elif change == "few rounds":
        z = in_place(DATA[:95])
    elif change == "another type":
        z = in_place(DATA.astype(np.float32))
    elif change == "an adversary":
        points = jnp.asarray(DATA)
        stream, options["horizon"] = lambda t, x, key: points[t - 1], ROUNDS
    else:
        stream, options["horizon"] = lambda start, length: DATA[start : start + length], ROUNDS
    taut.simulate(CLIPPED, problem(), z if stream is None else stream, **options)
    assert {blocks for _, blocks in lengths} == {1}


def test_a_checkpoint_can_be_continued_with_data_that_lie_elsewhere(lengths, tmp_path, monkeypatch):
    game = problem()
    whole = taut.simulate(CLIPPED, game, in_place(DATA), record=RECORDED)
    assert lengths == LONG
    lengths.clear()

    class Stopped(Exception):
        pass

    def stop(done, horizon):
        if done >= 120:
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr("taut.play.simulate.check_deadline", stop)
        with pytest.raises(Stopped):
            taut.simulate(
                CLIPPED, game, in_place(DATA), record=RECORDED, checkpoint=tmp_path / "run"
            )
    run = taut.simulate(
        CLIPPED, game, elsewhere(DATA), record=RECORDED, checkpoint=tmp_path / "run"
    )
    assert {blocks for _, blocks in lengths} == {1}
    assert len(lengths) <= len(SHORT) + 1  # the chunks before the stop are not played again
    assert_bit_equal(run, whole)


@pytest.mark.parametrize("round", [1, 24, 25, 96, 97, 193, 250])
@pytest.mark.parametrize("seeds", [None, 2])
def test_numbers_that_are_not_finite_are_named_with_their_round(round, seeds):
    z = DATA.copy()
    z[round - 1, -1] = np.nan
    stream = in_place(z) if seeds is None else in_place(np.stack([DATA, z]))
    with pytest.raises(
        ValueError, match=f"stream: got a value that is not finite in round {round};"
    ):
        taut.simulate(CLIPPED, problem(), stream, **({} if seeds is None else {"seeds": seeds}))


def test_a_total_that_overflows_in_a_late_block_is_noticed():
    z = np.zeros_like(DATA)
    z[100:] = 1.3e308  # losses of 1e307
    with pytest.raises(ValueError, match="totals that are not finite by round 192"):
        taut.simulate(
            taut.ClippedOGD(1e-320, 4.0), problem(), in_place(z), x1=np.full(SIZE, 0.0005)
        )


def test_several_learners_and_seeds_that_are_played_one_after_the_other(lengths, monkeypatch):
    learners = [taut.ClippedOGD(0.1 * (1 + k), float(SIZE)) for k in range(3)]
    swept = taut.simulate(learners, problem(), in_place(DATA), record=RECORDED)
    assert lengths == LONG
    for k, learner in enumerate(learners):
        alone = taut.simulate(learner, problem(), elsewhere(DATA), record=RECORDED)
        np.testing.assert_allclose(swept.loss[k], alone.loss, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(swept.totals.violation[k], alone.totals.violation, rtol=1e-12)
    monkeypatch.setattr("taut.play.loop.SIDE_BY_SIDE", SIZE)
    lengths.clear()
    stacked = np.stack([DATA, DATA[::-1], 2 * DATA])[
        :, : ROUNDS // 8 * 8
    ]  # so that all seeds begin at suitable addresses
    seeds = taut.simulate(CLIPPED, problem(), in_place(stacked), seeds=3, record=RECORDED)
    assert lengths == 3 * [*LONG[:2], (56, 4)]
    for seed in range(3):
        alone = taut.simulate(CLIPPED, problem(), elsewhere(stacked[seed]), record=RECORDED)
        np.testing.assert_array_equal(seeds.loss[seed], alone.loss[0])
        np.testing.assert_array_equal(seeds.totals.loss[seed], alone.totals.loss[0])


def test_32_bits():
    z, start = DATA.astype(np.float32), np.zeros(SIZE, np.float32)
    one, other = (
        taut.simulate(CLIPPED, problem(), place(z), x1=start, record=RECORDED)
        for place in (in_place, elsewhere)
    )
    assert_bit_equal(one, other)

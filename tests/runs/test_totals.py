"""Totals: those of simulations and of players get the same terms from every round."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import FOUR, GAME, targets
from taut.runs.totals import ChunkTotals, Sum, Totals, round_terms


def by_hand(loss, excess):
    """The totals as the definitions say them, from arrays (round,) and (round, constraint)."""
    violation, worst = np.maximum(excess, 0), excess.max(axis=1)
    clipped = np.maximum(worst, 0)
    return {
        "loss": loss.sum(),
        "excess": excess.sum(0),
        "violation": violation.sum(0),
        "squared": (violation**2).sum(0),
        "peak": violation.max(0),
        "worst_excess": worst.sum(),
        "worst_violation": clipped.sum(),
        "worst_squared": (clipped**2).sum(),
    }


@pytest.mark.parametrize("constraints", [1, 3])
def test_totals_are_those_by_hand(constraints):
    rng = np.random.default_rng(0)
    loss, excess = rng.normal(size=50), rng.normal(size=(50, constraints))
    chunk = ChunkTotals.zero(constraints, jnp.zeros(()).dtype)
    for f, g in zip(loss, excess, strict=True):
        chunk = chunk.add(round_terms(jnp, jnp.asarray(f), jnp.asarray(g)))
    totals = Totals.of_chunk(chunk)
    for name, value in by_hand(loss, excess).items():
        np.testing.assert_allclose(
            getattr(totals, name), value, rtol=1e-13, atol=1e-13, err_msg=name
        )


def test_a_player_and_a_simulation_have_the_same_totals():
    z, learner = targets(rounds=263), taut.ClippedOGD(0.3, 5.0)
    for problem in (GAME, FOUR):
        player = taut.Player(learner, problem)
        for point in z:
            player.observe(point)
        run = taut.simulate(learner, problem, z)
        for name, value in vars(run.totals).items():
            np.testing.assert_allclose(
                getattr(player.totals, name), value[0], rtol=1e-12, atol=1e-12, err_msg=name
            )


def test_float32_sums_carry_their_rounding_error():
    total, plain = Sum.zero((), np.dtype(np.float32)), np.float32(0)
    for _ in range(20_000):
        total, plain = (
            Sum(*(np.float32(a) for a in total.add(np.float32(0.1)))),
            plain + np.float32(0.1),
        )
    exact = 20_000 * float(np.float32(0.1))
    assert abs(float(plain) - exact) > 0.1
    np.testing.assert_allclose(float(total.value) + float(total.error), exact, rtol=1e-7)


def test_totals_in_32_bits_lose_no_digits():
    z = targets(rounds=3000).astype(np.float32)
    run = taut.simulate(
        taut.ClippedOGD(0.3, 5.0), GAME, z, x1=np.zeros(GAME.domain.shape, np.float32)
    )
    assert run.loss.dtype == np.float32
    assert run.totals.loss[0] == pytest.approx(run.loss[0].astype(float).sum(), rel=1e-13)
    assert run.totals.worst_excess[0] == pytest.approx(run.excess[0].astype(float).sum(), rel=1e-13)


def test_totals_of_a_chunk_contain_what_was_rounded_off():
    single = Sum(jnp.asarray(1.0, jnp.float32), jnp.asarray(2.0**-30, jnp.float32))
    several = Sum(single.value[None], single.error[None])
    totals = ChunkTotals(single, several, several, several, jnp.zeros(1), *[single] * 3)
    assert float(Totals.of_chunk(totals).loss) == 1 + 2.0**-30
    assert Totals.of_chunk(totals).excess.tolist() == [1 + 2.0**-30]


def test_totals_of_chunks_are_added():
    rng = np.random.default_rng(3)
    loss, excess = rng.normal(size=50), rng.normal(size=(50, 3))
    zero = ChunkTotals.zero(3, jnp.zeros(()).dtype)
    totals = Totals.of_chunk(zero)
    for start in range(0, 50, 20):
        chunk = zero
        for f, g in zip(loss[start : start + 20], excess[start : start + 20], strict=True):
            chunk = chunk.add(round_terms(jnp, jnp.asarray(f), jnp.asarray(g)))
        totals = totals.plus(Totals.of_chunk(chunk))
    for name, value in by_hand(loss, excess).items():
        np.testing.assert_allclose(
            getattr(totals, name), value, rtol=1e-13, atol=1e-13, err_msg=name
        )
    assert totals.finite()
    assert not totals.plus(Totals(**{**vars(totals), "loss": np.asarray(np.nan)})).finite()

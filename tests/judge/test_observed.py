"""What was observed in all rounds, against the same numbers in plain NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge import observed
from taut.play.replay import revealed_data
from taut.problem import evaluation
from taut.problem.streams import Adversary, as_stream
from taut.testing import problems
from taut.testing.playing import shared_stream

LEARNER = taut.ClippedOGD(0.3, 8.0)


def observe(run, comparator=None):
    """What certificates observe: what an adversary reveals is played again as data."""
    stream = run.stream
    if isinstance(stream, Adversary):
        stream = as_stream(revealed_data(run), seeds=run.seeds)
    return observed.observe(run, run.problem, stream, comparator)


def by_hand(decisions, data):
    """Gradient norms of <c, x>, and g = |x|_1 - 1, whose slope is (+-1, +-1)."""
    slopes = np.linalg.norm(data, axis=-1)
    excess = np.abs(decisions).sum(axis=-1) - 1
    return slopes, np.full(slopes.shape, 2**0.5), excess


@pytest.mark.parametrize(("recorded", "largest"), [(False, np.inf), (True, np.inf), (True, -1)])
def test_largest_values_sums_and_witnesses(recorded, largest, monkeypatch):
    monkeypatch.setattr(observed, "BLOCK", 1000)  # several blocks, the last one incomplete
    monkeypatch.setattr(evaluation, "LARGEST", largest)  # in NumPy, or compiled
    known = problems.TOY
    data = known.stream(3, 700) * np.random.default_rng(1).uniform(0.2, 1, (3, 700, 1))
    full = taut.simulate(LEARNER, known.problem, data, seeds=3, record=("decisions",))
    run = full if recorded else taut.simulate(LEARNER, known.problem, data, seeds=3, record=())
    found = observe(run)
    slopes, rows, excess = by_hand(full.decisions, data)
    for extreme, values in (
        (found.loss_lipschitz, slopes),
        (found.constraint_lipschitz, rows),
        (found.constraint_range, np.abs(excess)),
    ):
        assert extreme.value == pytest.approx(values.max(), rel=1e-12)
        at = extreme.seed, extreme.round - 1
        assert values[at] == pytest.approx(values.max(), rel=1e-12)
        np.testing.assert_allclose(extreme.decision, full.decisions[at], atol=1e-14)
    assert found.observed.squared_slopes == pytest.approx((slopes**2).sum(axis=1).max(), rel=1e-12)
    assert found.observed.first_squared_slope == pytest.approx((slopes[:, 0] ** 2).min(), rel=1e-12)
    assert found.observed.loss_slope == found.loss_lipschitz.value
    top = np.sort(excess.ravel())[::-1][: len(found.violating)]
    np.testing.assert_allclose(np.abs(found.violating).sum(axis=1) - 1, top[top > 0], atol=1e-12)


def test_the_loss_range_contains_the_comparator():
    known = problems.TOY
    data = shared_stream(known)
    run = taut.simulate(LEARNER, known.problem, data, seeds=3, record=("decisions",))
    best = np.tile([-0.6, 0.3], (3, 1))
    values = np.stack([(data * run.decisions).sum(axis=-1), (data * best[:, None]).sum(axis=-1)])
    assert observe(run, comparator=best).loss_range.value >= np.ptp(values, axis=0).max() - 1e-12


def test_a_round_without_a_gradient_is_not_the_first_one_that_counts():
    known = problems.TOY
    data = known.stream(1, 40)
    data[0, :3] = 0
    run = taut.simulate(LEARNER, known.problem, data, seeds=1)
    assert observe(run).observed.first_squared_slope == pytest.approx(
        float((data[0, 3] ** 2).sum())
    )


def test_what_an_adversary_reveals_is_observed():
    known = problems.TOY

    def reveal(t, x, key):
        return jnp.where(t == 57, 3.0, 1.0) * jnp.where(x >= 0, 1.0, -1.0)

    run = taut.simulate(LEARNER, known.problem, reveal, horizon=100, seeds=2)
    extreme = observe(run).loss_lipschitz
    assert (extreme.round, extreme.value) == (57, pytest.approx(3 * 2**0.5))

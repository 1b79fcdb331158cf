"""One line of a certificate: the worst seed decides, the tolerance is that of rounding, intervals
are those of a sample."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from taut.judge.certificate import Row
from taut.judge.rates import fit
from taut.judge.rows import Measured, _rows
from taut.learners import Guarantee

PROMISE = Guarantee("violation", 2.0, "a theorem")


def rows_of(values, guarantee=PROMISE):
    measured = Measured("violation", "violation", np.asarray(values), (guarantee,), None)
    return list(_rows(measured, set(), 0.0))


def test_the_worst_seed_is_compared_with_the_bound():
    (row,) = rows_of([0.0, 3.0, 1.5])
    assert (row.mean, row.worst) == (1.5, 3.0)
    assert row.ratio == 1.5
    assert row.holds is False
    assert rows_of([0.0, 2.0])[0].holds is True


@pytest.mark.parametrize(("bound", "rounding"), [(2.0, 0.0), (-2.0, 0.0), (0.0, 1e-6), (1e6, 1e-3)])
def test_a_bound_is_exceeded_by_more_than_rounding_only(bound, rounding):
    tolerance = 1e-9 * abs(bound) + rounding

    def holds(worst):
        return Row(
            "regret", worst, worst, Guarantee("regret", bound, "a theorem"), rounding=rounding
        ).holds

    assert holds(bound) is True
    assert holds(bound + 0.9 * tolerance) is True
    assert holds(bound + 1.1 * tolerance) is False


def test_intervals_are_those_of_a_sample():
    """The deviation has n - 1 in its denominator, and the quantile is Student's."""
    slopes, horizons = np.array([0.4, 0.5, 0.6]), np.array([100, 1000, 10_000])
    half = stats.t.ppf(0.975, 2) * 0.1 / 3**0.5
    rate = fit("violation", horizons, horizons[None, :] ** slopes[:, None])
    assert (rate.low, rate.high) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-9)
    of_seeds, row = rows_of(slopes, replace(PROMISE, expected=True))
    assert of_seeds.bound is None
    assert row.quantity == "violation, mean over seeds"
    assert row.half_interval == pytest.approx(half, rel=1e-9)

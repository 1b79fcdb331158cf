"""Shares of targets, profiles, bootstrap and tests, against values by hand, SciPy, and the worked
example of Demsar (JMLR 7, 2006, Table 6)."""

import itertools

import numpy as np
import pytest
from scipy import stats

from taut.arena import statistics
from taut.arena.statistics import (
    better,
    critical_difference,
    draw_weights,
    mean_ranks,
    pair_factors,
    profile,
    rank_tests,
    ratios,
    shares,
    weights_of,
)

# AUC of C4.5, C4.5+m, C4.5+cf, C4.5+m+cf on fourteen data sets.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.975, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
).T


def test_mean_ranks_and_critical_difference_are_those_of_the_worked_example():
    # Two values of the thirteenth row are printed as 0.975 both and ranked 2 and 3 there; as
    # printed, they are a tie, which moves half a rank between two methods.
    unrounded = DEMSAR.copy()
    unrounded[2, 12] += 1e-5
    np.testing.assert_allclose(mean_ranks(unrounded), [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    moved = mean_ranks(DEMSAR) - mean_ranks(unrounded)
    np.testing.assert_allclose(moved, [0, 0, 0.5 / 14, -0.5 / 14], atol=1e-12)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
    # Table 5 of the same paper: q_0.05 for 2, 5 and 10 methods.
    for methods, quantile in ((2, 1.960), (5, 2.728), (10, 3.164)):
        scale = np.sqrt(methods * (methods + 1) / (6 * 20))
        assert critical_difference(methods, 20) / scale == pytest.approx(quantile, abs=2e-3)


def test_friedman_and_wilcoxon_are_those_of_scipy_and_of_enumeration():
    found = rank_tests(DEMSAR)
    assert found.friedman == pytest.approx(stats.friedmanchisquare(*DEMSAR).pvalue)
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 8)) + np.array([[0.0], [0.2], [2.0]])
    found = rank_tests(scores)
    assert np.argmin(found.ranks) == 2
    exact = []
    for gaps in (scores[0] - scores[2], scores[1] - scores[2]):
        sizes = stats.rankdata(np.abs(gaps))
        signs = np.array(list(itertools.product([0, 1], repeat=8)))
        sums = signs @ sizes
        seen = sizes[gaps > 0].sum()
        low = np.mean(sums <= seen), np.mean(sums >= seen)
        exact.append(min(1.0, 2 * min(low)))
    first, second = np.argsort(exact)
    expected = np.ones(3)
    expected[first] = min(1, 2 * exact[first])
    expected[second] = max(expected[first], exact[second])  # Holm
    np.testing.assert_allclose(found.wilcoxon, expected)


def test_ranks_and_tests_are_those_of_autorank_and_scikit_posthocs():
    """The numbers come from autorank 1.3.0 and scikit-posthocs 0.17.1, which are too large for a
    dependency (statsmodels, seaborn), on the scores below:

        frame = pandas.DataFrame(scores.T, columns=list("abcde"))
        autorank(frame, force_mode="nonparametric", order="descending")   # ranks, cd and pvalue
        scikit_posthocs.posthoc_nemenyi_friedman(frame).loc["a"]
        long = frame.melt(var_name="g", value_name="v")
        wilcoxon = scikit_posthocs.posthoc_wilcoxon(long, val_col="v", group_col="g").loc["a"]
        statsmodels.stats.multitest.multipletests(wilcoxon.drop("a"), method="holm")[1]
    """
    scores = np.random.default_rng(0).normal(size=(5, 12)) + np.linspace(1, 0, 5)[:, None]
    found = statistics.rank_tests(scores)
    ranks = [2.4166666666666665, 3.0833333333333335, 3.3333333333333335, 2.5833333333333335]
    np.testing.assert_allclose(found.ranks, [*ranks, 3.5833333333333335], rtol=1e-12)
    assert found.difference == pytest.approx(1.7607556243045581, rel=1e-4)  # a table of quantiles
    assert found.friedman == pytest.approx(0.32323989288135124, rel=1e-9)
    holm = [1.0, 0.27685546875, 0.27685546875, 0.5185546875, 0.169921875]
    np.testing.assert_allclose(found.wilcoxon, holm, rtol=1e-12)
    # Two methods differ by Nemenyi's test at a level exactly if their ranks differ by as much.
    nemenyi = [0.8402233648049631, 0.6146309432106245, 0.9990238324105165, 0.3691688152318038]
    for other, level in enumerate(nemenyi, start=1):
        gap = abs(found.ranks[other] - found.ranks[0])
        assert statistics.critical_difference(5, 12, level) == pytest.approx(gap, rel=1e-4)


def test_equal_methods_do_not_differ():
    found = rank_tests(np.ones((4, 6)))
    assert found.friedman == 1.0
    assert np.all(found.wilcoxon == 1.0)
    assert np.all(found.ranks == 2.5)
    alone = rank_tests(np.ones((1, 6)))
    assert (alone.difference, alone.friedman) == (0.0, 1.0)


def test_shares_count_targets_and_add_up():
    rng = np.random.default_rng(1)
    regret, violation = 10 ** rng.uniform(-5, 2, size=(2, 3, 4, 5))
    regret[0, 0, 0], violation[1, 1] = 0.0, np.nan
    regret[1, 1] = np.nan
    found = shares(regret, violation)
    total = found.hit + found.missed_regret + found.missed_violation + found.missed_both
    np.testing.assert_allclose(total[~np.isnan(total)], 1.0)
    assert np.isnan(found.hit[1, 1]).all()
    for at in ((0, 0, 0), (2, 3, 4), (0, 1, 2)):
        pairs = itertools.product(statistics.TARGETS, repeat=2)
        hits = [regret[at] <= r and violation[at] <= v for r, v in pairs]
        assert found.hit[at] == pytest.approx(np.mean(hits))
    exactly = shares(np.full((1, 1, 1), statistics.TARGETS[3]), np.zeros((1, 1, 1)))
    assert exactly.hit[0, 0, 0] == pytest.approx(1 - 3 / len(statistics.TARGETS))  # "at most"


def test_profiles_need_no_constant():
    values = np.array([[0.0, 2.0, np.nan], [0.0, 1.0, 5.0], [1e-9, 4.0, 10.0]])
    factors = ratios(values)
    np.testing.assert_array_equal(
        factors, [[1.0, 2.0, np.nan], [1.0, 1.0, 1.0], [np.inf, 4.0, 2.0]]
    )
    np.testing.assert_array_equal(ratios(1e-12 * values), factors)  # no floor
    curves = profile(factors, weights_of(["a", "b", "b"]), np.array([1.0, 2.0, 1e9]))
    np.testing.assert_allclose(curves, [[0.5, 0.75, 0.75], [1, 1, 1], [0, 0.25, 0.5]])


def test_the_factor_of_the_pair_is_one_on_the_front_and_symmetric_in_scale():
    regret = np.array([[1.0], [4.0], [8.0], [0.0]])
    violation = np.array([[4.0], [1.0], [2.0], [16.0]])
    factors = pair_factors(regret, violation)
    np.testing.assert_allclose(factors[:, 0], [1.0, 1.0, 2.0, 1.0])
    np.testing.assert_allclose(pair_factors(100 * regret, violation / 7), factors)
    # What the definition says: divided by slightly more than its factor, nobody beats the method.
    for shrink, beaten in ((1.99, True), (2.01, False)):
        r, v = regret.copy(), violation.copy()
        r[2] /= shrink
        v[2] /= shrink
        others = [0, 1, 3]
        assert any((r[j] <= r[2]) and (v[j] <= v[2]) for j in others) == beaten


def test_a_bootstrap_sample_keeps_the_votes_of_families_and_the_seeds_of_streams():
    families, seeds = ["toy", "toy", "pool"], [3, 1, 2]
    weights = draw_weights(families, seeds, 3, draws=4000, seed=1)
    np.testing.assert_allclose(weights[:, :2].sum(axis=(1, 2)), 0.5)
    np.testing.assert_allclose(weights[:, 2].sum(axis=1), 0.5)
    assert np.all(weights[:, 1, 1:] == 0)
    assert np.all(weights[:, 2, 2] == 0)
    mean = weights.mean(axis=0)
    np.testing.assert_allclose(mean[0], [1 / 12] * 3, atol=0.01)
    np.testing.assert_allclose(mean[1], [0.25, 0, 0], atol=0.01)
    assert np.any(weights[:, 0].sum(axis=1) == 0)  # a stream may be missing from a sample
    # The spread of a mean of independent numbers is that of theory.
    flat = draw_weights(["a"], [50], 50, draws=4000)
    values = np.random.default_rng(2).normal(size=50)
    spread = np.std((flat[:, 0] * values).sum(axis=1))
    assert spread == pytest.approx(np.std(values) / np.sqrt(50), rel=0.05)


def test_better_is_paired():
    rng = np.random.default_rng(3)
    shared = rng.normal(size=(1000, 1))
    scores = shared + np.array([0.1, 0.0]) + 0.01 * rng.normal(size=(1000, 2))
    np.testing.assert_allclose(better(scores), [[0, 1], [0, 0]])


def test_ties_and_few_blocks_give_numbers_and_no_warnings():
    rng = np.random.default_rng(4)
    for blocks in (1, 2, 3, 9):
        for methods in (2, 3, 6):
            scores = rng.integers(0, 3, size=(methods, blocks)) / 2  # many ties and zeros
            found = rank_tests(scores)
            assert 0 <= found.friedman <= 1
            assert np.all((found.wilcoxon >= 0) & (found.wilcoxon <= 1))
            assert found.ranks.sum() == pytest.approx(methods * (methods + 1) / 2)

"""Statistics of many methods on many streams: shares of targets, profiles, bootstrap and tests.

All functions take arrays (method, stream, seed) or (method, block) and read no files. Regret
and violation come divided by their scales, G_f D sqrt(T) and G_g D sqrt(T), with negative values
set to zero. NaN marks a stream that a method did not play.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..engine import Array

TARGETS = 10.0 ** np.linspace(-4, 1, 26)
"""The targets of both quantities: five per decade from 0.0001 to 10."""
DRAWS = 2000
"""Draws of a bootstrap."""
LEVEL = 0.05
"""The level of tests and intervals."""


@dataclass(frozen=True)
class Shares:
    """Shares of the targets (r, v), each of shape (method, stream, seed). The four add up to 1."""

    hit: Array
    """Regret is at most r and violation at most v."""
    missed_regret: Array
    """Only the regret is too large."""
    missed_violation: Array
    """Only the violation is too large."""
    missed_both: Array


def shares(regret: Array, violation: Array, targets: Array = TARGETS) -> Shares:
    """Return which share of all pairs of targets is hit, and why the others are missed.

    >>> import numpy as np
    >>> found = shares(np.zeros((1, 1, 1)), np.full((1, 1, 1), 0.5), targets=np.array([0.1, 1.0]))
    >>> float(found.hit[0, 0, 0]), float(found.missed_violation[0, 0, 0])
    (0.5, 0.5)
    """
    first, second = (_share(values, targets) for values in (regret, violation))
    return Shares(
        hit=first * second,
        missed_regret=(1 - first) * second,
        missed_violation=first * (1 - second),
        missed_both=(1 - first) * (1 - second),
    )


def _share(values: Array, targets: Array) -> Array:
    """The share of targets that are at least as large as a value; NaN stays NaN."""
    below = np.searchsorted(np.sort(targets), values, side="left")
    return np.where(np.isnan(values), np.nan, 1 - below / len(targets))


def weights_of(families: Sequence[str]) -> Array:
    """Return the weight of each stream: families count alike, and so do the streams of a family.

    >>> weights_of(["toy", "toy", "pool"]).tolist()
    [0.25, 0.25, 0.5]
    """
    names = list(families)
    count = len(set(names))
    return np.array([1 / (count * names.count(name)) for name in names])


def draw_weights(
    families: Sequence[str], seeds: Sequence[int], width: int, draws: int = DRAWS, seed: int = 0
) -> Array:
    """Return the weights (draw, stream, seed) of bootstrap samples.

    Streams are drawn with replacement inside their family, and seeds inside every drawn stream. A
    family has the same weight in every sample. The weights are used for all methods, so that their
    differences are paired.

    Arguments:
        families: the family of each stream.
        seeds: the number of seeds of each stream.
        width: the length of the axis of seeds, at least the largest number of seeds.
        draws: the number of samples.
        seed: of the generator.
    """
    rng = np.random.default_rng(seed)
    weights = np.zeros((draws, len(seeds), width))
    names = list(dict.fromkeys(families))
    for family in names:
        members = [i for i, name in enumerate(families) if name == family]
        for _ in members:
            stream = rng.choice(members, size=draws)
            sizes = np.asarray(seeds)[stream]
            for k in range(width):
                chosen = rng.integers(0, sizes)
                used = k < sizes  # a stream with n seeds has n draws
                share = used / (sizes * len(members) * len(names))
                np.add.at(weights, (np.arange(draws), stream, chosen), share)
    return weights


def better(scores: Array) -> Array:
    """Return the share of samples in which method i has a larger score than method j, (i, j).

    Arguments:
        scores: (draw, method).
    """
    return np.asarray(np.mean(scores[:, :, None] > scores[:, None, :], axis=0))


def ratios(values: Array) -> Array:
    """Return how many times as large as the best of its stream each value is, (method, stream).

    A value of zero is within every factor. If the best value is zero, no positive value is within a
    factor of it.
    """
    values = np.asarray(values, float)
    played = ~np.all(np.isnan(values), axis=0)
    best = np.full(values.shape[1], np.nan)
    best[played] = np.nanmin(values[:, played], axis=0)
    return _quotient(values, best[None, :])


def _quotient(values: Array, others: Array) -> Array:
    """values / others, with 0 / 0 = 1 and x / 0 = infinity; NaN where either is."""
    values, others = np.broadcast_arrays(values, others)
    missing = np.isnan(values) | np.isnan(others)
    positive = np.where(others > 0, others, 1.0)
    at_zero = np.where(values > 0, np.inf, 1.0)
    return np.where(missing, np.nan, np.where(others > 0, values / positive, at_zero))


def pair_factors(regret: Array, violation: Array) -> Array:
    """Return by which factor both quantities of a method must shrink until no other method beats it
    in both, (method, stream). It is 1 on the Pareto front.

    No exchange rate between regret and violation enters.
    """
    methods = len(regret)
    factors = np.ones_like(np.asarray(regret, float))
    for i in range(methods):
        for j in range(methods):
            worse = np.minimum(
                _quotient(regret[i], regret[j]), _quotient(violation[i], violation[j])
            )
            factors[i] = np.fmax(factors[i], worse)
    return np.where(np.isnan(regret), np.nan, factors)


def profile(factors: Array, weights: Array, taus: Array) -> Array:
    """Return the weighted share of streams on which a method is within each factor of the best,
    (method, tau).

    Streams that a method did not play count as streams on which it is within no factor.

    >>> import numpy as np
    >>> values = np.array([[1.0, 4.0], [2.0, 1.0]])
    >>> profile(ratios(values), weights_of(["a", "b"]), np.array([1.0, 2.0, 4.0])).tolist()
    [[0.5, 0.5, 1.0], [0.5, 1.0, 1.0]]
    """
    within = np.nan_to_num(factors, nan=np.inf)[:, :, None] <= np.asarray(taus)
    return np.asarray(np.einsum("msk,s->mk", within, weights))


def mean_ranks(scores: Array) -> Array:
    """Return the mean rank of each method over blocks; scores are (method, block), larger is
    better, and ties share their mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(-np.asarray(scores), axis=0).mean(axis=1))


def critical_difference(methods: int, blocks: int, level: float = LEVEL) -> float:
    """Return the difference of mean ranks from which on two methods differ (Nemenyi's test).

    Reference: Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006.
    """
    from scipy.stats import studentized_range

    quantile = studentized_range.ppf(1 - level, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * blocks)))


@dataclass(frozen=True)
class Tests:
    """Tests of several methods over blocks. With fewer than three methods there is no Friedman
    test, and its value is 1."""

    __test__ = False  # pytest must not collect it

    ranks: Array
    difference: float
    """The critical difference of mean ranks."""
    friedman: float
    """The p-value of the hypothesis that all methods are alike."""
    wilcoxon: Array
    """The p-value of the paired test of each method against the one with the smallest mean rank,
    after Holm's correction."""


def rank_tests(scores: Array) -> Tests:
    """Compare methods over blocks, for scores (method, block) of which larger ones are better."""
    from scipy.stats import friedmanchisquare, wilcoxon

    scores = np.asarray(scores, float)
    methods, blocks = scores.shape
    ranks = mean_ranks(scores)
    alike = np.all(scores == scores[0])
    first = int(np.argmin(ranks))
    values = np.ones(methods)
    for i in range(methods):
        gaps = scores[i] - scores[first]
        if i != first and np.any(gaps != 0):
            values[i] = wilcoxon(gaps).pvalue
    return Tests(
        ranks=ranks,
        difference=critical_difference(methods, blocks) if methods > 1 else 0.0,
        friedman=1.0 if methods < 3 or alike else float(friedmanchisquare(*scores).pvalue),
        wilcoxon=_holm(values, first),
    )


def _holm(values: Array, first: int) -> Array:
    """Holm's correction of p-values; that of the first method, which is compared with nobody, stays
    1."""
    corrected = np.ones(len(values))
    others = [i for i in np.argsort(values, kind="stable") if i != first]
    largest = 0.0
    for step, i in enumerate(others):
        largest = max(largest, min(1.0, (len(others) - step) * values[i]))
        corrected[i] = largest
    return corrected

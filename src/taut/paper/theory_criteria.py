"""The paper's claims about its theorems, each with the function that judges it.

A bound counts only at horizons at which it is not trivial, that is below what holds for every
learner. An exponent is measured between the two longest horizons. If it is above the proven one but
falls, the horizons are too short to see the rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..engine import Array
from .criteria import FAILS, HOLDS, NOT_YET, PART, Claim, Judgement, graded, judged
from .datasets import bounds_of, cases

if TYPE_CHECKING:
    import xarray

__all__ = ["CLAIMS"]

TOLERANCE = 0.02
"""Difference of exponents that is not resolved."""
_RATE = (
    "no value is above an explicit bound that is not trivial, and the exponent at the longest "
    "horizons is at most the proven one (not asymptotic yet: it is larger, but falls with T)"
)
CLAIMS: list[Claim] = []
claim = partial(judged, CLAIMS)
POWERS = np.linspace(0.02, 1, 50)
"""Exponents a of c + b T^a that are compared with c + b log T."""


def local_exponents(data: xarray.Dataset, case: str, quantity: str) -> Array:
    """Growth exponents of the mean over sequences between consecutive horizons; NaN where it is not
    positive."""
    mean = data[quantity].sel(case=case).mean("seed").values
    positive = np.where(mean > 0, mean, np.nan)
    return np.asarray(np.diff(np.log(positive)) / np.diff(np.log(data["horizon"].values)))


def worst_over_bound(data: xarray.Dataset, case: str, quantity: str) -> float:
    """Return the largest ratio of a value to its bound among horizons at which the bound is not
    trivial; NaN without any."""
    ratio = (data[quantity].max("seed") / bounds_of(data, quantity)).sel(case=case).values
    known = np.isfinite(ratio)
    return float(ratio[known].max()) if known.any() else float("nan")


def _rates(
    data: xarray.Dataset, chosen: Sequence[str], quantity: str, needed: Sequence[str] = ()
) -> Judgement:
    """Judge the growth of one quantity in several cases, and its bounds. `needed` must be tested,
    the others may be negative."""
    figures: dict[str, float] = {}
    states: dict[str, str] = {}
    exceeded = []
    for case in chosen:
        allowed = float(data[f"theory_{quantity}"].sel(case=case))
        local = local_exponents(data, case, quantity)
        ratio = worst_over_bound(data, case, quantity)
        if np.isfinite(ratio):
            figures[f"{case}: worst over bound"] = ratio
            exceeded += [case] if ratio > 1 else []
        if not np.isfinite(local[-1]):
            states[case] = "not positive"
            continue
        figures[f"{case}: allowed exponent"] = allowed
        figures[f"{case}: exponent at the end"] = float(local[-1])
        if local[-1] <= allowed + TOLERANCE:
            states[case] = HOLDS
            continue
        figures[f"{case}: largest local exponent"] = float(np.nanmax(local))
        falls = local[-1] < np.nanmax(local) - TOLERANCE / 2
        states[case] = NOT_YET if falls and not ratio > 1 else FAILS

    def those(state: str) -> list[str]:
        return [case for case in chosen if states[case] == state]

    remarks = {
        "above the explicit bound": exceeded,
        "the exponent is above the proven one, but falls with T": those(NOT_YET),
        "the exponent is above the proven one and does not fall": those(FAILS),
        "never positive, so the rate is not tested": those("not positive"),
    }
    reason = "; ".join(f"{text}: {', '.join(named)}" for text, named in remarks.items() if named)
    tested = set(states.values()) - {"not positive"}
    untested = [case for case in needed if states[case] == "not positive"]
    if exceeded:
        return Judgement(FAILS, figures, reason)
    if tested == {FAILS}:
        return Judgement(FAILS, figures, reason)
    if not tested or untested or FAILS in tested:
        return Judgement(PART, figures, reason)
    return Judgement(NOT_YET if NOT_YET in tested else HOLDS, figures, reason)


@claim(
    "theorem-1-regret",
    "theory",
    "Theorem 1",
    "With the paper's step, regret is O(sqrt T).",
    f"on random and on worst-case losses, {_RATE}",
)
def theorem_1_regret(data: xarray.Dataset) -> Judgement:
    return _rates(data, ["paper-step-0.5", "worst-case-0.5"], "regret", ["worst-case-0.5"])


@claim(
    "proposition-3-regret",
    "theory",
    "Proposition 3",
    "With the paper's step, regret is O(T^max(beta, 1-beta)).",
    f"on random and on worst-case losses and for every beta, {_RATE}",
)
def proposition_3_regret(data: xarray.Dataset) -> Judgement:
    worst = cases(data, "worst-case-")
    return _rates(data, [*cases(data, "paper-step-"), *worst], "regret", worst)


@claim(
    "propositions-2-3",
    "theory",
    "Propositions 2 and 3",
    "With the paper's step, the clipped violation is O(T^(1-beta/2)), which is O(T^(3/4)) "
    "for beta = 1/2.",
    f"on random and on worst-case losses and for every beta, {_RATE}",
)
def propositions_2_3(data: xarray.Dataset) -> Judgement:
    chosen = [*cases(data, "paper-step-"), *cases(data, "worst-case-")]
    return _rates(data, chosen, "violation", chosen)


@claim(
    "theorem-1-squares",
    "theory",
    "Theorem 1, Proposition 3",
    "The squared violation is O(T^(1-beta)).",
    f"for every beta, step and problem, {_RATE}",
)
def theorem_1_squares(data: xarray.Dataset) -> Judgement:
    prefixes = ("theorem-1-", "lemma-1-", "paper-step-", "worst-case-")
    return _rates(data, [case for prefix in prefixes for case in cases(data, prefix)], "squared")


@claim(
    "lemma-1",
    "theory",
    "Lemma 1",
    "The largest violation in a single round decreases with T, as T^(-1/6) for beta = 1/2.",
    f"for every beta, with -beta/3 as the proven exponent, {_RATE}",
)
def lemma_1(data: xarray.Dataset) -> Judgement:
    chosen = cases(data, "lemma-1-")
    return _rates(data, chosen, "peak", chosen)


@claim(
    "theorem-2-log",
    "theory",
    "Theorem 2",
    "For strongly convex losses, regret is O(log T) and violation is O(sqrt(T log T)).",
    "all values are below an explicit bound that is not trivial, c + b log T fits regret as "
    "well as any c + b T^a with a > 0.1, and the exponent of the violation at the longest "
    "horizons is at most 0.52",
)
def theorem_2_log(data: xarray.Dataset) -> Judgement:
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    horizons = data["horizon"].values.astype(float)
    for case in cases(data, "theorem-2"):
        mean = data["regret"].sel(case=case).mean("seed").values
        ratio = worst_over_bound(data, case, "regret")
        log_error, slope = _fitted(np.log(horizons), mean)
        power = 0.0
        errors = [_fitted(horizons**a, mean)[0] for a in POWERS]
        if min(errors) < log_error:
            power = float(POWERS[int(np.argmin(errors))])
        figures |= {
            f"{case}: regret": float(mean[-1]),
            f"{case}: regret per log T": slope,
            f"{case}: best a for c + b T^a (0 is log T)": power,
            f"{case}: worst over bound": ratio,
        }
        parts[f"{case}: below a bound that says something"] = ratio <= 1
        parts[f"{case}: grows no faster than log T"] = slope <= 0 or power <= 0.1
        clipped = local_exponents(data, case, "violation")[-1]
        if np.isfinite(clipped):
            figures[f"{case}: exponent of the violation at the end"] = float(clipped)
            parts[f"{case}: violation within sqrt(T log T)"] = clipped <= 0.5 + TOLERANCE
    return graded(parts, figures)


def _fitted(x: Array, y: Array) -> tuple[float, float]:
    """Return the root mean squared error of c + b x, and b."""
    b, c = np.polyfit(x, y, 1)
    return float(np.sqrt(np.mean((c + b * x - y) ** 2))), float(b)


@claim(
    "proposition-1",
    "theory",
    "Proposition 1",
    "With log-sum-exp aggregation the bound on the violation per round also holds for "
    "several constraints.",
    "some decision is feasible for the aggregate as printed; with the largest temperature "
    "that Lemma 1 allows, of the order T^(1/6), the peak violation decreases at least as "
    "fast as T^(-1/6) below its bound, and regret stays O(sqrt T)",
)
def proposition_1(data: xarray.Dataset) -> Judgement:
    least = float(data["literal_log_sum_exp"])
    peak, regret = (
        local_exponents(data, "proposition-1", quantity)[-1] for quantity in ("peak", "regret")
    )
    ratio = worst_over_bound(data, "proposition-1", "peak")
    figures = {
        "least value of the printed aggregate": least,
        "temperature T^(1/6): exponent of the peak": float(peak),
        "temperature T^(1/6): peak over bound": ratio,
        "temperature T^(1/6): exponent of regret": float(regret),
    }
    parts = {
        "as printed: a feasible decision remains": least <= 0,
        "temperature T^(1/6): exponent of the peak at most -1/6": bool(peak <= -1 / 6 + TOLERANCE)
        and ratio <= 1,
        "temperature T^(1/6): regret stays O(sqrt T)": bool(regret <= 0.5 + TOLERANCE),
    }
    reason = (
        "with the formula as printed, no decision of the toy problem is feasible; with the "
        "largest temperature that Lemma 1 allows, the margin ln(m) / temperature falls like "
        "T^(-1/6), so regret may grow like T^(5/6)"
    )
    return graded(parts, figures, reason if least > 0 else "")


@claim(
    "propositions-4-5",
    "theory",
    "Propositions 4 and 5",
    "With the clipped Lagrangian, the rates of the earlier methods also hold for the clipped "
    "violation.",
    f"for every beta, {_RATE}",
)
def propositions_4_5(data: xarray.Dataset) -> Judgement:
    chosen = ["proposition-4", *cases(data, "proposition-5-")]
    return _rates(data, chosen, "violation", chosen)


@claim(
    "propositions-4-5-regret",
    "theory",
    "Propositions 4 and 5",
    "With the clipped Lagrangian, regret is O(sqrt T) and O(T^max(beta, 1-beta)) as for the "
    "earlier methods.",
    f"on random and on worst-case losses and for every beta, {_RATE}",
)
def propositions_4_5_regret(data: xarray.Dataset) -> Judgement:
    worst = cases(data, "clipped-worst-")
    return _rates(data, ["proposition-4", *cases(data, "proposition-5-"), *worst], "regret", worst)


@claim(
    "squared-constraints",
    "theory",
    "remark after Proposition 5",
    "Applied to squared constraints, the earlier methods have a squared violation of "
    "O(T^(3/4)) and O(T^(1-beta/2)), which is worse than that of Clipped-OGD.",
    f"for every beta, {_RATE}, and the squared violation is larger than with Clipped-OGD",
)
def squared_constraints(data: xarray.Dataset) -> Judgement:
    chosen = cases(data, "squares-")
    rates = _rates(data, chosen, "squared", chosen)
    last = data["squared"].isel(horizon=-1).mean("seed")
    less = []
    figures = dict(rates.figures)
    for case in chosen:
        size = "0.5" if case == "squares-4" else case.removeprefix("squares-5-")
        theirs, ours = (float(last.sel(case=name)) for name in (case, f"paper-step-{size}"))
        figures |= {f"{case}: squared violation": theirs, f"{case}: Clipped-OGD's": ours}
        less += [case] if theirs <= ours else []
    if rates.verdict == FAILS or not less:
        return Judgement(rates.verdict, figures, rates.reason)
    reason = f"not worse than Clipped-OGD: {', '.join(less)}"
    return Judgement(PART, figures, "; ".join(part for part in (rates.reason, reason) if part))

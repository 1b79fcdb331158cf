"""The paper's claims, each with a criterion that stored results meet or do not. Verdicts are computed, never typed.

A claim is judged on the main dataset of its experiment and again on every other choice of what the paper leaves open;
it survives if none of them makes it worse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .experiments.dispatch import CAP, DAY

if TYPE_CHECKING:
    import xarray

__all__ = ["CLAIMS", "FAILS", "HOLDS", "PART", "Claim", "Judgement", "judge"]

HOLDS, PART, FAILS = "holds", "holds in part", "fails"
_ORDER = (FAILS, PART, HOLDS)
BETAS = ("half", "two-thirds")


@dataclass(frozen=True)
class Judgement:
    """A verdict with the figures it was computed from."""

    verdict: str
    figures: dict[str, float]
    reason: str = ""


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, in our words."""

    name: str
    experiment: str
    where: str
    text: str
    criterion: str
    judge: Callable[[xarray.Dataset], Judgement]


def judge(results: Mapping[str, Sequence[xarray.Dataset]]) -> list[dict[str, Any]]:
    """Every claim whose experiment is among `results`: experiment -> datasets, the main choice first."""
    found = []
    for claim in CLAIMS:
        if claim.experiment not in results:
            continue
        main, *others = results[claim.experiment]
        verdict = claim.judge(main)
        choices = [{"choice": other.attrs["choice"], "verdict": claim.judge(other).verdict} for other in others]
        rank = _ORDER.index(verdict.verdict)
        found.append(
            {
                "id": claim.name,
                "experiment": claim.experiment,
                "where": claim.where,
                "claim": claim.text,
                "criterion": claim.criterion,
                "verdict": verdict.verdict,
                "figures": {name: float(f"{value:.6g}") for name, value in verdict.figures.items()},
                "reason": verdict.reason,
                "choices": choices,
                "survives": all(_ORDER.index(choice["verdict"]) >= rank for choice in choices),
            }
        )
    return found


def _graded(parts: Mapping[str, bool], figures: dict[str, float], reason: str = "") -> Judgement:
    """Holds if all parts do, in part if some do."""
    met = sum(parts.values())
    verdict = HOLDS if met == len(parts) else PART if met else FAILS
    missed = ", ".join(name for name, true in parts.items() if not true)
    return Judgement(verdict, figures, reason or (f"not met: {missed}" if missed else ""))


def _last(data: xarray.Dataset, name: str, contestant: str) -> float:
    """Mean over seeds at the longest horizon."""
    return float(data[name].sel(contestant=contestant).isel(horizon=-1).mean())


def _walk(data: xarray.Dataset, name: str, contestant: str) -> float:
    return float(data[f"walk_{name}"].sel(contestant=contestant))


def _follows(data: xarray.Dataset) -> Judgement:
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    for beta in BETAS:
        one = f"clipped-{beta}"
        near, high, miss = (_walk(data, name, one) for name in ("near", "high", "miss"))
        figures |= {f"{one}: share within 0.05 of the boundary": near, f"{one}: largest g": high, f"{one}: miss": miss}
        parts[f"{one} stays near"] = near >= 0.95 and high <= 0.05
        parts[f"{one} reaches the optimum"] = miss <= 0.1
    return _graded(parts, figures)


def _oscillates(data: xarray.Dataset) -> Judgement:
    crossings, high, low = (_walk(data, name, "ogd") for name in ("crossings", "high", "low"))
    figures = {"crossings": crossings, "largest g": high, "smallest g": low}
    return _graded(
        {"ten crossings": crossings >= 10, "swings beyond 0.1 both ways": high >= 0.1 and low <= -0.1}, figures
    )


def _violates(data: xarray.Dataset) -> Judgement:
    shares = {f"a-ogd-{beta}": _walk(data, "share", f"a-ogd-{beta}") for beta in BETAS}
    return _graded({name: share > 0.5 for name, share in shares.items()}, {f"{n}: share": s for n, s in shares.items()})


def _ring(data: xarray.Dataset) -> Judgement:
    shares = {f"a-ogd-{beta}": _walk(data, "ring", f"a-ogd-{beta}") for beta in BETAS}
    figures = {f"{name}: share of rounds on the outer ball": share for name, share in shares.items()}
    if min(shares.values()) >= 0.5:
        return Judgement(HOLDS, figures)
    verdict = PART if max(shares.values()) >= 0.1 else FAILS
    return Judgement(verdict, figures, "on the ball at first, then just outside the constraint")


def _cancels(data: xarray.Dataset) -> Judgement:
    clipped, signed = _last(data, "violation", "ogd"), _last(data, "excess", "ogd")
    ours = _last(data, "violation", "clipped-half")
    parts = {"signed at most a third": abs(signed) <= clipped / 3, "clipped above Clipped-OGD's": clipped > ours}
    return _graded(parts, {"clipped": clipped, "signed": signed, "Clipped-OGD clipped": ours})


def _buys(data: xarray.Dataset) -> Judgement:
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    for beta in BETAS:
        one, other = f"a-ogd-{beta}", f"clipped-{beta}"
        theirs, ours, ogd = (_last(data, "regret", name) for name in (one, other, "ogd"))
        more, less = _last(data, "violation", one), _last(data, "violation", other)
        figures |= {f"{one}: regret": theirs, f"{other}: regret": ours, "ogd: regret": ogd}
        figures |= {f"{one}: violation": more, f"{other}: violation": less}
        parts[f"{one}: lower regret and more violation"] = theirs < min(ours, ogd) and more > less
    return _graded(parts, figures)


def _best_of(data: xarray.Dataset) -> Judgement:
    names = [str(name) for name in data["contestant"].values if str(name) not in ("strong", "strong-scaled")]
    names = [name for name in names if not name.startswith("scaled")]  # the paper's figure has the paper's parameters
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    for quantity in ("violation", "regret"):
        ours = _last(data, quantity, "strong")
        others = {name: _last(data, quantity, name) for name in names}
        best, worst = min(others.values()), max(others.values())
        figures |= {f"Our-strong: {quantity}": ours, f"best other: {quantity}": best, f"worst other: {quantity}": worst}
        # "Around the best" in a figure: closer to the lowest curve than a tenth of what the figure spans.
        parts[quantity] = ours <= best + 0.1 * (worst - best)
    return _graded(parts, figures)


def _flattens(data: xarray.Dataset) -> Judgement:
    one = data["violation"].sel(contestant="clipped-half").mean("seed")
    horizons = data["horizon"].values
    early = int(np.argmin(np.abs(horizons - horizons[-1] / 10)))
    growth = float(np.log(one[-1] / one[early]) / np.log(horizons[-1] / horizons[early]))
    rivals = {f"a-ogd-{beta}": _last(data, "violation", f"a-ogd-{beta}") for beta in BETAS}
    rivals |= {f"a-ogd-strong-{beta}": _last(data, "violation", f"a-ogd-strong-{beta}") for beta in BETAS}
    figures = {"Clipped-OGD: violation": float(one[-1]), "growth exponent, last decade": growth, **rivals}
    parts = {"larger than A-OGD's": float(one[-1]) > min(rivals.values()), "flat (exponent below 0.2)": growth < 0.2}
    return _graded(parts, figures)


def _dispatch_violations(data: xarray.Dataset, ours: str) -> Judgement:
    peaks = {str(name): float(data["excess"].sel(contestant=name).max().clip(0)) for name in data["contestant"].values}
    earlier = {name: peak for name, peak in peaks.items() if name.startswith(("ogd", "a-ogd"))}
    mine = {name: peak for name, peak in peaks.items() if name.startswith(ours)}
    parts = {f"{name} violates by over a tenth of the cap": peak > 0.1 * CAP for name, peak in earlier.items()}
    parts |= {f"{name} by under a twentieth": peak < 0.05 * CAP for name, peak in mine.items()}
    # A learner that never serves the demand obeys the cap trivially: that is no merit.
    best = float(data["best_cost"][-DAY:].mean())
    last = {name: float(data["cost"].sel(contestant=name)[-DAY:].mean()) / best for name in mine}
    parts |= {f"{name} serves the demand": ratio <= 2 for name, ratio in last.items()}
    return _graded(parts, {f"{name}: peak": peak for name, peak in {**earlier, **mine}.items()})


def _dispatch_cost(data: xarray.Dataset, ours: str) -> Judgement:
    best = float(data["best_cost"].mean())
    figures, ratios = {"best fixed: mean cost": best}, {}
    for beta in BETAS:
        cost = data["cost"].sel(contestant=f"{ours}-{beta}")
        mean, last = float(cost.mean()), float(cost[-DAY:].mean() / data["best_cost"][-DAY:].mean())
        figures |= {f"{ours}-{beta}: mean cost": mean, f"{ours}-{beta}: last day over best": last}
        ratios[beta] = mean / best
    if all(ratio <= 1.1 for ratio in ratios.values()):
        return Judgement(HOLDS, figures)
    near = min(ratios.values()) <= 1.25 or any(figures[f"{ours}-{beta}: last day over best"] <= 1.1 for beta in BETAS)
    return Judgement(PART if near else FAILS, figures, "" if near else "the step is too small to leave the start")


def _peak_shrinks(data: xarray.Dataset) -> Judgement:
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    for case in _cases(data, "lemma-1-"):
        measured, allowed = (float(data[f"{part}_peak"].sel(case=case)) for part in ("measured", "theory"))
        name = f"beta = {float(data['beta'].sel(case=case)):.3g}"
        figures |= {f"{name}: exponent": measured, f"{name}: allowed": allowed}
        parts[name] = measured <= allowed + 0.02
    bound, peak = data["bound_peak"], data["peak"].max("seed")
    ratio = float((peak / bound).sel(case=_cases(data, "lemma-1-")).max())
    figures["worst over bound"] = ratio
    return _graded(parts | {"below the bound": ratio <= 1}, figures)


def _squares(data: xarray.Dataset) -> Judgement:
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    for case in [*_cases(data, "theorem-1-"), *_cases(data, "lemma-1-")]:
        measured, allowed = (float(data[f"{part}_squared"].sel(case=case)) for part in ("measured", "theory"))
        figures |= {f"{case}: exponent": measured, f"{case}: allowed": allowed}
        parts[case] = measured <= allowed + 0.02
        ratio = float((data["squared"].max("seed") / data["bound_squared"]).sel(case=case).max())
        figures[f"{case}: worst over bound"] = ratio
        parts[f"{case} below its bound"] = ratio <= 1
    return _graded(parts, figures)


def _logarithmic(data: xarray.Dataset) -> Judgement:
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    logs = np.log(data["horizon"].values)
    for case in _cases(data, "theorem-2"):
        values, bound = data["regret"].sel(case=case), data["bound_regret"].sel(case=case)
        mean = values.mean("seed").values
        ratio = float((values.max("seed") / bound).max())
        figures |= {
            f"{case}: regret": float(mean[-1]),
            f"{case}: regret per log T": float(np.polyfit(logs, mean, 1)[0]),
        }
        figures[f"{case}: worst over bound"] = ratio
        parts[f"{case} below the bound in log T"] = ratio <= 1
        clipped = float(data["measured_violation"].sel(case=case))
        if np.isfinite(clipped):
            figures[f"{case}: growth exponent of the violation"] = clipped
            parts[f"{case}: violation within sqrt(T log T)"] = clipped <= 0.55
    return _graded(parts, figures)


def _soft_maximum(data: xarray.Dataset) -> Judgement:
    least = float(data["literal_log_sum_exp"])
    measured = float(data["measured_peak"].sel(case="proposition-1"))
    figures = {"least value of the printed aggregate": least, "exponent of the peak with temperature sqrt(T)": measured}
    parts = {
        "as printed: a feasible decision remains": least <= 0,
        "with temperature: exponent at most -1/6": measured <= -1 / 6,
    }
    return _graded(parts, figures, "as printed, no decision of the toy is feasible" if least > 0 else "")


def _clipped_baselines(data: xarray.Dataset) -> Judgement:
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    for case in ["proposition-4", *_cases(data, "proposition-5-")]:
        measured, allowed = (float(data[f"{part}_violation"].sel(case=case)) for part in ("measured", "theory"))
        ratio = float((data["violation"].max("seed") / data["bound_violation"]).sel(case=case).max())
        figures |= {f"{case}: exponent": measured, f"{case}: allowed": allowed, f"{case}: worst over bound": ratio}
        parts[case] = measured <= allowed + 0.02 and ratio <= 1
    return _graded(parts, figures)


def _cases(data: xarray.Dataset, prefix: str) -> list[str]:
    return [str(name) for name in data["case"].values if str(name).startswith(prefix)]


CLAIMS = (
    Claim(
        "toy-follows",
        "toy",
        "Fig. 1, section 5.1",
        "Clipped-OGD follows the constraint's boundary tightly until it reaches the optimum.",
        "after touching the boundary, |g| <= 0.05 in 95 % of rounds, never above; the end within 0.1 of the optimum",
        _follows,
    ),
    Claim(
        "toy-oscillates",
        "toy",
        "Fig. 1, section 5.1",
        "OGD oscillates widely around the boundary.",
        "at least 10 crossings, and swings beyond +-0.1",
        _oscillates,
    ),
    Claim(
        "toy-violates",
        "toy",
        "Fig. 1, section 5.1",
        "A-OGD violates the constraint most of the time.",
        "g > 0 in over half of the rounds",
        _violates,
    ),
    Claim(
        "toy-outer-ball",
        "toy",
        "Fig. 1, caption",
        "A-OGD closely follows the boundary of the outer ball.",
        "on the ball with g > 0.1 in half of the rounds (in part: a tenth)",
        _ring,
    ),
    Claim(
        "toy-cancels",
        "toy",
        "Appendix A",
        "OGD's clipped violation is very large while its signed one is very small.",
        "signed at most a third of clipped, clipped above Clipped-OGD's",
        _cancels,
    ),
    Claim(
        "toy-buys",
        "toy",
        "Appendix A",
        "A-OGD's violation buys it lower regret.",
        "lowest regret, and more violation than Clipped-OGD with the same beta",
        _buys,
    ),
    Claim(
        "doubly-best",
        "doubly-stochastic",
        "Fig. 2, section 5.2",
        "Our-strong is around the best in both clipped violation and regret.",
        "at most a tenth of the way from the best to the worst of the others",
        _best_of,
    ),
    Claim(
        "doubly-flattens",
        "doubly-stochastic",
        "Fig. 2, section 5.2",
        "Clipped-OGD with beta = 1/2 violates more than A-OGD, but its violation flattens quickly.",
        "larger than A-OGD's smallest, growth exponent over the last decade below 0.2",
        _flattens,
    ),
    Claim(
        "dispatch-violations",
        "dispatch",
        "Fig. 3b, section 5.3",
        "All earlier methods violate substantially, Clipped-OGD (the paper's parameters) does not.",
        "peaks over a tenth of the cap against under a twentieth, at no more than twice the best cost in the end",
        lambda data: _dispatch_violations(data, "clipped"),
    ),
    Claim(
        "dispatch-violations-scaled",
        "dispatch",
        "Fig. 3b, section 5.3",
        "All earlier methods violate substantially, Clipped-OGD with the scale-aware rule does not.",
        "peaks over a tenth of the cap against under a twentieth, at no more than twice the best cost in the end",
        lambda data: _dispatch_violations(data, "scaled"),
    ),
    Claim(
        "dispatch-cost",
        "dispatch",
        "Fig. 3c, section 5.3",
        "Clipped-OGD's average cost (the paper's parameters) is very close to the best fixed strategy.",
        "within 10 % (in part: within 25 %, or within 10 % on the last day)",
        lambda data: _dispatch_cost(data, "clipped"),
    ),
    Claim(
        "dispatch-cost-scaled",
        "dispatch",
        "Fig. 3c, section 5.3",
        "Clipped-OGD's average cost with the scale-aware rule is very close to the best fixed strategy.",
        "within 10 % (in part: within 25 %, or within 10 % on the last day)",
        lambda data: _dispatch_cost(data, "scaled"),
    ),
    Claim(
        "lemma-1",
        "theory",
        "Lemma 1",
        "The violation of a single round shrinks with T, like T^(-1/6) at beta = 1/2.",
        "exponent of the peak at most -beta/3, all peaks below the explicit bound",
        _peak_shrinks,
    ),
    Claim(
        "theorem-1-squares",
        "theory",
        "Theorem 1, Proposition 3",
        "The squared violation obeys O(T^(1-beta)).",
        "growth exponent at most 1 - beta, all values below the explicit bound",
        _squares,
    ),
    Claim(
        "theorem-2-log",
        "theory",
        "Theorem 2",
        "With strongly convex losses regret is O(log T) and violation O(sqrt(T log T)).",
        "all values below the explicit bound, violation's exponent at most 0.55",
        _logarithmic,
    ),
    Claim(
        "proposition-1",
        "theory",
        "Proposition 1",
        "Log-sum-exp aggregation keeps the per-round bound for several constraints.",
        "the aggregate leaves a feasible decision, and the peak falls like T^(-1/6)",
        _soft_maximum,
    ),
    Claim(
        "propositions-4-5",
        "theory",
        "Propositions 4 and 5",
        "With the clipped Lagrangian the earlier methods keep their rates for the clipped sum.",
        "growth exponents within the propositions', values below the explicit bounds",
        _clipped_baselines,
    ),
)

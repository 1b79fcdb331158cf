"""The paper's claims about its experiments, each with the function that judges it from a stored
dataset.

A claim has a name, an experiment, its place in the paper, its text in our words and its criterion
in words. Claims about theorems are in `theory_criteria`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arena.streams.dispatch import CAP, DAY
from .datasets import names

if TYPE_CHECKING:
    import xarray

__all__ = ["CLAIMS", "FAILS", "HOLDS", "NOT_YET", "PART", "Claim", "Judgement", "graded", "judged"]

HOLDS, NOT_YET, PART, FAILS = "holds", "not asymptotic yet", "holds in part", "fails"
"""A proven rate that is exceeded at finite horizons, but less and less, is "not asymptotic yet"."""


class Look(NamedTuple):
    """How a verdict is shown: class and mark in the report, sign and style in a terminal, and its
    verb for one claim and for several."""

    css: str
    mark: str
    sign: str
    style: str
    verbs: tuple[str, str]


LOOKS = {
    HOLDS: Look("holds", "\u2713", "+", "bold green", ("holds", "hold")),
    PART: Look("part", "\u25d0", "~", "bold yellow", ("holds in part", "hold in part")),
    NOT_YET: Look(
        "yet", "\u2026", "?", "bold blue", ("is not asymptotic yet", "are not asymptotic yet")
    ),
    FAILS: Look("fails", "\u2717", "-", "bold red", ("fails", "fail")),
}
"""By verdict, in the order in which verdicts are counted."""
CLOSE = 2.0
"""The largest ratio to the best learner that counts as close to it."""
SPREAD = 0.05
"""The largest share of a panel's height that counts as a small standard deviation."""
BETAS = ("half", "two-thirds")


@dataclass(frozen=True)
class Judgement:
    """A verdict with the numbers it was computed from."""

    verdict: str
    figures: dict[str, float]
    reason: str = ""


@dataclass(frozen=True)
class Claim:
    """One claim of the paper in our words, with the criterion in words and as a function."""

    name: str
    experiment: str
    where: str
    text: str
    criterion: str
    judge: Callable[[xarray.Dataset], Judgement]


Judge = Callable[..., Judgement]


def judged(
    claims: list[Claim], name: str, experiment: str, where: str, text: str, criterion: str
) -> Callable[[Judge], Judge]:
    """Add the claim that a function judges to a list."""

    def add(judge: Judge) -> Judge:
        claims.append(Claim(name, experiment, where, text, criterion, judge))
        return judge

    return add


CLAIMS: list[Claim] = []
claim = partial(judged, CLAIMS)


def graded(parts: Mapping[str, bool], figures: dict[str, float], reason: str = "") -> Judgement:
    """Return "holds" if all parts are met, "holds in part" if some are, otherwise "fails"."""
    met = sum(parts.values())
    verdict = HOLDS if met == len(parts) else PART if met else FAILS
    missed = ", ".join(name for name, true in parts.items() if not true)
    return Judgement(verdict, figures, reason or (f"not met: {missed}" if missed else ""))


def _last(data: xarray.Dataset, name: str, contestant: str) -> float:
    """Return the mean over seeds at the longest horizon."""
    return float(data[name].sel(contestant=contestant).isel(horizon=-1).mean())


def _walk(data: xarray.Dataset, name: str, contestant: str) -> float:
    return float(data[f"walk_{name}"].sel(contestant=contestant))


@claim(
    "toy-follows",
    "toy",
    "Fig. 1, section 5.1",
    "Clipped-OGD follows the boundary of the constraint closely until it reaches the optimum.",
    "after the first contact with the boundary, |g| <= 0.05 in at least 95 % of the rounds "
    "and g never exceeds 0.05; the last decisions are within 0.1 of the optimum",
)
def toy_follows(data: xarray.Dataset) -> Judgement:
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    for beta in BETAS:
        clipped = f"clipped-{beta}"
        near, high, miss = (_walk(data, name, clipped) for name in ("near", "high", "miss"))
        figures |= {
            f"{clipped}: share within 0.05 of the boundary": near,
            f"{clipped}: largest g": high,
            f"{clipped}: miss": miss,
        }
        parts[f"{clipped} stays near"] = near >= 0.95 and high <= 0.05
        parts[f"{clipped} reaches the optimum"] = miss <= 0.1
    return graded(parts, figures)


@claim(
    "toy-oscillates",
    "toy",
    "Fig. 1, section 5.1",
    "OGD oscillates widely around the boundary.",
    "at least 10 crossings of the boundary, and g reaches both 0.1 and -0.1",
)
def toy_oscillates(data: xarray.Dataset) -> Judgement:
    crossings, high, low = (_walk(data, name, "ogd") for name in ("crossings", "high", "low"))
    figures = {"crossings": crossings, "largest g": high, "smallest g": low}
    return graded(
        {
            "ten crossings": crossings >= 10,
            "swings beyond 0.1 both ways": high >= 0.1 and low <= -0.1,
        },
        figures,
    )


@claim(
    "toy-violates",
    "toy",
    "Fig. 1, section 5.1",
    "A-OGD violates the constraint in most rounds.",
    "g > 0 in more than half of the rounds",
)
def toy_violates(data: xarray.Dataset) -> Judgement:
    shares = {f"a-ogd-{beta}": _walk(data, "share", f"a-ogd-{beta}") for beta in BETAS}
    return graded(
        {name: share > 0.5 for name, share in shares.items()},
        {f"{n}: share": s for n, s in shares.items()},
    )


@claim(
    "toy-outer-ball",
    "toy",
    "Fig. 1, caption",
    "A-OGD closely follows the boundary of the outer ball.",
    "the decision is on the ball and g > 0.1 in at least half of the rounds (in part: for one "
    "of both values of beta)",
)
def toy_outer_ball(data: xarray.Dataset) -> Judgement:
    shares = {f"a-ogd-{beta}": _walk(data, "ring", f"a-ogd-{beta}") for beta in BETAS}
    figures = {
        f"{name}: share of rounds on the outer ball": share for name, share in shares.items()
    }
    parts = {name: share >= 0.5 for name, share in shares.items()}
    missed = "decisions are on the ball at first and later just outside the constraint"
    return graded(parts, figures, "" if all(parts.values()) else missed)


@claim(
    "toy-cancels",
    "toy",
    "Appendix A",
    "The clipped violation of OGD is very large although its signed violation is very small.",
    "the signed sum is at most a tenth of Clipped-OGD's clipped sum and a third of OGD's "
    "own, and OGD's clipped sum is larger than that of Clipped-OGD",
)
def toy_cancels(data: xarray.Dataset) -> Judgement:
    clipped, signed = _last(data, "violation", "ogd"), _last(data, "largest_excess", "ogd")
    ours = _last(data, "violation", "clipped-half")
    parts = {
        "signed at most a tenth of Clipped-OGD's clipped sum": abs(signed) <= ours / 10,
        "signed at most a third of the clipped sum": abs(signed) <= clipped / 3,
        "clipped above Clipped-OGD's": clipped > ours,
    }
    return graded(parts, {"clipped": clipped, "signed": signed, "Clipped-OGD clipped": ours})


@claim(
    "toy-buys",
    "toy",
    "Appendix A",
    "A-OGD has lower regret because it violates the constraint.",
    "A-OGD has the lowest regret, and more violation than Clipped-OGD with the same beta",
)
def toy_buys(data: xarray.Dataset) -> Judgement:
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    for beta in BETAS:
        adaptive, clipped = f"a-ogd-{beta}", f"clipped-{beta}"
        theirs, ours, ogd = (_last(data, "regret", name) for name in (adaptive, clipped, "ogd"))
        more, less = _last(data, "violation", adaptive), _last(data, "violation", clipped)
        figures |= {f"{adaptive}: regret": theirs, f"{clipped}: regret": ours, "ogd: regret": ogd}
        figures |= {f"{adaptive}: violation": more, f"{clipped}: violation": less}
        parts[f"{adaptive}: lower regret and more violation"] = (
            theirs < min(ours, ogd) and more > less
        )
    return graded(parts, figures)


@claim(
    "toy-spread",
    "toy",
    "Appendix A",
    "The standard deviations over the random sequences are small.",
    "in clipped violation, signed violation and regret, no standard deviation of a learner "
    "exceeds 5 % of the largest mean",
)
def toy_spread(data: xarray.Dataset) -> Judgement:
    shown = [name for name in names(data) if not name.startswith("scaled")]
    figures: dict[str, float] = {}
    for quantity in ("violation", "largest_excess", "regret"):
        values = data[quantity].sel(contestant=shown)
        spread = values.std("seed", ddof=1) / abs(values.mean("seed")).max()
        figures[f"{quantity}: largest standard deviation over largest mean"] = float(spread.max())
    return graded({name: share <= SPREAD for name, share in figures.items()}, figures)


@claim(
    "doubly-best",
    "doubly-stochastic",
    "Fig. 2, section 5.2",
    "Our-strong is close to the best learner in both clipped violation and regret.",
    "its violation and its regret are each at most twice the best of the other learners",
)
def doubly_best(data: xarray.Dataset) -> Judgement:
    # The paper's figure has the paper's parameters.
    others = [name for name in names(data) if not name.startswith(("strong", "scaled"))]
    figures: dict[str, float] = {}
    parts: dict[str, bool] = {}
    for quantity in ("violation", "regret"):
        ours = _last(data, quantity, "strong")
        best = min(_last(data, quantity, name) for name in others)
        figures |= {f"Our-strong: {quantity}": ours, f"best other: {quantity}": best}
        if best > 0:
            figures[f"ratio to the best: {quantity}"] = ours / best
        # The difference is compared with the size of the best, so that a negative regret makes
        # sense too.
        parts[quantity] = ours - best <= (CLOSE - 1) * abs(best)
    return graded(parts, figures)


@claim(
    "doubly-flattens",
    "doubly-stochastic",
    "Fig. 2, section 5.2",
    "Clipped-OGD with beta = 1/2 violates more than A-OGD, but its violation soon stops growing.",
    "its violation is larger than the smallest of A-OGD, and grows with an exponent below "
    "0.2 over the last decade of T",
)
def doubly_flattens(data: xarray.Dataset) -> Judgement:
    violation = data["violation"].sel(contestant="clipped-half").mean("seed")
    horizons = data["horizon"].values
    early = int(np.argmin(np.abs(horizons - horizons[-1] / 10)))
    growth = float(
        np.log(violation[-1] / violation[early]) / np.log(horizons[-1] / horizons[early])
    )
    rivals = {n: _last(data, "violation", n) for n in names(data) if n.startswith("a-ogd")}
    figures = {
        "Clipped-OGD: violation": float(violation[-1]),
        "growth exponent, last decade": growth,
        **rivals,
    }
    parts = {
        "larger than A-OGD's": float(violation[-1]) > min(rivals.values()),
        "flat (exponent below 0.2)": growth < 0.2,
    }
    return graded(parts, figures)


def dispatch_violations(data: xarray.Dataset, ours: str) -> Judgement:
    peaks = {n: float(data["excess"].sel(contestant=n).max().clip(0)) for n in names(data)}
    earlier = {name: peak for name, peak in peaks.items() if name.startswith(("ogd", "a-ogd"))}
    mine = {name: peak for name, peak in peaks.items() if name.startswith(ours)}
    parts = {
        f"{name} violates by over a tenth of the cap": peak > 0.1 * CAP
        for name, peak in earlier.items()
    }
    parts |= {f"{name} by under a twentieth": peak < 0.05 * CAP for name, peak in mine.items()}
    # A learner that does not serve the demand stays below the cap trivially, so its cost is checked
    # as well.
    best = float(data["best_cost"][-DAY:].mean())
    last = {name: float(data["cost"].sel(contestant=name)[-DAY:].mean()) / best for name in mine}
    parts |= {f"{name} serves the demand": ratio <= 2 for name, ratio in last.items()}
    return graded(parts, {f"{name}: peak": peak for name, peak in {**earlier, **mine}.items()})


def dispatch_cost(data: xarray.Dataset, ours: str) -> Judgement:
    best = float(data["best_cost"].mean())
    figures, ratios = {"best fixed: mean cost": best}, {}
    for beta in BETAS:
        cost = data["cost"].sel(contestant=f"{ours}-{beta}")
        mean, last = float(cost.mean()), float(cost[-DAY:].mean() / data["best_cost"][-DAY:].mean())
        figures |= {f"{ours}-{beta}: mean cost": mean, f"{ours}-{beta}: last day over best": last}
        ratios[beta] = mean / best
    if all(ratio <= 1.1 for ratio in ratios.values()):
        return Judgement(HOLDS, figures)
    near = min(ratios.values()) <= 1.25 or any(
        figures[f"{ours}-{beta}: last day over best"] <= 1.1 for beta in BETAS
    )
    return Judgement(
        PART if near else FAILS,
        figures,
        "" if near else "the step is too small for the decision to leave its start",
    )


_RULES = (
    ("", "clipped", "the paper's parameters"),
    ("-scaled", "scaled", "the scale-aware rule"),
)
for _suffix, _ours, _rule in _RULES:
    claim(
        f"dispatch-violations{_suffix}",
        "dispatch",
        "Fig. 3b, section 5.3",
        "All earlier methods violate the constraints substantially; Clipped-OGD with "
        f"{_rule} does not.",
        "the peak violation of every earlier method exceeds a tenth of the cap; that of "
        "Clipped-OGD stays below a twentieth, and its cost on the last day is at most twice the "
        "best",
    )(partial(dispatch_violations, ours=_ours))
for _suffix, _ours, _rule in _RULES:
    claim(
        f"dispatch-cost{_suffix}",
        "dispatch",
        "Fig. 3c, section 5.3",
        f"The average cost of Clipped-OGD with {_rule} is very close to that of the best fixed "
        "strategy.",
        "the mean cost is within 10 % of the best (in part: within 25 %, or within 10 % on the "
        "last day)",
    )(partial(dispatch_cost, ours=_ours))

"""Captions of the figures, with numbers from the same dataset. Each says what is shown and what to
look for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..datasets import bounds_of, cases, names, title_of
from .paper import shown
from .style import fraction

if TYPE_CHECKING:
    import xarray

__all__ = [
    "baselines",
    "clipped",
    "dispatch",
    "exponents",
    "regret",
    "strong",
    "sums",
    "trajectories",
]

_OURS = {"paper": "clipped", "scale-aware": "scaled"}
_RULE = {
    "paper": "All learners use the parameters of the paper.",
    "scale-aware": (
        "Clipped-OGD uses the scale-aware rule; the other learners use the parameters of the paper."
    ),
}
_BOTH = (
    "Dark colours with filled markers show the parameters of the paper. Light colours with "
    "hollow markers show the scale-aware rule, which uses separate bounds on the gradients of "
    "losses and constraints."
)


def trajectories(data: xarray.Dataset, rule: str = "paper") -> str:
    """Write the caption of Fig. 1."""
    said = []
    for name in names(data):
        if name.startswith(("ogd", "a-ogd", _OURS[rule])):
            g = np.abs(data["trajectory"].sel(contestant=name).values).sum(axis=-1) - 1
            said.append(f"{title_of(data, name)}: {g.max():.2g} and {np.mean(g > 0):.0%}")
    return (
        f"Decisions on one sequence of T = {int(data.attrs['walk'])} rounds, one panel per "
        f"\u03b2. OGD has no \u03b2 and is the same in both panels. {_RULE[rule]} The feasible "
        "set is shaded; the dotted circle is the outer ball, R = "
        f"{float(data.attrs['radius']):.3g}. Compare how far the paths are from the boundary "
        "after they have reached it, and whether they end at the star. Largest g and share of "
        f"rounds with g > 0: {'; '.join(said)}."
    )


def sums(data: xarray.Dataset, rule: str = "paper") -> str:
    """Write the caption of Fig. 2 and of the appendix's figure."""
    last = data.isel(horizon=-1).mean("seed")
    order = shown(names(data), rule)
    ogd = last.sel(contestant="ogd") if "ogd" in order else None
    least = min(order, key=lambda name: float(last["violation"].sel(contestant=name)))
    lowest = min(order, key=lambda name: float(last["regret"].sel(contestant=name)))
    text = (
        f"Lines are means over {data.sizes['seed']} sequences, shaded areas their range; "
        f"{data.attrs['choice']}. {_BOTH if rule == 'scale-aware' else _RULE['paper']} "
    )
    if ogd is not None and rule == "paper":
        text += (
            "Compare (a) with (b): in a signed sum, rounds with slack offset rounds with "
            f"violations. For OGD the clipped sum is {float(ogd['violation']):.3g} and the signed "
            f"sum is {float(ogd['largest_excess']):.3g}. "
        )
        if "excess" in data:
            text += (
                "Here the two are equal: an equality h = 0 is written as h and -h, whose maximum "
                "is never negative, so nothing can cancel. The paper does not say what its panel "
                "shows. The second panel (b) is the other reading: the signed sum of every "
                "constraint by itself, of which the largest is drawn; there OGD has "
                f"{float(ogd['excess']):.3g}. "
                + (
                    "Little cancels there either. "
                    if float(ogd["excess"]) > 0.5 * float(ogd["violation"])
                    else ""
                )
            )
    return text + (
        f"At T = {int(data['horizon'][-1])}, {title_of(data, least)} has the smallest clipped "
        f"violation and {title_of(data, lowest)} the lowest regret. A learner can reduce its "
        "regret by leaving the feasible set, so regret has to be read together with the clipped "
        "violation."
    )


def dispatch(data: xarray.Dataset, rule: str = "paper") -> str:
    """Write the caption of Fig. 3."""
    best = float(data["best_cost"].mean())
    said = []
    for name in names(data):
        if name.startswith(("ogd", "a-ogd", _OURS[rule])):
            one = data.sel(contestant=name)
            peak, cost = max(0.0, float(one["excess"].max())), float(one["cost"].mean())
            said.append(f"{title_of(data, name)}: {peak:.3g} and {cost:.3g}")
    return (
        f"(a) is the demand that the learner sees, rescaled from {_gigawatts(data)} of "
        f"{data.attrs['source']}; {data.attrs['choice']}. {_RULE[rule]} In (b), values above 0 "
        "mean that emissions exceed the cap of 100 or that a generator exceeds its limits; the "
        "panel with Clipped-OGD only has its own scale. In (c), compare the curves with the "
        "dashed line: a learner that stays at its first decision violates no constraint but does "
        "not serve the demand. Largest violation in a round and mean cost (best fixed strategy: "
        f"{best:.3g}): {'; '.join(said)}."
    )


def _gigawatts(data: xarray.Dataset) -> str:
    low, high = float(data["demand_mw"].min()) / 1000, float(data["demand_mw"].max()) / 1000
    return f"{low:.3g} to {high:.3g} GW"


def clipped(data: xarray.Dataset) -> str:
    """Write the caption of the figure for Theorem 1, Propositions 2 and 3, and Lemma 1."""
    betas = ", ".join(
        fraction(float(b))
        for b in sorted({float(b) for b in data["beta"].values if np.isfinite(b)})
    )
    return (
        f"Clipped-OGD with the scale-aware rule for \u03b2 = {betas}, from light to dark. Solid "
        "lines are measured values, dashed lines of the same colour their explicit bounds. A "
        "larger \u03b2 gives less violation and more regret: compare the order of the curves in "
        "(a) with that in (b) and (c). In (d) the constraint is smooth, and theory says that the "
        "largest violation in a round decreases with T. A curve that is no steeper than its "
        "dashed bound has the rate of the theorem. Largest ratio of a measured value to its "
        f"bound: {_worst(data, 'theorem-1-', ('violation', 'squared')):.2g} in (b) and (c), "
        f"{_worst(data, 'lemma-1-', ('peak',)):.2g} in (d)."
    )


def regret(data: xarray.Dataset) -> str:
    """Write the caption of the figure for the regret of Theorem 1 and Proposition 3."""
    return (
        "Clipped-OGD with the step that the paper prints, \u03b2 from light to dark. In (a) "
        "losses are random. There the learner can do better than every fixed decision, because "
        "it may leave the feasible set, so regret can be negative and says little about the "
        "rate. In (b) costs alternate at first and are then constant, which makes both terms of "
        "the bound grow as fast as they can. Solid lines that run along their dashed bounds show "
        "that the bounds cannot be improved by much. Largest ratio of a measured value to its "
        f"bound: {_worst(data, 'paper-step-', ('regret',)):.2g} in (a), "
        f"{_worst(data, 'worst-case-', ('regret',)):.2g} in (b)."
    )


def strong(data: xarray.Dataset) -> str:
    """Write the caption of the figure for Theorem 2 and Proposition 1."""
    return (
        "(a), (b) Strongly convex losses. T is on a logarithmic axis, on which O(log T) is a "
        "straight line; regret should stay below the dashed bound. Regret can be negative, "
        "because a learner can leave the feasible set and can adapt to the losses, which the "
        "best fixed decision cannot. (c) Four constraints are aggregated by log-sum-exp with the "
        "largest temperature that Lemma 1 allows, which is of the order T^(1/6). The largest "
        "violation in a round should decrease at least as fast as the dotted line, T to the "
        "power \u22121/6, and stay below the dashed bound of the lemma. As printed, with "
        "temperature 1, no decision is feasible at all. Largest ratio of a measured value to its "
        f"bound: {_worst(data, 'theorem-2', ('regret', 'violation')):.2g} in (a) and (b)."
    )


def baselines(data: xarray.Dataset) -> str:
    """Write the caption of the figure for Propositions 4 and 5."""
    return (
        "The earlier methods with the clipped Lagrangian. Solid lines are the clipped violation, "
        "dashed lines its explicit bound. If a solid line is steeper than its dashed line, the "
        "asymptotic rate is not reached at these horizons. Largest ratio of a measured value to "
        f"its bound: {_worst(data, 'proposition-4', ('violation',)):.2g} in (a), "
        f"{_worst(data, 'proposition-5', ('violation',)):.2g} in (b)."
    )


def exponents(data: xarray.Dataset) -> str:
    """Write the caption of the figure with all growth exponents."""
    above = total = 0
    for quantity in ("regret", "violation", "squared", "peak"):
        measured, allowed = data[f"measured_{quantity}"].values, data[f"theory_{quantity}"].values
        known = np.isfinite(measured) & np.isfinite(allowed)
        total += int(known.sum())
        above += int(np.sum(measured[known] > allowed[known] + 0.02))
    return (
        "Dots are growth exponents fitted over the horizons, with their confidence intervals, "
        "which are mostly narrower than the dot. Black ticks are the largest exponents that "
        f"theory allows. A dot should be to the left of its tick; {above} of {total} are to the "
        "right and drawn hollow. Rows without a dot have no exponent, for example because regret "
        "is negative. Theory describes large T: an exponent measured at these horizons can "
        "exceed it although the explicit bound holds."
    )


def _worst(data: xarray.Dataset, prefix: str, quantities: tuple[str, ...]) -> float:
    """Return the largest ratio of a measured value to a bound that is not trivial, among the cases
    of a result."""
    ratios = [
        (data[q].max("seed") / bounds_of(data, q)).sel(case=cases(data, prefix)).values.ravel()
        for q in quantities
    ]
    flat = np.concatenate(ratios)
    flat = flat[np.isfinite(flat)]
    return float(flat.max()) if flat.size else float("nan")

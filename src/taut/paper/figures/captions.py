"""Captions: what a figure shows and where to look, with the numbers of the dataset it was drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..datasets import cases, names, title_of
from .paper import shown
from .style import fraction

if TYPE_CHECKING:
    import xarray

__all__ = ["baselines", "clipped", "dispatch", "exponents", "strong", "sums", "trajectories"]

_OURS = {"paper": "clipped", "scale-aware": "scaled"}
_RULE = {
    "paper": "Parameters as in the paper.",
    "scale-aware": "Clipped-OGD with the scale-aware rule instead of the paper's parameters; the others unchanged.",
}
_BESIDE = (
    "The paper's parameters (dark, filled markers) beside the scale-aware rule (light, hollow markers), which takes "
    "the gradients' sizes into account."
)


def trajectories(data: xarray.Dataset, rule: str = "paper") -> str:
    """Fig. 1."""
    said = []
    for name in names(data):
        if name.startswith(("ogd", "a-ogd", _OURS[rule])):
            g = np.abs(data["trajectory"].sel(contestant=name).values).sum(axis=-1) - 1
            said.append(f"{title_of(data, name)}: {g.max():.2g} and {np.mean(g > 0):.0%}")
    return (
        f"Decisions on one sequence of T = {int(data.attrs['walk'])} rounds, one panel for each \u03b2 (OGD has none "
        f"and is the same in both). {_RULE[rule]} Shaded: the feasible set; dotted: the outer ball, R = "
        f"{float(data.attrs['radius']):.3g}. See how far from the boundary a path strays once it has met it, and "
        f"whether it ends at the star. Furthest outside, and share of rounds outside: {'; '.join(said)}."
    )


def sums(data: xarray.Dataset, rule: str = "paper") -> str:
    """Fig. 2 and the appendix's figure."""
    last = data.isel(horizon=-1).mean("seed")
    order = shown(names(data), rule)
    ogd = last.sel(contestant="ogd") if "ogd" in order else None
    least = min(order, key=lambda name: float(last["violation"].sel(contestant=name)))
    lowest = min(order, key=lambda name: float(last["regret"].sel(contestant=name)))
    text = (
        f"Mean over {data.sizes['seed']} sequences, their range shaded; {data.attrs['choice']}. "
        f"{_BESIDE if rule == 'scale-aware' else _RULE['paper']} "
    )
    if ogd is not None and rule == "paper":
        text += (
            "Compare (a) with (b): in a signed sum, rounds with slack pay for violations; OGD's is "
            f"{float(ogd['violation']):.3g} clipped and {float(ogd['excess']):.3g} signed. "
        )
    return text + (
        f"At T = {int(data['horizon'][-1])} the smallest clipped violation shown is that of {title_of(data, least)}, "
        f"the lowest regret that of {title_of(data, lowest)}. A low regret together with a large clipped violation is "
        "bought by leaving the feasible set."
    )


def dispatch(data: xarray.Dataset, rule: str = "paper") -> str:
    """Fig. 3."""
    best = float(data["best_cost"].mean())
    said = []
    for name in names(data):
        if name.startswith(("ogd", "a-ogd", _OURS[rule])):
            one = data.sel(contestant=name)
            peak, cost = max(0.0, float(one["excess"].max())), float(one["cost"].mean())
            said.append(f"{title_of(data, name)}: {peak:.3g} and {cost:.3g}")
    return (
        f"Demand: {data.attrs['source']}; {data.attrs['choice']}. {_RULE[rule]} In (b) anything above 0 is emission "
        "over the cap of 100 or a limit exceeded; the right-hand panel has an axis of its own. In (c) look at the "
        "distance to the dashed line: a learner that never leaves its first decision violates nothing and serves "
        f"nobody. Largest violation of a round and mean cost (best fixed strategy: {best:.3g}): {'; '.join(said)}."
    )


def clipped(data: xarray.Dataset) -> str:
    """Theorem 1, Propositions 2 and 3, Lemma 1."""
    betas = ", ".join(fraction(float(b)) for b in sorted({float(b) for b in data["beta"].values if np.isfinite(b)}))
    return (
        f"Clipped-OGD with the scale-aware rule for \u03b2 = {betas}, light to dark: measured (solid) against its "
        "explicit bound (dashed, same colour). A larger \u03b2 trades regret for violation: compare the order of the "
        "curves in (a) with that in (b) and (c). In (d) the constraint is smooth, and the violation of every single "
        "round is to fall with T. Compare slopes: a curve no steeper than its dashed bound keeps the rate. Largest "
        "measured value over its bound: "
        f"{_worst(data, 'theorem-1-', ('violation', 'squared')):.2g} in (b) and (c), "
        f"{_worst(data, 'lemma-1-', ('peak',)):.2g} in (d)."
    )


def strong(data: xarray.Dataset) -> str:
    """Theorem 2 and Proposition 1."""
    return (
        "(a), (b) Strongly convex losses with T on a logarithmic axis, where O(log T) is a straight line: regret "
        "is to stay under the dashed one. It can be negative, because a learner may leave the feasible set, or move "
        "with the losses, which the best fixed decision cannot. (c) Four constraints as one by log-sum-exp with "
        "temperature \u221aT: the largest violation of a round should fall at least as fast as the dotted line, T to "
        "the power \u22121/6; the dashed bound is that of any constraint, smooth or not. Largest measured "
        f"value over its bound: {_worst(data, 'theorem-2', ('regret', 'violation')):.2g} in (a) and (b)."
    )


def baselines(data: xarray.Dataset) -> str:
    """Propositions 4 and 5."""
    return (
        "The earlier methods with the clipped Lagrangian: clipped violation (solid) against its explicit bound "
        "(dashed). Where a solid curve is steeper than its dashed one, the asymptotic rate has not set in at these "
        f"horizons. Largest measured value over its bound: {_worst(data, 'proposition-4', ('violation',)):.2g} in "
        f"(a), {_worst(data, 'proposition-5', ('violation',)):.2g} in (b)."
    )


def exponents(data: xarray.Dataset) -> str:
    """All results at once."""
    above = total = 0
    for quantity in ("regret", "violation", "squared", "peak"):
        measured, allowed = data[f"measured_{quantity}"].values, data[f"theory_{quantity}"].values
        known = np.isfinite(measured) & np.isfinite(allowed)
        total += int(known.sum())
        above += int(np.sum(measured[known] > allowed[known] + 0.02))
    return (
        "Growth exponents fitted over the horizons (dots, with their intervals, mostly narrower than the dot) and "
        f"the largest that theory allows (black ticks). Dots belong to the left of their ticks; {above} of {total} "
        "lie to the right and are hollow. Rows without a dot have no exponent, such as a regret that is negative. "
        "Theory is about large T: an exponent measured at these horizons can still be above it while the explicit "
        "bound holds."
    )


def _worst(data: xarray.Dataset, prefix: str, quantities: tuple[str, ...]) -> float:
    """Largest measured value over its bound among the cases of a result."""
    ratios = [
        (data[q].max("seed") / data[f"bound_{q}"]).sel(case=cases(data, prefix)).values.ravel() for q in quantities
    ]
    flat = np.concatenate(ratios)
    flat = flat[np.isfinite(flat)]
    return float(flat.max()) if flat.size else float("nan")

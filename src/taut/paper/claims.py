"""The claims of the paper and their verdicts. Every verdict is computed from stored results by the
claim's criterion.

A claim is judged on the main dataset of its experiment, and again on the datasets of all other
choices of what the paper does not specify. It survives if every other choice gives the same
verdict; without other choices that is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import criteria, theory_criteria
from .criteria import FAILS, HOLDS, NOT_YET, PART, Judgement

if TYPE_CHECKING:
    import xarray

__all__ = ["CLAIMS", "FAILS", "HOLDS", "NOT_YET", "PART", "Claim", "Judgement", "judge"]


@dataclass(frozen=True)
class Claim:
    """One claim of the paper in our words, with the criterion in words and as a function."""

    name: str
    experiment: str
    where: str
    text: str
    criterion: str
    judge: Callable[[xarray.Dataset], Judgement]


def judge(results: Mapping[str, Sequence[xarray.Dataset]]) -> list[dict[str, Any]]:
    """Judge every claim whose experiment is in `results` and return one row per claim.

    `results` maps an experiment to its datasets, the main choice first.
    """
    found = []
    for claim in CLAIMS:
        if claim.experiment not in results:
            continue
        main, *others = results[claim.experiment]
        verdict = claim.judge(main)
        choices = [
            {"choice": other.attrs["choice"], "verdict": claim.judge(other).verdict}
            for other in others
        ]
        found.append(
            {
                "id": claim.name,
                "experiment": claim.experiment,
                "where": claim.where,
                "claim": claim.text,
                "criterion": claim.criterion,
                "verdict": verdict.verdict,
                "figures": {
                    name: float(f"{value:.6g}")
                    for name, value in verdict.figures.items()
                    if np.isfinite(value)
                },
                "reason": verdict.reason,
                "choices": choices,
                "survives": all(choice["verdict"] == verdict.verdict for choice in choices)
                if choices
                else None,
            }
        )
    return found


_RATE = (
    "no value is above an explicit bound that is not trivial, and the exponent at the longest "
    "horizons is at most the proven one (not asymptotic yet: it is larger, but falls with T)"
)
CLAIMS = (
    Claim(
        "toy-follows",
        "toy",
        "Fig. 1, section 5.1",
        "Clipped-OGD follows the boundary of the constraint closely until it reaches the optimum.",
        "after the first contact with the boundary, |g| <= 0.05 in at least 95 % of the rounds "
        "and g never exceeds 0.05; the last decisions are within 0.1 of the optimum",
        criteria.toy_follows,
    ),
    Claim(
        "toy-oscillates",
        "toy",
        "Fig. 1, section 5.1",
        "OGD oscillates widely around the boundary.",
        "at least 10 crossings of the boundary, and g reaches both 0.1 and -0.1",
        criteria.toy_oscillates,
    ),
    Claim(
        "toy-violates",
        "toy",
        "Fig. 1, section 5.1",
        "A-OGD violates the constraint in most rounds.",
        "g > 0 in more than half of the rounds",
        criteria.toy_violates,
    ),
    Claim(
        "toy-outer-ball",
        "toy",
        "Fig. 1, caption",
        "A-OGD closely follows the boundary of the outer ball.",
        "the decision is on the ball and g > 0.1 in at least half of the rounds (in part: for one "
        "of both values of beta)",
        criteria.toy_outer_ball,
    ),
    Claim(
        "toy-cancels",
        "toy",
        "Appendix A",
        "The clipped violation of OGD is very large although its signed violation is very small.",
        "the signed sum is at most a tenth of Clipped-OGD's clipped sum and a third of OGD's "
        "own, and OGD's clipped sum is larger than that of Clipped-OGD",
        criteria.toy_cancels,
    ),
    Claim(
        "toy-buys",
        "toy",
        "Appendix A",
        "A-OGD has lower regret because it violates the constraint.",
        "A-OGD has the lowest regret, and more violation than Clipped-OGD with the same beta",
        criteria.toy_buys,
    ),
    Claim(
        "toy-spread",
        "toy",
        "Appendix A",
        "The standard deviations over the random sequences are small.",
        "in clipped violation, signed violation and regret, no standard deviation of a learner "
        "exceeds 5 % of the largest mean",
        criteria.toy_spread,
    ),
    Claim(
        "doubly-best",
        "doubly-stochastic",
        "Fig. 2, section 5.2",
        "Our-strong is close to the best learner in both clipped violation and regret.",
        "its violation and its regret are each at most twice the best of the other learners",
        criteria.doubly_best,
    ),
    Claim(
        "doubly-flattens",
        "doubly-stochastic",
        "Fig. 2, section 5.2",
        "Clipped-OGD with beta = 1/2 violates more than A-OGD, but its violation soon stops "
        "growing.",
        "its violation is larger than the smallest of A-OGD, and grows with an exponent below "
        "0.2 over the last decade of T",
        criteria.doubly_flattens,
    ),
    Claim(
        "dispatch-violations",
        "dispatch",
        "Fig. 3b, section 5.3",
        "All earlier methods violate the constraints substantially; Clipped-OGD with the paper's "
        "parameters does not.",
        "the peak violation of every earlier method exceeds a tenth of the cap; that of "
        "Clipped-OGD stays below a twentieth, and its cost on the last day is at most twice the "
        "best",
        lambda data: criteria.dispatch_violations(data, "clipped"),
    ),
    Claim(
        "dispatch-violations-scaled",
        "dispatch",
        "Fig. 3b, section 5.3",
        "All earlier methods violate the constraints substantially; Clipped-OGD with the "
        "scale-aware rule does not.",
        "the peak violation of every earlier method exceeds a tenth of the cap; that of "
        "Clipped-OGD stays below a twentieth, and its cost on the last day is at most twice the "
        "best",
        lambda data: criteria.dispatch_violations(data, "scaled"),
    ),
    Claim(
        "dispatch-cost",
        "dispatch",
        "Fig. 3c, section 5.3",
        "The average cost of Clipped-OGD with the paper's parameters is very close to that of "
        "the best fixed strategy.",
        "the mean cost is within 10 % of the best (in part: within 25 %, or within 10 % on the "
        "last day)",
        lambda data: criteria.dispatch_cost(data, "clipped"),
    ),
    Claim(
        "dispatch-cost-scaled",
        "dispatch",
        "Fig. 3c, section 5.3",
        "The average cost of Clipped-OGD with the scale-aware rule is very close to that of the "
        "best fixed strategy.",
        "the mean cost is within 10 % of the best (in part: within 25 %, or within 10 % on the "
        "last day)",
        lambda data: criteria.dispatch_cost(data, "scaled"),
    ),
    Claim(
        "theorem-1-regret",
        "theory",
        "Theorem 1",
        "With the paper's step, regret is O(sqrt T).",
        f"on random and on worst-case losses, {_RATE}",
        theory_criteria.theorem_1_regret,
    ),
    Claim(
        "proposition-3-regret",
        "theory",
        "Proposition 3",
        "With the paper's step, regret is O(T^max(beta, 1-beta)).",
        f"on random and on worst-case losses and for every beta, {_RATE}",
        theory_criteria.proposition_3_regret,
    ),
    Claim(
        "propositions-2-3",
        "theory",
        "Propositions 2 and 3",
        "With the paper's step, the clipped violation is O(T^(1-beta/2)), which is O(T^(3/4)) "
        "for beta = 1/2.",
        f"on random and on worst-case losses and for every beta, {_RATE}",
        theory_criteria.propositions_2_3,
    ),
    Claim(
        "theorem-1-squares",
        "theory",
        "Theorem 1, Proposition 3",
        "The squared violation is O(T^(1-beta)).",
        f"for every beta, step and problem, {_RATE}",
        theory_criteria.theorem_1_squares,
    ),
    Claim(
        "lemma-1",
        "theory",
        "Lemma 1",
        "The largest violation in a single round decreases with T, as T^(-1/6) for beta = 1/2.",
        f"for every beta, with -beta/3 as the proven exponent, {_RATE}",
        theory_criteria.lemma_1,
    ),
    Claim(
        "theorem-2-log",
        "theory",
        "Theorem 2",
        "For strongly convex losses, regret is O(log T) and violation is O(sqrt(T log T)).",
        "all values are below an explicit bound that is not trivial, c + b log T fits regret as "
        "well as any c + b T^a with a > 0.1, and the exponent of the violation at the longest "
        "horizons is at most 0.52",
        theory_criteria.theorem_2_log,
    ),
    Claim(
        "proposition-1",
        "theory",
        "Proposition 1",
        "With log-sum-exp aggregation the bound on the violation per round also holds for "
        "several constraints.",
        "some decision is feasible for the aggregate as printed; with the largest temperature "
        "that Lemma 1 allows, of the order T^(1/6), the peak violation decreases at least as "
        "fast as T^(-1/6) below its bound, and regret stays O(sqrt T)",
        theory_criteria.proposition_1,
    ),
    Claim(
        "propositions-4-5",
        "theory",
        "Propositions 4 and 5",
        "With the clipped Lagrangian, the rates of the earlier methods also hold for the clipped "
        "violation.",
        f"for every beta, {_RATE}",
        theory_criteria.propositions_4_5,
    ),
    Claim(
        "propositions-4-5-regret",
        "theory",
        "Propositions 4 and 5",
        "With the clipped Lagrangian, regret is O(sqrt T) and O(T^max(beta, 1-beta)) as for the "
        "earlier methods.",
        f"on random and on worst-case losses and for every beta, {_RATE}",
        theory_criteria.propositions_4_5_regret,
    ),
    Claim(
        "squared-constraints",
        "theory",
        "remark after Proposition 5",
        "Applied to squared constraints, the earlier methods have a squared violation of "
        "O(T^(3/4)) and O(T^(1-beta/2)), which is worse than that of Clipped-OGD.",
        f"for every beta, {_RATE}, and the squared violation is larger than with Clipped-OGD",
        theory_criteria.squared_constraints,
    ),
)

"""The paper's claims, each with a criterion that stored results meet or do not. Verdicts are computed, never typed.

A claim is judged on the main dataset of its experiment and again on every other choice of what the paper leaves open;
it survives if none of them makes it worse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import criteria
from .criteria import FAILS, HOLDS, PART, Judgement

if TYPE_CHECKING:
    import xarray

__all__ = ["CLAIMS", "FAILS", "HOLDS", "PART", "Claim", "Judgement", "judge"]

_ORDER = (FAILS, PART, HOLDS)


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


CLAIMS = (
    Claim(
        "toy-follows",
        "toy",
        "Fig. 1, section 5.1",
        "Clipped-OGD follows the constraint's boundary tightly until it reaches the optimum.",
        "after touching the boundary, |g| <= 0.05 in 95 % of rounds, never above; the end within 0.1 of the optimum",
        criteria.toy_follows,
    ),
    Claim(
        "toy-oscillates",
        "toy",
        "Fig. 1, section 5.1",
        "OGD oscillates widely around the boundary.",
        "at least 10 crossings, and swings beyond +-0.1",
        criteria.toy_oscillates,
    ),
    Claim(
        "toy-violates",
        "toy",
        "Fig. 1, section 5.1",
        "A-OGD violates the constraint most of the time.",
        "g > 0 in over half of the rounds",
        criteria.toy_violates,
    ),
    Claim(
        "toy-outer-ball",
        "toy",
        "Fig. 1, caption",
        "A-OGD closely follows the boundary of the outer ball.",
        "on the ball with g > 0.1 in half of the rounds (in part: a tenth)",
        criteria.toy_outer_ball,
    ),
    Claim(
        "toy-cancels",
        "toy",
        "Appendix A",
        "OGD's clipped violation is very large while its signed one is very small.",
        "signed at most a third of clipped, clipped above Clipped-OGD's",
        criteria.toy_cancels,
    ),
    Claim(
        "toy-buys",
        "toy",
        "Appendix A",
        "A-OGD's violation buys it lower regret.",
        "lowest regret, and more violation than Clipped-OGD with the same beta",
        criteria.toy_buys,
    ),
    Claim(
        "doubly-best",
        "doubly-stochastic",
        "Fig. 2, section 5.2",
        "Our-strong is around the best in both clipped violation and regret.",
        "at most a tenth of the way from the best to the worst of the others",
        criteria.doubly_best,
    ),
    Claim(
        "doubly-flattens",
        "doubly-stochastic",
        "Fig. 2, section 5.2",
        "Clipped-OGD with beta = 1/2 violates more than A-OGD, but its violation flattens quickly.",
        "larger than A-OGD's smallest, growth exponent over the last decade below 0.2",
        criteria.doubly_flattens,
    ),
    Claim(
        "dispatch-violations",
        "dispatch",
        "Fig. 3b, section 5.3",
        "All earlier methods violate substantially, Clipped-OGD (the paper's parameters) does not.",
        "peaks over a tenth of the cap against under a twentieth, at no more than twice the best cost in the end",
        lambda data: criteria.dispatch_violations(data, "clipped"),
    ),
    Claim(
        "dispatch-violations-scaled",
        "dispatch",
        "Fig. 3b, section 5.3",
        "All earlier methods violate substantially, Clipped-OGD with the scale-aware rule does not.",
        "peaks over a tenth of the cap against under a twentieth, at no more than twice the best cost in the end",
        lambda data: criteria.dispatch_violations(data, "scaled"),
    ),
    Claim(
        "dispatch-cost",
        "dispatch",
        "Fig. 3c, section 5.3",
        "Clipped-OGD's average cost (the paper's parameters) is very close to the best fixed strategy.",
        "within 10 % (in part: within 25 %, or within 10 % on the last day)",
        lambda data: criteria.dispatch_cost(data, "clipped"),
    ),
    Claim(
        "dispatch-cost-scaled",
        "dispatch",
        "Fig. 3c, section 5.3",
        "Clipped-OGD's average cost with the scale-aware rule is very close to the best fixed strategy.",
        "within 10 % (in part: within 25 %, or within 10 % on the last day)",
        lambda data: criteria.dispatch_cost(data, "scaled"),
    ),
    Claim(
        "lemma-1",
        "theory",
        "Lemma 1",
        "The violation of a single round shrinks with T, like T^(-1/6) at beta = 1/2.",
        "exponent of the peak at most -beta/3, all peaks below the explicit bound",
        criteria.lemma_1,
    ),
    Claim(
        "theorem-1-squares",
        "theory",
        "Theorem 1, Proposition 3",
        "The squared violation obeys O(T^(1-beta)).",
        "growth exponent at most 1 - beta, all values below the explicit bound",
        criteria.theorem_1_squares,
    ),
    Claim(
        "theorem-2-log",
        "theory",
        "Theorem 2",
        "With strongly convex losses regret is O(log T) and violation O(sqrt(T log T)).",
        "all values below the explicit bound, violation's exponent at most 0.55",
        criteria.theorem_2_log,
    ),
    Claim(
        "proposition-1",
        "theory",
        "Proposition 1",
        "Log-sum-exp aggregation keeps the per-round bound for several constraints.",
        "the aggregate leaves a feasible decision, and the peak falls like T^(-1/6)",
        criteria.proposition_1,
    ),
    Claim(
        "propositions-4-5",
        "theory",
        "Propositions 4 and 5",
        "With the clipped Lagrangian the earlier methods keep their rates for the clipped sum.",
        "growth exponents within the propositions', values below the explicit bounds",
        criteria.propositions_4_5,
    ),
)

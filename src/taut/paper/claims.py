"""The verdicts on the paper's claims, computed from stored results by the criterion of each claim.

A claim is judged on the main dataset of its experiment, and again on the datasets of all other
choices of what the paper does not specify. It survives if every other choice gives the same
verdict; without other choices that is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import criteria, theory_criteria

if TYPE_CHECKING:
    import xarray


CLAIMS = (*criteria.CLAIMS, *theory_criteria.CLAIMS)


def judge(results: Mapping[str, Sequence[xarray.Dataset]]) -> list[dict[str, Any]]:
    """Judge every claim whose experiment is in `results` and return one row per claim.

    `results` maps an experiment to its datasets, the main choice first.
    """
    rows = []
    for claim in CLAIMS:
        if claim.experiment not in results:
            continue
        main, *others = results[claim.experiment]
        verdict = claim.judge(main)
        choices = [
            {"choice": other.attrs["choice"], "verdict": claim.judge(other).verdict}
            for other in others
        ]
        same = all(choice["verdict"] == verdict.verdict for choice in choices)
        rows.append(
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
                "survives": same if choices else None,
            }
        )
    return rows

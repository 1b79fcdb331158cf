"""What one round of each method costs, on the same problem: what a learner costs beyond Clipped-OGD
is its own arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

import taut

from . import cases, compiled
from .cases import Case
from .timing import interleaved

WITHOUT_MEMORY = "half-space, no memory"
METHODS = (
    "clipped-ogd",
    "clipped-ogd-doubling",
    WITHOUT_MEMORY,
    "half-space",
    "half-space-horizon",
    "half-space-margin",
    "averaged",
    "drift-plus-penalty",
    "yu-neely",
    "surrogate",
    "surrogate-anytime",
    "no-slater",
    "bounded-game",
    "recoo",
    "step-experts",
)
"""Names in the registry; those that a problem does not suit are left out."""
SEEDS = 10


def measure(repeats: int) -> dict[str, dict[str, Any]]:
    """Return nanoseconds per round and seed of each method, by problem."""
    return {
        case.name: _rows(case, repeats) for case in (cases.toy(), cases.logistic(100, 1, 10_000))
    }


def _rows(case: Case, repeats: int) -> dict[str, Any]:
    data = case.data(SEEDS)
    plays, operations = {}, {}
    for name, learner in _learners(case).items():

        def play(learner: taut.Learner = learner) -> Any:
            return taut.simulate(learner, case.problem, data, seeds=SEEDS, x1=case.start)

        plays[name] = play
        text = compiled.text_of(learner, case.problem, data[0, :3], x1=case.start)
        operations[name] = sum(len(compiled.operations(body)) for body in compiled.bodies(text))
    took = interleaved(plays, repeats)
    base = took["clipped-ogd"].median
    return {
        name: {
            **timing.per(SEEDS * case.horizon)._asdict(),
            "ratio": timing.median / base,
            "operations": operations[name],
        }
        for name, timing in took.items()
    }


def _learners(case: Case) -> dict[str, taut.Learner]:
    found: dict[str, taut.Learner] = {"clipped-ogd": case.learner}
    for name in METHODS[1:]:
        try:
            options = {"memory": 0} if name == WITHOUT_MEMORY else {}
            found[name] = taut.learner(
                name.partition(",")[0], case.problem, horizon=case.horizon, **options
            )
        except ValueError:  # a constant that this problem does not have
            continue
        finite = np.isfinite(
            taut.simulate(found[name], case.problem, case.data(1)[0, :3], x1=case.start).final
        )
        if not finite.all():
            raise SystemExit(f"{case.name}: {name} left the numbers")
    return found

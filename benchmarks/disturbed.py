"""What bad early decisions cost the default learner later, on the microgrid of `benchmarks.live`.

The learner begins in several places, and plays alone. Rows are what it costs more than from the
usual start, after some rounds, divided into fuel, battery and imbalance. In the last row it begins
as usual, but after some rounds gets the sums of squared gradients, and so the step sizes, of the
start with less power.

Run: python -m benchmarks.disturbed [--series NAME] [--json] [--page]; with --page the table of
docs/guides/advice.md is written.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import numpy as np

import taut

from . import live, page, setting
from .results import report

STARTS = {
    "usual": live.START,
    "other mix, same power": np.array([20.0, 6.0, 6.0]),
    "empty battery": np.array([12.0, 14.0, 0.0]),
    "less power": np.array([6.0, 8.0, 6.0]),
}
SETTLED = 30
"""The rounds after which step sizes are exchanged."""
TITLE = "What another start costs more than the usual one"
LOOKED_AT = (50, 200, 1000, 2880)


class Path:
    """Plays the default learner from a start; one compiled round serves all of them."""

    def __init__(self, demand: Any) -> None:
        self._demand, self._game = demand, live.problem()
        self._learner = taut.learner("half-space", self._game)
        self._round = jax.jit(lambda state, z: taut.step(self._learner, self._game, state, z))

    def played(self, start: Any, slopes: Any = None) -> tuple[Any, Any]:
        """Return the parts of the cost of each round, and what is kept of gradients after some
        rounds, where `slopes` take their place."""
        state = taut.init(self._learner, self._game, self._demand[0], x1=start)
        state = state._replace(previous=state.x)
        before, rows, kept = np.asarray(start), [], None
        for t, z in enumerate(self._demand):
            if t == SETTLED:
                kept = state.learner.slopes
                if slopes is not None:
                    state = state._replace(learner=state.learner._replace(slopes=slopes))
            state, scored = self._round(state, z)
            x = np.asarray(scored.x)
            rows.append(_parts(x, before, z))
            before = x
        return np.cumsum(rows, axis=0), kept


def _parts(x: Any, before: Any, demand: float) -> list[float]:
    power, discharged = x[:2], before[2] - x[2]
    return [
        float(np.sum(0.5 * live.COST * power**2 + live.SLOPE * power)),
        float(live.HOLDING / 2 * (x[2] - live.LEVEL) ** 2 + live.WEAR / 2 * discharged**2),
        float(live.IMBALANCE / 2 * (np.sum(power) + discharged - demand) ** 2),
    ]


def measure(series: str = "packaged", rounds: int = live.ROUNDS) -> list[dict[str, Any]]:
    """Return one row per start and number of rounds."""
    path = Path(live.series(rounds)[series])
    played = {name: path.played(start) for name, start in STARTS.items()}
    played["usual, steps of less power"] = path.played(live.START, played["less power"][1])
    usual, rows = played["usual"][0], []
    for name, (costs, _) in played.items():
        for t in LOOKED_AT:
            if t > len(costs):
                break
            more = costs[t - 1] if name == "usual" else costs[t - 1] - usual[t - 1]
            numbers = zip(("fuel", "battery", "imbalance"), more, strict=True)
            share = 100 * float(np.sum(more)) / float(np.sum(usual[t - 1]))
            rows.append(
                {
                    "start": name,
                    "rounds": t,
                    **{part: f"{value:,.0f}" for part, value in numbers},
                    "per cent of the usual cost": f"{share:.2f}",
                }
            )
    return rows


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--series", default="packaged")
    words.add_argument("--json", action="store_true")
    words.add_argument("--page", action="store_true", help="write the table into the guide")
    asked = words.parse_args()
    rows = measure(asked.series)
    report("disturbed", rows, asked.json, TITLE)
    if asked.page:
        head = page.written_by(f"disturbed --series '{asked.series}'", setting.machine())
        page.put("disturbed", f"{head}\n\n{page.table(TITLE, rows)}", live.GUIDE)


if __name__ == "__main__":
    main()

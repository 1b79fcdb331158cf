"""Targets of the core in one table: ratios of medians of five, timed alternately in one run on one
core.

Run: python -m benchmarks.core [--json]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from . import setting

if __name__ == "__main__":
    setting.one_core()

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

import taut  # noqa: E402

from . import cases, naive, native, ours  # noqa: E402
from .memory import long_simulation  # noqa: E402
from .played import difference  # noqa: E402
from .results import report  # noqa: E402
from .timing import interleaved  # noqa: E402


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    rows = [*_simulations(), _live(), *_long_simulations(), _imports()]
    report("core", rows, asked.json, "Core: ratios of medians of five, one core, one run")


def _row(what: str, value: float, limit: float, unit: str, below: bool = True) -> dict[str, Any]:
    word = "at most" if below else "at least"
    met = value <= limit if below else value >= limit
    return {
        "what": what,
        "measured": f"{value:.2f} {unit}",
        "target": f"{word} {limit:g} {unit}",
        "met": bool(met),
    }


def _simulations() -> list[dict[str, Any]]:
    rows = []
    toy, doubly = cases.toy(), cases.doubly_stochastic(10, 5000)
    plays = {
        "C": native.prepare(toy, 1, 20_000),
        "taut": ours.prepare(toy, 1, 20_000),
        "NumPy": naive.prepare(toy, 1, 20_000),
    }
    _same(plays)
    took = interleaved(plays)
    rows.append(
        _row("toy, one stream, against C", took["taut"].median / took["C"].median, 10, "x C")
    )
    rows.append(
        _row(
            "toy, one stream, against a NumPy loop",
            took["NumPy"].median / took["taut"].median,
            100,
            "x faster",
            below=False,
        )
    )
    for case, limit in ((toy, 3), (doubly, 5)):
        plays = {
            "C": native.prepare(case, 10, case.horizon),
            "taut": ours.prepare(case, 10, case.horizon),
        }
        _same(plays)
        took = interleaved(plays)
        rows.append(
            _row(
                f"{case.name}, 10 seeds, per round and seed",
                took["taut"].median / took["C"].median,
                limit,
                "x C",
            )
        )
    return rows


def _same(plays: dict[str, Any]) -> None:
    """Check that all implementations give the same results before they are timed."""
    results = {name: play() for name, play in plays.items()}
    reference = results["C"]
    for name, result in results.items():
        gap = difference(reference, result)
        if gap > 1e-9:
            raise SystemExit(f"{name} and C differ by {gap:.3g}, so they do not do the same work")


class _NumpyPlayer:
    """A NumPy implementation that checks its data and keeps the same totals as `taut.Player`."""

    def __init__(self, eta: float, sigma: float) -> None:
        self.x, self.eta, self.sigma = np.zeros(2), eta, sigma
        self.loss = self.excess = self.violation = self.squared = self.peak = 0.0

    def observe(self, c: np.ndarray[Any, Any]) -> None:
        if c.shape != (2,) or not np.all(np.isfinite(c)):
            raise ValueError("c")
        x = self.x
        g = np.abs(x).sum() - 1
        v = max(g, 0.0)
        self.loss += c @ x
        self.excess += g
        self.violation += v
        self.squared += v * v
        self.peak = max(self.peak, v)
        x = x - self.eta * c - (v / self.sigma) * np.sign(x)
        norm = np.sqrt(x @ x)
        self.x = x / norm if norm > 1 else x

    @property
    def decision(self) -> np.ndarray[Any, Any]:
        return self.x.copy()


def _live() -> dict[str, Any]:
    case = cases.toy()
    data, (eta, sigma) = case.data(1)[0][:500], case.steps
    players: dict[str, Any] = {
        "taut": taut.Player(case.learner, case.problem),
        "NumPy": _NumpyPlayer(eta, sigma),
    }

    def session(player: Any) -> Any:
        def play() -> None:
            for c in data:
                player.observe(c)
                player.decision  # noqa: B018

        return play

    took = interleaved({name: session(player) for name, player in players.items()}, floor=0.0)
    gap = float(np.abs(players["taut"].decision - players["NumPy"].decision).max())
    if gap > 1e-9:
        raise SystemExit(f"taut.Player and the NumPy step differ by {gap:.3g}")
    return _row(
        "Player.observe and decision, d=2",
        took["taut"].median / took["NumPy"].median,
        4,
        "x the NumPy step",
    )


def _long_simulations() -> list[dict[str, Any]]:
    # The median of three, measured alternately.
    pairs = [[long_simulation(n) for n in (10**6, 10**7)] for _ in range(3)]
    ratio = float(np.median([long["seconds"] / short["seconds"] for short, long in pairs]))
    memory = max(long["bytes"] for _, long in pairs) / 1e9
    return [
        _row("peak memory, T = 10,000,000, totals only", memory, 1, "GB"),
        _row("time of T = 10,000,000 against T = 1,000,000", ratio, 12, "x"),
    ]


def _imports() -> dict[str, Any]:
    found = setting.start("benchmarks.core_imports")
    return {
        "what": "import taut loads cvxpy or matplotlib",
        "measured": found.strip(),
        "target": "none",
        "met": found.strip() == "none",
    }


if __name__ == "__main__":
    sys.exit(main())

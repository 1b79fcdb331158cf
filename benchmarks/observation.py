"""What an observation of a live player costs with the default learner: microseconds of processor
time, and the functions of taut that it enters.

Run: python -m benchmarks.observation [--json]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from . import setting

if __name__ == "__main__":
    setting.one_core()

import jax

jax.config.update("jax_enable_x64", True)

import taut  # noqa: E402

from . import cases  # noqa: E402
from .cases import Case  # noqa: E402
from .results import report  # noqa: E402
from .timing import interleaved  # noqa: E402

PACKAGE = str(Path(taut.__file__).parent)
SAMPLE = 50
"""Rounds of a sample."""
REPEATS = 25
BEFORE = 20
"""Rounds that are observed before functions are counted: nothing is compiled later."""
FUNCTIONS, MICROSECONDS = 12, 78.0
"""Functions that a later observation enters at most, and what it takes at most on the toy."""


def measure(repeats: int = REPEATS) -> list[dict[str, Any]]:
    """Return one row per problem, with players timed alternately."""
    played = (cases.toy(), cases.dispatch(), cases.doubly_stochastic(10, 2000))
    sessions = {case.name: _session(case) for case in played}
    took = interleaved(
        {name: _observed(observe, SAMPLE) for name, observe in sessions.items()}, repeats, 0.0
    )
    rows = []
    for name, observe in sessions.items():
        functions, calls = entered(observe)
        rows.append(
            {
                "problem": name,
                "us": 1e6 * took[name].median / SAMPLE,
                "least": 1e6 * took[name].low / SAMPLE,
                "functions": len(functions),
                "files": len({code.co_filename for code in functions}),
                "calls": calls,
            }
        )
    return rows


def _session(case: Case) -> Callable[[], None]:
    """Return a function that observes one more round."""
    player = taut.Player(case.problem, x1=case.start)
    coming = itertools.cycle(case.data(1)[0])

    def observe() -> None:
        player.observe(next(coming))

    _observed(observe, BEFORE)()
    return observe


def _observed(observe: Callable[[], None], rounds: int) -> Callable[[], None]:
    def session() -> None:
        for _ in range(rounds):
            observe()

    return session


def entered(call: Callable[[], object]) -> tuple[set[CodeType], int]:
    """Return the functions of taut that a call enters, and how often it enters one."""
    functions: set[CodeType] = set()
    calls = 0

    def notice(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            functions.add(frame.f_code)
            calls += 1

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        call()
    finally:
        sys.setprofile(before)
    return functions, calls


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    report(
        "observation",
        measure(),
        asked.json,
        "A later observation of a live player, default learner",
    )


if __name__ == "__main__":
    main()

"""taut against its alternatives: time per round, targets, growth, first calls, threads. One core is
used unless stated. Clipped-OGD and half-space, the default learner, are each compared with loops of
the same algorithm.

Run: python -m benchmarks.speed [--quick] [--only PROBLEM] [--json] [--outside] [--page]
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from . import setting

if __name__ == "__main__":
    setting.one_core()
    setting.whole_loops()

import jax

jax.config.update("jax_enable_x64", True)

from . import (  # noqa: E402
    anatomy,
    cases,
    contenders,
    memory,
    methods,
    observation,
    ours,
    scaling,
    startup,
    targets,
)
from .results import keep  # noqa: E402
from .timing import interleaved  # noqa: E402

HUNDRED = ("toy", "dispatch", "logistic d=10 m=1")
QUICK = ("toy", "doubly stochastic 10x10", "dispatch")


def main() -> None:
    """Measure, print the results and write them to files."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true", help="print only JSON")
    words.add_argument(
        "--quick",
        action="store_true",
        help="three problems, three repetitions, no growth and no first calls",
    )
    words.add_argument("--only", help="measure only the problems whose name contains this text")
    words.add_argument(
        "--outside", action="store_true", help="install cooper and PyOL in a separate environment"
    )
    words.add_argument(
        "--page",
        action="store_true",
        help="write the results into docs/performance.md",
    )
    asked = words.parse_args()
    found = measure(asked.quick, asked.only, asked.outside)
    keep("speed", found)
    if asked.page:
        from .page import write

        write(found)
    if asked.json:
        print(json.dumps(found, indent=1))
    else:
        from .tables import show

        show(found)


def measure(quick: bool, only: str | None, install: bool) -> dict[str, Any]:
    """Run all requested measurements."""
    repeats = 3 if quick else 9
    names = [
        case.name
        for case in cases.suite()
        if (only or "") in case.name and (not quick or case.name in QUICK)
    ]
    found: dict[str, Any] = {
        "machine": setting.machine(),
        "repeats": repeats,
        "contenders": {},
        "half-space": {},
    }
    for name in names:
        print(f"  {name}", file=sys.stderr)
        case = next(
            case for case in cases.suite() if case.name == name
        )  # created again, so that its data can be freed
        rows = contenders.measure(case, repeats, name in HUNDRED)
        if not quick:
            rows["CVXPY, one projection per round"] = contenders.project(case, rows["C"]["median"])
        found["contenders"][name] = rows
        default = case.with_method("half-space")
        if default.sweeps_do:
            found["half-space"][name] = contenders.measure(default, repeats, hundred=False)
        cases.forget()
    if "toy" in names and not only:
        found["contenders"]["toy"].update(
            contenders.elsewhere(found["contenders"]["toy"]["C"]["median"], install)
        )
    if not only:
        print("  records, threads, live player", file=sys.stderr)
        found["live"] = observation.measure()
        found["records"] = _records(repeats)
        found["float32"] = _float32(repeats)
        found["threads"] = json.loads(setting.start("benchmarks.threads"))
    if not quick and not only:
        print("  profile, scaling, memory, start-up", file=sys.stderr)
        found["profile"] = anatomy.measure(repeats)
        found["methods"] = methods.measure(repeats)
        found["scaling"] = scaling.measure(repeats, quick)
        found["memory"] = memory.measure()
        found["startup"] = startup.compile_times(3)
    found["targets"] = targets.judge(found)
    return found


def _records(repeats: int) -> dict[str, Any]:
    """Measure the cost of recording: totals only, all that metrics need, and also decisions and
    multipliers."""
    found = {}
    everything = ("loss", "excess", "decisions", "multipliers")
    for case in (cases.toy(), cases.doubly_stochastic(10, 5000)):
        wanted = {"totals": (), "metrics": ("loss", "excess"), "everything": everything}
        plays = {
            name: ours.prepare(case, 10, case.horizon, record) for name, record in wanted.items()
        }
        took = interleaved(plays, repeats)
        found[case.name] = {name: took[name].per(10 * case.horizon)._asdict() for name in took}
    return found


def _float32(repeats: int) -> dict[str, Any]:
    """Measure simulations in float32 and in float64. In float32, totals use compensated
    summation."""
    found = {}
    simulations = (
        (cases.toy(), 10),
        (cases.doubly_stochastic(10, 5000), 10),
        (cases.logistic(1000, 1, 5000), 1),
    )
    for case, seeds in simulations:
        plays = {
            f"float{bits}": ours.prepare(case, seeds, case.horizon, floating=f"float{bits}")
            for bits in (64, 32)
        }
        took = interleaved(plays, repeats)
        found[f"{case.name}, {seeds} seed{'s' * (seeds > 1)}"] = {
            name: timing.per(seeds * case.horizon)._asdict() for name, timing in took.items()
        }
    return found


if __name__ == "__main__":
    main()

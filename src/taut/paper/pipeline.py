"""All steps of the reproduction: run the experiments, draw the figures, write the report, print a
summary."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from .. import arguments, storage
from ..display import counted
from ..extras import optional
from .criteria import FAILS, HOLDS, LOOKS, NOT_YET, PART
from .figures import draw_all
from .report import write_report
from .reproduce import EXPERIMENTS, Options, reproduce

ORDER = (HOLDS, PART, NOT_YET, FAILS)
"""The verdicts in the order in which they are counted."""


def run_all(
    experiment: str,
    out: Path,
    quick: bool = False,
    seeds: int = 10,
    demand: tuple[str, ...] = (),
    quiet: bool = False,
) -> dict[str, Any]:
    """Run one experiment or all, judge the claims, draw the figures and write the report.

    Arguments:
        experiment: one of `EXPERIMENTS`, or "all".
        out: folder for results, figures and report.
        quick: use fewer and shorter horizons.
        seeds: number of random sequences to average over.
        demand: files with the demand for the dispatch experiment; if empty, the packaged series is
            used.
        quiet: print nothing to standard output; progress goes to standard error.

    Returns:
        The contents of claims.json, with the path of the report under "report".
    """
    arguments.one_of("experiment", experiment, (*EXPERIMENTS, "all"))
    for package in ("cvxpy", "xarray"):
        optional(package)
    out, names = Path(out), EXPERIMENTS if experiment == "all" else (experiment,)
    try:
        result = reproduce(
            names, out, Options(seeds=seeds, quick=quick, demand=demand), progress=True
        )
        _timed(out, "figures", lambda: draw_all(out))
        report = _timed(out, "report", lambda: write_report(out))
    except KeyboardInterrupt:
        if not quiet:
            _console().print(
                f"Interrupted. Finished experiments are kept in {out}; run the same command again "
                "to continue."
            )
        raise
    if not quiet:
        _summary(result, json.loads((out / "timing.json").read_text())["total"], report)
    return {**result, "report": str(report)}


def _timed(out: Path, step: str, work: Any) -> Any:
    """Call `work` and add its time to timing.json."""
    begun = time.perf_counter()
    done = work()
    path = out / "timing.json"
    timing = json.loads(path.read_text())
    timing["steps"].append({"step": step, "seconds": time.perf_counter() - begun, "kept": False})
    timing["total"] = sum(one["seconds"] for one in timing["steps"])
    storage.write_atomically(path, json.dumps(timing, indent=1).encode())
    return done


def _summary(result: dict[str, Any], seconds: float, report: Path) -> None:
    """Print a line per claim, how many have each verdict, and the path of the report."""
    from rich.text import Text

    console, counts = _console(), Counter(one["verdict"] for one in result["claims"])
    width = max(map(len, counts), default=0)
    for one in result["claims"]:
        look = LOOKS[one["verdict"]]
        shown = (f"{look.sign} {one['verdict']:{width}}", look.style)
        line = Text.assemble(shown, f"  {one['claim']}")
        console.print(line, no_wrap=True, overflow="ellipsis")
    listed = ", ".join(f"{verdict} {counts[verdict]}" for verdict in ORDER if counts[verdict])
    console.print(f"{counted(counts.total(), 'claim')}: {listed} ({seconds:,.0f} s).")
    console.print(str(report), soft_wrap=True)


def _console() -> Any:
    from rich.console import Console

    return Console()

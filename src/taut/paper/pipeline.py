"""All steps of the reproduction: run the experiments, draw the figures, write the report, print a
summary."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from .. import arguments, files
from . import beyond
from .figures import draw_all
from .report import write_report
from .reproduce import EXPERIMENTS, Options, reproduce

__all__ = ["run_all"]

_STYLES = {
    "holds": "bold green",
    "holds in part": "bold yellow",
    "fails": "bold red",
    "not asymptotic yet": "bold blue",
}


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
    out, names = Path(out), EXPERIMENTS if experiment == "all" else (experiment,)
    try:
        result = reproduce(
            names, out, Options(seeds=seeds, quick=quick, demand=demand), progress=True
        )
        further = None
        if experiment == "all":
            further = _timed(out, "beyond the paper", lambda: beyond.compare(out, quick))
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
        _summary(result, json.loads((out / "timing.json").read_text()), report)
        if further is not None:
            _beyond(further)
    return {**result, "report": str(report)}


def _timed(out: Path, step: str, work: Any) -> Any:
    """Call `work` and add its time to timing.json."""
    begun = time.perf_counter()
    done = work()
    path = out / "timing.json"
    timing = json.loads(path.read_text())
    timing["steps"].append({"step": step, "seconds": time.perf_counter() - begun, "kept": False})
    timing["total"] = sum(one["seconds"] for one in timing["steps"])
    files.write_atomically(path, json.dumps(timing, indent=1).encode())
    return done


def _summary(result: dict[str, Any], timing: dict[str, Any], report: Path) -> None:
    """Print the verdicts, the time of each step and the path of the report."""
    from rich.table import Table

    console = _console()
    verdicts = Table(
        "id", "claim", "verdict", "same verdict under other choices", title="Claims of the paper"
    )
    for one in result["claims"]:
        style = _STYLES[one["verdict"]]
        survives = {True: "yes", False: "no", None: ""}[one["survives"]]
        verdicts.add_row(one["id"], one["claim"], f"[{style}]{one['verdict']}[/]", survives)
    console.print(verdicts)
    clock = Table("step", title="Time of each step")
    clock.add_column("seconds", justify="right")
    for name, seconds, kept in _by_experiment(timing["steps"]):
        clock.add_row(name + (" (kept)" if kept else ""), f"{seconds:.1f}")
    clock.add_row("all", f"{timing['total']:.1f}", style="bold")
    console.print(clock)
    console.print(f"report: {report}", soft_wrap=True)


def _beyond(found: dict[str, list[dict[str, Any]]]) -> None:
    """Print what the methods beyond the paper achieve on its experiments."""
    from rich.table import Table

    table = Table("experiment", "learner", title="Beyond the paper (no claim of it)")
    for name in ("mean loss", "clipped violation", "peak violation"):
        table.add_column(name, justify="right")
    for experiment, rows in found.items():
        for row in rows:
            if row["learner"] in ("best fixed decision", *beyond.FEW):
                numbers = (f"{row[name]:.4g}" for name in ("loss", "violation", "peak"))
                table.add_row(experiment, row["learner"], *numbers)
    _console().print(table)


def _by_experiment(steps: list[dict[str, Any]]) -> list[tuple[str, float, bool]]:
    """Return the time of each experiment, summed over its main results and its other choices."""
    found: dict[str, list[dict[str, Any]]] = {}
    for step in steps:
        found.setdefault(step["step"].split("/")[0], []).append(step)
    return [
        (name, sum(s["seconds"] for s in group), all(s["kept"] for s in group))
        for name, group in found.items()
    ]


def _console() -> Any:
    from rich.console import Console

    return Console()

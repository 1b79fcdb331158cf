"""All steps of the reproduction: run the experiments, judge the claims, draw the figures, write the
report, print a summary. An interrupted reproduction can be resumed.

The output folder contains `<experiment>/results.nc` for the main choice of what the paper does not
specify, `<experiment>/choice-<k>.nc` for the other choices, and `claims.json`. Figures and the
report read only these.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import arguments, storage
from ..arena import demand as _demand
from ..display import counted
from ..extras import optional
from ..progress import counting
from .claims import judge
from .criteria import LOOKS
from .experiments import dispatch, doubly_stochastic, theory, toy

if TYPE_CHECKING:
    import xarray


EXPERIMENTS: dict[str, Any] = {
    "toy": toy,
    "doubly-stochastic": doubly_stochastic,
    "dispatch": dispatch,
    "theory": theory,
}
"""The modules of the experiments, by name."""


class Horizons(NamedTuple):
    """The numbers of rounds that are played."""

    main: tuple[int, ...]
    """For the main datasets."""
    few: tuple[int, ...]
    """For the other choices."""
    theory: tuple[int, ...]
    """For the growth exponents."""


FULL = Horizons(
    (250, 500, 1000, 2000, 3000, 4500, 6500, 8000, 10_000, 13_000, 16_500, 20_000),
    (500, 2000, 8000, 20_000),
    (500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000),
)
QUICK = Horizons((250, 1000, 4000, 8000), (500, 2000, 8000), (500, 2000, 8000))

OPEN = tuple(
    dict(zip(("what", "chosen", "others"), row, strict=True))
    for row in (
        (
            "toy: radius R of the outer ball",
            "1, the smallest that contains the l1 ball",
            "1.2, sqrt(2)",
        ),
        ("toy, all learners: first decision", "the centre of the ball", ""),
        ("OGD: delta", "the smallest value that satisfies its condition", ""),
        ("OGD: D", "max |g| over the ball; the paper's max g is too small", ""),
        ("maximum of constraints: subgradient at ties", "mean of the active gradients", ""),
        ("doubly stochastic: d", "10", "5, 15"),
        ("doubly stochastic: R, G", "sqrt(d), 2 sqrt(d)", ""),
        (
            "doubly stochastic: variant of A-OGD",
            "both the convex and the strongly convex variant",
            "",
        ),
        ("dispatch: demand", "California ISO, hourly, interpolated to 5 minutes", "--demand FILE"),
        ("dispatch: scale of the demand", "mean 33, so that the emission cap is active", "30, 40"),
        ("dispatch: e_i", "0", "0.2"),
        ("dispatch: B and x_1", "ball of radius ||x_max|| around x_1 = 0", "the box of limits"),
        ("dispatch: G", "computed over the ball from the problem's coefficients", ""),
    )
)
"""What the paper does not specify, what was chosen, and which other choices were tried."""


@dataclass(frozen=True)
class Options:
    """Options of a reproduction. Stored results that were computed with other options are not
    reused."""

    seeds: int = 10
    quick: bool = False
    demand: tuple[str, ...] = ()


def reproduce(
    names: Sequence[str], folder: str | Path, options: Options | None = None, progress: bool = True
) -> dict[str, Any]:
    """Run the experiments that are not stored yet, judge every claim, and return the contents of
    claims.json.

    Results are written after an experiment has finished. An interrupted experiment is repeated;
    finished ones are kept.
    """
    folder, options = Path(folder), options or Options()
    for name in names:
        arguments.one_of("experiment", name, tuple(EXPERIMENTS))
    arguments.count("seeds", options.seeds)
    series = _demand.read(options.demand) if options.demand else None
    jobs = [(name, k) for name in names for k in range(len(EXPERIMENTS[name].CHOICES))]
    with counting(progress, len(jobs), "experiments") as counter:
        for name, k in jobs:
            path = _path(folder, name, k)
            counter.describe(f"{name}" + (f" ({EXPERIMENTS[name].CHOICES[k].label})" if k else ""))
            if not _finished(path, options):
                data = _play(name, k, options, series)
                data.attrs |= {"options": json.dumps(asdict(options)), "taut": version("taut")}
                storage.write_atomically(path, _file_of(data))
            counter.advance()
    result = summary(folder, options)
    content = json.dumps(result, indent=1, sort_keys=True)
    storage.write_atomically(folder / "claims.json", content.encode())
    return result


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
    from .figures import draw_all
    from .report import write_report

    arguments.one_of("experiment", experiment, (*EXPERIMENTS, "all"))
    for package in ("cvxpy", "xarray"):
        optional(package)
    out, names = Path(out), tuple(EXPERIMENTS) if experiment == "all" else (experiment,)
    options = Options(seeds=seeds, quick=quick, demand=demand)
    begun = time.perf_counter()
    result = reproduce(names, out, options, progress=True)
    draw_all(out)
    report = write_report(out)
    if not quiet:
        _say(result, time.perf_counter() - begun, report)
    return {**result, "report": str(report)}


def _say(result: dict[str, Any], seconds: float, report: Path) -> None:
    """Print a line per claim, how many have each verdict, and the path of the report."""
    from rich.console import Console
    from rich.text import Text

    console, counts = Console(), Counter(claim["verdict"] for claim in result["claims"])
    width = max(map(len, counts), default=0)
    for claim in result["claims"]:
        look = LOOKS[claim["verdict"]]
        shown = (f"{look.sign} {claim['verdict']:{width}}", look.style)
        line = Text.assemble(shown, f"  {claim['claim']}")
        console.print(line, no_wrap=True, overflow="ellipsis")
    listed = ", ".join(f"{verdict} {counts[verdict]}" for verdict in LOOKS if counts[verdict])
    console.print(f"{counted(counts.total(), 'claim')}: {listed} ({seconds:,.0f} s).")
    console.print(str(report), soft_wrap=True)


def _file_of(data: xarray.Dataset) -> bytes:
    """Return the content of a netCDF file. Not all versions of xarray can write HDF5 to memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.nc"
        data.to_netcdf(path, engine="h5netcdf")
        return path.read_bytes()


def summary(folder: str | Path, options: Options) -> dict[str, Any]:
    """Judge every claim whose results are in the folder. The outcome depends on the stored results
    only."""
    folder = Path(folder)
    present = [name for name in EXPERIMENTS if _path(folder, name, 0).exists()]
    results = {name: load(folder, name) for name in present}
    libraries = ("taut", "jax", "numpy", "cvxpy", "clarabel", "xarray")
    return {
        "claims": judge(results),
        "open": list(OPEN),
        "options": asdict(options),
        "versions": {
            "python": sys.version.split()[0],
            **{name: version(name) for name in libraries},
        },
    }


def load(folder: str | Path, name: str) -> list[xarray.Dataset]:
    """Return the stored datasets of an experiment, the main choice first."""
    xr = optional("xarray")

    paths = [_path(Path(folder), name, k) for k in range(len(EXPERIMENTS[name].CHOICES))]
    return [xr.load_dataset(path, engine="h5netcdf") for path in paths if path.exists()]


def _path(folder: Path, name: str, k: int) -> Path:
    return folder / name / ("results.nc" if k == 0 else f"choice-{k}.nc")


def _play(name: str, k: int, options: Options, series: _demand.Demand | None) -> xarray.Dataset:
    grids = QUICK if options.quick else FULL
    horizons = grids.main if k == 0 else grids.few
    if name == "toy":
        return toy.play(toy.CHOICES[k], horizons, options.seeds)
    if name == "doubly-stochastic":
        # The other sizes are used for the verdicts only; two sequences are enough for that.
        seeds = options.seeds if k == 0 else min(2, options.seeds)
        return doubly_stochastic.play(doubly_stochastic.CHOICES[k], horizons, seeds)
    if name == "dispatch":
        return dispatch.play(dispatch.CHOICES[k], series)
    return theory.play(grids.theory, options.seeds)


def _finished(path: Path, options: Options) -> bool:
    """Return True if the file exists and was computed with these options and this version."""
    if not path.exists():
        return False
    xr = optional("xarray")

    try:
        with xr.open_dataset(path, engine="h5netcdf") as data:
            made = json.loads(data.attrs["options"])
            return bool(
                made == json.loads(json.dumps(asdict(options)))
                and data.attrs["taut"] == version("taut")
            )
    except (OSError, KeyError, ValueError):
        return False

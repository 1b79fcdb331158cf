"""What each pass of `taut.play.passes` gains: simulations and players with all passes, with none,
and with all but one.

A cell is a problem with a number of seeds and a learner. In each cell the variants are timed
alternately, by processor time, and the shortest of many short samples counts. Two times are
measured: that of the compiled chunk alone, and that of the whole call of `taut.simulate`. A gain is
the time without a pass divided by the time with all of them. All passes together are measured
twice, as two programs; by how much these two differ is the noise of a cell.

A pass earns its place if it gains at least 1.2 times somewhere, and loses more than 5 % and the
noise nowhere.

Run: python -m benchmarks.passes [--quick] [--only TEXT] [--repeats N] [--json] [--page]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import setting

if __name__ == "__main__":
    setting.one_core()

import jax

jax.config.update("jax_enable_x64", True)

import taut  # noqa: E402
from taut.play.passes import PASSES, suitable  # noqa: E402
from taut.problem.feasibility import check_feasible  # noqa: E402

from . import cases  # noqa: E402
from .cases import Case  # noqa: E402
from .compiled import Chunk, chunk_of  # noqa: E402
from .results import keep  # noqa: E402
from .sections import Section  # noqa: E402
from .timing import interleaved  # noqa: E402

GAIN, LOSS = 1.2, 0.95
"""A pass gains at least the first somewhere, and nowhere less than the second."""
REPEATS = 25
FLOOR = 0.002
"""Seconds that a sample takes at least: short, so that some samples are not disturbed."""
COMPILATIONS = 3
PROBLEMS: dict[str, Callable[[], Case]] = {
    "toy": lambda: cases.toy(10_000),
    "doubly stochastic 10x10": lambda: cases.doubly_stochastic(10, 2000),
    "dispatch": lambda: cases.dispatch(5000),
    "logistic d=10 m=1": lambda: cases.logistic(10, 1, 5000),
    "logistic d=100 m=1": lambda: cases.logistic(100, 1, 2000),
    "logistic d=1000 m=1": lambda: cases.logistic(1000, 1, 500),
    "logistic d=100 m=20": lambda: cases.logistic(100, 20, 2000),
    "polyhedron d=100 m=1000": lambda: cases.polyhedron(100, 1000, 200),
}
LIVE = ("toy", "doubly stochastic 10x10")
"""Problems that are also played by a live player."""
QUICK = ("toy", "doubly stochastic 10x10")
OBSERVED = 20
"""Rounds of a sample of a live player."""
NAMES = tuple(each.name for each in PASSES)
ALL, AGAIN, NONE = "all", "all, again", "none"
VARIANTS: dict[str, tuple[str, ...]] = {
    ALL: NAMES,
    AGAIN: NAMES,
    NONE: (),
    **{name: tuple(other for other in NAMES if other != name) for name in NAMES},
}
"""Name of a variant -> the passes that are switched on. A variant that is called after a pass has
all the others."""
KINDS = ("chunk", "call")


class Cell(NamedTuple):
    """What is played in all variants."""

    problem: str
    learner: str
    seeds: int
    """0 for a live player."""

    @property
    def name(self) -> str:
        """What is played, as shown in tables."""
        seeds = {0: "a live player", 1: "one seed"}.get(self.seeds, f"{self.seeds} seeds")
        return f"{self.problem}, {seeds}"


def cells(quick: bool = False, only: str = "") -> Iterator[Cell]:
    """Yield the cells in the order of the tables."""
    for learner, problem in itertools.product(("clipped-ogd", "half-space"), PROBLEMS):
        for seeds in (1, 10, *((0,) if problem in LIVE else ())):
            cell = Cell(problem, learner, seeds)
            if only in f"{cell.name}, {learner}" and (not quick or problem in QUICK):
                yield cell


class Variant(NamedTuple):
    """A cell with some of the passes: what is timed, and what compiling took."""

    chunk: Chunk | None
    """None for a live player, which has no chunks."""
    call: Callable[[], object]
    suitable: frozenset[str]
    """Names of the passes that suit it, whether they are switched on or not."""
    compiled_in: float
    """Seconds of processor time."""
    rounds: dict[str, int]
    """How many rounds of all seeds a chunk and a call play."""


def variant(cell: Cell, names: tuple[str, ...]) -> Variant:
    """Compile a cell with these passes. Its problem is new, so that nothing was compiled before."""
    case = PROBLEMS[cell.problem]()
    check_feasible(case.problem)
    learner = case.with_method(cell.learner).learner
    return (_simulated if cell.seeds else _live)(cell, case, learner, names)


def _simulated(cell: Cell, case: Case, learner: Any, names: tuple[str, ...]) -> Variant:
    data = case.placed(cell.seeds, case.horizon)
    options = {"x1": case.start} | ({"seeds": cell.seeds} if cell.seeds > 1 else {})
    stream = data if cell.seeds > 1 else data[0]

    def call() -> object:
        with taut.engine.passes(*names):
            return taut.simulate(learner, case.problem, stream, **options)

    with taut.engine.passes(*names):
        began = time.process_time()
        chunk = chunk_of(learner, case.problem, stream, **options)
        took = time.process_time() - began
    rounds = chunk.rounds
    return Variant(
        chunk=chunk,
        call=call,
        suitable=_suitable(case),
        compiled_in=took,
        rounds={"chunk": cell.seeds * rounds, "call": cell.seeds * case.horizon},
    )


def _live(cell: Cell, case: Case, learner: Any, names: tuple[str, ...]) -> Variant:
    data = case.data(1)[0]
    with taut.engine.passes(*names):
        player = taut.Player(learner, case.problem, x1=case.start)
        began = time.process_time()
        player.observe(data[0])
        took = time.process_time() - began
    coming = itertools.cycle(data[1:])

    def call() -> object:
        for _ in range(OBSERVED):
            player.observe(next(coming))
        return player

    applied = _suitable(case)
    return Variant(None, call, applied, took, {"call": OBSERVED})


def _suitable(case: Case) -> frozenset[str]:
    size = math.prod(case.problem.domain.shape)
    with taut.engine.passes(*NAMES):
        return frozenset(each.name for each in suitable(size))


def measure(cell: Cell, repeats: int = REPEATS, compilations: int = COMPILATIONS) -> dict[str, Any]:
    """Return the times of all variants of a cell, with what can be said of each pass."""
    variant(cell, NAMES)  # the first compilation of a process, and of a kind, takes longer
    made = [
        {name: variant(cell, names) for name, names in VARIANTS.items()}
        for _ in range(compilations)
    ]
    last = made[-1]
    seconds: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        calls = {
            name: each.call if kind == "call" else each.chunk.play
            for name, each in last.items()
            if kind == "call" or each.chunk is not None
        }
        if calls:
            took = interleaved(calls, repeats, FLOOR)
            seconds[kind] = {
                name: timing.low / last[name].rounds[kind] for name, timing in took.items()
            }
    cases.forget()
    compiled_in = {name: min(each[name].compiled_in for each in made) for name in VARIANTS}
    return {
        **cell._asdict(),
        "name": cell.name,
        "seconds": seconds,
        "compiled in": compiled_in,
        "applied": [name for name in NAMES if _applied(last, name)],
        **judged(seconds, compiled_in),
    }


def _applied(variants: dict[str, Variant], name: str) -> bool:
    """Return whether a pass changes the program. Compiler options do not show in its text."""
    if name not in variants[ALL].suitable:
        return False
    chunk, other = variants[ALL].chunk, variants[name].chunk
    if chunk is None or other is None or name == "options":
        return True
    return chunk.text != other.text


def judged(seconds: dict[str, dict[str, float]], compiled_in: dict[str, float]) -> dict[str, Any]:
    """Return the noise of a cell, and what all passes, and each of them, gain in it."""
    gains: dict[str, dict[str, float]] = {}
    noise = {}
    for kind, times in seconds.items():
        base = min(times[ALL], times[AGAIN])
        noise[kind] = max(times[ALL], times[AGAIN]) / base - 1
        gains[kind] = {name: times[name] / base for name in (NONE, *NAMES)}
    gains["compiled in"] = {
        name: compiled_in[name] / min(compiled_in[ALL], compiled_in[AGAIN])
        for name in (NONE, *NAMES)
    }
    return {"noise": noise, "gains": gains}


def verdicts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each pass where it gains most and least, and whether it earns its place."""
    return [_verdict(rows, name) for name in NAMES]


def _verdict(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    measured = [
        (row["gains"][kind][name], row["noise"][kind], f"{row['name']}, {row['learner']}, {kind}")
        for row in rows
        if name in row["applied"]
        for kind in row["seconds"]
    ]
    if not measured:
        return {"pass": name, "best": 1.0, "worst": 1.0, "where": ("", ""), "earns": False}
    best = max(measured)
    # The cell in which the loss exceeds the noise by most.
    worst = min(measured, key=lambda one: one[0] + one[1])
    return {
        "pass": name,
        "best": best[0],
        "worst": worst[0],
        "noise there": worst[1],
        "where": (best[2], worst[2]),
        "first calls": statistics.median(
            row["gains"]["compiled in"][name] for row in rows if name in row["applied"]
        ),
        "earns": best[0] >= GAIN and worst[0] + worst[1] >= LOSS,
    }


def sections(found: dict[str, Any]) -> Iterator[Section]:
    """Yield the tables: one per learner, and what follows for each pass."""
    rows = found["rows"]
    for learner in dict.fromkeys(row["learner"] for row in rows):
        mine = [row for row in rows if row["learner"] == learner]
        yield Section(
            f"What passes gain, {learner}",
            ["", "ns", "noise", "all passes", *NAMES],
            [
                [
                    row["name"],
                    " / ".join(f"{1e9 * times[ALL]:,.0f}" for times in row["seconds"].values()),
                    " / ".join(f"{noise:.0%}" for noise in row["noise"].values()),
                    _shown(row, NONE),
                    *(_shown(row, name) if name in row["applied"] else "-" for name in NAMES),
                ]
                for row in mine
            ],
            "Nanoseconds per round and seed, noise, and the gain by all passes and by each of them:"
            " of the compiled chunk / of the whole call; a live player has calls only. "
            "'-' where a pass changes nothing.",
        )
        yield Section(
            f"First calls, {learner}",
            ["", "seconds", "without passes", *(f"without {name}" for name in NAMES)],
            [
                [
                    row["name"],
                    *(f"{row['compiled in'][name]:.2f}" for name in (ALL, NONE, *NAMES)),
                ]
                for row in mine
            ],
            "Seconds of processor time to trace and compile, the least of several.",
        )
    yield Section(
        "Which passes earn their place",
        ["pass", "gains at most", "where", "gains at least", "where", "first calls", "earns"],
        [
            [
                row["pass"],
                f"{row['best']:.2f}",
                row["where"][0],
                f"{row['worst']:.2f} (noise {row.get('noise there', 0):.0%})",
                row["where"][1],
                f"{row.get('first calls', 1):.2f}",
                "yes" if row["earns"] else "NO",
            ]
            for row in found["passes"]
        ],
        f"A pass earns its place if it gains {GAIN} times somewhere and less than {LOSS} nowhere, "
        "within the noise. First calls: by what factor they take longer without the pass, median.",
    )


def _shown(row: dict[str, Any], name: str) -> str:
    return " / ".join(f"{row['gains'][kind][name]:.2f}" for kind in row["seconds"])


def main() -> None:
    """Measure, print the tables and write them to files."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--quick", action="store_true", help="two problems, few samples")
    words.add_argument("--only", default="", help="cells whose name contains this text")
    words.add_argument("--repeats", type=int, help=f"samples per variant, {REPEATS} by default")
    words.add_argument("--json", action="store_true", help="print only JSON")
    words.add_argument(
        "--page", action="store_true", help="write the tables into docs/performance.md"
    )
    asked = words.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)  # compilations are timed
    repeats = asked.repeats or (5 if asked.quick else REPEATS)
    rows = []
    for cell in cells(asked.quick, asked.only):
        print(f"  {cell.name}, {cell.learner}", file=sys.stderr)
        rows.append(measure(cell, repeats, 1 if asked.quick else COMPILATIONS))
    if not rows:
        raise SystemExit(f"--only: no cell has {asked.only!r} in its name")
    found = {
        "machine": setting.machine(),
        "repeats": repeats,
        "rows": rows,
        "passes": verdicts(rows),
    }
    keep("passes", found)
    if asked.page:
        from .page import markdown, put, written_by

        tables = [written_by("passes", found["machine"]), *map(markdown, sections(found))]
        put("passes", "\n\n".join(tables))
    if asked.json:
        print(json.dumps(found, indent=1))
    else:
        from .tables import print_sections

        print_sections(sections(found))


if __name__ == "__main__":
    main()

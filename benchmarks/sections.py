"""The results of the suite as sections with tables of text. `tables` prints them, `page` writes
them to the docs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

ROWS = (
    "C",
    "C, 10 seeds",
    "taut, one stream",
    "taut, 10 seeds",
    "taut, 100 seeds",
    "taut, one stream, chunk = horizon",
    "taut, 10 seeds, chunk = horizon",
    "Numba",
    "optax in a scan",
    "optax in a scan, 10 seeds",
    "NumPy",
    "NumPy, 10 seeds in one array",
    "NumPy, 100 seeds in one array",
    "CVXPY, one projection per round",
    "cooper",
    "PyOL",
)


class Section(NamedTuple):
    """A table with a title and a note below it."""

    title: str
    head: list[str]
    rows: list[list[str]]
    note: str = ""


def sections(found: dict[str, Any]) -> Iterator[Section]:
    """Yield the sections for which the run has results; a quick run has fewer."""
    makers = {
        "targets": _targets,
        "contenders": partial(_contenders, title="Nanoseconds per round, Clipped-OGD"),
        "half-space": partial(
            _contenders, title="Nanoseconds per round, half-space (the default learner)"
        ),
        "profile": _profile,
        "live": _live,
        "methods": _methods,
        "threads": _threads,
        "records": _records,
        "float32": _float32,
        "memory": _memory,
        "scaling": _scaling,
        "startup": _startup,
    }
    for name, make in makers.items():
        if name in found:
            yield make(found[name])


def _targets(targets: list[dict[str, Any]]) -> Section:
    rows = []
    for row in targets:
        wanted = f"{'at most' if row['below'] else 'at least'} {row['limit']:g}"
        rows.append(
            [
                row["what"],
                f"{row['value']:.2f} {row['unit']}",
                wanted,
                "yes" if row["met"] else "NO",
            ]
        )
    return Section("Targets", ["what", "measured", "target", "met"], rows)


def _contenders(contenders: dict[str, Any], title: str) -> Section:
    rows = []
    for name in ROWS:
        found = [table.get(name, {}) for table in contenders.values()]
        if any("median" in row for row in found):
            rows.append([name, *(_against_c(row) for row in found)])
    skipped = {
        name: row["skipped"]
        for rows in contenders.values()
        for name, row in rows.items()
        if "skipped" in row
    }
    note = (
        "Each cell shows the median, half the range of the samples in percent, and the ratio to "
        "C. One stream is "
    )
    note += "compared with one stream of C, several seeds with 10 seeds of C."
    note += "".join(f" {name} was skipped: {why}." for name, why in skipped.items())
    return Section(title, ["", *contenders], rows, note)


def _against_c(row: dict[str, Any]) -> str:
    if "median" not in row:
        return ""
    spread = 50 * (row["high"] - row["low"]) / row["median"]
    return f"{_short(row['median'])} +-{spread:.0f}% ({_short(row['ratio'])}x)"


def _profile(profile: list[dict[str, Any]]) -> Section:
    head = [
        "problem",
        "seeds",
        "one call with one round, us",
        "each further round, ns",
        "ratio to C",
        "ratio to optax",
    ]
    head += ["operations per round"]
    rows = []
    for row in profile:
        times = [
            f"{1e6 * row['call']:.0f}",
            _short(1e9 * row["round"]),
            f"{row['ratio']:.2f}",
            f"{row['optax']:.2f}",
        ]
        rows.append([row["problem"], str(row["seeds"]), *times, str(row["operations"])])
    return Section("Where the time goes", head, rows)


def _live(live: list[dict[str, Any]]) -> Section:
    rows = [
        [
            row["problem"],
            f"{row['us']:.0f}",
            f"{row['least']:.0f}",
            str(row["functions"]),
            str(row["files"]),
        ]
        for row in live
    ]
    return Section(
        "Player.observe, default learner",
        ["problem", "us of processor time", "least", "functions of taut entered", "files"],
        rows,
        "A later observation: nothing is compiled any more.",
    )


def _methods(methods: dict[str, Any]) -> Section:
    names = list(dict.fromkeys(name for table in methods.values() for name in table))
    rows = []
    for name in names:
        found = [table.get(name) for table in methods.values()]
        rows.append(
            [
                name,
                *(
                    ""
                    if row is None
                    else f"{_short(row['median'])} ({row['ratio']:.2f}x, {row['operations']})"
                    for row in found
                ),
            ]
        )
    note = (
        "10 seeds. Each cell shows nanoseconds per round and seed, the ratio to Clipped-OGD, and "
        "the operations per round in "
    )
    note += (
        "the compiled code of one stream, those of a loop inside a round counted once. "
        "Half-space learners keep 16 cuts of d "
    )
    note += (
        "numbers and pass over them three times per round; their seeds are played one after the "
        "other."
    )
    return Section("What a method costs", ["method", *methods], rows, note)


def _threads(threads: dict[str, Any]) -> Section:
    rows = [
        [name, f"{row['faster']:.2f}x", f"{row['C faster']:.2f}x"] for name, row in threads.items()
    ]
    return Section(
        "Two cores", ["speed-up of 20 runs by a second core", "taut", "hand-written C"], rows
    )


def _records(records: dict[str, Any]) -> Section:
    head = [
        "10 seeds, ns per round",
        "totals only",
        "all metrics",
        "all metrics, decisions and multipliers",
    ]
    return Section(
        "Cost of recording", head, _medians(records, ("totals", "metrics", "everything"))
    )


def _float32(found: dict[str, Any]) -> Section:
    return Section(
        "float32", ["ns per round", "float64", "float32"], _medians(found, ("float64", "float32"))
    )


def _medians(found: dict[str, Any], columns: tuple[str, ...]) -> list[list[str]]:
    return [
        [name, *(_short(row[column]["median"]) for column in columns)]
        for name, row in found.items()
    ]


def _memory(memory: list[dict[str, Any]]) -> Section:
    head = ["rounds of the toy problem", "recorded", "seconds", "peak memory of the process, MB"]
    rows = []
    for row in memory:
        rows.append(
            [
                f"{row['rounds']:,}",
                row["recorded"],
                f"{row['seconds']:.2f}",
                f"{row['bytes'] / 1e6:.0f}",
            ]
        )
    return Section("Memory", head, rows)


def _scaling(scaling: dict[str, Any]) -> Section:
    rows = []
    for row in scaling.values():
        sizes = f"{row['sizes'][0]:,} to {row['sizes'][-1]:,}"
        rows.append(
            [row["what"], sizes, *(f"{row['exponents'][name]:.2f}" for name in ("taut", "C"))]
        )
    return Section(
        "Growth of the time", ["varied", "sizes", "exponent of taut", "exponent of C"], rows
    )


def _startup(startup: dict[str, Any]) -> Section:
    rows = [
        [name, f"{row['compile']:.2f}", f"{row['from the cache']:.2f}"]
        for name, row in startup.items()
    ]
    return Section(
        "First calls",
        ["processor time", "first process, s", "second process with the cache, s"],
        rows,
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"

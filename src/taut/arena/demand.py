"""Power demand at five-minute steps, from the packaged series, ISO-NE reports or CSV files.

The reader repairs nothing. Rows must follow each other in time at steps of 5, 15, 30 or 60 minutes.
A gap, a repeated time, a change of the clock or a value in another unit is an error that names the
file and the line. Coarser steps are interpolated linearly, and the source says so.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from ..arguments import positive

STEP, HOUR = 300, 3600  # seconds in a round, and in an hour
STEPS = {300: "five-minute", 900: "15-minute", 1800: "30-minute", 3600: "hourly"}
FORMATS = "YYYY-MM-DD HH:MM[:SS] or MM/DD/YYYY HH:MM[:SS]"
EPOCH = datetime(1970, 1, 1)

Cells = list[tuple[str, list[str]]]
"""("file line n", the cells of that row)"""
Rows = list[tuple[str, str, str]]
"""("file line n", time, MW)"""


@dataclass(frozen=True, eq=False)
class Demand:
    """A demand series at five-minute steps.

    Arguments:
        values: demand in MW, one float64 value per step.
        times: local clock time at the start of each step, datetime64[s].
        source: one line that describes the series and says whether it is interpolated.
    """

    values: np.ndarray
    times: np.ndarray
    source: str

    @property
    def elapsed(self) -> np.ndarray:
        """Hours since the first step."""
        return np.arange(len(self.values)) * (STEP / HOUR)


def packaged() -> Demand:
    """Return the hourly load of California ISO, 2018-04-24 to 2018-05-03, interpolated to 2880
    five-minute steps."""
    demand = read([Path(__file__).parent / "data" / "caiso_hourly_20180424_20180503.csv"])
    return replace(
        demand, source="California ISO total load" + demand.source[demand.source.index(",") :]
    )


def rescaled(demand: Demand, mean: float) -> np.ndarray:
    """Return the values of `demand`, scaled so that their mean is `mean`."""
    return np.asarray(demand.values * (positive("mean", mean) / demand.values.mean()))


def read(paths: Sequence[str | Path]) -> Demand:
    """Read files with demand and join them.

    Arguments:
        paths: ISO-NE five-minute reports (`rt_fiveminsysload_YYYYMMDD.csv`; the column Native Load
            is used) or CSV files with two columns, with or without a header: time (`YYYY-MM-DD
            HH:MM[:SS]` or `MM/DD/YYYY HH:MM[:SS]`, the start of the interval) and MW. Files are
            given in time order and have the same step. The steps after the last row of coarser
            data repeat its value.
    """
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    if not files:
        raise _refusal("paths", "no file", "at least one")
    cells = [_cells(path) for path in files]
    reports = [rows[0][1][0] in {"C", "H", "D"} for rows in cells]
    samples = [
        row
        for path, rows, report in zip(files, cells, reports, strict=True)
        for row in (_iso_ne(path, rows) if report else _plain(path, rows))
    ]
    stamps, values = _checked_stamps(samples), _checked_values(samples)
    step = int(stamps[1] - stamps[0])

    grid = np.arange(stamps[0], stamps[-1] + step, STEP)
    series = np.interp(grid, stamps, values)  # exact at the samples; repeats the last one
    times = grid.astype("datetime64[s]")
    source = f"{files[0].name} and {len(files) - 1} more" if len(files) > 1 else files[0].name
    if all(reports):
        source = "ISO New England native load"
    source += f", {str(times[0])[:10]} to {str(times[-1])[:10]}, {STEPS[step]}"
    if step > STEP:
        source += ", interpolated to five-minute steps"
    series.setflags(write=False)
    times.setflags(write=False)
    return Demand(series, times, source)


def _refusal(where: str | Path, came: str, expected: str) -> ValueError:
    return ValueError(f"{where}: got {came}; expected {expected}")


def _cells(path: Path) -> Cells:
    """Return the rows of a CSV file that are not blank."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file; expected a CSV file of demand") from None
    except IsADirectoryError:
        raise _refusal(path, "a directory", "a CSV file") from None
    except UnicodeDecodeError:
        raise _refusal(path, "bytes that are not UTF-8 text", "a CSV file") from None
    if "\0" in text:
        raise _refusal(path, "binary data", "a CSV file")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(f"{path} line {reader.line_num}", [c.strip() for c in row]) for row in reader]
    except csv.Error as error:
        raise _refusal(f"{path} line {reader.line_num}", f"a broken row ({error})", "CSV") from None
    rows = [(where, cells) for where, cells in rows if any(cells)]
    if not rows:
        raise _refusal(path, "an empty file", "rows of time and MW")
    return rows


def _iso_ne(path: Path, rows: Cells) -> Rows:
    """Return the time and the native load of every D row of an ISO-NE report."""
    for where, cells in rows:
        if cells[0] not in {"C", "H", "D", "T"}:
            raise _refusal(where, f"row code {cells[0]!r}", "C, H, D or T")
    data = [(where, cells) for where, cells in rows if cells[0] == "D"]
    headers = [cells for _, cells in rows if cells[0] == "H"]
    if not data:
        raise _refusal(path, "an ISO-NE report without D rows", "one D row per five minutes")
    if len(headers) != 2:
        raise _refusal(path, f"{len(headers)} H rows", "two: names, then units")
    names, units = headers
    for name in ("Date/Time", "Native Load"):
        if name not in names:
            raise _refusal(path, f"columns {names[1:]}", f"one called {name!r}")
    time, load = names.index("Date/Time"), names.index("Native Load")
    if "".join(units[load : load + 1]).upper() != "MW":
        raise _refusal(path, f"units {units[1:]} in the second H row", "MW for Native Load")
    closing = re.fullmatch(r"T (\d+) lines?", " ".join(rows[-1][1]).strip())
    if not closing or sum(cells[0] == "T" for _, cells in rows) != 1:
        raise _refusal(path, "no closing T row or several", 'one last row like "T","288 lines"')
    if int(closing[1]) != len(data):
        raise _refusal(
            path, f"{len(data)} D rows", f"{closing[1]}, the count in the T row (a cut file?)"
        )
    for where, cells in data:
        if not 5 <= len(cells) <= 7 or len(cells) <= max(time, load):
            raise _refusal(
                where, f"{len(cells) - 2} values", "3 to 5, under the first H row's names"
            )
    return [(where, cells[time], cells[load]) for where, cells in data]


def _plain(path: Path, rows: Cells) -> Rows:
    """Return the rows of a table without its header. It has two columns, or more under a header
    that names one time and one load."""
    names = [cell.lower() for cell in rows[0][1]]
    times = [i for i, name in enumerate(names) if re.search(r"time|date|hour|interval", name)]
    loads = [i for i, name in enumerate(names) if re.search(r"load|demand|\bmw\b|_mw\b", name)]
    place = (times[0], loads[0]) if len(names) > 2 and times and len(loads) == 1 else None
    samples = []
    for where, cells in rows:
        chosen = [cells[i] for i in place] if place and len(cells) > max(place) else cells
        if len(chosen) < 2 or any(chosen[2:]):
            raise _refusal(where, f"{len(cells)} columns", "two: time and MW")
        samples.append((where, chosen[0], chosen[1]))
    where, first, second = samples[0]
    if _stamp(first) is None and np.isnan(_number(second)):
        if re.search(r"(?<![a-z])[kg]wh?(?![a-z])", second.lower()):
            raise _refusal(where, f"a column called {second!r}", "values in MW")
        samples = samples[1:]
    if not samples:
        raise _refusal(path, "a header and no rows", "rows of time and MW")
    return samples


def _stamp(text: str) -> int | None:
    """Parse a local clock time as seconds since 1970-01-01 on the same clock. Return None if the
    text is no such time."""
    try:
        clock = "%H:%M:%S" if text.count(":") == 2 else "%H:%M"
        if re.match(r"\d{4}/", text):
            time = datetime.strptime(text, f"%Y/%m/%d {clock}")
        elif "/" in text:
            time = datetime.strptime(text, f"%m/%d/%Y {clock}")
        elif re.match(r"\d{1,2}\.\d{1,2}\.", text):
            time = datetime.strptime(text, f"%d.%m.%Y {clock}")
        else:
            time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo or time.microsecond else int((time - EPOCH).total_seconds())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _checked_stamps(rows: Rows) -> np.ndarray:
    """Return the times of all rows in seconds, which must follow each other at one step."""
    stamps = np.empty(len(rows), np.int64)
    for i, (where, time, _) in enumerate(rows):
        stamp = _stamp(time)
        if stamp is None:
            raise _refusal(
                where, f"time {time!r}", f"{FORMATS}, local clock, whole seconds, no offset"
            )
        stamps[i] = stamp
    apart = np.diff(stamps)
    if not apart.size:
        raise _refusal(rows[0][0], "a single time", "at least two")
    if apart[0] not in STEPS:
        raise _refusal(
            rows[1][0], f"rows {apart[0] / 60:g} minutes apart", "steps of 5, 15, 30 or 60 minutes"
        )
    for i in map(int, np.flatnonzero(apart != apart[0])):
        raise _refusal(
            rows[i + 1][0],
            f"{rows[i + 1][1]} after {rows[i][1]}",
            f"{STEPS[int(apart[0])]} rows in time order, without gaps, repetitions or a change of "
            "the clock",
        )
    return stamps


def _checked_values(rows: Rows) -> np.ndarray:
    """Return the values of all rows, which must be numbers of MW."""
    values = np.array([_number(value) for _, _, value in rows])
    for i in map(int, np.flatnonzero(~np.isfinite(values))):
        raise _refusal(rows[i][0], f"value {rows[i][2]!r}", "a number of MW")
    low, high = int(values.argmin()), int(values.argmax())
    if values[low] <= 0:
        raise _refusal(rows[low][0], f"{values[low]:g}", "a system load in MW, above zero")
    if values[high] < 100:
        raise _refusal(rows[high][0], f"no value above {values[high]:g}, which looks like GW", "MW")
    if values[high] > 1e6:
        raise _refusal(rows[high][0], f"{values[high]:g}, which looks like kW or W", "MW")
    if values[high] > 100 * values[low]:
        mixed = f"a unit in line with the {values[high]:g} in {rows[high][0]}"
        raise _refusal(rows[low][0], f"{values[low]:g}", mixed)
    return values

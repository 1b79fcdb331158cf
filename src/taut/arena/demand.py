"""Power demand at five-minute steps, from the packaged series or CSV files.

The reader repairs nothing. Rows must follow each other in time at steps of 5, 15, 30 or 60 minutes.
A gap, a repeated time or a change of the clock is an error that names the file and the line.
Coarser steps are interpolated linearly, and the source says so.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from ..arguments import positive

STEP, HOUR = 300, 3600  # seconds in a round, and in an hour
STEPS = {300: "five-minute", 900: "15-minute", 1800: "30-minute", 3600: "hourly"}
EPOCH = datetime(1970, 1, 1)


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
    """Read CSV files with demand and join them.

    Arguments:
        paths: files with a line of names, of which one says time, date or hour and one says load,
            demand or MW. Times are those of a local clock at the start of the interval, as in
            2018-04-24 00:05. Files are given in time order and have the same step. The steps after
            the last row of coarser data repeat its value.
    """
    files = [Path(path) for path in paths]
    rows = [row for path in files for row in _rows(path)]
    if len(rows) < 2:
        raise ValueError(f"paths: got {len(rows)} rows in {len(files)} files; expected at least 2")
    stamps = _stamps(rows)
    step = int(stamps[1] - stamps[0])

    grid = np.arange(stamps[0], stamps[-1] + step, STEP)
    series = np.interp(grid, stamps, _megawatts(rows))  # exact at the rows; repeats the last one
    times = grid.astype("datetime64[s]")
    source = f"{files[0].name} and {len(files) - 1} more" if len(files) > 1 else files[0].name
    source += f", {str(times[0])[:10]} to {str(times[-1])[:10]}, {STEPS[step]}"
    if step > STEP:
        source += ", interpolated to five-minute steps"
    series.setflags(write=False)
    times.setflags(write=False)
    return Demand(series, times, source)


Rows = list[tuple[str, str, str]]
"""("file line n", time, MW)"""


def _rows(path: Path) -> Rows:
    """Return the rows of a file that are not blank."""
    rows, when, load = [], -1, -1
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        try:
            names = [name.strip().lower() for name in next(reader, [])]
            times = [i for i, name in enumerate(names) if re.search(r"time|date|hour", name)]
            loads = [i for i, name in enumerate(names) if re.search(r"load|demand|mw\b", name)]
            if not times or len(loads) != 1:
                raise ValueError(f"got the names {names}; expected names such as time,demand_mw")
            when, load = times[0], loads[0]
            for cells in reader:
                if any(cells):
                    padded = [*cells, *[""] * len(names)]
                    rows.append((f"{path} line {reader.line_num}", padded[when], padded[load]))
        except (ValueError, csv.Error) as error:  # of bytes that are no text, too
            raise ValueError(f"{path}: {error}; expected a CSV file of demand") from error
    return rows


def _stamps(rows: Rows) -> np.ndarray:
    """Return the times of all rows in seconds since 1970-01-01 on the same clock. They must follow
    each other at one step."""
    stamps = np.empty(len(rows), np.int64)
    for i, (where, text, _) in enumerate(rows):
        try:
            time = datetime.fromisoformat(text.strip())
            stamps[i] = (time - EPOCH).total_seconds()
        except (ValueError, TypeError):  # a time with an offset cannot be subtracted
            raise ValueError(
                f"{where}: got time {text!r}; expected YYYY-MM-DD HH:MM, local clock, no offset"
            ) from None
    apart = np.diff(stamps)
    if apart[0] not in STEPS:
        raise ValueError(
            f"{rows[1][0]}: got rows {apart[0] / 60:g} minutes apart; expected steps of 5, 15, 30 "
            "or 60 minutes"
        )
    for i in map(int, np.flatnonzero(apart != apart[0])):
        raise ValueError(
            f"{rows[i + 1][0]}: got {rows[i + 1][1]} after {rows[i][1]}; expected "
            f"{STEPS[int(apart[0])]} rows in time order, without gaps, repetitions or a change of "
            "the clock"
        )
    return stamps


def _megawatts(rows: Rows) -> list[float]:
    """Return the values of all rows, which must be positive and of one unit."""
    values = []
    for where, _, text in rows:
        try:
            values.append(positive("MW", float(text)))
        except ValueError:
            raise ValueError(f"{where}: got value {text!r}; expected a positive number") from None
    if max(values) > 100 * min(values):
        where, _, text = rows[values.index(min(values))]
        raise ValueError(f"{where}: got {text} beside {max(values):g}; expected one unit, MW")
    return values

"""Power demand at five-minute steps, from the packaged series, ISO-NE reports or CSV files with two
columns.

The reader never changes data silently. It either raises an error that names the file and the line,
or repairs the data and describes each repair in `Demand.repairs`. These repairs are made:

* Rows or files that are not in time order are sorted. Rows that repeat a time with the same value
  are dropped.
* A gap of at most one hour is filled by linear interpolation.
* Data with steps of 15, 30 or 60 minutes are interpolated linearly. The steps after the last row
  repeat its value.

Times are local clock times without an offset, so daylight saving time needs a rule. The reader uses
the rule of the United States since 2007: the clock changes at 02:00 on the second Sunday of March
and the first Sunday of November. The hour that does not exist in spring is not filled. The hour
that occurs twice in autumn is kept twice, in the order of the file. ISO-NE reports follow this
clock by definition. For a CSV file, the reader decides from the rows whether the clock changes, and
`repairs` states the assumption. Internally, rows are placed by elapsed seconds, so that a clock
change is neither a gap nor a repetition.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np

from ..arguments import positive

__all__ = ["Demand", "packaged", "read", "rescaled"]

STEP = 300  # seconds in a round
HOUR = 3600  # the longest gap that is filled, and the amount by which the clock changes
STEPS = {300: "five-minute", 900: "15-minute", 1800: "30-minute", 3600: "hourly"}
FORMATS = "YYYY-MM-DD HH:MM[:SS] or MM/DD/YYYY HH:MM[:SS]"
EPOCH = datetime(1970, 1, 1)

Cells = list[tuple[str, list[str]]]  # "file line n" and the cells of that row
Changes = list[
    tuple[int, int]
]  # local 02:00 of the day, and the seconds to add to later clock times to get elapsed time


@dataclass(frozen=True, eq=False)
class Demand:
    """A demand series at five-minute steps.

    Arguments:
        values: demand in MW, one float64 value per step.
        times: local clock time at the start of each step, datetime64[s]. Steps are five minutes of
            elapsed time, so the times jump by one hour at a clock change.
        source: one line that describes the series and says whether it is interpolated.
        repairs: descriptions of all repairs and of all assumptions about the clock.
    """

    values: np.ndarray
    times: np.ndarray
    source: str
    repairs: tuple[str, ...]

    @property
    def elapsed(self) -> np.ndarray:
        """Hours since the first step. Unlike the local clock, it always increases."""
        return np.arange(len(self.values)) * (STEP / HOUR)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of one file."""

    path: Path
    iso_ne: bool
    step: int
    stamps: np.ndarray  # local clock, seconds since 1970-01-01 on that clock
    values: np.ndarray
    second: np.ndarray  # True for rows of the second occurrence of the repeated hour in autumn


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
    """Read files with demand and join them in time order.

    Arguments:
        paths: ISO-NE five-minute reports (`rt_fiveminsysload_YYYYMMDD.csv`; the column Native Load
            is used) or CSV files with two columns, with or without a header: time (`YYYY-MM-DD
            HH:MM[:SS]` or `MM/DD/YYYY HH:MM[:SS]`, the start of the interval) and MW. All files
            must have the same step.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the data are invalid and cannot be repaired safely (see the docstring of the
            module).
    """
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    if not files:
        raise _refusal("paths", "no file", "at least one")
    parts = [_rows(path) for path in files]
    step = parts[0].step
    for part in parts:
        if part.step != step:
            raise _refusal(
                part.path, f"{STEPS[part.step]} rows", f"{STEPS[step]} as in {parts[0].path}"
            )
    repairs: list[str] = []
    changes = _changes(parts, repairs)
    keys, values, origin = _joined(parts, changes, repairs)
    filled = _filled(keys, step, origin, changes, repairs)

    grid = np.arange(keys[0], keys[-1] + step, STEP)
    series = np.interp(grid, keys, values)  # exact at the samples; repeats the last one
    times = _local(grid, changes).astype("datetime64[s]")
    source = f"{files[0].name} and {len(files) - 1} more" if len(files) > 1 else files[0].name
    if all(part.iso_ne for part in parts):
        source = "ISO New England native load"
    source += f", {str(times[0])[:10]} to {str(times[-1])[:10]}, {STEPS[step]}"
    if step > STEP:
        source += ", interpolated to five-minute steps"
        last = _clock(keys[-1], changes)
        repairs.append(f"the last {step // STEP - 1} steps hold the last row's value, of {last}")
    elif filled:
        source += f", {filled} of {len(grid)} steps interpolated"
    series.setflags(write=False)
    times.setflags(write=False)
    return Demand(series, times, source, tuple(repairs))


def _refusal(where: str | Path, came: str, expected: str) -> ValueError:
    return ValueError(f"{where}: got {came}; expected {expected}")


# Reading one file: bytes -> cells -> (where, time, value) -> rows.


def _rows(path: Path) -> _Rows:
    """Read and check one file."""
    cells = _cells(path)
    iso_ne = cells[0][1][0] in {"C", "H", "D"}
    found = (_iso_ne if iso_ne else _plain)(path, cells)
    for where, time, value in found:
        if _stamp(time) is None:
            raise _refusal(
                where, f"time {time!r}", f"{FORMATS}, local clock, whole seconds, no offset"
            )
        if not np.isfinite(_number(value)):
            raise _refusal(
                where, f"value {value!r}", "a number of MW (or no row: a short gap is filled)"
            )
    stamps = np.array([_stamp(time) for _, time, _ in found], dtype=np.int64)
    values = np.array([_number(value) for _, _, value in found])

    low, high = int(values.argmin()), int(values.argmax())
    if values[low] <= 0:
        raise _refusal(
            path, f"{values[low]:g} at {_clock(stamps[low])}", "a system load in MW, above zero"
        )
    if values[high] < 100:
        raise _refusal(path, f"no value above {values[high]:g}, which looks like GW", "MW")
    if values[high] > 1e6:
        unit = "W" if np.median(values) > 1e9 else "kW"
        raise _refusal(
            path, f"{values[high]:g} at {_clock(stamps[high])}, which looks like {unit}", "MW"
        )

    apart, counts = np.unique(np.diff(np.unique(stamps)), return_counts=True)
    if not apart.size:
        raise _refusal(path, "a single time", "at least two")
    step = int(apart[counts.argmax()])  # the most frequent difference, so that gaps do not matter
    if step not in STEPS:
        raise _refusal(
            path, f"rows {step / 60:g} minutes apart", "steps of 5, 15, 30 or 60 minutes"
        )
    return _Rows(path, iso_ne, step, stamps, values, _second_pass(stamps, step))


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
        rows = [
            (f"{path} line {reader.line_num}", [cell.strip() for cell in row]) for row in reader
        ]
    except csv.Error as error:
        raise _refusal(f"{path} line {reader.line_num}", f"a broken row ({error})", "CSV") from None
    rows = [(where, cells) for where, cells in rows if any(cells)]
    if not rows:
        raise _refusal(path, "an empty file", "rows of time and MW")
    return rows


def _iso_ne(path: Path, rows: Cells) -> list[tuple[str, str, str]]:
    """Return (where, time, native load) for every D row of an ISO-NE report."""
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


def _plain(path: Path, rows: Cells) -> list[tuple[str, str, str]]:
    """Return (where, time, value) for every row of a table, without its header.

    A table has two columns, or more under a header that names one time and one load.
    """
    rows = _two_columns(rows)
    for where, cells in rows:
        if len(cells) < 2 or any(cells[2:]):
            raise _refusal(where, f"{len(cells)} columns", "two: time and MW")
    found = [(where, cells[0], cells[1]) for where, cells in rows]
    where, *names = found[0]
    if _stamp(names[0]) is None and np.isnan(_number(names[1])):
        if re.search(r"(?<![a-z])[kg]wh?(?![a-z])", names[1].lower()):
            raise _refusal(where, f"a column called {names[1]!r}", "values in MW")
        found = found[1:]
    if not found:
        raise _refusal(path, "a header and no rows", "rows of time and MW")
    return found


def _two_columns(rows: Cells) -> Cells:
    """Return the columns of time and load if a header names them, otherwise the rows as they
    are."""
    names = [cell.lower() for cell in rows[0][1]]
    if len(names) < 3:
        return rows
    times = [i for i, name in enumerate(names) if re.search(r"time|date|hour|interval", name)]
    loads = [i for i, name in enumerate(names) if re.search(r"load|demand|\bmw\b|_mw\b", name)]
    if not times or len(loads) != 1:
        return rows
    place = (times[0], loads[0])
    return [
        (where, [cells[i] for i in place] if len(cells) > max(place) else cells)
        for where, cells in rows
    ]


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


# Conversion between local clock seconds and elapsed seconds.


def _calendar(first: int, last: int) -> Changes:
    """Return the clock changes with first < 02:00 of the day <= last."""
    found: Changes = []
    for year in range(max(2007, np.datetime64(int(first), "s").item().year), 10000):
        for earliest, gain in ((date(year, 3, 8), -HOUR), (date(year, 11, 1), HOUR)):
            sunday = earliest + timedelta(days=6 - earliest.weekday())
            two = (sunday - EPOCH.date()).days * 24 * HOUR + 2 * HOUR
            if two > last:
                return found
            if first < two:
                found.append((two, gain))
    return found


def _second_pass(stamps: np.ndarray, step: int) -> np.ndarray:
    """Mark the rows that belong to the second occurrence of the hour that is repeated in autumn."""
    second = np.zeros(len(stamps), dtype=bool)
    for two, gain in _calendar(stamps.min(), stamps.max() + HOUR):
        rows = np.flatnonzero((stamps >= two - HOUR) & (stamps < two))
        if gain < 0 or len(rows) < 2 or rows[-1] - rows[0] != len(rows) - 1:
            continue  # other rows of that hour are out of order; they are not a second occurrence
        around = stamps[max(rows[0] - 1, 0) : rows[-1] + 2]
        if around[0] >= around[-1]:
            continue  # in a file in reverse order the two occurrences cannot be told apart
        times, counts = np.unique(stamps[rows], return_counts=True)
        back = np.flatnonzero(np.diff(stamps[rows]) < 0)
        if len(back) == 1 and 2 * np.sum(counts > 1) >= len(
            times
        ):  # 01:00 ... 01:55, 01:00 ... 01:55
            second[rows[back[0] + 1 :]] = True
        elif (
            not len(back) and np.all(counts == 2) and len(times) * step == HOUR
        ):  # 01:00, 01:00, 01:05, ...
            second[rows[1::2]] = True
    return second


def _changes(parts: list[_Rows], repairs: list[str]) -> Changes:
    """Return the clock changes within the rows and describe each in `repairs`."""
    stamps = np.concatenate([part.stamps for part in parts])
    second = np.concatenate([part.stamps[part.second] for part in parts])
    found = []
    for two, gain in _calendar(stamps.min(), stamps.max() + HOUR):
        day = _clock(two)[:10]
        inside = bool(stamps.max() >= two)  # rows on both sides of the change
        if gain > 0:
            seen = bool(np.any((second >= two - HOUR) & (second < two)))
            word = "the hour from 01:00 comes twice on the local clock and counts twice"
        else:
            within = [
                part for part in parts if np.any((part.stamps >= two) & (part.stamps < two + HOUR))
            ]
            seen = inside and not within
            word = "the hour from 02:00 does not exist on the local clock and was not filled"
            for part in within:
                if part.iso_ne:
                    raise _refusal(
                        part.path, f"rows after 02:00 on {day}", "none: the clock skips that hour"
                    )
        if seen or (
            inside and any(part.iso_ne for part in parts)
        ):  # if a report lacks the second hour, that is a gap
            found.append((two, gain))
            repairs.append(f"clock change on {day}: {word}")
        elif inside:
            repairs.append(
                f"no clock change in the rows of {day}: read as a clock that does not change"
            )
    return found


def _elapsed(part: _Rows, changes: Changes) -> np.ndarray:
    """Return the elapsed seconds of the rows: clock seconds plus the clock changes up to that
    time."""
    keys = part.stamps.copy()
    for two, gain in changes:
        keys[(part.stamps >= two) | (part.second & (part.stamps >= two - HOUR))] += gain
    return keys


def _local(keys: np.ndarray, changes: Changes) -> np.ndarray:
    """Return the local clock seconds of elapsed seconds, the inverse of `_elapsed`."""
    gained, total = np.zeros_like(keys), 0
    for two, gain in changes:
        gained[keys >= two + total] += gain
        total += gain
    return np.asarray(keys - gained)


def _clock(key: int, changes: Sequence[tuple[int, int]] = ()) -> str:
    """Format elapsed seconds as local clock time."""
    local = _local(np.array([key]), list(changes))[0]
    return str(np.datetime64(int(local), "s")).replace("T", " ")


# Joining all files to one series.


def _joined(
    parts: list[_Rows], changes: Changes, repairs: list[str]
) -> tuple[np.ndarray, np.ndarray, list[Path]]:
    """Return elapsed seconds, value and file of all rows, sorted by time and without
    repetitions."""
    each = [_elapsed(part, changes) for part in parts]
    for part, own in zip(parts, each, strict=True):
        if np.any(np.diff(own) < 0):
            repairs.append(f"rows of {part.path.name} were not in time order and were sorted")
    if np.any(np.diff([own.min() for own in each]) < 0):
        repairs.append("files were not given in time order and were sorted")
    keys, values = np.concatenate(each), np.concatenate([part.values for part in parts])
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    owner = np.repeat(np.arange(len(parts)), [len(own) for own in each])[order]

    again = np.flatnonzero(np.diff(keys) == 0) + 1
    for i in again[values[again] != values[again - 1]]:
        came = f"{values[i]} at {_clock(keys[i], changes)}"
        other = f"{values[i - 1]} as also read, from {parts[owner[i - 1]].path}"
        raise _refusal(parts[owner[i]].path, came, other)
    for index in np.unique(owner[again]):
        mine = again[owner[again] == index]
        name, first = parts[index].path.name, _clock(keys[mine[0]], changes)
        repairs.append(f"repeated rows of {name} dropped: {len(mine)}, the first at {first}")
    keys, values, owner = (np.delete(array, again) for array in (keys, values, owner))

    low, high = int(values.argmin()), int(values.argmax())
    if values[high] > 100 * values[low]:
        came = f"{values[low]:g} at {_clock(keys[low], changes)}"
        mixed = f"a unit in line with the {values[high]:g} at {_clock(keys[high], changes)}"
        raise _refusal(parts[owner[low]].path, came, mixed)
    return keys, values, [parts[index].path for index in owner]


def _filled(
    keys: np.ndarray, step: int, origin: list[Path], changes: Changes, repairs: list[str]
) -> int:
    """Return the number of samples missing in short gaps and describe each gap in `repairs`. Long
    gaps are an error."""
    total = 0
    apart = np.diff(keys)
    for i in np.flatnonzero(apart != step):
        before, after = _clock(keys[i], changes), _clock(keys[i + 1], changes)
        missing = int(apart[i]) // step - 1
        if apart[i] % step:
            raise _refusal(
                origin[i + 1], f"a row at {after} after one at {before}", f"{STEPS[step]} rows"
            )
        if missing * step > HOUR:
            came = f"a gap of {missing} {STEPS[step]} rows between {before} and {after}"
            raise _refusal(origin[i + 1], came, "gaps of at most one hour")
        total += missing
        rows = f"{missing} missing {STEPS[step]} {'row' if missing == 1 else 'rows'}"
        repairs.append(f"{rows} between {before} and {after} filled by linear interpolation")
    return total

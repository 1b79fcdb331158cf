"""Demand series: every trap of the formats ends in a repair that is reported or an error that says
where."""

import csv
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pytest

from taut.arena import demand as module
from taut.arena.demand import packaged, read, rescaled

SHARED = Path(__file__).parents[2] / "shared" / "data"
PACKAGED = Path(module.__file__).parent / "data" / "caiso_hourly_20180424_20180503.csv"
SPRING, AUTUMN, PLAIN_DAY = datetime(2018, 3, 11), datetime(2018, 11, 4), datetime(2018, 4, 24)
DAY = timedelta(days=1)


def eastern():
    try:
        return ZoneInfo("America/New_York")
    except ZoneInfoNotFoundError:
        pytest.skip("no time zone database")


def eastern_day(day, minutes=5):
    """The local times of one day in New England, from the time zone database."""
    zone = eastern()
    now = day.replace(tzinfo=zone).astimezone(UTC)
    times = []
    while now.astimezone(zone).date() == day.date():
        times.append(now.astimezone(zone).replace(tzinfo=None))
        now += timedelta(minutes=minutes)
    return times


def wave(count, seed=0):
    return np.round(12000 + 2000 * np.sin(np.arange(count) / 40 + seed), 3)


def report(path, times, native, *, extra=0, quote=True, unit="MW", count=None, names=None):
    """Write an ISO-NE five-minute report; total load is native plus pumping, so the columns
    differ."""
    names = names or ["Date/Time", "Total Load", "Native Load", "Asset Related Load"]
    solar = ["Total Load With Estimated Solar", "Native Load With Estimated Solar"][:extra]
    rows = [["C", f"comment {i}"] for i in range(4)]
    rows += [["H", *names, *solar], ["H", "Date/Time", *[unit] * (3 + extra)]]
    for time, value in zip(times, native, strict=True):
        more = [float(value) + 900] * extra
        rows.append(
            ["D", f"{time:%m/%d/%Y %H:%M:%S}", float(value) + 250, float(value), 250.0, *more]
        )
    rows.append(["T", f"{len(times) if count is None else count} lines"])
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL if quote else csv.QUOTE_MINIMAL).writerows(rows)
    return path


def plain(path, times, values, header="time,demand_mw\n"):
    path.write_text(
        header + "".join(f"{t:%Y-%m-%d %H:%M},{v}\n" for t, v in zip(times, values, strict=True))
    )
    return path


def steps(count, minutes=5, start=PLAIN_DAY):
    return [start + timedelta(minutes=minutes * i) for i in range(count)]


def expect_times(demand, times):
    np.testing.assert_array_equal(demand.times, np.array(times, dtype="datetime64[s]"))


# -- sound files


def test_packaged_series_is_the_file_interpolated_and_says_so():
    demand = packaged()
    hourly = np.loadtxt(PACKAGED, delimiter=",", skiprows=1, usecols=1)
    assert len(demand.values) == len(demand.times) == 2880
    assert demand.values.dtype == np.float64
    assert demand.times.dtype == "datetime64[s]"
    np.testing.assert_array_equal(demand.values[::12], hourly)
    assert demand.values[6] == pytest.approx((hourly[0] + hourly[1]) / 2)
    assert np.all(demand.values[-11:] == hourly[-1])
    assert str(demand.times[0]) == "2018-04-24T00:00:00"
    assert str(demand.times[-1]) == "2018-05-03T23:55:00"
    assert "California ISO" in demand.source
    assert "interpolated" in demand.source
    assert demand.repairs == (
        "the last 11 steps hold the last row's value, of 2018-05-03 23:00:00",
    )


def test_packaged_series_has_its_attribution_beside_it():
    text = PACKAGED.with_name("PROVENANCE.md").read_text()
    assert "Apache-2.0" in text
    assert "orbit-ml 1.1.4" in text
    assert "CAISO Total" in text


@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("quote", [True, False])
def test_iso_ne_reports_give_native_load(tmp_path, extra, quote):
    values = wave(576)
    first = report(tmp_path / "1.csv", steps(288), values[:288], extra=extra, quote=quote)
    then = report(tmp_path / "2.csv", steps(576)[288:], values[288:], extra=extra, quote=quote)
    demand = read([first, then])
    np.testing.assert_array_equal(demand.values, values)
    expect_times(demand, steps(576))
    assert demand.repairs == ()
    assert demand.source == "ISO New England native load, 2018-04-24 to 2018-04-25, five-minute"
    np.testing.assert_allclose(demand.elapsed, np.arange(576) / 12)


def test_columns_are_found_by_name(tmp_path):
    path = tmp_path / "r.csv"
    rows = ["H,Native Load,Date/Time,Asset Related Load,Total Load", "H,MW,,MW,MW"]
    rows += [f"D,{11000 + i},{t:%m/%d/%Y %H:%M:%S},7,8" for i, t in enumerate(steps(3))]
    path.write_text("\n".join([*rows, "T,3 lines"]))
    np.testing.assert_array_equal(read([path]).values, [11000, 11001, 11002])


@pytest.mark.parametrize("header", ["", "time,demand_mw\n", "anything,5min load\n"])
def test_plain_file_round_trip(tmp_path, header):
    values = wave(300)
    demand = read([plain(tmp_path / "load.csv", steps(300), values, header)])
    np.testing.assert_array_equal(demand.values, values)
    expect_times(demand, steps(300))
    assert demand.repairs == ()
    assert demand.source == "load.csv, 2018-04-24 to 2018-04-25, five-minute"


def test_bom_crlf_blank_lines_quotes_seconds_and_us_dates(tmp_path):
    path = tmp_path / "load.csv"
    path.write_bytes(
        b"\xef\xbb\xbftime,MW\r\n\r\n2018-04-24T00:00:00, 12000.5\r\n"
        b'"04/24/2018 00:05:00","12100",\r\n04/24/2018 00:10,1.22e4\r\n\r\n , \r\n\r\n'
    )
    demand = read([str(path)])
    np.testing.assert_array_equal(demand.values, [12000.5, 12100, 12200])
    expect_times(demand, steps(3))


@pytest.mark.parametrize(
    ("minutes", "name"), [(15, "15-minute"), (30, "30-minute"), (60, "hourly")]
)
def test_coarser_data_are_interpolated_and_labelled(tmp_path, minutes, name):
    values = wave(30)
    demand = read([plain(tmp_path / "load.csv", steps(30, minutes), values)])
    every = minutes // 5
    assert len(demand.values) == 30 * every
    np.testing.assert_array_equal(demand.values[::every], values)
    assert demand.values[1] == pytest.approx(values[0] + (values[1] - values[0]) / every)
    assert f"{name}, interpolated to five-minute steps" in demand.source
    assert len(demand.repairs) == 1


def test_rescaled_has_the_mean_and_the_shape():
    demand = packaged()
    scaled = rescaled(demand, 3.5)
    assert scaled.mean() == pytest.approx(3.5)
    np.testing.assert_allclose(scaled / scaled[0], demand.values / demand.values[0])
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"mean: got .*; expected"):
            rescaled(demand, bad)


def test_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        packaged().values[0] = 1.0


# -- repairs


@pytest.mark.parametrize("gone", [1, 2, 12])
def test_short_gaps_are_interpolated_and_reported(tmp_path, gone):
    times, values = steps(100), wave(100)
    path = plain(
        tmp_path / "a.csv", times[:40] + times[40 + gone :], [*values[:40], *values[40 + gone :]]
    )
    demand = read([path])
    assert len(demand.values) == 100
    known = np.r_[0:40, 40 + gone : 100]
    np.testing.assert_array_equal(demand.values[known], values[known])
    line = values[39] + (values[40 + gone] - values[39]) * np.arange(1, gone + 1) / (gone + 1)
    np.testing.assert_allclose(demand.values[40 : 40 + gone], line)
    expect_times(demand, times)
    (repair,) = demand.repairs
    assert repair.startswith(f"{gone} missing five-minute row")
    assert "2018-04-24 03:15:00" in repair
    assert demand.source.endswith(f"{gone} of 100 steps interpolated")


def test_long_gap_is_an_error_that_says_where(tmp_path):
    times, values = steps(100), wave(100)
    path = plain(tmp_path / "a.csv", times[:40] + times[53:], [*values[:40], *values[53:]])
    pattern = (
        r"a\.csv: got a gap of 13 .* between 2018-04-24 03:15:00 and 2018-04-24 04:25:00; expected"
    )
    with pytest.raises(ValueError, match=pattern):
        read([path])


def test_one_missing_hour_of_hourly_data_is_filled_two_are_refused(tmp_path):
    times, values = steps(24, 60), wave(24)
    demand = read([plain(tmp_path / "a.csv", times[:5] + times[6:], np.delete(values, 5))])
    assert demand.values[60] == pytest.approx((values[4] + values[6]) / 2)
    assert demand.repairs[0].startswith("1 missing hourly row between 2018-04-24 04:00:00")
    with pytest.raises(ValueError, match="gap of 2 hourly rows between 2018-04-24 04:00:00 and"):
        read([plain(tmp_path / "b.csv", times[:5] + times[7:], np.delete(values, [5, 6]))])


def test_identical_duplicates_are_dropped_and_reported(tmp_path):
    times, values = steps(50), wave(50)
    again = np.r_[:10, 9, 10:50]
    path = plain(tmp_path / "a.csv", [times[i] for i in again], values[again])
    demand = read([path])
    np.testing.assert_array_equal(demand.values, values)
    assert demand.repairs == (
        "repeated rows of a.csv dropped: 1, the first at 2018-04-24 00:45:00",
    )


def test_conflicting_duplicates_name_the_time_and_both_values(tmp_path):
    times, values = steps(50), wave(50)
    path = plain(tmp_path / "a.csv", [*times, times[9]], [*values, 12345.0])
    with pytest.raises(
        ValueError, match=r"a\.csv: got 12345\.0 at 2018-04-24 00:45:00; expected 12"
    ):
        read([path])


def test_rows_and_files_out_of_order_and_overlapping(tmp_path):
    times, values = steps(200), wave(200)
    late = plain(tmp_path / "late.csv", times[90:], values[90:])
    early = plain(tmp_path / "early.csv", times[:100][::-1], values[:100][::-1])
    demand = read([late, early])
    np.testing.assert_array_equal(demand.values, values)
    assert demand.repairs == (
        "rows of early.csv were not in time order and were sorted",
        "files were not given in time order and were sorted",
        "repeated rows of early.csv dropped: 10, the first at 2018-04-24 07:30:00",
    )
    with pytest.raises(
        ValueError, match=r"late\.csv: got .* at 2018-04-24 07:30:00; expected .*early\.csv"
    ):
        read([early, plain(late, times[90:], values[90:] + 1)])


# -- the clock


@pytest.mark.parametrize("year", range(2007, 2031))
def test_calendar_is_that_of_the_time_zone_database(year):
    zone = eastern()
    start = datetime(year, 1, 1)
    noons = [(start + DAY * i).replace(tzinfo=zone, hour=12) for i in range(365)]
    days = [after for before, after in pairwise(noons) if before.utcoffset() != after.utcoffset()]
    first = int((start - module.EPOCH).total_seconds())
    found = module._calendar(first, first + 365 * 86400)
    assert [module._clock(two) for two, _ in found] == [f"{day:%Y-%m-%d} 02:00:00" for day in days]
    assert [gain for _, gain in found] == [-3600, 3600]


@pytest.mark.parametrize("kind", ["report", "plain"])
@pytest.mark.parametrize(("day", "count"), [(SPRING, 276), (AUTUMN, 300)])
def test_clock_change_days_keep_every_row_once_in_elapsed_order(tmp_path, day, count, kind):
    times = [t for i in (-1, 0, 1) for t in eastern_day(day + DAY * i)]
    assert len(times) == count + 576
    values = wave(len(times))
    write = report if kind == "report" else plain
    bounds = [0, 288, 288 + count, 576 + count]
    demand = read(
        [write(tmp_path / f"{a}.csv", times[a:b], values[a:b]) for a, b in pairwise(bounds)]
    )
    np.testing.assert_array_equal(demand.values, values)
    expect_times(demand, times)
    assert np.all(np.diff(demand.elapsed) > 0)
    (word,) = demand.repairs
    assert word.startswith(f"clock change on {day:%Y-%m-%d}")
    assert "interpolated" not in demand.source


def test_both_changes_of_a_year_hourly(tmp_path):
    days = [datetime(2018, 3, 10) + DAY * i for i in range(241)]
    times = [t for day in days for t in eastern_day(day, 60)]
    values = wave(len(times))
    demand = read([plain(tmp_path / "a.csv", times, values)])
    assert len(times) == 241 * 24  # one hour less, one more
    np.testing.assert_array_equal(demand.values[::12], values)
    expect_times(demand, [t + timedelta(minutes=m) for t in times for m in range(0, 60, 5)])
    assert [word.split(":")[0] for word in demand.repairs[:2]] == [
        "clock change on 2018-03-11",
        "clock change on 2018-11-04",
    ]


def test_autumn_rows_sorted_by_clock_and_autumn_day_given_twice(tmp_path):
    times, values = eastern_day(AUTUMN), wave(300)
    order = sorted(range(300), key=lambda i: times[i])  # stable: 01:00, 01:00, 01:05, 01:05, ...
    path = plain(tmp_path / "a.csv", [times[i] for i in order], values[order])
    np.testing.assert_array_equal(read([path]).values, values)
    demand = read([path, plain(tmp_path / "b.csv", times, values)])
    np.testing.assert_array_equal(demand.values, values)
    assert "repeated rows of b.csv dropped: 300" in demand.repairs[-1]


def test_gaps_next_to_a_clock_change_are_still_gaps(tmp_path):
    times, values = eastern_day(SPRING), wave(276)
    gone = [23, 24]  # 01:55 and 03:00
    path = report(tmp_path / "a.csv", np.delete(np.array(times), gone), np.delete(values, gone))
    demand = read([path])
    expect_times(demand, times)
    assert (
        "2 missing five-minute rows between 2018-03-11 01:50:00 and 2018-03-11 03:05"
        in demand.repairs[1]
    )
    times, values = eastern_day(AUTUMN), wave(300)
    path = report(
        tmp_path / "b.csv", np.delete(np.array(times), 30), np.delete(values, 30)
    )  # second 01:30
    demand = read([path])
    expect_times(demand, times)
    assert demand.values[30] == pytest.approx((values[29] + values[31]) / 2)


def test_duplicate_on_an_autumn_day_is_still_a_duplicate(tmp_path):
    times, values = steps(288, start=AUTUMN), wave(288)  # a clock that does not change
    path = plain(tmp_path / "a.csv", [*times, times[13]], [*values, values[13]])
    demand = read([path])
    np.testing.assert_array_equal(demand.values, values)
    assert any("no clock change in the rows of 2018-11-04" in word for word in demand.repairs)
    assert any("repeated rows of a.csv dropped: 1" in word for word in demand.repairs)
    path = plain(
        tmp_path / "b.csv", [*times[:14], times[13], *times[14:]], [*values[:14], 1e4, *values[14:]]
    )
    with pytest.raises(ValueError, match=r"got 10000\.0 at 2018-11-04 01:05:00"):
        read([path])


@pytest.mark.parametrize(
    ("order", "word"),
    [
        (np.r_[:13, 14, 13, 15:288], "not in time order"),  # 01:10 before 01:05: no second pass
        (
            np.r_[:288, 12:24],
            "repeated rows of a.csv dropped: 12",
        ),  # the hour pasted again at the end
        (np.r_[:13, 12], "repeated rows of a.csv dropped: 1,"),  # ends on a repeated 01:00
    ],
)
def test_disorder_in_the_autumn_hour_is_no_clock_change(tmp_path, order, word):
    times, values = steps(288, start=AUTUMN), wave(288)
    demand = read([plain(tmp_path / "a.csv", [times[i] for i in order], values[order])])
    np.testing.assert_array_equal(demand.values, values[: order.max() + 1])
    assert any(word in repair for repair in demand.repairs)
    assert not any(repair.startswith("clock change") for repair in demand.repairs)


@pytest.mark.parametrize("minutes", [5, 60])
def test_autumn_file_that_runs_backwards_is_refused(tmp_path, minutes):
    times = eastern_day(AUTUMN, minutes)[::-1]
    with pytest.raises(ValueError, match="at 2018-11-04 01:00:00; expected"):
        read([plain(tmp_path / "a.csv", times, wave(len(times)))])


def test_report_without_the_second_autumn_hour_lacks_it(tmp_path):
    times, values = steps(288, start=AUTUMN), wave(288)
    demand = read([report(tmp_path / "a.csv", times, values)])
    assert len(demand.values) == 300
    expect_times(demand, eastern_day(AUTUMN))
    assert "12 missing five-minute rows" in demand.repairs[-1]


def test_report_with_the_spring_hour_is_refused_and_a_fixed_clock_is_not(tmp_path):
    times, values = steps(288, start=SPRING), wave(288)
    with pytest.raises(
        ValueError, match=r"a\.csv: got rows after 02:00 on 2018-03-11; expected none"
    ):
        read([report(tmp_path / "a.csv", times, values)])
    demand = read([plain(tmp_path / "b.csv", times, values)])
    np.testing.assert_array_equal(demand.values, values)
    (word,) = demand.repairs
    assert word.startswith("no clock change in the rows of 2018-03-11")


# -- refusals


@pytest.mark.parametrize(
    ("scale", "shift", "pattern"),
    [
        (1, -11000, "got -.*above zero"),
        (0, 0, "got 0 at .*above zero"),
        (1e-3, 0, "looks like GW; expected MW"),
        (1e3, 0, "looks like kW; expected MW"),
        (1e6, 0, "looks like W; expected MW"),
    ],
)
def test_values_that_cannot_be_mw(tmp_path, scale, shift, pattern):
    path = plain(tmp_path / "a.csv", steps(288), wave(288) * scale + shift)
    with pytest.raises(ValueError, match=rf"a\.csv: .*{pattern}"):
        read([path])


def test_mixed_units_in_one_series(tmp_path):
    small = wave(50) / 20  # a small grid: its kW stay below the limit for one file
    mw = plain(tmp_path / "mw.csv", steps(50), small)
    kw = plain(tmp_path / "kw.csv", steps(100)[50:], small * 1000)
    with pytest.raises(
        ValueError, match=r"mw\.csv: got 600 at 2018-04-24 00:00:00; expected a unit in line"
    ):
        read([mw, kw])


@pytest.mark.parametrize("text", ["nan", "", "inf", "n/a", "12,3"])
def test_values_that_are_not_numbers(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(
        f'time,mw\n2018-04-24 00:00,12000\n2018-04-24 00:05,"{text}"\n2018-04-24 00:10,12000\n'
    )
    with pytest.raises(ValueError, match=r"a\.csv line 3: got value .*; expected a number of MW"):
        read([path])


@pytest.mark.parametrize(
    "text", ["24/04/2018 00:05", "2018-04-24 00:05Z", "2018-04-24 00:05:00.5", "noon"]
)
def test_times_that_cannot_be_read(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(f"2018-04-24 00:00,12000\n{text},12000\n")
    with pytest.raises(ValueError, match=r"a\.csv line 2: got time .*; expected YYYY-MM-DD"):
        read([path])


@pytest.mark.parametrize("name", ["load_kw", "Demand (GW)", "kWh"])
def test_header_with_another_unit(tmp_path, name):
    with pytest.raises(ValueError, match=r"line 1: got a column called .*; expected values in MW"):
        read([plain(tmp_path / "a.csv", steps(9), wave(9), f"time,{name}\n")])


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        (b"", "got an empty file"),
        (b"\xef\xbb\xbf\r\n \r\n,,\n", "got an empty file"),
        (b"time,mw\n", "got a header and no rows"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not UTF-8 text"),
        (b"PK\x03\x04\x00\x00", "got binary data"),
        (b'2018-04-24 00:00,12000\n"2018-04-24 00:05,12000\n', "got a broken row"),
        (b"2018-04-24 00:00;12000\n", "line 1: got 1 columns; expected two"),
        (b"2018-04-24 00:00,1,12000\n", "line 1: got 3 columns; expected two"),
        (b"2018-04-24 00:00,12000\n", "got a single time"),
        (
            b"2018-04-24 00:00,12000\n2018-04-24 00:10,12000\n",
            "got rows 10 minutes apart; expected",
        ),
        (b"2018-04-24,12000\n2018-04-25,12000\n", "got rows 1440 minutes apart"),
    ],
)
def test_files_that_are_not_demand(tmp_path, content, pattern):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.csv.*{pattern}"):
        read([path])


def test_missing_file_directory_and_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.csv: no such file; expected"):
        read([tmp_path / "gone.csv"])
    with pytest.raises(ValueError, match="got a directory"):
        read([tmp_path])
    with pytest.raises(ValueError, match="paths: got no file"):
        read([])


def test_files_of_different_resolution_or_phase(tmp_path):
    five = plain(tmp_path / "five.csv", steps(288), wave(288))
    hour = plain(tmp_path / "hour.csv", steps(24, 60, PLAIN_DAY + DAY), wave(24))
    with pytest.raises(
        ValueError, match=r"hour\.csv: got hourly rows; expected five-minute as in .*five"
    ):
        read([five, hour])
    late = plain(
        tmp_path / "late.csv", steps(9, start=PLAIN_DAY + timedelta(days=1, minutes=2)), wave(9)
    )
    with pytest.raises(
        ValueError, match=r"late\.csv: got a row at 2018-04-25 00:02:00 after one at"
    ):
        read([five, late])


def test_missing_day_between_reports_is_named(tmp_path):
    days = [PLAIN_DAY, PLAIN_DAY + 2 * DAY]
    paths = [report(tmp_path / f"{day:%d}.csv", steps(288, start=day), wave(288)) for day in days]
    with pytest.raises(
        ValueError, match=r"gap of 288 .* between 2018-04-24 23:55:00 and 2018-04-26 00:00"
    ):
        read(paths)


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"unit": "kW"}, r"got units \['Date/Time', 'kW'.*; expected MW for Native Load"),
        ({"count": 287}, r"got 20 D rows; expected 287, the count in the T row"),
        (
            {"names": ["Date/Time", "Total Load", "Load", "Asset"]},
            "expected one called 'Native Load'",
        ),
        (
            {"names": ["Date", "Total Load", "Native Load", "Asset"]},
            "expected one called 'Date/Time'",
        ),
    ],
)
def test_reports_that_are_not_as_described(tmp_path, change, pattern):
    with pytest.raises(ValueError, match=rf"a\.csv: .*{pattern}"):
        read([report(tmp_path / "a.csv", steps(20), wave(20), **change)])


@pytest.mark.parametrize(
    ("cut", "pattern"),
    [
        (lambda rows: [r for r in rows if r[0] != "D"], "report without D rows"),
        (lambda rows: rows[:-1], "no closing T row or several"),
        (lambda rows: rows + rows, "got 4 H rows"),
        (lambda rows: [*rows, rows[-1]], "no closing T row or several"),
        (lambda rows: [r for i, r in enumerate(rows) if i != 5], "got 1 H rows"),
        (lambda rows: [*rows[:9], "X,1,2", *rows[9:]], "line 10: got row code 'X'"),
        (
            lambda rows: [*rows[:9], rows[9].rsplit(",", 1)[0], *rows[10:]],
            "line 10: got 2 values; expected",
        ),
        (
            lambda rows: [*rows[:9], rows[9] + ",1,2,3", *rows[10:]],
            "line 10: got 6 values; expected",
        ),
    ],
)
def test_damaged_reports(tmp_path, cut, pattern):
    path = report(tmp_path / "a.csv", steps(20), wave(20), quote=False)
    path.write_text("\n".join(cut(path.read_text().splitlines())))
    with pytest.raises(ValueError, match=rf"a\.csv.*{pattern}"):
        read([path])


# -- real series, where they are at hand


def shared(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not at hand")
    return path


def test_real_five_minute_series():
    path = shared("caiso_5min_demand_20190424_20190503.csv")
    demand = read([path])
    np.testing.assert_array_equal(
        demand.values, np.loadtxt(path, delimiter=",", skiprows=1, usecols=1)
    )
    expect_times(demand, steps(2880, start=datetime(2019, 4, 24)))
    assert demand.repairs == ()
    assert "interpolated" not in demand.source


def test_real_three_column_series_is_read_by_the_names_of_its_columns(tmp_path):
    path = shared("isone_hourly_20180424_20180503.csv")
    rows = list(csv.reader(path.read_text().splitlines()))
    two = tmp_path / "two.csv"
    two.write_text("".join(f"{row[0]},{row[2]}\n" for row in rows))
    demand = read([two])
    np.testing.assert_array_equal(
        read([path]).values, demand.values
    )  # the second column is the hour, not MW
    np.testing.assert_array_equal(demand.values[::12], [float(row[2]) for row in rows[1:]])
    assert len(demand.values) == 2880
    assert "interpolated" in demand.source


def test_packaged_file_is_the_shared_one():
    assert PACKAGED.read_bytes() == shared(PACKAGED.name).read_bytes()

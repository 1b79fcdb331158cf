"""Demand series: every trap of the formats ends in an error that says where."""

import csv
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from taut.arena import demand as module
from taut.arena.demand import packaged, read, rescaled

SHARED = Path(__file__).parents[2] / "shared" / "data"
PACKAGED = Path(module.__file__).parent / "data" / "caiso_hourly_20180424_20180503.csv"
AUTUMN, PLAIN_DAY = datetime(2018, 11, 4), datetime(2018, 4, 24)
DAY = timedelta(days=1)


def wave(count, seed=0):
    return np.round(12000 + 2000 * np.sin(np.arange(count) / 40 + seed), 3)


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


def test_packaged_series_has_its_attribution_beside_it():
    text = PACKAGED.with_name("PROVENANCE.md").read_text()
    assert "Apache-2.0" in text
    assert "orbit-ml 1.1.4" in text
    assert "CAISO Total" in text


@pytest.mark.parametrize("header", ["time,demand_mw\n", "Date/Time,5min load\n"])
def test_plain_file_round_trip(tmp_path, header):
    values = wave(300)
    demand = read([plain(tmp_path / "load.csv", steps(300), values, header)])
    np.testing.assert_array_equal(demand.values, values)
    expect_times(demand, steps(300))
    assert demand.source == "load.csv, 2018-04-24 to 2018-04-25, five-minute"


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


# -- refusals


def test_what_does_not_follow_in_time_is_refused_with_its_line(tmp_path):
    times, values = steps(100), wave(100)
    autumn = steps(24, start=AUTUMN) + steps(30, start=AUTUMN + timedelta(hours=1))
    cases = {
        "a gap": (
            [*times[:40], *times[41:]],
            "line 42: got 2018-04-24 03:25 after 2018-04-24 03:1",
        ),
        "a repetition": ([*times[:10], *times[9:]], "line 12: got 2018-04-24 00:45 after"),
        "another order": (times[::-1], "line 3: got rows -5 minutes apart"),
        "the hour that comes twice": (autumn, "line 26: got 2018-11-04 01:00 after"),
    }
    for wrong, pattern in cases.values():
        path = plain(tmp_path / "a.csv", wrong, wave(len(wrong)))
        with pytest.raises(ValueError, match=rf"a\.csv {pattern}"):
            read([path])
    early = plain(tmp_path / "early.csv", times[:50], values[:50])
    late = plain(tmp_path / "late.csv", times[50:], values[50:])
    np.testing.assert_array_equal(read([early, late]).values, values)
    with pytest.raises(
        ValueError, match=r"early\.csv line 2: got .*; expected five-minute rows in"
    ):
        read([late, early])


@pytest.mark.parametrize(
    ("scale", "shift", "pattern"),
    [
        (1, -11000, "got value '-.*positive"),
        (0, 0, "got value '0.0'.*positive"),
        (1, -wave(288).min() + 1, "got 1.0 beside .*; expected one unit, MW"),
    ],
)
def test_values_that_cannot_be_mw(tmp_path, scale, shift, pattern):
    path = plain(tmp_path / "a.csv", steps(288), wave(288) * scale + shift)
    with pytest.raises(ValueError, match=rf"a\.csv .*{pattern}"):
        read([path])


@pytest.mark.parametrize("text", ["nan", "", "inf", "n/a", "12,3"])
def test_values_that_are_not_numbers(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(
        f'time,mw\n2018-04-24 00:00,12000\n2018-04-24 00:05,"{text}"\n2018-04-24 00:10,12000\n'
    )
    with pytest.raises(
        ValueError, match=r"a\.csv line 3: got value .*; expected a positive number"
    ):
        read([path])


@pytest.mark.parametrize("text", ["24/04/2018 00:05", "2018-04-24 00:05Z", "noon"])
def test_times_that_cannot_be_read(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(f"time,mw\n2018-04-24 00:00,12000\n{text},12000\n")
    with pytest.raises(ValueError, match=r"a\.csv line 3: got time .*; expected YYYY-MM-DD"):
        read([path])


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        (b"", "got the names"),
        (b"time,mw\n", "got 0 rows in 1 files"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "expected a CSV file"),
        (b"PK\x03\x04\x00\x00", "got the names"),
        (b'time,mw\n2018-04-24 00:00,12000\n"2018-04-24 00:05,12000\n', "expected a CSV file"),
        (b"2018-04-24 00:00,12000\n", "got the names"),
        (b"time,mw,load\n2018-04-24 00:00,1,12000\n", "got the names"),
        (b"time,mw\n2018-04-24 00:00,12000\n", "got 1 rows in 1 files"),
        (
            b"time,mw\n2018-04-24 00:00,12000\n2018-04-24 00:10,12000\n",
            "got rows 10 minutes apart; expected",
        ),
        (b"time,mw\n2018-04-24,12000\n2018-04-25,12000\n", "got rows 1440 minutes apart"),
    ],
)
def test_files_that_are_not_demand(tmp_path, content, pattern):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=pattern):
        read([path])


def test_missing_file_and_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.csv"):
        read([tmp_path / "gone.csv"])
    with pytest.raises(ValueError, match="paths: got 0 rows in 0 files"):
        read([])


def test_files_of_different_resolution_or_phase(tmp_path):
    five = plain(tmp_path / "five.csv", steps(288), wave(288))
    hour = plain(tmp_path / "hour.csv", steps(24, 60, PLAIN_DAY + DAY), wave(24))
    with pytest.raises(ValueError, match=r"hour\.csv line 3: got .*; expected five-minute rows"):
        read([five, hour])
    late = plain(
        tmp_path / "late.csv", steps(9, start=PLAIN_DAY + timedelta(days=1, minutes=2)), wave(9)
    )
    with pytest.raises(ValueError, match=r"late\.csv line 2: got 2018-04-25 00:02 after"):
        read([five, late])


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

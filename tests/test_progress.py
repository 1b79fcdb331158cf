"""Long work tells how far it is: with a line per minute in a log, with a bar in a terminal."""

import io
import sys
import threading

import pytest

from taut import progress
from taut.progress import Counter, counting


def test_a_line_says_how_much_is_done_and_how_long_the_rest_takes(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    counter, endless = Counter(100), Counter(None, "certifying")
    assert counter.line() == "0/100 cells"
    counter.skip(40)
    for _ in range(6):
        now[0] += 10.0
        counter.advance()
    assert counter.line() == "46/100 cells (40 from an earlier run), about 9 min left"
    assert endless.line() == "certifying, 60 s so far"
    assert [progress._duration(s) for s in (50, 700, 12_000)] == ["50 s", "12 min", "3 h 20 min"]


def test_a_log_is_written_while_nothing_is_finished(monkeypatch, capsys):
    written = threading.Event()
    write = progress._write
    monkeypatch.setattr(progress, "_write", lambda text: (write(text), written.set()))
    with counting(True, None, "certifying", every=0.001):
        assert written.wait(60)
    assert "certifying, 0 s so far" in capsys.readouterr().err.splitlines()
    written.clear()
    with counting(True, 7, "rounds", every=0.001) as counter:
        assert written.wait(60)
        counter.advance(7)
    assert capsys.readouterr().err.splitlines()[-1] == "7/7 rounds"
    with counting(True, 2_000, "rounds", address="http://here") as counter:
        counter.describe("toy")
        counter.advance(2_000)
    assert capsys.readouterr().err.splitlines() == [
        "Dask dashboard: http://here",
        "toy",
        "2,000/2,000 rounds",
    ]
    assert not any("tick" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize("total", [5, None])
def test_a_terminal_shows_a_bar(total, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with counting(None, total, "rounds") as counter:
        counter.skip(2)
        counter.advance(3)
        counter.describe("the last ones")
    assert "the last ones" in screen.getvalue()
    assert ("5/5" in screen.getvalue()) == (total == 5)


def test_nothing_is_shown_if_nobody_looks(capsys):
    for show in (None, False):
        with counting(show, 3) as counter:
            counter.describe("not shown")
            counter.advance()
        assert counter.played == 1
    assert capsys.readouterr().err == ""

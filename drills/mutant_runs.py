"""Runs tests against changed sources, each time in a new process, and says why they ended.

The processes are forked before JAX starts, because starting Python, JAX and pytest anew takes
longer than most tests. Only processor time is judged, so that a busy machine does not decide about
a change: a test that uses `SLOWEST` seconds of it counts as hanging, and so do processes that use
none for `WAITING` seconds. Whatever else takes too long stays undecided, and an undecided change
counts as not noticed.
"""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drills.mutant_tests import ROOT, Entered, functions_by_line

SLOWEST = 120
"""Seconds of processor time after which one test counts as hanging."""
WAITING = 300
"""Seconds after which processes that use no processor time count as hanging."""
LONGEST = 3600
"""Seconds after which nothing is known."""


@dataclass(frozen=True)
class Outcome:
    """How tests ended: "passed", "failed", "hangs" or "undecided", and the last test that was
    started, if any."""

    kind: str
    last: str | None = None


def copy_repository(folder: Path) -> None:
    """Copy the files of the working tree that git knows or would add."""
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


@dataclass
class Copy:
    """A copy of the repository in which sources are changed and tests are run."""

    folder: Path
    passed: list[list[str]] = field(default_factory=list)
    """Sequences of tests that passed without a change."""

    def noticed(self, module: str, source: str, tests: list[str]) -> tuple[bool, str]:
        """Return whether tests notice a change of a module, and the test that noticed it or the
        reason why none did.

        A test that fails is run again without the change, after the same tests as before. If it
        fails there too, it says nothing about the change and the others are asked.
        """
        path, tests = self.folder / "src" / "taut" / module, list(tests)
        original, times = path.read_text(), path.stat()
        while tests:
            path.write_text(source)
            os.utime(path, ns=(times.st_atime_ns, time.time_ns()))
            try:
                outcome = self.run(tests)
            finally:
                path.write_text(original)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            if outcome.kind in ("passed", "undecided"):
                return False, outcome.kind
            if self.pass_without_change(tests, outcome.last):
                return True, outcome.last or "import"
            if outcome.last is None:
                return False, "its tests cannot be loaded without the change either"
            tests.remove(outcome.last)
        return False, "no tests"

    def pass_without_change(self, tests: list[str], last: str | None) -> bool:
        """Return whether these tests up to the last one pass where nothing is changed."""
        first = tests[: tests.index(last) + 1 if last else 1]
        if not any(other[: len(first)] == first for other in self.passed):
            if self.run(tests, len(first)).kind != "passed":
                return False
            self.passed.append(first)
        return True

    def run(self, tests: list[str], number: int | None = None) -> Outcome:
        """Run tests in this order until one fails, or the first ones of them."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "started"
            report.touch()
            kind = in_child(lambda: _run(self.folder, tests, number, report))
            started = report.read_text().splitlines()
        return Outcome(kind, started[-1] if started else None)

    def record(self, file: str) -> Entered:
        """Play a test file without a change and return what its tests enter, without those that
        fail."""
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "entered.json"
            in_child(lambda: _record(self.folder, file, target))
            return json.loads(target.read_text()) if target.exists() else {}


def in_child(function: Callable[[], int]) -> str:
    """Call a function in a child process without output and return how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()  # so that processes of the tests can be ended with it
            quiet = os.open(os.devnull, os.O_RDWR)
            for handle in (0, 1, 2):
                os.dup2(quiet, handle)
            code = function()
        finally:
            os._exit(code)
    kind = _watched(child)
    os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if kind:
        return kind
    code = os.waitstatus_to_exitcode(status)
    return {0: "passed", 5: "passed", -signal.SIGXCPU: "hangs", -signal.SIGKILL: "undecided"}.get(
        code, "failed"
    )


def _watched(child: int) -> str | None:
    """Wait until a process ends, and return None; or why it is not waited for any longer."""
    begin = idle_since = time.monotonic()
    used = 0.0
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        now = time.monotonic()
        if now - idle_since > WAITING / 10 and (seconds := _processor_time(child)) is not None:
            if seconds > used + 0.5:
                used, idle_since = seconds, now
            elif now - idle_since > WAITING:
                return "hangs"
        if now - begin > LONGEST:
            return "undecided"
        time.sleep(0.05)
    return None


def _processor_time(session: int) -> float | None:
    """Return the seconds of processor time of the processes of a session, or None where the system
    does not say it."""
    total, found = 0, False
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session:
            total, found = total + sum(map(int, fields[11:15])), True
    return total / os.sysconf("SC_CLK_TCK") if found else None


def _pytest(folder: Path, arguments: list[str], plugin: object) -> int:
    import pytest

    os.environ["PYTHONPATH"] = str(folder / "src")
    sys.path[:0] = [str(folder / "src"), str(folder)]
    os.chdir(folder)
    without = [
        word
        for name in ("cacheprovider", "xdist", "hypothesispytest")
        for word in ("-p", f"no:{name}")
    ]  # slow to load
    return int(pytest.main(["-q", *without, *arguments], plugins=[plugin]))


class _Order:
    """Keeps the chosen tests in the chosen order, gives each its processor time, and writes down
    which were started."""

    def __init__(self, tests: list[str], number: int | None, report: Path) -> None:
        self.place = {test: index for index, test in enumerate(tests[:number])}
        self.report = report
        self.limit()

    @staticmethod
    def limit() -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(
            resource.RLIMIT_CPU,
            (math.ceil(used.ru_utime + used.ru_stime) + SLOWEST, resource.RLIM_INFINITY),
        )

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place),
            key=lambda item: self.place[item.nodeid],
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.limit()
        with self.report.open("a") as file:
            file.write(f"{nodeid}\n")


def _run(folder: Path, tests: list[str], number: int | None, report: Path) -> int:
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))
    return _pytest(folder, ["-x", *files], _Order(tests, number, report))


class _Recorder:
    """Writes down which functions each test enters."""

    def __init__(self, sources: Path) -> None:
        import coverage

        self.sources, self.seconds, self.failed = sources, dict[str, float](), set[str]()
        self.coverage = coverage.Coverage(
            data_file=None, source=[str(sources / "taut")], config_file=False
        )
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = round(
            self.seconds.get(report.nodeid, 0.0) + report.duration, 2
        )
        if report.failed:
            self.failed.add(report.nodeid)

    def entered(self) -> Entered:
        """Return the map of the tests that passed."""
        self.coverage.stop()
        data = self.coverage.get_data()
        found = {test: set[str]() for test in self.seconds if test not in self.failed}
        for path in data.measured_files():
            module = Path(path).relative_to(self.sources / "taut").as_posix()
            inside = functions_by_line(Path(path).read_text())
            for line, tests in data.contexts_by_lineno(path).items():
                for test in tests:
                    if test in found and line in inside:
                        found[test].add(f"{module}:{inside[line]}")
        return {
            test: {"seconds": self.seconds[test], "entered": sorted(names)}
            for test, names in found.items()
        }


def _record(folder: Path, file: str, target: Path) -> int:
    recorder = _Recorder(folder / "src")
    code = _pytest(folder, [f"tests/{file}"], recorder)
    target.write_text(json.dumps(recorder.entered()))
    return code

"""Which tests are run against a change of a module, in which order, and whether one of them fails.

Each test file is played once without a change, and the functions that each test enters and its duration are written down
(`Map`). Against a change, tests that entered no function of the module are left out, and those that entered the changed function
come first, the fastest before the others. Compiled programs are shared between tests, so a test can depend on a function that
an earlier test entered for it: the remaining tests of the module follow.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SLOWEST = 120
"""Seconds of processor time after which tests count as hanging, which is noticed too."""

GOLDEN = "learners/test_golden_guarantees.py"
BOUNDS = "learners/bounds/test_{}.py"
TESTS: dict[str, tuple[str, ...]] = {
    "storage.py": ("test_storage.py", "play/test_checkpoint.py"),
    "files.py": ("test_files.py", "learners/test_doubling.py"),
    "play/run_file.py": ("test_storage.py", "play/test_run.py"),
    "play/checkpoint.py": ("play/test_checkpoint.py",),
    "play/totals.py": ("play/test_totals.py", "play/test_player.py"),
    "judge/certificate.py": ("judge/test_rows.py", "judge/test_regret.py", "judge/test_certificate.py"),
    "learners/announced.py": ("play/test_announced.py",),
    "learners/base.py": (GOLDEN, "learners/test_registry.py", "test_bad_input.py"),
    "learners/card.py": (GOLDEN, "learners/test_registry.py", "test_cli.py"),
    "learners/estimates.py": ("learners/test_bandit.py", "learners/test_averaged.py"),
    "learners/registry.py": ("learners/test_registry.py", "learners/test_adding_a_learner.py"),
    "learners/schedules.py": (GOLDEN, "test_bad_input.py", "test_pytrees.py", "learners/test_clipped_ogd.py"),
    "learners/cuts.py": ("learners/test_half_space.py",),
    "learners/joint_projection.py": ("learners/test_half_space.py",),
    "learners/half_space_guarantees.py": (GOLDEN, BOUNDS.format("half_space_bounds")),
    **{
        f"learners/{name}.py": (GOLDEN, f"learners/test_{name}.py")
        for name in (
            "averaged", "bandit", "block_frank_wolfe", "bounded_game", "clipped_ogd", "cvv_pro", "delay_tolerant", "doubling",
            "drift_plus_penalty", "dual_mirror", "half_space", "no_slater", "projected_ogd", "recoo", "saddle_point",
            "step_experts", "surrogate", "yu_neely",
        )
    },
    **{
        f"learners/bounds/{name}.py": (GOLDEN, BOUNDS.format("bound_arguments"), *others)
        for name, others in {
            "averaged": ("learners/test_averaged.py",),
            "bandit": ("learners/test_bandit.py",),
            "block_frank_wolfe": ("learners/test_block_frank_wolfe.py",),
            "bounded_game": ("learners/test_bounded_game.py",),
            "clipped_ogd": (BOUNDS.format("clipped_ogd_bounds"), BOUNDS.format("cancellation")),
            "clipped_ogd_strong": (BOUNDS.format("clipped_ogd_bounds"),),
            "conversions": (BOUNDS.format("baseline_bounds"),),
            "drift_plus_penalty": (BOUNDS.format("baseline_bounds"),),
            "dual_mirror": ("learners/test_dual_mirror.py",),
            "error_bound": (BOUNDS.format("cancellation"), BOUNDS.format("clipped_ogd_bounds")),
            "half_space": (BOUNDS.format("half_space_bounds"),),
            "kept_cuts": (BOUNDS.format("half_space_bounds"),),
            "moving": (BOUNDS.format("moving"),),
            "optimal_parameters": (BOUNDS.format("optimal_parameters"),),
            "peak": (BOUNDS.format("baseline_bounds"), BOUNDS.format("clipped_ogd_bounds")),
            "projected_ogd": (BOUNDS.format("baseline_bounds"),),
            "saddle_point": (BOUNDS.format("baseline_bounds"),),
            "smooth_half_space": (BOUNDS.format("half_space_bounds"),),
            "step_experts": ("learners/test_step_experts.py",),
            "step_sums": (BOUNDS.format("cancellation"), BOUNDS.format("clipped_ogd_bounds")),
            "surrogate": ("learners/test_surrogate.py",),
            "theorem": (BOUNDS.format("baseline_bounds"),),
            "yu_neely": ("learners/test_yu_neely.py",),
        }.items()
    },
}  # fmt: skip
"""The files of tests that exercise a module."""

Entered = dict[str, dict[str, Any]]
"""By test: its duration in seconds, and the functions it entered as "module:line of def"."""


def function_lines(code: str) -> dict[int, int]:
    """Return for each line inside a function the line of the innermost function's def."""
    found: dict[int, int] = {}
    for node in ast.walk(ast.parse(code)):  # outer before inner
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for line in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1):
                found[line] = node.lineno
    return found


@dataclass
class Map:
    """What each test enters and how long it takes, kept in a file. It decides the order of tests and what is left out."""

    path: Path
    sources: Path
    known: dict[str, Entered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path.exists():
            self.known = json.loads(self.path.read_text())

    def of(self, file: str) -> Entered:
        """Return the entry of a test file, and play it once if there is none. Raises RuntimeError if a test fails."""
        key = f"{file} {hashlib.sha256((ROOT / 'tests' / file).read_bytes()).hexdigest()[:16]}"
        if key not in self.known:
            target = self.path.with_suffix(".new")
            target.unlink(missing_ok=True)
            if in_child(lambda: _record(file, self.sources, target)) != 0 or not target.exists():
                raise RuntimeError(f"tests/{file} fails without any change")
            self.known[key] = json.loads(target.read_text())
            target.unlink()
            self.path.write_text(json.dumps(self.known))
        return self.known[key]

    def order(self, module: str, line: int) -> list[str]:
        """Return the tests of a module, first those that entered the function that contains a line."""
        changed = f"{module}:{function_lines((self.sources / 'taut' / module).read_text()).get(line)}"
        ranked = []
        for file in TESTS[module]:
            for test, entry in self.of(file).items():
                if any(name.startswith(f"{module}:") for name in entry["entered"]):
                    ranked.append((changed not in entry["entered"], entry["seconds"], test))
        return [test for *_, test in sorted(ranked)]


def noticed(tests: list[str], sources: Path) -> bool:
    """Run tests against these sources in a child process, in this order, until one fails. Returns whether one did."""
    return in_child(lambda: _run(tests, sources)) != 0


def in_child(function: Callable[[], int]) -> int:
    """Call a function in a child process without output and return its exit code. A process that hangs counts as failed."""
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
    end = time.monotonic() + 10 * SLOWEST  # a process that waits uses no processor time
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 1


def _prepare(sources: Path) -> None:
    os.environ["PYTHONPATH"] = str(sources)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(sources.parent / "hypothesis")
    sys.path.insert(0, str(sources))
    sys.dont_write_bytecode = True  # two changes of equal length in one second would share their bytecode
    os.chdir(ROOT)


def _pytest(arguments: list[str], plugin: object) -> int:
    import pytest

    return int(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments], plugins=[plugin]))


class _Order:
    """Keeps the chosen tests, in the chosen order."""

    def __init__(self, tests: list[str]) -> None:
        self.place = {test: index for index, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place), key=lambda item: self.place[item.nodeid]
        )


def _run(tests: list[str], sources: Path) -> int:
    _prepare(sources)
    resource.setrlimit(resource.RLIMIT_CPU, (SLOWEST, SLOWEST + 5))
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))
    return _pytest(["-x", *files], _Order(tests))


class _Recorder:
    """Writes down which functions each test enters."""

    def __init__(self, sources: Path) -> None:
        import coverage

        self.sources, self.seconds = sources, dict[str, float]()
        self.coverage = coverage.Coverage(data_file=None, source=[str(sources / "taut")], config_file=False)
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = round(self.seconds.get(report.nodeid, 0.0) + report.duration, 2)

    def entered(self) -> Entered:
        """Return the map of what was played."""
        self.coverage.stop()
        data, found = (
            self.coverage.get_data(),
            {test: {"seconds": s, "entered": set[str]()} for test, s in self.seconds.items()},
        )
        for path in data.measured_files():
            module = Path(path).relative_to(self.sources / "taut").as_posix()
            inside = function_lines(Path(path).read_text())
            for line, tests in data.contexts_by_lineno(path).items():
                for test in tests:
                    if test in found and line in inside:
                        found[test]["entered"].add(f"{module}:{inside[line]}")
        return {test: {**entry, "entered": sorted(entry["entered"])} for test, entry in found.items()}


def _record(file: str, sources: Path, target: Path) -> int:
    _prepare(sources)
    recorder = _Recorder(sources)
    code = _pytest([f"tests/{file}"], recorder)
    target.write_text(json.dumps(recorder.entered()))
    return code

"""Short versions of `make drill` and `make fuzz`, and what the mutation drill decides."""

import subprocess
import sys
from pathlib import Path

import pytest
from drills import fuzz, mutant_runs, mutant_tests, sequences, versions
from drills.children import Tries

SHORT = ("limited-files", "torn-files", "simulation")
"""One drill of each kind: a write that fails, a damaged file, and a killed process."""


def test_nothing_is_lost_in_a_short_crash_drill():
    done = subprocess.run(
        [sys.executable, "-m", "drills.crash", "--kills", "1", "--only", *SHORT],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("nothing was lost\n")
    assert done.stderr == ""


def test_a_drill_ends_in_time_but_tries_once():
    assert list(Tries(100, 0.0)) == [1]
    assert list(Tries(3, 1e9)) == [1, 2, 3]
    assert list(Tries(3, 1e9).part(20)) == [1]


def test_wrong_arguments_get_clear_errors():
    clear, unclear = fuzz.fuzz(400, seed=1)
    assert clear > 200
    assert unclear.total() <= 400 * fuzz.ALLOWED, unclear


def test_sequences_of_calls_are_what_their_replay_is():
    late_and_plain = sequences.cases()[1:]
    assert [sequences.sequence(case, 14, seed=2) for case in late_and_plain] == [[], []]


def test_the_fuzzer_notices_an_unclear_error(monkeypatch):
    monkeypatch.setattr(
        fuzz, "targets", lambda: {"int": (lambda text: int(text) + 1, {"text": "3"})}
    )
    clear, unclear = fuzz.fuzz(50, seed=0)
    assert clear == 0
    assert unclear.total() > 20


def test_every_dependency_declares_its_lowest_version():
    names = [requirement.partition("==")[0] for requirement in versions.lowest()]
    assert {"jax", "jaxlib", "numpy", "cvxpy", "pytest"} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("with_change", "without", "noticed"),
    [
        ([("failed", "b")], ["passed"], (True, "b")),
        ([("hangs", "a")], ["passed"], (True, "a")),
        ([("failed", "a"), ("passed", None)], ["failed"], (False, "passed")),
        ([("failed", "a"), ("failed", "b")], ["failed", "passed"], (True, "b")),
        ([("undecided", "a")], [], (False, "undecided")),
        (
            [("failed", None)],
            ["failed"],
            (False, "its tests cannot be loaded without the change either"),
        ),
    ],
)
def test_a_change_is_noticed_only_by_tests_that_pass_without_it(
    tmp_path, monkeypatch, with_change, without, noticed
):
    source = tmp_path / "src" / "taut" / "a.py"
    source.parent.mkdir(parents=True)
    source.write_text("original")
    answers = {
        "changed": [mutant_runs.Outcome(*one) for one in with_change],
        "original": list(map(mutant_runs.Outcome, without)),
    }
    monkeypatch.setattr(mutant_runs.Copy, "run", lambda *_: answers[source.read_text()].pop(0))
    assert mutant_runs.Copy(tmp_path).noticed("a.py", "changed", ["a", "b"]) == noticed
    assert answers == {"changed": [], "original": []}
    assert source.read_text() == "original"


CHILDREN = """
import os, signal, time
from drills import mutant_runs
mutant_runs.WAITING = 0.2
for function in (
    lambda: 0, lambda: 1, lambda: 5, lambda: time.sleep(60),
    lambda: os.kill(os.getpid(), signal.SIGXCPU), lambda: os.kill(os.getpid(), signal.SIGKILL),
):
    print(mutant_runs.in_child(function))
"""


def test_children_say_how_they_ended():
    """In a process without JAX, which must not be forked."""
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", CHILDREN], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["passed", "failed", "passed", "hangs", "hangs", "undecided"]


def test_lines_belong_to_their_innermost_function():
    code = (
        "class A:\n    def f(self):\n        def g():\n            return 1\n        return g\nx "
        "= 1\n"
    )
    assert mutant_tests.functions_by_line(code) == {3: "A.f", 4: "A.f.g", 5: "A.f"}


def test_tests_of_modules_exist():
    root = Path(__file__).parent.parent
    for module, files in mutant_tests.TESTS.items():
        assert (root / "src" / "taut" / module).exists(), module
        for name in files:
            assert (root / "tests" / name).exists(), name

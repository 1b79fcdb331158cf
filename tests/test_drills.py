"""Short versions of `make drill` and `make fuzz`."""

import subprocess
import sys
from pathlib import Path

from drills import fuzz, versions
from drills.children import Tries


def test_nothing_is_lost_in_a_short_crash_drill():
    done = subprocess.run(
        [sys.executable, "-m", "drills.crash", "--kills", "2"],
        cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
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


def test_the_fuzzer_notices_an_unclear_error(monkeypatch):
    monkeypatch.setattr(fuzz, "targets", lambda: {"int": (lambda text: int(text) + 1, {"text": "3"})})
    clear, unclear = fuzz.fuzz(50, seed=0)
    assert clear == 0
    assert unclear.total() > 20


def test_every_dependency_declares_its_lowest_version():
    names = [requirement.partition("==")[0] for requirement in versions.lowest()]
    assert {"jax", "jaxlib", "numpy", "cvxpy", "pytest"} <= set(names)
    assert len(names) == len(set(names))

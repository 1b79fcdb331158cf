"""Python programs in processes of their own, for tests that would otherwise change the state of the
test process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run_in_single_precision(program: str) -> str:
    """The output of a program in which JAX has its default precision of 32 bits."""
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_optimised(*arguments: str, check: bool = True) -> str:
    """The output of Python in the root of the repository with these arguments, in code that XLA
    optimises as it does for users.

    The tests' own process switches optimisations off. If `check` is false, a program may end with
    an error that it printed itself; what it wrote to stderr is then part of the output.
    """
    left_out = ("XLA_FLAGS", "JAX_ENABLE_X64")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout + (done.stderr if done.returncode else "")

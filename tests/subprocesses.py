"""Python programs in processes of their own, for tests that would otherwise change the state of the
test process."""

import os
import subprocess
import sys


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

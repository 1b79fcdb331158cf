"""Settings that must be made before NumPy or JAX is imported (one core, one thread), and a
description of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
WHOLE_LOOPS = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=100000000"


def one_core() -> int:
    """Pin this process and its threads to one core, and limit BLAS and XLA to one thread."""
    for name in SINGLE:
        os.environ[name] = "1"
    if "xla_cpu_multi_thread_eigen" not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = (
            f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
        )
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def whole_loops() -> None:
    """Let XLA compile loops of other implementations into one function each, whatever their size.

    taut asks for that itself, for its own programs only. By default XLA dispatches each operation
    of a larger loop, which makes short rounds many times slower. Nothing is changed if the user has
    chosen such options.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {WHOLE_LOOPS}".strip()


def start(module: str, *arguments: str, cores: set[int] | None = None) -> str:
    """Run `python -m module` in a new process on the given cores (default: all) and return its
    output. XLA's options for other implementations are not passed on."""
    wanted = cores or set(range(os.cpu_count() or 1))
    widen = (
        f"import os, runpy, sys; os.sched_setaffinity(0, {wanted}); sys.argv = "
        f"{[module, *arguments]}; "
    )
    command = [
        sys.executable,
        "-c",
        f"{widen}runpy.run_module({module!r}, run_name='__main__', alter_sys=True)",
    ]
    environment = dict(os.environ)
    environment["XLA_FLAGS"] = environment.get("XLA_FLAGS", "").replace(WHOLE_LOOPS, "").strip()
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    ).stdout


def machine() -> dict[str, str]:
    """Describe the machine and the versions of the software."""
    import jax
    import numpy

    processor = platform.processor() or platform.machine()
    for line in (
        Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    ):
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
    compiler = subprocess.run(
        ["gcc", "--version"], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    return {
        "processor": f"{processor}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": numpy.__version__,
        "compiler": compiler[0] if compiler else "none",
    }

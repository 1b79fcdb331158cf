"""Peak memory and time of long simulations, with totals only and with records, each in its own
process."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import setting

SIMULATIONS = (
    (10**5, "totals"),
    (10**6, "totals"),
    (10**7, "totals"),
    (10**6, "loss and excess"),
    (10**6, "everything"),
)
RECORDS = {
    "totals": (),
    "loss and excess": ("loss", "excess"),
    "everything": ("loss", "excess", "decisions", "multipliers"),
}


def measure() -> list[dict[str, Any]]:
    """Return one row per simulation of the toy problem: rounds, recorded quantities, seconds, peak
    memory in bytes."""
    rows = []
    for rounds, recorded in SIMULATIONS:
        rows.append({"rounds": rounds, "recorded": recorded, **long_simulation(rounds, recorded)})
    return rows


def long_simulation(rounds: int, recorded: str = "totals") -> dict[str, float]:
    """Return seconds and bytes. Peak memory never decreases, so each simulation has its own
    process."""
    found: dict[str, float] = json.loads(setting.start("benchmarks.memory", str(rounds), recorded))
    return found


def _play(rounds: int, recorded: str) -> dict[str, float]:
    """Simulate with a stream that is generated chunk by chunk, so that only the memory of taut is
    measured."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import taut

    from . import cases

    case = cases.toy()
    block = case.data(1)[0][:16384]

    def chunk(start: int, length: int) -> np.ndarray[Any, Any]:
        return block[np.arange(start, start + length) % len(block)]

    record = RECORDS[recorded]
    taut.simulate(case.learner, case.problem, chunk, horizon=16384, record=record)
    began = time.perf_counter()
    run = taut.simulate(case.learner, case.problem, chunk, horizon=rounds, record=record)
    seconds = time.perf_counter() - began
    assert run.horizon == rounds
    return {"seconds": seconds, "bytes": peak()}


def peak() -> float:
    """Return the peak memory in bytes. On Linux `ru_maxrss` is inherited from the parent process
    and cannot be used."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024.0 * int(line.split()[1])
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print(json.dumps(_play(int(sys.argv[1]), sys.argv[2])))

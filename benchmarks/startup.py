"""Processor time of the import and of first calls, without and with the persistent compilation
cache, each in a new process."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time

from . import setting

LEARNERS = ("clipped-ogd-anytime", "clipped-ogd-doubling", "ogd", "a-ogd", "drift-plus-penalty")


def compile_times(repeats: int) -> dict[str, dict[str, float]]:
    """Return for each problem the processor time of the first call in a process, in seconds,
    without and with the persistent cache.

    The first call traces, compiles and simulates a few rounds; the time of a second call is
    subtracted.
    """
    cold: list[dict[str, float]] = []
    warm: list[dict[str, float]] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(json.loads(setting.start("benchmarks.startup", folder)))
            warm.append(json.loads(setting.start("benchmarks.startup", folder)))
    names = cold[0]
    return {
        name: {
            "compile": statistics.median(run[name] for run in cold),
            "from the cache": statistics.median(run[name] for run in warm),
        }
        for name in names
    }


def _measure(folder: str) -> dict[str, float]:
    setting.one_core()
    began = time.process_time()
    import jax

    jax.config.update("jax_enable_x64", True)
    import taut

    imported = time.process_time() - began
    taut.engine.cache(folder)
    from taut.problem.feasibility import check_feasible

    from . import cases

    simulations = [(case.name, case, case.learner) for case in cases.suite()]
    for case in cases.suite():
        default = case.with_method("half-space")
        simulations.append((f"{case.name}, half-space", default, default.learner))
    for case in (
        cases.toy(),
        cases.doubly_stochastic(30, 2000),
    ):  # the smallest problem, and the slowest to compile
        for name in LEARNERS:
            made = taut.LEARNERS[name].build(case.problem.constants, case.horizon, feasible=None)
            simulations.append((f"{case.name}, {name}", case, made))
    times = {"import taut": imported}
    for name, case, learner in simulations:
        data = case.draw(__import__("numpy").random.default_rng(0), 2)

        def call(learner=learner, case=case, data=data):  # type: ignore[no-untyped-def]
            return taut.simulate(learner, case.problem, data, x1=case.start)

        check_feasible(case.problem)
        times[name] = _took(call) - _took(call)
    return times


def _took(call) -> float:  # type: ignore[no-untyped-def]
    began = time.process_time()
    call()
    return time.process_time() - began


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))

"""`python -m benchmarks.sweeps`: what a sweep of 500 cells costs in threads, processes and on a
Dask cluster.

Every executor plays the same cells in a new process, with an empty compilation cache and with a
full one, and each time twice. The results must have the same bits. The overhead is measured with
cells of one round, which the same compiled programs play. Processor time is that of the process and
its workers: unlike the time on the clock it hardly depends on what else the machine does. A
queueing model, fitted to the measured rate of empty tasks, says how long tasks must take on 1,000
workers.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import heapq
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.sweeps.executors import Processes, Workers, as_workers

from . import setting

EXECUTORS = ("threads", "processes", "dask")
WORKERS = 2
HORIZON, SEEDS = 1000, 4
TARGET = 5.0
"""Milliseconds of processor time per cell of one round, at most."""


def linear(x: Any, z: Any) -> Any:
    return z @ x


def quadratic(x: Any, z: Any) -> Any:
    return 0.5 * jnp.sum((x - z) ** 2)


def diamond(x: Any) -> Any:
    return jnp.sum(jnp.abs(x)) - 1


def draw(seed: int, horizon: int, seeds: int) -> Any:
    """Return a stream of random points."""
    return np.random.default_rng(seed).normal(size=(seeds, horizon, 2))


def cells(count: int, horizon: int = HORIZON, seeds: int = SEEDS) -> list[taut.Cell]:
    """Return 2 problems x 5 methods x 5 parameters x 10 streams, or the first `count` of them,
    evenly chosen."""
    constants = taut.Constants(
        radius=1.5, loss_lipschitz=6.0, constraint_lipschitz=2**0.5, constraint_range=2.2
    )
    problems = [
        taut.Problem(loss, diamond, taut.Ball(1.5, shape=2), constants)
        for loss in (linear, quadratic)
    ]
    names = ("clipped-ogd", "drift-plus-penalty", "ogd-clipped", "recoo", "surrogate")
    streams = [functools.partial(draw, seed, horizon, seeds) for seed in range(10)]
    listed = []
    for problem in problems:
        for name in names:
            for factor in range(5):
                learner = taut.learner(name, problem, horizon=HORIZON + 100 * factor)
                listed += [
                    taut.Cell(learner, problem, stream, seeds=seeds, horizon=horizon)
                    for stream in streams
                ]
    return listed[:: max(1, len(listed) // count)]


def digest(found: taut.Sweep) -> str:
    """Return a checksum of all totals."""
    rows = [
        {name: value for name, value in row.items() if name not in ("seconds", "cell")}
        for row in found.rows()
    ]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def part(executor: str, count: int, cache: str) -> dict[str, Any]:
    """Measure one executor in this process."""
    jax.config.update("jax_enable_x64", True)
    taut.engine.cache(cache)
    listed, short = cells(count), cells(count, horizon=1)
    with running(executor) as workers:
        found: dict[str, Any] = {"cells": len(listed), "seconds": [], "processor": []}
        for _ in range(2):
            clock = Clock()
            result = taut.sweep(listed, workers, progress=False).check()
            found["seconds"].append(clock.seconds())
            found["processor"].append(clock.processor())
        found["digest"] = digest(result)
        with tempfile.TemporaryDirectory() as path:  # imports what writes the index
            taut.sweep(short[:4], workers, folder=path, progress=False).check()
        for name, folder in (("memory", False), ("files", True)):
            with tempfile.TemporaryDirectory() as path:
                clock = Clock()
                taut.sweep(short, workers, folder=path if folder else None, progress=False).check()
                found[f"ms per cell, {name}"] = clock.processor() / len(short) * 1e3
                found[f"ms per cell, {name}, clock"] = clock.seconds() / len(short) * 1e3
        clock = Clock()
        found["tasks per second"] = rate(as_workers(workers))
        found["processor ms per task"] = clock.processor() / TASKS * 1e3
    return found


class Clock:
    """Seconds since it was made: of time, and of the processors in this process and its workers."""

    def __init__(self) -> None:
        self.begun, self.used = time.perf_counter(), self._used()

    @staticmethod
    def _used() -> float:
        import psutil

        own = psutil.Process()
        times = [one.cpu_times() for one in (own, *own.children(recursive=True))]
        return sum(one.user + one.system for one in times)

    def seconds(self) -> float:
        """Return the time on the clock."""
        return time.perf_counter() - self.begun

    def processor(self) -> float:
        """Return processor time."""
        return self._used() - self.used


class running:
    """The executor of one name, started and warmed up."""

    def __init__(self, executor: str) -> None:
        self.executor = executor

    def __enter__(self) -> Any:
        self.cluster: Any = None
        if self.executor == "threads":
            return WORKERS
        if self.executor == "processes":
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            self.cluster = ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"))
            for future in [self.cluster.submit(_import) for _ in range(2 * WORKERS)]:
                future.result()
            return self.cluster
        from distributed import Client, LocalCluster

        self.cluster = LocalCluster(
            WORKERS, threads_per_worker=1, dashboard_address=None, silence_logs=50
        )
        self.client = Client(self.cluster)
        self.client.run(_import)
        return self.client

    def __exit__(self, *error: object) -> None:
        if self.executor == "processes":
            self.cluster.shutdown()
        elif self.executor == "dask":
            self.client.close()
            self.cluster.close()


def _import() -> str:
    time.sleep(0.2)  # so that every process gets one
    import taut

    return taut.engine.VERSION


def _nothing(number: int) -> int:
    return number


TASKS = 400


def rate(workers: Workers, count: int = TASKS) -> float:
    """Return how many empty tasks per second pass through an executor."""
    begun = time.perf_counter()
    for future in [workers.submit(_nothing, i) for i in range(count)]:
        future.result()
    took = time.perf_counter() - begun
    if isinstance(workers, Processes):
        workers.close()
    return count / took


def efficiency(
    workers: int, seconds: float, rate: float, each: int = 30, spread: float = 0.3, ahead: int = 2
) -> float:
    """Return the share of time in which workers are busy, in a model of one scheduler that serves
    tasks one by one.

    A worker holds at most `ahead` tasks; when it finishes one, it asks for the next, and waits for
    its turn.
    """
    rng = np.random.default_rng(0)
    lengths = np.maximum(rng.normal(seconds, spread * seconds, workers * each), 0.0)
    free = np.zeros(workers)
    scheduler, busy = 0.0, 0.0
    requests = [(0.0, w) for w in range(workers) for _ in range(ahead)]
    heapq.heapify(requests)
    for length in lengths:
        asked, worker = heapq.heappop(requests)
        scheduler = max(scheduler, asked) + 1 / rate
        free[worker] = max(free[worker], scheduler) + length
        busy += length
        heapq.heappush(requests, (free[worker], worker))
    return float(busy / (free.max() * workers))


def needed(workers: int, rate: float, share: float = 0.9) -> float:
    """Return how long tasks must take so that workers are busy for this share of the time."""
    low, high = 1e-4, 1e3
    for _ in range(20):
        middle = (low * high) ** 0.5
        low, high = (
            (middle, high) if efficiency(workers, middle, rate, each=20) < share else (low, middle)
        )
    return high


def main() -> int:
    """Print the tables."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--cells", type=int, default=500)
    words.add_argument("--json", action="store_true")
    words.add_argument("--part", choices=EXECUTORS, help=argparse.SUPPRESS)
    words.add_argument("--cache", help=argparse.SUPPRESS)
    asked = words.parse_args()
    if asked.part:
        print(json.dumps(part(asked.part, asked.cells, asked.cache)))
        return 0
    found: dict[str, Any] = {}
    for executor in EXECUTORS:
        with tempfile.TemporaryDirectory() as cache:
            for state in ("cold", "warm"):
                print(f"# {executor}, {state} cache", file=sys.stderr)
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.sweeps",
                    "--part",
                    executor,
                    "--cache",
                    cache,
                ]
                command += ["--cells", str(asked.cells)]
                done = subprocess.run(
                    command, cwd=setting.ROOT, check=True, text=True, stdout=subprocess.PIPE
                )
                found[f"{executor}, {state}"] = json.loads(done.stdout.splitlines()[-1])
    digests = {one.pop("digest") for one in found.values()}
    same = len(digests) == 1
    # A scheduler on a machine of its own needs about the processor time of a task; that of an idle
    # machine is not slower.
    measured = {
        executor: 1e3 / found[f"{executor}, warm"]["processor ms per task"]
        for executor in EXECUTORS[1:]
    }
    model = {
        f"{name}, {n} workers": needed(n, r)
        for name, r in measured.items()
        for n in (10, 100, 1000)
    }
    result = {
        "cells": asked.cells,
        "runs": found,
        "same bits": same,
        "seconds per task for 90 %": model,
    }
    path = Path(setting.ROOT) / "benchmarks" / "results" / "sweeps.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1) if asked.json else table(result))
    worst = max(one["ms per cell, files"] for one in found.values())
    return 0 if same and worst < TARGET else 1


def table(result: dict[str, Any]) -> str:
    """Return the results as tables in Markdown."""
    lines = [
        f"{result['cells']} cells, {WORKERS} workers; same bits everywhere: {result['same bits']}",
        "",
        "Seconds and milliseconds of processor time (on the clock), in all processes together:",
        "",
        "| executor, cache | first pass, s | second pass, s | ms per cell of 1 round | with "
        "files | ms per empty task | tasks/s |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, one in result["runs"].items():
        passes = [
            f"{used:.1f} ({took:.1f})"
            for used, took in zip(one["processor"], one["seconds"], strict=True)
        ]
        kinds = [
            f"{one[f'ms per cell, {kind}']:.1f} ({one[f'ms per cell, {kind}, clock']:.1f})"
            for kind in ("memory", "files")
        ]
        rest = [f"{one['processor ms per task']:.1f}", f"{one['tasks per second']:.0f}"]
        lines.append(f"| {' | '.join([name, *passes, *kinds, *rest])} |")
    lines += ["", "| executor, workers | seconds per task for 90 % |", "|---|---:|"]
    lines += [
        f"| {name} | {value:.2g} |" for name, value in result["seconds per task for 90 %"].items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

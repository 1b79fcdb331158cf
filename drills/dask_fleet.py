"""The drill of a fleet on a Dask cluster: kill workers at random moments, and report what was lost
or played twice.

Run: python -m drills.dask_fleet [--kills 30] [--seed 0]
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from typing import Any

import dask
import distributed
import numpy as np

import taut
from drills.fleets import MEMBERS, ROUNDS, reporting, reports
from drills.game import LEARNER, problem

WORKERS = 2
SETTINGS = {"distributed.admin.log-format": "", "distributed.worker.daemon": True}


def kill_one(cluster: Any, rng: random.Random, killed: list[int]) -> None:
    """Kill one of the cluster's workers, if another is there with which the drill goes on."""
    workers = cluster.workers.values()
    pids = [worker.pid for worker in workers if worker.status.name == "running" and worker.pid]
    if len(pids) > 1:
        killed.append(rng.choice(pids))
        os.kill(killed[-1], signal.SIGKILL)


def main() -> None:
    """Play until all kills are made, beside a fleet that nobody kills; compare both."""
    words = argparse.ArgumentParser(description="Kill workers that hold parts of a fleet.")
    words.add_argument("--kills", type=int, default=30)
    words.add_argument("--seed", type=int, default=0)
    asked = words.parse_args()
    failures: list[str] = []
    killed: list[int] = []
    t = 1
    cluster = distributed.LocalCluster(
        WORKERS, threads_per_worker=1, dashboard_address=None, silence_logs=50
    )
    with tempfile.TemporaryDirectory() as folder, cluster, distributed.Client(cluster) as client:
        alone = taut.Fleet(LEARNER, problem(), range(MEMBERS))
        fleet = taut.DaskFleet(client, LEARNER, problem(), range(MEMBERS), folder=folder, parts=4)
        rng, took = random.Random(asked.seed), 1.0
        while len(killed) < asked.kills and not failures:
            who, data = reporting(t), reports(t % ROUNDS)
            killer = threading.Timer(rng.uniform(0, 1.2) * took, kill_one, (cluster, rng, killed))
            if t % 2:  # the rounds between show how long one takes
                killer.start()
            began = time.monotonic()
            for each in (alone, fleet):
                each.observe(who, data[who])
                each.skip(np.setdiff1d(np.arange(MEMBERS), who))
            if t % 2:
                killer.join()
            else:
                took = time.monotonic() - began
            if not np.array_equal(alone.rounds(), fleet.rounds()):
                failures.append(f"round {t}: members are in other rounds")
            t += 1
            if len(cluster.workers) < WORKERS:  # Dask gives up a worker that is killed as it starts
                cluster.scale(WORKERS)
            if t % 2:
                print(f"round {t - 1}: {len(killed)} of {asked.kills} kills", flush=True)
        if not np.array_equal(alone.decisions(), fleet.decisions()):
            failures.append(f"round {t}: the decisions are others")
        if not np.array_equal(alone.totals().loss, fleet.totals().loss):
            failures.append(f"round {t}: the totals are others")
    print(f"fleet on Dask: {len(killed)} kills, {t - 1} rounds, {len(failures)} lost or doubled")
    for failure in failures:
        print(f"    {failure}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    with dask.config.set(SETTINGS):
        main()

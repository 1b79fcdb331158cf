"""Drills in which processes are killed at random moments, or work on the same files at once."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray

import taut
from drills.children import Tries, in_child
from drills.game import HORIZON, LEARNER, RECORD, data, leftovers, problem, simulated, summary
from taut.paper.reproduce import Options, reproduce

__all__ = ["player", "reproduction", "run_file", "simulation", "two_processes"]

ROUNDS = 400
"""Rounds of the player, which saves itself after each."""


def simulation(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Kill a simulation with a checkpoint, resume it, and so on. The result must be that of an
    uninterrupted one."""
    failures: list[str] = []
    began = time.monotonic()
    expected = in_child(lambda: summary(simulated(None)))
    took = time.monotonic() - began
    checkpoint, done, finished = folder / "checkpoint-0", 0, 0
    for attempt in tries:
        in_child(lambda place=checkpoint: simulated(place), kill_after=rng.uniform(0.3, 1.2) * took)
        now = progress(checkpoint)
        if now < done:
            failures.append(f"kill {attempt}: {done} rounds were on disk before it, {now} after it")
        done = now
        if done == HORIZON or not tries.left():
            if in_child(lambda place=checkpoint: summary(simulated(place))) != expected:
                failures.append(f"kill {attempt}: the resumed simulation ended with other numbers")
            finished += 1
            checkpoint, done = folder / f"checkpoint-{finished}", 0
    return failures


def progress(checkpoint: Path) -> int:
    """Return the number of rounds in a checkpoint."""
    path = checkpoint / "state.npz"
    return int(taut.storage.read_arrays(path)[0]["done"]) if path.exists() else 0


def player(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Kill a player that saves itself after every observation. All rounds that were saved must be
    in the file."""
    path, failures = folder / "player.npz", []
    began = time.monotonic()
    expected = in_child(decisions)
    took = time.monotonic() - began

    def play(saved: Callable[[int], None]) -> None:
        live = (
            taut.Player.load(path, problem()) if path.exists() else taut.Player(LEARNER, problem())
        )
        for z in data(ROUNDS)[live.round - 1 :]:
            live.observe(z, round=live.round)
            if live.round % 2:
                live.save(path)
            else:  # as a service would store it
                taut.storage.write_atomically(path, live.to_bytes(history=False))
            saved(live.round)

    def look() -> tuple[int, list[float]]:
        live = taut.Player.load(path, problem())
        return live.round, live.decision.tolist()

    for attempt in tries:
        acknowledged: list[int] = []
        in_child(play, kill_after=rng.uniform(0.5, 1.7) * took, heard=acknowledged)
        if not path.exists():
            continue
        now, decision = in_child(look)
        if acknowledged and now < acknowledged[-1]:
            failures.append(
                f"kill {attempt}: round {acknowledged[-1]} was saved, the file has round {now}"
            )
        if decision != expected[now - 1]:
            failures.append(f"kill {attempt}: the decision of round {now} is another one")
        if now > ROUNDS:
            path.unlink()
    return failures + leftovers(folder, {"player.npz"}, most=1)


def decisions() -> list[list[float]]:
    """Return the decisions of an uninterrupted player, round by round."""
    live, found = taut.Player(LEARNER, problem()), []
    for z in data(ROUNDS):
        found.append(live.decision.tolist())
        live.observe(z)
    return [*found, live.decision.tolist()]


def run_file(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Kill a process that writes one run over another. The file must always be one of the two."""
    path, failures, sources = folder / "run.nc", list[str](), folder / "sources"
    sources.mkdir()

    def prepare() -> set[str]:
        runs = [
            taut.simulate(LEARNER, problem(), data(50) * scale, record=RECORD) for scale in (1, 2)
        ]
        for k, run in enumerate(runs):
            run.save(sources / f"{k}.nc")
        return {summary(run) for run in runs}

    def write(times: int) -> None:
        runs = [taut.Run.load(sources / f"{k}.nc") for k in (0, 1)]
        for _ in range(times):
            for run in runs:
                run.save(path)

    expected = in_child(prepare)
    taut.Run.load(sources / "0.nc")  # children then need not import the readers of such files
    began = time.monotonic()
    in_child(lambda: write(2))
    took = time.monotonic() - began
    for attempt in tries:
        in_child(lambda: write(10**9), kill_after=rng.uniform(0.2, 2.0) * took)
        try:
            if summary(taut.Run.load(path)) not in expected:
                failures.append(f"kill {attempt}: the file has other numbers")
        except (ValueError, FileNotFoundError) as error:
            failures.append(f"kill {attempt}: {error}")
    return failures + leftovers(folder, {"run.nc", "sources"}, most=1)


def reproduction(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Kill the reproduction of an experiment. Finished results must stay, and the end must be that
    without kills."""
    if tries.most < 5:  # it takes long
        return []
    failures, done = list[str](), dict[str, str]()
    began = time.monotonic()
    expected = in_child(lambda: reproduced(folder / "whole"))
    took = time.monotonic() - began
    for attempt in tries.part(5):
        in_child(lambda: reproduced(folder / "killed"), kill_after=rng.uniform(0.2, 0.9) * took)
        now = in_child(lambda: results(folder / "killed"))
        if not done.items() <= now.items():
            failures.append(f"kill {attempt}: finished results were lost or changed")
        if not now.items() <= expected[0].items():
            failures.append(f"kill {attempt}: a file has other numbers than without kills")
        done = now
        if len(done) == len(expected[0]):
            shutil.rmtree(folder / "killed")
            done = {}
    if in_child(lambda: reproduced(folder / "killed")) != expected:
        failures.append("the resumed reproduction ended with other numbers or verdicts")
    return (
        failures + [f"a draft was left over: {path}" for path in folder.rglob(".taut-*.part")][1:]
    )


def reproduced(folder: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Run the shortest experiment. Returns what `results` does, and the verdicts."""
    jax.config.update("jax_enable_x64", True)  # as the command line does
    found = reproduce(["dispatch"], folder, Options(seeds=1, quick=True), progress=False)
    return results(folder), [(claim["id"], claim["verdict"]) for claim in found["claims"]]


def results(folder: Path) -> dict[str, str]:
    """Return a checksum of the numbers of every result file."""
    found = {}
    for path in sorted(folder.rglob("*.nc")):
        stored = xarray.load_dataset(path, engine="h5netcdf")
        numbers = {
            str(name): np.asarray(array)
            for name, array in stored.data_vars.items()
            if array.dtype.kind in "fiub"
        }
        found[path.relative_to(folder).as_posix()] = taut.storage.digest(numbers)
    return found


def two_processes(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Start two simulations on one folder. One is refused with a sentence, or waits for nothing;
    the result is right."""
    expected, failures = in_child(lambda: summary(simulated(None))), []

    def attempt(place: Path) -> str:
        try:
            return "right" if summary(simulated(place)) == expected else "wrong numbers"
        except RuntimeError as error:
            return "refused" if "is in use by another simulation" in str(error) else f"{error}"

    for number in tries.part(20):
        place = folder / str(number)
        results: list[Any] = [None, None]

        def start(index: int, place: Path = place, results: list[Any] = results) -> None:
            results[index] = in_child(lambda: attempt(place))

        threads = [threading.Thread(target=start, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if "right" not in results or not set(results) <= {"right", "refused"}:
            failures.append(f"{results}")
    return failures

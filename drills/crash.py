"""The crash drill: kill processes at random moments, tear files and fill the disk, and report what was lost.

Run: python -m drills.crash [--kills 100] [--seed 0]

Every child process is forked before JAX has started, because JAX does not work in a process that is forked later.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import taut

HORIZON, CHUNK, ROUNDS = 1500, 5, 400
LEARNER = taut.ClippedOGD(0.3, 5.0)
RECORD = ("loss", "excess", "decisions", "multipliers")


def main() -> None:
    """Run all drills and print what was lost."""
    words = argparse.ArgumentParser(description="Kill processes at random moments and report what was lost.")
    words.add_argument("--kills", type=int, default=100, help="kills per drill")
    words.add_argument("--seed", type=int, default=0)
    asked = words.parse_args()
    lost = 0
    compiled = tempfile.TemporaryDirectory()
    taut.engine.cache(compiled.name)  # children compile the same programs
    for drill in (simulation, player, run_file, torn_files, full_disk, two_processes):
        with tempfile.TemporaryDirectory() as folder:
            tries, failures = drill(Path(folder), asked.kills, random.Random(asked.seed))
        lost += len(failures)
        print(f"{drill.__name__.replace('_', ' '):<15} {tries:>5} tries, {len(failures)} lost", flush=True)
        for failure in failures[:5]:
            print(f"    {failure}", flush=True)
    compiled.cleanup()
    print("nothing was lost" if not lost else f"{lost} times something was lost", flush=True)
    sys.exit(1 if lost else 0)


def simulation(folder: Path, kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """Kill a simulation with a checkpoint, resume it, and so on. The result must be that of an uninterrupted one."""
    failures: list[str] = []
    began = time.monotonic()
    expected = in_child(lambda: summary(simulated(None)))
    took = time.monotonic() - began
    tries, finished = 0, 0
    while tries < kills:
        checkpoint, done = folder / f"checkpoint-{finished}", 0
        while tries < kills:
            tries += 1
            in_child(lambda place=checkpoint: simulated(place), kill_after=rng.uniform(0.3, 1.2) * took)
            now = progress(checkpoint)
            if now < done:
                failures.append(f"kill {tries}: {done} rounds were on disk before it, {now} after it")
            done = now
            if done == HORIZON:
                break
        found = in_child(lambda place=checkpoint: summary(simulated(place)))
        if found != expected:
            failures.append(f"kill {tries}: the resumed simulation ended with other numbers")
        finished += 1
    return tries, failures


def player(folder: Path, kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """Kill a player that saves itself after every observation. All rounds that were saved must be in the file."""
    path, failures = folder / "player.npz", []
    expected = in_child(decisions)

    def play(saved: Callable[[int], None]) -> None:
        live = taut.Player.load(path, problem()) if path.exists() else taut.Player(LEARNER, problem())
        for z in data(ROUNDS)[live.round - 1 :]:
            live.observe(z)
            live.save(path)
            saved(live.round)

    def look() -> tuple[int, list[float]]:
        live = taut.Player.load(path, problem())
        return live.round, live.decision.tolist()

    for attempt in range(1, kills + 1):
        acknowledged: list[int] = []
        in_child(play, kill_after=rng.uniform(0.5, 3.0), heard=acknowledged)
        if not path.exists():
            continue
        now, decision = in_child(look)
        if acknowledged and now < acknowledged[-1]:
            failures.append(f"kill {attempt}: round {acknowledged[-1]} was saved, the file has round {now}")
        if decision != expected[now - 1]:
            failures.append(f"kill {attempt}: the decision of round {now} is another one")
        if now > ROUNDS:
            path.unlink()
    return kills, failures + leftovers(folder, {"player.npz"}, most=1)


def run_file(folder: Path, kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """Kill a process that writes one run over another. The file must always be one of the two."""
    path, failures = folder / "run.nc", []

    def write() -> None:
        runs = [taut.simulate(LEARNER, problem(), data(50) * scale, record=RECORD) for scale in (1, 2)]
        while True:
            for run in runs:
                run.save(path)

    for attempt in range(1, kills + 1):
        in_child(write, kill_after=rng.uniform(1.0, 3.0))
        if path.exists():
            try:
                taut.Run.load(path)
            except ValueError as error:
                failures.append(f"kill {attempt}: {error}")
    return kills, failures + leftovers(folder, {"run.nc"}, most=1)


def torn_files(folder: Path, kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """Cut files at random lengths and flip bits. They must be refused, or load with the right numbers."""

    def tear() -> list[str]:
        failures = []
        taut.simulate(LEARNER, problem(), data(50), record=RECORD, checkpoint=folder / "checkpoint", chunk=10)
        run, live = taut.simulate(LEARNER, problem(), data(50), record=RECORD), taut.Player(LEARNER, problem())
        live.observe(data(1)[0])
        run.save(folder / "run.nc")
        live.save(folder / "player.npz")

        def load_player() -> Any:
            return taut.Player.load(folder / "player.npz", problem()).decision.tolist()

        readers: dict[Path, Callable[[], Any]] = {
            folder / "run.nc": lambda: summary(taut.Run.load(folder / "run.nc")),
            folder / "player.npz": load_player,
        }
        for name in ("state.npz", "records-30.npz"):
            readers[folder / "checkpoint" / name] = lambda: summary(
                taut.simulate(LEARNER, problem(), data(50), record=RECORD, checkpoint=folder / "checkpoint", chunk=10)
            )
        for path, read in readers.items():
            content, right = path.read_bytes(), read()
            for _ in range(kills):
                torn = bytearray(content)
                if rng.random() < 0.5:
                    torn = torn[: rng.randrange(len(torn))]
                else:
                    torn[rng.randrange(len(torn))] ^= 1 << rng.randrange(8)
                path.write_bytes(torn)
                try:
                    found = read()
                except (ValueError, FileNotFoundError):
                    continue
                if found != right:
                    failures.append(f"{path.name}: a damaged file was read as other numbers")
            path.write_bytes(content)
        return failures

    return 4 * kills, in_child(tear)


def full_disk(folder: Path, kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """Let writes fail at random sizes. The old file must stay, and the error must name it."""
    path = folder / "player.npz"

    def fill() -> list[str]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        failures = []
        live = taut.Player(LEARNER, problem())
        live.save(path)
        size = path.stat().st_size
        for z in data(kills):
            before = path.read_bytes()
            live.observe(z)
            resource.setrlimit(resource.RLIMIT_FSIZE, (rng.randrange(size), resource.RLIM_INFINITY))
            try:
                live.save(path)
                failures.append("a write beyond the limit succeeded")
            except OSError as error:
                if "player.npz cannot be written" not in str(error) or path.read_bytes() != before:
                    failures.append(f"{error}")
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return failures

    return kills, in_child(fill) + leftovers(folder, {"player.npz"}, most=0)


def two_processes(folder: Path, kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """Start two simulations on one folder. One is refused with a sentence, or waits for nothing; the result is right."""
    expected, failures = in_child(lambda: summary(simulated(None))), []
    tries = max(1, kills // 20)

    def attempt(place: Path) -> str:
        try:
            return "right" if summary(simulated(place)) == expected else "wrong numbers"
        except RuntimeError as error:
            return "refused" if "is in use by another simulation" in str(error) else f"{error}"

    for number in range(tries):
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
    return tries, failures


# What the drills share.


def problem() -> taut.Problem:
    """A small problem."""
    return taut.Problem(
        lambda x, z: 0.5 * jnp.sum((x - z) ** 2), lambda x: jnp.sum(jnp.abs(x)) - 1, taut.Ball(1.5, shape=2)
    )


def data(rounds: int) -> np.ndarray:
    """Points around the feasible set."""
    return np.random.default_rng(0).normal(size=(rounds, 2))


def simulated(checkpoint: Path | None) -> taut.Run:
    """Simulate in many small chunks."""
    return taut.simulate(LEARNER, problem(), data(HORIZON), record=RECORD, chunk=CHUNK, checkpoint=checkpoint)


def decisions() -> list[list[float]]:
    """Return the decisions of an uninterrupted player, round by round."""
    live, found = taut.Player(LEARNER, problem()), []
    for z in data(ROUNDS):
        found.append(live.decision.tolist())
        live.observe(z)
    return [*found, live.decision.tolist()]


def summary(run: taut.Run) -> str:
    """Return all numbers of a run as text."""
    arrays = [getattr(run, name) for name in (*RECORD, "final")] + list(vars(run.totals).values())
    return taut.storage.digest({str(i): np.asarray(array) for i, array in enumerate(arrays)})


def progress(checkpoint: Path) -> int:
    """Return the number of rounds in a checkpoint."""
    path = checkpoint / "state.npz"
    return int(taut.storage.read_arrays(path)[0]["done"]) if path.exists() else 0


def leftovers(folder: Path, wanted: set[str], most: int) -> list[str]:
    """Report files that should not be there: at most the draft of the last process that was killed."""
    found = sorted(file.name for file in folder.iterdir() if file.name not in wanted)
    return [] if len(found) <= most else [f"files were left over: {found}"]


def in_child(function: Callable[..., Any], kill_after: float | None = None, heard: list[int] | None = None) -> Any:
    """Call a function in a child process and return its result, or kill the process after a while and return None.

    With `heard`, the function gets a function that reports a number; numbers reported before the kill are in the list.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            if heard is None:
                with os.fdopen(writing, "wb") as pipe:
                    pickle.dump(function(), pipe)
            else:
                function(lambda number: os.write(writing, f"{number}\n".encode()))
        except BaseException as error:
            print(f"child: {type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(writing)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    if heard is not None:
        heard.extend(int(line) for line in content.split(b"\n")[:-1])
    if kill_after is not None:
        return None
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("a child process failed")
    return pickle.loads(content)


if __name__ == "__main__":
    main()

"""The crash drill: kill processes at random moments, tear files and fill the disk, and report what was lost.

Run: python -m drills.crash [--kills 100] [--minutes 20] [--only simulation] [--seed 0]

Every child process is forked before JAX has started, because JAX does not work in a process that is forked later.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray

import taut
from drills.children import Tries, in_child
from taut.paper.reproduce import Options, reproduce

HORIZON, CHUNK, ROUNDS = 1500, 5, 400
LEARNER = taut.ClippedOGD(0.3, 5.0)
RECORD = ("loss", "excess", "decisions", "multipliers")


def main() -> None:
    """Run all drills and print what was lost."""
    words = argparse.ArgumentParser(description="Kill processes at random moments and report what was lost.")
    words.add_argument("--kills", type=int, default=100, help="kills per drill")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--minutes", type=float, default=20, help="time for all drills together")
    words.add_argument("--only", choices=list(DRILLS), nargs="+", default=list(DRILLS), help="run only these drills")
    asked = words.parse_args()
    lost, end = 0, time.monotonic() + 60 * asked.minutes
    compiled = tempfile.TemporaryDirectory()
    taut.engine.cache(compiled.name)  # children compile the same programs
    for number, name in enumerate(asked.only):
        began = time.monotonic()
        tries = Tries(
            asked.kills, max(0.0, end - began) / (len(asked.only) - number)
        )  # what one leaves over, others may use
        with tempfile.TemporaryDirectory() as folder:
            failures = DRILLS[name](Path(folder), tries, random.Random(asked.seed))
        lost += len(failures)
        said = f"{tries.made:>5} of {tries.most} tries" if tries.made else "left out here"
        took = time.monotonic() - began
        print(f"{name.replace('-', ' '):<15} {said}, {len(failures)} lost, {took:.0f} s", flush=True)
        for failure in failures[:5]:
            print(f"    {failure}", flush=True)
    compiled.cleanup()
    took = (time.monotonic() - end) / 60 + asked.minutes
    print(f"{took:.1f} minutes; no try began after {asked.minutes:g} minutes, but the first of every drill", flush=True)
    print("nothing was lost" if not lost else f"{lost} times something was lost", flush=True)
    sys.exit(1 if lost else 0)


def simulation(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Kill a simulation with a checkpoint, resume it, and so on. The result must be that of an uninterrupted one."""
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


def player(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Kill a player that saves itself after every observation. All rounds that were saved must be in the file."""
    path, failures = folder / "player.npz", []
    began = time.monotonic()
    expected = in_child(decisions)
    took = time.monotonic() - began

    def play(saved: Callable[[int], None]) -> None:
        live = taut.Player.load(path, problem()) if path.exists() else taut.Player(LEARNER, problem())
        for z in data(ROUNDS)[live.round - 1 :]:
            live.observe(z)
            live.save(path)
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
            failures.append(f"kill {attempt}: round {acknowledged[-1]} was saved, the file has round {now}")
        if decision != expected[now - 1]:
            failures.append(f"kill {attempt}: the decision of round {now} is another one")
        if now > ROUNDS:
            path.unlink()
    return failures + leftovers(folder, {"player.npz"}, most=1)


def run_file(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Kill a process that writes one run over another. The file must always be one of the two."""
    path, failures, sources = folder / "run.nc", list[str](), folder / "sources"
    sources.mkdir()

    def prepare() -> set[str]:
        runs = [taut.simulate(LEARNER, problem(), data(50) * scale, record=RECORD) for scale in (1, 2)]
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
    """Kill the reproduction of an experiment. Finished results must stay, and the end must be that without kills."""
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
    return failures + [f"a draft was left over: {path}" for path in folder.rglob(".taut-*.part")][1:]


def torn_files(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Cut files at random lengths and flip bits. They must be refused, or load with the right numbers."""

    def tear() -> tuple[int, list[str]]:
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
        whole = [(path, path.read_bytes(), read(), read) for path, read in readers.items()]
        for _ in tries:
            for path, content, right, read in whole:
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
                finally:
                    path.write_bytes(content)
                if found != right:
                    failures.append(f"{path.name}: a damaged file was read as other numbers")
        return tries.made, failures

    tries.made, failures = in_child(tear, works=tries.seconds)  # the child counts
    return failures


def limited_files(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Let writes fail at random sizes. The old file must stay, and the error must name it."""
    path = folder / "player.npz"

    def fill() -> tuple[int, list[str]]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        failures = []
        live = taut.Player(LEARNER, problem())
        live.save(path)
        size = path.stat().st_size
        for _ in tries:
            before = path.read_bytes()
            live.observe(data(1)[0])
            resource.setrlimit(resource.RLIMIT_FSIZE, (rng.randrange(size), resource.RLIM_INFINITY))
            try:
                live.save(path)
                failures.append("a write beyond the limit succeeded")
            except OSError as error:
                if "player.npz cannot be written" not in str(error) or path.read_bytes() != before:
                    failures.append(f"{error}")
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return tries.made, failures

    tries.made, failures = in_child(fill, works=tries.seconds)
    return failures + leftovers(folder, {"player.npz"}, most=0)


def full_disk(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Fill a small disk in memory, where it can be mounted (as root). Old files must stay, and errors must name the file."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        return []
    fewer = tries.part(10)
    try:
        tries.made, failures = in_child(lambda: _fill(folder, fewer), works=tries.seconds)
        return failures
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(folder: Path, tries: Tries) -> tuple[int, list[str]]:
    """Write a player, a run, a checkpoint and a sweep to a disk that has no room left, and again when it has."""
    live, run = taut.Player(LEARNER, problem()), taut.simulate(LEARNER, problem(), data(50), record=RECORD)
    expected, failures = summary(run), []

    def checkpointed() -> None:
        found = taut.simulate(LEARNER, problem(), data(50), record=RECORD, chunk=10, checkpoint=folder / "checkpoint")
        if summary(found) != expected:
            failures.append("a simulation on a disk that was full ended with other numbers")

    def swept() -> None:
        cells = [taut.Cell(LEARNER, problem(), data(50) * k, name=str(k), record=RECORD) for k in (1, 2)]
        found = taut.sweep(cells, folder=folder / "sweep")
        if found.failed or summary(found["1"]) != expected:
            failures.append("a sweep on a disk that was full ended with other numbers")

    writes: dict[str, Callable[[], None]] = {
        "player.npz": lambda: live.save(folder / "player.npz"),
        "run.nc": lambda: run.save(folder / "run.nc"),
        "checkpoint": checkpointed,
        "sweep": swept,
    }
    for _ in tries:
        live.observe(data(1)[0])
        for name, write in writes.items():
            path = folder / name
            before = path.read_bytes() if path.is_file() else None
            filler = _filler(folder)
            try:
                write()
                failures.append(f"{name} was written to a full disk")
            except OSError as error:
                if str(path) not in str(error) or "No space left" not in str(error):
                    failures.append(f"{name}: {error}")
            if (path.read_bytes() if path.is_file() else None) != before:
                failures.append(f"{name}: the old file is gone")
            filler.unlink()
            write()
        shutil.rmtree(folder / "checkpoint")
        shutil.rmtree(folder / "sweep")
    return tries.made, failures + leftovers(folder, {"player.npz", "run.nc"}, most=0)


def _filler(folder: Path) -> Path:
    """Write a file that takes all room but less than a page."""
    path = folder / "filler"
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1024))
    return path


def two_processes(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Start two simulations on one folder. One is refused with a sentence, or waits for nothing; the result is right."""
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
            str(name): np.asarray(array) for name, array in stored.data_vars.items() if array.dtype.kind in "fiub"
        }
        found[path.relative_to(folder).as_posix()] = taut.storage.digest(numbers)
    return found


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


DRILLS: dict[str, Callable[[Path, Tries, random.Random], list[str]]] = {  # short ones first: others may use what they leave
    "limited-files": limited_files, "full-disk": full_disk, "two-processes": two_processes, "torn-files": torn_files,
    "run-file": run_file, "simulation": simulation, "player": player, "reproduction": reproduction,
}  # fmt: skip


if __name__ == "__main__":
    main()

"""Drills in which files are damaged, or cannot be written."""

from __future__ import annotations

import contextlib
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import taut
from drills.children import Tries, in_child
from drills.game import LEARNER, RECORD, data, leftovers, problem, summary

__all__ = ["full_disk", "limited_files", "torn_files"]


def torn_files(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Cut files at random lengths and flip bits. They must be refused, or load with the right
    numbers."""

    def tear() -> tuple[int, list[str]]:
        failures = []
        taut.simulate(
            LEARNER, problem(), data(50), record=RECORD, checkpoint=folder / "checkpoint", chunk=10
        )
        run, live = (
            taut.simulate(LEARNER, problem(), data(50), record=RECORD),
            taut.Player(LEARNER, problem()),
        )
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
                taut.simulate(
                    LEARNER,
                    problem(),
                    data(50),
                    record=RECORD,
                    checkpoint=folder / "checkpoint",
                    chunk=10,
                )
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
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
        return tries.made, failures

    tries.made, failures = in_child(fill, works=tries.seconds)
    return failures + leftovers(folder, {"player.npz"}, most=0)


def full_disk(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Fill a small disk in memory, where it can be mounted (as root). Old files must stay, and
    errors must name the file."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
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
    """Write a player, a run, a checkpoint and a sweep to a disk that has no room left, and again
    when it has."""
    live, run = (
        taut.Player(LEARNER, problem()),
        taut.simulate(LEARNER, problem(), data(50), record=RECORD),
    )
    expected, failures = summary(run), []

    def checkpointed() -> None:
        found = taut.simulate(
            LEARNER, problem(), data(50), record=RECORD, chunk=10, checkpoint=folder / "checkpoint"
        )
        if summary(found) != expected:
            failures.append("a simulation on a disk that was full ended with other numbers")

    def swept() -> None:
        cells = [
            taut.Cell(LEARNER, problem(), data(50) * k, name=str(k), record=RECORD) for k in (1, 2)
        ]
        found = taut.sweep(cells, folder=folder / "sweep")
        if found.failed:  # cells that could not be written are played again by the next call
            raise OSError(found.failed[0].message)
        if summary(found["1"]) != expected:
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

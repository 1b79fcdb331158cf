"""Compile the hand-written loops, `loops.c` and `half_space.c`, and call their functions."""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from taut.play.buffers import aligned

from .cases import Case
from .played import Play, Played

HERE = Path(__file__).resolve().parent
SOURCES = ("loops.c", "half_space.c")
FLAGS = ("-O3", "-march=native", "-ffast-math", "-std=c11", "-fPIC")


@cache
def library() -> Any:
    """Return the compiled loops. They are built again if the source is newer.

    They are linked without the flags: a library that gcc 12 links with -ffast-math turns off small
    numbers in the whole process.
    """
    sources, built = [HERE / name for name in SOURCES], HERE / "build" / "loops.so"
    used = (*sources, HERE / "loops.h", Path(__file__))
    newest = max(path.stat().st_mtime for path in used)
    if not built.exists() or built.stat().st_mtime < newest:
        built.parent.mkdir(exist_ok=True)
        objects = [str(built.with_name(f"{source.stem}.o")) for source in sources]
        for source, compiled in zip(sources, objects, strict=True):
            subprocess.run(["gcc", *FLAGS, "-c", str(source), "-o", compiled], check=True)
        subprocess.run(["gcc", "-shared", *objects, "-o", str(built), "-lm"], check=True)
    return ctypes.CDLL(str(built))


def prepare(case: Case, seeds: int, rounds: int) -> Play:
    """Return a function that simulates one seed after the other, with one call per seed."""
    data = np.asarray(case.placed(seeds, rounds))
    eta, sigma = case.steps
    loss, worst, totals, x = (
        aligned((seeds, *shape), float)
        for shape in ((rounds,), (rounds,), (4 * case.scored + 4,), case.problem.domain.shape)
    )
    fixed = aligned(case.fixed.shape, float)
    fixed[...] = case.fixed

    kept = (data, fixed)  # the calls hold only pointers, so keep the arrays alive here

    def pointer(array: Any) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.ctypes.data)

    prefix = {"clipped-ogd": "", "half-space": "half_space_"}[case.method]
    function = getattr(library(), f"{prefix}{case.kind}")
    number, real = ctypes.c_long, ctypes.c_double
    calls = [
        (
            pointer(data[s]),
            number(rounds),
            number(case.size),
            number(case.count),
            pointer(fixed),
            real(eta),
            real(sigma),
            real(case.radius),
            pointer(x[s]),
            pointer(loss[s]),
            pointer(worst[s]),
            pointer(totals[s]),
        )
        for s in range(seeds)
    ]

    def play() -> Played:
        assert kept
        x[...] = case.first
        for arguments in calls:
            function(*arguments)
        return Played(x, loss, worst, totals[:, 1 + case.scored : 1 + 2 * case.scored])

    return play

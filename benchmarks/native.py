"""Compile `loops.c` and call its functions."""

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
FLAGS = ("-O3", "-march=native", "-ffast-math", "-std=c11", "-fPIC")


@cache
def library() -> Any:
    """Return the compiled loops. They are built again if the source is newer.

    They are linked without the flags: a library that gcc 12 links with -ffast-math turns off small
    numbers in the whole process.
    """
    source, built = HERE / "loops.c", HERE / "build" / "loops.so"
    newest = max(source.stat().st_mtime, Path(__file__).stat().st_mtime)
    if not built.exists() or built.stat().st_mtime < newest:
        built.parent.mkdir(exist_ok=True)
        compiled = built.with_suffix(".o")
        subprocess.run(["gcc", *FLAGS, "-c", str(source), "-o", str(compiled)], check=True)
        subprocess.run(["gcc", "-shared", str(compiled), "-o", str(built), "-lm"], check=True)
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

    function = getattr(library(), case.kind)
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

"""The golden file: a few numbers of every seed of every case, each seed played alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .games import SEEDS, Case, alone, numbers_of, steady_rounds, together

FILE = Path(__file__).parent / "golden.json"
LONG = 3
"""Seeds of which the file has all numbers; of the others it has three."""
DIGITS = 13
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}
"""Largest difference, relative to numbers above 1."""


class Stored(NamedTuple):
    """What the file has of a case."""

    rounds: int
    """The rounds that are played: as many as rounding does not decide."""
    seeds: list[list[float]]
    """The numbers of every seed."""


def played_alone(case: Case, rounds: int | None = None) -> Stored:
    """The numbers of every seed of a case, each seed played alone."""
    if rounds is None:
        rounds = min(steady_rounds(case, seed) for seed in range(SEEDS))
    runs = (alone(case, seed, rounds) for seed in range(SEEDS))
    numbers = [_rounded(case, numbers_of(run, 0, k >= LONG)) for k, run in enumerate(runs)]
    return Stored(rounds, numbers)


def _rounded(case: Case, numbers: list[float]) -> list[float]:
    digits = DIGITS if case.dtype == "float64" else 8
    return [float(f"{number:.{digits}g}") for number in numbers]


def differences(case: Case, seeds: int, stored: Stored) -> list[str]:
    """Play seeds together; say what they have that the seeds alone have not, one sentence per
    seed."""
    run = together(case, seeds, stored.rounds)
    tolerance, sentences = TOLERANCE[case.dtype], []
    for seed in range(seeds):
        numbers = np.array(numbers_of(run, seed, seed >= LONG))
        expected = np.array(stored.seeds[seed])
        errors = np.abs(numbers - expected) / np.maximum(1, np.abs(expected))
        if not np.all(errors <= tolerance):
            sentences.append(
                f"{case}: seed {seed} of {seeds} differs from the same seed alone by "
                f"{np.max(errors):.1e}: {numbers.tolist()} instead of {expected.tolist()}"
            )
    return sentences


def read(file: Path = FILE) -> dict[str, Stored]:
    """The stored numbers by case."""
    return {case: Stored(*stored) for case, stored in json.loads(file.read_text()).items()}


def write(stored: dict[str, Stored], file: Path = FILE) -> None:
    """Store numbers, one line per case."""
    lines = [
        f"{json.dumps(case)}: {json.dumps(numbers, separators=(',', ':'))}"
        for case, numbers in stored.items()
    ]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")

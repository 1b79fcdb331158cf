"""The fuzzer: call public functions with wrong arguments, and report errors that do not come from
taut's own checks.

Run: python -m drills.fuzz [--calls 13000] [--seed 0] [--live]

An error is clear if taut raised it: the user then reads a sentence that names an argument. An error
that NumPy, JAX or Python raises somewhere below is unclear. A call that succeeds is not judged
here.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import fractions
import random
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import taut
from drills.fuzz_live import live
from drills.fuzz_targets import CLIPPED, PROBLEM, targets

PACKAGE = str(Path(taut.__file__).parent)
ALLOWED = 0.01
"""Share of calls that may end with an unclear error."""

JUNK: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "0": lambda: 0,
    "3": lambda: 3,
    "2.5": lambda: 2.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "1e300": lambda: 1e300,
    "10**30": lambda: 10**30,
    "text": lambda: "text",
    "empty text": lambda: "",
    "bytes": lambda: b"x",
    "[]": list,
    "[1, 2]": lambda: [1, 2],
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "{}": dict,
    "set": lambda: {1, 2},
    "zeros(2)": lambda: np.zeros(2),
    "zeros(3)": lambda: np.zeros(3),
    "zeros(0)": lambda: np.zeros(0),
    "zeros((5, 2))": lambda: np.zeros((5, 2)),
    "nan array": lambda: np.full(2, np.nan),
    "complex": lambda: 1j,
    "complex array": lambda: np.zeros(2, complex),
    "objects": lambda: np.array([None, {}], object),
    "strings": lambda: np.array(["a", "b"]),
    "object": object,
    "masked": lambda: np.ma.masked_array(np.zeros(2), mask=[True, False]),
    "key": lambda: jax.random.key(0),
    "fraction": lambda: fractions.Fraction(1, 3),
    "date": lambda: datetime.date(2020, 1, 1),
    "class": lambda: int,
    "lambda": lambda: lambda: None,
    "lambda x": lambda: lambda x: x,
    "generator": lambda: (i for i in range(3)),
    "problem": lambda: PROBLEM,
    "learner": lambda: CLIPPED,
    "domain": lambda: taut.Ball(1.0, shape=2),
}


def fuzz(calls: int, seed: int, only_live: bool = False) -> tuple[int, collections.Counter[str]]:
    """Make so many calls. Returns how many errors were clear, and the unclear ones."""
    rng, clear, unclear = random.Random(seed), 0, collections.Counter[str]()
    known = live(CLIPPED, PROBLEM) if only_live else targets()
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
    ):
        warnings.simplefilter("ignore")
        for _ in range(calls):
            name = rng.choice(list(known))
            function, valid = known[name]
            changed = rng.sample(list(valid), min(len(valid), rng.choice((1, 1, 2))))
            chosen = {argument: rng.choice(list(JUNK)) for argument in changed}
            try:
                function(
                    **{**valid, **{argument: JUNK[junk]() for argument, junk in chosen.items()}}
                )
            except Exception as error:
                frames = traceback.extract_tb(error.__traceback__)
                if frames[-1].filename.startswith(PACKAGE) and str(error):
                    clear += 1
                else:
                    text = str(error).split("\n")[0][:100]
                    unclear[
                        f"{name}({', '.join(f'{k}={v}' for k, v in chosen.items())}): "
                        f"{type(error).__name__}: {text}"
                    ] += 1
    return clear, unclear


def main() -> None:
    """Fuzz and print the unclear errors."""
    words = argparse.ArgumentParser(description="Call public functions with wrong arguments.")
    words.add_argument("--calls", type=int, default=13_000)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--live", action="store_true", help="only calls of players and fleets")
    asked = words.parse_args()
    clear, unclear = fuzz(asked.calls, asked.seed, asked.live)
    for text, count in unclear.most_common(40):
        print(f"{count:>4}  {text}")
    share = unclear.total() / asked.calls
    print(
        f"{asked.calls} calls: {clear} clear errors, {unclear.total()} unclear ones ({share:.2%}, "
        f"at most {ALLOWED:.0%})"
    )
    sys.exit(1 if share > ALLOWED else 0)


if __name__ == "__main__":
    main()

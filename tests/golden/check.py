"""Compare seeds played together with the golden file: python -m tests.golden.check [--full]

The flags of the tests switch XLA's optimisations off, and wrong numbers of optimised code do not
show without them, so this runs in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import jax

import taut

from . import games, stored_numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all cases with all numbers of seeds")
    parser.add_argument("--part", default="1/1", help="k/n: every n-th learner, beginning at k")
    parser.add_argument("--only", default="", help="a part of the names of the cases to play")
    parser.add_argument("--file", type=Path, default=stored_numbers.FILE)
    parser.add_argument("--cache", type=Path, help="a folder for compiled programs")
    given = parser.parse_args()
    assert "optimization_level" not in os.environ.get("XLA_FLAGS", ""), "XLA does not optimise"
    jax.config.update("jax_enable_x64", True)
    if given.cache is not None:
        taut.engine.cache(given.cache)
    chosen = games.tested_games()
    if given.full:
        chosen = [(case, n) for case in games.full_product() for n in games.SEED_COUNTS]
    first, step = map(int, given.part.split("/"))
    learners = set(list(taut.LEARNERS)[first - 1 :: step])
    stored, wrong, played = stored_numbers.read(given.file), [], 0
    for case, seeds in chosen:
        if case.learner not in learners or given.only not in str(case):
            continue
        played += 1
        if str(case.stored) not in stored:
            stored[str(case.stored)] = stored_numbers.played_alone(case.stored)
        for sentence in stored_numbers.differences(case, seeds, stored[str(case.stored)]):
            wrong.append(sentence)
            print(sentence, flush=True)
    print(f"{played} games, {len(wrong)} seeds differ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

"""The crash drill: kill processes at random moments, tear files and fill the disk, and report what
was lost.

Run: python -m drills.crash [--kills 100] [--minutes 20] [--only simulation] [--seed 0]

Every child process is forked before JAX has started, because JAX does not work in a process that is
forked later. The drills themselves are in `kills.py` and `damage.py`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import taut
from drills.children import Tries
from drills.damage import full_disk, limited_files, torn_files
from drills.fleets import fleet
from drills.kills import player, reproduction, run_file, simulation, two_processes

DRILLS: dict[
    str, Callable[[Path, Tries, random.Random], list[str]]
] = {  # short ones first: others may use what they leave
    "limited-files": limited_files,
    "full-disk": full_disk,
    "two-processes": two_processes,
    "torn-files": torn_files,
    "run-file": run_file,
    "simulation": simulation,
    "player": player,
    "fleet": fleet,
    "reproduction": reproduction,
}


def main() -> None:
    """Run all drills and print what was lost."""
    words = argparse.ArgumentParser(
        description="Kill processes at random moments and report what was lost."
    )
    words.add_argument("--kills", type=int, default=100, help="kills per drill")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--minutes", type=float, default=20, help="time for all drills together")
    words.add_argument(
        "--only",
        choices=list(DRILLS),
        nargs="+",
        default=list(DRILLS),
        help="run only these drills",
    )
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
        print(
            f"{name.replace('-', ' '):<15} {said}, {len(failures)} lost, {took:.0f} s", flush=True
        )
        for failure in failures[:5]:
            print(f"    {failure}", flush=True)
    compiled.cleanup()
    took = (time.monotonic() - end) / 60 + asked.minutes
    print(
        f"{took:.1f} minutes; no try began after {asked.minutes:g} minutes, but the first of "
        "every drill",
        flush=True,
    )
    print("nothing was lost" if not lost else f"{lost} times something was lost", flush=True)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()

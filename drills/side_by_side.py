"""Every learner with seeds side by side against the same seeds alone, in code that XLA optimises.

Run: python -m drills.side_by_side [--all-games] [NAME ...]

`taut.testing.side_by_side` says what is played. With `--all-games` a learner plays all combinations
of the form of constraints, the size of decisions, the number of seeds and the float type, which
takes many minutes each.
"""

from __future__ import annotations

import argparse
import sys

import jax

jax.config.update("jax_enable_x64", True)

import taut  # noqa: E402
from taut.testing import side_by_side  # noqa: E402


def main() -> int:
    """Play the games; return 1 if a learner fails."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*", metavar="NAME", help="learners; by default all")
    words.add_argument("--all-games", action="store_true")
    asked = words.parse_args()
    games = side_by_side.ALL_GAMES if asked.all_games else side_by_side.GAMES
    failed = []
    for name in asked.names or list(taut.LEARNERS):
        for game in games:
            try:
                side_by_side.check_games(taut.LEARNERS[name], [game])
            except AssertionError as error:
                failed.append(name)
                print(f"{name}: {error}", flush=True)
        print(f"{name}: {len(games)} games", flush=True)
        jax.clear_caches()
    print(f"{len(failed)} games differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Write the golden file: python -m tests.golden.write [--only TEXT] [--full --to FILE]

Numbers that changed are printed. With `--only` the other cases stay as they are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import numpy as np

import taut

from . import games, stored_numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of the cases to write")
    parser.add_argument("--full", action="store_true", help="all cases, not only those of the file")
    parser.add_argument("--cache", type=Path, help="a folder for compiled programs")
    parser.add_argument("--to", type=Path, default=stored_numbers.FILE)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if given.cache is not None:
        taut.engine.cache(given.cache)
    before = stored_numbers.read(given.to) if given.to.exists() else {}
    cases = games.full_product() if given.full else games.stored_cases()
    stored: dict[str, stored_numbers.Stored] = {}
    for case in dict.fromkeys(case.stored for case in cases):
        name = str(case)
        if name in before and given.only not in name:
            stored[name] = before[name]
            continue
        stored[name] = stored_numbers.played_alone(case)
        if name in before and _changed(
            stored[name], before[name], stored_numbers.TOLERANCE[case.dtype]
        ):
            print(f"changed: {name}", flush=True)
        stored_numbers.write(
            stored | {k: v for k, v in before.items() if k not in stored}, given.to
        )
    stored_numbers.write(stored, given.to)
    print(f"{len(stored)} cases, {given.to.stat().st_size / 1000:.0f} kB")


def _changed(new: stored_numbers.Stored, old: stored_numbers.Stored, tolerance: float) -> bool:
    """Whether numbers differ by more than rounding."""
    if new.rounds != old.rounds:
        return True
    a, b = (np.concatenate(stored.seeds) for stored in (new, old))
    return bool(np.any(np.abs(a - b) > tolerance * np.maximum(1, np.abs(b))))


if __name__ == "__main__":
    main()

"""The mutation drill: change the source in one place at a time, and report the share of changes
that the tests notice.

Run: python -m drills.mutants [--sample 150] [--seed 0] [--only learners/half_space] [--minutes 25]
[--jobs 1]

The changes are those of mutmut (`pip install -e '.[mutants]'`). mutmut's own runner does not fit
here: it starts tests by forking a process in which the package and JAX are loaded, and JAX does not
work after a fork. So this driver takes the changes from mutmut, writes each into a copy of the
repository, and runs the tests of that module in a process that is forked before JAX starts
(drills/mutant_tests.py says which tests, in which order, and drills/mutant_runs.py what counts as
noticed). The working tree is not touched, and editing it does not disturb a drill that is under
way. Left out are sentences (messages are compared in part only, by design), and the changes listed
with a reason in drills/equivalent_mutants.toml, which do not change what the code does.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drills.mutant_runs import Copy, copy_repository
from drills.mutant_tests import ROOT, TESTS, Entered, Map

SOURCES = ROOT / "src"
EQUIVALENT = Path(__file__).parent / "equivalent_mutants.toml"


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    module: str
    line: int
    before: str
    after: str
    source: str

    @property
    def name(self) -> str:
        """The place and the change, in one line."""
        return f"{self.module}:{self.line}: {self.before} -> {self.after}"


def changes_of(module: str) -> tuple[str, Any, list[Any]]:
    """Return the code of a module, its syntax tree, and mutmut's changes of it inside functions."""
    from mutmut.mutation.file_mutation import create_mutations

    code = (SOURCES / "taut" / module).read_text()
    tree, changes, *_ = create_mutations(module, code)
    inside = [one for one in changes if one.contained_by_top_level_function is not None]
    return code, tree, [one for one in inside if not _is_sentence(one.original_node)]


def mutant_of(module: str, code: str, tree: Any, change: Any) -> Mutant:
    """Apply one change."""
    source = tree.deep_replace(change.original_node, change.mutated_node).code
    old, new = code.splitlines(), source.splitlines()
    begin = next(
        (k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)) - 1,
    )
    same = next(
        (
            k
            for k, (a, b) in enumerate(zip(old[begin:][::-1], new[begin:][::-1], strict=False))
            if a != b
        ),
        0,
    )
    before, after = (
        " ".join(map(str.strip, lines[begin : len(lines) - same])) for lines in (old, new)
    )
    return Mutant(module, begin + 1, before, after, source)


def _is_sentence(node: object) -> bool:
    text = getattr(node, "value", "")
    return type(node).__name__ in ("SimpleString", "ConcatenatedString") and (
        not isinstance(text, str) or " " in text
    )


def equivalents() -> dict[tuple[str, str, str], str]:
    """Return the changes that do not change what the code does: (module, before, after) with the
    reason."""
    listed = tomllib.loads(EQUIVALENT.read_text())["equivalent"]
    return {(one["module"], one["before"], one["after"]): one["reason"] for one in listed}


def preload() -> None:
    """Import what all tests need, but nothing of taut: the children are forked from this
    process."""
    import cvxpy
    import jax
    import pytest
    import scipy.stats
    import xarray

    assert all((cvxpy, jax, pytest, scipy.stats, xarray))
    if "taut" in sys.modules:
        raise RuntimeError("taut is loaded already, so the changed sources would not be used")


def chosen(only: str, sample: int, seed: int) -> tuple[list[Mutant], int, int]:
    """Return a random sample of the changes, the number of all, and how many of the sample were
    left out as equivalent."""
    found = {module: changes_of(module) for module in TESTS if module.startswith(only)}
    places = [
        (module, index)
        for module, (_, _, changes) in found.items()
        for index in range(len(changes))
    ]
    known = equivalents()
    kept, left_out = [], 0
    for module, index in random.Random(seed).sample(places, min(sample, len(places))):
        code, tree, changes = found[module]
        mutant = mutant_of(module, code, tree, changes[index])
        if (mutant.module, mutant.before, mutant.after) in known:
            left_out += 1
        else:
            kept.append(mutant)
    return kept, len(places), left_out


def wilson(caught: int, tried: int) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval for the share of all changes, of which a random
    sample was tried."""
    if tried == 0:
        return 0.0, 1.0
    z, share = 1.959964, caught / tried
    centre = share + z * z / (2 * tried)
    half = z * math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    return (centre - half) / (1 + z * z / tried), (centre + half) / (1 + z * z / tried)


class Worker:
    """One process of the drill, with a copy of the repository of its own."""

    copy: Copy

    @classmethod
    def start(cls, original: Path) -> None:
        """Make the copy."""
        cls.copy = Copy(Path(tempfile.mkdtemp(dir=original.parent)))
        shutil.copytree(original, cls.copy.folder, dirs_exist_ok=True)

    @classmethod
    def record(cls, file: str) -> Entered:
        """Play a test file without a change."""
        return cls.copy.record(file)

    @classmethod
    def attempt(
        cls, end: float, mutant: Mutant, tests: list[str]
    ) -> tuple[bool, str, float] | None:
        """Try one change, and return whether it was noticed, by which test, and the seconds; or
        None after the end."""
        begin = time.monotonic()
        if begin > end:
            return None
        return *cls.copy.noticed(mutant.module, mutant.source, tests), time.monotonic() - begin


def tried(
    drawn: list[Mutant], minutes: float, map_file: Path, jobs: int
) -> Iterator[tuple[Mutant, bool, str, float]]:
    """Try changes until the time is over, and yield whether the tests noticed each of them, which
    one, and the seconds."""
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "repository"
        copy_repository(original)
        order = Map(map_file, original)
        fork = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(jobs, fork, Worker.start, (original,)) as pool:
            order.complete(
                (file for mutant in drawn for file in TESTS[mutant.module]),
                lambda new: pool.map(Worker.record, new),
            )
            begun = [
                pool.submit(Worker.attempt, end, one, order.order(one.module, one.line))
                for one in drawn
            ]
            for mutant, attempt in zip(drawn, begun, strict=True):
                if (found := attempt.result()) is not None:
                    yield mutant, *found


def main() -> None:
    """Draw changes, run their tests and print the share that was noticed."""
    words = argparse.ArgumentParser(
        description="Report the share of changes of the source that the tests notice."
    )
    words.add_argument("--sample", type=int, default=150, help="number of changes")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument(
        "--only", default="", help="modules whose path begins like this, as in learners/half_space"
    )
    words.add_argument(
        "--minutes", type=float, default=25.0, help="stop after this time, whatever the sample"
    )
    words.add_argument("--least", type=float, default=0.9, help="the share that is asked for")
    words.add_argument(
        "--jobs", type=int, default=1, help="number of changes that are tried at the same time"
    )
    words.add_argument(
        "--map",
        type=Path,
        default=ROOT / ".mutants.json",
        help="where to keep what each test enters",
    )
    asked = words.parse_args()
    drawn, total, equivalent = chosen(asked.only, asked.sample, asked.seed)
    preload()
    caught = survived = 0
    os.environ["TAUT_TEST_CACHE"] = str(
        Path(os.environ.get("TAUT_TEST_CACHE") or ROOT / ".xla_cache").absolute()
    )
    for mutant, hit, why, seconds in tried(drawn, asked.minutes, asked.map, asked.jobs):
        caught, survived = caught + hit, survived + (not hit)
        print(
            f"{'noticed' if hit else 'NOT NOTICED'} ({seconds:.0f} s, {why}): {mutant.name}",
            flush=True,
        )
    number = caught + survived
    share, (low, high) = caught / max(number, 1), wilson(caught, number)
    print(
        f"{number} of {total} changes tried (seed {asked.seed}, {equivalent} left out as "
        f"equivalent): {caught} noticed, {share:.1%} (95 % confidence interval {low:.1%} to "
        f"{high:.1%})"
    )
    sys.exit(1 if share < asked.least else 0)


if __name__ == "__main__":
    main()

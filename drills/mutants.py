"""The mutation drill: change the source in one place at a time, and report the share of changes that the tests notice.

Run: python -m drills.mutants [--sample 100] [--seed 0] [--only learners/bounds] [--minutes 25]

The changes are those of mutmut (`pip install -e '.[mutants]'`). mutmut's own runner does not fit here: it starts tests by forking a
process in which the package and JAX are loaded, and JAX does not work after a fork. So this driver takes the changes from
mutmut, writes each into a copy of the sources, and runs the tests of that module in a process that is forked before JAX starts.
The working tree is not touched. Left out are sentences (messages are compared in part only, by design), and the changes listed
with a reason in drills/equivalent_mutants.toml, which do not change what the code does.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
EQUIVALENT = Path(__file__).parent / "equivalent_mutants.toml"
SLOWEST = 240.0
"""Seconds after which tests count as hanging, which is noticed too."""

GOLDEN = "learners/test_golden_guarantees.py"
TESTS: dict[str, tuple[str, ...]] = {
    "storage.py": ("test_storage.py", "play/test_checkpoint.py"),
    "files.py": ("test_files.py", "learners/test_doubling.py"),
    "play/run_file.py": ("test_storage.py", "play/test_run.py"),
    "play/checkpoint.py": ("play/test_checkpoint.py",),
    "play/totals.py": ("play/test_totals.py", "play/test_player.py"),
    "judge/certificate.py": ("judge/test_rows.py", "judge/test_regret.py", "judge/test_certificate.py"),
    "learners/base.py": (GOLDEN, "learners/test_registry.py", "test_bad_input.py"),
    "learners/card.py": (GOLDEN, "learners/test_registry.py", "test_cli.py"),
    "learners/registry.py": ("learners/test_registry.py", "learners/test_adding_a_learner.py"),
    "learners/schedules.py": (GOLDEN, "test_bad_input.py", "test_pytrees.py", "learners/test_clipped_ogd.py"),
    "learners/cuts.py": ("learners/test_half_space.py",),
    "learners/joint_projection.py": ("learners/test_half_space.py",),
    "learners/half_space_guarantees.py": (GOLDEN, "learners/bounds/test_half_space_bounds.py"),
    **{
        f"learners/{name}.py": (GOLDEN, f"learners/test_{name}.py")
        for name in (
            "block_frank_wolfe", "bounded_game", "clipped_ogd", "cvv_pro", "doubling", "drift_plus_penalty", "dual_mirror",
            "half_space", "no_slater", "projected_ogd", "recoo", "saddle_point", "step_experts", "surrogate", "yu_neely",
        )
    },
    **{
        f"learners/bounds/{name}.py": (GOLDEN, *others)
        for name, others in {
            "block_frank_wolfe": ("learners/test_block_frank_wolfe.py",),
            "bounded_game": ("learners/test_bounded_game.py",),
            "clipped_ogd": ("learners/bounds/test_clipped_ogd_bounds.py", "learners/bounds/test_cancellation.py"),
            "clipped_ogd_strong": ("learners/bounds/test_clipped_ogd_bounds.py",),
            "conversions": ("learners/bounds/test_baseline_bounds.py",),
            "drift_plus_penalty": ("learners/bounds/test_baseline_bounds.py",),
            "dual_mirror": ("learners/test_dual_mirror.py",),
            "error_bound": ("learners/bounds/test_cancellation.py", "learners/bounds/test_clipped_ogd_bounds.py"),
            "half_space": ("learners/bounds/test_half_space_bounds.py",),
            "kept_cuts": ("learners/bounds/test_half_space_bounds.py",),
            "optimal_parameters": ("learners/bounds/test_optimal_parameters.py",),
            "peak": ("learners/bounds/test_baseline_bounds.py", "learners/bounds/test_clipped_ogd_bounds.py"),
            "projected_ogd": ("learners/bounds/test_baseline_bounds.py",),
            "saddle_point": ("learners/bounds/test_baseline_bounds.py",),
            "smooth_half_space": ("learners/bounds/test_half_space_bounds.py",),
            "step_experts": ("learners/test_step_experts.py",),
            "step_sums": ("learners/bounds/test_cancellation.py", "learners/bounds/test_clipped_ogd_bounds.py"),
            "surrogate": ("learners/test_surrogate.py",),
            "yu_neely": ("learners/test_yu_neely.py",),
        }.items()
    },
}  # fmt: skip
"""The files of tests that exercise a module, the fastest first; they run until one test fails."""


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
    begin = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)) - 1)
    same = next((k for k, (a, b) in enumerate(zip(old[begin:][::-1], new[begin:][::-1], strict=False)) if a != b), 0)
    before, after = (" ".join(map(str.strip, lines[begin : len(lines) - same])) for lines in (old, new))
    return Mutant(module, begin + 1, before, after, source)


def _is_sentence(node: object) -> bool:
    text = getattr(node, "value", "")
    return type(node).__name__ in ("SimpleString", "ConcatenatedString") and (not isinstance(text, str) or " " in text)


def equivalents() -> dict[tuple[str, str, str], str]:
    """Return the changes that do not change what the code does: (module, before, after) with the reason."""
    listed = tomllib.loads(EQUIVALENT.read_text())["equivalent"]
    return {(one["module"], one["before"], one["after"]): one["reason"] for one in listed}


def noticed(tests: tuple[str, ...], sources: Path) -> bool:
    """Run tests against these sources in a child process until one fails. Returns whether one did."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _run(tests, sources)
        finally:
            os._exit(code)
    end = time.monotonic() + SLOWEST
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _run(tests: tuple[str, ...], sources: Path) -> int:
    """Run tests in this process, which is a child, without output. Returns the exit code."""
    import pytest

    os.setsid()  # so that processes of the tests can be ended with it
    quiet = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(quiet, handle)
    os.environ["PYTHONPATH"] = str(sources)
    sys.path.insert(0, str(sources))
    os.chdir(ROOT)
    return int(
        pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *(f"tests/{file}" for file in tests)])
    )


def preload() -> None:
    """Import what all tests need, but nothing of taut: the children are forked from this process."""
    import cvxpy
    import jax
    import pytest
    import scipy.stats
    import xarray

    assert all((cvxpy, jax, pytest, scipy.stats, xarray))
    if "taut" in sys.modules:
        raise RuntimeError("taut is loaded already, so the changed sources would not be used")


def chosen(only: str, sample: int, seed: int) -> tuple[list[Mutant], int, int]:
    """Return a random sample of the changes, the number of all, and how many of the sample were left out as equivalent."""
    found = {module: changes_of(module) for module in TESTS if module.startswith(only)}
    places = [(module, index) for module, (_, _, changes) in found.items() for index in range(len(changes))]
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


def main() -> None:
    """Draw changes, run their tests and print the share that was noticed."""
    words = argparse.ArgumentParser(description="Report the share of changes of the source that the tests notice.")
    words.add_argument("--sample", type=int, default=100, help="number of changes")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--only", default="", help="modules whose path begins like this, as in learners/bounds")
    words.add_argument("--minutes", type=float, default=25.0, help="stop after this time, whatever the sample")
    words.add_argument("--least", type=float, default=0.9, help="the share that is asked for")
    asked = words.parse_args()
    drawn, total, equivalent = chosen(asked.only, asked.sample, asked.seed)
    preload()
    end, caught, survived, broken = time.monotonic() + 60 * asked.minutes, 0, list[Mutant](), set[tuple[str, ...]]()
    passing: set[tuple[str, ...]] = set()
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "src"
        shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        for mutant in drawn:
            if time.monotonic() > end:
                break
            tests, path = TESTS[mutant.module], sources / "taut" / mutant.module
            original = path.read_text()
            path.write_text(mutant.source)
            hit = noticed(tests, sources)
            path.write_text(original)
            if hit and tests not in passing | broken:  # do they pass without a change?
                (broken if noticed(tests, sources) else passing).add(tests)
            caught += hit
            if not hit:
                survived.append(mutant)
            print(f"{'noticed' if hit else 'NOT NOTICED'}: {mutant.name}", flush=True)
    for tests in broken:
        print(f"these tests fail without any change: {', '.join(tests)}")
    tried = caught + len(survived)
    share = caught / max(tried, 1)
    print(
        f"{tried} of {total} changes tried (seed {asked.seed}, {equivalent} left out as equivalent): {caught} noticed, {share:.1%}"
    )
    sys.exit(1 if broken or share < asked.least else 0)


if __name__ == "__main__":
    main()

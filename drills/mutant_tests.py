"""Which tests are run against a change of a module, and in which order.

Each test file is played once without a change, and the functions that each test enters and its
duration are written down (`Map`). Against a change, tests that entered no function of the module
are left out, and those that entered the changed function come first, the fastest before the others.
Compiled programs are shared between tests, so a test can depend on a function that an earlier test
entered for it: the remaining tests of the module follow. A test that fails without a change is not
used.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

GOLDEN = "learners/test_golden_guarantees.py"
WIDTHS = "learners/test_widths.py"
BOUNDS = "learners/bounds/test_{}.py"
FORMULAS = (GOLDEN, BOUNDS.format("bound_arguments"), BOUNDS.format("golden_formulas"))
TESTS: dict[str, tuple[str, ...]] = {
    "storage.py": ("test_storage.py", "play/test_checkpoint.py"),
    "files.py": ("test_files.py", "learners/test_doubling.py", "learners/test_projected_ogd.py"),
    "runs/file.py": ("test_storage.py", "runs/test_run.py"),
    "play/checkpoint.py": ("play/test_checkpoint.py",),
    "runs/totals.py": ("runs/test_totals.py", "player/test_player.py"),
    "judge/certificate.py": (
        "judge/test_rows.py",
        "judge/test_regret.py",
        "judge/test_certificate.py",
    ),
    "learners/half_space/announced.py": ("play/test_announced.py",),
    "learners/base.py": (
        "learners/test_base.py",
        "learners/test_cuts.py",
        GOLDEN,
        WIDTHS,
        "learners/test_registry.py",
        "test_bad_input.py",
    ),
    "learners/guarantee.py": (GOLDEN, "learners/test_base.py"),
    "learners/card.py": (
        GOLDEN,
        "learners/test_registry.py",
        "cli/test_cli.py",
        "learners/test_clipped_ogd.py",
    ),
    "learners/estimates.py": (WIDTHS, "learners/test_bandit.py", "learners/test_averaged.py"),
    "learners/registry.py": ("learners/test_registry.py", "learners/test_adding_a_learner.py"),
    "learners/schedules.py": (
        GOLDEN,
        WIDTHS,
        "learners/test_base.py",
        "test_bad_input.py",
        "test_pytrees.py",
        "learners/test_clipped_ogd.py",
    ),
    "learners/half_space/method.py": (
        GOLDEN,
        WIDTHS,
        "learners/test_base.py",
        "learners/test_half_space.py",
    ),
    "learners/half_space/cuts.py": ("learners/test_cuts.py", WIDTHS, "learners/test_half_space.py"),
    "learners/half_space/projection.py": ("learners/test_projection.py", WIDTHS),
    "learners/half_space/joint_projection.py": (WIDTHS, "learners/test_half_space.py"),
    "learners/half_space/guarantees.py": (GOLDEN, BOUNDS.format("half_space_bounds")),
    **{
        f"learners/{name}.py": (
            *FORMULAS,
            BOUNDS.format("baseline_bounds"),
            WIDTHS,
            "learners/test_base.py",
            f"learners/test_{name}.py",
        )
        for name in (
            "averaged",
            "bandit",
            "block_frank_wolfe",
            "bounded_game",
            "clipped_ogd",
            "cvv_pro",
            "delay_tolerant",
            "doubling",
            "drift_plus_penalty",
            "dual_mirror",
            "no_slater",
            "projected_ogd",
            "recoo",
            "saddle_point",
            "step_experts",
            "surrogate",
            "yu_neely",
        )
    },
    "learners/half_space/bounds.py": (*FORMULAS, BOUNDS.format("half_space_bounds")),
    "learners/clipped_parameters.py": (*FORMULAS, BOUNDS.format("optimal_parameters")),
    **{
        f"learners/{name}.py": (
            *FORMULAS,
            BOUNDS.format("cancellation"),
            BOUNDS.format("clipped_ogd_bounds"),
            BOUNDS.format("baseline_bounds"),
            BOUNDS.format("moving"),
        )
        for name in ("clipped_bounds", "theorem")
    },
}
"""The files of tests that exercise a module."""

Entered = dict[str, dict[str, Any]]
"""By test: its duration in seconds, and the functions it entered as "module:qualified name"."""


def functions_by_line(code: str) -> dict[int, str]:
    """Return for each line inside a function the qualified name of the innermost function."""
    found: dict[int, str] = {}

    def visit(node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{outer}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    found.update(
                        dict.fromkeys(
                            range(child.body[0].lineno, (child.end_lineno or 0) + 1), name
                        )
                    )
                visit(child, f"{name}.")
            else:
                visit(child, outer)

    visit(ast.parse(code), "")
    return found


@dataclass
class Map:
    """What each test enters and how long it takes, kept in a file. It decides the order of tests
    and what is left out."""

    path: Path
    root: Path
    known: dict[str, Entered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path.exists():
            self.known = json.loads(self.path.read_text())

    def complete(
        self, files: Iterable[str], record: Callable[[Iterable[str]], Iterable[Entered]]
    ) -> None:
        """Play the test files that are new or were changed, and keep what they enter."""
        new = {self._key(file): file for file in files if self._key(file) not in self.known}
        for key, entered in zip(new, record(new.values()), strict=True):
            self.known[key] = entered
            self.path.write_text(json.dumps(self.known))

    def order(self, module: str, line: int) -> list[str]:
        """Return the tests of a module, first those that entered the function that contains a
        line."""
        source = (self.root / "src" / "taut" / module).read_text()
        changed = f"{module}:{functions_by_line(source).get(line)}"
        ranked = []
        for file in TESTS[module]:
            for test, entry in self.known[self._key(file)].items():
                if any(name.startswith(f"{module}:") for name in entry["entered"]):
                    ranked.append((changed not in entry["entered"], entry["seconds"], test))
        return [test for *_, test in sorted(ranked)]

    def _key(self, file: str) -> str:
        return (
            f"{file} {hashlib.sha256((self.root / 'tests' / file).read_bytes()).hexdigest()[:16]} "
            "names"
        )

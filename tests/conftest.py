"""Hostile numerics for every test: 64 bits, no silent rank promotion, warnings are errors
(pyproject)."""

import gc
import os
import zlib
from collections import Counter
from pathlib import Path

import jaxlib

# Most of the tests' time is compilation, and XLA's optimisations are not what they test. Without
# them a simulation is compiled in less than half the time. An unknown flag ends the process, so
# they are set only for versions in which they were tried: the one that is pinned, and the lowest
# that is declared (`make floors`).
ROOT = Path(__file__).parent.parent
PINNED = f"jaxlib=={jaxlib.__version__}\n" in (ROOT / "constraints.txt").read_text()
LOWEST = f'"jax>={jaxlib.__version__}"' in (ROOT / "pyproject.toml").read_text()
if PINNED or LOWEST:
    quick = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {quick}".strip()

import jax
import pytest

import taut
from taut.problem import programs
from taut.testing import side_by_side

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
# Both workers, and the next run, share what has been compiled.
taut.engine.cache(os.environ.get("TAUT_TEST_CACHE") or ROOT / ".xla_cache")

# Every method plays the same few problems here, which takes more programs per problem than any user
# needs. A program that is dropped and compiled again could differ in its rounding from the one
# before.
programs.LIMIT = 10_000

# All these programs stay alive, and Python would look through them again and again.
gc.set_threshold(100_000, 20, 50)


@pytest.fixture
def key():
    return jax.random.key(0)


# Whether seeds side by side equal seeds alone is a question about code that XLA optimises, which
# the flags above switch off. tests/testing/test_side_by_side.py plays all games of that check in a
# process of its own; here one of them is enough.
side_by_side.GAMES = side_by_side.GAMES[5:6]

SLOW = (
    "tests/golden",
    "tests/play/test_passes.py",
    "tests/sweeps/test_sweeps_on_dask.py",
    "tests/test_drills.py",
    "tests/test_experiments.py",
    "tests/testing",
    "tests/test_site.py",
    "tests/models",
)
"""Files that take minutes. They come first, so that no worker is left with one of them at the
end."""

SAMPLES = {
    "test_conformance": 8,
    "test_an_accepted_model_is_what_cvxpy_says": 12,
    "test_a_page_runs": 3,  # make docs executes all pages
    "test_an_example_ends_in_a_figure": 4,
    "test_random_programs_have_the_values_and_derivatives_that_jax_gives_them": 2,
    "test_members_equal_players": 2,
    "test_only_the_problem_and_data_of_a_run_are_accepted": 2,
}
"""Tests with cases that compile long programs of their own. One case in so many is played; `make
test CASES=all` plays all."""

MANY = 10
"""Of other tests with at least so many cases, every sixth is played."""

ALWAYS = ("test_conformance[half-space-check_", "test_conformance[clipped-ogd-check_")
"""Cases that are never left out: the default, and the method of the paper."""


WHOLE = ("tests/test_docs.py", "tests/test_numbers.py", "tests/test_shown_figures.py")
"""Files whose cases are pages and pictures, each of which can be wrong alone; all are played."""


def pytest_addoption(parser):
    """Let the caller choose between a sample of the long lists of cases and all of them."""
    parser.addoption("--cases", choices=("sample", "all"), default="sample")


def pytest_configure(config):
    """Tell modules that are shared by tests, too."""
    os.environ["TAUT_CASES"] = config.getoption("cases")


def pytest_collection_modifyitems(config, items):
    """Begin with what is slow, and play a sample of long lists of cases.

    Which cases are in the sample follows from their names, so that it is the same in every run. The
    check of seeds side by side is left out of conformance: tests/testing has it for optimised code.
    """

    cases = Counter(item.function for item in items)

    def left_out(item):
        if item.name.endswith("check_seeds_side_by_side]"):
            return True
        if config.getoption("cases") == "all" or item.name.startswith(ALWAYS):
            return False
        if item.nodeid.startswith(WHOLE):
            return False
        share = SAMPLES.get(item.originalname, 6 if cases[item.function] >= MANY else 1)
        return zlib.crc32(item.name.encode()) % share > 0

    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = sorted(
        (item for item in items if not left_out(item)),
        key=lambda item: not item.nodeid.startswith(SLOW),
    )

"""Hostile numerics for every test: 64 bits, no silent rank promotion, warnings are errors
(pyproject)."""

import gc
import os
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


def pytest_collection_modifyitems(config, items):
    """Begin with what is slow, and leave the check of seeds side by side out of conformance.

    The check of determinism compiles all programs a second time. Every third learner gets it here;
    `taut.testing.check_learner` has it for all.
    """

    def left_out(item):
        twice = item.name.endswith("check_is_deterministic]") and sum(map(ord, item.name)) % 3
        return twice or item.name.endswith("check_seeds_side_by_side]")

    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = sorted(
        (item for item in items if not left_out(item)),
        key=lambda item: not item.nodeid.startswith(SLOW),
    )

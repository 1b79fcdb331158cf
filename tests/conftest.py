"""Hostile numerics for every test: 64 bits, no silent rank promotion, warnings are errors
(pyproject)."""

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

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
# Both workers, and the next run, share what has been compiled.
taut.engine.cache(os.environ.get("TAUT_TEST_CACHE") or ROOT / ".xla_cache")

# Every method plays the same few problems here, which takes more programs per problem than any user
# needs. A program that is dropped and compiled again could differ in its rounding from the one
# before.
programs.LIMIT = 10_000


@pytest.fixture
def key():
    return jax.random.key(0)


def pytest_collection_modifyitems(config, items):
    """Leave the check of seeds side by side to tests/testing/test_side_by_side.py: it is about
    code that XLA optimises, and the flags above switch that off in this process."""
    slow = [item for item in items if item.name.endswith("check_seeds_side_by_side]")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.name.endswith("check_seeds_side_by_side]")]

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
    quick = (
        "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
        "--xla_cpu_parallel_codegen_split_count=1"  # the other core has its own worker
    )
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

FIRST = (
    "tests/golden",
    "tests/sweeps/test_sweeps_on_dask.py",
    "tests/play/test_announced.py",
    "tests/play/test_advice.py",
    "tests/learners/test_half_space.py",
    "tests/test_experiments.py",
    "tests/play/test_passes.py",
    "tests/models",
    "tests/test_examples.py",
)
"""Files that take longest. They come first, so that no worker is left with one of them at the
end."""

OF_PARAMETERS = (
    "check_card",
    "check_is_pytree",
    "check_survives_json",
    "check_horizon_matters",
    "check_assumptions_are_known",
    "check_bounds_hold_against_adversaries",
)
"""Checks whose outcome depends on the parameters of a method, and not only on its class."""

FEW = {
    "test_an_accepted_model_is_what_cvxpy_says": {
        "battery",
        "farmer",
        "landing",
        "lasso",
        "markowitz",
        "matrix_completion",
        "network_utility",
        "newsvendor_network",
        "nested_and_scalar",
        "second_order_cones",
    },
    "test_an_example_ends_in_a_figure": {"the_line", "ramps"},
    "test_a_tutorial_prints_what_is_stored": {"first-game", "noisy-constraints"},
    "test_a_page_runs": {
        "start.md",
        *(
            f"guides/{name}.md"
            for name in ("changing", "checkpoints", "choosing", "constants", "fast", "fleets")
        ),
        *(f"guides/{name}.md" for name in ("production", "tables", "troubleshooting")),
    },
}
"""Of long lists one or two cases of each field. `make docs` runs all examples and tutorials."""


def pytest_addoption(parser):
    """Let `make drill` play what takes long and asks nearly the same question again."""
    parser.addoption("--long", action="store_true", help="play all models and all checks")


def pytest_configure(config):
    """Tell modules that tests share, too."""
    os.environ["TAUT_CASES"] = "all" if config.getoption("long") else "few"


def pytest_collection_modifyitems(config, items):
    """Begin with what takes long. Leave out what `--long` adds: tests that are marked as long,
    cases beyond `FEW`, and checks of methods that share a class with another one.

    The methods of a family are one class with different parameters. The first one passes all
    checks, the others those of `OF_PARAMETERS`. The check of seeds side by side is always left out
    of conformance: tests/testing has it for optimised code.
    """

    def left_out(item):
        if item.name.endswith("check_seeds_side_by_side]"):
            return True
        if config.getoption("long"):
            return False
        if item.get_closest_marker("long"):
            return True
        if item.originalname in FEW:
            return item.callspec.id not in FEW[item.originalname]
        if item.originalname != "test_conformance":
            return False
        card, check = (item.callspec.params[name] for name in ("card", "check"))
        return card is not item.module.CARDS[0] and check.__name__ not in OF_PARAMETERS

    def place(item):
        return next((k for k, name in enumerate(FIRST) if item.nodeid.startswith(name)), len(FIRST))

    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = sorted((item for item in items if not left_out(item)), key=place)

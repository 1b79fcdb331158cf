"""Hostile numerics for every test: 64 bits, no silent rank promotion, warnings are errors (pyproject)."""

import os
from pathlib import Path

import jax
import pytest

import taut
from taut.problem import programs

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
# Most of the tests' time is compilation. Both workers, and the next run, share what has been compiled.
taut.engine.cache(os.environ.get("TAUT_TEST_CACHE") or Path(__file__).parent.parent / ".xla_cache")

# Every method plays the same few problems here, which takes more programs per problem than any user needs. A program that is
# dropped and compiled again could differ in its rounding from the one before.
programs.LIMIT = 10_000


@pytest.fixture
def key():
    return jax.random.key(0)

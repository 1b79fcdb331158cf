"""Models are compiled once and used for a moment: optimising them would take longer than it
saves."""

import jax
import pytest


@pytest.fixture(scope="module")
def compile_quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)

"""Hostile numerics for every test: 64 bits, no silent rank promotion, warnings are errors (pyproject)."""

import jax
import pytest

import taut  # noqa: F401  (sets the engine's flags before the backend starts)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(0)

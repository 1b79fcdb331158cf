"""What checks are written with: assertions whose message says what a learner must do."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine import Array
from ..runs.run import Run

__all__ = ["decisions_of", "require", "require_close", "require_equal"]


def require(condition: Any, sentence: str) -> None:
    """Raise an AssertionError with `sentence` unless the condition holds."""
    if not condition:
        raise AssertionError(sentence)


def require_equal(a: Any, b: Any, sentence: str) -> None:
    """Require that two arrays are equal to the last bit."""
    require(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True), sentence)


def require_close(a: Any, b: Any, sentence: str, rtol: float = 0.0, atol: float = 1e-12) -> None:
    """Require that two arrays agree up to tolerances."""
    a, b = np.asarray(a), np.asarray(b)
    require(
        a.shape == b.shape and np.allclose(a, b, rtol=rtol, atol=atol),
        f"{sentence} (largest difference "
        f"{np.max(np.abs(a - b), initial=0.0) if a.shape == b.shape else 'of shapes'})",
    )


def decisions_of(run: Run) -> Array:
    """Return the decisions of a run that recorded them."""
    assert run.decisions is not None
    return run.decisions

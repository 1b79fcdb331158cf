"""Sub-expressions without variables and parameters: evaluated once, by CVXPY, as dense arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["constant_value", "is_constant"]


def is_constant(expression: Any) -> bool:
    """Whether the expression has no variable and no parameter (CVXPY counts parameters as
    constants)."""
    return not expression.variables() and not expression.parameters()


def constant_value(expression: Any) -> np.ndarray[Any, Any] | None:
    """The value of a constant expression as a dense array of the expression's shape, else None.

    Complex numbers whose imaginary parts all vanish become real; other complex values stay as they
    are.
    """
    if not is_constant(expression):
        return None
    value = expression.value
    array = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    if np.iscomplexobj(array) and not np.any(array.imag):
        array = array.real
    return np.reshape(array if np.iscomplexobj(array) else array.astype(float), expression.shape)

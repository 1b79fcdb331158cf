"""How CVXPY is asked to state a program for the solver."""

from __future__ import annotations

from typing import Any

__all__ = ["backend"]


def backend(program: Any) -> str | None:
    """The `canon_backend` that can state the program; None, CVXPY's own choice, if that can.

    CVXPY's own choice warns before it gives up on expressions of more than two axes and on some atoms, such as
    broadcasting.
    """
    if program._max_ndim() <= 2 and program._supports_cpp():
        return None
    from cvxpy import SCIPY_CANON_BACKEND

    return str(SCIPY_CANON_BACKEND)

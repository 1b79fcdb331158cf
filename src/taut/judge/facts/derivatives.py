"""Programs whose derivatives are those of their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...intervals.of_jaxpr import CUSTOM, is_log_add_exp
from ...jax_internals import derivative_file
from ...jaxpr.walk import equations

__all__ = ["has_usual_derivative", "has_usual_derivatives"]

OWN = Path(__file__).resolve().parents[2]
"""The folder of taut, whose rules for derivatives return a subgradient."""
UNUSUAL = ("custom_vjp_call", "custom_vjp_call_jaxpr", "stop_gradient")


def has_usual_derivatives(program: Any) -> bool:
    """Whether no operation of a traced program has a derivative of its own, or none.

    What is proven of values holds for gradients only then.
    """
    return all(map(has_usual_derivative, equations(program)))


def has_usual_derivative(equation: Any) -> bool:
    """Whether the derivative of an operation is that of its values, or a rule of taut."""
    if equation.primitive.name in UNUSUAL:
        return False
    if equation.primitive.name != CUSTOM or is_log_add_exp(equation):
        return True
    file = derivative_file(equation)
    return file is not None and OWN in Path(file).resolve().parents

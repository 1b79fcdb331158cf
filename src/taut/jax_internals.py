"""All parts of JAX that are not documented as stable. No other module of taut uses them.

A new release of JAX may change them. Each has a fall-back in plain JAX, which is slower but
computes the same: rounds are not rewritten for XLA, and loss and constraints are traced more than
once. Setting `TAUT_PLAIN_JAX=1` in the environment before importing taut forces the fall-backs. The
smoothing of constraints has none: it needs the traced program and raises an error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import jax

try:  # the public place, jax.extend, loads Pallas, which takes as long as a third of taut
    from jax._src.core import ClosedJaxpr, Jaxpr, Literal
except ImportError:
    try:
        from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
    except ImportError:  # another place in a later version
        ClosedJaxpr = Jaxpr = Literal = type("Missing", (), {})  # type: ignore[assignment,misc]

__all__ = [
    "TESTED",
    "ClosedJaxpr",
    "Jaxpr",
    "Literal",
    "backend_started",
    "bind",
    "derivative_file",
    "forget_traces",
    "is_tracer",
    "mark_call",
    "plain",
    "trace_state",
]

TESTED = "0.10."
"""Versions of JAX in which passes that depend on XLA were tested: its options, and one kernel."""
_forced = os.environ.get("TAUT_PLAIN_JAX", "") not in ("", "0")


def plain() -> bool:
    """Return whether the fall-backs in plain JAX are forced."""
    return _forced


def is_tracer(value: Any) -> bool:
    """Return whether a value is not known yet, because JAX is tracing the function that computes
    it."""
    return isinstance(value, jax.core.Tracer)


def derivative_file(equation: Any) -> str | None:
    """Return the file with the rule for the derivative that a `custom_jvp_call` has; as a
    fall-back, None."""
    try:
        file = equation.params["jvp_jaxpr_fun"].debug_info.func_filename
    except (AttributeError, KeyError):
        return None
    return None if _forced or file is None else str(file)


def trace_state() -> Any:
    """Return an identifier of the current JAX trace; as a fall-back, one that is equal to no
    other."""
    if _forced:
        return object()
    try:
        from jax._src import core

        return core.get_opaque_trace_state(convention="taut")
    except (ImportError, AttributeError, TypeError):
        return object()


def backend_started() -> bool:
    """Return whether XLA has started; as a fall-back, False."""
    try:
        from jax._src import xla_bridge

        return bool(xla_bridge.backends_are_initialized())
    except (ImportError, AttributeError):
        return False


def forget_traces() -> None:
    """Make JAX trace functions anew, but keep compiled programs; as a fall-back, discard those too.

    JAX keeps NumPy constants of a function in the precision in which it was first traced, and would
    mix the two.
    """
    try:
        if _forced:
            raise ImportError
        from jax._src import pjit
        from jax._src.interpreters import partial_eval

        # The second one has another name in JAX 0.8.
        traced = (
            pjit._create_pjit_jaxpr
            if hasattr(pjit, "_create_pjit_jaxpr")
            else partial_eval.trace_to_jaxpr
        )
        for cached in (pjit._infer_params_cached, traced):
            cached.cache_clear()
    except (ImportError, AttributeError):
        jax.clear_caches()


def bind(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """Return the results of an equation of a traced program for other operands."""
    bound = equation.primitive.get_bind_params(equation.params)
    functions, parameters = (
        bound if isinstance(bound, tuple) else ((), bound)
    )  # a pair before JAX 0.9.2
    results = equation.primitive.bind(*functions, *operands, **parameters)
    return list(results) if equation.primitive.multiple_results else [results]


def mark_call(results: list[jax.Array]) -> list[jax.Array]:
    """Mark the call of a jitted function that returned `results` to be one kernel on a CPU."""
    from jax.experimental.xla_metadata import set_xla_metadata

    marked = set_xla_metadata(results[0], xla_cpu_small_call="true", inlineable="false")
    return [marked, *results[1:]]

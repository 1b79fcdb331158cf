"""Checks before the first round: the first decision is in the domain, and the functions fit it and
the data."""

from __future__ import annotations

import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..engine import Array, default_float
from .domains import Domain
from .domains.support import centre_of
from .problem import Problem
from .streams import Adversary, Stream
from .tracing import refuse_array, scalar, traced


@jax.jit
def _contains(domain: Domain, x: jax.Array) -> jax.Array:
    return domain.contains(x)


_centres: weakref.WeakKeyDictionary[Problem, dict[Any, jax.Array]] = weakref.WeakKeyDictionary()


def first_decision(problem: Problem, x1: Any) -> jax.Array:
    """Return the user's first decision, checked, or the centre of the domain. It is a known array
    also inside a function that JAX traces."""
    known, dtype = _centres.setdefault(problem, {}), default_float()
    if x1 is None and dtype in known:
        return known[dtype]
    with jax.ensure_compile_time_eval():
        if x1 is not None:
            return _checked(problem, x1)
        known[dtype] = jax.device_put(centre_of(problem.domain))
        return known[dtype]


def _checked(problem: Problem, x1: Any) -> jax.Array:
    """Return the user's first decision; refuse one that is not in the domain."""
    decision = arguments.finite("x1", problem.assemble(x1))
    if decision.shape != problem.domain.shape:
        raise ValueError(
            f"x1: got shape {decision.shape}; expected {problem.domain.shape}, that of the domain"
        )
    floating = np.issubdtype(decision.dtype, np.floating)
    first = jnp.asarray(
        decision, jax.dtypes.canonicalize_dtype(decision.dtype) if floating else default_float()
    )
    if not np.asarray(_contains(problem.domain, first)):  # several times faster than bool(...)
        came = np.array2string(decision, threshold=8)
        raise ValueError(
            f"x1: got {came}, outside the domain; expected a point inside, for example "
            "problem.domain.project(x1)"
        )
    return first


def round_shapes(stream: Stream, x: jax.Array, key: jax.Array | None) -> Any:
    """Return shapes and types of one round's data, with floats in the type of the decision `x`."""
    if isinstance(stream, Adversary):
        first = jnp.asarray(1, jnp.int32)
        if stream.state is None:
            called = "reveal(round, decision, key)"
            data = traced(called, "stream", "stream", stream.function, first, x, key, reveals=True)
        else:
            data = _stateful_shapes(stream, first, x, key)
        axes = 0
    else:
        data, axes = stream.block(0, 1), 2
    return jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape[axes:], _data_type(a.dtype, x.dtype)), data
    )


def adversary_state(stream: Stream, floating: Any) -> Any:
    """Return the adversary's state before round 1, in the decision's float type, or None."""
    if not isinstance(stream, Adversary) or stream.state is None:
        return None
    return jax.tree.map(lambda a: cast_data("state", a, floating), stream.state)


def _stateful_shapes(
    stream: Adversary, first: jax.Array, x: jax.Array, key: jax.Array | None
) -> Any:
    """Return shapes and types of the data, after checking that the state keeps its own."""
    state, called = adversary_state(stream, x.dtype), "reveal(state, round, decision, key)"
    reply = traced(called, "stream", "stream", stream.function, state, first, x, key, reveals=True)
    if not isinstance(reply, tuple) or len(reply) != 2:
        raise TypeError(
            f"stream: {called} returned {arguments.shown(reply)}; expected two things, the next "
            "state and z"
        )

    def described(tree: Any) -> Any:
        return jax.tree.map(lambda a: (tuple(a.shape), str(_data_type(a.dtype, x.dtype))), tree)

    if described(reply[0]) != described(state):
        raise ValueError(
            f"stream: {called} returned a state with {described(reply[0])}; expected "
            f"{described(state)}, as before round 1"
        )
    return reply[1]


def _data_type(dtype: Any, floating: Any) -> np.dtype[Any]:
    if dtype.kind == "f":
        return np.dtype(floating)
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype.newbyteorder("=")))


def cast_data(name: str, data: Any, floating: Any) -> Array:
    """Cast data to the type in which they are used. Whole numbers that do not fit are refused, not
    wrapped around."""
    array = arguments.as_array(name, data)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name}: got values of type {array.dtype}; expected real numbers")
    dtype = _data_type(array.dtype, floating)
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):  # infinite values are reported later, with their round
        cast = array.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(cast, array):
        raise ValueError(
            f"{name}: got whole numbers beyond {dtype}; expected smaller ones, or 64 bits "
            "switched on with "
            'jax.config.update("jax_enable_x64", True)'
        )
    return cast


_counts: weakref.WeakKeyDictionary[Problem, dict[Any, int]] = weakref.WeakKeyDictionary()


def count_constraints(problem: Problem, x: Any, z: Any, name: str) -> int:
    """Return the number of constraints, after checking that loss and constraints fit the decision
    and the data.

    Arguments:
        problem: the problem.
        x: a decision, or its shape and type.
        z: one round's data, or their shapes and types; for a problem with memory, with the previous
            decision.
        name: what the user calls the data, for error messages.
    """
    known = _counts.setdefault(problem, {})  # because tracing takes longer than a short simulation
    leaves, structure = jax.tree.flatten((x, z))
    shapes = (structure, *((leaf.shape, leaf.dtype) for leaf in leaves))
    if shapes not in known:
        previous = ", previous" if problem.previous else ""

        def loss_of(x: jax.Array, z: Any) -> jax.Array:
            return scalar(problem.loss(x, z))

        loss = traced(f"loss(x, z{previous})", "loss", name, loss_of, x, z)
        if loss.shape:
            refuse_array(loss.shape, name)
        if not (
            jnp.issubdtype(loss.dtype, jnp.floating) or jnp.issubdtype(loss.dtype, jnp.integer)
        ):
            raise TypeError(
                f"loss: got a value of type {loss.dtype}; expected a real number that is small "
                "where x is good"
            )
        takes_data = problem.constraints.takes_data
        called = f"constraints(x, z{previous})" if takes_data else "constraints(x)"
        data = z if takes_data else None
        values = traced(called, "constraints", name, problem.constraints.values, x, data)
        known[shapes] = int(values.shape[0])
    return known[shapes]

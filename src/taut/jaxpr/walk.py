"""One walker of traced programs (jaxprs): evaluate a program with a rule of one's own.

`jax.make_jaxpr` turns a function into a list of equations. `evaluate` goes through that list, looks
up the operands of each equation, and asks a rule for its results. Calls of other programs, such as
those of `jax.jit`, are evaluated in place, so that a rule sees single operations only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..jax_internals import ClosedJaxpr, Jaxpr, Literal

CALLS = frozenset(
    (
        "checkpoint",
        "closed_call",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "jit",
        "pjit",
        "remat",
        "remat2",
    )
)
"""Operations that call one other program with their own operands."""

INLINED = frozenset(("closed_call", "core_call", "jit", "pjit"))
"""Calls of programs that have no derivative of their own."""

Rule = Callable[[Any, list[Any]], Sequence[Any]]
"""(equation, operands) -> results."""


def evaluate(
    program: Any, arguments: Sequence[Any], rule: Rule, calls: frozenset[str] = CALLS
) -> list[Any]:
    """Return the results of a traced program for these arguments.

    Arguments:
        program: as `jax.make_jaxpr` returns it.
        arguments: one per input. They can be anything that the rule understands.
        rule: computes the results of one equation from its operands.
        calls: operations whose programs are evaluated in place; the rule gets all others.
    """
    jaxpr = program.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        operands = [value(atom) for atom in equation.invars]
        if equation.primitive.name in calls:
            results = evaluate(called(equation), operands, rule, calls)
        else:
            results = list(rule(equation, operands))
        known.update(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def rewritten(
    function: Callable[..., Any], rule: Rule, calls: frozenset[str] = INLINED
) -> Callable[..., Any]:
    """Return a function that traces another one and evaluates its program with a rule."""

    def evaluated(*arguments: Any) -> Any:
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = evaluate(program, jax.tree.leaves(arguments), rule, calls)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return evaluated


def called(equation: Any) -> Any:
    """Return the program that a call calls, closed."""
    return bodies(equation)[0]


def bodies(equation: Any) -> list[Any]:
    """Return the programs inside a call, a loop or a branch, each closed."""
    closed = []
    for parameter in equation.params.values():
        for part in parameter if isinstance(parameter, (tuple, list)) else (parameter,):
            if isinstance(part, ClosedJaxpr):
                closed.append(part)
            elif isinstance(part, Jaxpr):
                closed.append(ClosedJaxpr(part, ()))
    return closed


def equations(program: Any) -> Iterator[Any]:
    """Yield all equations of a traced program, those of inner programs too."""
    for equation in program.jaxpr.eqns:
        yield equation
        for inner in bodies(equation):
            yield from equations(inner)


def is_float(atom: Any) -> bool:
    """Return whether a variable or literal of a program is an array of floats."""
    return bool(jnp.issubdtype(atom.aval.dtype, jnp.floating))

"""Find comparisons of floats that a compiler may compute twice, with different rounding.

A number that is stored is the same wherever it is read: an input of the program, a constant, or
either of them moved about. Any other float may be computed again for each use. To select by its
equality with another one, or by comparing it with the largest of several among which it is, is then
not safe. Whether a number is NaN or infinite does not depend on rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..jax_internals import is_tracer
from .walk import bodies, evaluate, is_float

MOVES = frozenset(
    (
        "broadcast_in_dim",
        "concatenate",
        "copy",
        "dynamic_slice",
        "expand_dims",
        "gather",
        "neg",
        "pad",
        "reshape",
        "rev",
        "select_n",
        "slice",
        "split",
        "squeeze",
        "stop_gradient",
        "transpose",
    )
)
"""Operations that move numbers, and round none."""
EQUALITIES, ORDERS = frozenset(("eq", "ne")), frozenset(("ge", "gt", "le", "lt"))
EXTREMES = frozenset(("reduce_max", "reduce_min", "sort"))
LARGER = frozenset(("cummax", "cummin", "max", "min"))
"""Operations whose results are entries of their operands, each at its own place."""


class _Origin(NamedTuple):
    """Where a value comes from."""

    stored: bool
    """Whether it is the same number wherever it is read."""
    extreme: int = 0
    """How many largest or smallest entries it consists of; 0 if it is something else."""
    infinite: bool = False
    """Whether it is a constant that is infinite or NaN."""
    computed: frozenset[Any] = frozenset()
    """The computed numbers that it consists of."""
    among: frozenset[Any] = frozenset()
    """The computed numbers among which it is the larger or smaller one."""


_STORED = _Origin(True)


class _Unsafe(Exception):
    """A comparison is not safe, or an operation was refused. Its text is the name of it."""


def unsafe_operation(program: Any, refuse: Callable[[Any], bool] = lambda equation: False) -> str:
    """Return the name of a comparison in a traced program that is not safe, or of an operation that
    `refuse` refuses; empty if there is none."""
    try:
        _follow(program, refuse)
    except _Unsafe as error:
        return str(error)
    return ""


def _follow(program: Any, refuse: Callable[[Any], bool]) -> None:
    """Raise `_Unsafe` for the first unsafe operation of a program whose inputs are stored."""
    inputs = [_STORED] * len(program.jaxpr.invars)
    evaluate(program, inputs, partial(_origins_of_results, refuse))


def _origins_of_results(
    refuse: Callable[[Any], bool], equation: Any, operands: list[Any]
) -> list[_Origin]:
    """Return where the results of an operation come from; `_Unsafe` if it is not safe.

    Operands that are no origins are constants of the program, which are stored.
    """
    name, origins = equation.primitive.name, []
    for atom, operand in zip(equation.invars, operands, strict=True):
        origin = operand
        if not isinstance(operand, _Origin):
            number = is_float(atom) and not is_tracer(operand) and np.ndim(operand) == 0
            origin = _Origin(True, infinite=number and not np.isfinite(operand))
        origins.append(origin)
    if refuse(equation) or _is_unsafe(name, equation.invars, origins):
        raise _Unsafe(name)
    for body in bodies(equation):  # loops and branches store what they are given
        _follow(body, refuse)
    moved, stored, infinite, extreme = name in MOVES, True, True, 0
    computed: frozenset[Any] = frozenset()
    among: frozenset[Any] = frozenset()
    for origin in origins:
        stored, infinite = stored and origin.stored, infinite and origin.infinite
        extreme = max(extreme, origin.extreme)
        computed, among = computed | origin.computed, among | origin.among
    results = []
    for atom in equation.outvars:
        result = _STORED
        if is_float(atom) and moved:
            result = _Origin(stored, extreme, infinite, computed, among)
        elif is_float(atom):
            extremes = atom.aval.size if name in EXTREMES else 0
            larger = computed | among if name in LARGER else frozenset()
            result = _Origin(False, extremes, False, frozenset((atom,)), larger)
        results.append(result)
    return results


def _is_unsafe(name: str, atoms: list[Any], operands: list[_Origin]) -> bool:
    if name not in EQUALITIES | ORDERS or not is_float(atoms[0]) or atoms[0] is atoms[1]:
        return False
    first, second = operands
    stored = first.stored and second.stored
    if name in EQUALITIES:
        return not stored and not (first.infinite or second.infinite)
    if first.among & second.computed or second.among & first.computed:
        return True
    size = max(atoms[0].aval.size, atoms[1].aval.size)  # more entries than extremes: a mask
    spread = 0 < first.extreme < size or 0 < second.extreme < size
    return spread and not (first.stored or second.stored)

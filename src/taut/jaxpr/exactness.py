"""Find comparisons of floats that a compiler may compute twice, with different rounding.

A number that is stored is the same wherever it is read: an input of the program, a constant, or
either of them moved about. Any other float may be computed again for each use. To select by its
equality with another one, or by comparing it with the largest of several among which it is, is then
not safe. Whether a number is NaN or infinite does not depend on rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .walk import CALLS, bodies, called, is_float

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


def unsafe_operation(program: Any, refuse: Callable[[Any], bool] = lambda equation: False) -> str:
    """Return the name of a comparison in a traced program that is not safe, or of an operation that
    `refuse` refuses; empty if there is none."""
    return _unsafe(program.jaxpr, [_STORED for _ in program.jaxpr.invars], refuse)[0]


def _unsafe(
    jaxpr: Any, inputs: list[_Origin], refuse: Callable[[Any], bool]
) -> tuple[str, list[_Origin]]:
    """Return the first unsafe operation, and the origins of the results."""
    origins: dict[Any, _Origin] = dict(zip(jaxpr.invars, inputs, strict=True))

    def origin(atom: Any) -> _Origin:
        if hasattr(atom, "val"):
            return _Origin(True, infinite=is_float(atom) and not np.isfinite(atom.val).any())
        return origins.get(atom, _STORED)  # constants of the program are stored

    for equation in jaxpr.eqns:
        name, operands = equation.primitive.name, [origin(atom) for atom in equation.invars]
        if refuse(equation) or _is_unsafe(name, equation.invars, operands):
            return name, []
        results = [_result(name, operands, atom) for atom in equation.outvars]
        unsafe = ""
        if name in CALLS:
            unsafe, results = _unsafe(called(equation).jaxpr, operands, refuse)
        else:
            for body in bodies(equation):  # loops and branches store what they are given
                unsafe = unsafe or unsafe_operation(body, refuse)
        if unsafe:
            return unsafe, []
        origins.update(zip(equation.outvars, results, strict=True))
    return "", [origin(atom) for atom in jaxpr.outvars]


def _is_unsafe(name: str, atoms: list[Any], operands: list[_Origin]) -> bool:
    if name not in EQUALITIES | ORDERS or not is_float(atoms[0]) or atoms[0] is atoms[1]:
        return False
    if name in EQUALITIES:
        computed = not all(each.stored for each in operands)
        return computed and not any(each.infinite for each in operands)
    first, second = operands
    if first.among & second.computed or second.among & first.computed:
        return True
    size = max(atom.aval.size for atom in atoms)  # more entries than extremes: a mask
    spread = any(0 < each.extreme < size for each in operands)
    return spread and not any(each.stored for each in operands)


def _result(name: str, operands: list[_Origin], atom: Any) -> _Origin:
    if not is_float(atom):
        return _STORED
    moved = name in MOVES
    parts: frozenset[Any] = frozenset().union(*(each.computed for each in operands))
    among: frozenset[Any] = frozenset().union(*(each.among for each in operands))
    extreme = max((each.extreme for each in operands), default=0) if moved else 0
    return _Origin(
        stored=moved and all(each.stored for each in operands),
        extreme=atom.aval.size if name in EXTREMES else extreme,
        infinite=moved and all(each.infinite for each in operands),
        computed=parts if moved else frozenset((atom,)),
        among=parts | among if name in LARGER else among if moved else frozenset(),
    )

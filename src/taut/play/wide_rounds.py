"""Rewrite rounds with long decisions, in which passes over memory and operations per number take
most of the time.

- XLA's CPU backend reads a decision once for each sum over it, for example once for the loss and
  once for a constraint. An operation that reduces several arrays at once becomes a single loop. So
  sums that do not depend on each other are formed together.
- A gradient is often a number times an array, and a step length multiplies that. The two numbers
  are multiplied first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..jax_internals import Literal, bind

__all__ = ["HUGE", "WIDE", "evaluate", "is_wide"]

WIDE, HUGE = 128, 2**17
"""Numbers of a decision from which on a pass over its memory takes a noticeable time; and up to
which a chunk is compiled into one kernel. With more, XLA uses several threads for a single
operation, but not for a sum of several arrays."""
LONG_ROW = 16
"""Numbers of a row from which on a sum over everything is formed row by row, if there are sums of
rows too."""


def is_wide(shape: tuple[int, ...]) -> bool:
    """Return whether rounds with decisions of this shape are played with fewer passes over
    memory."""
    return WIDE <= math.prod(shape) <= HUGE


class Sums(NamedTuple):
    """What sums have to agree in to be formed in one pass."""

    shape: tuple[int, ...]
    dtype: Any
    axes: tuple[int, ...]

    @classmethod
    def of(cls, equation: Any) -> Sums | None:
        """Return what an equation of a traced program adds up, if that is a wide array of
        floats."""
        if equation.primitive.name != "reduce_sum":
            return None
        operand = equation.invars[0].aval
        wide = is_wide(operand.shape) and jnp.issubdtype(operand.dtype, jnp.floating)
        return cls(operand.shape, operand.dtype, tuple(equation.params["axes"])) if wide else None

    @property
    def whole(self) -> bool:
        """Whether everything is added up."""
        return len(self.axes) == len(self.shape)

    def can_be_part_of(self, rows: Sums) -> bool:
        """Return whether these sums over everything can be formed row by row."""
        by_row = (
            not rows.whole and rows.axes == (len(rows.shape) - 1,) and rows.shape[-1] >= LONG_ROW
        )
        return (
            self.whole
            and by_row
            and self.dtype == rows.dtype
            and math.prod(self.shape) == math.prod(rows.shape)
        )

    def form(self, arrays: Sequence[jax.Array], scalars: Sequence[bool]) -> list[jax.Array]:
        """Return the sums of all arrays; where `scalars` says so, the sum over everything."""

        def add(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
            return tuple(map(lax.add, left, right))

        zeros = tuple(jnp.zeros((), self.dtype) for _ in arrays)
        sums = lax.reduce(
            tuple(jnp.reshape(array, self.shape) for array in arrays), zeros, add, self.axes
        )
        return [
            jnp.sum(added) if scalar else added for added, scalar in zip(sums, scalars, strict=True)
        ]


class Products:
    """Products of a number and a wide array. If another number multiplies one, the two numbers are
    multiplied first."""

    def __init__(self) -> None:
        self._factors: dict[int, tuple[Any, Any, Any]] = {}
        """The identity of each product -> the product, its number and its array."""

    def of(self, equation: Any, operands: Sequence[Any]) -> list[Any]:
        """Return the results of an equation."""
        factors = self._number_and_array(equation, operands)
        if factors is None:
            return bind(equation, operands)
        number, array = factors
        if id(array) in self._factors:
            _, other, array = self._factors[id(array)]
            number = lax.mul(number, other)
        product = jnp.multiply(number, array)
        self._factors[id(product)] = product, number, array
        return [product]

    @staticmethod
    def _number_and_array(equation: Any, operands: Sequence[Any]) -> tuple[Any, Any] | None:
        name = equation.primitive.name
        outer = name == "dot_general" and equation.params["dimension_numbers"] == (
            ((), ()),
            ((), ()),
        )
        if name != "mul" and not outer:
            return None
        number, array = sorted(operands, key=jnp.ndim)
        result = equation.outvars[0].aval
        floats = jnp.issubdtype(result.dtype, jnp.floating)
        alike = floats and result.dtype == jnp.result_type(number) == jnp.result_type(array)
        return (
            (number, array)
            if alike and not jnp.ndim(number) and is_wide(jnp.shape(array))
            else None
        )


def evaluate(program: Any, arguments: Sequence[Any]) -> list[Any]:
    """Return the results of a traced program without calls, rewritten."""
    jaxpr = program.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    products = Products()
    for sums, group in _groups(jaxpr.eqns):
        if sums is not None and len(group) > 1:
            scalars = [not equation.outvars[0].aval.shape for equation in group]
            outputs = sums.form([value(equation.invars[0]) for equation in group], scalars)
        else:
            outputs = [
                output
                for equation in group
                for output in products.of(equation, [value(atom) for atom in equation.invars])
            ]
        known.update(
            zip(
                (variable for equation in group for variable in equation.outvars),
                outputs,
                strict=True,
            )
        )
    return [value(atom) for atom in jaxpr.outvars]


def _groups(equations: Sequence[Any]) -> Iterator[tuple[Sums | None, list[Any]]]:
    """Yield all equations in an order in which they can be evaluated, and those of long sums
    together.

    The stage of an equation is the largest number of long sums that have to be formed one after the
    other before it. Sums of the same stage do not depend on each other.
    """
    ready: dict[Any, int] = {}  # the stage from which on a value is known
    stages: dict[int, dict[Sums | None, list[Any]]] = {}
    for equation in equations:
        stage = max(
            (ready.get(atom, 0) for atom in equation.invars if not isinstance(atom, Literal)),
            default=0,
        )
        sums = Sums.of(equation)
        stages.setdefault(stage, {None: []}).setdefault(sums, []).append(equation)
        ready.update(dict.fromkeys(equation.outvars, stage + (sums is not None)))
    for stage in sorted(stages):
        others = stages[stage].pop(None)
        for equation in others:
            yield None, [equation]
        yield from _by_row(stages[stage]).items()


def _by_row(groups: dict[Any, list[Any]]) -> dict[Sums, list[Any]]:
    """Return the groups of a stage, in which sums over everything are added to sums of rows of as
    many numbers."""
    joined: dict[Sums, list[Any]] = {}
    for sums, group in sorted(groups.items(), key=lambda item: item[0].whole):  # rows first
        into = next((rows for rows in joined if sums.can_be_part_of(rows)), sums)
        joined.setdefault(into, []).extend(group)
    return joined

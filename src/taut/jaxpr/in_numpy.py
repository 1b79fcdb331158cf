"""Traced programs evaluated in NumPy instead of being compiled, for many values at once.

Compiling a small program takes XLA some 50 milliseconds, and evaluating it takes NumPy
microseconds. `in_numpy` turns a traced program into a list of steps in NumPy, or returns None if
one of its operations has no counterpart there (`numpy_rules`). All arrays have leading axes, over
which the program is mapped as `jax.vmap` would map it. `NumPyProgram.work` says how many numbers an
evaluation computes, by which callers choose between this and compiled code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine import Array
from .numpy_rules import Operation, is_ordinary, operation
from .walk import evaluate

PER_OPERATION = 1000
"""Entries that NumPy computes in the time that it takes to call one operation."""


@dataclass(frozen=True)
class _Slot:
    """The place of one value while a program is evaluated."""

    number: int


@dataclass(frozen=True)
class _Step:
    """One operation: where its operands are, and where its results go."""

    operation: Operation
    operands: tuple[int, ...]
    results: tuple[int, ...]
    multiple: bool
    """Whether the operation returns a list."""
    entries: int
    """How many numbers it computes for one value of the leading axes."""


class _NoRule(Exception):
    """An operation has no counterpart in NumPy."""


def in_numpy(program: Any, lead: int) -> NumPyProgram | None:
    """Return a traced program in NumPy, or None if an operation has no counterpart.

    Nothing of JAX is kept, because JAX would use the constants of a traced program that exists, in
    its precision, for other programs with the same constants in another precision.

    Arguments:
        program: as `jax.make_jaxpr` returns it.
        lead: the number of leading axes of all arrays.
    """
    steps: list[_Step] = []
    constants: dict[int, Array] = {}
    fixed: set[int] = set()
    inputs = [_Slot(number) for number in range(len(program.jaxpr.invars))]
    count = len(inputs)

    def new() -> _Slot:
        nonlocal count
        count += 1
        return _Slot(count - 1)

    def placed(value: Any, dtype: Any) -> _Slot:
        if isinstance(value, _Slot):
            return value
        slot = new()
        constants[slot.number] = np.array(value, dtype)[(None,) * lead]
        fixed.add(slot.number)
        return slot

    def rule(equation: Any, operands: list[Any]) -> list[_Slot]:
        if not all(is_ordinary(v.aval.dtype) for v in (*equation.invars, *equation.outvars)):
            raise _NoRule
        places = tuple(
            placed(value, v.aval.dtype).number
            for value, v in zip(operands, equation.invars, strict=True)
        )
        known = [number in fixed for number in places]
        made = operation(equation, lead, known)
        if made is None:
            raise _NoRule
        results = [new() for _ in equation.outvars]
        numbers = tuple(slot.number for slot in results)
        if all(known):
            fixed.update(numbers)
        multiple = equation.primitive.multiple_results
        steps.append(_Step(made, places, numbers, multiple, _entries(equation)))
        return results

    try:
        outputs = evaluate(program, inputs, rule)
    except _NoRule:
        return None
    places = [
        placed(value, v.aval.dtype).number
        for value, v in zip(outputs, program.jaxpr.outvars, strict=True)
    ]
    return NumPyProgram(steps, places, constants, lead)


def _entries(equation: Any) -> int:
    """How many numbers an operation computes; products count each multiplication."""
    size = max((math.prod(v.aval.shape) for v in equation.outvars), default=0)
    if equation.primitive.name == "dot_general":
        (left, _), _ = equation.params["dimension_numbers"]
        size *= math.prod(equation.invars[0].aval.shape[i] for i in left)
    return size


class NumPyProgram:
    """A program as steps in NumPy, without those that its outputs do not need."""

    def __init__(
        self,
        steps: Sequence[_Step],
        outputs: Sequence[int],
        constants: dict[int, Array],
        lead: int,
    ) -> None:
        self._all, self._outputs, self._lead = steps, outputs, lead
        needed, chosen = set(outputs), []
        for step in reversed(steps):
            if needed.intersection(step.results):
                needed.update(step.operands)
                chosen.append(step)
        self._constants = {slot: value for slot, value in constants.items() if slot in needed}
        later = {*outputs, *self._constants}
        self._steps: list[tuple[_Step, tuple[int, ...]]] = []
        for step in chosen:  # from the last one: what no later step reads is freed
            freed = {*step.operands, *step.results} - later
            later |= freed
            self._steps.append((step, tuple(freed)))
        self._steps.reverse()
        self._work: dict[Any, int] = {}

    def first(self, count: int) -> NumPyProgram:
        """Return the program of the first outputs only."""
        return NumPyProgram(self._all, self._outputs[:count], self._constants, self._lead)

    def work(self, inputs: Sequence[Array]) -> int:
        """Return how many numbers are computed for these inputs, where each call of an operation
        counts as `PER_OPERATION` numbers."""
        leads = tuple(array.shape[: self._lead] for array in inputs)
        if leads not in self._work:
            shapes: dict[int, tuple[int, ...]] = dict(enumerate(leads))
            shapes.update(dict.fromkeys(self._constants, (1,) * self._lead))
            total = 0
            for step, _ in self._steps:
                own = [shapes[slot] for slot in step.operands]
                shape = np.broadcast_shapes((1,) * self._lead, *own)
                shapes.update(dict.fromkeys(step.results, shape))
                total += math.prod(shape) * step.entries + PER_OPERATION
            self._work[leads] = total
        return self._work[leads]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs. Leading axes on which an output does not depend have length 1."""
        values: dict[int, Any] = dict(enumerate(inputs)) | self._constants
        with np.errstate(all="ignore"):
            for step, freed in self._steps:
                result = step.operation(*[values[slot] for slot in step.operands])
                values.update(
                    zip(step.results, result if step.multiple else (result,), strict=True)
                )
                for slot in freed:
                    del values[slot]
        return [np.asarray(values[slot]) for slot in self._outputs]

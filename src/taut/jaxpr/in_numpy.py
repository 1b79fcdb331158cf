"""Traced programs evaluated in NumPy instead of being compiled, for many values at once.

Compiling a small program takes XLA some 50 milliseconds, and evaluating it takes NumPy
microseconds. `in_numpy` turns a traced program into a list of steps in NumPy, or returns None if
one of its operations has no counterpart there (`numpy_rules`). All arrays have leading axes, over
which the program is mapped as `jax.vmap` would map it. `NumPyProgram.work` says how many numbers an
evaluation computes, by which callers choose between this and compiled code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine import Array
from .numpy_rules import operation
from .walk import evaluate

PER_OPERATION = 1000
"""Entries that NumPy computes in the time that it takes to call one operation."""


@dataclass(frozen=True)
class _Slot:
    """The place of one value while a program is evaluated."""

    number: int
    fixed: bool
    """Whether the value is a constant, or computed from constants only."""


@dataclass(frozen=True)
class _Step:
    """One operation: the numbers of the slots that it reads and writes."""

    operation: Callable[..., Any]
    operands: list[int]
    results: list[int]
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
    inputs = [_Slot(number, False) for number in range(len(program.jaxpr.invars))]
    steps: list[_Step] = []
    constants: dict[int, Array] = {}
    count = len(inputs)

    def slots(values: Sequence[Any], variables: Sequence[Any]) -> list[_Slot]:
        """Where these values are. A value that has no slot yet is a constant, which gets one."""
        nonlocal count
        places = []
        for value, variable in zip(values, variables, strict=True):
            if isinstance(value, _Slot):
                places.append(value)
                continue
            constants[count] = np.array(value, variable.aval.dtype)[(None,) * lead]
            places.append(_Slot(count, True))
            count += 1
        return places

    def rule(equation: Any, operands: list[Any]) -> list[_Slot]:
        nonlocal count
        places = slots(operands, equation.invars)
        fixed = [place.fixed for place in places]
        function = operation(equation, lead, fixed)
        if function is None:
            raise _NoRule
        numbers = list(range(count, count + len(equation.outvars)))
        count += len(numbers)
        read = [place.number for place in places]
        steps.append(_Step(function, read, numbers, _entries(equation)))
        return [_Slot(number, all(fixed)) for number in numbers]

    try:
        results = evaluate(program, inputs, rule)
    except _NoRule:
        return None
    outputs = [slot.number for slot in slots(results, program.jaxpr.outvars)]
    return NumPyProgram(steps, outputs, constants, lead)


def _entries(equation: Any) -> int:
    """How many numbers an operation computes; products count each multiplication."""
    size = 0
    for variable in equation.outvars:
        size = max(size, math.prod(variable.aval.shape))
    if equation.primitive.name == "dot_general":
        (left, _), _ = equation.params["dimension_numbers"]
        size *= math.prod(equation.invars[0].aval.shape[i] for i in left)
    return size


class NumPyProgram:
    """A program as steps in NumPy, without those that its outputs do not need."""

    def __init__(
        self, steps: Sequence[_Step], outputs: Sequence[int], constants: dict[int, Array], lead: int
    ) -> None:
        self._outputs, self._constants, self._lead = outputs, constants, lead
        self._steps: list[_Step] = []
        self._freed: list[set[int]] = []
        """For each step the slots that no later step reads, so that memory is freed early."""
        needed = {*outputs}
        for step in reversed(steps):
            if needed.intersection(step.results):
                self._freed.append({*step.operands, *step.results} - needed - {*constants})
                needed.update(step.operands)
                self._steps.append(step)
        self._steps.reverse()
        self._freed.reverse()
        self._work: dict[Any, int] = {}

    def first(self, count: int) -> NumPyProgram:
        """Return the program of the first outputs only."""
        return NumPyProgram(self._steps, self._outputs[:count], self._constants, self._lead)

    def work(self, inputs: Sequence[Array]) -> int:
        """Return how many numbers are computed for these inputs, where each call of an operation
        counts as `PER_OPERATION` numbers."""
        leads = tuple([array.shape[: self._lead] for array in inputs])
        if leads not in self._work:
            single = (1,) * self._lead
            shapes = dict(enumerate(leads)) | dict.fromkeys(self._constants, single)
            total = 0
            for step in self._steps:
                shape = np.broadcast_shapes(single, *map(shapes.__getitem__, step.operands))
                shapes.update(dict.fromkeys(step.results, shape))
                total += math.prod(shape) * step.entries + PER_OPERATION
            self._work[leads] = total
        return self._work[leads]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs. Leading axes on which an output does not depend have length 1."""
        values: dict[int, Any] = dict(enumerate(inputs)) | self._constants
        with np.errstate(all="ignore"):
            for step, freed in zip(self._steps, self._freed, strict=True):
                results = step.operation(*map(values.__getitem__, step.operands))
                results = results if isinstance(results, list) else [results]
                values.update(zip(step.results, results, strict=True))
                for slot in freed:
                    del values[slot]
        return [np.asarray(values[slot]) for slot in self._outputs]

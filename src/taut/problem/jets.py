"""Values, gradients and second derivatives of small functions in NumPy, for many decisions and
rounds at once.

JAX takes several milliseconds to trace a function with its derivatives, and several times as long
if it is also mapped over decisions and rounds. Here a function of one decision and one round's data
is traced once, together with its derivative along a direction v and the second derivative along v
and w. The traced program is then evaluated in NumPy for all directions, decisions and rounds at
once (`batched_rules.py`); parts that only derivatives need are left out where they are not asked
for. Everything that is asked about a function in hindsight and in certificates is computed from
this one trace.

Forward differentiation takes as many passes as a decision has entries. Therefore, and because NumPy
is slower than compiled code, `Jets.cheap` says whether an evaluation is worth it; where it is not,
callers compile functions of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..jax_internals import Literal, plain
from .batched_rules import Operation, Unbatched, batched
from .constraints import Constraints
from .interpreter import CALLS, ENTRIES, PER_OPERATION, SECONDS, bodies, current_owner

__all__ = ["Jets", "constraint_jets", "jets_of", "loss_jets"]

LEAD = 4
"""Leading axes of all arrays: directions v, directions w, decisions, rounds."""


def jets_of(
    function: Callable[..., Any], static: Any, parameters: Any, x: Array, z: Any
) -> Jets | None:
    """Return the jets of x -> function(static, parameters, x, z), or None if NumPy cannot evaluate
    them.

    Arguments:
        function: defined at module level; returns one array.
        static: what is fixed, for example the user's loss. Jets are kept by the current owner
            (`owned_by`).
        parameters: a tree of arrays.
        x: one decision.
        z: one round's data, a tree of arrays.
    """
    owner = current_owner()
    if owner is None or plain() or jax.default_backend() != "cpu":
        return None
    leaves, tree = jax.tree.flatten((parameters, z))
    canonical = jax.dtypes.canonicalize_dtype  # 64 bits become 32 where JAX does not have them
    described = tuple((np.shape(leaf), canonical(np.asarray(leaf).dtype)) for leaf in (x, *leaves))
    key = function, static, tree, described, jax.config.read("jax_enable_x64")
    kept: list[Jets | None] = owner.get(
        (Jets, key), lambda: [_traced(function, static, tree, described)]
    )
    return kept[0]


def loss_jets(loss: Callable[..., Any], x: Array, z: Any) -> Jets | None:
    """Return the jets of a user's loss; see `jets_of`."""
    return jets_of(_loss, loss, (), x, z)


def constraint_jets(constraints: Constraints, x: Array, z: Any) -> Jets | None:
    """Return the jets of all values of constraints; see `jets_of`. They have the constraints
    themselves as parameters."""
    return jets_of(_values, None, constraints, x, z)


def _loss(loss: Callable[..., Any], _: Any, x: jax.Array, z: Any) -> jax.Array:
    return jnp.asarray(loss(x, z), x.dtype)


def _values(_: None, constraints: Constraints, x: jax.Array, z: Any) -> jax.Array:
    return constraints.values(x, z)


def _traced(
    function: Callable[..., Any], static: Any, tree: Any, described: tuple[Any, ...]
) -> Jets | None:
    def twice(x: Any, v: Any, w: Any, *leaves: Any) -> Any:
        parameters, z = jax.tree.unflatten(tree, leaves)

        def once(y: Any) -> Any:
            return jax.jvp(lambda y: function(static, parameters, y, z), (y,), (v,))

        (value, along), (_, curved) = jax.jvp(once, (x,), (w,))
        return value, along, curved

    like = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in described]
    try:
        return Jets(jax.make_jaxpr(twice)(like[0], like[0], like[0], *like[1:]))
    except Unbatched:
        return None
    except Exception:  # whatever the user's function raises, compiling it says so in better words
        return None


Kind = tuple[bool, bool]
"""Whether a value depends on v, and whether on w."""


@dataclass(frozen=True)
class _Step:
    operation: Operation
    operands: list[int]
    results: list[int]
    multiple: bool
    entries: int
    """How many numbers one value takes to compute,"""
    kind: Kind
    """and what it depends on."""


class Jets:
    """A traced function, as steps in NumPy."""

    def __init__(self, closed: Any) -> None:
        self._steps: list[_Step] = []
        self._constants: dict[int, Array] = {}
        self._kinds: list[Kind] = []
        kinds = [(False, False), (True, False), (False, True)] + [(False, False)] * (
            len(closed.jaxpr.invars) - 3
        )
        inputs = [self._new(kind) for kind in kinds]
        self._fixed: set[int] = set()
        outputs = self._add(closed, inputs)
        x, value = closed.jaxpr.invars[0].aval, closed.jaxpr.outvars[0].aval
        self.size, self.dtype = math.prod(x.shape), np.dtype(x.dtype)
        self.shape: tuple[int, ...] = tuple(value.shape)
        """The shape of the function's values."""
        self._x_shape = tuple(x.shape)
        self._dtypes = [np.dtype(one.aval.dtype) for one in closed.jaxpr.invars[3:]]
        self._tapes = [_Tape(self._steps, outputs[:order], self._constants) for order in (1, 2, 3)]
        self.spent = 0.0
        """Seconds of processor time so far."""

    def cheap(
        self, points: int, rounds: int, order: int = 0, directions: int | None = None
    ) -> bool:
        """Return whether derivatives up to `order` are worth evaluating here: compiling would take
        longer."""
        first, second = self.size if order else 1, 1
        if order == 2:
            second = self.size if directions is None else directions
        return (
            self.spent <= SECONDS
            and self._tapes[order].work(first, second, points * rounds) <= ENTRIES
        )

    def values(self, x: Array, parameters: Any, z: Any) -> Array:
        """Return the values, (point, round, *shape).

        Arguments:
            x: decisions, (point, round or 1, *shape of a decision).
            parameters: as for `jets_of`.
            z: the data, arrays (point or 1, round, ...).
        """
        (value,) = self._run(x, parameters, z)
        return value[0, 0]

    def slopes(self, x: Array, parameters: Any, z: Any) -> tuple[Array, Array]:
        """Return the values and the gradients, (point, round, *shape, entry of the decision)."""
        value, slope = self._run(x, parameters, z, self._units())
        return value[0, 0], np.moveaxis(slope[:, 0], 0, -1)

    def products(
        self, x: Array, parameters: Any, z: Any, directions: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Return values, gradients and Hessians times directions, (direction, point, round, *shape,
        entry of the decision).

        `directions` are flat, (direction, entry); by default all units, which gives the Hessians.
        """
        units = self._units()
        along = (
            units
            if directions is None
            else np.asarray(directions, self.dtype).reshape(-1, *self._x_shape)
        )
        value, slope, curved = self._run(x, parameters, z, units, along)
        return value[0, 0], np.moveaxis(slope[:, 0], 0, -1), np.moveaxis(curved, 0, -1)

    def _units(self) -> Array:
        return np.eye(self.size, dtype=self.dtype).reshape(self.size, *self._x_shape)

    def _run(self, x: Array, parameters: Any, z: Any, *directions: Array) -> list[Array]:
        """The function, its derivative along the first directions, and along the first and the
        second, as far as given."""
        began = time.thread_time()
        order, blank = len(directions), np.zeros((1, *self._x_shape), self.dtype)
        v, w = (*directions, blank, blank)[:2]
        given = jax.tree.leaves(parameters)
        data = [
            np.asarray(leaf, t)
            for leaf, t in zip(jax.tree.leaves(z), self._dtypes[len(given) :], strict=True)
        ]
        inputs = [
            np.asarray(x, self.dtype)[None, None],
            v[:, None, None, None],
            w[None, :, None, None],
            *(
                np.asarray(leaf, t)[(None,) * LEAD]
                for leaf, t in zip(given, self._dtypes, strict=False)
            ),
            *(leaf[None, None] for leaf in data),
        ]
        with np.errstate(all="ignore"):
            found = self._tapes[order].run(inputs)
        batch = np.broadcast_shapes(x.shape[:2], *(leaf.shape[:2] for leaf in data))
        counts = (
            (1, 1),
            (len(v), 1),
            (len(v), len(w)),
        )  # results need not depend on all that they could depend on
        whole = [
            np.broadcast_to(a, (*n, *batch, *self.shape))
            for n, a in zip(counts, found, strict=False)
        ]
        self.spent += time.thread_time() - began
        return whole

    def _new(self, kind: Kind) -> int:
        self._kinds.append(kind)
        return len(self._kinds) - 1

    def _constant(self, value: Any, dtype: Any) -> int:
        slot = self._new((False, False))
        self._constants[slot] = np.array(value, dtype)[(None,) * LEAD]
        self._fixed.add(slot)
        return slot

    def _add(self, closed: Any, inputs: list[int]) -> list[int]:
        """Append the steps of a program whose inputs are in these slots, and return the slots of
        its outputs."""
        jaxpr = closed.jaxpr
        slots = {
            v: self._constant(c, v.aval.dtype)
            for v, c in zip(jaxpr.constvars, closed.consts, strict=True)
        }
        slots.update(zip(jaxpr.invars, inputs, strict=True))

        def slot(variable: Any) -> int:
            literal = isinstance(variable, Literal)
            return self._constant(variable.val, variable.aval.dtype) if literal else slots[variable]

        for equation in jaxpr.eqns:
            operands = [slot(v) for v in equation.invars]
            if equation.primitive.name in CALLS:
                results = self._add(bodies(equation)[0], operands)
            else:
                fixed = [one in self._fixed for one in operands]
                operation, multiple = (
                    batched(equation, LEAD, fixed),
                    equation.primitive.multiple_results,
                )
                kind = (
                    any(self._kinds[one][0] for one in operands),
                    any(self._kinds[one][1] for one in operands),
                )
                results = [self._new(kind) for _ in equation.outvars]
                self._fixed.update(results if all(fixed) else ())
                self._steps.append(
                    _Step(operation, operands, results, multiple, _entries(equation), kind)
                )
            slots.update(zip(equation.outvars, results, strict=True))
        return [slot(v) for v in jaxpr.outvars]


class _Tape:
    """The steps that some outputs need."""

    def __init__(
        self, steps: Sequence[_Step], outputs: Sequence[int], constants: dict[int, Array]
    ) -> None:
        needed, chosen = set(outputs), []
        for step in reversed(steps):
            if needed.intersection(step.results):
                needed.update(step.operands)
                chosen.append(step)
        self._outputs = outputs
        self._constants = {slot: value for slot, value in constants.items() if slot in needed}
        kept = {*outputs, *self._constants}
        self._steps: list[tuple[_Step, tuple[int, ...]]] = []
        for step in chosen:  # from the last one: what no later step reads is freed
            freed = {*step.operands, *step.results} - kept
            kept |= freed
            self._steps.append((step, tuple(freed)))
        self._steps.reverse()
        self._sizes = {
            kind: 0 for kind in ((False, False), (True, False), (False, True), (True, True))
        }
        for step in chosen:
            self._sizes[step.kind] += step.entries

    def work(self, first: int, second: int, count: int) -> int:
        """The number of entries that are computed, and what it takes to call the operations."""
        sizes = self._sizes
        each = sizes[False, False] + first * sizes[True, False] + second * sizes[False, True]
        return count * (each + first * second * sizes[True, True]) + PER_OPERATION * len(
            self._steps
        )

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        values: dict[int, Any] = dict(enumerate(inputs)) | self._constants
        for step, freed in self._steps:
            result = step.operation(*[values[slot] for slot in step.operands])
            values.update(zip(step.results, result if step.multiple else (result,), strict=True))
            for slot in freed:
                del values[slot]
        return [np.asarray(values[slot]) for slot in self._outputs]


def _entries(equation: Any) -> int:
    size = max((math.prod(v.aval.shape) for v in equation.outvars), default=0)
    if equation.primitive.name == "dot_general":
        (left, _), _ = equation.params["dimension_numbers"]
        size *= math.prod(equation.invars[0].aval.shape[i] for i in left)
    return size

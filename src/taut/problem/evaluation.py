"""Values and derivatives of a function at many decisions and rounds.

Everything that is computed of a user's functions outside of the compiled loop over rounds is
computed here, by an `Evaluation` of the loss or of the constraints:

1. The function is traced by JAX, once for each shape and type of its arguments (`_Trace`). From the
   traced program a second one is made that also computes derivatives: along a direction v, and for
   functions with one value along v and then along another direction w. A gradient is the derivative
   along all directions v of entries, a Hessian along all pairs v, w.
2. Both programs are turned into NumPy (`taut.jaxpr.in_numpy`), which takes all directions,
   decisions and rounds at once. XLA would take longer to compile a program than NumPy takes to
   evaluate it a thousand times.
3. Large evaluations, and functions for which NumPy has no counterpart, are compiled instead
   (`_values`, `_slopes` and `_sums`, which differentiate the user's function itself).

Which of the two it is depends on the function and on the sizes of the arrays only, so the same call
returns the same numbers. Programs are kept by the problem whose functions they contain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..jax_internals import bind, plain
from ..jaxpr.in_numpy import NumPyProgram, in_numpy
from ..jaxpr.walk import CALLS, equations, evaluate
from .constraints import Constraints
from .problem import Problem
from .programs import Programs, programs_of
from .tracing import refuse_array

LARGEST = 40_000_000
"""Evaluations that compute more numbers than this are compiled: NumPy would take longer."""
LEAD = 4
"""Leading axes of all arrays in NumPy: directions v, directions w, decisions, rounds."""
DIFFERENTIATED_THROUGH = CALLS - {"custom_jvp_call"}
"""Calls that are traced in place before they are differentiated; the others have derivatives of
their own."""
SMALL_BLOCK = 2**16
"""Up to this many entries of decisions times rounds, all columns of a Hessian are computed at
once."""


class Sums(NamedTuple):
    """Sums over rounds, for each point."""

    value: Array
    """(point,)"""
    slope: Array
    """(point, entry)"""
    hessian: Array
    """(point, entry, entry); empty if it was not asked for."""
    misfit: Array
    """(point,): the largest relative error, of any round, of the polynomial of second order at the
    probe; empty without a probe."""


def loss_evaluation(problem: Problem, repeats: int = 1) -> Evaluation:
    """Return the evaluation of a problem's loss."""
    return Evaluation(programs_of(problem), loss_of_round, (problem.loss,), (), repeats)


def constraint_evaluation(
    problem: Problem, constraints: Constraints | None = None, repeats: int = 1
) -> Evaluation:
    """Return the evaluation of all constraint values of a problem, or of other constraints made of
    the same functions."""
    own = problem.constraints if constraints is None else constraints
    return Evaluation(programs_of(problem), type(own).values, (), (own,), repeats)


def loss_of_round(loss: Callable[..., Any], x: jax.Array, z: Any) -> jax.Array:
    """Return a user's loss in the type of the decision. Arrays are refused: their sums and means
    would be taken for the loss of a round."""
    value = jnp.asarray(loss(x, z), x.dtype)
    if value.shape:
        refuse_array(value.shape, "stream")
    return value


def _one_entry(function: Any, static: Any, *arguments: Any) -> jax.Array:
    """One entry of a function's values; the data hold its number too."""
    *parameters, x, (data, which) = arguments
    values = function(*static, *parameters, x, data)
    return jnp.sum(jnp.where(jnp.arange(values.shape[0]) == which, values, 0))


@dataclass(frozen=True)
class Evaluation:
    """Evaluates x -> function(*static, *parameters, x, z).

    In all methods `x` holds decisions, (point, round or 1, *shape of a decision), and `z` the data,
    a tree of arrays (point or 1, round or 1, ...), or None. Derivatives have one axis for the
    entries of a decision, flattened, which is the last one.

    Arguments:
        programs: of the problem, keep what is traced and compiled.
        function: defined at module level; returns one array.
        static: what is fixed, for example the user's loss.
        parameters: trees of arrays.
        repeats: how often an evaluation of this size will be repeated, as far as it is known. It
            counts like a larger size.
    """

    programs: Programs
    function: Callable[..., Any]
    static: tuple[Hashable, ...]
    parameters: tuple[Any, ...]
    repeats: int = 1

    def repeated(self, times: int) -> Evaluation:
        """Return the same for evaluations that are repeated."""
        return replace(self, repeats=times)

    def of_one_entry(self) -> Evaluation:
        """Return the evaluation of one entry of the function's values, whose data are those of this
        one and the number of the entry."""
        return replace(self, function=_one_entry, static=(self.function, self.static))

    def count(self, x: Array, z: Any = None) -> int:
        """Return the number of values of the function at one decision."""
        return math.prod(self._trace(x, z).shape)

    def values(self, x: Array, z: Any = None) -> Array:
        """Return the values, (point, round, *shape)."""
        arrays = self._in_numpy(x, z)
        if arrays is None:
            return np.asarray(self._compiled(_values, x, z))
        return arrays[0][0, 0]

    def slopes(self, x: Array, z: Any = None) -> tuple[Array, Array]:
        """Return the values and the gradients, (point, round, *shape, entry)."""
        arrays = self._in_numpy(x, z, _units(x))
        if arrays is None:
            values, slopes = self._compiled(_slopes, x, z)
            return np.asarray(values), np.asarray(slopes)
        return arrays[0][0, 0], np.moveaxis(arrays[1][:, 0], 0, -1)

    def sums(
        self,
        x: Array,
        z: Any,
        rounds: int,
        second: bool = False,
        probe: Array | None = None,
        second_order: float | None = None,
    ) -> Sums:
        """Return sums over the first `rounds` rounds of a function with one value.

        Arguments:
            x: one decision per point, the same in all rounds.
            z: the data.
            rounds: how many rounds count; the others are padding, so that few programs are
                compiled.
            second: whether Hessians are summed.
            probe: a flat step. The values after it are compared with their polynomials of second
                order.
            second_order: the last term of these polynomials, if it is believed to be known.
        """
        own = jax.tree.map(lambda a: np.asarray(a)[:, :rounds], z)
        units = _units(x)
        arrays = self._in_numpy(x, own, *(units, units)[: 1 + second])
        if arrays is None:
            sums = self._compiled(_sums, x, z, rounds, probe, second_order, flags=(second,))
            return Sums(*map(np.asarray, sums))
        hessian = np.zeros(0)
        if second:
            hessian = arrays[2].sum(axis=3).transpose(2, 0, 1)
            hessian = (hessian + hessian.transpose(0, 2, 1)) / 2
        misfit = np.zeros(0) if probe is None else self._misfit(x, own, probe, second_order)
        return Sums(arrays[0][0, 0].sum(axis=1), arrays[1][:, 0].sum(axis=2).T, hessian, misfit)

    def _misfit(self, x: Array, z: Any, probe: Array, second_order: float | None) -> Array:
        step = probe.reshape(x.shape[2:]).astype(x.dtype)
        at = self._in_numpy(x, z, step[None], step[None], any_size=True)
        after = self._in_numpy(x + step, z, any_size=True)
        assert at is not None  # larger evaluations of the same function are computed in NumPy
        assert after is not None
        here, first, second = (part[0, 0] for part in at)
        known = second / 2 if second_order is None else second_order
        with np.errstate(all="ignore"):
            return np.asarray(_share(np, after[0][0, 0], here, first, known).max(axis=1))

    def _in_numpy(
        self, x: Array, z: Any, *directions: Array, any_size: bool = False
    ) -> list[Array] | None:
        """The values, their derivatives along the first directions, and along the first and the
        second, as far as given; None if they are to be compiled.

        Arrays are (direction or 1, second direction or 1, point, round, *shape).
        """
        trace = self._trace(x, z)
        program = trace.programs[len(directions)]
        if program is None:
            return None
        no_direction = np.zeros((1, *x.shape[2:]), x.dtype)
        v, w = (*directions, no_direction, no_direction)[:2]
        data = [np.asarray(leaf) for leaf in jax.tree.leaves(z)]
        arrays = [x[None, None], v[:, None, None, None], w[None, :, None, None]]
        arrays += [np.asarray(leaf)[(None,) * LEAD] for leaf in jax.tree.leaves(self.parameters)]
        arrays += [leaf[None, None] for leaf in data]
        inputs = [np.asarray(a, _canonical(a.dtype)) for a in arrays]
        if not any_size and program.work(inputs) * self.repeats > LARGEST:
            return None
        batch = np.broadcast_shapes(x.shape[:2], *[leaf.shape[:2] for leaf in data])
        leads = ((1, 1), (len(v), 1), (len(v), len(w)))
        return [  # results need not depend on all that they could depend on
            np.broadcast_to(a, (*lead, *batch, *trace.shape))
            for lead, a in zip(leads, program.run(inputs), strict=False)
        ]

    def _trace(self, x: Array, z: Any) -> _Trace:
        """The function traced for one decision of `x` and the data of one round."""
        own, tree = jax.tree.flatten(self.parameters)
        data, data_tree = jax.tree.flatten(z)
        described = []
        for leaf, lead in [(x, 2), *((leaf, 0) for leaf in own), *((leaf, 2) for leaf in data)]:
            described.append((np.shape(leaf)[lead:], _canonical(np.asarray(leaf).dtype)))
        key = self.function, self.static, tree, data_tree, tuple(described)
        precise = jax.config.read("jax_enable_x64")
        return self.programs.get((_Trace, *key, precise), partial(_Trace, *key))

    def _compiled(self, function: Callable[..., Any], *arguments: Any, flags: Any = ()) -> Any:
        """`function`, below, compiled."""
        static = (self.function, self.static, *flags)
        return self.programs.call(function, self.parameters, *arguments, static=static)


class _Trace:
    """A function, traced for arguments of certain shapes and types, in NumPy."""

    def __init__(
        self,
        function: Callable[..., Any],
        static: tuple[Any, ...],
        tree: Any,
        data_tree: Any,
        described: tuple[Any, ...],
    ) -> None:
        x, *others = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in described]
        count = tree.num_leaves

        def value(x: Any, _v: Any, _w: Any, *leaves: Any) -> Any:
            parameters = jax.tree.unflatten(tree, leaves[:count])
            return function(*static, *parameters, x, jax.tree.unflatten(data_tree, leaves[count:]))

        traced = jax.make_jaxpr(value)(x, x, x, *others)
        (result,) = traced.out_avals
        self.shape: tuple[int, ...] = tuple(result.shape)
        """The shape of the function's values."""
        self.programs: list[NumPyProgram | None] = [None, None, None]
        """In NumPy, if there are: values, with derivatives along v, with those along v and w.

        Their arguments are x, v, w, the leaves of the parameters and of the data.
        """
        if plain() or jax.default_backend() != "cpu":
            return
        self.programs[0] = in_numpy(traced, LEAD)
        # Calls with a backward derivative of their own have no forward derivative.
        names = [equation.primitive.name for equation in equations(traced)]
        if self.programs[0] is None or "custom_vjp_call" in names or result.dtype.kind != "f":
            return
        # Second derivatives are asked for by `sums` only, of functions with one value.
        orders = 1 if self.shape else 2
        derivatives = jax.make_jaxpr(partial(_derivatives, traced, orders))(x, x, x, *others)
        program = in_numpy(derivatives, LEAD)
        if program is not None:
            for order in range(1, orders + 1):
                self.programs[order] = program.first(order + 1)


def _derivatives(traced: Any, orders: int, x: Any, v: Any, w: Any, *leaves: Any) -> Any:
    """The values of a traced program, their derivatives along v, and along v and w."""

    def value(y: Any) -> Any:
        return evaluate(traced, (y, v, w, *leaves), bind, DIFFERENTIATED_THROUGH)[0]

    def along_v(y: Any) -> Any:
        return jax.jvp(value, (y,), (v,))

    if orders == 1:
        return along_v(x)
    (here, first), (_, second) = jax.jvp(along_v, (x,), (w,))
    return here, first, second


_canonical = jax.dtypes.canonicalize_dtype
"""The type that JAX uses for a type: 64 bits become 32 where it does not have them."""


def _units(x: Array) -> Array:
    """The directions of all entries of a decision."""
    size = math.prod(x.shape[2:])
    return np.eye(size, dtype=x.dtype).reshape(size, *x.shape[2:])


def _share(xp: Any, there: Any, here: Any, first: Any, second: Any) -> Any:
    """The error of a polynomial relative to the terms that it is made of."""
    size = xp.abs(here) + xp.abs(first) + xp.abs(second) + xp.abs(there)
    return xp.abs(there - here - first - second) / xp.where(size > 0, size, 1)


def _mapped(function: Callable[..., Any], x: jax.Array, z: Any) -> Any:
    """`function(x, z)` for each point and round; what does not depend on one of them is not
    repeated."""
    leaves, tree = jax.tree.flatten(z)
    arrays = [x, *leaves]
    counts = np.broadcast_shapes(*(a.shape[:2] for a in arrays))
    used = [[a.shape[axis] > 1 or counts[axis] == 1 for axis in (0, 1)] for a in arrays]
    axes = [[0 if own[axis] else None for own in used] for axis in (0, 1)]

    def flat(*arrays: Any) -> Any:
        return function(arrays[0], jax.tree.unflatten(tree, arrays[1:]))

    squeezed = [
        a.reshape(tuple(n for n, keep in zip(a.shape, own, strict=False) if keep) + a.shape[2:])
        for a, own in zip(arrays, used, strict=True)
    ]
    return jax.vmap(jax.vmap(flat, axes[1]), axes[0])(*squeezed)


def _values(function: Any, static: Any, parameters: Any, x: jax.Array, z: Any) -> jax.Array:
    values: jax.Array = _mapped(partial(function, *static, *parameters), x, z)
    return values


def _slopes(
    function: Any, static: Any, parameters: Any, x: jax.Array, z: Any
) -> tuple[jax.Array, jax.Array]:
    def both(x: jax.Array, z: Any) -> tuple[jax.Array, jax.Array]:
        def twice(y: jax.Array) -> tuple[jax.Array, jax.Array]:
            values = function(*static, *parameters, y.reshape(x.shape), z)
            return values, values

        count = math.prod(jax.eval_shape(twice, x)[0].shape)
        derivative = jax.jacfwd if count > x.size else jax.jacrev
        slopes, values = derivative(twice, has_aux=True)(x.ravel())
        return values, slopes

    values_and_slopes: tuple[jax.Array, jax.Array] = _mapped(both, x, z)
    return values_and_slopes


def _sums(
    function: Any,
    static: Any,
    second: bool,
    parameters: Any,
    x: jax.Array,
    z: Any,
    rounds: Any,
    probe: Any,
    second_order: Any,
) -> tuple[jax.Array, ...]:
    def one(y: jax.Array, z: Any) -> jax.Array:
        value: jax.Array = function(*static, *parameters, y.reshape(x.shape[2:]), z)
        return value

    def point(at: jax.Array, z: Any) -> tuple[jax.Array, ...]:
        inside = jnp.arange(jax.tree.leaves(z)[0].shape[0]) < rounds

        def total(y: jax.Array) -> jax.Array:
            return jnp.sum(jnp.where(inside, jax.vmap(one, (None, 0))(y, z), 0))

        value, slope = jax.value_and_grad(total)(at)
        hessian = jnp.zeros(0)
        if second:  # one Hessian-vector product per column; few at a time, to save memory

            def column(direction: jax.Array) -> jax.Array:
                return jax.jvp(jax.grad(total), (at,), (direction,))[1]

            unit = jnp.eye(at.size, dtype=at.dtype)
            small = at.size <= 8 or at.size * inside.size <= SMALL_BLOCK
            hessian = jax.vmap(column)(unit) if small else jax.lax.map(column, unit, batch_size=8)
            hessian = (hessian + hessian.T) / 2
        if probe is None:
            return value, slope, hessian, jnp.zeros(0)

        def misfit(z: Any) -> jax.Array:
            def change(y: jax.Array) -> tuple[jax.Array, jax.Array]:
                return jax.jvp(lambda y: one(y, z), (y,), (probe,))

            if second_order is None:
                (here, first), (_, bent) = jax.jvp(change, (at,), (probe,))
                last = bent / 2
            else:
                (here, first), last = change(at), second_order
            return _share(jnp, one(at + probe, z), here, first, last)

        return value, slope, hessian, jnp.max(jnp.where(inside, jax.vmap(misfit)(z), 0))

    return jax.vmap(point)(x.reshape(len(x), -1), z)

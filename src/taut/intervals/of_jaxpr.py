"""Enclosures of functions written in JAX: one rule per operation of their traced programs.

`enclose` is the entry. Bounds are those of the function of real numbers that a program describes:
what is computed in 32 bits differs from it by rounding, and a derivative of one's own
(`jax.custom_jvp`, `stop_gradient`) is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array, default_float
from ..jax_internals import bind, derivative_file
from ..jaxpr.numpy_rules import operation
from ..jaxpr.walk import CALLS, called, equations, evaluate
from .arithmetic import (
    add,
    contract,
    joined,
    largest,
    last,
    linear,
    maximum,
    minimum,
    moved,
    mul,
    neg,
    running_largest,
    select,
    smallest,
    taken,
    total,
)
from .curves import CURVES, absolute, curved, divide, log_add_exp, power, root, square
from .enclosure import ROUNDING, Enclosure, Interval, Space, outward, result
from .pieces import Unknown

CUSTOM = "custom_jvp_call"
"""The operation that calls a function with a derivative of its own."""

PLAIN = CALLS - {CUSTOM}
"""Calls that are evaluated in place."""
UNUSUAL = ("custom_vjp_call", "custom_vjp_call_jaxpr", "stop_gradient")
"""Operations that have a derivative of their own, or none."""
OWN = Path(__file__).resolve().parents[1]
"""The folder of taut, whose rules for derivatives return a subgradient."""

Rule = Callable[..., Enclosure]


def enclose(
    function: Callable[..., Any],
    space: Space,
    low: Any = None,
    high: Any = None,
    lipschitz: float | None = None,
) -> Enclosure:
    """Proven bounds on all outputs of `function(x, z)`, for all decisions x of a space.

    The result has bounds on values (`low`, `high`), on slopes (`slopes.low`, `slopes.high`; None if
    there are none) and on the norm of the gradient (`steep`), see `Enclosure`. Raises `Unknown` if
    values have no bound.

    Arguments:
        function: of a decision and data; it returns one array.
        space: the decisions, `Space.of(domain)`; for bounds on the gradient
            `Space.of(domain, gradients=True)`.
        low: the data, or their smallest values; trees of arrays.
        high: their largest values, if data are intervals.
        lipschitz: a Lipschitz constant of every output, if one is known.
    """
    program = traced(function, space.shape, low)
    space.largest = 0.0
    edges = zip(jax.tree.leaves(low), jax.tree.leaves(low if high is None else high), strict=True)
    data = [Enclosure.fixed(space, *edge) for edge in edges]
    with np.errstate(all="ignore"):
        (output,) = evaluate(program, [space.decision(), *data], partial(_apply, space), PLAIN)
        enclosure = output if isinstance(output, Enclosure) else Enclosure.fixed(space, output)
        if lipschitz is not None and enclosure.moves:
            enclosure = replace(enclosure, norm=np.fmin(enclosure.norm, lipschitz))
        return outward(enclosure.sharp)


def traced(function: Callable[..., Any], shape: tuple[int, ...], data: Any) -> Any:
    """The program of `function(x, z)` for a decision of this shape and data like these."""
    x = jax.ShapeDtypeStruct(shape, default_float())
    like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype), data)
    return jax.make_jaxpr(function)(x, like)


def is_log_add_exp(equation: Any) -> bool:
    """Whether an equation calls the program of `jnp.logaddexp`, of which `softplus` is made.

    Its single operations would have worse bounds: the largest of two numbers, and a correction that
    falls where the former rises.
    """
    return equation.primitive.name == CUSTOM and _formula(called(equation)) == _log_add_exp()


@cache
def _log_add_exp() -> Any:
    number = jax.ShapeDtypeStruct((), np.float32)
    inner = equations(jax.make_jaxpr(jnp.logaddexp)(number, number))
    return next((_formula(called(call)) for call in inner if call.primitive.name == CUSTOM), None)


def _formula(program: Any) -> Any:
    """The result of a program as nested tuples, each of an operation and what it is applied to."""

    def rule(equation: Any, operands: list[Any]) -> list[Any]:
        names = [value if isinstance(value, (int, tuple)) else "constant" for value in operands]
        return [(equation.primitive.name, *names)] * len(equation.outvars)

    return evaluate(program, list(range(len(program.jaxpr.invars))), rule)


def has_usual_derivative(equation: Any) -> bool:
    """Whether the derivative of an operation is that of its values, or a rule of taut. What is
    proven of values holds for gradients only then."""
    if equation.primitive.name in UNUSUAL:
        return False
    if equation.primitive.name != CUSTOM or is_log_add_exp(equation):
        return True
    file = derivative_file(equation)
    return file is not None and OWN in Path(file).resolve().parents


def _apply(space: Space, equation: Any, operands: list[Any]) -> list[Enclosure]:
    """Bounds on the results of one operation. Raises `Unknown` if there is no rule for it."""
    name, types = equation.primitive.name, [v.aval.dtype for v in equation.outvars]
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for dtype in types):
        raise Unknown(f"the operation {name} has no bound")
    if any(variable.aval.dtype.kind == "c" for variable in (*equation.invars, *equation.outvars)):
        raise Unknown("complex numbers have no bound")
    of = [u if isinstance(u, Enclosure) else Enclosure.fixed(space, u) for u in operands]
    if name == CUSTOM:
        if not is_log_add_exp(equation):
            return evaluate(called(equation), of, partial(_apply, space), PLAIN)
        enclosure = log_add_exp(*of)
        return [replace(enclosure, noise=_noise("add", of, enclosure, {}))]
    if name in MOVES:
        return [replace(u, noise=_noise("add", of, u, {})) for u in _moved(equation, of)]
    rule, integer = _RULES.get(name), any(dtype.kind in "iu" for dtype in types)
    if all(u.known for u in of) and (rule is None or integer):
        return [Enclosure.fixed(space, value) for value in _computed(equation, [u.low for u in of])]
    if rule is None or (integer and name not in _INTEGER):
        raise Unknown(f"the operation {name} has no bound")
    enclosure = rule(*of, **equation.params)
    if space.pieces and enclosure.moves and enclosure.maxima is None:
        raise Unknown(f"the operation {name} is not piecewise affine, as far as is known")
    space.note(enclosure.value)
    if integer:
        least, most = np.iinfo(types[0]).min, np.iinfo(types[0]).max
        if not (np.all(enclosure.low >= least) and np.all(enclosure.high <= most)):
            raise Unknown(f"integers may be too large for {types[0]}")
    return [replace(enclosure, noise=_noise(name, of, enclosure, equation.params))]


def _noise(
    name: str, of: Sequence[Enclosure], enclosure: Enclosure, params: dict[str, Any]
) -> float | None:
    """How far rounding can have moved the bounds of a result: what it did to operands, times the
    largest slope, and in the operation itself. None if no slope is known here."""
    if name == "select_n":
        of = of[1:]
    if any(u.noise is None for u in of):
        return None
    noises = [u.noise or 0.0 for u in of]
    if name in _ADDING:
        noise = sum(noises)
    elif name in ("mul", "dot_general"):
        terms = 1
        if name == "dot_general":
            terms = math.prod(of[0].shape[k] for k in params["dimension_numbers"][0][0])
        noise = terms * (noises[0] * _largest(of[1]) + noises[1] * _largest(of[0]))
    elif name in ("reduce_sum", "cumsum"):
        noise = noises[0] * max(1, math.prod(of[0].shape) // max(1, math.prod(enclosure.shape)))
        noise *= of[0].shape[params["axis"]] if name == "cumsum" else 1
    elif name in CURVES:
        noise = noises[0] * float(np.max(CURVES[name].slopes(of[0].value, of[0].value).size))
    elif name in ("square", "integer_pow") and params.get("y", 2) > 0:
        order = params.get("y", 2)
        noise = noises[0] * order * _largest(of[0]) ** (order - 1)
    elif name == "div" and of[1].known:
        noise = noises[0] / float(np.min(of[1].value.least_size))
    else:
        return None
    noise += ROUNDING * _largest(enclosure)
    return noise if math.isfinite(noise) else None


def _largest(u: Enclosure) -> float:
    return float(np.max(u.value.size, initial=0))


def _computed(equation: Any, operands: Sequence[Any]) -> list[Array]:
    """The results of an operation on known numbers: in NumPy, or compiled by JAX, which takes
    longer."""
    function = operation(equation, 0, [True] * len(operands))
    if function is None:
        return [np.asarray(value) for value in bind(equation, operands)]
    types = [variable.aval.dtype for variable in equation.invars]
    result = function(*(np.asarray(x, dtype) for x, dtype in zip(operands, types, strict=True)))
    return result if isinstance(result, list) else [np.asarray(result)]


# -- Operations that move entries

MOVES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("broadcast_in_dim", "copy", "copy_p", "expand_dims", "reshape", "rev"), (0,)),
    **dict.fromkeys(("dynamic_slice", "gather", "slice", "split", "squeeze", "transpose"), (0,)),
    **dict.fromkeys(("concatenate", "pad", "stack"), ()),
    "dynamic_update_slice": (0, 1),
    "scatter": (0, 2),
    "unstack": (0,),
}
"""Operations that only move or repeat entries, with the operands whose entries they move, or () for
all; the other operands are places."""


def _moved(equation: Any, of: Sequence[Enclosure]) -> list[Enclosure]:
    """Entries at other places. JAX itself says which they are, by moving the places of all entries,
    one operand after another, instead of the entries."""
    name, which = equation.primitive.name, MOVES[equation.primitive.name]
    # JAX returns lists of results for some operations, also if they have one.
    alone = len(of) == len(equation.outvars) == 1 and not equation.primitive.multiple_results
    if alone and operation(equation, 0, [False]) is not None:
        return [moved(of[0], partial(_rearranged, equation, len(of[0].shape)))]
    moving, arrays, start = [], [], 0
    for k, operand in enumerate(of):
        if k in which or not which:
            size = math.prod(operand.shape)
            moving.append(operand)
            arrays.append(np.arange(start, start + size).reshape(operand.shape))
            start += size
        elif operand.known:
            arrays.append(operand.low)
        else:
            raise Unknown(f"the operation {name} at a place that is not known has no bound")
    if name == "concatenate":
        places = [np.concatenate(arrays, axis=equation.params["dimension"])]
    else:
        places = [np.asarray(at) for at in bind(equation, arrays)]
    if any(np.any((at < 0) | (at >= start)) for at in places):
        raise Unknown(f"the operation {name} at a place that does not exist has no bound")
    return [taken(joined(moving), at) for at in places]


def _rearranged(equation: Any, count: int, part: Array) -> Array:
    """The entries of an array whose first `count` axes are those of the operand, moved by NumPy,
    which leaves leading axes as they are."""
    more = part.ndim - count
    function = operation(equation, more, [False])
    assert function is not None
    leading = np.moveaxis(part, range(count, part.ndim), range(more))
    return np.moveaxis(function(leading), range(more), range(-more, 0))


# -- Rules


def _dot(u: Enclosure, v: Enclosure, *, dimension_numbers: Any, **_: Any) -> Enclosure:
    """A product of matrices, vectors or stacks of them."""
    (summed, its_summed), (batch, its_batch) = dimension_numbers
    if u is v and len(summed) == len(u.shape) and tuple(summed) == tuple(its_summed):
        return total(last(square(u), None))
    letters = iter("abcdefghijklmnopqrstuvwxyABCDEFGHIJKLMNOPQRSTUVWXY")
    first = [next(letters) for _ in u.shape]
    shared = dict(zip((*its_summed, *its_batch), (*summed, *batch), strict=True))
    second = [first[shared[j]] if j in shared else next(letters) for j in range(len(v.shape))]
    out = [first[i] for i in batch]
    out += [letter for i, letter in enumerate(first) if i not in (*summed, *batch)]
    out += [letter for j, letter in enumerate(second) if j not in shared]
    return contract(u, v, f"{''.join(first)},{''.join(second)}->{''.join(out)}")


def _cumulated(u: Enclosure, *, axis: int, reverse: bool) -> Enclosure:
    def add_up(part: Array) -> Array:
        return np.flip(np.cumsum(np.flip(part, axis), axis), axis) if reverse else part.cumsum(axis)

    return linear(u, add_up)


def _sort(*of: Enclosure, dimension: int, **_: Any) -> Enclosure:
    """The k-th largest entry is made of maxima and minima of all entries."""
    if len(of) != 1:
        raise Unknown("the operation sort of several arrays has no bound")
    (u,) = of
    value, centre = (a.map(lambda part: np.sort(part, dimension)) for a in (u.value, u.centre))
    slopes = u.slopes and Interval(
        u.slopes.low.min(dimension, keepdims=True), u.slopes.high.max(dimension, keepdims=True)
    )
    return result(of, value, centre, slopes, u.steep.max(dimension, keepdims=True))


def _power(u: Enclosure, v: Enclosure) -> Enclosure:
    if not v.known or np.ptp(v.low) != 0:
        raise Unknown("a power with an exponent that is not fixed has no bound")
    return power(u, float(v.low.ravel()[0]))


def _select(which: Enclosure, *cases: Enclosure) -> Enclosure:
    if len(cases) != 2 or which.low.dtype != bool:
        raise Unknown("a selection among more than two cases has no bound")
    return select(which, *cases)


def _jump(value: Interval, *of: Enclosure) -> Enclosure:
    """A value with jumps, and so without slopes. At the centre it is what it is anywhere."""
    return result(of, value, value)


def _stepped(function: Callable[..., Array]) -> Rule:
    """An increasing function with jumps."""

    def rule(*of: Enclosure) -> Enclosure:
        low, high = function(*(u.low for u in of)), function(*(u.high for u in of))
        return _jump(Interval.of(low, high), *of)

    return rule


def _compared(operation: Callable[..., Array], rising: bool) -> Rule:
    """A comparison, which is certain for one pair of ends and possible for the other."""

    def rule(u: Enclosure, v: Enclosure) -> Enclosure:
        ends = [operation(u.low, v.high), operation(u.high, v.low)]
        return _jump(Interval.of(*(ends if rising else ends[::-1])), u, v)

    return rule


def _equal(u: Enclosure, v: Enclosure) -> Enclosure:
    if u.known and v.known:
        return _jump(Interval.of(u.low == v.low), u, v)
    sure, possible = (u.low == v.high) & (u.high == v.low), (u.low <= v.high) & (u.high >= v.low)
    if u is v:  # whether it is a number
        sure = np.isfinite(u.low) & np.isfinite(u.high)
    return _jump(Interval.of(sure, possible), u, v)


def _not(u: Enclosure) -> Enclosure:
    return _jump(Interval.of(~u.high, ~u.low), u)


def _is_finite(u: Enclosure) -> Enclosure:
    sure = np.isfinite(u.low) & np.isfinite(u.high)
    return _jump(Interval.of(sure, sure if u.known else np.ones_like(sure)), u)


def _converted(u: Enclosure, *, new_dtype: Any, **_: Any) -> Enclosure:
    kind = np.dtype(new_dtype).kind
    if kind == "b":
        return _not(_equal(u, Enclosure.fixed(u.space, 0)))
    if u.low.dtype.kind != "f":
        return _jump(u.value.map(lambda part: part.astype(float)), u)
    return _jump(u.value.map(np.trunc), u) if kind in "iu" else u


_INTEGER = frozenset(
    ("abs", "add", "clamp", "convert_element_type", "cumsum", "dot_general", "max")
)
_INTEGER |= {"integer_pow", "min", "mul", "neg", "reduce_max", "reduce_min", "reduce_sum"}
_INTEGER |= {"select_n", "sign", "sort", "sub"}
"""Operations that are the same for integers as for real numbers, unless numbers are too large."""
_ADDING = frozenset(("abs", "add", "add_any", "clamp", "convert_element_type", "max", "min", "neg"))
_ADDING |= {"reduce_max", "reduce_min", "select_n", "sort", "stop_gradient", "sub"}
"""Operations whose results move by no more than all operands together."""
_PLAIN: dict[str, Rule] = {
    **{name: partial(curved, curve) for name, curve in CURVES.items()},
    "abs": absolute,
    "add": add,
    "add_any": add,
    "and": _stepped(np.logical_and),
    "ceil": _stepped(np.ceil),
    "clamp": lambda low, u, high: maximum(low, minimum(u, high)),
    "div": divide,
    "eq": _equal,
    "floor": _stepped(np.floor),
    "ge": _compared(np.greater_equal, rising=True),
    "gt": _compared(np.greater, rising=True),
    "is_finite": _is_finite,
    "le": _compared(np.less_equal, rising=False),
    "lt": _compared(np.less, rising=False),
    "max": maximum,
    "min": minimum,
    "mul": lambda u, v: square(u) if u is v else mul(u, v),
    "ne": lambda u, v: _not(_equal(u, v)),
    "neg": neg,
    "not": _not,
    "one_minus_square": lambda u: add(Enclosure.fixed(u.space, 1), neg(square(u))),
    "or": _stepped(np.logical_or),
    "pow": _power,
    "select_n": _select,
    "sign": _stepped(np.sign),
    "sqrt": root,
    "square": square,
    "stop_gradient": lambda u: u,
    "sub": lambda u, v: add(u, neg(v)),
}
"""Operations whose parameters do not matter."""
_RULES: dict[str, Rule] = {
    **{name: lambda *of, rule=rule, **_: rule(*of) for name, rule in _PLAIN.items()},
    "convert_element_type": _converted,
    "cummax": running_largest,
    "cummin": lambda u, **where: neg(running_largest(neg(u), **where)),
    "cumsum": _cumulated,
    "dot_general": _dot,
    "integer_pow": lambda u, *, y, **_: power(u, y),
    "reduce_max": lambda u, *, axes, **_: largest(last(u, axes)),
    "reduce_min": lambda u, *, axes, **_: smallest(last(u, axes)),
    "reduce_sum": lambda u, *, axes, **_: total(last(u, axes)),
    "sort": _sort,
}

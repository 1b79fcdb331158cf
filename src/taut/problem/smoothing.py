"""Smoothing from above: a function made of |.|, max and 2-norms becomes a smooth one, with a proven
gap.

The function is traced and evaluated again with its kinks rounded; w is the width, s = sqrt((a -
b)^2 + w^2):

    |u|          ->  sqrt(u^2 + w^2)                            gap w
    max(a, b)    ->  (a + b + s) / 2                            gap w/2
    max_i u_i    ->  v log sum_i exp(u_i / v),  v = w / ln n    gap w
    sqrt(q)   ->   sqrt(q + w^2)   gap w, for a sum of squares q that can be 0

Each replacement is convex and lies above what it replaces. A gap stays one from above only while
all that follows increases with the value that has it. So every operation between a kink and the
output is checked, and one that may decrease, or stretch the gap without bound, is refused by name.
min is smoothed from below, for functions such as -min(x). Selections by a comparison of the
decision, such as `where(u > 0, u, -u)`, are refused by name, because they may hide a kink, unless
they have a derivative rule of their own (`jax.custom_jvp`). Kinks of other roots than square roots
are not seen and stay. The idea is Nesterov's ("Smooth minimization of non-smooth functions", 2005);
bounds on the violation of a single round ask for smoothness.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..jax_internals import Literal, bind, is_tracer
from ..jaxpr.walk import CALLS, bodies, called, evaluate


@dataclass(frozen=True)
class Value:
    """An intermediate value after smoothing, and what is known of it."""

    array: Any
    decided: bool = False
    """Whether it depends on the decision."""
    constant: bool = False
    """Whether it is known while tracing, because it depends neither on decision nor data."""
    low: float = -math.inf
    """No entry of the exact value is smaller."""
    gap: Any = None
    """The distance to the exact value, in widths (True if it is not measured); None if there is
    none."""
    turned: str = ""
    """The primitive that made `array` lie below the exact value; empty if it lies above."""
    ordered: bool = False
    """Whether it is a condition that compares the decision by size."""


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Names of JAX primitives, by what they do to a gap.
# linear in the first operand, with coefficients 0 and 1: a gap goes the way of its value
_MOVES = _names(
    "broadcast_in_dim convert_element_type copy copy_p cumsum dynamic_slice gather reduce_sum "
    "reshape rev slice split squeeze stop_gradient tile transpose"
)
_JOINS = _names("concatenate stack pad")  # the same, in all operands
_SUMS = _names("add add_any sub neg")
_SCALINGS = _names("mul div dot_general")
_SOFT_MAXIMA = _names("logaddexp _soft_max")
_SMOOTH_CALLS = _SOFT_MAXIMA | {
    "_slogdet_lu"
}  # functions, smooth although written with |.| and max
_MAXIMA = _names("max reduce_max") | _SOFT_MAXIMA
_MINIMA = _names("min reduce_min")
_KINKS = _names("abs max min reduce_max reduce_min")
_CUSTOM = _names("custom_jvp_call custom_vjp_call")
_OTHER_KINKS = _names(
    "clamp sort top_k cummax cummin reduce_window_max reduce_window_min sign floor ceil round "
    "rem svd eigh eig"
)
_NOT_NEGATIVE = _names("abs exp exp2 square sqrt rsqrt logistic")
_ORDERS = _names("gt ge lt le")
_KEEP_SIGN = _names("div dot_general pow integer_pow log1p")  # not negative if no operand is


def smooth_from_above(function: Callable[..., Any], width: Any) -> Callable[..., Any]:
    """A smooth function that lies between `function` and `function` plus its `smoothing_gap`.

    `function` must be convex in its first argument, the decision: every |.| of an affine argument,
    every max of convex ones. Further arguments are data; a coefficient of a kink may depend on data
    if it cannot be negative (abs, exp, square, ...), never on the decision. A function without
    kinks is not altered by a bit.

    The result has the same signature and can be traced by jit, vmap and grad. `width` > 0 may be
    traced too.

    >>> smooth = smooth_from_above(lambda x: jnp.linalg.norm(x, 1) - 1, width=0.25)
    >>> float(smooth(jnp.zeros(2))), jax.grad(smooth)(jnp.zeros(2)).tolist()
    (-0.5, [0.0, 0.0])
    """
    if not is_tracer(width):
        width = arguments.positive("width", width)

    def smooth(*args: Any, **keywords: Any) -> Any:
        smoother = _Smoother(width, measure=False)
        outputs, tree = smoother.trace(function, args, keywords)
        if not smoother.rounded:
            return function(*args, **keywords)
        return jax.tree_util.tree_unflatten(tree, [output.array for output in outputs])

    return smooth


def smoothing_gap(function: Callable[..., Any], width: float, *args: Any, **keywords: Any) -> Any:
    """A bound on `smooth_from_above(function, width)` minus `function` for each output, at any
    decision.

    Of the decision, and of data that no coefficient of a kink depends on, only shape and type
    matter: a `jax.ShapeDtypeStruct` will do. Data that a coefficient depends on must be given, and
    the bound is for that data only. Returns a NumPy array of the output's shape (a tree of them for
    a tree).

    >>> float(
    ...     smoothing_gap(
    ...         lambda x: jnp.linalg.norm(x, 1) - 1, 0.25, jax.ShapeDtypeStruct((2,), float)
    ...     )
    ... )
    0.5
    """
    width = arguments.positive("width", width)
    leaves, structure = jax.tree_util.tree_flatten((args, keywords))
    decisions = len(jax.tree_util.tree_leaves(args[:1]))
    known = [
        i >= decisions and not isinstance(leaf, jax.ShapeDtypeStruct)
        for i, leaf in enumerate(leaves)
    ]
    result: list[Any] = []

    def analyse(unknown: list[Any]) -> None:
        rest = iter(unknown)
        filled = [leaf if fixed else next(rest) for fixed, leaf in zip(known, leaves, strict=True)]
        outputs, tree = _Smoother(1.0, measure=True).trace(
            function, *jax.tree_util.tree_unflatten(structure, filled)
        )
        gaps = [
            np.zeros(np.shape(output.array)) if output.gap is None else output.gap
            for output in outputs
        ]
        if any(is_tracer(gap) for gap in gaps):
            raise ValueError(
                "args: got the shape of data on which the gap depends; expected that data as an "
                "array"
            )
        result.append(
            jax.tree_util.tree_unflatten(
                tree, [np.asarray(width * np.asarray(gap, float)) for gap in gaps]
            )
        )

    jax.eval_shape(analyse, [leaf for fixed, leaf in zip(known, leaves, strict=True) if not fixed])
    return result[0]


@jax.custom_jvp
def _soft_max(a: jax.Array, b: jax.Array, width: jax.Array) -> jax.Array:
    """(a + b + s) / 2, written such that rounding never takes it below max(a, b)."""
    s = jnp.sqrt((a - b) ** 2 + width**2)
    return jnp.maximum(a, b) + width * (width / (2 * (s + jnp.abs(a - b))))


@_soft_max.defjvp
def _soft_max_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, width), (da, db, dwidth) = primals, tangents
    s = jnp.sqrt((a - b) ** 2 + width**2)
    weight = (1 + (a - b) / s) / 2
    return _soft_max(a, b, width), weight * da + (1 - weight) * db + dwidth * width / (2 * s)


def _log_sum_exp(u: jax.Array, axes: tuple[int, ...], temperature: jax.Array) -> jax.Array:
    top = jax.lax.stop_gradient(jnp.max(u, axis=axes, keepdims=True))
    total = jnp.sum(jnp.exp((u - top) / temperature), axis=axes)
    return jnp.squeeze(top, axis=axes) + temperature * jnp.log(total)


def _constant(array: Any) -> Value:
    if is_tracer(array):  # data in a closure
        return Value(array)
    return Value(array, constant=True, low=-_largest(-1, array))


def _value(operand: Any) -> Value:
    """What is known of an operand; literals and constants of a program come as they are."""
    return operand if isinstance(operand, Value) else _constant(operand)


def _largest(sign: int, array: Any) -> float:
    """The largest entry of `sign * array`; infinity if there is none."""
    dtype = jnp.result_type(array)
    real = any(jnp.issubdtype(dtype, kind) for kind in (np.bool_, np.integer, np.floating))
    if not real or not np.size(array):
        return math.inf
    largest = float(np.max(sign * np.asarray(array, float)))
    return math.inf if math.isnan(largest) else largest


def _refuse(name: str, why: str, expected: str = "") -> NoReturn:
    expected = (
        expected
        or "expected non-negative combinations and maxima of |affine|, affine and smooth convex "
        "parts"
    )
    raise ValueError(f"function: got `{name}` {why}; {expected}")


def _at_once(operation: Callable[..., Any], *operands: Any) -> Any:
    """`operation(*operands)`, evaluated while tracing if no operand is traced."""
    if any(is_tracer(operand) for operand in operands):
        return operation(*operands)
    with jax.ensure_compile_time_eval():
        return operation(*operands)


def _bind(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """The results of `equation` for these operands."""
    results: list[Any] = _at_once(lambda *values: bind(equation, values), *operands)
    return results


def _name(equation: Any) -> str:
    """The name of the primitive, or of a smooth function written with kinks."""
    if equation.primitive.name == "custom_jvp_call":
        function = str(equation.params["call_jaxpr"].jaxpr.debug_info.func_name)
        return function if function in _SMOOTH_CALLS else "custom_jvp_call"
    if equation.primitive.name == "gather" and equation.params["fill_value"] is not None:
        return "gather with a fill value"  # not a mere move
    if equation.primitive.name == "pow" and getattr(equation.invars[1], "val", None) == 0.5:
        return "sqrt"
    return str(equation.primitive.name)


def _inexact(variable: Any) -> bool:
    return not isinstance(variable, Literal) and bool(
        jnp.issubdtype(variable.aval.dtype, jnp.inexact)
    )


def _has_kink(equation: Any) -> bool:
    """Whether an equation, or one in its body if it is a loop, a branch or the like, has a kink."""
    if _name(equation) in _KINKS | _OTHER_KINKS:
        return _inexact(equation.outvars[0])
    inside = [] if _name(equation) in _SMOOTH_CALLS else bodies(equation)
    return any(_has_kink(inner) for body in inside for inner in body.jaxpr.eqns)


def _differentiated(jaxpr: Any, outputs: Sequence[bool]) -> set[Any]:
    """The variables through which a derivative of the chosen outputs flows, `stop_gradient`
    observed."""
    live = {v for v, chosen in zip(jaxpr.outvars, outputs, strict=True) if chosen and _inexact(v)}
    for equation in reversed(jaxpr.eqns):
        chosen, sources = [v in live for v in equation.outvars], equation.invars
        if any(chosen) and equation.primitive.name != "stop_gradient":
            if _name(equation) in CALLS:
                inside = called(equation).jaxpr
                flowing = _differentiated(inside, chosen)
                sources = [
                    v for v, inner in zip(sources, inside.invars, strict=True) if inner in flowing
                ]
            live.update(filter(_inexact, sources))
    return live


def _lower_bound(equation: Any, name: str, inputs: Sequence[Value]) -> float:
    """A number that no entry of the exact result of `equation` is below."""
    lows, result = [value.low for value in inputs], equation.outvars[0].aval
    positive, twice, low = min(lows) >= 0, len(inputs) == 2 and inputs[0] is inputs[1], -math.inf
    if name == "dot_general":
        (left, right), _ = equation.params["dimension_numbers"]
        twice = twice and result.ndim == 0 and left == right
    even = (name == "integer_pow" and equation.params["y"] % 2 == 0) or (
        name in _SCALINGS and twice
    )
    if name in _NOT_NEGATIVE or result.dtype == bool or even or (name in _KEEP_SIGN and positive):
        low = 0.0
    elif name in {"add", "add_any"}:
        low = sum(lows)
    elif name == "mul" and positive:
        low = lows[0] * lows[1]
    elif name in {"max", "logaddexp"}:
        low = max(lows)
    elif name in _JOINS | {"min", "select_n"}:
        low = min(lows)
    elif name in _MOVES | {"reduce_max", "reduce_min"}:
        low = lows[0] if lows[0] >= 0 or name not in {"reduce_sum", "cumsum"} else low
    return -math.inf if math.isnan(low) else low


def _unchanged(equation: Any, name: str, inputs: Sequence[Value]) -> Value | None:
    """The input that `equation` provably returns: u from |u| if u >= 0, from max(c, u) if u >=
    c."""
    if name == "abs" and inputs[0].low >= 0:
        return inputs[0]
    for bound, value in (inputs, inputs[::-1]) if name == "max" else ():
        fits = np.shape(value.array) == equation.outvars[0].aval.shape
        if bound.constant and fits and _largest(1, bound.array) <= value.low:
            return value
    return None


def _flips(name: str, smoothed: int, inputs: Sequence[Value]) -> bool:
    """Whether the coefficients of a smoothed input are negative; refused unless they surely have
    one sign."""
    coefficient = inputs[1 - smoothed]
    if coefficient.decided or (name == "div" and smoothed == 1):
        _refuse(name, "of a smoothed value with one that depends on the decision")
    if coefficient.low < 0 and not (coefficient.constant and _largest(1, coefficient.array) <= 0):
        _refuse(name, "of a smoothed value with coefficients not known to be of one sign")
    return coefficient.low < 0


class _Smoother:
    """Evaluates a jaxpr with its kinks rounded; finds where there are gaps and, with `measure`, how
    large."""

    def __init__(self, width: Any, measure: bool) -> None:
        self.width, self.measure, self.rounded = width, measure, 0
        self.trusted = False  # inside a function with a derivative rule of its own

    def trace(
        self, function: Callable[..., Any], args: Any, keywords: Any
    ) -> tuple[list[Value], Any]:
        """The smoothed outputs and their tree structure."""
        if not args:
            raise TypeError(
                "args: got no positional argument; expected the decision as the first one"
            )
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args, **keywords)
        decisions = len(jax.tree_util.tree_leaves(args[:1]))
        leaves = [
            _at_once(jnp.asarray, leaf) for leaf in jax.tree_util.tree_leaves((args, keywords))
        ]
        inputs = [Value(leaf, decided=i < decisions) for i, leaf in enumerate(leaves)]
        outputs = self.run(closed, inputs, [True] * len(closed.jaxpr.outvars))
        for output in outputs:
            if output.turned:
                _refuse(output.turned, "through which the output decreases with a smoothed value")
        return outputs, jax.tree_util.tree_structure(shapes)

    def run(self, closed: Any, inputs: Sequence[Value], chosen: Sequence[bool]) -> list[Value]:
        """The outputs of a jaxpr; its kinks are rounded where a derivative of the chosen outputs
        flows."""
        live = _differentiated(closed.jaxpr, chosen)

        def rule(equation: Any, operands: list[Any]) -> list[Value]:
            return self.smoothed(
                equation, [_value(v) for v in operands], [v in live for v in equation.outvars]
            )

        return [_value(v) for v in evaluate(closed, inputs, rule, calls=frozenset())]

    def smoothed(self, equation: Any, inputs: list[Value], live: Sequence[bool]) -> list[Value]:
        """The outputs of one equation."""
        name, arrays, before = _name(equation), [value.array for value in inputs], self.rounded
        if all(value.constant for value in inputs):
            return [_constant(array) for array in _bind(equation, arrays)]
        if name in CALLS:
            outside, self.trusted = self.trusted, self.trusted or name in _CUSTOM
            outputs = self.run(called(equation), inputs, live)
            self.trusted = outside
            if self.rounded == before:  # keep the call, with its own derivative rule if it has one
                pairs = zip(outputs, _bind(equation, arrays), strict=True)
                outputs = [v if v.constant else replace(v, array=array) for v, array in pairs]
            return outputs
        if name == "select_n" and inputs[0].constant and len(np.unique(arrays[0])) == 1:
            return [inputs[1 + int(np.ravel(arrays[0])[0])]]
        own, results, decided = 0.0, None, any(value.decided for value in inputs)
        ordered = decided and (name in _ORDERS or any(value.ordered for value in inputs))
        by_order = name in {"select_n", "cond"} and inputs[0].ordered and any(live)
        if by_order and not self.trusted and any(value.decided for value in inputs[1:]):
            _refuse(
                "where" if name == "select_n" else name,
                "with a condition that compares the decision, which may hide a kink",
                "write jnp.abs, jnp.maximum or jnp.minimum, or declare a smooth function by "
                "jax.custom_jvp",
            )
        if decided and any(live):
            unchanged = _unchanged(equation, name, inputs)
            if unchanged is not None:
                return [unchanged]
            own, results = self.round(equation, name, inputs)
        gaps, turned = self.propagate(equation, name, inputs, own)
        self.rounded += own > 0
        low = -math.inf if turned else _lower_bound(equation, name, inputs)
        results = results or _bind(equation, arrays)
        ordered = ordered and not _inexact(equation.outvars[0])
        return [
            Value(a, decided, low=low, gap=gap, turned=turned, ordered=ordered)
            for a, gap in zip(results, gaps, strict=True)
        ]

    def round(
        self, equation: Any, name: str, inputs: Sequence[Value]
    ) -> tuple[float, list[Any] | None]:
        """The gap in widths and the value that replace a kink; (0, None) for anything else."""
        u, result = inputs[0].array, equation.outvars[0].aval
        if (name not in _KINKS and _has_kink(equation)) or (name == "abs" and jnp.iscomplexobj(u)):
            _refuse(name, "of the decision, with a kink that has no smooth replacement")
        points = np.size(u) // max(1, result.size)  # that a maximum runs over
        lonely = name in {"reduce_max", "reduce_min"} and points <= 1
        if lonely or name not in _KINKS | {"sqrt"} or (name == "sqrt" and inputs[0].low != 0):
            return 0.0, None
        limits: Any = jnp.finfo  # untyped in JAX
        least = math.sqrt(
            float(limits(result.dtype).tiny)
        )  # the square of the width must not vanish
        if not is_tracer(self.width) and self.width < least:
            raise ValueError(
                f"width: got {self.width:g}; expected at least {least:.1e} for {result.dtype}"
            )
        width, sign = jnp.asarray(self.width, result.dtype), -1 if name in _MINIMA else 1
        if name in {"abs", "sqrt"}:
            return 1.0, [jnp.sqrt((u**2 if name == "abs" else u) + width**2)]
        if name in {"max", "min"}:
            a, b = (sign * jnp.broadcast_to(value.array, result.shape) for value in inputs)
            return 0.5, [sign * _soft_max(a, b, width)]
        return 1.0, [
            sign * _log_sum_exp(sign * u, equation.params["axes"], width / math.log(points))
        ]

    def propagate(
        self, equation: Any, name: str, inputs: Sequence[Value], own: float
    ) -> tuple[list[Any], str]:
        """The gaps of the results, from the inputs and the `own` one, and what turned them (see
        `Value`)."""
        smoothed = [i for i, value in enumerate(inputs) if value.gap is not None]
        if not smoothed:
            gaps = (
                self.combine(equation, name, inputs, own) if own else [None] * len(equation.outvars)
            )
            return gaps, name if own and name in _MINIMA else ""
        if name not in _MOVES | _JOINS | _SUMS | _SCALINGS | _MAXIMA | _MINIMA | {"select_n"}:
            _refuse(
                name,
                "of a smoothed value, which may decrease with it or stretch its gap without bound",
            )
        steering = inputs[:1] if name == "select_n" else inputs[1:] if name in _MOVES else []
        if any(value.decided for value in steering) or not _inexact(equation.outvars[0]):
            _refuse(name, "of a smoothed value, which jumps as the decision moves")
        flips = name in _SCALINGS and _flips(name, smoothed[0], inputs)
        turned = []
        for i in smoothed:
            turn = flips or name == "neg" or (name == "sub" and i == 1)
            turned.append(inputs[i].turned if not turn else "" if inputs[i].turned else name)
        below = {bool(side) for side in turned}
        if len(below) > 1 or below == (
            {False} if name in _MINIMA else {True} if name in _MAXIMA else None
        ):
            _refuse(name, "of values that are not all smoothed from the same, right side")
        return self.combine(equation, name, inputs, own), turned[0]

    def combine(self, equation: Any, name: str, inputs: Sequence[Value], own: float) -> list[Any]:
        """The gaps of the results, for a way of combining them that `propagate` has allowed."""
        if not self.measure:
            return [True] * len(equation.outvars)
        if name in _SCALINGS:
            return _bind(
                equation, [_at_once(jnp.abs, v.array) if v.gap is None else v.gap for v in inputs]
            )
        shapes = [(np.shape(v.array), jnp.result_type(v.array)) for v in inputs]
        gaps = [
            np.zeros(*shape) if v.gap is None else v.gap
            for v, shape in zip(inputs, shapes, strict=True)
        ]
        if name in _MOVES | _JOINS:
            return _bind(
                equation, gaps if name in _JOINS else [gaps[0], *(v.array for v in inputs[1:])]
            )
        if name == "select_n" and not is_tracer(inputs[0].array):
            return _bind(equation, [inputs[0].array, *gaps[1:]])
        traced = any(is_tracer(gap) for gap in gaps)
        xp, gaps = (jnp, gaps) if traced else (np, [np.asarray(gap) for gap in gaps])
        if name in {"reduce_max", "reduce_min"}:
            return [xp.max(gaps[0], axis=equation.params["axes"]) + own]
        parts = gaps[1:] if name == "select_n" else gaps
        spread = [xp.broadcast_to(gap, equation.outvars[0].aval.shape) for gap in parts]
        return [reduce(xp.add if name in _SUMS else xp.maximum, spread) + own]

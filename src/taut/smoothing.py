"""Smoothing from above: a function made of |.|, max and 2-norms becomes a smooth one with a proven gap.

The function is traced and evaluated again with its kinks rounded (w is the width, s = sqrt((a - b)^2 + w^2)):

    |u|          ->  sqrt(u^2 + w^2)                            gap w
    max(a, b)    ->  (a + b + s) / 2                            gap w/2
    max_i u_i    ->  v log sum_i exp(u_i / v),  v = w / ln n    gap w
    sqrt(q)      ->  sqrt(q + w^2)                              gap w, where q is a sum of squares and can be zero

Each replacement is convex, lies above what it replaces, and bends by at most 1/w (ln n / w for the max of n) times the
squared slope of its arguments. A gap stays an upper bound only while what follows increases with the value that has it, so
every operation between a kink and the output is checked; one that may decrease, or stretch the gap without bound, is
refused by name. min is smoothed from below, for functions such as -min(x). Kinks written with `jnp.where` are not
seen and stay as they are. This is Nesterov's smoothing ("Smooth minimization of non-smooth functions", 2005), which the
bounds on a single round's violation call for when a constraint is not differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from taut import errors

__all__ = ["smooth_from_above", "smoothing_gap"]

_MOVES = {  # linear in the first operand, with coefficients 0 and 1: a gap goes through like the value
    "broadcast_in_dim", "convert_element_type", "copy", "copy_p", "cumsum", "dynamic_slice", "gather", "reduce_sum",
    "reshape", "rev", "slice", "split", "squeeze", "stop_gradient", "tile", "transpose",
}  # fmt: skip
_JOINS = {"concatenate", "stack", "pad"}  # the same, in all operands
_SUMS = {"add", "add_any", "sub", "neg"}
_SCALINGS = {"mul", "div", "dot_general"}
_SOFT_MAXIMA = {"logaddexp", "_soft_max"}  # smooth although written with |.| and max; increasing, gaps do not add up
_MAXIMA = {"max", "reduce_max"} | _SOFT_MAXIMA
_MINIMA = {"min", "reduce_min"}
_KINKS = {"abs", "max", "min", "reduce_max", "reduce_min"}
_OTHER_KINKS = {
    "clamp", "sort", "top_k", "cummax", "cummin", "sign", "floor", "ceil", "round", "rem", "svd", "eigh", "eig",
    "reduce_window_max", "reduce_window_min",
}  # fmt: skip
_CALLS = {
    "jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2", "custom_jvp_call", "custom_vjp_call",
    "custom_vjp_call_jaxpr",
}  # fmt: skip
_NOT_NEGATIVE = {"abs", "exp", "exp2", "square", "sqrt", "rsqrt", "logistic"}
_KEEP_SIGN = {"div", "dot_general", "pow", "integer_pow", "log1p"}  # not negative if no operand is
_EXPECTED = "expected non-negative combinations and maxima of |affine|, affine and smooth convex parts"


def smooth_from_above(function: Callable[..., Any], width: Any) -> Callable[..., Any]:
    """A smooth function between `function` and `function` plus its `smoothing_gap`.

    `function` must be convex in its first argument, the decision: every |.| of an affine argument, every max of convex
    ones. Further arguments are data; a coefficient of a kink may depend on them if it cannot be negative (abs, exp,
    square, ...) and never on the decision. A function without kinks is returned values and all. The result has the same
    signature and can be traced by jit, vmap and grad; `width` is a positive number and may be traced.

    >>> smooth = smooth_from_above(lambda x: jnp.linalg.norm(x, 1) - 1, width=0.1)
    >>> float(smooth(jnp.zeros(2))), jax.grad(smooth)(jnp.zeros(2)).tolist()
    (-0.8..., [0.0, 0.0])
    """
    if not isinstance(width, jax.core.Tracer):
        errors.positive("width", width)

    def smooth(*args: Any, **keywords: Any) -> Any:
        smoother = _Smoother(width, measure=False)
        outputs, tree = smoother.trace(function, args, keywords)
        if not smoother.rounded:
            return function(*args, **keywords)
        return jax.tree_util.tree_unflatten(tree, [output.array for output in outputs])

    return smooth


def smoothing_gap(function: Callable[..., Any], width: float, *args: Any, **keywords: Any) -> Any:
    """The most by which `smooth_from_above(function, width)` can exceed `function`, for each of its outputs.

    Holds for every decision of the shape of the first argument; of it, and of data no coefficient depends on, only
    shape and type are used, so a `jax.ShapeDtypeStruct` will do. The answer is a NumPy array of the shape of the output (or a
    tree of them).

    >>> float(smoothing_gap(lambda x: jnp.linalg.norm(x, 1) - 1, 0.1, jax.ShapeDtypeStruct((3,), float)))
    0.3...
    """
    width = errors.positive("width", width)
    leaves, structure = jax.tree_util.tree_flatten((args, keywords))
    decisions = len(jax.tree_util.tree_leaves(args[:1]))
    given = [i >= decisions and not isinstance(leaf, jax.ShapeDtypeStruct) for i, leaf in enumerate(leaves)]
    result: list[Any] = []

    def analyse(unknown: list[Any]) -> None:
        rest = iter(unknown)
        filled = [leaf if known else next(rest) for known, leaf in zip(given, leaves, strict=True)]
        filled_args, filled_keywords = jax.tree_util.tree_unflatten(structure, filled)
        outputs, tree = _Smoother(1.0, measure=True).trace(function, filled_args, filled_keywords)
        gaps = [np.zeros(np.shape(v.array)) if v.gap is None else v.gap for v in outputs]
        if any(isinstance(gap, jax.core.Tracer) for gap in gaps):
            raise ValueError("args: got only the shape of data the gap depends on; expected the data as an array")
        result.append(jax.tree_util.tree_unflatten(tree, [width * np.asarray(gap, float) for gap in gaps]))

    jax.eval_shape(analyse, [leaf for known, leaf in zip(given, leaves, strict=True) if not known])
    return result[0]


@dataclass(frozen=True)
class _Value:
    """An intermediate value after smoothing, and what is known of it."""

    array: Any
    decided: bool = False  # depends on the decision
    constant: bool = False  # known while tracing: neither decision nor data
    low: float = -math.inf  # no entry of the exact value is smaller
    gap: Any = None  # distance to the exact value, in widths (True if not measured); None if there is none
    turned: str = ""  # the primitive that made `array` lie below the exact value; empty if it lies above


def _constant(array: Any) -> _Value:
    if isinstance(array, jax.core.Tracer):  # a closure over data
        return _Value(array)
    return _Value(array, constant=True, low=-_largest(-1, array))


def _largest(sign: int, array: Any) -> float:
    """The largest entry of `sign * array`; infinity if there is none."""
    if not np.size(array) or jnp.result_type(array).kind not in "biuf":
        return math.inf
    largest = float(np.max(sign * np.asarray(array, float)))
    return math.inf if math.isnan(largest) else largest


def _refuse(name: str, why: str) -> NoReturn:
    raise ValueError(f"function: got `{name}` {why}; {_EXPECTED}")


def _at_once(operation: Callable[..., Any], *operands: Any) -> Any:
    """`operation(*operands)`, evaluated while tracing if no operand is traced."""
    if any(isinstance(operand, jax.core.Tracer) for operand in operands):
        return operation(*operands)
    with jax.ensure_compile_time_eval():
        return operation(*operands)


def _bind(equation: Any, *operands: Any) -> list[Any]:
    """The results of `equation` for other operands."""
    functions, parameters = equation.primitive.get_bind_params(equation.params)
    results = _at_once(partial(equation.primitive.bind, *functions, **parameters), *operands)
    return list(results) if equation.primitive.multiple_results else [results]


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


def _name(equation: Any) -> str:
    """The name of the primitive; of the function if it is a smooth one written with kinks."""
    if equation.primitive.name == "custom_jvp_call":
        function = equation.params["call_jaxpr"].jaxpr.debug_info.func_name
        return function if function in _SOFT_MAXIMA else "custom_jvp_call"
    return str(equation.primitive.name)


def _inner(equation: Any) -> Any:
    """The jaxpr of a call to look into, else None."""
    if _name(equation) not in _CALLS:
        return None
    inner = next(equation.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in equation.params)
    return inner if isinstance(inner, jex.ClosedJaxpr) else jex.ClosedJaxpr(inner, ())


def _inexact(variable: Any) -> bool:
    return isinstance(variable, jex.Var) and bool(jnp.issubdtype(variable.aval.dtype, jnp.inexact))


def _has_kink(jaxpr: Any) -> bool:
    """Whether a loop body or branch contains a kink."""
    for equation in jaxpr.eqns:
        parts = [part for value in equation.params.values() for part in (value if isinstance(value, tuple) else (value,))]
        inner = [getattr(part, "jaxpr", part) for part in parts]
        if _name(equation) in _KINKS | _OTHER_KINKS and _inexact(equation.outvars[0]):
            return True
        if _name(equation) not in _SOFT_MAXIMA and any(_has_kink(part) for part in inner if isinstance(part, jex.Jaxpr)):
            return True
    return False


def _differentiated(jaxpr: Any, outputs: Sequence[bool]) -> set[Any]:
    """The variables through which a derivative of the chosen outputs flows."""
    live = {v for v, chosen in zip(jaxpr.outvars, outputs, strict=True) if chosen and _inexact(v)}
    for equation in reversed(jaxpr.eqns):
        chosen, inside, sources = [v in live for v in equation.outvars], _inner(equation), equation.invars
        if not any(chosen) or equation.primitive.name == "stop_gradient":
            continue
        if inside is not None:
            flowing = _differentiated(inside.jaxpr, chosen)
            sources = [v for v, inner in zip(sources, inside.jaxpr.invars, strict=True) if inner in flowing]
        live.update(filter(_inexact, sources))
    return live


def _lower_bound(equation: Any, name: str, inputs: Sequence[_Value]) -> float:
    """A number that no entry of the exact result of `equation` is below."""
    lows, result = [value.low for value in inputs], equation.outvars[0].aval
    squared = len(inputs) == 2 and inputs[0] is inputs[1]
    if name == "dot_general":
        (left, right), _ = equation.params["dimension_numbers"]
        squared = squared and result.ndim == 0 and left == right
    if name in _NOT_NEGATIVE or result.dtype == bool or (name == "integer_pow" and equation.params["y"] % 2 == 0):
        return 0.0
    if squared and name in _SCALINGS or (name in _KEEP_SIGN and min(lows) >= 0):
        return 0.0
    if name == "mul":
        return lows[0] * lows[1] if min(lows) >= 0 else -math.inf
    if name in {"add", "add_any"}:
        return sum(lows)
    if name in {"max", "logaddexp"}:
        return max(lows)
    if name in _JOINS | {"min", "select_n"}:
        return min(lows)
    if name in _MOVES | {"reduce_max", "reduce_min"}:
        return -math.inf if name in {"reduce_sum", "cumsum"} and lows[0] < 0 else lows[0]
    return -math.inf


class _Smoother:
    """Evaluates a jaxpr with its kinks rounded; with `measure`, also the gaps themselves."""

    def __init__(self, width: Any, measure: bool) -> None:
        self.width, self.measure, self.rounded = width, measure, 0

    def trace(self, function: Callable[..., Any], args: Any, keywords: Any) -> tuple[list[_Value], Any]:
        """The smoothed outputs and their tree structure."""
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args, **keywords)
        decisions = len(jax.tree_util.tree_leaves(args[:1]))
        leaves = map(jnp.asarray, jax.tree_util.tree_leaves((args, keywords)))
        inputs = [_Value(leaf, decided=i < decisions) for i, leaf in enumerate(leaves)]
        outputs = self.run(closed, inputs, [True] * len(closed.jaxpr.outvars))
        for output in outputs:
            if output.turned:
                _refuse(output.turned, "through which the output decreases with a smoothed value")
        return outputs, jax.tree_util.tree_structure(shapes)

    def run(self, closed: Any, inputs: Sequence[_Value], chosen: Sequence[bool]) -> list[_Value]:
        """The outputs of a jaxpr; kinks are rounded where the derivative of a chosen output needs it."""
        jaxpr, live = closed.jaxpr, _differentiated(closed.jaxpr, chosen)
        values = dict(zip(jaxpr.constvars, map(_constant, closed.consts), strict=True))
        values.update(zip(jaxpr.invars, inputs, strict=True))

        def read(variable: Any) -> _Value:
            return _constant(variable.val) if isinstance(variable, jex.Literal) else values[variable]

        for equation in jaxpr.eqns:
            outputs = self.evaluate(equation, list(map(read, equation.invars)), [v in live for v in equation.outvars])
            values.update(zip(equation.outvars, outputs, strict=True))
        return list(map(read, jaxpr.outvars))

    def evaluate(self, equation: Any, inputs: list[_Value], live: list[bool]) -> list[_Value]:
        """The outputs of one equation."""
        arrays, inside, name = [value.array for value in inputs], _inner(equation), _name(equation)
        if all(value.constant for value in inputs):
            return list(map(_constant, _bind(equation, *arrays)))
        if inside is not None:
            before = self.rounded
            outputs = self.run(inside, inputs, live)
            if self.rounded > before:
                return outputs
            return [replace(v, array=a) for v, a in zip(outputs, _bind(equation, *arrays), strict=True)]
        if name == "select_n" and inputs[0].constant and np.size(np.unique(np.asarray(arrays[0]))) == 1:
            return [inputs[1 + int(np.ravel(arrays[0])[0])]]
        decided, own, results = any(value.decided for value in inputs), 0.0, None
        if decided and any(live):
            unchanged = self.unchanged(equation, name, inputs)
            if unchanged is not None:
                return [unchanged]
            own, results = self.round(equation, name, inputs)
        gaps, turned = self.propagate(equation, name, inputs)
        if own:
            turned = turned or (name if name in _MINIMA else "")
            shape, dtype = results.shape, results.dtype
            gaps = [True if not self.measure else _at_once(lambda g: jnp.full(shape, own, dtype) + (0 if g is None else g), gaps[0])]
        low = -math.inf if turned else _lower_bound(equation, name, inputs)
        results = _bind(equation, *arrays) if results is None else [results]
        return [_Value(a, decided, False, low, g, turned) for a, g in zip(results, gaps, strict=True)]

"""Small functions evaluated in NumPy instead of being compiled.

Compiling a function takes XLA some 100 milliseconds, evaluating it on small arrays takes microseconds. `evaluated` is used in
place of `jax.jit` for functions that are called a few times only: it traces the function as JAX does, evaluates the traced
program in NumPy while that is cheap, and compiles it once the time spent in NumPy exceeds what compiling would cost. Programs
that contain an operation without a counterpart here are compiled at once. Both ways give the same numbers up to rounding.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import jax
import numpy as np

from ..engine import Array
from ..jax_internals import ClosedJaxpr, Jaxpr, Literal, plain

__all__ = ["Evaluated", "evaluated", "interpret", "supported"]

ENTRIES = 20_000_000
"""Programs that compute more entries than this are compiled at once."""
PROGRAMS = 64
"""The number of traced programs that are kept per function; they keep users' functions alive."""
SECONDS = 0.25
"""The processor time after which a program is compiled rather than evaluated in NumPy once more."""

Rule = Callable[..., Any]
Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def evaluated(function: Function) -> Function: ...


@overload
def evaluated(*, static_argnames: Sequence[str]) -> Callable[[Function], Function]: ...


def evaluated(function: Any = None, *, static_argnames: Sequence[str] = ()) -> Any:
    """Decorate a pure function of arrays, which is then evaluated in NumPy while that is cheaper than to compile it."""
    if function is None:
        return functools.partial(evaluated, static_argnames=static_argnames)
    return functools.wraps(function)(Evaluated(function, static_argnames))


class Evaluated:
    """A function that is evaluated in NumPy at first and compiled when it is used often; see `evaluated`."""

    def __init__(self, function: Callable[..., Any], static_argnames: Sequence[str] = ()) -> None:
        self.jitted: Any = jax.jit(function, static_argnames=tuple(static_argnames))
        self._static = [name in static_argnames for name in inspect.signature(function).parameters]
        self._programs: dict[Any, _Program] = {}

    def __call__(self, *arguments: Any) -> Any:
        """The function's results, as NumPy or JAX arrays."""
        dynamic = [one for one, static in zip(arguments, self._static, strict=True) if not static]
        leaves, tree = jax.tree_util.tree_flatten(dynamic)
        arrays = [np.asarray(leaf) for leaf in leaves]
        fixed = tuple(one for one, static in zip(arguments, self._static, strict=True) if static)
        key = fixed, tree, tuple((a.shape, a.dtype) for a in arrays), jax.config.read("jax_enable_x64")
        if key not in self._programs:
            self._programs[key] = _Program.of(self.jitted.trace(*arguments))
            if len(self._programs) > PROGRAMS:
                del self._programs[next(iter(self._programs))]
        program = self._programs[key]
        if program.spent > SECONDS:
            return self.jitted(*arguments)
        began = time.thread_time()
        results = interpret(program.closed, arrays)
        program.spent += time.thread_time() - began
        return jax.tree_util.tree_unflatten(program.results, results)


@dataclass
class _Program:
    """A traced program and the seconds spent on it in NumPy, infinite if it must be compiled."""

    closed: Any
    results: Any
    spent: float

    @classmethod
    def of(cls, traced: Any) -> _Program:
        closed, results = traced.jaxpr, jax.tree_util.tree_structure(traced.out_info)
        usable = (
            supported(closed.jaxpr)
            and _entries(closed.jaxpr) <= ENTRIES
            and jax.default_backend() == "cpu"
            and not plain()
        )
        return cls(closed, results, 0.0 if usable else np.inf)


def supported(jaxpr: Any) -> bool:
    """Whether every operation of a traced program has a counterpart in NumPy."""
    for equation in jaxpr.eqns:
        body = _body(equation)
        if body is not None:
            if not supported(body.jaxpr):
                return False
        elif equation.primitive.name not in RULES or not _usual(equation):
            return False
    return True


def interpret(closed: Any, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a traced program in NumPy; the program must be `supported`."""
    with np.errstate(all="ignore"):
        return _run(closed, list(inputs))


def _run(closed: Any, inputs: list[Array]) -> list[Array]:
    jaxpr = closed.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, map(np.asarray, closed.consts), strict=True))
    values.update(zip(jaxpr.invars, inputs, strict=True))

    def read(variable: Any) -> Any:
        return np.asarray(variable.val) if isinstance(variable, Literal) else values[variable]

    for equation in jaxpr.eqns:
        operands, body = [read(v) for v in equation.invars], _body(equation)
        if body is not None:
            outputs = _run(body, operands)
        else:
            result = RULES[equation.primitive.name](*operands, **equation.params)
            outputs = list(result) if equation.primitive.multiple_results else [result]
        values.update(zip(equation.outvars, outputs, strict=True))
    return [np.asarray(read(v), v.aval.dtype) for v in jaxpr.outvars]


def _body(equation: Any) -> Any:
    """The program inside a call, closed; None for other operations."""
    if equation.primitive.name not in CALLS:
        return None
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(name)
        if inner is not None:
            return ClosedJaxpr(inner, ()) if isinstance(inner, Jaxpr) else inner
    return None


def _entries(jaxpr: Any) -> int:
    """The number of entries that a program computes; a matrix product counts each multiplication."""
    total = 0
    for equation in jaxpr.eqns:
        body = _body(equation)
        size = max((int(np.prod(v.aval.shape)) for v in equation.outvars), default=0)
        if equation.primitive.name == "dot_general":
            (left, _), _ = equation.params["dimension_numbers"]
            size *= int(np.prod([equation.invars[0].aval.shape[i] for i in left]))
        total += size if body is None else _entries(body.jaxpr)
    return total


def _usual(equation: Any) -> bool:
    """Whether the operation has the parameters that the rules below expect."""
    name, params = equation.primitive.name, equation.params
    real = all(np.dtype(v.aval.dtype).kind in "fiub" for v in (*equation.invars, *equation.outvars))
    if name == "pad":
        return real and all(low >= 0 and high >= 0 and inside == 0 for low, high, inside in params["padding_config"])
    if name in ("div", "pow", "integer_pow", "rem"):
        return real and all(np.dtype(v.aval.dtype).kind == "f" for v in equation.outvars)
    if name == "sort":
        return real and params["num_keys"] == 1 and len(equation.invars) == 1
    return real


def _broadcast_in_dim(x: Array, *dynamic: Any, shape: Any, broadcast_dimensions: Any, **_: Any) -> Array:
    full = [1] * len(shape)
    for source, target in enumerate(broadcast_dimensions):
        full[target] = x.shape[source]
    return np.broadcast_to(x.reshape(full), shape)


def _dot_general(a: Array, b: Array, *, dimension_numbers: Any, **_: Any) -> Array:
    (left, right), (left_batch, right_batch) = dimension_numbers
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    first = [next(letters) for _ in range(a.ndim)]
    second: list[str] = [""] * b.ndim
    for i, j in [*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)]:
        second[j] = first[i]
    second = [letter or next(letters) for letter in second]
    free = [first[i] for i in range(a.ndim) if i not in (*left, *left_batch)]
    free += [second[j] for j in range(b.ndim) if j not in (*right, *right_batch)]
    out = [first[i] for i in left_batch] + free
    return np.asarray(np.einsum(f"{''.join(first)},{''.join(second)}->{''.join(out)}", a, b, optimize=True))


def _iota(*_: Any, dtype: Any, shape: Any, dimension: int, **__: Any) -> Array:
    line = np.arange(shape[dimension], dtype=dtype).reshape([-1 if i == dimension else 1 for i in range(len(shape))])
    return np.broadcast_to(line, shape)


def _pad(x: Array, value: Array, *, padding_config: Any) -> Array:
    return np.pad(x, [(low, high) for low, high, _ in padding_config], constant_values=value)


def _select(which: Array, *cases: Array) -> Array:
    if which.dtype == bool:
        return np.where(which, cases[1], cases[0])
    return np.choose(which, cases)


def _slice(x: Array, *, start_indices: Any, limit_indices: Any, strides: Any) -> Array:
    steps = strides or [1] * x.ndim
    return x[tuple(slice(*edges) for edges in zip(start_indices, limit_indices, steps, strict=True))]


def _split(x: Array, *, sizes: Any, axis: int) -> list[Array]:
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


def _reducing(function: Callable[..., Any]) -> Rule:
    return lambda x, *, axes, **_: function(x, axis=tuple(axes))


def _plain(function: Callable[..., Any]) -> Rule:
    return lambda *operands, **_: function(*operands)


def _cumulative(function: Callable[..., Any]) -> Rule:
    def rule(x: Array, *, axis: int, reverse: bool) -> Array:
        return np.flip(function(np.flip(x, axis), axis=axis), axis) if reverse else function(x, axis=axis)

    return rule


CALLS = frozenset(
    ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "remat2", "checkpoint")
)
ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "add": np.add, "add_any": np.add, "and": np.logical_and,
    "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh,
    "cbrt": np.cbrt, "ceil": np.ceil, "copy": np.asarray, "copy_p": np.asarray, "cos": np.cos, "cosh": np.cosh,
    "div": np.divide, "eq": np.equal, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "floor": np.floor,
    "ge": np.greater_equal, "gt": np.greater, "is_finite": np.isfinite, "le": np.less_equal, "log": np.log,
    "log1p": np.log1p, "logistic": lambda x: 1 / (1 + np.exp(-x)), "lt": np.less, "max": np.maximum,
    "min": np.minimum, "mul": np.multiply, "ne": np.not_equal, "neg": np.negative, "not": np.logical_not,
    "or": np.logical_or, "pow": np.power, "rsqrt": lambda x: 1 / np.sqrt(x), "select_n": _select,
    "sign": np.sign, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "square": np.square,
    "stop_gradient": np.asarray, "sub": np.subtract, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip
RULES: dict[str, Rule] = {name: _plain(function) for name, function in ELEMENTWISE.items()} | {
    "argmax": lambda x, *, axes, index_dtype: np.argmax(x, axis=axes[0]).astype(index_dtype),
    "argmin": lambda x, *, axes, index_dtype: np.argmin(x, axis=axes[0]).astype(index_dtype),
    "broadcast_in_dim": _broadcast_in_dim,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "concatenate": lambda *parts, dimension: np.concatenate(parts, axis=dimension),
    "convert_element_type": lambda x, *, new_dtype, **_: x.astype(new_dtype),
    "cummax": _cumulative(np.maximum.accumulate),
    "cummin": _cumulative(np.minimum.accumulate),
    "cumsum": _cumulative(np.cumsum),
    "dot_general": _dot_general,
    "expand_dims": lambda x, *, dimensions: np.expand_dims(x, tuple(dimensions)),
    "integer_pow": lambda x, *, y: x**y if y >= 0 else 1 / x**-y,
    "iota": _iota,
    "pad": _pad,
    "reduce_and": _reducing(np.all),
    "reduce_max": _reducing(np.max),
    "reduce_min": _reducing(np.min),
    "reduce_or": _reducing(np.any),
    "reduce_prod": _reducing(np.prod),
    "reduce_sum": _reducing(np.sum),
    "reshape": lambda x, *_, new_sizes, **__: x.reshape(new_sizes),
    "rev": lambda x, *, dimensions: np.flip(x, tuple(dimensions)),
    "slice": _slice,
    "sort": lambda x, *, dimension, **_: [np.sort(x, axis=dimension)],
    "split": _split,
    "squeeze": lambda x, *, dimensions: np.squeeze(x, tuple(dimensions)),
    "stack": lambda *parts, axis=0, **_: np.stack(parts, axis=axis),
    "transpose": lambda x, *, permutation: np.transpose(x, permutation),
    "unstack": lambda x, *, axis=0, **_: [np.take(x, i, axis=axis) for i in range(x.shape[axis])],
}
"""What each primitive of JAX is in NumPy. Arguments that only matter to a compiler are ignored."""

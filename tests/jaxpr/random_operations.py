"""Random calls of JAX's primitive operations, on all types of numbers, with awkward numbers among
them.

`operations(rng, dtype)` yields functions of arrays with their inputs. Together they contain every
operation that `taut.jaxpr.numpy_rules` has.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

FLOATS = ("float32", "float64")
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TYPES = (*FLOATS, *WHOLE, "bool")
COMPLEX = ("complex64",)
OTHERS = ("float16", "bfloat16", *COMPLEX)
"""Types that are always compiled."""
SHAPE = (2, 3)


def numbers(rng, dtype, shape=SHAPE):
    """Return random numbers; zeros, infinities, NaN and the ends of the range are among them."""
    dtype = jnp.dtype(dtype)
    if dtype.kind == "b":
        return rng.uniform(size=shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        small = rng.integers(max(limits.min, -9), 10, size=shape)
        odd = rng.choice(np.array([limits.min, limits.max, limits.max // 3], dtype), size=shape)
        return np.where(rng.uniform(size=shape) < 0.8, small.astype(dtype), odd)
    usual = rng.normal(scale=2.0, size=shape)
    if dtype.kind == "c":
        return (usual + 1j * rng.normal(size=shape)).astype(dtype)
    odd = rng.choice([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.inf, -np.inf, np.nan, 1e4], size=shape)
    return np.where(rng.uniform(size=shape) < 0.7, usual, odd).astype(dtype)


UNARY = {
    name: getattr(lax, name)
    for name in (
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "cbrt", "ceil"),
        *("cos", "cosh", "exp", "exp2", "expm1", "floor", "is_finite", "log", "log1p", "logistic"),
        *("neg", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh"),
    )
} | {
    # JAX before 0.12 writes it with other operations.
    **({"1 - x^2": lax.one_minus_square} if hasattr(lax, "one_minus_square") else {}),
    "copy": jnp.copy,
    "stop_gradient": lax.stop_gradient,
    "round to even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "add_any": jax.grad(lambda v: jnp.sum(v * v + v)),
    "power 3": lambda x: lax.integer_pow(x, 3),
    "power -2": lambda x: lax.integer_pow(x, -2),
    "power 0": lambda x: lax.integer_pow(x, 0),
    "power 300": lambda x: lax.integer_pow(x, 300),
    "power -7": lambda x: lax.integer_pow(x, -7),
    "a number": lambda x: (x + x.dtype.type(3)) * x.dtype.type(2),
}
BINARY = {
    name: getattr(lax, name)
    for name in (
        *("add", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "div", "eq", "ge", "gt"),
        *("le", "lt", "max", "min", "mul", "ne", "pow", "rem", "shift_left"),
        *("shift_right_arithmetic", "shift_right_logical", "sub"),
    )
} | {
    "chosen": lambda x, y: lax.select_n(x < y, x, y),
    "chosen by number": lambda x, y: lax.select_n((x > y).astype(int) * 2, x, y, x),
    "chosen by one bit": lambda x, y: lax.select_n(jnp.ravel(x < y)[0], x, y),
    "clamp": lambda x, y: lax.clamp(lax.min(x, y), y, lax.max(x, y)),
    "clamp by numbers": lambda x, y: lax.clamp(x.dtype.type(1), y, x.dtype.type(5)),
    "dot": lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ()))),
    "inner products": lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((0,), (0,)))),
    "outer product": lambda x, y: lax.dot_general(x[0], y[1], (((), ()), ((), ()))),
    "inner products, by columns": lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((1,), (1,)))),
    "contraction crosswise": lambda x, y: lax.dot_general(x.T, y, (((1, 0), (0, 1)), ((), ()))),
    "full contraction": lambda x, y: lax.dot_general(x, y, (((0, 1), (0, 1)), ((), ()))),
    "constant matrix": lambda x, y: lax.dot_general(
        x, np.arange(12).reshape(4, 3).astype(x.dtype), (((1,), (1,)), ((), ()))
    ),
    "matrix of a constant": lambda x, y: lax.dot_general(
        np.arange(8).reshape(2, 4).astype(y.dtype), y, (((0,), (0,)), ((), ()))
    ),
    "wide product": lambda x, y: lax.dot_general(
        x, y, (((1,), (1,)), ((), ())), preferred_element_type=wider(x.dtype)
    ),
    "concatenate": lambda x, y: lax.concatenate([x, y, x], 1),
    "stack": lambda x, y: jnp.stack([x, y], axis=1),
    "sort two": lambda x, y: lax.sort((x, y), dimension=1, num_keys=1),
    "sort by two": lambda x, y: lax.sort((x, y), dimension=1, num_keys=2),
    "written": lambda x, y: lax.dynamic_update_slice(x, y[:1, :2], (1, 5)),
}


def wider(dtype):
    """Return a type with more digits of the same kind."""
    return {"f": jnp.float64, "i": jnp.int64, "u": jnp.uint64}.get(np.dtype(dtype).kind, dtype)


MOVED = {
    "transpose": lambda x: lax.transpose(x, (1, 0)),
    "reshape": lambda x: lax.reshape(x, (3, 2)),
    "reshape in another order": lambda x: lax.reshape(x, (6,), dimensions=(1, 0)),
    "squeeze": lambda x: lax.squeeze(x[:1], (0,)),
    "broadcast": lambda x: lax.broadcast_in_dim(x, (2, 4, 3), (0, 2)),
    "broadcast a row": lambda x: lax.broadcast_in_dim(x[:1], (2, 3), (0, 1)),
    "reverse": lambda x: lax.rev(x, (1,)),
    "slice": lambda x: lax.slice(x, (0, 1), (2, 3), (1, 2)),
    "slice of nothing": lambda x: lax.slice(x, (0, 1), (2, 1)),
    "split": lambda x: lax.split(x, (1, 2), axis=1),
    "tile": lambda x: jnp.tile(x, (2, 1)),
    "unstack": lambda x: jnp.unstack(x, axis=1),
    "unstack nothing": lambda x: (x, *jnp.unstack(x[:, :0], axis=1)),
    "pad": lambda x: lax.pad(x, x.dtype.type(1), ((1, 0, 0), (0, 2, 0))),
    "cut by padding": lambda x: lax.pad(x, x.dtype.type(1), ((-1, 0, 0), (0, 2, 0))),
    "spread by padding": lambda x: lax.pad(x, x.dtype.type(1), ((0, 2, 1), (1, 0, 2))),
    "padded nothing": lambda x: lax.pad(x[:, :0], x.dtype.type(1), ((0, 0, 0), (1, 3, 0))),
    "pad with data": lambda x: lax.pad(x, x[0, 0], ((1, 0, 0), (0, 2, 0))),
    "read": lambda x: lax.dynamic_slice(x, (1, 1), (1, 2)),
    "read over the edge": lambda x: lax.dynamic_slice(x, (5, -4), (1, 2)),
    "rows": lambda x: x[jnp.array([1, 0, 1])],
    "columns": lambda x: x[:, jnp.array([2, -1])],
    "entries": lambda x: x[jnp.array([0, 1]), jnp.array([2, 1])],
    "windows": lambda x: lax.gather(
        x,
        jnp.array([[1], [0], [7], [-3]]),
        lax.GatherDimensionNumbers((1, 2), (), (1,)),
        (2, 2),
        mode="fill",
    ),
    "windows moved inside": lambda x: lax.gather(
        x,
        jnp.array([[[1, 0], [9, -9]]]),
        lax.GatherDimensionNumbers((0, 3), (), (1, 0)),
        (1, 2),
        mode="clip",
    ),
    "places of no numbers": lambda x: x[:, :0][jnp.array([1, 0, 1])],
    "places outside": lambda x: jnp.take(x, jnp.array([0, 7, -8]), axis=1, mode="fill"),
    "places outside, clipped": lambda x: jnp.take(x, jnp.array([0, 7, -8]), axis=1, mode="clip"),
    "places in data": lambda x: x[jnp.argmax(x[:, 0])],
    "places by row": lambda x: jax.vmap(lambda v, i: v[i])(x, jnp.array([2, 0])),
    "iota": lambda x: (
        (lax.broadcasted_iota(x.dtype, (2, 3), 1), x) if x.dtype != bool else (x, jnp.arange(3))
    ),
}
REDUCED = {
    f"{function.__name__} over {axes}": lambda x, function=function, axes=axes: function(x, axes)
    for function in (
        *(lax.reduce_sum, lax.reduce_prod, lax.reduce_max, lax.reduce_min),
        *(lax.reduce_and, lax.reduce_or),
    )
    for axes in ((0,), (1,), (0, 1), ())
} | {
    f"{function.__name__} {axis}": lambda x, function=function, axis=axis: function(
        x, axis, jnp.int32
    )
    for function in (lax.argmax, lax.argmin)
    for axis in (0, 1)
}
for cumulative in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin):
    for reverse in (False, True):
        REDUCED[f"{cumulative.__name__} {reverse}"] = lambda x, function=cumulative, back=reverse: (
            function(x, axis=1, reverse=back)
        )
for reduced in (lax.reduce_sum, lax.reduce_prod, lax.reduce_max, lax.reduce_min):
    REDUCED[f"{reduced.__name__} of nothing"] = lambda x, function=reduced: function(x[:0], (0,))
REDUCED["sort of nothing"] = lambda x: lax.sort(x[:, :0], dimension=1)
REDUCED["sort"] = lambda x: lax.sort(x, dimension=1)
CONVERTED = {
    f"as {target}": lambda x, target=target: lax.convert_element_type(x, target)
    for target in (*TYPES, *OTHERS)
}
ALL = UNARY | BINARY | MOVED | REDUCED | CONVERTED


def operations(rng, dtype):
    """Yield (name, function, inputs) for all operations that JAX has for this type."""
    for name, function in ALL.items():
        if dtype in COMPLEX and name in CONVERTED:
            continue  # NumPy warns of the lost imaginary part
        count = 2 if name in BINARY else 1
        inputs = [numbers(rng, dtype) for _ in range(count)]
        try:
            jax.eval_shape(function, *inputs)
        except (TypeError, ValueError, AttributeError):
            continue  # not for numbers of this type
        yield name, function, inputs

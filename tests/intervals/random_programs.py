"""Random functions of a decision x of three numbers and data, written in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

UNARY = {
    "negation": lambda a: -a,
    "square": lambda a: a * a,
    "power 2": lambda a: a**2,
    "cube": lambda a: a**3,
    "power 1.5": lambda a: jnp.abs(a) ** 1.5,
    "power -2": lambda a: (jnp.abs(a) + 0.5) ** -2.0,
    "abs": jnp.abs,
    "exp": lambda a: jnp.exp(0.3 * a),
    "expm1": lambda a: jnp.expm1(0.3 * a),
    "exp2": lambda a: jnp.exp2(0.3 * a),
    "log": lambda a: jnp.log(jnp.abs(a) + 0.3),
    "log1p": lambda a: jnp.log1p(a * a),
    "sqrt": lambda a: jnp.sqrt(a * a + 0.1),
    "rsqrt": lambda a: jax.lax.rsqrt(a * a + 0.5),
    "tanh": jnp.tanh,
    "atan": jnp.arctan,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "relu": jax.nn.relu,
    "cosh": lambda a: jnp.cosh(0.3 * a),
    "sinh": lambda a: jnp.sinh(0.3 * a),
    "sign": jnp.sign,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "clip": lambda a: jnp.clip(a, -0.5, 0.5),
    "inverse": lambda a: 1 / (2 + jnp.abs(a)),
    "inverse below 0": lambda a: 1 / (-2 - jnp.abs(a)),
    "stop": jax.lax.stop_gradient,
    "as integer": lambda a: a.astype(int).astype(float),
    "is finite": lambda a: jnp.isfinite(a) * a,
}
BINARY = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "div": lambda a, b: a / (1 + b * b),
    "max": jnp.maximum,
    "min": jnp.minimum,
    "logaddexp": jnp.logaddexp,
    "where": lambda a, b: jnp.where(a > b, a, b),
    "where with a jump": lambda a, b: jnp.where((a >= 0.2) & ~(b > 0.5), a, b),
    "where equal": lambda a, b: jnp.where(a == b, a, 2 * b),
    "where unequal": lambda a, b: jnp.where((a != b) | (a < 0), a, -b),
    "greater": lambda a, b: (a <= b).astype(float),
}
OF_VECTORS = {
    "sum": jnp.sum,
    "max of": jnp.max,
    "min of": jnp.min,
    "norm": jnp.linalg.norm,
    "norm 1": lambda a: jnp.sum(jnp.abs(a)),
    "norm inf": lambda a: jnp.max(jnp.abs(a)),
    "dot": lambda a: a @ a,
    "dot with other": lambda a: a @ (2 * a + 1),
    "log-sum-exp": jax.scipy.special.logsumexp,
    "mean": jnp.mean,
    "empty sum": lambda a: jnp.sum(a[:0]) + a[0],
    "first": lambda a: a[0],
    "last two": lambda a: a[-2:].sum(),
}
TO_VECTORS = {
    "sort": jnp.sort,
    "cumsum": jnp.cumsum,
    "cumulative from behind": lambda a: jax.lax.cumsum(a, reverse=True),
    "cummax": jax.lax.cummax,
    "cummin from behind": lambda a: jax.lax.cummin(a, reverse=True),
    "reversed": lambda a: a[::-1],
    "rolled": lambda a: jnp.roll(a, 1),
    "padded": lambda a: jnp.pad(a[1:], (1, 0), constant_values=0.5),
    "joined": lambda a: jnp.concatenate([a[1:], -a[:1]]),
    "stacked": lambda a: jnp.stack([a[2], a[0], a[1]]),
    "set": lambda a: a.at[1].set(0.25),
    "outer": lambda a: jnp.outer(a, a).sum(axis=0),
    "matrix": lambda a: jnp.asarray(MATRIX, a.dtype) @ a,
    "differences": lambda a: jnp.append(jnp.diff(a), 0.0),
    "softmax": jax.nn.softmax,
    "transposed": lambda a: jnp.outer(a, jnp.arange(3.0)).T.reshape(9)[:3],
}
MATRIX = np.random.default_rng(5).normal(size=(3, 3))


def program(random):
    """A function (x, {"z": floats, "k": integers}) -> vector of three, and its description."""
    choices = []
    for _ in range(int(random.integers(1, 6))):
        table = (UNARY, BINARY, OF_VECTORS, TO_VECTORS)[int(random.integers(4))]
        name = str(random.choice(list(table)))
        choices.append((table, name, random.integers(0, 1_000_000, 2)))
    uses = random.integers(0, 5)

    def function(x, data):
        z, k = data["z"], data["k"]
        pool = [x, x, z]
        if uses == 0:
            pool.append(x[k % 3] * (k & 1))
        elif uses == 1:
            pool.append(jnp.where(z > 0, x, -x))
        elif uses == 2:
            pool.append((k - 1) * x)
        for table, name, (i, j) in choices:
            a = pool[-1] if i % 3 else pool[i % len(pool)]
            if table is BINARY:
                a, b = pool[-1], pool[j % len(pool)]
                pool.append(table[name](a, b))
            elif table is OF_VECTORS:
                pool.append(table[name](a) * jnp.ones(3, x.dtype))
            else:
                pool.append(table[name](a))
        return pool[-1]

    return function, [name for _, name, _ in choices] + [f"uses {uses}"]


def in_single_precision(function, x, data):
    """The function, computed in 32 bits."""
    single = {name: part.astype("float32" if name == "z" else int) for name, part in data.items()}
    return function(x.astype(jnp.float32), single).astype(x.dtype)

"""Derivatives of maxima and minima by index: the same as JAX's where no entries are equal, that of
the first one where some are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from taut.jaxpr.exactness import unsafe_operation
from taut.jaxpr.maxima import FEW, by_index, entry_of_largest, place_of_largest
from taut.jaxpr.walk import equations

SHAPE = (3, 4)


@jax.custom_jvp
def bent(x):
    """The largest entry, with twice its derivative."""
    return jnp.max(x)


bent.defjvp(lambda primals, tangents: (bent(*primals), 2 * jax.jvp(jnp.max, primals, tangents)[1]))


def summed(x, function):
    """Sum a function of each row in a loop."""
    return lax.scan(lambda total, row: (total + function(row), None), 0.0, x)[0]


PROGRAMS = {
    "max": jnp.max,
    "min": jnp.min,
    "max of rows": lambda x: jnp.sum(jnp.max(x, axis=1) ** 2),
    "min of columns": lambda x: jnp.sum(jnp.sin(jnp.min(x, axis=0, keepdims=True))),
    "axes that are not adjacent": lambda x: jnp.sum(jnp.max(x.reshape(3, 2, 2), axis=(0, 2)) ** 3),
    "norm of order infinity": lambda x: jnp.linalg.norm(x.ravel(), ord=jnp.inf),
    "largest absolute value": lambda x: jnp.max(jnp.abs(x)) + jnp.min(jnp.abs(x[0])),
    "maximum of two": lambda x: jnp.sum(jnp.maximum(x[0] ** 2, x[1])),
    "minimum of two": lambda x: jnp.sum(jnp.minimum(x[0], jnp.sin(x[1])) ** 2),
    "maximum with a number": lambda x: jnp.sum(jnp.maximum(x, 0.1) ** 2),
    "absolute values": lambda x: jnp.sum(jnp.abs(x) ** 3) + jnp.abs(jnp.sum(jnp.abs(x[0]) - 1)),
    "clipped": lambda x: jnp.sum(jnp.clip(x, -0.5, 0.5) * x),
    "chain": lambda x: jnp.maximum(jnp.max(x[0]), jnp.minimum(jnp.max(x[1]), jnp.sum(x))),
    "maximum of maxima": lambda x: jnp.max(jnp.max(x, axis=0) - jnp.min(x, axis=0)),
    "concatenated": lambda x: jnp.max(jnp.concatenate([x.ravel() ** 2, jnp.sum(x, 0) - 1])),
    "sorted": lambda x: jnp.sort(x.ravel())[-2] + jnp.median(x) + jnp.max(jnp.sort(x, 1)[:, 0]),
    "soft maximum": lambda x: jax.nn.logsumexp(3 * x) + jnp.sum(jax.nn.softmax(x)[0]),
    "relu": lambda x: jnp.sum(jax.nn.relu(x) ** 2) + jnp.max(jax.nn.relu(x - 0.1)),
    "own derivative": lambda x: bent(x) * jnp.max(x),
    "scan": lambda x: summed(x, jnp.max) + summed(x * x, jnp.min),
    "scan of scans": lambda x: summed(x, lambda row: summed(row, lambda u: jnp.maximum(u, u * u))),
    "branch": lambda x: lax.cond(x[0, 0] > 0, jnp.max, lambda y: jnp.min(y * y), x),
    "switch": lambda x: lax.switch(
        jnp.argmax(x[:, 0]), [jnp.max, lambda y: jnp.max(y, axis=1)[0] ** 2, jnp.sum], x
    ),
    "for loop": lambda x: lax.fori_loop(0, 3, lambda i, s: s + jnp.max(s * x[i]), jnp.sum(x)),
    "while loop, forward": lambda x: lax.while_loop(
        lambda s: s < 9, lambda s: s + jnp.max(x * x) + 1, jnp.sum(x)
    ),
    "jit": jax.jit(lambda x: jax.jit(jnp.max)(x * x) + jnp.max(x, initial=-9.0)),
    "checkpoint": jax.checkpoint(lambda x: jnp.max(jnp.sin(x)) ** 2),
    "vmap": lambda x: jnp.sum(jax.vmap(lambda row: jnp.max(row) * jnp.min(row))(x)),
    "derivative inside": lambda x: jnp.sum(jax.grad(lambda y: jnp.max(y * y))(x) ** 2),
    "whole numbers": lambda x: jnp.sum(x) * jnp.max(jnp.argmax(x, axis=1)),
    "long rows": lambda x: jnp.max(jnp.outer(x, jnp.linspace(1, 2, 3 * FEW)) ** 3),
    "many long rows": lambda x: jnp.sum(jnp.max(jnp.outer(x, jnp.linspace(-1, 2, 40)), 1) ** 2),
    "cumulative": lambda x: jnp.sum(lax.cummax(x[0]) ** 2),
}
FORWARD = {name for name in PROGRAMS if "forward" in name}


def point(seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=SHAPE))


def derivative(name):
    return jax.jacfwd if name in FORWARD else jax.grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives_are_those_of_jax_also_mapped(name):
    def everything(of):
        return lambda x: (of(x), derivative(name)(of)(x), jax.jvp(of, (x,), (point(9),))[1])

    points = jnp.stack([point(seed) for seed in range(4)])
    expected, found = (jax.jit(everything(of)) for of in (PROGRAMS[name], by_index(PROGRAMS[name])))
    mapped = jax.jit(jax.vmap(everything(by_index(PROGRAMS[name]))))(points)
    for i, x in enumerate(points):
        value, slope, push = expected(x)
        for result in (found(x), [part[i] for part in mapped]):
            np.testing.assert_allclose(result[0], value, rtol=1e-15)
            np.testing.assert_allclose(result[1], slope, rtol=1e-13, atol=1e-13)
            np.testing.assert_allclose(result[2], push, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "name",
    [
        "max of rows",
        "axes that are not adjacent",
        "maximum of two",
        "absolute values",
        "chain",
        "sorted",
        "own derivative",
        "scan",
        "branch",
        "derivative inside",
        "long rows",
    ],
)
def test_second_derivatives_are_those_of_jax(name):
    x = point(4)
    second = jax.jit(jax.hessian(PROGRAMS[name]))(x)
    np.testing.assert_allclose(
        jax.jit(jax.hessian(by_index(PROGRAMS[name])))(x), second, rtol=1e-12, atol=1e-12
    )
    forward = jax.jit(jax.jacfwd(jax.jacfwd(by_index(PROGRAMS[name]))))(x)
    np.testing.assert_allclose(forward, second, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        "max",
        "max of rows",
        "min of columns",
        "largest absolute value",
        "chain",
        "scan",
        "branch",
        "for loop",
        "many long rows",
        "concatenated",
    ],
)
def test_the_derivative_compares_no_computed_floats(name):
    """So that a program which contains it may be compiled into one kernel."""
    moved = lambda function: jax.grad(lambda x: function(jnp.sin(x) + x * x))  # noqa: E731
    unsafe = jax.make_jaxpr(moved(PROGRAMS[name]))(point())
    assert unsafe_operation(unsafe)
    assert not unsafe_operation(jax.make_jaxpr(moved(by_index(PROGRAMS[name])))(point()))


# Ties.


TIED = [1.0, 3.0, -2.0, 3.0, 3.0, -2.0]


@pytest.mark.parametrize("length", [6, 3 * FEW])
def test_the_first_of_several_equal_entries_is_differentiated(length):
    x = jnp.asarray(np.resize(TIED, length))
    first = np.eye(length)
    np.testing.assert_array_equal(jax.grad(by_index(jnp.max))(x), first[1])
    np.testing.assert_array_equal(jax.grad(by_index(jnp.min))(x), first[2])
    np.testing.assert_array_equal(jax.grad(by_index(jnp.max))(jnp.zeros(length)), first[0])
    rows = jnp.stack([x, jnp.zeros(length), -x])
    for find in (
        jax.vmap(jax.grad(by_index(jnp.max))),
        jax.jit(jax.vmap(jax.grad(by_index(jnp.max)))),
    ):
        np.testing.assert_array_equal(find(rows), first[[1, 0, 2]])
    total = by_index(lambda rows: jnp.sum(jnp.max(rows, axis=1)))
    np.testing.assert_array_equal(jax.grad(total)(rows), first[[1, 0, 2]])


def test_the_first_of_two_equal_numbers_is_differentiated():
    for function in (jnp.maximum, jnp.minimum):
        slopes = jax.grad(by_index(function), argnums=(0, 1))(2.0, 2.0)
        assert slopes == (1.0, 0.0)


def test_an_absolute_value_has_the_slope_of_one_side_at_zero():
    """JAX's own derivative is 0 there, which belongs to neither half-space of |x| <= 1."""
    x = jnp.asarray([0.0, -0.0, 2.0, -3.0])
    for function in (by_index(jnp.abs), jax.jit(by_index(lambda u: lax.map(jnp.abs, u)))):
        slopes = jax.grad(lambda u, function=function: jnp.sum(function(u)))(x)
        np.testing.assert_array_equal(slopes, [1, 1, 1, -1])
    whole = by_index(lambda u: jnp.sum(u * jnp.abs(jnp.arange(-1, 3))))
    np.testing.assert_array_equal(jax.grad(whole)(x), [1, 0, 1, 2])


def test_a_subgradient_at_ties_supports_the_function():
    """At a kink of a convex function, max_i (a_i x - b_i) >= f(x0) + slope (x - x0)."""
    rng = np.random.default_rng(1)
    slopes = rng.integers(-2, 3, size=(9, 3)).astype(float)
    function = by_index(lambda x: jnp.max(slopes @ x))
    at = jnp.zeros(3)  # where all are equal
    slope = jax.grad(function)(at)
    for x in rng.normal(size=(50, 3)):
        assert function(x) >= slope @ x - 1e-12


@pytest.mark.parametrize("count", [1, 2, 5, FEW, FEW + 1, 100])
def test_places_of_the_largest(count):
    rng = np.random.default_rng(count)
    for scale in (1, 1e-300, 1e300):
        values = scale * rng.integers(-2, 3, size=(6, count)).astype(float)
        for find in (jax.vmap(place_of_largest), lambda rows: [*map(place_of_largest, rows)]):
            np.testing.assert_array_equal(find(values), values.argmax(axis=1))
        one_hot = jax.jit(jax.vmap(entry_of_largest))(values)
        np.testing.assert_array_equal(one_hot, np.eye(count)[values.argmax(axis=1)])


@pytest.mark.parametrize("count", [3, 40])
def test_infinite_entries_have_places_too(count):
    for value in (np.inf, -np.inf, np.nan):
        values = np.full(count, -1.0)
        values[1] = value
        assert int(place_of_largest(values)) == (0 if value == -np.inf else 1)
    for values in (np.full(count, np.inf), np.full(count, -np.inf)):
        assert int(place_of_largest(values)) == 0


def test_places_are_found_although_the_largest_is_computed_with_another_rounding(monkeypatch):
    """As if no entry were as large as the largest one."""
    from taut.jaxpr import maxima

    monkeypatch.setattr(maxima, "_guess", lambda values: jnp.asarray(values.shape[0], jnp.int32))
    values = np.random.default_rng(0).normal(size=(5, 40))
    np.testing.assert_array_equal(jax.vmap(place_of_largest)(values), values.argmax(axis=1))
    assert [int(place_of_largest(row)) for row in values] == values.argmax(axis=1).tolist()


# Random programs.

SEEDS = range(6)


def random_program(rng, depth):
    """A function of an array, of operations chosen at random; most of them have maxima inside."""
    if depth == 0:
        kind = rng.integers(4)
        weights = jnp.asarray(rng.normal(size=SHAPE))
        return (
            lambda x: x,
            lambda x: x * weights,
            lambda x: jnp.sin(x + weights),
            lambda x: x * x - weights,
        )[kind]
    inner, other = (random_program(rng, depth - 1) for _ in range(2))
    number, sign = float(rng.normal()), float(rng.choice([-1, 1]))
    choices = [
        lambda x: jnp.maximum(inner(x), other(x)),
        lambda x: jnp.minimum(inner(x), sign * other(x)),
        lambda x: inner(x) + jnp.max(other(x)),
        lambda x: inner(x) - jnp.min(other(x), axis=0, keepdims=True),
        lambda x: inner(x) * jnp.max(other(x), axis=1, keepdims=True),
        lambda x: jnp.clip(inner(x), number - 1, number + 1) + other(x),
        lambda x: jnp.abs(inner(x)) - other(x),
        lambda x: jnp.sort(inner(x), axis=1) + other(x),
        lambda x: jax.nn.relu(inner(x)) + other(x),
        lambda x: lax.cond(jnp.sum(x) > number, inner, other, x),
        lambda x: lax.scan(lambda c, row: (jnp.maximum(c, row), c + row), inner(x)[0], other(x))[1],
        lambda x: lax.fori_loop(0, 2, lambda i, c: 0.5 * inner(c) + jnp.max(c), other(x)),
        lambda x: jax.jit(inner)(other(x)),
        lambda x: inner(x) / (1 + jnp.max(jnp.abs(other(x)))),
    ]
    return choices[rng.integers(len(choices))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    inner = random_program(rng, 3)
    function = lambda x: jnp.sum(inner(x) * jnp.cos(jnp.arange(12.0).reshape(SHAPE)))  # noqa: E731
    x = point(seed)
    direction = point(seed + 100)

    def everything(of):
        slope = jax.grad(of)
        curvature = jax.jvp(slope, (x,), (direction,))[1]
        return of(x), slope(x), curvature, jax.jvp(of, (x,), (direction,))[1]

    expected, found = (
        jax.jit(lambda of=of: everything(of))() for of in (function, by_index(function))
    )
    for first, second in zip(found, expected, strict=True):
        scale = 1 + np.abs(second).max()
        np.testing.assert_allclose(first, second, rtol=1e-10, atol=1e-10 * scale)


def test_random_programs_have_maxima():
    names = []
    for seed in SEEDS:
        program = jax.make_jaxpr(random_program(np.random.default_rng(seed), 3))(point())
        names += {equation.primitive.name for equation in equations(program)}
    for name in ("max", "min", "reduce_max", "reduce_min", "scan", "cond", "sort"):
        assert names.count(name) >= 2, name

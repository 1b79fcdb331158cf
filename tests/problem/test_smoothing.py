"""Smoothing from above: sandwiched between the exact function and its gap, convex, differentiable,
or refused."""

import doctest

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut.problem.smoothing
from taut.problem.smoothing import smooth_from_above, smoothing_gap

WIDTH = 0.3
DECISION = jax.ShapeDtypeStruct((3,), jnp.float64)
A = np.array([[1.0, -2.0, 0.5], [0.3, 0.0, -1.0], [-1.0, 1.0, 1.0], [2.0, 0.0, 1.0]])
MASK = np.array([True, False, True])


@jax.custom_vjp
def absolute(x):
    return jnp.abs(x)


absolute.defvjp(lambda x: (jnp.abs(x), x), lambda x, g: (g * jnp.sign(x),))


def larger(pair):
    return jnp.max(jnp.stack(pair), axis=0)


def half_spaces(x):
    return jnp.max(jnp.asarray(A) @ x)


def stacked(x):
    """Outputs with different gaps: 3 widths, none, 2 widths and half a width."""
    parts = [jnp.sum(jnp.abs(x)) - 1, x[0] + x[1] ** 2, 2 * jnp.max(x), jnp.maximum(x[0], 2 * x[1])]
    return jnp.stack(parts)


# name: function, its gap in widths worked by hand, all tight at the origin
CASES = {
    "l1 norm": (lambda x: jnp.linalg.norm(x, 1) - 1, 3),
    "inf norm": (lambda x: jnp.linalg.norm(x, jnp.inf) - 1, 2),
    "2-norm": (lambda x: jnp.linalg.norm(x) - 1, 1),
    "2-norms by hand": (lambda x: jnp.sqrt(x @ x) + 2 * jnp.sum(x**2) ** 0.5, 3),
    "half spaces": (half_spaces, 1),
    "relu sum": (lambda x: jnp.sum(jax.nn.relu(x)), 1.5),
    "hinge and quadratic": (lambda x: jnp.sum(jnp.clip(x, 0)) + x @ x, 1.5),
    "nested": (lambda x: jnp.maximum(jnp.max(jnp.abs(x)), jnp.abs(x[0] - x[1]) + x[2] ** 2), 2.5),
    "computed weights": (lambda x: (jnp.array([2.0, 1.0, 4.0]) - 1) @ jnp.abs(x) / 2, 2),
    "weights from a call": (lambda x: jax.jit(lambda x: (x, -jnp.ones(3)))(x)[1] @ -jnp.abs(x), 3),
    "matrix columns": (lambda x: jnp.linalg.norm(jnp.outer(x, jnp.ones(2)), 1), 4),
    "minus min": (lambda x: -jnp.min(x), 1),
    "spread": (jnp.ptp, 2),
    "turned twice": (lambda x: -2 * (1 - jnp.abs(x[0]) + jnp.minimum(x[1], x[2])), 3),
    "vector": (stacked, np.array([3, 0, 2, 0.5])),
    "masked": (lambda x: jnp.where(MASK, absolute(x), 7.0), np.array([1.0, 0.0, 1.0])),
    "moved": (
        lambda x: jnp.cumsum(jnp.roll(jnp.pad(jnp.abs(x)[::-1], 1), 2))[jnp.array([4, 2])],
        np.array([3, 1]),
    ),
    "remat": (jax.checkpoint(lambda x: jnp.mean(jnp.abs(x))), 1),
    "soft plus of |x|": (lambda x: jax.nn.softplus(40 * jnp.abs(x)) / 40, np.ones(3)),
}


@pytest.fixture(scope="module")
def measured():
    """Points and, for each case, smooth values, exact values and Jacobians there; compiled once for
    all cases."""
    random = np.random.default_rng(1)
    cloud = random.normal(size=(300, 3)) * 10.0 ** random.uniform(-3, 3, size=(300, 1))
    points = np.concatenate([np.zeros((1, 3)), np.eye(3), -np.ones((1, 3)), cloud])

    @jax.jit
    @jax.vmap
    def evaluate(x):
        smooth = {name: smooth_from_above(function, WIDTH) for name, (function, _) in CASES.items()}
        return {
            name: (smooth[name](x), CASES[name][0](x), jax.jacrev(smooth[name])(x))
            for name in CASES
        }

    return points, jax.tree.map(np.asarray, evaluate(points))


@pytest.mark.parametrize("name", CASES)
def test_sandwich_convexity_and_gradients(name, measured):
    function, widths = CASES[name]
    gap = smoothing_gap(function, WIDTH, DECISION)
    shape = jax.eval_shape(function, DECISION).shape
    assert isinstance(gap, np.ndarray)
    assert gap.shape == shape
    np.testing.assert_allclose(gap, np.broadcast_to(WIDTH * widths, shape), rtol=1e-14)

    points, (value, exact, jacobian) = measured[0], measured[1][name]
    rounding = 1e-13 * (1 + np.abs(exact))
    assert np.all(value >= exact - rounding)
    assert np.all(value - exact <= gap + rounding)
    assert np.all((value - exact).max(axis=0) >= gap / 2)
    assert np.all(np.isfinite(jacobian))

    # Convex along the segment from each point x to the next, y: f(y) >= f(x) + f'(x) (y - x).
    step = np.roll(points, 1, axis=0) - points
    tangent = value + np.einsum("n...i,ni->n...", jacobian, step)
    assert np.all(
        np.roll(value, 1, axis=0) >= tangent - 1e-12 * (1 + np.abs(value) + np.abs(tangent))
    )


def test_formulas_by_hand():
    w = 0.5
    u = np.array([0.0, -1.2, 3.0])
    functions = jnp.abs, jax.nn.relu, jnp.max, lambda u: jnp.max(jnp.ones(4) + 0 * u[0])
    value = jax.jit(lambda u: [smooth_from_above(function, w)(u) for function in functions])(u)
    np.testing.assert_allclose(value[0], [0.5, 1.3, np.hypot(3, 0.5)], rtol=1e-15)
    np.testing.assert_allclose(value[1], (u + np.sqrt(u**2 + w**2)) / 2, rtol=1e-14)
    v = w / np.log(3)
    np.testing.assert_allclose(value[2], v * np.log(np.exp(u / v).sum()), rtol=1e-14)
    np.testing.assert_allclose(value[3], 1.5, rtol=1e-14)


def test_far_from_the_kink_rounding_stays_above():
    x = np.random.default_rng(4).normal(size=(2, 100)) * [[1e9], [1.0]]
    pair, top = jax.jit(
        lambda a, b: [
            smooth_from_above(f, 1e-6)([a, b]) for f in (lambda x: jnp.maximum(*x), larger)
        ]
    )(*x)
    assert np.all(np.asarray(pair) >= x.max(axis=0))
    assert np.all(np.asarray(top) >= x.max(axis=0))


def test_second_derivatives():
    points = jnp.asarray(np.random.default_rng(2).normal(size=(50, 3))).at[0].set(0)
    l1 = smooth_from_above(lambda x: jnp.linalg.norm(x, 1), WIDTH)
    hessians = np.asarray(jax.jit(jax.vmap(jax.hessian(l1)))(points))
    eigenvalues = np.linalg.eigvalsh(hessians)
    assert eigenvalues.max() <= (1 + 1e-12) / WIDTH
    assert eigenvalues.min() >= 0
    np.testing.assert_allclose(hessians[0], np.eye(3) / WIDTH, rtol=1e-12)
    relu = smooth_from_above(
        lambda x: jnp.maximum(x, 0), WIDTH
    )  # its own derivative rule, also at the tie
    curvature = jax.jit(jax.vmap(jax.grad(jax.grad(relu))))(points[:, 0])
    expected = WIDTH**2 / (2 * (points[:, 0] ** 2 + WIDTH**2) ** 1.5)
    np.testing.assert_allclose(curvature, expected, rtol=1e-12)


def test_width_may_be_traced_and_goes_to_zero():
    widths = jnp.array([1.0, 1e-2, 1e-5, 1e-8])
    x = jnp.array([0.4, -0.4, 0.1])
    function = CASES["nested"][0]
    at = jax.jit(lambda width: smooth_from_above(function, width)(x))
    excess = np.asarray(jax.vmap(at)(widths)) - 0.81  # |0.4 + 0.4| + 0.1^2
    assert np.all(excess >= 0)
    assert np.all(excess <= smoothing_gap(function, 1.0, x) * widths * (1 + 1e-7))
    relu = jax.jit(jax.grad(lambda width: smooth_from_above(jax.nn.relu, width)(jnp.array(0.6))))
    assert float(relu(0.8)) == pytest.approx(0.4)  # w / (2 sqrt(u^2 + w^2))


SMOOTH = {
    "affine": lambda x: A @ x - 1,
    "quadratic": lambda x: x @ x - jnp.mean(x) ** 3,
    "softplus": lambda x: jnp.sum(jax.nn.softplus(x)),
    "log-sum-exp": lambda x: jax.nn.logsumexp(A @ x),
    "away from zero": lambda x: (
        jnp.sqrt(1 + x @ x) + jnp.abs(1 + x[0] ** 2) + jnp.maximum(-1.0, jnp.exp(x[1]))
    ),
    "log determinant": lambda x: -jnp.linalg.slogdet(x[0] * A[1:, :] + A[:3, :])[1],
    "recursion": lambda x: jax.lax.scan(lambda s, u: (0.5 * s + u**2, s), 0.0, x)[0],
    "geometric mean": lambda x: 1 - jnp.sqrt(x[0] * x[1]),
    "data kinks": lambda x: x @ jnp.abs(jnp.asarray(A[0])) + jnp.max(jnp.asarray(A)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_are_not_altered(name):
    function = SMOOTH[name]
    smooth = smooth_from_above(function, WIDTH)
    altered, exact = (
        jax.jit(lambda x, f=f: (f(x), jax.jacrev(f)(x))).lower(DECISION) for f in (smooth, function)
    )
    assert altered.as_text() == exact.as_text()  # the very same program
    assert not np.any(smoothing_gap(function, WIDTH, DECISION))


def test_smooth_functions_keep_every_bit():
    x = jnp.array([0.3, 1.7, -0.1])
    function = SMOOTH["quadratic"]
    np.testing.assert_array_equal(smooth_from_above(function, WIDTH)(x), function(x))


def test_smoothing_twice_changes_nothing():
    once = smooth_from_above(lambda x: jnp.max(jnp.maximum(x, 0)) + jnp.sum(jnp.abs(x)), WIDTH)
    x = jnp.array([0.0, 0.2, -1.0])
    np.testing.assert_array_equal(
        *jax.jit(lambda x: (smooth_from_above(once, WIDTH)(x), once(x)))(x)
    )


def test_own_derivative_rule_of_a_smooth_part_is_kept():
    @jax.custom_jvp
    def part(x):
        return x**2

    part.defjvp(lambda primals, tangents: (primals[0] ** 2, 7.0 * tangents[0]))
    assert (
        float(jax.jit(jax.grad(smooth_from_above(lambda x: part(x) + jnp.abs(x), WIDTH)))(0.0))
        == 7.0
    )


def test_data_coefficients_that_cannot_be_negative():
    def function(x, z, *, scale):
        return jnp.exp(scale) * jnp.sum(jnp.abs(z) * jnp.abs(x - z)) + jnp.maximum(
            z[0], 0
        ) * jnp.max(x)

    x, z, scale = jnp.array([0.1, 0.2, 3.0]), jnp.array([0.5, -2.0, 3.0]), jnp.log(2.0)
    gap = smoothing_gap(function, WIDTH, DECISION, z, scale=scale)
    assert float(gap) == pytest.approx(WIDTH * (2 * 5.5 + 0.5))
    smooth = jax.jit(smooth_from_above(function, WIDTH))
    assert 0 <= float(smooth(x, z, scale=scale) - function(x, z, scale=scale)) <= gap
    in_closure = jax.jit(
        lambda x, z: smooth_from_above(lambda x: jnp.sum(z**2 * jnp.abs(x)), WIDTH)(x)
    )
    assert float(in_closure(jnp.zeros(3), z)) == pytest.approx(WIDTH * 13.25)
    with pytest.raises(
        ValueError, match=r"args: got the shape of data .* expected that data as an array"
    ):
        smoothing_gap(function, WIDTH, DECISION, DECISION, scale=scale)
    shift = smoothing_gap(
        lambda x, z: jnp.abs(x - z), WIDTH, DECISION, DECISION
    )  # no coefficient: shape suffices
    np.testing.assert_array_equal(shift, np.full(3, WIDTH))


def test_trees_float32_and_integers():
    def function(x, n):
        return {"a": n * x["u"].sum(), "b": jnp.abs(x["v"]) + jnp.max(jnp.abs(n))}

    x = {"u": jnp.ones(2, jnp.float32), "v": jnp.zeros((2, 2), jnp.float32)}
    value = jax.jit(smooth_from_above(function, 1e-3))(x, 3)
    gap = smoothing_gap(function, 1e-3, x, 3)
    assert value["b"].dtype == jnp.float32
    np.testing.assert_array_equal(value["b"], np.full((2, 2), np.float32(3.001)))
    assert float(value["a"]) == 6
    np.testing.assert_array_equal(gap["b"], np.full((2, 2), 1e-3))
    assert gap["a"] == 0

    points = np.random.default_rng(3).normal(size=(200, 3)).astype(np.float32)
    points[0] = 0
    smooth = smooth_from_above(lambda x: jnp.linalg.norm(x, jnp.inf), 1e-2)
    value, slope = map(np.asarray, jax.jit(jax.vmap(jax.value_and_grad(smooth)))(points))
    excess = value - np.abs(points).max(axis=1)
    assert value.dtype == np.float32
    assert np.all(excess >= -1e-6)
    assert np.all(excess <= 2e-2 + 1e-6)
    assert np.all(np.isfinite(slope))


def widest(x):
    return jnp.max(jnp.abs(x))


REFUSED = [
    (lambda x: 1 - jnp.sum(jnp.abs(x)), "sub"),
    (lambda x: -widest(x), "neg"),
    (lambda x: -2 * widest(x), "mul"),
    (lambda x: jnp.array([1.0, -1.0, 0.0]) @ jnp.abs(x), "dot_general"),
    (jnp.min, "reduce_min"),
    (lambda x: jnp.clip(x, -1, 1), "min"),
    (lambda x: jnp.maximum(0, 1 - widest(x)), "max"),
    (lambda x: widest(x) - jnp.abs(x[0]), "sub"),
    (lambda x: jnp.abs(widest(x) - 1), "abs"),
    (
        lambda x: -jnp.abs(jnp.minimum(x[0] ** 2, x[1] ** 2)),
        "abs",
    ),  # smoothed from below, may be negative
    (lambda x: jnp.sqrt(widest(x)), "sqrt"),
    (lambda x: jax.nn.relu(x) ** 2, "integer_pow"),
    (lambda x: jnp.exp(widest(x)), "exp"),
    (lambda x: jnp.abs(x) * jnp.abs(x[::-1]), "mul"),
    (lambda x: jnp.exp(x) * jnp.abs(x), "mul"),
    (lambda x: 1 / widest(x), "div"),
    (lambda x: jnp.abs(x)[jnp.argmax(x)], "dynamic_slice"),
    (
        lambda x: jnp.abs(x).at[jnp.array([5])].get(mode="fill", fill_value=-1.0),
        "gather with a fill value",
    ),
    (lambda x: jnp.where((m := widest(x)) > 1, x, 0.0) + m, "gt"),
    (lambda x: jax.lax.map(jnp.abs, x), "scan"),
    (lambda x: jnp.sum(jnp.sort(x)[-2:]), "sort"),
    (lambda x: jax.lax.clamp(-1.0, x, 1.0), "clamp"),
    (lambda x: jnp.linalg.eigvalsh(jnp.diag(x))[-1], "eigh"),
    (lambda x: jnp.abs(x + 1j * x), "abs"),
]


@pytest.mark.parametrize(("function", "primitive"), REFUSED)
def test_refused(function, primitive):
    message = rf"^function: got `{primitive}` .*; expected non-negative combinations and maxima of \|affine\|"
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(smooth_from_above(function, WIDTH), DECISION)
    with pytest.raises(ValueError, match=message):
        smoothing_gap(function, WIDTH, DECISION)


@pytest.mark.parametrize("traced", [True, False])
def test_data_of_unknown_sign_is_refused_whatever_its_value(traced):
    smooth = smooth_from_above(lambda x, z: jnp.sum(z * jnp.abs(x)), WIDTH)
    with pytest.raises(
        ValueError, match="`mul` of a smoothed value with coefficients not known to be of one sign"
    ):
        (jax.jit(smooth) if traced else smooth)(jnp.ones(3), jnp.ones(3))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: jnp.where(x > 0, x, -x), "where"),
        (lambda x: jnp.where(x > 0, x**2, 0.0), "where"),
        (lambda x: jnp.where(x > 0, jnp.abs(x), 0.0), "where"),
        (lambda x: jnp.where((x > 0) & (x < 1), x, 2 * x), "where"),
        (lambda x: jnp.where(x @ x > 0, jnp.sqrt(jnp.where(x @ x > 0, x @ x, 1.0)), 0.0), "where"),
        (lambda x: jax.lax.cond(x[0] > 0, lambda v: v.sum(), lambda v: -v.sum(), x), "cond"),
    ],
)
def test_selections_by_the_decision_are_refused_by_name(function, name):
    with pytest.raises(
        ValueError, match=f"function: got `{name}` with a condition that compares the decision"
    ):
        smooth_from_above(function, WIDTH)(jnp.ones(3))
    problem = taut.Problem(lambda x, z: z @ x, lambda x: function(x) - 1, taut.Ball(1.0, shape=3))
    with pytest.raises(ValueError, match=r"write jnp\.abs, jnp\.maximum or jnp\.minimum"):
        taut.smoothed(problem, WIDTH)


def test_selections_by_data_or_with_a_derivative_rule_stay():
    @jax.custom_jvp
    def square_above(x):
        return jnp.where(x > 0, x**2, 0.0)

    square_above.defjvp(lambda x, t: (square_above(*x), 2 * jnp.where(x[0] > 0, x[0], 0) * t[0]))
    x = jnp.asarray([0.3, -0.02, 0.9])
    for function in (square_above, lambda x: jnp.where(MASK, x, 2 * x), jax.nn.logsumexp):
        np.testing.assert_array_equal(smooth_from_above(function, WIDTH)(x), function(x))


@pytest.mark.parametrize("width", [0, -1.0, float("nan"), float("inf")])
def test_bad_width(width):
    with pytest.raises(ValueError, match="width: got"):
        smooth_from_above(jnp.abs, width)
    with pytest.raises(ValueError, match="width: got"):
        smoothing_gap(jnp.abs, width, DECISION)


def test_decision_must_come_first():
    with pytest.raises(
        TypeError, match="args: got no positional argument; expected the decision as the first one"
    ):
        smooth_from_above(jnp.abs, WIDTH)(x=jnp.zeros(3))


def test_width_too_small_for_the_float_type():
    smooth = smooth_from_above(jnp.abs, 1e-25)
    assert float(jax.jit(jax.grad(smooth))(0.0)) == 0
    with pytest.raises(
        ValueError, match=r"width: got 1e-25; expected at least 1\.1e-19 for float32"
    ):
        smooth(jnp.float32(0))


def test_examples_in_docstrings():
    result = doctest.testmod(taut.problem.smoothing)
    assert result.attempted
    assert not result.failed

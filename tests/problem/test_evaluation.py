"""Values and derivatives at many decisions and rounds: both ways of computing them against JAX."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.problem import evaluation
from taut.problem.evaluation import Evaluation, constraint_evaluation, loss_evaluation
from taut.problem.programs import Programs

POINTS, ROUNDS, SHAPE = 3, 4, (2, 3)

UNARY = (
    *(jnp.abs, jnp.sin, jnp.cos, jnp.exp, jnp.expm1, jnp.arctan, jnp.arcsinh, jnp.square),
    *(jnp.tan, jnp.sinh, jnp.cosh, jax.nn.sigmoid, jnp.sign, jnp.floor, jnp.ceil, jnp.round),
    *(jax.nn.relu, jax.nn.softplus, jax.nn.softmax, jax.nn.logsumexp, jnp.linalg.norm),
    *(jax.checkpoint(jnp.sin), jax.jit(jnp.cos), lambda x: jnp.exp2(0.5 * x), jnp.cumsum),
    *(lambda x: jnp.log(2 + x), lambda x: jnp.log1p(x**2), lambda x: jnp.sqrt(2 + x)),
    *(lambda x: jax.lax.rsqrt(2 + x), lambda x: jnp.cbrt(2 + x), lambda x: jnp.arcsin(x / 2)),
    *(lambda x: jnp.arccos(x / 2), lambda x: jnp.arctanh(x / 2), lambda x: jnp.arccosh(2 + x)),
    *(lambda x: x**3, lambda x: (2 + x) ** -2, lambda x: (2 + x) ** 1.5, lambda x: x / (2 + x)),
    *(lambda x: x.sum(axis=0), lambda x: x.max(axis=1), jnp.min),
    *(lambda x: x.T, lambda x: x[:, ::-1], lambda x: x[:, 1:], jnp.std),
    *(lambda x: x[jnp.array([1, 0, 1])], lambda x: jnp.pad(x, ((1, 0), (0, 2)))),
    *(lambda x: jax.lax.cummax(x, axis=1), lambda x: jnp.cumprod(x, axis=1)),
    *(lambda x: jnp.tile(x, (2, 1)), lambda x: jnp.concatenate(jnp.split(x, 3, axis=1)[::-1], 1)),
    *(lambda x: jnp.stack(jnp.unstack(x, axis=1)), lambda x: jnp.take(x, jnp.array([0, 2]), 1)),
    *(lambda x: jax.lax.dynamic_slice(x, (0, 1), (2, 2)), lambda x: jnp.clip(x, -0.3, 0.4)),
    lambda x: jax.lax.dynamic_update_slice(x, 2 * x[:1, :2], (1, 0)),
)
BINARY = (
    *(jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, jnp.logaddexp),
    *(lambda x, y: x / (2 + y), lambda x, y: jnp.arctan2(x, 2 + y), lambda x, y: x @ y.T),
    *(lambda x, y: (2 + x) ** y, lambda x, y: jnp.where(x < y, x, y), jnp.fmod),
    *(lambda x, y: jnp.outer(x[0], y[1]), lambda x, y: jnp.einsum("ij,ij->i", x, y)),
    lambda x, y: jnp.concatenate([x, y], axis=1),
)
FACTORS = (
    *(lambda k, b: k & 3, lambda k, b: ~k, lambda k, b: (k | 4) ^ 1, lambda k, b: k << 1),
    *(lambda k, b: k >> 1, lambda k, b: k // 3, lambda k, b: k % 3, lambda k, b: -k),
    *(lambda k, b: b.astype(int), lambda k, b: jnp.where(b & (k > 2), 2, -1), lambda k, b: k**2),
    *(lambda k, b: jnp.where(~b | (k == 1), 3, 1), lambda k, b: jnp.argmax(k) + jnp.any(b)),
    *(lambda k, b: jnp.cumsum(k), lambda k, b: jnp.sort(k), lambda k, b: jnp.sign(k) * b),
)


def random_function(rng):
    """A function of a decision, a matrix, whole numbers and truth values, made of random parts."""
    unary = [UNARY[i] for i in rng.choice(len(UNARY), 6)]
    binary = [BINARY[i] for i in rng.choice(len(BINARY), 2)]
    factor = FACTORS[rng.integers(len(FACTORS))]
    weights = rng.normal(size=SHAPE)

    def shaped(y):
        """Any array as one of the usual shape with entries between -1 and 1."""
        return jnp.tanh(jnp.resize(y, SHAPE) + 0.1 * weights)

    def function(static, scale, x, z):
        y = shaped(scale["by"] * x)
        for one, two in zip(unary, 3 * binary, strict=True):
            y = shaped(two(shaped(one(y)), z["a"]))
        whole = jnp.resize(factor(z["k"], z["b"]), SHAPE).astype(x.dtype)
        values = jnp.ravel(y * whole + weights * x)
        return values if static is None else values[0] + jnp.sum(values[1:] ** 2)

    return function


def batch(rng):
    x = rng.uniform(-0.9, 0.9, size=(POINTS, 1, *SHAPE))
    z = {
        "a": rng.uniform(-0.9, 0.9, size=(1, ROUNDS, *SHAPE)),
        "k": rng.integers(-5, 6, size=(1, ROUNDS, 3)),
        "b": rng.uniform(size=(1, ROUNDS, 3)) < 0.5,
    }
    return x, z


def evaluations(function, static, monkeypatch):
    """The evaluation in NumPy and the compiled one."""
    for largest in (np.inf, -1):
        monkeypatch.setattr(evaluation, "LARGEST", largest)
        yield Evaluation(Programs(), function, (static,), ({"by": np.array(0.8)},))


@pytest.mark.parametrize("seed", range(2))
def test_random_programs_have_the_values_and_derivatives_that_jax_gives_them(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    function, (x, z) = random_function(rng), batch(rng)
    scale = {"by": np.array(0.8)}
    directions = rng.normal(size=(2, 6))

    @jax.jit
    def reference(x, z):
        def vector(y):
            return function(None, scale, y.reshape(SHAPE), z)

        def number(y):
            return function("one value", scale, y.reshape(SHAPE), z)

        flat = jnp.ravel(x)
        first = vector(flat), jax.jacrev(vector)(flat), jax.hessian(vector)(flat)
        return first, (number(flat), jax.grad(number)(flat), jax.hessian(number)(flat))

    pairs = jax.vmap(jax.vmap(reference, (None, 0)), (0, None))(
        x[:, 0], jax.tree.map(lambda a: a[0], z)
    )
    (values, slopes, bent), (value, slope, hessian) = jax.tree.map(np.asarray, pairs)
    close = {"rtol": 1e-9, "atol": 1e-9}
    for made in evaluations(function, None, monkeypatch):
        assert made._trace(x, z).programs[1] is not None
        np.testing.assert_allclose(made.values(x, z), values, **close)
        np.testing.assert_allclose(made.slopes(x, z)[0], values, **close)
        np.testing.assert_allclose(made.slopes(x, z)[1], slopes, **close)
        which, one = np.array([5, 0, 2]), np.arange(POINTS)
        own = jax.tree.map(lambda a: a[0, :POINTS, None], z)
        sums = made.of_one_entry().sums(x, (own, which[:, None]), 1, second=True)
        for order, part in enumerate(sums[:3]):
            expected = (values, slopes, bent)[order][one, one, which]
            np.testing.assert_allclose(part, expected, **close)
        assert made.count(x, z) == 6
    for made in evaluations(function, "one value", monkeypatch):
        assert made._trace(x, z).programs[2] is not None
        data = jax.tree.map(lambda a: np.repeat(a, POINTS, axis=0), z)
        sums = made.sums(x, data, ROUNDS - 1, second=True, probe=0.1 * directions[0])
        for part, total in zip(sums[:3], (value, slope, hessian), strict=True):
            np.testing.assert_allclose(part, total[:, : ROUNDS - 1].sum(axis=1), **close)
        there = np.asarray(
            jax.jit(
                jax.vmap(jax.vmap(lambda x, z: function(1, scale, x, z), (None, 0)), (0, None))
            )(x[:, 0] + 0.1 * directions[0].reshape(SHAPE), jax.tree.map(lambda a: a[0], z))
        )
        step = 0.1 * directions[0]
        terms = [value, slope @ step, np.einsum("prij,i,j->pr", hessian, step, step) / 2]
        size = np.abs(there) + sum(map(np.abs, terms))
        share = np.abs(there - sum(terms)) / size
        np.testing.assert_allclose(sums.misfit, share[:, : ROUNDS - 1].max(axis=1), **close)


@jax.custom_vjp
def backward_only(x):
    return jnp.sum(x**2)


backward_only.defvjp(lambda x: (jnp.sum(x**2), x), lambda x, scale: (2 * scale * x,))

COMPILED = {
    "sort": lambda x: jnp.sort(jnp.ravel(x)) @ jnp.arange(6.0),
    "a place that depends on the decision": lambda x: x[0, jnp.argmax(x[1])],
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y * x[0, 0], x.sum()),
    "half precision": lambda x: jnp.sum(x.astype(jnp.float16) * 2).astype(x.dtype),
    "eigenvalues": lambda x: jnp.linalg.eigvalsh(x @ x.T)[1],
    "no forward derivative": backward_only,
    "written": lambda x: jnp.sum(x.at[0].multiply(2.0) ** 2),
}


@pytest.mark.parametrize("name", COMPILED)
def test_functions_without_rules_in_numpy_are_compiled(name):
    x = np.random.default_rng(0).uniform(0.5, 1.5, size=(POINTS, 1, *SHAPE))
    made = Evaluation(Programs(), lambda x, z: COMPILED[name](x), (), ())
    assert made._trace(x, None).programs[1] is None
    values, slopes = made.slopes(x)
    for i in range(POINTS):
        value, slope = jax.value_and_grad(COMPILED[name])(jnp.asarray(x[i, 0]))
        np.testing.assert_allclose(values[i, 0], value, rtol=1e-12)
        np.testing.assert_allclose(slopes[i, 0], np.ravel(slope), rtol=1e-12, atol=1e-15)


def test_sizes_alone_decide():
    problem = taut.Problem(
        lambda x, z: jnp.logaddexp(0.0, z @ x), lambda x: x.sum() - 1, taut.Ball(1.0, shape=3)
    )
    loss = loss_evaluation(problem)
    x, small = np.zeros((1, 1, 3)), np.ones((1, 50, 3))
    for _ in range(3):
        assert loss._in_numpy(x, small) is not None
        assert loss.repeated(10**6)._in_numpy(x, small) is None
    assert constraint_evaluation(problem).count(x) == 1


def test_each_function_is_traced_once():
    calls = []

    def loss(x, z):
        calls.append(1)
        return jnp.logaddexp(0.0, z @ x)

    problem = taut.Problem(loss, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=3))
    data = np.random.default_rng(0).normal(size=(40, 3))
    first = taut.hindsight(problem, data)
    assert len(calls) == 1
    np.testing.assert_array_equal(taut.hindsight(problem, data).decision, first.decision)
    assert len(calls) == 1


def test_programs_are_freed_with_the_problem():
    def loss(x, z):
        return z @ x

    gone = weakref.ref(loss)
    problem = taut.Problem(loss, lambda x: x.sum() - 1, taut.Ball(1.0, shape=3))
    x, z = np.zeros((1, 1, 3)), np.ones((1, 5, 3))
    loss_evaluation(problem).slopes(x, z)
    loss_evaluation(problem, 10**9).slopes(x, z)  # compiled
    del loss, problem
    gc.collect()
    assert gone() is None


def test_errors_of_the_users_functions_are_raised_as_they_are():
    def loss(x, z):
        raise KeyError("price")

    problem = taut.Problem(loss, lambda x: x.sum() - 1, taut.Ball(1.0, shape=3))
    with pytest.raises(KeyError, match="price"):
        loss_evaluation(problem).values(np.zeros((1, 1, 3)), np.ones((1, 5, 3)))


ROUTES = {
    "affine": (lambda x, z: z @ x, lambda x: jnp.abs(x).sum() - 0.5),
    "quadratic": (lambda x, z: (z @ x - 1) ** 2, lambda x: (x @ x - 0.5, x[0] - 0.1)),
    "smooth": (lambda x, z: jnp.logaddexp(0.0, z @ x), lambda x, z: z @ x - 0.9),
    "kinked": (lambda x, z: jnp.abs(z @ x - 0.3), lambda x: x @ x - 0.4),
}


@pytest.mark.parametrize("name", ROUTES)
def test_hindsight_is_the_same_if_everything_is_compiled(name, monkeypatch):
    loss, constraints = ROUTES[name]
    data = np.random.default_rng(0).normal(size=(2, 30, 2))
    problem = taut.Problem(loss, constraints, taut.Ball(1.0, shape=2))
    here = taut.hindsight(problem, data, seeds=2, prefixes=[7, 30])
    monkeypatch.setattr(evaluation, "LARGEST", -1)
    there = taut.hindsight(problem, data, seeds=2, prefixes=[7, 30])
    assert here.solver.split("(")[0] == there.solver.split("(")[0]
    np.testing.assert_allclose(here.loss, there.loss, rtol=2e-8, atol=2e-8)
    assert max(here.gap.max(), there.gap.max()) <= 1e-8


def test_hindsight_of_a_small_problem_compiles_nothing():
    compiled = []

    def listen(name, duration, **_):
        if name.endswith("backend_compile_duration"):
            compiled.append(name)

    rng = np.random.default_rng(0)
    data = rng.normal(size=(60, 3))
    taut.hindsight(
        taut.Problem(lambda x, z: z @ x, lambda x: x.sum() - 1, taut.Ball(1.0, shape=3)), data
    )  # JAX's own start
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for loss, constraints in (
            (lambda x, z: z @ x, lambda x: jnp.abs(x).sum() - 1),
            (lambda x, z: (z @ x - 1) ** 2, lambda x: (x @ x - 0.5, x[0] - 0.1)),
            (lambda x, z: jnp.logaddexp(0.0, z @ x), lambda x: jnp.linalg.norm(x - 0.2) - 0.3),
            (lambda x, z: jnp.sum((x - z) ** 2), lambda x, z: z @ x - 1),
        ):
            taut.hindsight(taut.Problem(loss, constraints, taut.Ball(1.0, shape=3)), data)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert not compiled

"""Functions evaluated in NumPy: every rule against the compiled program, and the choice between the
two."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.problem import interpreter
from taut.problem.interpreter import CALLS, LOOPS, RULES, Evaluated, evaluated, owned_by, supported
from taut.problem.programs import programs_of

X = np.array([[0.3, -1.2, 0.7], [0.0, 0.25, -0.5]])
Y = np.array([[1.5, 0.4, -0.7], [0.1, 0.25, 2.0]])

lax = jax.lax
CASES = {
    "elementwise": lambda x, y: (
        jnp.abs(x),
        x + y,
        x - y,
        x * y,
        x / (2 + y),
        -x,
        jnp.exp(x),
        jnp.exp2(x),
        jnp.expm1(x),
        jnp.floor(x),
        jnp.ceil(x),
        jnp.sign(x),
        jnp.square(x),
        x**3,
        x**-2,
        jnp.tanh(x),
        jnp.sin(x),
        jnp.cos(x),
        jnp.tan(x),
        jnp.sinh(x),
        jnp.cosh(x),
        jnp.arctan(x),
        jnp.arctan2(x, y),
        jnp.arcsinh(x),
        jnp.cbrt(x),
        jax.nn.sigmoid(x),
        jnp.maximum(x, y),
        jnp.minimum(x, y),
        jnp.clip(x, -0.4, 0.4),
        lax.clamp(-0.4, x, 0.4),
    ),
    "on the unit interval": lambda x, y: (
        [
            f(jnp.clip(jnp.abs(x), 0.1, 0.9))
            for f in (jnp.log, jnp.log1p, jnp.sqrt, lax.rsqrt, jnp.arcsin, jnp.arccos, jnp.arctanh)
        ]
        + [jnp.arccosh(1.5 + jnp.abs(x)), jnp.abs(x) ** jnp.abs(y)]
    ),
    "logic": lambda x, y: (
        x == y,
        x != y,
        x < y,
        x <= y,
        x > y,
        x >= y,
        (x < y) & (x > 0),
        (x < y) | (x > 0),
        ~(x < y),
        jnp.isfinite(1 / x),
        jnp.where(x < y, x, y),
        jnp.all(x < y, axis=0),
        jnp.any(x < y, axis=1),
        lax.select_n((x > y).astype(int), x, y),
    ),
    "shapes": lambda x, y: (
        x.T,
        x.reshape(3, 2),
        x[:, 1:],
        x[0],
        x[:, ::2],
        x[None],
        jnp.squeeze(x[:1]),
        jnp.concatenate([x, y], axis=1),
        jnp.stack([x, y]),
        jnp.stack([x, y], axis=1),
        jnp.flip(x, axis=1),
        jnp.pad(x, ((1, 0), (0, 2))),
        jnp.split(x, 3, axis=1),
        jnp.broadcast_to(x[:, None], (2, 4, 3)),
        lax.expand_dims(x, (1,)),
        jnp.eye(3),
        jnp.arange(4.0) * x[0, 0],
    ),
    "reductions": lambda x, y: (
        x.sum(),
        x.sum(axis=0),
        x.max(axis=1),
        x.min(),
        x.prod(axis=1),
        jnp.argmax(x, axis=1),
        jnp.argmin(y, axis=0),
        jnp.cumsum(x, axis=1),
        jnp.cumsum(x, axis=0),
        lax.cummax(x, axis=1),
        lax.cummin(x, axis=1, reverse=True),
        jnp.sort(x, axis=1),
    ),
    "products": lambda x, y: (
        x @ y.T,
        jnp.einsum("ij,ij->i", x, y),
        jnp.tensordot(x, y, axes=2),
        x[0] @ y[1],
        jnp.outer(x[0], y[0]),
    ),
    "calls": lambda x, y: (
        jnp.logaddexp(x, y),
        jax.nn.relu(x),
        jax.nn.logsumexp(x, axis=1),
        jnp.linalg.norm(x),
        jax.nn.softmax(x),
        jax.checkpoint(jnp.sin)(x),
    ),
    "derivatives": lambda x, y: (
        jax.grad(lambda v: jnp.sum(jnp.logaddexp(v, y) * v[:1]))(x),
        jax.hessian(lambda v: jnp.sum(v[0] * v[1] ** 2))(x),
        jax.jacfwd(lambda v: jnp.stack([v[0, 0], v[1].max(), jnp.abs(v).sum()]))(x),
        lax.stop_gradient(x) * x,
    ),
    "loops": lambda x, y: (
        lax.while_loop(lambda v: jnp.sum(v) > 0.1, lambda v: v / 2, jnp.abs(x)),
        lax.map(jnp.sin, x),
        jax.vmap(lambda v: lax.while_loop(lambda w: jnp.sum(w) > 0.1, lambda w: w / 2, jnp.abs(v)))(
            x
        ),
        lax.scan(lambda carry, v: (carry * 0.5 + v, carry.sum()), x[0], y, reverse=True),
        lax.fori_loop(0, 3, lambda i, v: v * i + 1, x),
        lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, y),
        lax.switch(jnp.argmax(x[0]) + 5, [jnp.sin, jnp.cos, jnp.exp], y),
        lax.dynamic_slice(x, (jnp.argmax(x[0]), jnp.argmin(x[0])), (1, 2)),
        lax.dynamic_update_slice(x, y[:1, :2], (jnp.argmax(x[0]) + 1, jnp.argmin(x[0]))),
        jax.jvp(lambda v: lax.fori_loop(0, 4, lambda i, w: w * v, v), (x,), (y,)),
    ),
    "picking": lambda x, y: (
        jnp.argsort(x, axis=1),
        x[:, jnp.argsort(y[0])],
        jax.vmap(lambda v, w: v[jnp.argsort(w)])(x, y),
        x[jnp.array([1, 0, 1])],
        lax.sort((x, y), dimension=1, num_keys=1),
        jnp.take(x, jnp.array([0, 7]), axis=1),
        x[1, jnp.argmax(y[0])],
        jnp.take(x, jnp.array([0, 7]), axis=1, mode="clip"),
        jax.vmap(lambda v: v[:, jnp.array([2, 0])], in_axes=2)(jnp.stack([x, y, x], axis=2)),
        x[jnp.array([0, 1]), jnp.array([2, 1])],
    ),
    "eigenvalues": lambda x, y: (jnp.linalg.eigh(x @ x.T)[0], jnp.linalg.eigvalsh(x.T @ y)),
    "domains": lambda x, y: [
        jax.vmap(domain.project)(3 * x)
        for domain in (
            taut.Ball(1.0, shape=3),
            taut.Box(-0.5, 0.2, shape=3),
            taut.Simplex(3),
            taut.L1Ball(0.4, shape=3),
            taut.AffineBox([1.0, 1.0, -1.0], 0.5, 0.0, 0.7, shape=3),
        )
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_numpy_and_compiled_programs_agree(name):
    function = Evaluated(CASES[name])
    here, there = function(X, Y), jax.jit(CASES[name])(X, Y)
    assert all(
        one.spent < np.inf for one in function.programs.values()
    )  # it was evaluated in NumPy
    assert jax.tree.structure(here) == jax.tree.structure(there)
    for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-13, atol=1e-15)


def primitives(jaxpr):
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for body in interpreter.bodies(equation):
            yield from primitives(body.jaxpr)


def test_every_rule_is_in_a_case_above():
    used = {
        name for case in CASES.values() for name in primitives(jax.make_jaxpr(case)(X, Y).jaxpr)
    }
    rare = {
        "add_any",
        "copy",
        "copy_p",
        "stack",
        "unstack",
        "expand_dims",
        "pow",
        "and",
        "or",
        "not",
    }  # depend on the version of JAX
    assert (set(RULES) | set(LOOPS)) - used <= rare
    assert used <= set(RULES) | CALLS | set(LOOPS)


def test_what_has_no_rule_is_compiled():
    for function in (
        lambda x: jnp.linalg.svd(x)[1],
        lambda x: lax.map(jax.scipy.special.erf, x),
        lambda x: x.at[jnp.array([0, 1, 0])].multiply(2.0),
        lambda x: lax.scan(lambda carry, v: (carry, v), x[0], x[:0])[0],
    ):
        traced = Evaluated(function)
        assert not supported(jax.make_jaxpr(function)(X).jaxpr)
        np.testing.assert_array_equal(traced(X), np.asarray(jax.jit(function)(X)))
        assert all(one.spent == np.inf for one in traced.programs.values())


def test_programs_are_compiled_when_they_are_used_often_or_large(monkeypatch):
    monkeypatch.setattr(interpreter, "SECONDS", 0.0)
    function = Evaluated(lambda x: jnp.sin(2 * x))

    def compiled(evaluated):
        (one,) = evaluated.programs.values()
        return one.jitted._cache_size()

    function(X)
    assert compiled(function) == 0
    function(X)
    assert compiled(function) == 1
    monkeypatch.setattr(interpreter, "ENTRIES", 5)
    large = Evaluated(lambda x: jnp.cos(2 * x))
    large(X)
    assert compiled(large) == 1


def test_a_loop_of_many_iterations_is_compiled(monkeypatch):
    monkeypatch.setattr(interpreter, "ITERATIONS", 3)
    function = Evaluated(
        lambda x: lax.while_loop(lambda v: jnp.sum(v) > 1e-3, lambda v: v / 2, jnp.abs(x))
    )
    assert np.sum(function(X)) <= 1e-3
    assert all(one.spent == np.inf for one in function.programs.values())


def test_programs_go_to_the_owner_and_are_freed_with_it():
    function = Evaluated(lambda scale, x: scale(x), static_argnames=("scale",))
    problem = taut.Problem(lambda x, z: z @ x, lambda x: x.sum() - 1, taut.Ball(1.0, shape=3))

    def double(x):
        return 2 * x

    gone = weakref.ref(double)
    with owned_by(programs_of(problem)):
        np.testing.assert_array_equal(function(double, X), 2 * X)
        assert len(function.programs) == 1
    assert not function.programs
    del double, problem
    gc.collect()
    assert gone() is None


def test_static_arguments_and_pytrees():
    @evaluated(static_argnames=("function",))
    def applied(function, data, scale):
        return {"sum": function(data["a"]) * scale, "none": None}

    for function in (jnp.sum, jnp.max):
        result = applied(function, {"a": X}, np.asarray(2.0))
        assert result["none"] is None
        assert result["sum"] == pytest.approx(2 * float(function(X)))
    assert len(applied.programs) == 2


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

"""The walker of traced programs: the same results, one operation at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taut.jax_internals import bind
from taut.jaxpr.walk import CALLS, bodies, called, equations, evaluate, is_float

X = np.random.default_rng(0).normal(size=(3, 4))
TABLE = jnp.arange(12.0).reshape(3, 4)


@jax.custom_jvp
def doubled(x):
    return 2 * x


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 2 * tangents[0]))


@jax.custom_vjp
def tripled(x):
    return 3 * x


tripled.defvjp(lambda x: (3 * x, None), lambda _, slope: (3 * slope,))

PROGRAMS = {
    "an input": lambda x: x,
    "a literal": lambda x: 3.0,
    "a constant": lambda x: TABLE,
    "the same result twice": lambda x: (s := jnp.sum(x), s),
    "a result that nobody needs": lambda x: (jnp.sort(x), jnp.sum(x))[1],
    "several results": lambda x: jnp.linalg.eigh(x @ x.T),
    "calls in calls": jax.jit(lambda x: jax.jit(lambda y: jnp.sum(y) + TABLE)(x) * jnp.max(x)),
    "own derivatives": lambda x: doubled(x) + tripled(x),
    "computed again in derivatives": jax.checkpoint(lambda x: jnp.sin(x) ** 2),
    "a branch": lambda x: jax.lax.cond(x[0, 0] > 0, jnp.sum, lambda y: -jnp.max(y), x),
    "a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, s: s + jnp.sum(x * i), 0.0),
    "a while loop": lambda x: jax.lax.while_loop(lambda s: s < 9, lambda s: s + jnp.sum(x**2), 0.0),
    "a scan": lambda x: jax.lax.scan(lambda s, y: (s + jnp.sum(y), jnp.max(y)), 0.0, x),
    "a tree": lambda x: {"a": (jnp.sum(x), None), "b": [x]},
    "whole numbers": lambda x: jnp.argsort(x, axis=1)[:, 0] % 2,
}


def rebuilt(function, rule=bind, calls=CALLS):
    """The function, evaluated operation by operation."""

    def evaluated(*arguments):
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = evaluate(program, jax.tree.leaves(arguments), rule, calls)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return evaluated


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("calls", [CALLS, frozenset()], ids=["in place", "as they are"])
def test_evaluation_gives_the_results_of_the_function(name, calls):
    expected, results = PROGRAMS[name](X), rebuilt(PROGRAMS[name], calls=calls)(X)
    assert jax.tree.structure(results) == jax.tree.structure(expected)
    for first, second in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.jacobian])
def test_evaluation_under_transformations(transform):
    function = PROGRAMS["calls in calls"] if transform is not jax.vmap else jnp.sum
    np.testing.assert_allclose(transform(rebuilt(function))(X), transform(function)(X), rtol=1e-13)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rules_see_single_operations_only(name):
    seen = []

    def rule(equation, operands):
        seen.append(equation.primitive.name)
        return bind(equation, operands)

    rebuilt(PROGRAMS[name], rule)(X)
    assert not CALLS & set(seen)
    rebuilt(PROGRAMS[name], rule, frozenset({"nothing"}))(X)
    if "call" in name or "own" in name:
        assert CALLS & set(seen)


def test_a_rule_replaces_operations_also_inside_calls():
    def rule(equation, operands):
        if equation.primitive.name == "sin":
            return [jnp.cos(operands[0])]
        return bind(equation, operands)

    function = jax.jit(lambda x: jnp.sin(x) + jax.jit(jnp.sin)(2 * x))
    np.testing.assert_allclose(rebuilt(function, rule)(X), np.cos(X) + np.cos(2 * X), rtol=1e-15)


def test_operands_can_be_anything_that_the_rule_understands():
    """Here, sets of the inputs that a result depends on."""
    program = jax.make_jaxpr(lambda x, y, z: (x + jnp.sin(y), z * 2, jnp.zeros(2)))(1.0, 2.0, 3.0)

    def rule(equation, operands):
        parts = [operand for operand in operands if isinstance(operand, frozenset)]
        return [frozenset().union(*parts)] * len(equation.outvars)

    names = [frozenset(name) for name in "xyz"]
    assert evaluate(program, names, rule) == [frozenset("xy"), frozenset("z"), frozenset()]


def names_of(program):
    return [equation.primitive.name for equation in equations(program)]


def test_all_operations_are_found_also_inside_loops_and_branches():
    def function(x):
        total = jax.lax.scan(lambda s, y: (s + jnp.sin(y), None), 0.0, x)[0]
        total = jax.lax.cond(total > 0, jnp.cos, jnp.tan, total)
        total = jax.lax.while_loop(lambda s: jnp.exp(s) < 9, lambda s: s + jnp.cosh(s), total)
        return jax.jit(lambda s: doubled(jnp.tanh(s)))(total)

    names = names_of(jax.make_jaxpr(function)(jnp.ones(3)))
    assert {"sin", "cos", "tan", "exp", "cosh", "tanh", "scan", "cond", "while"} <= set(names)


def test_inner_programs_are_closed():
    outer = jax.make_jaxpr(lambda x: jax.lax.cond(x > 0, jnp.sin, jnp.cos, x))(1.0)
    (branch,) = (e for e in outer.jaxpr.eqns if e.primitive.name == "cond")
    assert [names_of(body) for body in bodies(branch)] in ([["cos"], ["sin"]], [["sin"], ["cos"]])
    again = jax.make_jaxpr(jax.checkpoint(jnp.sin))(1.0)  # an open program
    assert names_of(called(again.jaxpr.eqns[0])) == ["sin"]
    assert bodies(jax.make_jaxpr(jnp.sin)(1.0).jaxpr.eqns[0]) == []


def test_floats():
    program = jax.make_jaxpr(lambda x, k: (x + 1, k + 1, x > 2))(1.0, 3)
    assert [is_float(atom) for atom in program.jaxpr.outvars] == [True, False, False]
    assert is_float(program.jaxpr.eqns[0].invars[1])  # a literal
    half = jax.make_jaxpr(lambda x: x)(jnp.ones(2, jnp.bfloat16))
    assert is_float(half.jaxpr.invars[0])

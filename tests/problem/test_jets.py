"""Values and derivatives in NumPy from one trace: against JAX's own derivatives, and the routes
that use them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_interpreter import CASES

import taut
from taut.problem import batched_rules, jets
from taut.problem.domains import Ball, Box, L1Ball, Simplex
from taut.problem.domains.support import project_rows
from taut.problem.interpreter import Evaluated, owned_by
from taut.problem.jets import jets_of, loss_jets
from taut.problem.programs import Programs
from taut.problem.sparse import Entries

POINTS, ROUNDS, SHAPE = 3, 2, (2, 3)
DIFFERENTIATED = ("elementwise", "on the unit interval", "logic", "shapes", "products", "calls")
OF_DATA = (
    "reductions",
    "eigenvalues",
)  # their derivatives are made of the operations above, or have no rules here


def joined(name, scale, x, y):
    results = CASES[name](x, y) if name in DIFFERENTIATED else CASES[name](y, y)
    leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(results) if leaf.dtype == x.dtype]
    return scale["by"] * x[0, 0] * jnp.concatenate(leaves)


def numbers(seed, *lead):
    return np.random.default_rng(seed).uniform(-0.9, 0.9, size=(*lead, *SHAPE))


def check(name):
    x, y, w, scale = (
        numbers(0, POINTS, 1),
        numbers(1, 1, ROUNDS),
        numbers(2, 2),
        {"by": np.array(1.5)},
    )
    with owned_by(Programs()):
        found = jets_of(joined, name, scale, x[0, 0], y[0, 0])
    values, slopes, products = found.products(x, scale, y, w.reshape(2, -1))
    np.testing.assert_array_equal(found.values(x, scale, y), values)
    np.testing.assert_array_equal(found.slopes(x, scale, y)[1], slopes)

    def both(x, y):
        return joined(name, scale, x, y), jax.jacrev(lambda v: joined(name, scale, v, y))(x)

    reference, step = Evaluated(both), 1e-5
    for i in range(POINTS):
        for j in range(ROUNDS):
            here = [np.asarray(part) for part in reference(x[i, 0], y[0, j])]
            for a, b in zip((values[i, j], slopes[i, j]), here, strict=True):
                np.testing.assert_allclose(
                    a, b.reshape(a.shape), rtol=1e-11, atol=1e-12, err_msg=name
                )
    for direction, product in zip(w, products, strict=True):
        after, before = (found.slopes(x + sign * step * direction, scale, y)[1] for sign in (1, -1))
        np.testing.assert_allclose(
            product, (after - before) / (2 * step), rtol=1e-5, atol=1e-5, err_msg=name
        )


def test_values_and_derivatives_agree_with_jax_in_every_rule(monkeypatch):
    used = set()

    def noted(equation, *rest):
        used.add(equation.primitive.name)
        return batched_rules.batched(equation, *rest)

    monkeypatch.setattr(jets, "batched", noted)
    for name in (*DIFFERENTIATED, *OF_DATA):
        check(name)
    rare = {
        "stack",
        "unstack",
        "expand_dims",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
    }  # see below
    assert set(batched_rules._MAKERS) - used <= rare


def test_fixed_places_are_read_and_written():
    def function(_static, _parameters, x, z):
        written = jax.lax.dynamic_update_slice(x, z[:1] * x[:1], (1, 0))
        picked = jax.lax.dynamic_slice(x, (0, 1), (2, 2)) * x[jnp.array([1, 0])][:, :2]
        mixed = np.arange(8.0).reshape(4, 2) @ x
        parts = written**2, picked, mixed, x[jnp.array([0, 0]), jnp.array([2, 1])]
        return jnp.concatenate([jnp.ravel(part) for part in parts])

    x, z = numbers(0, POINTS, 1), numbers(1, 1, ROUNDS)
    with owned_by(Programs()):
        found = jets_of(function, None, (), x[0, 0], z[0, 0])
        assert jets_of(lambda _s, _p, x, z: x[jnp.argmax(z[0])], None, (), x[0, 0], z[0, 0]) is None
    slopes = found.slopes(x, (), z)[1]
    for i in range(POINTS):
        for j in range(ROUNDS):
            expected = jax.jit(jax.jacfwd(lambda v, j=j: function(None, (), v, z[0, j])))(x[i, 0])
            np.testing.assert_allclose(
                slopes[i, j], np.asarray(expected).reshape(slopes[i, j].shape), atol=1e-14
            )


def test_each_function_is_traced_once_and_only_small_work_is_done_here():
    calls = []

    def loss(x, z):
        calls.append(1)
        return jnp.logaddexp(0.0, z @ x)

    problem = taut.Problem(loss, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=3))
    taut.hindsight(problem, np.random.default_rng(0).normal(size=(40, 3)))
    assert len(calls) == 1
    with owned_by(Programs()):
        found = loss_jets(loss, np.zeros(3), np.zeros(3))
        assert found.cheap(10, 10, 2)
        assert found._tapes[1].work(3, 1, 100) > found._tapes[1].work(
            1, 3, 100
        )  # first directions, then second ones
        assert not found.cheap(10_000, 10_000)
        found.spent = 2 * jets.SECONDS
        assert not found.cheap(1, 1)


ROUTES = {
    "affine": (lambda x, z: z @ x, lambda x: jnp.abs(x).sum() - 0.5),
    "quadratic": (lambda x, z: (z @ x - 1) ** 2, lambda x: (x @ x - 0.5, x[0] - 0.1)),
    "smooth": (lambda x, z: jnp.logaddexp(0.0, z @ x), lambda x, z: z @ x - 0.9),
    "kinked": (lambda x, z: jnp.abs(z @ x - 0.3), lambda x: x @ x - 0.4),
}


@pytest.mark.parametrize("name", ROUTES)
def test_hindsight_is_the_same_without_them(name, monkeypatch):
    """Functions that are too large for NumPy, or have no rules, are compiled or evaluated as JAX
    derives them."""
    loss, constraints = ROUTES[name]
    data = np.random.default_rng(0).normal(size=(2, 30, 2))
    problem = taut.Problem(loss, constraints, taut.Ball(1.0, shape=2))
    here = taut.hindsight(problem, data, seeds=2, prefixes=[7, 30])
    monkeypatch.setattr(jets, "SECONDS", -1.0)
    there = taut.hindsight(problem, data, seeds=2, prefixes=[7, 30])
    assert here.solver.split("(")[0] == there.solver.split("(")[0]
    np.testing.assert_allclose(here.loss, there.loss, rtol=2e-8, atol=2e-8)
    assert max(here.gap.max(), there.gap.max()) <= 1e-8


@pytest.mark.parametrize(
    "domain",
    [
        Ball(0.7, centre=[0.2, -0.1, 0.4]),
        Box(-0.5, [0.2, 0.1, 0.9]),
        Simplex(3, 1.5),
        L1Ball(0.6, centre=[0.2, 0.0, -0.3]),
    ],
)
def test_rows_are_projected_as_the_domain_projects(domain):
    rows = np.concatenate(
        [np.random.default_rng(0).normal(size=(20, 3)), np.zeros((1, 3)), 1e9 * np.eye(3)]
    )
    expected = jax.jit(jax.vmap(domain.project))(rows)
    np.testing.assert_allclose(
        project_rows(domain, rows), np.asarray(expected), rtol=1e-13, atol=1e-15
    )


def test_sparse_matrices_agree_with_scipy():
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    parts = [
        np.where(rng.uniform(size=(rows, 4)) < 0.4, rng.normal(size=(rows, 4)), 0)
        for rows in (3, 0, 5)
    ]
    last = [np.array([0.0, 2.0, -1.0]), None, None]
    made = Entries.stacked(
        [Entries.of(p).widened(6, c) for p, c in zip(parts, last, strict=True)]
    ).compressed()
    dense = np.zeros((8, 6))
    dense[:, :4], dense[:3, 5] = np.concatenate(parts), last[0]
    expected = sparse.csc_matrix(dense)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
    assert (made.shape, made.nnz) == (expected.shape, expected.nnz)
    again = Entries.of(expected)
    np.testing.assert_array_equal(dense[again.rows, again.columns], again.values)

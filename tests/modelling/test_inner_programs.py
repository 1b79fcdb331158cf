"""Small programs inside a round: vertices of their multipliers, and the compiled solver, against
SciPy and Clarabel."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.optimize import linprog

from taut.modelling.recourse.inner_minimum import Inner
from taut.modelling.recourse.interior_point import solve
from taut.modelling.recourse.vertices import TooMany, multipliers

pytestmark = pytest.mark.usefixtures("compile_quickly")


def drawn(random, n, p, m):
    """Rows of numbers with one decimal; the second of two equations is a multiple of the first now
    and then."""
    equal, above = (np.round(random.normal(size=(k, n)), 1) for k in (p, m))
    if p == 2 and random.uniform() < 0.5:
        equal[1] = 2 * equal[0]
    return np.concatenate([equal, above, *([np.eye(n), -np.eye(n)][: random.integers(3)])])


def test_the_largest_product_with_a_vertex_is_the_value_of_a_linear_program():
    random = np.random.default_rng(4)
    seen = {0: 0, 2: 0, 3: 0}
    for _ in range(60):
        n, p, m = random.integers(1, 5), random.integers(0, 3), random.integers(1, 6)
        matrix, costs = drawn(random, n, p, m), np.round(random.normal(size=n), 1)
        found = multipliers(matrix, costs, p)
        y, slack = random.normal(size=n), np.maximum(random.normal(size=len(matrix)), 0)
        slack[:p] = 0
        if random.uniform() < 0.5:  # perhaps not feasible
            slack[p:] = random.normal(size=len(matrix) - p)
        rows = -matrix @ y - slack
        equal = (matrix[:p], -rows[:p]) if p else (None, None)
        solved = linprog(costs, matrix[p:], -rows[p:], *equal, bounds=(None, None))
        feasible = (
            np.max(found.rays @ rows, initial=-1) <= 1e-9
            and np.max(np.abs(found.lines @ rows), initial=0) < 1e-9
        )
        seen[solved.status] += 1
        if solved.status == 0:
            assert feasible
            assert np.max(found.points @ rows) == pytest.approx(solved.fun, rel=1e-9, abs=1e-9)
        else:
            assert not feasible if solved.status == 2 else not len(found.points)
    assert min(seen.values()) >= 5


def test_too_many_vertices_are_not_listed():
    random = np.random.default_rng(0)
    with pytest.raises(TooMany):
        multipliers(random.normal(size=(40, 8)), random.normal(size=8), 0)


def test_the_compiled_solver_finds_what_clarabel_finds():
    random = np.random.default_rng(2)
    n, p, b, rank = 4, 1, 24, 2
    root = random.normal(size=(n, rank))
    above = np.concatenate([np.round(random.normal(size=(3, n)), 1), np.eye(n), -np.eye(n)])
    inner = Inner(root @ root.T, np.concatenate([np.ones((1, n)), above]), p, "w")
    inside = random.uniform(-1, 1, (b, n))
    room = np.maximum(np.round(random.normal(size=(b, len(above)))), 0)  # often none: degenerate
    room[:, -2 * n :] = random.uniform(0, 3, (b, 2 * n))
    rows = np.concatenate([-inside.sum(axis=1, keepdims=True), -inside @ above.T - room], axis=1)
    costs = np.round(random.normal(size=(b, n)), 1) * 10.0 ** random.uniform(-1, 1, (b, 1))
    low, high = (
        np.concatenate([edge(rows, axis=0), edge(costs, axis=0)]) for edge in (np.min, np.max)
    )
    inner.prepare(low, high)
    run = jax.jit(jax.vmap(lambda r, c: solve(inner, r, c)))
    found = run(rows, costs)
    wanted = np.array([inner.value(r, c) for r, c in zip(rows, costs, strict=True)])
    scale = 1 + np.abs(wanted)
    assert np.max(np.abs(found.value - wanted) / scale) < 1e-9
    # Multipliers and solution satisfy the optimality conditions of the program without caps.
    pull = found.point @ inner.quadratic + costs + found.multipliers @ inner.matrix
    assert np.max(np.abs(pull)) < 1e-6 * np.abs(costs).max()
    assert np.min(found.multipliers[:, p:]) >= 0
    assert np.max(found.point @ above.T + rows[:, p:]) < 1e-7
    short = run(rows.astype(np.float32), costs.astype(np.float32))
    assert short.value.dtype == np.float32
    assert np.max(np.abs(short.value - wanted) / scale) < 1e-3

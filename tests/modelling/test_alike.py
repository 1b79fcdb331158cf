"""What loops build is computed together: the same values as CVXPY's, in the same order, by programs
that do not grow."""

from __future__ import annotations

import cvxpy as cp
import jax
import numpy as np
from model_helpers import rng_of

from taut.modelling.translation.translate import grouped, translate, translate_rows


def storage(steps):
    """A storage with one constraint of each kind per step, written as a loop, and its leaves."""
    charge, level = cp.Variable(steps), cp.Variable(steps + 1)
    price, load = cp.Parameter(steps), cp.Parameter(steps)
    cost, rows = 0, [level[0] - 1]
    for t in range(steps):
        rows += [
            level[t + 1] - 0.9 * level[t] - charge[t],
            load[t] - charge[t],
            cp.abs(charge[t]) - t,
            -level[t] / (1 + t),
        ]
        cost += price[t] * charge[t] + 0.1 * t * cp.square(charge[t] - level[t])
    rows.insert(5, cp.log_sum_exp(charge))  # stands alone
    random = rng_of(5)
    for leaf in (charge, level, price, load):
        leaf.value = random.normal(size=leaf.shape)
    return (
        cost,
        rows,
        {v.id: v.value for v in (charge, level)},
        {p.id: p.value for p in (price, load)},
    )


def joined(expressions):
    evaluate = translate_rows(expressions)
    return lambda *values: np.concatenate([np.ravel(part) for part in evaluate(*values)])


def test_rows_and_losses_of_loops_have_the_values_of_cvxpy_in_the_order_of_the_rows():
    cost, rows, variables, parameters = storage(6)
    expected = np.concatenate([np.ravel(row.value) for row in rows])
    np.testing.assert_allclose(
        joined(rows)(variables, parameters), expected, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(translate(cost)(variables, parameters), cost.value, rtol=1e-12)


def test_programs_do_not_grow_with_the_number_of_steps():
    def count(steps):
        cost, rows, *values = storage(steps)
        many, one = translate_rows(rows), translate(cost)
        return len(jax.make_jaxpr(lambda *given: (many(*given), one(*given)))(*values).eqns)

    assert count(6) == count(30)


def test_steps_with_variables_of_their_own_are_stacked():
    steps = [cp.Variable(3) for _ in range(5)]
    for k, one in enumerate(steps):
        one.value = rng_of(6, k).normal(size=3)
    rows = [cp.norm(one - k) - 2 * steps[0][k % 3] for k, one in enumerate(steps)]
    stacked = cp.hstack([*rows, steps[1], 3.0])
    values = {one.id: one.value for one in steps}, {}
    np.testing.assert_allclose(joined(rows)(*values), [row.value for row in rows], rtol=1e-12)
    np.testing.assert_allclose(translate(stacked)(*values), stacked.value, rtol=1e-12)


def test_other_exponents_axes_and_signs_are_other_structures():
    x = cp.Variable((2, 2))
    terms = [cp.power(x[0, 0], p) for p in (2, 3, 4, 2)] + [cp.sum(x, axis=k % 2) for k in range(4)]
    terms += [x[0] - x[1], x[0] + x[1], -x[0] - x[1], -x[0] + x[1]]
    groups, rest = grouped(terms)
    assert not groups
    assert rest == list(range(len(terms)))
    x.value = rng_of(7).uniform(0.5, 1, size=(2, 2))
    np.testing.assert_allclose(
        joined(terms)({x.id: x.value}, {}), np.concatenate([np.ravel(t.value) for t in terms])
    )


def test_constants_that_an_operation_depends_on_stay_with_their_expression():
    x = cp.Variable(2)
    terms = [cp.quad_over_lin(x, 1.0 + k) for k in range(4)]
    terms += [cp.quad_form(x, (1.0 + k) * np.eye(2)) for k in range(4)]
    x.value = rng_of(8).uniform(0.5, 1, size=2)
    np.testing.assert_allclose(joined(terms)({x.id: x.value}, {}), [t.value for t in terms])

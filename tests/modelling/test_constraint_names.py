"""Constraints of CVXPY models have names: the user's labels, or what the constraint says."""

import cvxpy as cp
import numpy as np

import taut
from taut.modelling.translation.inequalities import label_of


def test_labels_texts_indices_and_equalities():
    x = cp.Variable(3, name="x")
    price = cp.Parameter(3, name="price", bounds=[0, 1])
    total = cp.sum(x) <= 2
    total.set_label("budget")
    model = taut.from_cvxpy(
        price @ x, [cp.abs(x) <= 1, total, x[:2] + x[1:] <= [5, 1], x[0] - x[1] == 0], "box"
    )
    assert model.constraint_names == (
        "budget",
        # the other entry holds on the whole domain and is not played
        "x[0:2] + x[1:3] <= [5 1][1]",
        "x[0] + -(x[1]) == 0 (not above)",
        "x[0] + -(x[1]) == 0 (not below)",
    )
    run = taut.simulate(model, np.ones((4, 3)))
    assert run.constraint_names == model.constraint_names
    values = np.asarray(model.constraints.values(np.array([1.0, 0.5, 0.25]), None))
    np.testing.assert_allclose(values, [1.75 - 2, 0.75 - 1, 0.5, -0.5])  # the order of the names


def test_long_and_equal_constraints():
    x = cp.Variable((2, 2), name="x")
    long = cp.sum(cp.multiply(np.arange(4.0).reshape(2, 2), cp.square(x))) <= 3
    assert label_of(long, 7) == "constraint 7"
    model = taut.from_cvxpy(
        cp.sum(x), [x <= 1, x >= -1, cp.sum(x) <= 1, cp.sum(x) <= 1, x @ np.ones(2) <= 1.5]
    )
    assert model.constraint_names[:2] == ("Sum(x) <= 1 (1)", "Sum(x) <= 1 (2)")
    assert model.constraint_names[3].endswith("[1]")

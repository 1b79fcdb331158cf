"""Rows that the domain implies are not played, and stated bounds become the domain."""

from __future__ import annotations

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest
from model_helpers import excess, rng_of

import taut

pytestmark = pytest.mark.usefixtures("compile_quickly")


def test_bounds_next_to_the_box_change_nothing():
    y, c = cp.Variable(2, name="y"), cp.Parameter(2, name="c", bounds=[-1, 1])
    bare = taut.from_cvxpy(c @ y, [cp.sum(y) <= 120], taut.Box(0, 100, shape=2))
    for constraints, domain in (
        ([cp.sum(y) <= 120, y >= 0, y <= 100], None),
        (
            [cp.sum(y) <= 120, y >= 0, y <= 100, cp.norm(y) <= 150, 2 * y[1] <= 300],
            taut.Box(0, 100, shape=2),
        ),
    ):
        model = taut.from_cvxpy(c @ y, constraints, domain)
        assert model.count == 1
        assert model.domain_binds == (domain is None)
        assert any("are not played" in note and "y" in note for note in model.notes)
        np.testing.assert_array_equal(model.domain.lower, [0, 0])
        np.testing.assert_array_equal(model.domain.upper, [100, 100])
        data = rng_of(1).uniform(-1, 1, (30, 2))
        runs = [
            taut.simulate(taut.ClippedOGD.tuned(one.constants, 30), one, data)
            for one in (bare, model)
        ]
        np.testing.assert_array_equal(runs[0].loss, runs[1].loss)
        assert taut.hindsight(model, data).loss[0] == pytest.approx(
            taut.hindsight(bare, data).loss[0]
        )


def test_only_the_entries_that_the_domain_implies_are_left_out():
    x, limit = cp.Variable(3, name="x"), cp.Parameter(name="limit", bounds=[2, 3])
    rows = np.array([[1.0, 1, 1], [1, 0, 0], [0, -1, 1]])
    model = taut.from_cvxpy(
        cp.sum_squares(x), [rows @ x <= [2, 5, 0.5], cp.sum(x) <= limit], taut.Box(0, 1, shape=3)
    )
    np.testing.assert_allclose(
        excess(model, [0.5, 0.25, 1.0], (np.array(2.0),)), [-0.25, 0.25, -0.25]
    )
    everything = taut.from_cvxpy(cp.sum_squares(x), [x <= 2, x >= -1], taut.Box(0, 1, shape=3))
    assert everything.count == 1
    assert float(excess(everything, np.ones(3))[0]) < 0


def test_equations_of_one_entry_fix_it():
    x = cp.Variable(3, name="x", bounds=[0, 1])
    model = taut.from_cvxpy(cp.sum_squares(x), [2 * x[0] == 0.5, x[1] + x[2] == 1])
    box, simplex = model.domain.parts
    assert (box.lower[0], box.upper[0]) == (0.25, 0.25)
    assert (simplex.total, simplex.shape) == (1.0, (2,))  # the other equation
    assert model.count == 1


@pytest.mark.parametrize("size", [501])
def test_stated_boxes_of_any_size_are_taken(size):
    x, c = cp.Variable(size, name="x", nonneg=True), cp.Parameter(size, name="c", bounds=[-1, 1])
    model = taut.from_cvxpy(c @ x, [x <= 2, cp.sum(x) <= 1.5])
    np.testing.assert_array_equal(
        model.domain.upper, np.full(size, 1.5)
    )  # what the sum leaves to a single entry
    assert model.count == 1
    assert any("the bounds that the constraints imply" in note for note in model.notes)


def test_large_decisions_without_bounds_are_refused():
    x = cp.Variable(501, name="x", nonneg=True)
    with pytest.raises(ValueError, match="expected a domain, or bounds of every entry"):
        taut.from_cvxpy(cp.sum_squares(x), [cp.sum(x) >= 1])


def domain_of_certificate(name="x", stated=(), box=(-0.1, 0.8), binds=False, **attributes):
    """The outcome of a certificate, and what it says of the domain, with redundant constraints."""
    x, c = cp.Variable(2, name=name, **attributes), cp.Parameter(2, name="c", bounds=[-1, 1])
    rows = [cp.sum(x) <= 1, cp.norm(x, 2) <= 1, *(make(x) for make in stated)]
    model = taut.from_cvxpy(c @ x, rows, taut.Box(*box, shape=2), domain_binds=binds)
    data = rng_of(2).uniform(-1, 1, (100, 2))
    run = taut.simulate(taut.ClippedOGD.tuned(model.constants, 100), model, data)
    found = run.certificate()
    (domain,) = (one for one in found.assumptions if one.name == "domain")
    return found.outcome, domain


CUT = {
    "redundant rows": {"stated": [lambda x: x[0] <= 3, lambda x: cp.norm1(x) <= 4]},
    "one side of the box": {"name": "are not played", "stated": [lambda x: x <= 0.8]},
    "a telling name": {"name": "part of the domain", "bounds": [-0.1, 3]},
    "an attribute": {"nonneg": True, "box": (0, 0.8)},
}


@pytest.mark.parametrize("name", CUT)
def test_a_domain_that_cuts_the_feasible_set_is_refuted_whatever_else_is_stated(name):
    outcome, domain = domain_of_certificate(**CUT[name])
    assert (outcome, domain.status) == ("no guarantee stands", "refuted")
    x = domain.witness["x"]  # feasible, and outside the box
    assert x.sum() <= 1
    assert np.linalg.norm(x) <= 1
    assert x.max() > 0.8 or x.min() < -0.1


STATED = {
    "rows and a redundant one": {
        "stated": [lambda x: x <= 0.8, lambda x: x >= -0.1, lambda x: x[0] <= 3]
    },
    "rows and attributes": {"stated": [lambda x: x <= 0.8], "nonneg": True, "box": (0, 0.8)},
}


@pytest.mark.parametrize("name", STATED)
def test_a_domain_whose_sides_are_all_stated_is_not_refuted(name):
    outcome, domain = domain_of_certificate(**STATED[name])
    assert (outcome, domain.status) == ("holds", "probed, not refuted")


def test_a_domain_that_binds_is_given():
    assert domain_of_certificate(binds=True)[1].status == "given"


def test_transforms_play_rows_that_the_domain_implies_whatever_variables_are_called():
    x, c = cp.Variable(2, name="are not played"), cp.Parameter(2, name="c", bounds=[-1, 1])
    plain = taut.from_cvxpy(c @ x, [cp.sum(x) <= 1], taut.Box(-0.1, 0.8, shape=2))
    assert plain.all_rows() is plain
    model = taut.from_cvxpy(c @ x, [cp.sum(x) <= 1, x <= 0.8], taut.Box(-0.1, 0.8, shape=2))
    assert (model.count, model.all_rows().count) == (1, 3)


def test_a_given_domain_is_compared_with_all_rows_not_only_with_those_that_are_played():
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    rows = [cp.sum(x) <= 0.5, x <= 1, x >= -1]
    problem = taut.from_cvxpy(c @ x, rows, domain=taut.Box(-1, 1, shape=2))
    assert problem.count == 1
    assert problem.as_stated().constraints.values(np.zeros(2), None).size == 5
    run = taut.simulate(taut.ClippedOGD(0.1, 1.0), problem, np.ones((20, 2)))
    assert _domain_status(run) == "probed, not refuted"


def _domain_status(run):
    (status,) = (one.status for one in run.certificate().assumptions if one.name == "domain")
    return status


def test_a_given_domain_is_compared_with_rows_that_choices_after_the_data_add():
    """The choice y exists for |x| <= 1 only, which is all of the domain."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    d = cp.Parameter(2, name="d", bounds=[-1, 1])
    rows = [y >= x, y >= -x, y <= 1, cp.sum(y) >= -3]
    problem = taut.from_cvxpy(
        d @ x + cp.sum(y),
        [*rows, x[0] <= 3],
        taut.Box(-1, 1, shape=2),
        recourse=[y],
    )
    run = taut.simulate(taut.ClippedOGD(0.1, 1.0), problem, np.ones((5, 2)))
    assert _domain_status(run) == "probed, not refuted"
    assert problem.as_stated().constraints.values(np.full(2, 1.1), None).max() > 0.05


@pytest.mark.parametrize("row", ["above", "below", "slightly"])
def test_rows_that_the_domain_violates_on_one_side_or_slightly_are_played(row):
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    stated, count = {
        "above": (cp.sum(x) == 0, 2),  # cp.sum(x) is not negative on the domain,
        "below": (cp.sum(x) == 1, 2),  # and at most 1
        "slightly": (cp.sum(x) <= 1 - 1e-4, 1),
    }[row]
    problem = taut.from_cvxpy(c @ x, [stated], domain=taut.Box(0, 0.5, shape=2))
    assert problem.count == count
    assert problem.constraints.values(jnp.array([0.1, 0.2]), None).shape == (count,)
    assert float(problem.constraints.values(jnp.full(2, 0.25), None).max()) != -1.0


def test_choices_that_exist_for_guessed_data_only_are_refused():
    """The data are guessed to be at least -2, but no bounds say that the choice y <= p + 3.5
    exists."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    p = cp.Parameter(name="p")
    rows = [y >= x, y >= -x, y <= p + 3.5, cp.sum(y) >= -3]
    with pytest.raises(ValueError, match="got admissible data of p for which no choice of y"):
        taut.from_cvxpy(cp.sum(x) + cp.sum(y), rows, taut.Box(-1, 1, shape=2), recourse=[y])

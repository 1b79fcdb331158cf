"""The adapters, against optax and scikit-learn themselves, NumPy and taut's own learner."""

import unittest

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut import adapters

optax = pytest.importorskip("optax", reason="optax is not installed")
sklearn = pytest.importorskip("sklearn", reason="scikit-learn is not installed")


def bowl(x):
    return x @ x - 1


def test_the_update_is_the_projection_on_the_half_space_by_hand():
    step = adapters.half_space()
    assert isinstance(step, optax.GradientTransformationExtraArgs)
    update, _ = step.update(
        jnp.array([1.0, 0.0]),
        step.init(None),
        constraint_value=0.5,
        constraint_gradient=jnp.array([2.0, 0.0]),
    )
    np.testing.assert_allclose(update, [-0.25, 0.0])  # 0.5 + 2 u = 0
    slack, _ = step.update(
        jnp.array([1.0, 0.0]),
        step.init(None),
        constraint_value=-3.0,
        constraint_gradient=jnp.array([2.0, 0.0]),
    )
    np.testing.assert_allclose(slack, [1.0, 0.0])


def test_a_chain_in_optax_plays_what_the_half_space_learner_plays():
    costs = np.random.default_rng(0).normal(size=(30, 3))
    problem = taut.Problem(
        lambda x, c: c @ x, bowl, taut.Box(-50.0, 50.0, shape=3), domain_binds=True
    )
    learner = taut.HalfSpace(eta=0.3, diameter=200.0, memory=0)
    start = np.array([0.1, 0.2, 0.3])
    run = taut.simulate(learner, problem, costs, x1=start, record=("decisions",))
    optimiser = optax.chain(optax.sgd(0.3), adapters.half_space())
    x = {"w": jnp.asarray(start)}
    state = optimiser.init(x)

    @jax.jit
    def move(x, state, cost):
        value, slope = jax.value_and_grad(lambda x: bowl(x["w"]))(x)
        update, state = optimiser.update(
            {"w": cost}, state, x, constraint_value=value, constraint_gradient=slope
        )
        return optax.apply_updates(x, update), state

    for cost, decision in zip(jnp.asarray(costs), run.decisions[0], strict=True):
        np.testing.assert_allclose(x["w"], decision, atol=1e-12)
        x, state = move(x, state, cost)


def budget(w):
    return jnp.abs(w[:2]).sum() - 1


def test_a_regressor_keeps_its_constraint_and_learns_the_same_in_parts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X @ [1.0, 1.0] + 0.5
    whole = adapters.ConstrainedRegressor(budget, passes=1).fit(X, y)
    parts = adapters.ConstrainedRegressor(budget)
    for rows in np.split(np.arange(200), 4):
        parts.partial_fit(X[rows], y[rows])
    np.testing.assert_array_equal(whole.coef_, parts.coef_)
    assert np.abs(whole.coef_).sum() <= 1.05


def test_without_constraints_a_regressor_agrees_with_least_squares():
    from sklearn.linear_model import LinearRegression

    X = np.random.default_rng(1).normal(size=(300, 2))
    y = X @ [1.0, -0.5] + 0.2
    ours = adapters.ConstrainedRegressor(radius=2.0).fit(X, y)
    theirs = LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.1)
    assert ours.score(X, y) > 0.9


COMPILES = (
    "check_fit_score_takes_y",
    "check_n_features_in_after_fitting",
    "check_estimators_dtypes",
    "check_dtype_object",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_regressors_train",
    "check_regressor_data_not_an_array",
)
"""Checks that compile a number of features of their own; all of them pass, and take ten seconds."""


def test_the_regressor_passes_the_checks_of_scikit_learn():
    from sklearn.exceptions import SkipTestWarning
    from sklearn.utils.estimator_checks import estimator_checks_generator

    passed = []
    for regressor, check in estimator_checks_generator(adapters.ConstrainedRegressor(passes=1)):
        if check.func.__name__ in COMPILES:
            continue
        try:
            check(regressor)
        except (pytest.skip.Exception, unittest.SkipTest, SkipTestWarning):
            continue  # what is not installed here
        passed.append(check.func.__name__)
    assert len(passed) >= 25

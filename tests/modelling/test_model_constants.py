"""Constants of models: exact where the structure allows, otherwise estimated and marked."""

from __future__ import annotations

import cvxpy as cp
import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from model_helpers import linear, rng_of

import taut
from subprocesses import run_in_single_precision
from taut.modelling.model import Model
from without_compiling import in_numpy

pytestmark = pytest.mark.usefixtures("compile_quickly")


@settings(max_examples=3, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_exact_constants_of_quadratics_hold_and_are_attained(seed):
    random = rng_of(seed)
    root, target = random.normal(size=(2, 2)), random.normal(size=2)
    x, p = cp.Variable(2, name="x"), cp.Parameter(2, name="p", bounds=[-0.5, 1.0])
    bend = root @ root.T
    model = taut.from_cvxpy(
        cp.quad_form(x - p, cp.psd_wrap(bend)) + target @ x,
        [cp.sum_squares(root @ x) <= 2, random.normal(size=2) @ x <= 1, x <= 2, x >= -1.5],
    )
    known = model.constants
    assert not known.estimated

    def g(y):
        return model.written.values(y, None)

    low, high = model.domain.lower, model.domain.upper
    corners = np.array([[a, b] for a in (low[0], high[0]) for b in (low[1], high[1])])
    inner = random.uniform(low, high, (200, 2))
    rounds = np.array([[a, b] for a in (-0.5, 1.0) for b in (-0.5, 1.0)])
    points = np.concatenate([corners, inner])
    slopes = np.array([np.linalg.norm(2 * bend @ (y - z) + target) for y in points for z in rounds])
    assert slopes.max() <= known.loss_lipschitz * (1 + 1e-9)
    assert known.loss_lipschitz == pytest.approx(slopes.max())  # attained at a corner
    losses = np.array([[(y - z) @ bend @ (y - z) + target @ y for y in points] for z in rounds])
    assert np.ptp(losses, axis=1).max() <= known.loss_range * (1 + 1e-9)
    assert known.strong_convexity == pytest.approx(2 * np.linalg.eigvalsh(bend)[0])
    values, jacobians = in_numpy(jax.vmap(lambda y: (g(y), jax.jacrev(g)(y))))(points)
    assert np.abs(values).max() <= known.constraint_range * (1 + 1e-9)
    seen = np.linalg.norm(np.asarray(jacobians), axis=-1).max()
    assert seen == pytest.approx(known.constraint_lipschitz)
    assert known.constraint_smoothness == pytest.approx(2 * np.linalg.eigvalsh(root.T @ root)[-1])
    assert values.max(axis=1).min() >= -(known.slater or 0) - 1e-9


def test_what_is_not_quadratic_is_bounded_and_the_rest_is_marked():
    x, p = cp.Variable(2, name="x"), cp.Parameter(2, name="p", bounds=[-1, 1])
    model = taut.from_cvxpy(cp.logistic(p @ x) + cp.sum_squares(x), [cp.norm(x) <= 1, x[0] <= 0.5])
    known = model.constants
    assert known.estimated == {"strong_convexity"}
    assert {
        "radius",
        "constraint_count",
        "slater",
        "loss_lipschitz",
        "constraint_range",
    } <= known.exact
    assert known.constraint_smoothness is None  # the norm has a kink
    # The truth, by hand: the steepest point is the corner (-1, -1) with p = (-1, -1).
    slope = 2 * np.array([-1.0, -1]) - np.array([1.0, 1]) / (1 + np.exp(-2.0))
    truth = float(np.linalg.norm(slope))
    assert truth <= known.loss_lipschitz * (1 + 1e-9) <= 1.05 * truth
    assert known.constraint_lipschitz == pytest.approx(1.0)
    assert known.strong_convexity == pytest.approx(2.0, rel=2e-3)


def test_samples_need_not_hit_a_kink(monkeypatch):
    # Sampled slopes of a kinked constraint always seem to have some curvature.
    seen = taut.Constants().with_values(
        estimated=True, loss_lipschitz=5.0, constraint_smoothness=4.0
    )
    monkeypatch.setattr("taut.problem.estimation.estimate", lambda *arguments: seen)
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c")
    for limit, smoothness in (
        (cp.norm(x), None),
        (cp.sum_squares(x), 2.0),
        (cp.log_sum_exp(x), 4.0),
    ):
        model = taut.from_cvxpy(c @ x, [limit <= 1, x <= 2, x >= -2], "box")
        sampled = model.estimate_constants(np.array([[3.0, 4.0]]), jax.random.key(0))
        assert sampled.loss_lipschitz == 5.0
        assert sampled.constraint_smoothness == smoothness


def test_curvature_that_depends_on_data_is_bounded():
    x, a = cp.Variable(2, name="x"), cp.Parameter(2, name="a", bounds=[-1, 1])
    model = taut.from_cvxpy(cp.square(a @ x), [cp.norm_inf(x) <= 1])
    assert "loss_lipschitz" in model.constants.exact
    assert model.constants.loss_lipschitz == pytest.approx(
        4 * np.sqrt(2)
    )  # 2 |a| |a.x| at the corners
    assert model.constants.strong_convexity == 0


def test_given_constants_are_kept():
    x, p = cp.Variable(2, name="x"), cp.Parameter(2, name="p")
    model = taut.from_cvxpy(p @ x, [cp.norm(x) <= 1], constants=taut.Constants(loss_lipschitz=7.0))
    assert model.constants.loss_lipschitz == 7.0
    assert model.constants.source("loss_lipschitz") == "given"
    with pytest.raises(ValueError, match="constraint_count: got 3; expected 1"):
        taut.from_cvxpy(p @ x, [cp.norm(x) <= 1], constants=taut.Constants(constraint_count=3))
    with pytest.raises(TypeError, match="constants: got"):
        taut.from_cvxpy(p @ x, [cp.norm(x) <= 1], constants=7.0)


def test_transforms_stay_models():
    model, c = linear(bounds=[-1, 1])
    for other in (
        taut.max_of(model),
        taut.tightened(model, 0.1),
        taut.log_sum_exp(model, 10.0),
        model.with_constants(model.constants),
    ):
        assert isinstance(other, Model)
        assert other.variables is model.variables
        assert other.arrange({c: np.zeros((1, 2))})[0].shape == (1, 2)
    assert "per round" in repr(model)


SINGLE = """
import cvxpy as cp
import numpy as np

import taut

x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
model = taut.from_cvxpy(c @ x, [cp.norm1(x) <= 1], "box")
player = taut.Player(taut.ClippedOGD.tuned(model.constants, 10), model)
player.observe(np.array([1.0, 0.0]))
assert player.decision.dtype == np.float32
print(repr(model.constants))
"""


def test_models_in_single_precision_have_the_same_constants():
    """In a process of its own, because a change of precision clears JAX's caches."""
    assert run_in_single_precision(SINGLE).strip() == repr(linear(bounds=[-1, 1])[0].constants)

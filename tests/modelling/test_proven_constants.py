"""Constants of models by interval arithmetic: no decision and data exceed them."""

from __future__ import annotations

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_helpers import rng_of

import taut
from taut.problem.domains.support import bounding_box
from without_compiling import in_numpy

pytestmark = pytest.mark.usefixtures("compile_quickly")


def models():
    x, r = cp.Variable(3, name="x", bounds=[-1, 1]), rng_of(3)
    f, g = cp.Parameter((4, 3), name="f", bounds=[-3, 3]), cp.Parameter(4, name="g", bounds=[-5, 5])
    a = r.normal(size=(4, 3))
    w, m = cp.Variable(3, name="w", nonneg=True), cp.Variable((2, 2), name="m", symmetric=True)
    s, prices = (
        cp.Parameter((2, 2), name="s", symmetric=True, bounds=[-1, 1]),
        cp.Parameter(3, name="r", bounds=[-0.3, 0.3]),
    )
    return {
        "least squares, all data": (cp.sum_squares(f @ x - g), [cp.sum(x) <= 1]),
        "logistic": (cp.sum(cp.logistic(f @ x)), [cp.norm(x) <= 1]),
        "robust": (cp.sum(cp.huber(a @ x - g)) + 0.1 * cp.norm1(x), [cp.norm(a @ x - g[0]) <= 9]),
        "Kelly": (-cp.log(1 + prices @ w), [cp.sum(w) <= 1]),
        "quantiles": (
            cp.sum(cp.maximum(0.9 * (g[:3] - x), 0.1 * (x - g[:3]))),
            [cp.log_sum_exp(x) <= 1.5],
        ),
        "matrices": (
            cp.trace(s @ m) + cp.lambda_max(m - s),
            [cp.norm(m, "fro") <= 1, cp.sigma_max(m) <= 0.8],
        ),
    }


@pytest.mark.parametrize("name", models())
def test_constants_of_models_are_never_exceeded(name):
    loss, constraints = models()[name]
    model = taut.from_cvxpy(loss, constraints, "box")
    known, random = model.constants, rng_of(4)
    assert not known.estimated & {
        "loss_lipschitz",
        "loss_range",
        "constraint_lipschitz",
        "constraint_range",
    }
    low, high = bounding_box(model.domain)
    mix = random.uniform(size=(1000, model.size))
    mix[::2] = np.round(mix[::2])
    decisions = (low + mix * (high - low)).reshape(1000, *model.domain.shape)
    data = []
    for parameter in model.parameters:
        edges = parameter.attributes["bounds"]
        drawn = random.uniform(size=(1000, *parameter.shape))
        drawn[::3] = np.round(drawn[::3])
        drawn = edges[0] + drawn * (edges[1] - edges[0])
        data.append(
            (drawn + np.swapaxes(drawn, 1, 2)) / 2 if parameter.attributes["symmetric"] else drawn
        )

    def seen(x, y, *z):
        rows = jax.jacrev(model.constraints.values)(x, z)
        return (
            jnp.linalg.norm(jax.grad(model.loss)(x, z)),
            jnp.abs(model.loss(x, z) - model.loss(y, z)),
            jnp.max(jnp.linalg.norm(rows.reshape(rows.shape[0], -1), axis=1)),
            jnp.max(jnp.abs(model.constraints.values(x, z))),
        )

    measured = in_numpy(jax.vmap(seen))(decisions, decisions[::-1], *data)
    for constant, numbers in zip(
        ("loss_lipschitz", "loss_range", "constraint_lipschitz", "constraint_range"),
        measured,
        strict=True,
    ):
        assert float(jnp.max(numbers)) <= getattr(known, constant) * (1 + 1e-9), constant
        assert getattr(known, constant) <= 4 * float(jnp.max(numbers)), (
            constant
        )  # and not far above


def test_affine_functions_are_bounded_over_the_simplex_itself():
    b, r = cp.Variable(3, name="b"), cp.Parameter(3, name="r", bounds=[0.5, 2])
    known = taut.from_cvxpy(-cp.log(r @ b), [cp.sum(b) == 1, b >= 0]).constants
    assert not known.estimated
    assert known.loss_range == pytest.approx(
        np.log(4)
    )  # r @ b is between 0.5 and 2; over the box it is not above 0
    assert np.sqrt(8.25) / 0.5 <= known.loss_lipschitz <= 1.1 * np.sqrt(8.25) / 0.5


def test_a_loose_bound_is_noted_and_a_guess_stays_an_estimate():
    x, f = cp.Variable(5, name="x", bounds=[-1, 1]), cp.Parameter((9, 5), name="f", bounds=[-3, 3])
    notes = taut.from_cvxpy(cp.sum(cp.square(f @ x)), [cp.sum(x) <= 1]).notes
    assert any(
        note.startswith("loss_lipschitz: ") and "upper bound by interval arithmetic" in note
        for note in notes
    )
    c = cp.Parameter(5, name="c")
    assert "loss_lipschitz" in taut.from_cvxpy(cp.logistic(c @ x)).constants.estimated


def test_strong_convexity_is_not_taken_from_data_that_happen_to_bend():
    x, f = cp.Variable(2, name="x", bounds=[-1, 1]), cp.Parameter((4, 2), name="f", bounds=[-1, 1])
    assert (
        taut.from_cvxpy(cp.sum_squares(f @ x)).constants.strong_convexity == 0
    )  # f = 0 is admissible

"""Transforms of a problem's constraints: values, slopes also at ties, and constants that stay
true."""

import gc
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import small_games
import taut
from taut.play.compile import count_compiled
from taut.testing import playing, problems

SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])


def four_rows(x):
    return SIGNS @ x - 1


ROWS_TOY = taut.Problem(  # the paper's toy with its l1 ball as four half-planes
    problems.linear_loss,
    four_rows,
    problems.TOY.problem.domain,
    taut.Constants(
        loss_lipschitz=1.0,
        constraint_lipschitz=2**0.5,
        constraint_range=1 + 2**0.5,
        constraint_smoothness=0.0,
        slater=1.0,
        error_bound=1.0,
    ),
)

PROBLEMS = {
    "rows": ROWS_TOY,
    **{case.name: case.problem for case in problems.PROBLEMS if case is not problems.STRONG},
}
EACH = pytest.mark.parametrize("name", PROBLEMS)
TEMPERATURE, RHO = 3.0, 0.07


def soft_max(values):
    """(1/tau) log sum exp(tau g), by NumPy's own log-add-exp."""
    return np.logaddexp.reduce(TEMPERATURE * values, axis=-1, keepdims=True) / TEMPERATURE


TRANSFORMS = {
    # name: (transform of a problem, what it does to values (..., m))
    "max_of": (taut.max_of, lambda v: v.max(axis=-1, keepdims=True)),
    "log_sum_exp": (lambda p: taut.log_sum_exp(p, TEMPERATURE), soft_max),
    "squared": (taut.squared, lambda v: np.maximum(v, 0) ** 2),
    "tightened": (lambda p: taut.tightened(p, RHO), lambda v: v + RHO),
    "tightened log_sum_exp": (
        lambda p: taut.tightened(taut.log_sum_exp(p, TEMPERATURE), RHO),
        lambda v: soft_max(v) + RHO,
    ),
    "squared max_of": (
        lambda p: taut.squared(taut.max_of(p)),
        lambda v: np.maximum(v.max(-1, keepdims=True), 0) ** 2,
    ),
}


@pytest.fixture(autouse=True, scope="module")
def _quick():
    with playing.quick_compilation():
        yield


@cache
def points(name):
    """Decisions all over the domain, and for each a round's data and a direction."""
    x = small_games.points_of(PROBLEMS[name].domain, 40)
    data = None
    if PROBLEMS[name].constraints.takes_data:
        data = jax.tree.map(lambda a: a[0], problems.MOVING.stream(1, len(x), seed=8))
    return x, data, np.random.default_rng(1).normal(size=x.shape)


@jax.jit
def linearised(constraints, x, data, direction):
    """Values, Jacobian rows by pull-back, push-forward of the direction; for a batch."""

    def one(x, z, v):
        values, pull, push = constraints.linearise(x, z)
        return values, jax.vmap(pull)(jnp.eye(values.shape[0])), push(v)

    return jax.vmap(one, in_axes=(0, None if data is None else 0, 0))(x, data, direction)


@jax.jit
def evaluated(constraints, x, data):
    return jax.vmap(constraints.values, in_axes=(0, None if data is None else 0))(x, data)


@cache
def transformed(name, transform):
    return TRANSFORMS[transform][0](PROBLEMS[name])


BOTH = pytest.mark.parametrize(
    ("name", "transform"),
    [(n, t) for t in TRANSFORMS for n in PROBLEMS if n in ("rows", "moving") or " " not in t],
)


def flat(a):
    return a.reshape(len(a), -1)


@BOTH
def test_values_and_slopes(name, transform):
    x, data, direction = points(name)
    base = np.asarray(evaluated(PROBLEMS[name].constraints, x, data))
    constraints = transformed(name, transform).constraints
    values, rows, pushed = (np.asarray(a) for a in linearised(constraints, x, data, direction))
    np.testing.assert_allclose(values, TRANSFORMS[transform][1](base), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(values, evaluated(constraints, x, data))
    # Both products are with one Jacobian.
    np.testing.assert_allclose(
        pushed,
        np.einsum("nmd,nd->nm", rows.reshape(*values.shape, -1), flat(direction)),
        atol=1e-12,
    )
    # It is the derivative, where there is one: central differences, except near a kink.
    h = 1e-6
    ahead, behind = (
        np.asarray(evaluated(constraints, x + s * h * direction, data)) for s in (1, -1)
    )
    smooth = np.abs(ahead - 2 * values + behind) <= 1e-9
    assert smooth.mean() > 0.9
    np.testing.assert_allclose(((ahead - behind) / (2 * h))[smooth], pushed[smooth], atol=1e-6)


@BOTH
def test_slopes_are_subgradients_everywhere(name, transform):
    """g(y) >= g(x) + <s(x), y - x> for all pairs; at the first two x constraints tie."""
    x, data, direction = points(name)
    constraints = transformed(name, transform).constraints
    if data is not None:  # one round for all decisions
        data = jax.tree.map(lambda a: np.repeat(a[:1], len(x), axis=0), data)
    values, rows, _ = (np.asarray(a) for a in linearised(constraints, x, data, direction))
    rows = rows.reshape(*values.shape, -1)
    gaps = flat(x)[None, :, :] - flat(x)[:, None, :]  # from x_i to x_j
    linear = values[:, None, :] + np.einsum("imd,ijd->ijm", rows, gaps)
    assert np.all(values[None] >= linear - 1e-12)


@BOTH
def test_constants_stay_true(name, transform):
    problem = transformed(name, transform)
    known = problem.constants
    x, data, direction = points(name)
    values, rows, _ = (np.asarray(a) for a in linearised(problem.constraints, x, data, direction))
    rows = rows.reshape(*values.shape, -1)
    assert known.constraint_count == values.shape[1]
    assert np.linalg.norm(rows, axis=-1).max() <= known.constraint_lipschitz * (1 + 1e-12)
    assert np.abs(values).max() <= known.constraint_range * (1 + 1e-12)
    if known.slater is not None:
        assert known.slater > 0
        assert values.max(axis=1).min() <= -0.4 * known.slater
    if known.constraint_smoothness is not None and data is None:
        slopes = np.linalg.norm(rows[:, None] - rows[None], axis=-1).max(axis=-1)
        distance = np.linalg.norm(flat(x)[:, None] - flat(x)[None], axis=-1)
        assert np.all(slopes <= known.constraint_smoothness * distance + 1e-12)
    for untouched in ("radius", "loss_lipschitz", "loss_range", "strong_convexity"):
        assert getattr(known, untouched) == getattr(PROBLEMS[name].constants, untouched)


def test_constants_by_hand():
    base = ROWS_TOY.constants  # m = 4, G_g = sqrt 2, D = 1 + sqrt 2, L = 0, Slater 1, error bound 1
    most = taut.max_of(ROWS_TOY).constants
    assert (most.constraint_count, most.constraint_smoothness, most.gap) == (1, None, 0)
    for kept in ("constraint_lipschitz", "constraint_range", "slater", "error_bound"):
        assert getattr(most, kept) == getattr(base, kept)

    soft = taut.log_sum_exp(ROWS_TOY, 8.0).constants  # gap ln(4)/8
    gap = np.log(4) / 8
    assert soft.constraint_count == 1
    assert (
        soft.constraint_lipschitz == base.constraint_lipschitz
    )  # a convex combination of slopes, not sqrt(m) of them
    assert soft.gap == pytest.approx(gap)
    assert soft.constraint_range == pytest.approx(base.constraint_range + gap)
    assert soft.constraint_smoothness == pytest.approx(8 * 2)  # L + tau G_g^2
    assert soft.slater == pytest.approx(1 - gap)
    assert soft.error_bound is None

    square = taut.squared(ROWS_TOY).constants
    assert square.constraint_count == 4
    assert square.constraint_lipschitz == pytest.approx(2 * (1 + 2**0.5) * 2**0.5)
    assert square.constraint_range == pytest.approx((1 + 2**0.5) ** 2)
    assert square.constraint_smoothness == pytest.approx(2 * 2)  # 2 (G_g^2 + D L)
    assert (square.slater, square.error_bound) == (None, None)

    tight = taut.tightened(ROWS_TOY, 0.25).constants
    assert tight.constraint_range == pytest.approx(base.constraint_range + 0.25)
    assert tight.slater == pytest.approx(0.75)
    assert (tight.gap, tight.error_bound) == (0, None)

    twice = taut.tightened(taut.log_sum_exp(ROWS_TOY, 8.0), 0.25).constants
    assert twice.slater == pytest.approx(0.75 - gap)
    assert twice.gap == pytest.approx(gap)
    assert taut.log_sum_exp(ROWS_TOY, 1.0).constants.slater is None  # ln 4 > 1: no margin is left


def test_log_sum_exp_of_unknown_many_claims_nothing_that_depends_on_their_number():
    known = problems.MOVING.problem.constants.with_values(constraint_count=None)
    soft = taut.log_sum_exp(problems.MOVING.problem.with_constants(known), TEMPERATURE).constants
    assert soft.constraint_count == 1
    assert soft.constraint_lipschitz == 1.0
    assert soft.constraint_smoothness == pytest.approx(TEMPERATURE)
    assert (soft.constraint_range, soft.slater, soft.error_bound) == (None, None, None)


def test_max_takes_the_slope_of_the_first_largest():
    constraints = taut.max_of(ROWS_TOY).constraints
    slope = {
        x: np.asarray(constraints.linearise(jnp.asarray(x), None).pullback(jnp.ones(1)))
        for x in [(0.0, 0.0), (0.5, 0.0), (0.0, -0.5), (-0.5, 0.25)]
    }
    np.testing.assert_array_equal(slope[0.0, 0.0], SIGNS[0])  # all four
    np.testing.assert_array_equal(slope[0.5, 0.0], [1, 1])  # (1, 1) and (1, -1)
    np.testing.assert_array_equal(slope[0.0, -0.5], [1, -1])  # (1, -1) and (-1, -1)
    np.testing.assert_array_equal(slope[-0.5, 0.25], [-1, 1])


def test_constraints_in_parts_have_the_joined_maximum():
    def joined(x):
        return jnp.concatenate([jnp.sum(x, 1) - 1, -x.ravel()])

    random, direction = np.random.default_rng(0).normal(size=(2, 4, 5))
    domain = taut.Ball(9.0, shape=(4, 5))
    in_parts, as_one = (
        taut.max_of(taut.Problem(lambda x, z: z, function, domain)).constraints
        for function in (lambda x: (jnp.sum(x, 1) - 1, -x), joined)
    )
    for x in (random, np.zeros((4, 5)), np.ones((4, 5))):  # the last two with ties
        first, second = (of.linearise(jnp.asarray(x), None) for of in (in_parts, as_one))
        np.testing.assert_array_equal(first.values, second.values)
        np.testing.assert_allclose(
            first.pullback(jnp.ones(1)), second.pullback(jnp.ones(1)), rtol=1e-14
        )
        np.testing.assert_allclose(
            first.pushforward(direction), second.pushforward(direction), rtol=1e-12
        )


# -- Soft maxima: the temperature that the paper forgot
# ----------------------------------------------------------------


def test_without_temperature_the_toy_has_no_feasible_decision():
    """log sum exp g_i = ln(4 cosh x_1 cosh x_2) - 1 >= ln 4 - 1 > 0 for every x."""
    raw = taut.log_sum_exp(ROWS_TOY, 1.0)
    x, data, _ = points("rows")
    by_hand = np.log(4 * np.cosh(x[:, :1]) * np.cosh(x[:, 1:])) - 1
    np.testing.assert_allclose(evaluated(raw.constraints, x, data), by_hand, atol=1e-14)
    with pytest.raises(ValueError, match=r"constraints: got .*>= 0\.386") as error:
        taut.simulate(taut.ClippedOGD(0.1, 4.0), raw, problems.TOY.stream(1, 4)[0])
    bound = float(str(error.value).split(">= ")[1].split(" ")[0])
    assert bound == pytest.approx(np.log(4) - 1, abs=1e-5)


@pytest.mark.parametrize("temperature", [2.0, 20.0, 1e3, 1e9])
def test_soft_maximum_lies_within_its_gap(temperature):
    soft = taut.log_sum_exp(ROWS_TOY, temperature)
    x, data, direction = points("rows")
    values, rows, _ = (np.asarray(a) for a in linearised(soft.constraints, x, data, direction))
    above = values[:, 0] - (SIGNS @ x.T - 1).max(axis=0)
    assert np.all(above >= -1e-15)
    assert np.all(above <= soft.constants.gap + 1e-15)
    assert above[0] == pytest.approx(
        soft.constants.gap
    )  # reached at the centre, where all four tie
    assert np.all(np.isfinite(rows))
    assert np.all(np.linalg.norm(rows[:, 0], axis=1) <= 2**0.5 + 1e-12)


def test_numbers_of_a_transform_are_traced():
    data = problems.TOY.stream(1, 4)[0]
    for transform, first, second in ((taut.log_sum_exp, 5.0, 6.0), (taut.tightened, 0.5, 0.6)):
        taut.simulate(taut.ClippedOGD(0.1, 4.0), transform(ROWS_TOY, first), data, chunk=4)
        gc.collect()  # the transformed problem is gone, its programs belong to the original one
        before = count_compiled()
        taut.simulate(taut.ClippedOGD(0.1, 4.0), transform(ROWS_TOY, second), data, chunk=4)
        assert count_compiled() == before


# -- Margins and smoothing
# ---------------------------------------------------------------------------------------------


def test_tightening_beyond_the_slater_margin_is_refused():
    with pytest.raises(
        ValueError, match=r"rho: got 1; expected less than the problem's Slater margin 1"
    ):
        taut.tightened(ROWS_TOY, 1.0)
    guessed = ROWS_TOY.with_constants(ROWS_TOY.constants.with_values(slater=0.5, estimated=True))
    assert (
        taut.tightened(guessed, 0.7).constants.slater is None
    )  # a sampled margin proves nothing either way


@pytest.mark.parametrize(
    ("transform", "argument"),
    [
        (taut.log_sum_exp, "temperature"),
        (taut.tightened, "rho"),
    ],
)
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), None, "much"])
def test_bad_numbers_are_refused(transform, argument, value):
    with pytest.raises((ValueError, TypeError), match=rf"{argument}: got .*; expected"):
        transform(problems.TOY.problem, value)

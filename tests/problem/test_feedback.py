"""Feedback: what a learner gets to see. Errors have the right size, are drawn once per round, and
bad arguments are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut import files
from taut.problem.feedback import as_feedback
from taut.problem.feedback.delayed import DelayedRound, Pending
from taut.testing.problems import POLYHEDRON

PROBLEM = POLYHEDRON.problem
X = jnp.array([0.1, 0.2, 0.3])
C = jnp.array([1.0, -1.0, 0.5])


def seen(feedback, seed=0, t=1):
    return feedback.seen(PROBLEM.round(C), jax.random.key(seed), jnp.asarray(t, jnp.int32))


def errors(feedback, count=4000):
    """Errors of values, gradients, loss and loss gradient in many rounds."""

    def one(key):
        true, noisy = (
            PROBLEM.round(C),
            feedback.seen(PROBLEM.round(C), key, jnp.asarray(1, jnp.int32)),
        )
        (g, pull, push), (h, noisy_pull, noisy_push) = true.constraints(X), noisy.constraints(X)
        weights = jnp.array([1.0, 0, 0, 0, 0, 2.0])
        return (
            h - g,
            noisy_pull(weights) - pull(weights),
            noisy_push(C) - push(C),
            noisy.loss(X) - true.loss(X),
            noisy.gradient(X) - true.gradient(X),
        )

    return [
        np.asarray(a) for a in jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), count))
    ]


def test_errors_have_mean_zero_and_the_stated_size():
    values, pulled, pushed, loss, gradient = errors(
        taut.Noisy(values=0.3, gradients=0.2, loss=0.5, loss_gradients=0.1)
    )
    sizes = {0.3: values, 0.2 * 5**0.5: pulled, 0.2 * 2.25**0.5: pushed, 0.5: loss, 0.1: gradient}
    for size, found in sizes.items():
        assert np.abs(found.mean(axis=0)).max() < 4 * size / 4000**0.5
        np.testing.assert_allclose(found.std(axis=0), size, rtol=0.06)
    assert abs(np.corrcoef(values[:, 0], values[:, 1])[0, 1]) < 0.06  # rows are independent
    assert abs(np.corrcoef(values[:, 0], loss)[0, 1]) < 0.06


def test_uniform_errors_and_one_scale_per_constraint():
    scales = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.0])
    values, pulled, *_ = errors(taut.Noisy(values=scales, distribution="uniform"))
    assert np.all(np.abs(values).max(axis=0) <= scales)
    np.testing.assert_allclose(values.std(axis=0), scales / 3**0.5, rtol=0.05)
    assert not pulled.any()
    assert taut.Noisy(values=scales, distribution="uniform").values.sigma == pytest.approx(
        0.5 / 3**0.5
    )


def test_a_round_answers_twice_the_same_and_rounds_differ():
    feedback = taut.Noisy(values=0.3)
    one = seen(feedback)
    np.testing.assert_array_equal(one.constraints(X).values, one.constraints(X).values)
    assert np.any(
        np.asarray(seen(feedback, 1).constraints(X).values) != np.asarray(one.constraints(X).values)
    )


def test_a_function_gets_key_round_and_decision():
    noisy = taut.Noisy(values=lambda key, t, x: t * jnp.sum(x) * jnp.ones(6))
    found = seen(noisy, t=3).constraints(X).values - PROBLEM.round(C).constraints(X).values
    np.testing.assert_allclose(found, 3 * 0.6, rtol=1e-12)
    with pytest.raises(
        ValueError, match=r"feedback: the noise function returned shape \(4,\); expected \(6,\)"
    ):
        seen(taut.Noisy(values=lambda key, t, x: jnp.ones(4))).constraints(X)


def test_noise_survives_a_file_except_for_functions():
    plain = taut.Noisy(values=np.array([0.1, 0.2]), loss=0.3, distribution="uniform")
    assert (
        repr(files.unpack(files.pack(plain)))
        == repr(plain)
        == ("Noisy(values=[0.1, 0.2], loss=0.3, distribution='uniform')")
    )

    def wave(key, t, x):
        return jnp.sin(t)

    back = files.unpack(files.pack(taut.Noisy(values=wave)))
    assert repr(back) == "Noisy(values=wave)"
    with pytest.raises(
        ValueError, match="files do not hold the noise function 'wave'; pass feedback"
    ):
        seen(back).constraints(X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (taut.Noisy, "values: got no noise at all"),
        (lambda: taut.Noisy(values=0.0), "values: got no noise at all"),
        (
            lambda: taut.Noisy(values=-0.1),
            "values: got -0.1; expected a scale that is not negative",
        ),
        (lambda: taut.Noisy(values=np.ones((2, 2))), "values: got an array of shape"),
        (lambda: taut.Noisy(loss=float("nan")), "loss: got nan"),
        (
            lambda: taut.Noisy(values=0.1, distribution="cauchy"),
            "distribution: got 'cauchy'; expected one of 'normal'",
        ),
        (lambda: as_feedback("noisy"), "feedback: got 'noisy'; expected taut.FullInformation"),
        (lambda: as_feedback(taut.Noisy), "feedback: got the class Noisy"),
        (
            lambda: seen(taut.Noisy(values=[0.1, 0.2])).constraints(X),
            "got 2 scales of the noise; expected one number per",
        ),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_full_information_needs_no_code():
    assert as_feedback(None) is None
    assert as_feedback(taut.FullInformation()) is None


# -- Batches
# -----------------------------------------------------------------------------------------------------------

ROWS = np.random.default_rng(0).normal(size=(100, 3))


def above(x, row):
    return jnp.stack([row @ x, -(row @ x)]) - 1


def batch(feedback, data=C, seed=0):
    return feedback.seen(
        PROBLEM.round(data), jax.random.key(seed), jnp.asarray(1, jnp.int32)
    ).constraints(X)


def test_batches_are_unbiased_and_all_rows_are_exact():
    values, pull, push = batch(taut.Batched(above, ROWS))
    mean = ROWS.mean(axis=0)
    np.testing.assert_allclose(values, [mean @ X - 1, -mean @ X - 1], atol=1e-14)
    np.testing.assert_allclose(pull(jnp.array([2.0, 0.5])), 1.5 * mean, atol=1e-14)
    np.testing.assert_allclose(push(C), [mean @ C, -mean @ C], atol=1e-14)
    drawn = jax.vmap(
        lambda key: (
            taut.Batched(above, ROWS, 16).seen(PROBLEM.round(C), key, 1).constraints(X).values
        )
    )
    found = np.asarray(drawn(jax.random.split(jax.random.key(1), 4000)))
    np.testing.assert_allclose(found.mean(axis=0), values, atol=4 * found.std() / 4000**0.5)
    np.testing.assert_allclose(found[:, 0].std(), (ROWS @ np.asarray(X)).std() / 4, rtol=0.05)


def test_a_shorter_batch_is_masked():
    data = {"row": jnp.asarray(ROWS[:4]), "mask": jnp.array([1.0, 1.0, 1.0, 0.0])}
    feedback = taut.Batched(lambda x, z: z["row"] @ x, mask=lambda z: z["mask"])
    round = taut.Problem(lambda x, z: x[0], lambda x: x[0], taut.Ball(1.0, shape=3)).round(data)
    found = feedback.seen(round, jax.random.key(0), 1).constraints(X)
    np.testing.assert_allclose(found.values, [ROWS[:3].mean(axis=0) @ X], atol=1e-14)
    np.testing.assert_allclose(found.pullback(jnp.ones(1)), ROWS[:3].mean(axis=0), atol=1e-14)


def test_which_batches_are_covered():
    plain = taut.learner("averaged", PROBLEM, horizon=9, sigma=1.0)
    both = taut.learner("averaged", PROBLEM, horizon=9, sigma=1.0, gradient_sigma=0.5)
    assert plain.uncovered(taut.Batched(above, ROWS)) == ""
    assert "give sigma=... and gradient_sigma=..." in plain.uncovered(taut.Batched(above, ROWS, 16))
    assert both.uncovered(taut.Batched(above, ROWS, 16)) == ""
    assert repr(taut.Batched(above, ROWS, 16)) == "Batched(above, 100 rows, size=16)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: taut.Batched(3), "function: got 3; expected a function of x and a row"),
        (lambda: taut.Batched(above, size=3), "size: got 3; expected it only beside rows"),
        (lambda: taut.Batched(above, ROWS, 0), "size: got 0"),
        (lambda: taut.Batched(above, (ROWS, ROWS[:2])), r"rows: got arrays of lengths \[2, 100\]"),
        (lambda: taut.Batched(above, ROWS, mask=above), "mask: got a function beside rows"),
    ],
)
def test_bad_batches_are_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_a_round_that_arrives_late_is_its_linear_model_at_the_present_decision():
    x, slope = jnp.array([0.5, -0.5]), jnp.array([2.0, 1.0])
    rows = jnp.array([[1.0, 0.0], [3.0, -1.0]])
    measured = Pending(x, jnp.asarray(4.0), slope, jnp.array([0.1, -0.2]), rows, 0, 0)
    late, now = DelayedRound(measured, None), x + jnp.array([0.1, 0.2])
    assert float(late.loss(now)) == pytest.approx(4.0 + 0.2 + 0.2)
    np.testing.assert_allclose(late.gradient(now), slope)
    np.testing.assert_allclose(late.constraints(now).values, [0.2, -0.1])

"""Feedback: what a learner gets to see. Errors have the right size, are drawn once per round, and bad arguments are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut import files
from taut.problem.feedback import as_feedback
from taut.testing.problems import POLYHEDRON

PROBLEM = POLYHEDRON.problem
X = jnp.array([0.1, 0.2, 0.3])
C = jnp.array([1.0, -1.0, 0.5])


def seen(feedback, seed=0, t=1):
    return feedback.seen(PROBLEM.round(C), jax.random.key(seed), jnp.asarray(t, jnp.int32))


def errors(feedback, count=4000):
    """Errors of values, gradients, loss and loss gradient in many rounds."""

    def one(key):
        true, noisy = PROBLEM.round(C), feedback.seen(PROBLEM.round(C), key, jnp.asarray(1, jnp.int32))
        (g, pull, push), (h, noisy_pull, noisy_push) = true.constraints(X), noisy.constraints(X)
        weights = jnp.array([1.0, 0, 0, 0, 0, 2.0])
        return (
            h - g, noisy_pull(weights) - pull(weights), noisy_push(C) - push(C), noisy.loss(X) - true.loss(X),
            noisy.gradient(X) - true.gradient(X),
        )  # fmt: skip

    return [np.asarray(a) for a in jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), count))]


def test_errors_have_mean_zero_and_the_stated_size():
    values, pulled, pushed, loss, gradient = errors(taut.Noisy(values=0.3, gradients=0.2, loss=0.5, loss_gradients=0.1))
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
    assert taut.Noisy(values=scales, distribution="uniform").values.sigma == pytest.approx(0.5 / 3**0.5)


def test_a_round_answers_twice_the_same_and_rounds_differ():
    feedback = taut.Noisy(values=0.3)
    one = seen(feedback)
    np.testing.assert_array_equal(one.constraints(X).values, one.constraints(X).values)
    assert np.any(np.asarray(seen(feedback, 1).constraints(X).values) != np.asarray(one.constraints(X).values))


def test_a_function_gets_key_round_and_decision():
    noisy = taut.Noisy(values=lambda key, t, x: t * jnp.sum(x) * jnp.ones(6))
    found = seen(noisy, t=3).constraints(X).values - PROBLEM.round(C).constraints(X).values
    np.testing.assert_allclose(found, 3 * 0.6, rtol=1e-12)
    with pytest.raises(ValueError, match=r"feedback: the noise function returned shape \(4,\); expected \(6,\)"):
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
    with pytest.raises(ValueError, match="files do not hold the noise function 'wave'; pass feedback"):
        seen(back).constraints(X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (taut.Noisy, "values: got no noise at all"),
        (lambda: taut.Noisy(values=0.0), "values: got no noise at all"),
        (lambda: taut.Noisy(values=-0.1), "values: got -0.1; expected a scale that is not negative"),
        (lambda: taut.Noisy(values=np.ones((2, 2))), "values: got an array of shape"),
        (lambda: taut.Noisy(loss=float("nan")), "loss: got nan"),
        (lambda: taut.Noisy(values=0.1, distribution="cauchy"), "distribution: got 'cauchy'; expected one of 'normal'"),
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

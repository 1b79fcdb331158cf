"""A chunk is compiled into one kernel where XLA can do that, and plays the same rounds where it
cannot."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.compiled import parsed, text_of
from taut.play.compile_key import CompileKey

import taut
from taut import jax_internals
from taut.learners.protocols import side_by_side
from taut.learners.step_experts import StepExperts
from taut.play import kernel, layout
from taut.play.compile import count_compiled
from taut.play.with_feedback import WithFeedback
from taut.problem.programs import programs_of

LEARNER = taut.ClippedOGD(eta=0.1, sigma=4.0)
BALL = taut.Ball(1.0, shape=2)
DATA = np.array([[1.0, 0.5], [0.5, -1.0], [-0.25, 0.75], [1.0, 1.0]])


in_one_kernel = pytest.mark.skipif(
    not jax.__version__.startswith(jax_internals.ONE_KERNEL),
    reason="this version of JAX compiles chunks in pieces",
)


def largest(x, c):
    return jnp.sort(c * x)[-1]


def game(loss):
    return taut.Problem(loss, lambda x: jnp.sum(jnp.abs(x)) - 0.15, BALL)


def played_by_hand():
    """Clipped-OGD in NumPy: x - eta (grad f + [g]+ / (sigma eta) grad g), projected on the ball."""
    x, losses = np.zeros(2), []
    for c in DATA:
        losses.append(np.max(c * x))
        slope = np.where(np.arange(2) == np.argsort(c * x, kind="stable")[-1], c, 0.0)
        violation = max(np.sum(np.abs(x)) - 0.15, 0.0)
        x = x - 0.1 * (slope + violation / 0.4 * np.sign(x))
        x = x / max(1.0, np.linalg.norm(x))
    return losses


def entry_of(problem):
    return parsed(text_of(LEARNER, problem, DATA)).entry


def operations_of(problem):
    """The operations of the program that are not inside a function or a loop."""
    return [
        line
        for line in entry_of(problem).splitlines()
        if " = " in line and " parameter(" not in line
    ]


@in_one_kernel
def test_whole_chunk_is_one_kernel():
    (operation,) = operations_of(game(lambda x, c: c @ x))
    assert 'xla_cpu_small_call="true"' in operation


def test_chunk_with_an_operation_of_a_library_is_in_pieces_and_plays_the_same():
    problem = game(largest)
    assert "small_call" not in entry_of(problem)
    np.testing.assert_allclose(
        taut.simulate(LEARNER, problem, DATA).loss[0], played_by_hand(), atol=1e-15
    )


@in_one_kernel
def test_long_sums_of_several_seeds_are_in_the_kernel():
    problem = taut.Problem(
        lambda x, z: jnp.sum(jnp.log1p(jnp.exp(z * x))),
        lambda x: jnp.sum(x * x) - 1,
        taut.Ball(2.0, shape=100),
    )
    learner = StepExperts(eta=0.1, rate=1.0, penalty=1.0, count=6)
    text = text_of(
        learner, problem, np.ones((10, 2, 100)), seeds=10
    )  # XLA would hand these sums to a library
    assert "small_call" in parsed(text).entry


def test_seeds_are_side_by_side_unless_rounds_take_several_steps():
    problem, data = game(lambda x, c: c @ x), np.stack([DATA] * 3)
    for learner in (LEARNER, taut.HalfSpace(eta=0.1, diameter=2.0)):
        round = parsed(text_of(learner, problem, data, seeds=3)).all
        assert ("f64[3,2]" in round) is side_by_side(learner)
    assert side_by_side(LEARNER)
    assert not side_by_side(learner)
    assert not side_by_side(WithFeedback(learner, taut.FullInformation()))


@in_one_kernel
def test_operation_that_xla_refuses_in_a_kernel_is_noticed_and_compiled_once(monkeypatch):
    monkeypatch.setattr(
        kernel, "SEPARATE", frozenset()
    )  # as if Fourier transforms were operations that we do not know
    problem = game(lambda x, c: jnp.sum(jnp.fft.irfft(jnp.fft.rfft(c * x), 2)))
    expected = taut.simulate(LEARNER, game(lambda x, c: c @ x), DATA).loss
    np.testing.assert_allclose(taut.simulate(LEARNER, problem, DATA).loss, expected, atol=1e-15)
    (replacement,) = (
        value for value in programs_of(problem).values() if isinstance(value, CompileKey)
    )
    assert not replacement.whole
    before = count_compiled()
    taut.simulate(LEARNER, problem, 2 * DATA)
    assert count_compiled() == before


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [(layout, "HUGE", 1), (jax_internals, "_forced", True), (jax_internals, "ONE_KERNEL", "0.9.")],
)
def test_large_decisions_plain_jax_and_other_versions_are_in_pieces(
    module, name, value, monkeypatch
):
    monkeypatch.setattr(module, name, value)
    assert len(operations_of(game(lambda x, c: c @ x))) > 10


def test_products_of_matrices_are_no_part_of_a_kernel():
    def separate(function, *shapes):
        traced = jax.make_jaxpr(function)(*(jnp.ones(shape) for shape in shapes))
        return [kernel._is_separate(equation) for equation in traced.eqns]

    assert separate(jnp.matmul, (3, 4), (4, 5)) == [True]
    assert separate(jnp.matmul, (3, 4), (4,)) == [False]
    assert any(separate(jnp.outer, (3,), (4,))) is False  # a product of numbers, without a sum
    assert separate(
        lambda a, b: jax.lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,)))), (2, 3, 4), (2, 4)
    ) == [False]


def test_empty_data_are_no_argument_of_a_kernel():
    problem = taut.Problem(
        lambda x, z: jnp.sum(x) + jnp.sum(z["none"]), lambda x: jnp.sum(x) - 1, BALL
    )
    run = taut.simulate(LEARNER, problem, {"none": np.zeros((3, 0))})
    np.testing.assert_allclose(run.loss[0], [0.0, -0.2, -0.4])


def test_an_error_of_a_callback_is_not_tried_again():
    calls = []

    def measured(x):
        calls.append(x)
        if len(calls) == 3:
            raise RuntimeError("the sensor failed once")
        return np.zeros((), x.dtype)

    def loss(x, c):
        return c @ x + jax.lax.stop_gradient(
            jax.pure_callback(measured, jax.ShapeDtypeStruct((), x.dtype), jax.lax.stop_gradient(x))
        )

    with pytest.raises(Exception, match="the sensor failed once"):
        taut.simulate(LEARNER, game(loss), DATA)

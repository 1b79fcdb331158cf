"""A second call with the same objects is prepared from memory, and never with the numbers of another call."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.play import layout
from taut.problem.programs import CALLS, programs_of


class _State(NamedTuple):
    x: jax.Array


DATA = np.tile([1.0, -0.5], (6, 1))


@pytest.fixture
def toy():
    return taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))


@pytest.fixture
def laid_out(monkeypatch):
    made, of = [], layout.Layout.of
    monkeypatch.setattr(layout.Layout, "of", lambda *given: made.append(given) or of(*given))
    return made


def test_the_same_call_is_laid_out_once(toy, laid_out):
    learner = taut.ClippedOGD(0.1, 4.0)
    first, again = (taut.simulate(learner, toy, DATA) for _ in range(2))
    assert len(laid_out) == 1
    assert np.array_equal(first.loss, again.loss)
    taut.simulate(learner, toy, DATA + 1)  # other data of the same shape
    assert len(laid_out) == 1


def test_other_numbers_are_not_taken_for_the_same(toy, laid_out):
    learner, other = taut.ClippedOGD(0.1, 4.0), taut.ClippedOGD(0.2, 4.0)
    calls = [
        lambda: taut.simulate(learner, toy, DATA),
        lambda: taut.simulate(other, toy, DATA),
        lambda: taut.simulate(learner, toy, DATA, x1=[0.5, 0.5]),
        lambda: taut.simulate(learner, toy, DATA, x1=[0.5, -0.5]),
        lambda: taut.simulate([learner, other], toy, DATA),
        lambda: taut.simulate(learner, toy, DATA[:5]),
        lambda: taut.simulate(learner, toy, DATA, record="decisions"),
        lambda: taut.simulate(learner, toy, DATA, score=taut.max_of(toy)),
    ]
    fresh = [call().final.tolist() for call in calls]
    assert len(laid_out) == len(calls)
    assert [call().final.tolist() for call in calls] == fresh
    assert fresh[0] != fresh[1]
    assert fresh[0] != fresh[2]
    assert fresh[2] != fresh[3]
    assert len(fresh[4]) == 2


def test_an_argument_that_only_compares_equal_is_checked_again(toy):
    learner = taut.ClippedOGD(0.1, 4.0)
    taut.simulate(learner, toy, DATA, horizon=1, every=1)
    with pytest.raises(TypeError, match="every"):
        taut.simulate(learner, toy, DATA, horizon=1, every=True)


def test_a_problem_that_is_gone_is_not_taken_for_one_in_its_place(toy):
    learner = taut.ClippedOGD(0.5, 4.0)
    for radius in np.linspace(0.1, 0.9, 9):  # later problems may get the memory, and so the identity, of earlier ones
        problem = taut.Problem(toy.loss, toy.constraints.function, taut.Ball(radius, shape=2))
        assert np.linalg.norm(taut.simulate(learner, problem, DATA).final) == pytest.approx(radius)
        del problem


def test_two_problems_with_the_same_functions_keep_their_domains(toy):
    small = taut.Problem(toy.loss, toy.constraints.function, taut.Ball(0.1, shape=2))
    learner = taut.ClippedOGD(0.5, 4.0)
    assert programs_of(small) is programs_of(toy)
    finals = [np.linalg.norm(taut.simulate(learner, p, DATA).final) for p in (toy, small, toy, small)]
    assert finals[0] == finals[2] > 0.2
    assert finals[1] == finals[3] <= 0.1 + 1e-12


def test_a_parameter_that_is_changed_in_place_is_noticed(toy):
    @taut.learner_dataclass
    class Scaled(taut.Learner):
        scale: np.ndarray

        def init(self, x1, constraints):
            return _State(x1)

        def step(self, state, round):
            return _State(round.project(state.x - self.scale * round.gradient(state.x)))

    scale = np.array([0.1, 0.1])
    learner = Scaled(scale)
    before = taut.simulate(learner, toy, DATA).final
    scale[:] = 0.2
    assert not np.array_equal(taut.simulate(learner, toy, DATA).final, before)


def test_few_layouts_are_kept(toy):
    for k in range(CALLS + 5):
        taut.simulate(taut.ClippedOGD(0.1 + k / 100, 4.0), toy, DATA)
    assert len(programs_of(toy).calls.values()) == CALLS


def test_short_and_long_simulations_agree(toy):
    data = np.random.default_rng(0).normal(size=(layout.FEW + 1, 2))
    learner = taut.ClippedOGD(0.1, 4.0)
    short, long = taut.simulate(learner, toy, data[:-1]), taut.simulate(learner, toy, data)
    assert np.array_equal(short.loss[0], long.loss[0, :-1])

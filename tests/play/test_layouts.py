"""A second call with the same objects is prepared from memory, and never with the numbers of
another call."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.play import calls, layout
from taut.play.compile import count_compiled
from taut.problem.programs import CALLS, programs_of


class _State(NamedTuple):
    x: jax.Array


DATA = np.tile([1.0, -0.5], (6, 1))
STEADY = taut.ClippedOGD(0.1, 4.0)


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


def everything(run):
    """All numbers of a run, with their types."""
    arrays = [run.loss, run.excess, run.decisions, run.final, run.first, *vars(run.totals).values()]
    shape = run.horizon, run.seeds, run.every, run.learner, run.feedback
    return shape, [
        None if array is None else (array.dtype, array.shape, array.tobytes()) for array in arrays
    ]


def test_calls_from_memory_give_what_calls_without_memory_give(toy, laid_out, monkeypatch):
    learner, other = taut.ClippedOGD(0.1, 4.0), taut.ClippedOGD(0.2, 4.0)
    scored = taut.Problem(
        lambda x, c: 2 * c @ x, lambda x: jnp.abs(x).sum() - 0.5, taut.Ball(1.0, shape=2)
    )
    wider = taut.Problem(scored.loss, lambda x: jnp.abs(x).sum() - 0.25, taut.Ball(1.0, shape=2))
    pair = np.stack([DATA, 2 * DATA])
    options = [
        {"stream": (4 * DATA).astype(int)},
        {},
        {"unproven": True},
        {"learner": other},
        {"learner": [learner]},
        {"learner": (learner, other)},
        {"learner": "half-space"},
        {"x1": np.array([0.5, 0.5])},
        {"x1": np.array([0.5, -0.5])},
        {"x1": np.array([0.5, 0.5], np.float32)},
        {"stream": DATA[:5]},
        {"x1": np.zeros(2, np.float32)},
        {"x1": np.zeros(2, np.int32)},
        {"stream": jnp.asarray(3 * DATA)},
        {"horizon": 4},
        {"stream": pair, "seeds": 2},
        {"record": "decisions"},
        {"record": ("decisions", "loss"), "every": 2},
        {"record": ("decisions", "loss"), "every": 3},
        {"score": scored},
        {"score": wider},
        {"feedback": taut.Delayed(1), "unproven": True},
    ]

    def play(given):
        return taut.simulate(
            given.get("learner", learner),
            toy,
            given.get("stream", DATA),
            **{name: value for name, value in given.items() if name not in ("learner", "stream")},
        )

    monkeypatch.setattr("taut.problem.programs.CALLS", 100)
    with monkeypatch.context() as without:
        without.setattr(calls.Call, "again", lambda self: None)
        expected = [everything(play(given)) for given in options]
    assert (
        len(set(map(repr, expected))) == len(options) - 2
    )  # zeros as x1 and `unproven` change nothing
    laid_out.clear()
    for order in (range(len(options)), reversed(range(len(options)))):
        for i in order:
            assert everything(play(options[i])) == expected[i], options[i]
    assert laid_out == []
    taut.simulate(learner, toy, DATA, chunk=16)  # the same numbers, but another program
    assert len(laid_out) == 1


def test_data_that_are_changed_in_place_are_other_data(toy, laid_out):
    learner, data = taut.ClippedOGD(0.1, 4.0), DATA.copy()
    first = taut.simulate(learner, toy, data).loss
    data *= 2
    assert np.array_equal(taut.simulate(learner, toy, data).loss[0, :4], 4 * first[0, :4])
    data[3] = np.nan
    with pytest.raises(ValueError, match="not finite in round 4"):
        taut.simulate(learner, toy, data)
    assert len(laid_out) == 1


def test_another_precision_is_another_call(toy):
    learner = taut.ClippedOGD(0.1, 4.0)
    assert taut.simulate(learner, toy, DATA).final.dtype == np.float64
    jax.config.update("jax_enable_x64", False)
    try:
        assert taut.simulate(learner, toy, DATA).final.dtype == np.float32
    finally:
        jax.config.update("jax_enable_x64", True)
    assert taut.simulate(learner, toy, DATA).final.dtype == np.float64


def test_random_numbers_are_drawn_for_every_call(toy, laid_out):
    options = {"feedback": taut.Noisy(loss_gradients=0.1), "unproven": True}
    learner = taut.ClippedOGD(0.1, 4.0)
    finals = [
        taut.simulate(learner, toy, DATA, key=key, **options).final.tolist()
        for key in (None, jax.random.key(1), None, jax.random.key(0))
    ]
    assert finals[0] == finals[2] == finals[3] != finals[1]
    assert len(laid_out) == 4


def _double(x, c):
    return 2 * c @ x


def _triple(x, c):
    return 3 * c @ x


def test_problems_with_the_identity_of_another_that_is_gone_are_not_taken_for_it(toy, monkeypatch):
    same = lambda one: 0 if isinstance(one, taut.Problem) else id(one)  # noqa: E731, Python may give identities twice
    monkeypatch.setattr(calls, "id", same, raising=False)
    for radius in (0.1, 0.3, 0.1):
        problem = taut.Problem(toy.loss, toy.constraints.function, taut.Ball(radius, shape=2))
        assert np.linalg.norm(taut.simulate(STEADY, problem, 9 * DATA).final) == pytest.approx(
            radius
        )
    for loss, factor in ((_double, 2), (_triple, 3), (None, 1), (_double, 2)):
        score = (
            None
            if loss is None
            else taut.Problem(loss, toy.constraints.function, taut.Ball(1.0, shape=2))
        )
        assert taut.simulate(STEADY, toy, DATA, score=score).loss[0, 1] == pytest.approx(
            factor * -0.125
        )


def test_learners_that_are_gone_are_not_taken_for_those_in_their_place(toy):
    for k in range(2 * CALLS):
        step = 0.01 * (k % 7 + 1)
        learner = taut.ClippedOGD(step, 4.0)
        assert taut.simulate(learner, toy, DATA[:2]).final[0, 0] == pytest.approx(-2 * step)
        del learner


def test_a_start_that_is_changed_in_place_is_another_start(toy):
    x1 = np.array([0.5, 0.5])
    for at in ([0.5, 0.5], [0.25, 0.5]):
        x1[:] = at
        assert taut.simulate(STEADY, toy, DATA, x1=x1).first.tolist() == at


def test_masks_are_seen_in_every_call(toy):
    data = np.ma.array(DATA, mask=False)
    taut.simulate(STEADY, toy, data)
    taut.simulate(STEADY, toy, DATA)
    data[2, 0] = np.ma.masked
    with pytest.raises(TypeError, match="masked"):
        taut.simulate(STEADY, toy, data)


def test_a_problem_that_arranges_its_data_does_so_in_every_call(toy):
    class Doubled(taut.Problem):
        def arrange(self, z):
            return 2 * np.asarray(z)

    doubled = Doubled(toy.loss, toy.constraints.function, taut.Ball(1.0, shape=2))
    expected = taut.simulate(STEADY, toy, 2 * DATA).loss.tolist()
    assert [taut.simulate(STEADY, doubled, DATA).loss.tolist() for _ in range(2)] == [expected] * 2


def test_an_argument_that_only_compares_equal_is_checked_again(toy):
    learner = taut.ClippedOGD(0.1, 4.0)
    taut.simulate(learner, toy, DATA, horizon=1, every=1)
    with pytest.raises(TypeError, match="every"):
        taut.simulate(learner, toy, DATA, horizon=1, every=True)


def test_two_problems_with_the_same_functions_keep_their_domains(toy):
    small = taut.Problem(toy.loss, toy.constraints.function, taut.Ball(0.1, shape=2))
    learner = taut.ClippedOGD(0.5, 4.0)
    assert programs_of(small) is programs_of(toy)
    finals = [
        np.linalg.norm(taut.simulate(learner, p, DATA).final) for p in (toy, small, toy, small)
    ]
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


@pytest.mark.parametrize("few", layout.FEW)
def test_short_and_long_simulations_agree(toy, few):
    data = np.random.default_rng(0).normal(size=(few + 1, 2))
    learner = taut.ClippedOGD(0.1, 4.0)
    before = count_compiled()
    short, long = taut.simulate(learner, toy, data[:-1]), taut.simulate(learner, toy, data)
    assert count_compiled() == before + 2
    assert np.array_equal(short.loss[0], long.loss[0, :-1])

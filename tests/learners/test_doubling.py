"""The doubling trick: epoch boundaries, restarts, and the same play as a Python loop of separate
learners."""

import json
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut import files
from taut.judge.guarantees import setting_of, standing
from taut.play.compile import count_compiled
from taut.testing import playing, problems

ROUNDS = 60


def clipped(horizon):
    return taut.ClippedOGD.tuned(problems.TOY.problem.constants, horizon)


def saddle(horizon):
    return taut.SaddlePoint.mahdavi(problems.TOY.problem.constants, horizon)


def queues(horizon):
    return taut.DriftPlusPenalty.tuned(problems.TOY.problem.constants, horizon)


MAKERS = [clipped, saddle, queues]


@pytest.fixture(autouse=True, scope="module")
def _quick():
    with playing.quick_compilation():
        yield


@cache
def data():
    return problems.TOY.stream(1, ROUNDS, seed=2)[0]


def play(learner, rounds, x1=None):
    """Chunks of 64 whatever the number of rounds: a learner kind is compiled once."""
    record = ("decisions", "multipliers")
    return taut.simulate(learner, problems.TOY.problem, rounds, x1=x1, chunk=64, record=record)


def epochs(first, rounds):
    """Epoch k plays 2^k rounds; (k, its rounds from 0) until the data end."""
    k, start = first, 0
    while start < rounds:
        yield k, slice(start, min(start + 2**k, rounds))
        start += 2**k
        k += 1


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_equals_a_loop_of_separate_learners(make, warm):
    learner = taut.Doubling.of(make, warm=warm)
    x1 = np.array(
        [0.3, -0.2]
    )  # not the centre: a restart is at the first decision, wherever that is
    run = play(learner, data(), x1)
    decisions, multipliers, start = [], [], x1
    for k, rounds in epochs(learner.first, ROUNDS):
        part = play(make(2**k), data()[rounds], start)
        decisions.append(part.decisions[0])
        multipliers.append(part.multipliers[0])
        start = part.final[0] if warm else x1
    np.testing.assert_allclose(run.decisions[0], np.concatenate(decisions), rtol=0, atol=1e-13)
    np.testing.assert_allclose(run.multipliers[0], np.concatenate(multipliers), rtol=0, atol=1e-11)


def test_warm_and_cold_differ_only_after_the_first_epoch():
    cold, warm = (
        play(taut.Doubling.of(clipped, warm=warm, first=3), data()).decisions[0]
        for warm in (False, True)
    )
    np.testing.assert_array_equal(cold[:8], warm[:8])
    np.testing.assert_array_equal(
        cold[[0, 8, 24, 56]], 0
    )  # rounds 1, 9, 25, 57 begin an epoch, at the centre
    assert np.all(np.any(warm[[8, 24, 56]] != 0, axis=1))


def test_state_counts_epochs_and_rounds_left():
    learner = taut.Doubling.of(clipped, first=1)
    round = problems.TOY.problem.round(jnp.asarray([0.6, 0.8]))
    step = jax.jit(lambda state: learner.step(state, round))
    state, seen = learner.init(jnp.zeros(2), 1), []
    for _ in range(15):
        seen.append((int(state.epoch), int(state.left)))
        state = step(state)
    assert seen == [
        (epoch, left) for epoch in range(3) for left in range(2 ** (epoch + 1), 0, -1)
    ] + [(3, 16)]


def test_parameters_of_every_epoch_are_those_of_its_horizon():
    learner = taut.Doubling.of(clipped, first=2)
    for epoch in (0, 1, 5, 28):
        inner = learner.at(jnp.asarray(epoch))
        assert float(inner.eta.value) == pytest.approx(
            clipped(2 ** (epoch + 2)).eta.value, rel=1e-15
        )


def test_first_epoch_is_the_shortest_that_the_method_accepts():
    # Mahdavi et al. need 8 eta^2 (m+1) G^2 <= 1. Toy: (m+1) G^2 = 4, eta^2 = 1 / (6 T), so T >=
    # 32/6: 8 rounds.
    with pytest.raises(ValueError, match="horizon: got 4"):
        saddle(4)
    assert taut.Doubling.of(saddle).first == 3
    assert taut.Doubling.of(clipped).first == 0


def test_is_compiled_once_for_all_epochs_and_parameters():
    play(taut.Doubling.of(clipped), data())
    before = count_compiled()
    play(taut.Doubling.of(lambda horizon: taut.ClippedOGD(0.3 / horizon**0.5, 5.0)), data()[:11])
    assert count_compiled() == before


def test_is_shown_in_one_line_by_its_first_epoch():
    learner = taut.Doubling.of(lambda horizon: taut.ClippedOGD(1 / horizon, 4.0), first=7)
    inner = "ClippedOGD(eta=Constant(value=0.0078125), sigma=4.0)"
    assert repr(learner) == f"Doubling(24 epochs: {inner} for 2^7 rounds, ... 2^30)"
    warm = taut.Doubling.of(lambda horizon: taut.ClippedOGD(2 / horizon, 4.0), warm=True)
    assert (
        repr(warm)
        == "Doubling(31 warm epochs: ClippedOGD(eta=Constant(value=2.0), sigma=4.0) for 2^0 "
        "rounds, ... 2^30)"
    )
    shown = []
    jax.eval_shape(lambda traced: shown.append(repr(traced)), learner)
    assert shown == ["Doubling(24 epochs: ClippedOGD for 2^7 rounds, ... 2^30)"]
    run = taut.simulate(learner, problems.TOY.problem, data())
    assert run.certificate().learner == repr(learner)


def secretive(horizon):
    raise ValueError("horizons are a secret")


def test_refuses_what_it_cannot_double():
    with pytest.raises(TypeError, match="make: got 3"):
        taut.Doubling.of(3)
    with pytest.raises(TypeError, match="make: got learners of different kinds"):
        taut.Doubling.of(lambda horizon: clipped(horizon) if horizon > 4 else queues(horizon))
    with pytest.raises(ValueError, match="make: got a function that refuses every horizon"):
        taut.Doubling.of(lambda horizon: saddle(0))
    with pytest.raises(ValueError, match="horizons are a secret"):
        taut.Doubling.of(secretive)
    for first in (-1, 31):
        with pytest.raises(ValueError, match=f"first: got {first}"):
            taut.Doubling.of(clipped, first=first)


def test_costs_the_known_factor_at_most():
    """Theorem 1's bound R G_f sqrt((m+1) T) for every epoch, summed: sqrt(2)/(sqrt(2)-1) times that
    of one horizon."""
    rounds = 2**10 - 1  # ten whole epochs
    stream = problems.TOY.stream(1, rounds, seed=11)[0]
    learner = taut.Doubling.of(clipped)
    run = taut.simulate(learner, problems.TOY.problem, stream, chunk=1023, record=())
    regret = run.totals.loss[0] - problems.TOY.best(stream)[1]
    assert (
        regret
        <= sum((2 * 2**k) ** 0.5 for k in range(10))
        <= (2 * rounds) ** 0.5 * 2**0.5 / (2**0.5 - 1)
    )


def test_a_refuted_error_bound_does_not_hide_the_bounds_that_do_without_it():
    problem = taut.testing.problems.TOY.problem
    learner = taut.learner("clipped-ogd-doubling", problem)
    found = [g for g in learner.guarantees(setting_of(problem), 200) if g.quantity == "violation"]
    smallest = min(found, key=lambda g: g.bound)
    assert "error_bound" in smallest.assumptions
    without = [g for g in found if "error_bound" not in g.assumptions]
    assert without
    assert min(g.bound for g in without) > smallest.bound
    assert standing(found, {"error_bound"})["violation"].guarantee in without


def test_epochs_in_a_file_are_checked_one_by_one():
    made = taut.Doubling.of(lambda horizon: taut.HalfSpace(1 / horizon, 2.0, memory=3))
    packed = json.loads(json.dumps(files.pack(made)))
    assert files.same(files.pack(files.unpack(packed)), files.pack(made))
    packed["fields"]["epochs"]["fields"]["diameter"]["array"][7] = -2.0
    with pytest.raises(ValueError, match="diameter: got -2; expected a positive number"):
        files.unpack(packed)
    del packed["fields"]["epochs"]["fields"]["diameter"]["array"][7]
    with pytest.raises(ValueError, match=r"file: got epochs with parameters of \[30, 31\] entries"):
        files.unpack(packed)


def test_a_learner_that_is_not_stacked_is_refused_by_its_parameter():
    with pytest.raises(
        ValueError, match=r"epochs: got a learner whose parameter \.\w+.* has shape \(\)"
    ):
        taut.Doubling(taut.ClippedOGD(0.1, 4.0), first=3)

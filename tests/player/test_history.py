"""The memory of a live player: bounded, exact for the last rounds, thinned evenly before, and part
of its file."""

import json

import numpy as np
import pytest

import taut
from small_games import FOUR, GAME, ROUNDS, targets
from taut.player.memory import History


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 17, 40, 333])
def test_the_last_rounds_are_all_there_and_earlier_ones_are_multiples_of_a_spacing(count):
    history = History(constraints=2, size=3, rows=8)
    for t in range(1, count + 1):
        history.add(np.array([t, -t, 2 * t, *3 * [10.0 * t]], float))
    rounds = history.rounds
    assert rounds[-8:].tolist() == list(range(max(1, count - 7), count + 1))
    assert len(rounds) <= 16
    early = rounds[:-8]
    if len(early) > 1:
        assert len(set(np.diff(early))) == 1
        assert early[0] == np.diff(early)[0]
        assert early[-1] + early[0] > rounds[-8] - 1 - early[0]  # no gap before the recent rounds
    np.testing.assert_array_equal(history.loss, rounds)
    np.testing.assert_array_equal(history.excess[:, 1], 2 * rounds)
    np.testing.assert_array_equal(history.decision[:, 2], 10 * rounds)


def test_memory_is_bounded_for_large_decisions():
    history = History(constraints=10, size=100_000)
    for _ in range(30):
        history.add(np.zeros(100_011))
    assert history.decision.nbytes < 2**24


@pytest.mark.parametrize("rounds", [5, 700])
def test_a_loaded_player_remembers_the_same_and_goes_on_alike(rounds, tmp_path):
    learner, data = taut.ClippedOGD(0.3, 20.0), targets(rounds=rounds + 3)
    one = taut.Player(learner, GAME)
    for z in data[:rounds]:
        one.observe(z)
    one.save(tmp_path / "player")
    two = taut.Player.load(tmp_path / "player", GAME)
    for z in data[rounds:]:
        one.observe(z)
        two.observe(z)
    for name in ("rounds", "loss", "excess", "decision"):
        np.testing.assert_array_equal(getattr(one.history, name), getattr(two.history, name))


def test_the_history_is_what_a_simulation_records():
    learner = taut.ClippedOGD(0.3, 20.0)
    run = taut.simulate(learner, FOUR, targets(), record=("loss", "excess", "decisions"))
    player = taut.Player(learner, FOUR)
    for z in targets().tolist():  # lists are taken as arrays
        player.observe(z)
    np.testing.assert_allclose(player.history.loss, run.loss[0])
    np.testing.assert_allclose(player.history.excess.max(axis=1), run.excess[0])
    np.testing.assert_allclose(player.history.decision, run.decisions[0])


def test_the_state_fits_into_json():
    player = taut.Player(taut.ClippedOGD(0.3, 20.0), FOUR)
    player.observe(gradient=[1.0, 0.0], excess=[-1.0] * 4, jacobian=np.zeros((4, 2)))
    state = json.loads(json.dumps(player.state(), allow_nan=False))
    assert state["round"] == 2
    assert state["decision"] == player.decision.tolist()
    assert state["totals"]["loss"] is None  # the loss of this round was not observed
    assert state["totals"]["excess"] == [-1.0] * 4
    assert ROUNDS == 60

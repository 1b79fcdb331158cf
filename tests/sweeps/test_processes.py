"""Threads, processes and copies: nothing is lost, and what cannot work is refused with a
sentence."""

import copy
import pickle
import threading

import jax
import joblib
import numpy as np
import pytest
from joblib.externals import loky

import taut
from small_games import ALL, GAME, assert_bit_equal, targets
from subprocesses import run_in_single_precision

CLIPPED = taut.ClippedOGD(0.3, 5.0)


def test_no_observation_is_lost_between_threads(tmp_path):
    player, z = taut.Player(CLIPPED, GAME), targets(rounds=400)
    player.observe(z[0])
    failures = []

    def work(part):
        try:
            for point in part:
                player.observe(point)
                assert player.totals.loss > 0
                assert player.decision.shape == (2,)
            player.save(tmp_path / "player.npz")
        except BaseException as error:  # a thread has no other way to fail the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(z[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert player.round == 402
    assert int(player._state().game.learner.t) == 402
    assert taut.Player.load(tmp_path / "player.npz", GAME).round <= 402
    assert len(list(tmp_path.iterdir())) == 1


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copied_player_goes_on_by_itself(way):
    z = targets(rounds=20)
    player = taut.Player(CLIPPED, GAME, x1=[0.1, 0.2])
    for point in z[:10]:
        player.observe(point)
    other = COPIES[way](player)
    before = player.decision
    for point in z[10:]:
        other.observe(point)
    np.testing.assert_array_equal(player.decision, before)
    for point in z[10:]:
        player.observe(point)
    np.testing.assert_array_equal(player.decision, other.decision)
    assert player.totals.loss == other.totals.loss
    with pytest.raises(ValueError, match="z: got data of shape"):
        COPIES[way](player).observe(np.zeros(3))  # data keep their shape


def reveal(t, x, key):
    return jax.random.normal(key, (2,), x.dtype) - x


@pytest.mark.parametrize("way", COPIES)
def test_a_copied_run_is_the_same(way):
    for run in (
        taut.simulate(CLIPPED, GAME, targets(), record=ALL),
        taut.simulate(CLIPPED, GAME, reveal, horizon=9, seeds=2, record=ALL),
    ):
        other = COPIES[way](run)
        assert_bit_equal(run, other)
        assert other.learner == run.learner
    np.testing.assert_array_equal(
        taut.play.replay.revealed_data(run), taut.play.replay.revealed_data(other)
    )


@pytest.mark.parametrize("way", COPIES)
def test_a_copied_problem_plays_the_same(way):
    taut.simulate(CLIPPED, GAME, targets())
    assert_bit_equal(
        taut.simulate(CLIPPED, COPIES[way](GAME), targets()),
        taut.simulate(CLIPPED, GAME, targets()),
    )
    assert COPIES[way](CLIPPED) == CLIPPED


def go_on(parts):
    """Play in another process: a simulation from the start, a player from where it was."""
    learner, problem, player, z = parts
    run = taut.simulate(learner, problem, z, record=ALL)
    for point in z:
        player.observe(point)
    return player, run, problem, learner


def by_joblib(jobs):
    results = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(go_on)(job) for job in jobs)
    loky.get_reusable_executor().shutdown(wait=True)
    return results


def test_learners_problems_players_and_runs_travel_to_other_processes_and_back(monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")  # for the new processes
    jobs = []
    for seed in range(2):
        player = taut.Player(CLIPPED, GAME)
        player.observe(targets(seed=9)[0])
        jobs.append((CLIPPED, GAME, player, targets(seed=seed)))
    results = by_joblib(jobs)
    for job, (player, run, problem, learner) in zip(jobs, results, strict=True):
        mine, own_run, *_ = go_on(job)
        assert_bit_equal(run, own_run)
        np.testing.assert_array_equal(player.decision, mine.decision)
        assert (player.round, player.totals.loss) == (mine.round, mine.totals.loss)
        assert learner == CLIPPED
        assert_bit_equal(taut.simulate(learner, problem, job[3], record=ALL), own_run)


def test_a_player_in_64_bits_is_not_unpickled_in_32():
    pickled = pickle.dumps(taut.Player(CLIPPED, GAME))
    with (
        jax.enable_x64(False),
        pytest.raises(ValueError, match=r"player: got one in float64; expected .*JAX_ENABLE_X64=1"),
    ):
        pickle.loads(pickled)


def test_a_player_of_a_problem_that_cannot_be_pickled_is_refused_by_name():
    for way in (pickle.dumps, copy.deepcopy):
        player = taut.Player(
            CLIPPED,
            taut.Problem(lambda x, z: (x - z) @ x, lambda x: x - 2, taut.Ball(1.0, shape=2)),
        )
        if way is copy.deepcopy:  # functions are not copied, so this works
            assert way(player).round == 1
            continue
        with pytest.raises((pickle.PicklingError, AttributeError, TypeError), match="lambda"):
            way(player)


FORKED = """
import os, warnings
import numpy as np, taut
warnings.simplefilter("ignore")
problem = taut.Problem(lambda x, z: ((x - z) ** 2).sum(), lambda x: x - 2, taut.Ball(1.0, shape=2))
player = taut.Player(taut.ClippedOGD(0.1, 4.0), problem)
def refused(call):
    try:
        call()
    except RuntimeError as error:
        return "forked from one in which JAX had already started" in str(error)
pid = os.fork()
if pid == 0:
    right = refused(lambda: player.observe(np.zeros(2)))
    right &= refused(lambda: taut.simulate(taut.ClippedOGD(0.1, 4.0), problem, np.zeros((3, 2))))
    right &= refused(lambda: taut.Player(taut.ClippedOGD(0.1, 4.0), problem))
    os._exit(0 if right else 1)
_, status = os.waitpid(pid, 0)
player.observe(np.zeros(2))
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(taut.engine.os, "fork"), reason="needs fork")
def test_a_fork_after_jax_has_started_is_refused_with_a_sentence():
    assert run_in_single_precision(FORKED).strip() == "0"

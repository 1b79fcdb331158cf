"""`memory=None`: all cuts are kept, and the memory grows as it is played."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.play import simulation
from taut.player import player as live
from taut.player.file import contents, unpickled

ROUNDS, SEEDS = 40, 2


def tangents():
    """Every round shows another tangent of a ball, so that new cuts keep coming."""
    rng = np.random.default_rng(0)
    normals = rng.normal(size=(SEEDS, ROUNDS, 2))
    costs = rng.normal(size=(SEEDS, 1, 2)) + 0.8 * rng.normal(size=(SEEDS, ROUNDS, 2))
    return {"c": costs, "a": normals / np.linalg.norm(normals, axis=-1, keepdims=True)}


@pytest.fixture(scope="module")
def played():
    game = taut.Problem(
        lambda x, z: z["c"] @ x, lambda x, z: z["a"] @ x - 0.3, taut.Ball(1.0, shape=2)
    )
    learner = taut.HalfSpace(0.2, 2.0, memory=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "ROOM", 5)
        grown, padded = [], simulation.Simulation._padded
        patch.setattr(
            simulation.Simulation,
            "_padded",
            lambda self, carry: grown.append(self.room) or padded(self, carry),
        )
        run = taut.simulate(learner, game, tangents(), seeds=SEEDS, record=("decisions",), chunk=16)
    assert grown == [20]  # in a later chunk; the first one begins anew with more room
    return game, run


@pytest.mark.long
def test_a_memory_that_grows_is_a_large_one(played):
    game, run = played
    assert run.learner.memory is None
    learner = taut.HalfSpace(0.2, 2.0, memory=ROUNDS, sweeps=None)
    large = taut.simulate(learner, game, tangents(), seeds=SEEDS, record=("decisions",))
    np.testing.assert_allclose(run.decisions, large.decisions, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.totals.worst_violation, large.totals.worst_violation)
    assert run.cuts_hold.all()
    # All earlier rows hold, up to rounding, from the round after the first violation on.
    rows = tangents()["a"]
    for seed in range(SEEDS):
        x, a = run.decisions[seed], rows[seed]
        values = x @ a.T - 0.3  # (round of the decision, row)
        late = [
            values[t, s] for s in range(ROUNDS) if values[s, s] > 0 for t in range(s + 1, ROUNDS)
        ]
        assert max(late) < 1e-12


def test_no_round_leads_away_from_later_decisions_by_more_than_its_step(played):
    """The inequality (*) from which H9 bounds the path."""
    _, run = played
    for seed in range(SEEDS):
        x = np.concatenate([run.decisions[seed], run.final[seed][None]])
        apart = np.linalg.norm(x[:, None] - x[None], axis=-1)
        steps = 0.2 * np.linalg.norm(tangents()["c"][seed], axis=-1)
        for t in range(ROUNDS):
            later = slice(t + 1, None)
            assert np.all(apart[t + 1, later] <= apart[t, later] + steps[t] + 1e-12)


def test_the_bound_is_the_path_of_the_decisions(played):
    _, run = played
    rows = {row.quantity: row for row in run.certificate().rows}
    together = np.concatenate([run.decisions, run.final[:, None]], axis=1)
    path = np.linalg.norm(np.diff(together, axis=1), axis=-1).sum(axis=1).max()
    assert rows["violation"].theorem == "half-space, H9 all cuts"
    assert rows["violation"].bound == pytest.approx(path + (np.pi**2 / 6 - 1) * 2, rel=1e-9)
    assert rows["violation"].holds


def test_a_player_makes_room_and_plays_what_a_simulation_plays(played, tmp_path, monkeypatch):
    game, run = played
    monkeypatch.setattr(live, "ROOM", 5)
    player = taut.Player(run.learner, game, count=1)
    data, path = tangents(), tmp_path / "player.npz"
    for t in range(ROUNDS):
        np.testing.assert_allclose(player.decision, run.decisions[0, t], rtol=0, atol=1e-12)
        room = player._room
        player.observe({name: array[0, min(t, array.shape[1] - 1)] for name, array in data.items()})
        if player._room > room:  # also what `undo` brings back has grown
            player.undo()
            np.testing.assert_allclose(player.decision, run.decisions[0, t], rtol=0, atol=1e-12)
            player.observe({name: array[0, t] for name, array in data.items()})
        if t == 25:
            player.save(path)
            player = taut.Player.load(path, game)
            assert player.learner.memory is None
    assert player._room > 5
    assert player.cuts_hold
    np.testing.assert_allclose(player.decision, run.final[0], rtol=0, atol=1e-12)


def test_a_file_that_asks_for_more_room_than_it_fills_is_refused(played, tmp_path):
    game, run = played
    player = taut.Player(run.learner, game, count=1)
    saved, arrays = contents(player)
    for room in (10**9, 0, "64"):
        with pytest.raises(ValueError, match=r"numbers, but it contains|room is"):
            unpickled(run.learner, game, {**saved, "room": room}, arrays)


def test_nothing_else_makes_room(played, tmp_path):
    game, _ = played
    learner = taut.HalfSpace(0.2, 2.0, memory=None)
    with pytest.raises(ValueError, match="memory: got None"):
        taut.Player(learner, game, count=1, feedback=taut.Noisy(0.1), unproven=True)
    with pytest.raises(ValueError, match="memory: got None"):
        taut.Player(taut.Advised(learner), game, count=1)
    with pytest.raises(ValueError, match="memory: got None"):
        taut.Fleet(learner, game, ["a"], count=1)
    with pytest.raises(ValueError, match="memory: got None"):
        learner.init(jnp.zeros(2), 1)
    with pytest.raises(ValueError, match="checkpoint: got a folder and a learner that keeps all"):
        taut.simulate(learner, game, tangents(), seeds=SEEDS, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="memory: got None"):
        taut.simulate(
            learner, game, tangents(), seeds=SEEDS, feedback=taut.Noisy(0.1), unproven=True
        )


def test_all_cuts_are_kept_for_ever(played):
    game, _ = played  # whose constraints take data, so that cuts have lifetimes by default
    assert taut.learner("half-space", game).life is not None
    assert taut.learner("half-space", game, memory=None).life is None
    with pytest.raises(ValueError, match="life: got 8 with memory=None"):
        taut.HalfSpace(0.2, 2.0, memory=None, life=8)

"""Half-space is played without exact projections until a round needs one."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.learners.protocols import Shortened, Shortens
from taut.play import simulation

ROUNDS, SEEDS, CHUNK = 48, 3, 16
LEAST = np.sin(0.03)
"""Normals of a thin wedge: sweeps alone come nearer to its apex by a factor close to 1."""


@pytest.fixture(scope="module")
def game():
    return taut.Problem(
        lambda x, z: z["c"] @ x,
        lambda x, z: LEAST * x[0] + z["s"] * x[1] - 2 * (1 - z["w"]),
        taut.Ball(1.0, shape=2),
    )


def wedge(begins):
    """In round t of a seed the constraint is one side of a wedge, but before `begins` a wide one."""
    rng = np.random.default_rng(3)
    costs = rng.normal(size=(SEEDS, ROUNDS, 2)) + np.array([-1.0, 0.2])
    signs = np.where(np.arange(ROUNDS) % 2, 1.0, -1.0) * np.ones((SEEDS, 1))
    narrow = (np.arange(ROUNDS)[None] >= np.asarray(begins)[:, None]).astype(float)
    return {"c": costs, "s": signs, "w": narrow}


def played(game, data, monkeypatch, **options):
    """Return the run, and the rounds before the chunks that were played again."""
    again, whole = [], simulation.Simulation.whole
    with monkeypatch.context() as patch:
        patch.setattr(
            simulation.Simulation,
            "whole",
            lambda self: again.append(1) or whole(self),
        )
        learner = taut.learner("half-space", game, life=None)
        run = taut.simulate(
            learner, game, data, seeds=SEEDS, record=("decisions", "loss"), chunk=CHUNK, **options
        )
    return run, len(again)


@pytest.mark.parametrize("begins", [(0, 0, 0), (40, 99, 20), (99, 99, 44)])
def test_a_chunk_is_played_again_where_sweeps_do_not_do(game, begins, monkeypatch):
    data = wedge(begins)
    run, again = played(game, data, monkeypatch)
    with taut.engine.passes("reductions", "options", "kernel"):  # named, so nothing is shortened
        whole, never = played(game, data, monkeypatch)
    assert (again, never) == (1, 0)
    np.testing.assert_allclose(run.decisions, whole.decisions, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.loss, whole.loss, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(run.cuts_hold, whole.cuts_hold)
    np.testing.assert_allclose(run.totals.violation, whole.totals.violation, rtol=0, atol=1e-12)


def test_nothing_is_played_again_where_sweeps_do(game, monkeypatch):
    data = wedge((99, 99, 99))
    run, again = played(game, data, monkeypatch)
    assert again == 0
    assert run.cuts_hold.all()


def test_a_checkpointed_run_is_whole_from_the_start(game, monkeypatch, tmp_path):
    data = wedge((99, 20, 99))
    run, again = played(game, data, monkeypatch)
    saved, _ = played(game, data, monkeypatch, checkpoint=tmp_path / "run")
    assert again == 1
    np.testing.assert_allclose(saved.decisions, run.decisions, rtol=0, atol=1e-12)


def test_only_sweeps_fall_short(game):
    learner = taut.learner("half-space", game)
    assert isinstance(learner, Shortens)
    assert not isinstance(learner, Shortened)
    assert isinstance(learner.shortened(), Shortened)
    assert repr(run_learner(game)) == repr(learner)
    exact = taut.learner("half-space", game, sweeps=None)
    assert exact.shortened() is exact


def run_learner(game):
    """The learner of a run is the user's."""
    return taut.simulate(
        taut.learner("half-space", game), game, wedge((99,) * 3), seeds=SEEDS
    ).learner


@taut.learner_dataclass
class EverySecondRound(taut.HalfSpace):
    """A learner of somebody else, which does not move in even rounds."""

    def step(self, state, round):
        after = super().step(state, round)
        return after._replace(x=jnp.where(state.t % 2 == 0, state.x, after.x))


def test_a_subclass_plays_its_own_step(game):
    learner = EverySecondRound(0.1, 2.0, memory=4)
    assert learner.shortened() is learner
    run = taut.simulate(learner, game, wedge((99,) * 3), seeds=SEEDS, record=("decisions",))
    assert type(run.learner) is EverySecondRound
    np.testing.assert_array_equal(run.decisions[:, 2::2], run.decisions[:, 1:-1:2])
    assert np.all(run.decisions[:, 1::2] != run.decisions[:, :-1:2])

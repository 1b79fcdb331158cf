"""Feedback in simulations, players, comparisons and certificates: the learner sees the noise,
scores are those of the truth."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.learners import DualMirror
from taut.play.compile import count_compiled
from taut.play.with_feedback import WithFeedback
from taut.testing.playing import quick_compilation
from taut.testing.problems import POLYHEDRON

PROBLEM = POLYHEDRON.problem
ROUNDS, SEEDS = 40, 3
DATA = POLYHEDRON.stream(SEEDS, ROUNDS)
SAME = {"seeds": SEEDS, "chunk": 16, "record": ("loss", "excess", "decisions")}
LEARNER = taut.learner("averaged", PROBLEM, horizon=ROUNDS, sigma=0.3)
NOISE = taut.Noisy(values=0.3)


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    with quick_compilation():
        yield


@pytest.fixture(scope="module")
def noisy(compile_quickly):
    return taut.simulate(LEARNER, PROBLEM, DATA, feedback=NOISE, **SAME)


def test_full_information_is_the_program_without_feedback():
    plain = taut.simulate(LEARNER, PROBLEM, DATA, **SAME)
    compiled = count_compiled()
    full = taut.simulate(LEARNER, PROBLEM, DATA, feedback=taut.FullInformation(), **SAME)
    assert count_compiled() == compiled
    assert full.feedback is None
    np.testing.assert_array_equal(full.decisions, plain.decisions)


def test_scores_are_those_of_the_true_problem(noisy):
    values = np.einsum(
        "srd,md->srm",
        noisy.decisions,
        np.asarray(jax.jacobian(PROBLEM.constraints.function)(jnp.ones(3))),
    )
    values += np.asarray(PROBLEM.constraints.function(jnp.zeros(3)))
    np.testing.assert_allclose(noisy.excess, values.max(axis=-1), atol=1e-12)
    np.testing.assert_allclose(noisy.loss, np.sum(DATA * noisy.decisions, axis=-1), atol=1e-12)


def test_noise_depends_on_key_and_seed_and_on_nothing_else(noisy):
    again = taut.simulate(LEARNER, PROBLEM, DATA, feedback=NOISE, key=jax.random.key(0), **SAME)
    np.testing.assert_array_equal(again.decisions, noisy.decisions)
    other = taut.simulate(LEARNER, PROBLEM, DATA, feedback=NOISE, key=jax.random.key(1), **SAME)
    assert np.any(other.decisions != noisy.decisions, axis=(1, 2)).all()
    repeated = np.repeat(DATA[:1], SEEDS, axis=0)
    run = taut.simulate(LEARNER, PROBLEM, repeated, feedback=NOISE, **SAME)
    assert np.any(run.decisions[0] != run.decisions[1])  # the same data, other noise
    np.testing.assert_array_equal(run.decisions[0], noisy.decisions[0])
    longer = taut.simulate(LEARNER, PROBLEM, DATA, feedback=NOISE, **SAME | {"chunk": 64})
    np.testing.assert_allclose(longer.decisions, noisy.decisions, atol=1e-12)


def test_a_larger_scale_is_the_same_program(noisy):
    compiled = count_compiled()
    louder = taut.simulate(
        LEARNER, PROBLEM, DATA, feedback=taut.Noisy(values=0.6), unproven=True, **SAME
    )
    assert count_compiled() == compiled
    assert np.any(louder.decisions != noisy.decisions)


def test_an_adversary_and_noise_can_be_played_again():
    def reveal(t, x, key):
        return jax.random.normal(key, (3,)) - x

    run = taut.simulate(
        LEARNER,
        PROBLEM,
        reveal,
        horizon=8,
        feedback=taut.Noisy(values=0.3),
        seeds=2,
        record=("loss", "decisions"),
    )
    data = taut.play.replay.revealed_data(run)
    np.testing.assert_allclose(np.sum(data * run.decisions, axis=-1), run.loss, atol=1e-12)
    wrapped = WithFeedback(LEARNER, NOISE)
    state = wrapped.seeded(wrapped.init(jnp.zeros(3), 6), run.key[0])
    assert np.any(
        state.key != jax.random.key_data(run.key[0])
    )  # the adversary's numbers are not those of the noise


def test_a_player_plays_the_simulation_and_survives_a_file(noisy, tmp_path):
    key = jax.random.split(jax.random.key(0), SEEDS)[1]
    player = taut.Player(LEARNER, PROBLEM, feedback=NOISE, key=key)
    for t in range(6):
        np.testing.assert_allclose(player.decision, noisy.decisions[1, t], atol=1e-12)
        player.observe(DATA[1, t])
    assert player.totals.loss == pytest.approx(noisy.loss[1, :6].sum())
    player.save(tmp_path / "player")
    for revived in (
        taut.Player.load(tmp_path / "player", PROBLEM),
        pickle.loads(pickle.dumps(_module_player(player))),
    ):
        revived.observe(DATA[1, 6])
        np.testing.assert_allclose(revived.decision, noisy.decisions[1, 7], atol=1e-12)
        assert repr(revived.feedback) == repr(NOISE)
    with pytest.raises(
        ValueError, match=r"feedback: got Noisy\(values=0.1\), but .* is by Noisy\(values=0.3\)"
    ):
        taut.Player.load(tmp_path / "player", PROBLEM, feedback=taut.Noisy(values=0.1))


def _module_player(player):
    return player


def test_a_checkpoint_continues_and_other_noise_is_refused(noisy, tmp_path):
    def wave(scale):
        return lambda key, t, x: scale * jax.random.normal(key, (6,))

    call = {"feedback": taut.Noisy(values=wave(0.3)), "unproven": True, **SAME}
    whole = taut.simulate(LEARNER, PROBLEM, DATA, checkpoint=tmp_path, **call)
    again = taut.simulate(LEARNER, PROBLEM, DATA, checkpoint=tmp_path, **call)
    np.testing.assert_array_equal(again.decisions, whole.decisions)
    other = call | {"feedback": taut.Noisy(values=wave(0.4))}
    with pytest.raises(ValueError, match="different feedback"):
        taut.simulate(LEARNER, PROBLEM, DATA, checkpoint=tmp_path, **other)
    with pytest.raises(ValueError, match="different feedback"):
        taut.simulate(LEARNER, PROBLEM, DATA, checkpoint=tmp_path, **SAME)


def test_a_run_keeps_its_feedback_in_a_file(noisy, tmp_path):
    noisy.save(tmp_path / "run.nc")
    back = taut.Run.load(tmp_path / "run.nc")
    assert repr(back.feedback) == "Noisy(values=0.3)"
    assert "Noisy(values=0.3)" in str(back)
    first, second = (
        run.certificate(problem=PROBLEM, stream=DATA, seeds=SEEDS) for run in (noisy, back)
    )  # played again, with the same noise
    assert str(first) == str(second)


def test_feedback_without_a_guarantee_is_refused_and_the_certificate_says_so():
    learner = taut.learner("clipped-ogd", PROBLEM, horizon=ROUNDS)
    with pytest.raises(
        ValueError,
        match="feedback: the guarantees of ClippedOGD are proven for full information only",
    ):
        taut.simulate(learner, PROBLEM, DATA, feedback=NOISE, seeds=SEEDS)
    with pytest.raises(ValueError, match="pass unproven=True"):
        taut.Player(learner, PROBLEM, feedback=NOISE)
    run = taut.simulate(learner, PROBLEM, DATA, feedback=NOISE, unproven=True, seeds=SEEDS)
    certificate = run.certificate(check=False)
    assert certificate.outcome == "no guarantee stands"
    assert all(row.guarantee is None for row in certificate.rows)
    assert "Feedback: Noisy(values=0.3). No guarantee covers it" in str(certificate)
    with pytest.raises(ValueError, match="DualMirror sees a round before its decision"):
        taut.Player(DualMirror(0.1, 40), PROBLEM, feedback=NOISE, unproven=True)


def test_a_covered_run_holds(noisy):
    certificate = noisy.certificate()
    assert certificate.outcome == "holds"
    assert "Feedback: Noisy(values=0.3). The guarantees cover it." in str(certificate)
    assert "zero-mean errors" in str(certificate)
    assert {row.theorem for row in certificate.rows if row.bound} == {
        "averaged, N1 (probability 1 - 2/T)"
    }


def test_compare_plays_all_learners_with_the_same_noise(noisy):
    found = taut.compare(
        {"averaged": LEARNER, "again": LEARNER},
        PROBLEM,
        DATA,
        seeds=SEEDS,
        feedback=NOISE,
        timing=False,
    )
    np.testing.assert_array_equal(
        found.values["averaged"]["mean loss"], found.values["again"]["mean loss"]
    )
    np.testing.assert_allclose(
        found.values["again"]["mean loss"] * ROUNDS, noisy.totals.loss, rtol=1e-12
    )

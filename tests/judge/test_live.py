"""Certificates of players: one round among many refutes a constant, files keep the extremes,
nothing is claimed too much."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.assumptions import GIVEN, PROBED, REFUTED, VERIFIED
from taut.player import steps

CONSTANTS = {
    "loss_lipschitz": 1.0,
    "constraint_lipschitz": 2**0.5,
    "constraint_range": 1.0,
    "loss_range": 2.0,
}
LEARNER = taut.ClippedOGD(eta=0.05, sigma=4.0)


def linear(x, c):
    return c @ x


def diamond(x):
    return jnp.abs(x).sum() - 1


def toy(**constants):
    return taut.Problem(
        linear, diamond, taut.Ball(1.0, shape=2), taut.Constants(**{**CONSTANTS, **constants})
    )


def costs(rounds=600):
    c = np.random.default_rng(3).normal(size=(rounds, 2))
    return c / np.linalg.norm(c, axis=1, keepdims=True)


def played(problem, data, learner=LEARNER, **options):
    player = taut.Player(learner, problem, **options)
    for z in data:
        player.observe(z)
    return player


def status(certificate):
    return {one.name: one.status for one in certificate.assumptions}


@pytest.fixture(scope="module")
def calm():
    return played(toy(), costs())


def test_extremes_are_those_of_all_rounds_by_hand(calm):
    data = costs()
    run = taut.simulate(LEARNER, toy(), data, record=("decisions",))
    x = run.decisions[0]
    excess, loss = np.abs(x).sum(axis=1) - 1, np.sum(data * x, axis=1)
    found = calm.extremes
    for extreme, values in (
        (found.loss_lipschitz, np.linalg.norm(data, axis=1)),
        (found.constraint_range, np.abs(excess)),
        (found.loss_range, np.abs(loss)),  # the loss at the centre is 0
    ):
        assert extreme.value == pytest.approx(values.max(), rel=1e-12)
        assert values[extreme.round - 1] == pytest.approx(values.max(), rel=1e-12)
        np.testing.assert_allclose(extreme.decision, x[extreme.round - 1], atol=1e-13)
    assert found.constraint_lipschitz.value == pytest.approx(2**0.5)
    assert found.clipping.squares == pytest.approx(600)
    assert (found.since, found.rounds) == (1, 600)


@pytest.mark.parametrize(
    ("name", "false"),
    [
        ("loss_lipschitz", 0.9),
        ("constraint_lipschitz", 1.0),
        ("constraint_range", 0.5),
        ("loss_range", 0.3),
    ],
)
def test_a_false_constant_is_refuted_with_the_round_as_witness(name, false):
    player = played(toy(**{name: false}), costs(300))
    certificate = player.certificate()
    (refuted,) = [one for one in certificate.refuted if one.name == name]
    assert refuted.witness["round"] == getattr(player.extremes, name).round
    assert "seed" not in refuted.witness
    assert all(
        row.bound is None
        for row in certificate.rows
        if row.guarantee and name in row.guarantee.assumptions
    )


def test_one_gradient_among_many_rounds_is_seen_before_and_after_a_file(tmp_path):
    data = costs()
    data[313] *= 300
    problem = toy(loss_range=None)
    player = played(problem, data)
    player.save(tmp_path / "player")
    for one in (player, taut.Player.load(tmp_path / "player", problem)):
        (refuted,) = (
            found for found in one.certificate().refuted if found.name == "loss_lipschitz"
        )
        assert (refuted.name, refuted.witness["round"]) == ("loss_lipschitz", 314)
        assert "300 in round 314" in refuted.detail
        assert one.certificate().outcome == "no guarantee stands"


def test_the_certificate_agrees_with_that_of_the_same_simulation(calm):
    data = costs()
    run = taut.simulate(LEARNER, calm.problem, data).certificate()
    live = calm.certificate(stream=data)
    for mine, theirs in zip(live.rows, run.rows, strict=True):
        assert mine.quantity == theirs.quantity
        assert mine.worst == pytest.approx(theirs.worst, rel=1e-9)
        assert mine.bound == pytest.approx(theirs.bound, rel=1e-9)
    assert live.outcome == run.outcome == "holds"
    assert status(live) == status(run)


def test_without_data_regret_and_convexity_are_not_claimed(calm):
    certificate = calm.certificate()
    assert certificate.rows[0].quantity == "regret"
    assert certificate.rows[0].worst is None
    assert "keeps no data" in certificate.notes[0]
    found = status(certificate)
    assert found["convex losses"] == found["convex constraints"] == GIVEN
    assert found["loss_lipschitz"] == PROBED


def test_other_data_than_those_observed_are_refused(calm):
    with pytest.raises(ValueError, match="stream: got data with which the loss of round"):
        calm.certificate(stream=costs()[::-1])
    with pytest.raises(ValueError, match="expected the data of the 600 rounds"):
        calm.certificate(stream=costs()[:10])
    with pytest.raises(ValueError, match="before its first round"):
        taut.Player(LEARNER, calm.problem).certificate()


def test_a_decision_that_was_not_the_learners_voids_its_guarantees():
    player = taut.Player(taut.learner("half-space", toy()), toy())
    for z in costs(20):
        player.observe(z, played=np.zeros(2))
    certificate = player.certificate()
    assert certificate.outcome == "no guarantee stands"
    assert "20 rounds another decision was played" in certificate.rows[1].reasons[0]


def test_measured_rounds_count_and_their_loss_range_stays_unknown():
    player = taut.Player(LEARNER, toy())
    for z in costs(5):
        player.observe(gradient=7 * z, excess=[-0.5], jacobian=[[1.0, 1.0]])
    assert player.extremes.loss_lipschitz.value == pytest.approx(7)
    assert player.extremes.loss_range is None
    found = status(player.certificate())
    assert (found["loss_lipschitz"], found["loss_range"]) == (REFUTED, GIVEN)


def test_many_constraints_cost_one_gradient(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(40, 8))
    problem = taut.Problem(linear, lambda x: rows @ x - 0.1, taut.Ball(1.0, shape=8))
    data = np.random.default_rng(1).normal(size=(30, 8))
    assert rows.size > steps.ALL_ROWS
    found = played(problem, data).extremes
    assert (
        found.constraint_lipschitz.value
        == found.constraint_slope
        <= np.linalg.norm(rows, axis=1).max()
    )
    monkeypatch.setattr(steps, "ALL_ROWS", rows.size)
    again = taut.Problem(linear, lambda x: rows @ x - 0.1, taut.Ball(1.0, shape=8))
    assert played(again, data).extremes.constraint_lipschitz.value == pytest.approx(
        np.linalg.norm(rows, axis=1).max()
    )


def test_policy_regret_of_a_player_with_memory_is_that_of_its_run():
    def cost(x, z, previous):
        return z @ x + 0.1 * jnp.sum((x - previous) ** 2)

    problem = taut.Problem(cost, diamond, taut.Ball(1.0, shape=2), previous=True)
    data, learner = costs(50), taut.learner("half-space", problem)
    player = played(problem, data, learner)
    agrees(player.certificate(stream=data), taut.simulate(learner, problem, data).certificate())
    facts = player.certificate()
    rows = {row.quantity: row for row in facts.rows}
    assert rows["adaptive-adversary regret"].worst is None  # a player keeps no data
    assert rows["adaptive-adversary regret"].bound is not None
    with pytest.raises(ValueError, match="expected the problem, the data"):
        player.certificate(stream=data[::-1])


def agrees(live, run):
    """Two certificates have the same rows."""
    assert [row.quantity for row in live.rows] == [row.quantity for row in run.rows]
    for mine, theirs in zip(live.rows, run.rows, strict=True):
        for one, other in ((mine.worst, theirs.worst), (mine.bound, theirs.bound)):
            assert (one is None) == (other is None), mine.quantity
            if one is not None:
                assert one == pytest.approx(other, rel=1e-9, abs=1e-9), mine.quantity
    assert live.outcome == run.outcome


def test_announced_constraints_have_certificates_with_and_without_data():
    def ramps(x, z, previous):
        return jnp.concatenate([x - previous, previous - x]) - 0.05

    problem = taut.Problem(linear, diamond, taut.Ball(1.0, shape=2), previous=True, announced=ramps)
    data = costs(50)
    player = played(problem, data, taut.learner("half-space", problem))
    run = taut.simulate("half-space", problem, data).certificate()
    agrees(player.certificate(stream=data), run)
    facts = player.certificate()
    rows = {row.quantity: row for row in facts.rows}
    peak = rows["peak violation of announced constraints"]
    assert (peak.worst, peak.bound, peak.holds) == (0.0, 0.0, True)
    assert status(facts)["announced constraints hold in all rounds"] == VERIFIED
    led = "enforcing announced constraints does not lead away from the comparator"
    assert status(facts)[led] == GIVEN
    player.observe(data[0], played=player.decision)
    told = player.certificate(stream=np.concatenate([data, data[:1]]))
    assert "not used, because in some rounds another decision" in " ".join(told.notes)

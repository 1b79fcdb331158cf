"""Announced constraints are enforced before a decision is played; what was really played can differ
from the decision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import assert_bit_equal
from taut.learners.protocols import Announced

SEEDS, ROUNDS, RAMP = 3, 40, 0.05
BOX = taut.Box(-1.0, 1.0, shape=2)
ALL = ("loss", "excess", "decisions")


def cost(x, z):
    return z @ x


def total(x):
    return jnp.sum(x) - 0.7


def ramps(x, z, previous):
    return jnp.concatenate([x - previous - RAMP, previous - x - RAMP])


def priced(x, z):
    return z["cost"] @ x


def capacity(x, z):
    return x[0] - z["capacity"]


RAMPED = taut.Problem(cost, total, BOX, previous=True, announced=ramps, domain_binds=True)
CAPPED = taut.Problem(priced, total, BOX, announced=capacity, domain_binds=True)
LEARNER = taut.learner("half-space", RAMPED)


def data(rounds=ROUNDS):
    return np.random.default_rng(0).normal(size=(SEEDS, rounds, 2)) - 0.3


def limited():
    return {"cost": data(), "capacity": np.random.default_rng(1).uniform(0, 1, (SEEDS, ROUNDS))}


@pytest.fixture(scope="module")
def ramped():
    return taut.simulate(LEARNER, RAMPED, data(), seeds=SEEDS, record=ALL, chunk=10)


def test_ramps_are_never_violated_although_the_learner_wants_to_go_further(ramped):
    run = ramped
    moves = np.abs(np.diff(run.decisions, axis=1)).max(axis=-1)
    assert run.totals.peak.shape == (SEEDS, 5)
    assert np.all(run.totals.peak[:, 1:] == 0)  # exactly
    assert np.mean(moves > 0.999 * RAMP) > 0.1  # the limits matter
    free = taut.simulate(LEARNER, taut.Problem(cost, total, BOX), data(), seeds=SEEDS, score=RAMPED)
    assert free.totals.peak[:, 1:].max() > 0.02


def test_announced_constraints_that_complain_in_words_of_taut_need_data():
    def careful(x, z):
        if z is None:
            raise ValueError("announced: no capacity")
        return x[0] - z["capacity"]

    problem = taut.Problem(priced, total, BOX, announced=careful, domain_binds=True)
    run = taut.simulate(LEARNER, problem, limited(), seeds=SEEDS)
    assert np.all(run.totals.peak[:, 1] == 0)
    with pytest.raises(ValueError, match="announced_count: got None"):
        taut.Player(problem)
    with pytest.raises(TypeError, match="announced: got truth values"):
        taut.Player(taut.Problem(cost, total, BOX, announced=lambda x, z: x[0] <= 1))


def test_without_a_need_the_decision_is_not_touched():
    wide = taut.Problem(
        cost, total, BOX, previous=True, announced=lambda x, z, q: jnp.sum((x - q) ** 2) - 100.0
    )
    plain = taut.simulate(LEARNER, taut.Problem(cost, total, BOX), data(), seeds=SEEDS, record=ALL)
    np.testing.assert_allclose(
        taut.simulate(LEARNER, wide, data(), seeds=SEEDS, record=ALL).decisions,
        plain.decisions,
        atol=1e-14,
    )


@pytest.mark.parametrize("domain", [taut.Ball(1.0, shape=2), taut.Simplex(2)])
def test_curved_rows_on_other_domains_hold_exactly_too(domain):
    problem = taut.Problem(
        cost, None, domain, previous=True, announced=lambda x, z, q: jnp.sum((x - q) ** 2) - 1e-3
    )
    run = taut.simulate("half-space", problem, data(), seeds=SEEDS, record=ALL)
    assert run.totals.peak.shape == (SEEDS, 1)
    assert np.all(run.totals.peak == 0)
    lengths = np.linalg.norm(np.diff(run.decisions, axis=1), axis=-1)
    assert 0.9 * 1e-3**0.5 < lengths.max() <= 1e-3**0.5


def test_the_step_is_the_projection_where_rows_are_parallel_to_the_box():
    """By hand: learn from the unconstrained decision, then clip to the ramps and to the box."""
    learner = taut.HalfSpace(0.3, 2.0)
    problem = taut.Problem(
        cost, None, BOX, previous=True, announced=ramps, start=np.array([0.2, -0.2])
    )
    run = taut.simulate(learner, problem, data()[0], record=ALL)
    x, before = np.zeros(2), np.array([0.2, -0.2])
    for t in range(ROUNDS):
        x = np.clip(x, before - RAMP, before + RAMP)
        np.testing.assert_allclose(run.decisions[0, t], x, atol=1e-10)
        x, before = np.clip(x - 0.3 * data()[0, t], -1, 1), x


@pytest.fixture(scope="module")
def capped():
    return taut.simulate("half-space", CAPPED, limited(), seeds=SEEDS, record=ALL)


def test_capacities_are_enforced_and_the_bounds_that_remain_hold(capped):
    run = capped
    assert np.all(run.totals.peak[:, 1] == 0)
    certificate = run.certificate()
    rows = {row.quantity: row for row in certificate.rows}
    for name in ("regret", "violation", "squared violation", "peak violation", "excess"):
        assert rows[name].holds, name
        assert rows[name].theorem.endswith("and A1")
    assert rows["peak violation of announced constraints"].bound is None
    best = taut.hindsight(CAPPED, limited(), seeds=SEEDS)
    assert np.all(best.decision[:, 0] <= limited()["capacity"].min(axis=1) + 1e-6)


def test_certificates_check_every_step_into_announced_constraints(ramped):
    certificate = ramped.certificate()
    rows = {row.quantity: row for row in certificate.rows}
    announced = rows["peak violation of announced constraints"]
    assert announced.bound == 0
    assert announced.holds
    assert rows["policy regret"].bound is None  # the ramps led away from the best decision
    assert any("does not lead away" in one.name and one.refuted for one in certificate.assumptions)


@pytest.mark.long
def test_policy_regret_has_a_bound_where_ramps_are_never_touched():
    slow = taut.HalfSpace(0.001, 2.0)
    rows = {
        row.quantity: row
        for row in taut.simulate(slow, RAMPED, data(), seeds=SEEDS).certificate().rows
    }
    assert "loss_lipschitz" in rows["policy regret"].guarantee.assumptions  # which is proven
    assert rows["policy regret"].holds
    assert rows["violation"].holds


def test_a_player_enforces_them_also_after_a_restart(ramped, tmp_path):
    run = ramped
    player = taut.Player(LEARNER, RAMPED)
    for t in range(ROUNDS):
        np.testing.assert_allclose(player.decision, run.decisions[0, t], atol=1e-13)
        if t == 9:
            player.save(tmp_path / "player.npz")
            player = taut.Player.load(tmp_path / "player.npz", RAMPED)
        player.observe(data()[0, t])
    assert np.all(player.totals.peak[1:] == 0)
    np.testing.assert_allclose(player.history.decision[-1], run.decisions[0, -1], atol=1e-13)


def test_a_player_is_told_what_is_announced(capped):
    z, run = limited(), capped
    player = taut.Player(CAPPED, announced_count=1)
    for t in range(10):
        with pytest.raises(
            TypeError, match=rf"of round {t + 1} are not known; call player.announce"
        ):
            _ = player.decision
        decision = player.announce({"capacity": z["capacity"][0, t]})
        np.testing.assert_allclose(decision, run.decisions[0, t], atol=1e-13)
        np.testing.assert_array_equal(player.decision, decision)
        player.observe({name: values[0, t] for name, values in z.items()})
    with pytest.raises(ValueError, match="z: got a value that is not finite in round 11"):
        player.announce({"capacity": np.nan})
    with pytest.raises(ValueError, match="announced_count: got None"):
        taut.Player(CAPPED)
    with pytest.raises(TypeError, match="no announced constraints"):
        taut.Player(taut.Problem(cost, total, BOX)).announce(1.0)


@pytest.mark.long
def test_resume_and_rescaled_problems_enforce_them(ramped, tmp_path):
    taut.simulate(LEARNER, RAMPED, data(), seeds=SEEDS, record=ALL, chunk=10, checkpoint=tmp_path)
    assert_bit_equal(
        taut.simulate(
            LEARNER, RAMPED, data(), seeds=SEEDS, record=ALL, chunk=10, checkpoint=tmp_path
        ),
        ramped,
    )
    known = RAMPED.with_constants(taut.Constants(loss_lipschitz=6.0, constraint_lipschitz=1.5))
    run = taut.simulate("half-space", taut.rescaled(known), data(), seeds=SEEDS, record=ALL)
    moves = np.abs(np.diff(run.decisions, axis=1)).max() * taut.rescaled(known).units.decision
    assert moves <= RAMP * (1 + 1e-12)
    assert np.all(run.totals.peak[:, 1:] == 0)


def test_an_adversary_sees_the_decision_that_is_played():
    def reveal(t, x, key):
        return x

    run = taut.simulate(LEARNER, RAMPED, reveal, horizon=9, x1=[0.5, 0.1], record=ALL)
    np.testing.assert_allclose(run.loss[0], np.sum(run.decisions[0] ** 2, axis=-1), atol=1e-14)
    with pytest.raises(
        ValueError, match="announced: got constraints that depend on the round's data"
    ):
        taut.simulate(
            "half-space", CAPPED, lambda t, x, key: {"cost": x, "capacity": x[0]}, horizon=9
        )


@pytest.mark.parametrize("learner", [taut.ClippedOGD(0.1, 3.0), "ogd", "surrogate-anytime"])
def test_other_learners_refuse_announced_constraints(learner):
    known = RAMPED.with_constants(
        taut.Constants(loss_lipschitz=6.0, constraint_lipschitz=1.5, constraint_range=3.0)
    )
    with pytest.raises(TypeError, match="fixes its decision before it sees announced constraints"):
        taut.simulate(learner, known, data(), seeds=SEEDS)
    with pytest.raises(TypeError, match="fixes its decision before"):
        taut.Player(taut.ClippedOGD(0.1, 3.0), RAMPED)


def test_what_was_really_played_is_scored_and_learned_from():
    problem = taut.Problem(cost, total, BOX)
    player, z = taut.Player(taut.ClippedOGD(0.1, 3.0), problem), data()[0]
    player.observe(z[0])
    player.observe(z[1], played=[0.5, 0.4])
    excess = 0.9 - 0.7
    assert player.totals.loss == pytest.approx(z[1] @ [0.5, 0.4])
    assert player.totals.violation == pytest.approx([excess])
    np.testing.assert_allclose(player.history.decision[-1], [0.5, 0.4])
    np.testing.assert_allclose(player.decision, np.array([0.5, 0.4]) - 0.1 * z[1] - excess / 3)


def test_what_was_really_played_is_the_previous_decision_of_the_next_round():
    player = taut.Player(LEARNER, RAMPED)
    player.observe(data()[0, 0], played=[0.6, -0.6])
    assert np.all(
        player.totals.peak[1:] == pytest.approx([0.6 - RAMP, 0, 0, 0.6 - RAMP])
    )  # the operator broke the limits
    assert np.abs(player.decision - [0.6, -0.6]).max() <= RAMP
    player.observe(data()[0, 1])
    assert player.totals.peak[1] == pytest.approx(0.6 - RAMP)


@pytest.mark.parametrize(
    ("played", "message"),
    [
        ([2.0, 0.0], "outside the domain"),
        ([0.1], r"got shape \(1,\)"),
        ([np.nan, 0.0], "played: got"),
        ("x", "played"),
    ],
)
def test_a_bad_decision_is_refused_and_changes_nothing(played, message):
    player = taut.Player(LEARNER, RAMPED)
    before = player.decision
    with pytest.raises((TypeError, ValueError), match=message):
        player.observe(data()[0, 0], played=played)
    np.testing.assert_array_equal(player.decision, before)
    assert player.round == 1


def test_learners_that_cannot_go_on_from_another_decision_say_so():
    problem = taut.Problem(
        cost, total, BOX, taut.Constants(loss_lipschitz=6.0, constraint_lipschitz=1.5)
    )
    player = taut.Player(taut.learner("step-experts", problem, horizon=10), problem)
    with pytest.raises(
        TypeError, match=r"played: .* does not go on from a decision that is not its own"
    ):
        player.observe(np.ones(2), played=np.zeros(2))


def test_hindsight_and_steady_problems_take_announced_constraints_as_all_others():
    rest = taut.steady(RAMPED)
    assert rest.announced is None
    assert rest.constraints.values(jnp.zeros(2), jnp.zeros(2)).shape == (5,)
    small = taut.tightened(RAMPED, 0.1)
    assert small.announced is RAMPED.announced
    jax.block_until_ready(
        small.scored_constraints.values(jnp.zeros(2), small.given(jnp.zeros(2), jnp.zeros(2)))
    )


def test_a_recommendation_enforces_announced_constraints():
    known = RAMPED.with_constants(
        taut.Constants(loss_lipschitz=6.0, constraint_lipschitz=1.5, constraint_range=3.0)
    )
    found = taut.recommend(known, 1000)
    assert isinstance(found.learner, Announced)
    assert any("adaptive-adversary regret" in reason for reason in found.reasons)
    assert isinstance(taut.recommend(RAMPED, 1000).learner, Announced)


@pytest.mark.long
def test_the_certificate_gives_no_advice_that_leads_in_a_circle():
    """Playing the steady problem has no bound on policy regret if constraints are announced."""

    def switching(x, z, previous):
        return z @ x + jnp.sum((x - previous) ** 2)

    ramped = taut.Problem(switching, total, BOX, previous=True, announced=ramps)
    data = np.random.default_rng(0).uniform(-1, 0, size=(20, 2))
    for played in (ramped, taut.steady(ramped)):
        run = taut.simulate("half-space", played, data, score=ramped)
        (row,) = [r for r in run.certificate().rows if r.quantity == "policy regret"]
        assert row.bound is None
        assert "with announced constraints there is none" in " ".join(row.reasons)
        assert "taut.steady" not in " ".join(row.reasons)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_rounding_does_not_refute_that_announced_constraints_hold(scale):
    data = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    game = taut.Problem(
        lambda x, c: c @ x,
        lambda x: jnp.abs(x).sum() - 1,
        taut.Box(-1.0, 1.0, shape=2),
        announced=lambda x, c: scale * (c @ x - 0.1 * c[0] ** 2),
    )
    run = taut.simulate(game, data)
    (held,) = (
        one
        for one in run.certificate(best=0.0).assumptions
        if one.name == "announced constraints hold in all rounds"
    )
    assert run.totals.peak[..., -1].max() < 1e-12 * scale
    assert held.status == "verified exactly"


ROWS = taut.Problem(
    lambda x, z: z["c"] @ x,
    lambda x: x.sum() - 3,
    taut.Box(-1.0, 1.0, shape=4),
    announced=lambda x, z: z["a"] @ x - z["b"],
)


def test_several_linear_rows_hold_whenever_some_decision_satisfies_them():
    """Six rows that 0 satisfies; sweeps over half-spaces missed them by up to 3e-3."""
    rng = np.random.default_rng(0)
    player = taut.Player(ROWS, announced_count=6)
    for t in range(150):
        z = {
            "a": rng.normal(size=(6, 4)),
            "b": rng.uniform(0, 0.3, 6) * (t % 3),
            "c": rng.normal(size=4),
        }
        x = player.announce({name: z[name] for name in "ab"})
        assert (z["a"] @ x - z["b"]).max() <= 1e-12 * np.linalg.norm(z["a"], axis=1).max()
        player.observe(z)
    before = player.to_bytes()
    none = {"a": np.repeat([[1.0], [-1.0]], 3, axis=0) * np.ones((6, 4)), "b": -np.ones(6)}
    text = "no decision of the domain satisfies .* round 151; every one exceeds some by 1 at least"
    with pytest.raises(ValueError, match=text):
        player.announce(none)
    player.announce({name: z[name] for name in "ab"})
    with pytest.raises(ValueError, match=r"z\['b'\]: got .* in round 151; expected .* announced"):
        player.observe({**z, "b": z["b"] + 1})
    assert player.to_bytes() == before
    player.observe(z)


def test_curved_rows_hold_whenever_some_decision_satisfies_them():
    """Three balls that have points in common, sometimes hardly more than one."""
    problem = taut.Problem(
        lambda x, z: z["c"] @ x,
        None,
        taut.Box(-1.0, 1.0, shape=4),
        announced=lambda x, z: jnp.sum((x[None] - z["m"]) ** 2, axis=1) - z["r"],
    )
    rng = np.random.default_rng(0)
    player = taut.Player(problem, announced_count=3)
    for _ in range(60):
        centres, inside = rng.normal(size=(3, 4)) / 2, rng.uniform(-0.8, 0.8, 4)
        radii = np.sum((centres - inside) ** 2, axis=1) * rng.uniform(1, 1.2, 3)
        z = {"m": centres, "r": radii, "c": 9 * rng.normal(size=4)}
        x = player.announce({name: z[name] for name in "mr"})
        assert (np.sum((x - centres) ** 2, axis=1) - radii).max() <= 1e-12 * radii.max()
        player.observe(z)

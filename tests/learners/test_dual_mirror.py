"""Dual mirror descent: the request comes first; conformance, three rounds, recursion, budgets,
expected regret, the player."""

from math import sqrt

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import taut
from learners.harness import conforms
from taut.learners import DualMirror
from taut.learners.dual_mirror import CARDS
from taut.testing import parametrize_with_checks, problems

RATE = 0.2
ACTIONS, RESOURCES = 5, 3


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


def loss(x, z):
    return -z["reward"] @ x


def use(x, z):
    return z["use"] @ x - RATE


def requests(rounds, seed):
    """Rewards and consumptions in [0, 1]; the first action earns and uses nothing."""
    rng = np.random.default_rng(seed)
    reward, consumption = (
        rng.uniform(size=(rounds, ACTIONS)),
        rng.uniform(size=(rounds, RESOURCES, ACTIONS)),
    )
    reward[:, 0], consumption[:, :, 0] = 0, 0
    return {"reward": reward, "use": consumption}


KNOWN = taut.Constants(
    loss_range=1.0, constraint_range=1 - RATE, constraint_count=RESOURCES, slater=RATE
)
SHOP = taut.Problem(loss, use, taut.Simplex(ACTIONS), KNOWN)


def offline(z):
    """The largest reward with the whole stream known and decisions chosen anew for every request,
    as a linear program."""
    rounds = len(z["reward"])
    rows = z["use"].transpose(1, 0, 2).reshape(RESOURCES, -1)
    one = np.kron(np.eye(rounds), np.ones(ACTIONS))
    rows, levels = (
        np.vstack([rows, one]),
        np.concatenate([np.full(RESOURCES, RATE * rounds), np.ones(rounds)]),
    )
    return -linprog(-z["reward"].ravel(), A_ub=rows, b_ub=levels, bounds=(0, 1), method="highs").fun


# -- Three rounds and the formula
# --------------------------------------------------------------------------------------


def test_three_rounds():
    """Two actions besides nothing, one resource, rho = 0.5, eta = 0.5, a budget of 5 for ten
    rounds."""
    problem = taut.Problem(loss, lambda x, z: z["use"] @ x - 0.5, taut.Simplex(3))
    reward, consumption = [(1, 0.6), (0.9, 0.5), (0.4, 0.8)], [(1, 0.3), (0.8, 0.2), (0.5, 0.9)]
    learner = DualMirror(0.5, 10.0)
    state, actions, prices, left = learner.init(jnp.ones(3) / 3, 1), [], [], []
    for r, c in zip(reward, consumption, strict=True):
        round = problem.round({"reward": jnp.array([0, *r]), "use": jnp.array([0, *c])})
        state = learner.decide(state, round)
        actions.append(int(jnp.argmax(state.x)) - 1)
        state = learner.step(state, round)
        prices.append(float(state.multiplier[0]))
        left.append(5 - float(state.used[0]) - 0.5 * len(prices))
    assert actions == [0, 0, 1]
    np.testing.assert_allclose(prices, [0.25, 0.4, 0.6], atol=1e-15)
    np.testing.assert_allclose(left, [4.0, 3.2, 2.3], atol=1e-14)


def formula(z, eta):
    """Choose by reward minus price; serve if the budget left allows; raise prices by what was
    wanted."""
    rounds = len(z["reward"])
    price, left, out = np.zeros(RESOURCES), np.full(RESOURCES, RATE * rounds), []
    for reward, consumption in zip(z["reward"], z["use"], strict=True):
        k = int(np.argmax(reward - price @ consumption))
        wanted = consumption[:, k]
        served = k if np.all(wanted <= left + 1e-12) else 0
        left = left - consumption[:, served]
        price = np.maximum(price - eta * (RATE - wanted), 0)
        out.append(np.eye(ACTIONS)[served])
    return np.array(out), left


def played(learner, z, **options):
    return taut.simulate(learner, SHOP, z, record=("decisions", "multipliers"), **options)


@pytest.mark.parametrize("eta", [0.0005, 0.05, 0.5])
def test_learner_follows_its_formula_and_keeps_its_budget(eta):
    """With a small step prices are too low, and the budget is used up before the end."""
    rounds = 300
    z = requests(rounds, 1)
    run = played(DualMirror(eta, float(rounds)), z, chunk=rounds)
    expected, left = formula(z, eta)
    np.testing.assert_allclose(run.decisions[0], expected, atol=1e-12)
    share = taut.metrics.budget_use(run, RATE)
    np.testing.assert_allclose(share[0], 1 - left / (RATE * rounds), atol=1e-12)
    assert np.all(share <= 1 + 1e-12)
    assert run.totals.excess.max() <= 1e-9
    if eta < 0.001:
        assert share.max() > 0.99
        assert np.all(np.argmax(run.decisions[0, -20:], axis=1) == 0)  # stopped


def test_budget_use_is_refused_for_rates_that_are_not_positive():
    run = played(DualMirror(0.1, 9.0), requests(9, 0), chunk=9)
    assert taut.metrics.budget_use(run, [RATE] * RESOURCES).shape == (1, RESOURCES)
    with pytest.raises(ValueError, match="rate"):
        taut.metrics.budget_use(run, 0.0)


# -- Guarantees
# --------------------------------------------------------------------------------------------------------


def found(learner, horizon):
    setting = taut.Setting(KNOWN, sqrt(2))
    return {one.quantity: one for one in learner.guarantees(setting, horizon)}


def test_expected_regret_against_offline_decisions_is_below_its_bound_and_grows_like_its_root():
    means = []
    for rounds in (64, 256):
        learner = taut.learner("dual-mirror", SHOP, horizon=rounds)
        streams = [requests(rounds, seed) for seed in range(12)]
        z = jax.tree.map(lambda *a: np.stack(a), *streams)
        run = played(learner, z, seeds=12, chunk=64)
        regret = np.array([offline(one) for one in streams]) + run.totals.loss
        bound = found(learner, rounds)["regret"]
        assert bound.expected
        assert regret.mean() <= bound.bound
        assert bound.bound == pytest.approx(1 / RATE + (1 / RATE) * 0.8 * sqrt(RESOURCES * rounds))
        assert regret.min() > -1e-9
        assert np.all(taut.metrics.budget_use(run, RATE) <= 1 + 1e-12)
        means.append(regret.mean())
    assert 1.2 < means[1] / means[0] < 3.5  # 2 for a square root


def test_outside_the_theorem_there_is_a_reason():
    learner = taut.learner("dual-mirror", SHOP, horizon=100)
    assert found(learner, 100)["excess"].bound == 0
    early = found(learner, 50)
    assert "may have been used already" in early["excess"].reason
    assert early["regret"].bound is None
    late = found(learner, 200)
    assert late["excess"].bound == 0
    assert "not for 200 rounds" in late["regret"].reason
    run = played(learner, requests(200, 3), chunk=200)
    assert run.totals.excess.max() <= 1e-9


# -- The protocol
# ------------------------------------------------------------------------------------------------------


def test_the_decision_answers_the_request_of_its_own_round():
    z = requests(40, 2)
    other = {name: value.copy() for name, value in z.items()}
    other["reward"][4, 1:] = [0, 0, 0, 9]
    before, after = (
        played(DualMirror(0.05, 40.0), data, chunk=40).decisions[0] for data in (z, other)
    )
    np.testing.assert_array_equal(before[:4], after[:4])
    assert np.argmax(after[4]) == ACTIONS - 1
    assert np.argmax(before[4]) != ACTIONS - 1


def test_a_player_decides_then_observes():
    z, learner = requests(40, 4), DualMirror(0.05, 40.0)
    run = played(learner, z, chunk=40)
    player = taut.Player(learner, SHOP)
    for t in range(40):
        request = {name: value[t] for name, value in z.items()}
        if t == 7:
            player.decide(
                {name: value[t + 1] for name, value in z.items()}
            )  # asked about another request first
        np.testing.assert_array_equal(player.decide(request), run.decisions[0, t])
        np.testing.assert_array_equal(player.decision, run.decisions[0, t])
        assert player.round == t + 1
        player.observe()
    np.testing.assert_allclose(player.totals.loss, run.totals.loss[0], rtol=1e-12)
    np.testing.assert_allclose(player.totals.excess, run.totals.excess[0], rtol=1e-12)


def test_a_player_is_saved_between_rounds(tmp_path):
    z, learner = requests(20, 4), DualMirror(0.05, 20.0)
    player = taut.Player(learner, SHOP)
    at = [{name: value[t] for name, value in z.items()} for t in range(20)]
    for t in range(10):
        player.decide(at[t])
        player.observe()
    player.decide(at[10])
    player.save(tmp_path / "player.npz")  # the open request is not part of it
    back = taut.Player.load(tmp_path / "player.npz", SHOP)
    assert back.round == 11
    for t in range(10, 20):
        np.testing.assert_array_equal(back.decide(at[t]), player.decide(at[t]))
        back.observe()
        player.observe()


def test_the_wrong_protocol_is_refused():
    z = {name: value[0] for name, value in requests(1, 0).items()}
    player = taut.Player(DualMirror(0.05, 20.0), SHOP)
    with pytest.raises(TypeError, match=r"needs player\.decide\(z\)"):
        player.observe()
    with pytest.raises(TypeError, match="sees the request first"):
        player.observe(z)
    usual = taut.Player(taut.ClippedOGD(0.1, 4.0), SHOP)
    with pytest.raises(TypeError, match="decides before a round is revealed"):
        usual.decide(z)


def test_flags_of_cards_and_learners_agree():
    for card in taut.LEARNERS.values():
        made = getattr(card.make, "__self__", None)
        if isinstance(made, type):
            assert made.request_first == card.request_first, card.name
    assert [card.name for card in taut.LEARNERS.values() if card.request_first] == ["dual-mirror"]


def test_it_is_not_recommended_where_decisions_come_first():
    advice = taut.recommend(problems.TOY.problem, 1000)
    reasons = {one.method.name: one.reason for one in advice.candidates}
    assert "another protocol" in reasons["dual-mirror"]
    assert "no bound on the violation" in reasons["step-experts"]
    assert "signed sum only" in reasons["bounded-game"]

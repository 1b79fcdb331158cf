"""Entrants of the arena and baselines outside of our methods: plain NumPy gives the same decisions,
programs are those of solvers, budgets hold, and bounds are those of their theorems."""

import itertools
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import taut
from taut.arena import STREAMS, play, results, submission
from taut.arena.entrants import ENTRANTS
from taut.arena.entries import card_of, entries, known_card
from taut.arena.outside import OUTSIDE
from taut.arena.streams import ad_pacing
from taut.judge.guarantees import setting_of
from taut.plots.families import family_of


@pytest.mark.parametrize(
    ("name", "learner"), [("numpy-clipped-ogd", "clipped-ogd"), ("numpy-surrogate", "surrogate")]
)
def test_plain_numpy_from_the_formulas_of_the_paper_gives_the_same_decisions(name, learner):
    stream = STREAMS["polytope"]
    data = stream.data(2, 96)
    mine = OUTSIDE[name].play(stream, data, 96)
    run = taut.simulate(learner, stream.problem, data, seeds=2, record="decisions")
    np.testing.assert_allclose(mine, run.decisions, atol=1e-12)
    assert np.abs(run.decisions).max() > 0.1  # something happens


def test_the_program_of_the_last_round_is_that_of_cvxpy():
    stream = STREAMS["toy"]
    data = stream.data(1, 5)
    decisions = OUTSIDE["last-round-program"].play(stream, data, 5)
    np.testing.assert_array_equal(decisions[0, 0], [0.0, 0.0])
    for t in range(4):
        x = cp.Variable(2)
        cp.Problem(cp.Minimize(data[0, t] @ x), [cp.norm1(x) <= 1]).solve()
        np.testing.assert_allclose(decisions[0, t + 1], x.value, atol=1e-5)


def test_prices_of_budgets_are_those_of_cvxpy():
    rng = np.random.default_rng(0)
    reward, use = rng.random((12, 3)), rng.random((12, 2, 3))
    budget = np.array([1.5, 2.0])
    value, price = ad_pacing.prices(reward, use, budget)
    x = cp.Variable((12, 3), nonneg=True)
    rows = [sum(use[t, k] @ x[t] for t in range(12)) <= budget[k] for k in range(2)]
    program = cp.Problem(
        cp.Maximize(cp.sum(cp.multiply(reward, x))), [*rows, cp.sum(x, axis=1) <= 1]
    )
    assert value == pytest.approx(program.solve(), rel=1e-6)
    np.testing.assert_allclose(price, [float(row.dual_value) for row in rows], atol=1e-4)


@pytest.fixture(scope="module")
def paced():
    stream = STREAMS["ad-pacing"]
    data = stream.data(3, 256)
    decisions = {"budget-program": OUTSIDE["budget-program"].play(stream, data, 256)}
    for card in (taut.LEARNERS["dual-mirror"], ENTRANTS["dual-mirror-remaining"]):
        run = taut.simulate(
            card.build(stream.rows, 256), stream.rows, data, seeds=3, record="decisions"
        )
        decisions[card.name] = np.asarray(run.decisions)
    return {name: submission.measure(stream, data, played) for name, played in decisions.items()}


def test_budgets_hold_and_what_is_left_lowers_the_regret(paced):
    for measured in paced.values():
        assert measured["excess"].max() <= 1e-9
    regret = {name: measured["regret"].mean() for name, measured in paced.items()}
    assert regret["budget-program"] < regret["dual-mirror"]
    assert regret["dual-mirror-remaining"] < regret["dual-mirror"]


def test_exponentiated_gradient_is_its_formula_and_keeps_its_bound():
    stream = STREAMS["portfolio"]
    data = stream.data(1, 40)
    learner = ENTRANTS["exponentiated-gradient"].build(stream.problem, 40)
    run = taut.simulate(learner, stream.problem, data, seeds=1, record=("decisions", "loss"))
    x = np.full(20, 1 / 20)
    for t in range(40):
        np.testing.assert_allclose(run.decisions[0, t], x, rtol=1e-10)
        move = data["relative"][0, t] - 1
        slope = -move / (1 + move @ x)
        x = x * np.exp(-float(learner.eta) * slope)
        x /= x.sum()
    (regret, violation) = learner.guarantees(setting_of(stream.problem), 40)
    slope = stream.problem.constants.loss_lipschitz
    assert regret.bound == pytest.approx(slope * np.sqrt(2 * 40 * np.log(20)))
    assert violation.bound is None
    worst = run.loss.sum() - min(-np.log(data["relative"][0]).sum(axis=0))  # the best single stock
    assert worst <= regret.bound


def test_the_newton_step_projects_in_the_norm_of_its_matrix():
    stream = STREAMS["portfolio"]
    data = stream.data(1, 12)
    learner = taut.arena.entrants.NewtonStep(
        gamma=0.002, epsilon=0.05
    )  # steps that leave the simplex
    run = taut.simulate(learner, stream.problem, data, seeds=1, record="decisions")
    x, matrix = np.full(20, 1 / 20), 0.05 * np.eye(20)
    for t in range(11):
        move = data["relative"][0, t] - 1
        slope = -move / (1 + move @ run.decisions[0, t])
        matrix += np.outer(slope, slope)
        wanted = run.decisions[0, t] - np.linalg.solve(matrix, slope) / 0.002
        x = cp.Variable(20, nonneg=True)
        distance = cp.quad_form(x - wanted, cp.psd_wrap(matrix))
        cp.Problem(cp.Minimize(distance), [cp.sum(x) == 1]).solve()
        np.testing.assert_allclose(run.decisions[0, t + 1], x.value, atol=2e-3)


def test_entrants_play_only_where_they_apply():
    for name, stream, applies in (
        ("exponentiated-gradient", "portfolio", True),
        ("exponentiated-gradient", "toy", False),
        ("online-newton-step", "toy", False),
        ("dual-mirror-remaining", "ad-pacing", True),
        ("step-experts-penalty", "toy", True),
    ):
        played, left_out = entries([STREAMS[stream]], [card_of(name)], (16,), 1)
        assert bool(played) == applies != bool(left_out)


def test_experts_on_the_penalty_have_a_bound_on_regret():
    learner = card_of("step-experts-penalty").build(STREAMS["toy"].problem, 64)
    assert not learner.cuts
    found = {
        one.quantity: one for one in learner.guarantees(setting_of(STREAMS["toy"].problem), 64)
    }
    assert found["regret"].bound > 0
    assert found["violation"].bound is None


def test_names_differ_and_everybody_is_known():
    names = [*taut.LEARNERS, *ENTRANTS, *OUTSIDE]
    assert len(set(names)) == len(names)
    for name, attribute in itertools.product(names, ("title", "reference", "cost", "regret")):
        assert getattr(known_card(name), attribute)
    assert family_of("numpy-clipped-ogd") is family_of("clipped-ogd")


def broken(stream, data, rounds):
    raise RuntimeError("no solver")


def test_baselines_join_a_run_and_are_not_played_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUT_ARENA_CACHE", str(tmp_path / "cache"))
    wanted = {
        "learners": ["numpy-clipped-ogd", "last-round-program"],
        "streams": ["polytope"],
        "horizons": (32,),
        "seeds": 2,
        "progress": False,
    }
    done = play(tmp_path, **wanted)
    assert (done.cells, done.new) == (2, 2)
    again = play(tmp_path, **wanted)
    assert (again.cells, again.new) == (2, 0)
    monkeypatch.setitem(
        OUTSIDE, "last-round-program", replace(OUTSIDE["last-round-program"], play=broken)
    )
    third = play(tmp_path / "other", **wanted)
    assert (third.cells, third.new) == (2, 1)
    assert third.failed == ("polytope / last-round-program / 32: RuntimeError: no solver",)
    stored = results.read_all(tmp_path)
    assert {key[1] for key in stored} == set(wanted["learners"])
    with pytest.raises(ValueError, match="learner: got 'numpy-clipped-ogd'"):
        results.check_names("numpy-clipped-ogd", "somebody")

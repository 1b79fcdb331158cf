"""Entrants of the arena and baselines outside of our methods: plain NumPy gives the same decisions,
programs are those of solvers, budgets hold, and bounds are those of their theorems."""

import itertools
from dataclasses import replace

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.arena import STREAMS, play, results, submission
from taut.arena.entrants import ENTRANTS
from taut.arena.entries import card_of, entries, known_card
from taut.arena.oracles import count_calls
from taut.arena.outside import OUTSIDE
from taut.arena.streams import ad_pacing, dispatch, literature, microgrid
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
        ("universal-experts", "toy", True),
    ):
        played, left_out = entries([STREAMS[stream]], [card_of(name)], (16,), 1)
        assert bool(played) == applies != bool(left_out)


def half_space_game(rounds):
    """Linear losses on a disc with a half-space that turns slowly; the best decision of each round
    is known by formula."""
    angle = 3 * np.arange(rounds) / rounds
    normal = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    cost = -normal  # the best decision is on the boundary of the half-space, at 0.3 normal
    problem = taut.Problem(
        lambda x, z: z[0] @ x,
        lambda x, z: z[1] @ x - 0.3,
        taut.Ball(1.0, shape=2),
        taut.Constants(
            radius=1.0,
            loss_lipschitz=1.0,
            constraint_lipschitz=1.0,
            constraint_smoothness=0.0,
            constraint_count=1,
        ),
    )
    path = 0.3 * normal
    return problem, np.stack([cost, normal], axis=1), path


def test_universal_experts_keep_both_bounds_against_the_best_decision_of_each_round():
    problem, data, path = half_space_game(256)
    learner = card_of("universal-experts").build(problem, 256)
    run = taut.simulate(learner, problem, data, record=("loss", "excess"))
    length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    setting = replace(setting_of(problem), path_length=length)
    found = {one.quantity: one.bound for one in learner.guarantees(setting, 256)}
    regret = run.loss.sum() - np.sum(data[:, 0] * path)
    violation = np.maximum(np.asarray(run.excess), 0).sum()
    assert regret <= found["regret"]
    assert 0 < violation <= found["violation"]
    unknown = {one.quantity: one for one in learner.guarantees(setting_of(problem), 256)}
    assert unknown["regret"].bound > 0
    assert "path length" in unknown["violation"].reason


def test_the_gradient_of_the_surrogate_is_that_of_its_formula():
    problem, data, _ = half_space_game(8)
    learner = card_of("universal-experts").build(problem, 8)
    for x in ([0.8, 0.5], [0.1, -0.2]):
        z = jnp.asarray(data[2])
        found = learner.push(jnp.asarray(x), problem.round(z))
        cost, normal = data[2]
        # dist(x, X) and [g]_+ have the same gradient, the normal, where the row is exceeded.
        expected = cost + (3 * normal if normal @ x > 0.3 else 0)
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_all_cuts_are_kept_and_play_long_only_where_rows_are_few():
    card = card_of("half-space-all-cuts")
    for name, longest in (("pool-random", 4096), ("toy", 1024), ("noisy-toy", 0)):
        played, _ = entries([STREAMS[name]], [card], (256, 1024, 4096), 1)
        assert max((entry.horizon for entry in played), default=0) == longest
    assert all(entry.learner.memory is None for entry in played)


@pytest.mark.parametrize("name", ["dispatch", "microgrid"])
def test_the_best_dispatch_of_each_round_is_that_of_cvxpy(name):
    rng = np.random.default_rng(0)
    x = cp.Variable(3)
    if name == "dispatch":
        demand = rng.uniform(10, 70, size=4)
        found, losses = dispatch.best_dispatch(demand)
        cost, slope, limit, weight = dispatch.COST, dispatch.SLOPE, dispatch.LIMIT, 0.5
        rows = [cp.sum(cp.multiply(dispatch.EMISSION, cp.square(x))) <= dispatch.CAP] * 4
    else:
        demand, dirt = rng.uniform(0, 1, size=4), rng.uniform(0.05, 0.5, size=4)
        found, losses = microgrid.best({"net": demand, "intensity": dirt})
        cost, slope, limit, weight = microgrid.COST, microgrid.SLOPE, microgrid.LIMIT, 2.0
        rows = [dirt[t] * x[0] + microgrid.GENERATOR * x[1] <= microgrid.CAP for t in range(4)]
    for t in range(4):
        costs = 0.5 * cp.sum(cp.multiply(cost, cp.square(x))) + slope @ x
        goal = cp.Minimize(costs + weight * cp.square(cp.sum(x) - demand[t]))
        value = cp.Problem(goal, [rows[t], x >= 0, x <= limit]).solve(solver="CLARABEL")
        assert losses[t] == pytest.approx(value, rel=1e-6, abs=1e-7)
        np.testing.assert_allclose(found[t], x.value, atol=1e-3)


def test_the_best_regression_of_each_round_is_feasible_and_near_that_of_cvxpy():
    z = literature.STREAMS[2].draw(0, 12)
    found, losses = literature.best_of_each_round(z, 12)
    values = np.einsum("tij,tj->ti", z["normals"], found) - z["levels"]
    assert values.max() <= 1e-12
    x = cp.Variable(10)
    best = 0.0
    for t in range(12):
        goal = cp.Minimize(cp.sum_squares(z["features"][t] @ x - z["targets"][t]) / 2)
        rows = [x >= 0, x <= 1, z["normals"][t] @ x <= z["levels"][t]]
        best += cp.Problem(goal, rows).solve(solver="CLARABEL")
    assert best - 1e-6 <= losses.sum() <= 1.005 * best


def test_advice_of_the_controller_is_followed_where_it_is_good():
    stream = STREAMS["dispatch-box"]
    data = stream.data(1, 128)
    losses = {
        name: submission.measure(stream, data, OUTSIDE[name].play(stream, data, 128))["regret"][0]
        for name in ("persistence", "half-space-advised")
    }
    alone = taut.simulate("half-space", stream.rows, data, seeds=1).loss.sum()
    best = taut.arena.comparators.comparator_loss(stream, data)[0]
    assert losses["persistence"] < losses["half-space-advised"] < alone - best
    assert len(OUTSIDE["persistence"].play(stream, data, 128)[0]) == 128


def test_calls_of_oracles_are_counted_in_loops_branches_and_side_by_side():
    stream = STREAMS["polytope"]
    data = stream.data(1, 16)
    plain = count_calls(
        taut.LEARNERS["clipped-ogd"].build(stream.problem, 16), stream.problem, data
    )
    assert plain == {
        "loss": 0.0,
        "gradient": 1.0,
        "values": 1.0,
        "pullback": 1.0,
        "project": 1.0,
        "minimise": 0.0,
    }
    card = card_of("step-experts")
    experts = card.build(stream.problem, 16)
    assert count_calls(experts, stream.problem, data)["project"] == experts.count == 3


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
        submission.check_names("numpy-clipped-ogd", "somebody")

"""`taut.previous(x)` in CVXPY models: filled by the engine, replaced by the variable in
hindsight."""

import cvxpy as cp
import numpy as np
import pytest

import taut

SEEDS, ROUNDS = 2, 30
ALL = ("loss", "excess", "decisions")


@pytest.fixture(scope="module")
def model():
    x, c = cp.Variable(2, name="x", bounds=[0, 1]), cp.Parameter(2, name="c", bounds=[-1, 1])
    before = taut.previous(x)
    assert taut.previous(x) is before
    return taut.from_cvxpy(
        c @ x + 0.1 * cp.sum_squares(x - before), [cp.sum(x) <= 1, x - before <= 0.2]
    )


def costs():
    return np.random.default_rng(0).uniform(-1, 0.4, size=(SEEDS, ROUNDS, 2))


def test_the_engine_fills_the_previous_decision(model):
    learner = taut.ClippedOGD(0.1, 1.0)
    run = taut.simulate(learner, model, {"c": costs()}, seeds=SEEDS, record=ALL)
    before = np.concatenate(
        [np.broadcast_to(run.first, (SEEDS, 1, 2)), run.decisions[:, :-1]], axis=1
    )
    losses = np.sum(costs() * run.decisions, axis=-1) + 0.1 * np.sum(
        (run.decisions - before) ** 2, axis=-1
    )
    np.testing.assert_allclose(run.loss, losses, atol=1e-12)
    up = (run.decisions - before - 0.2).max(axis=-1)
    np.testing.assert_allclose(
        run.excess, np.maximum(up, run.decisions.sum(axis=-1) - 1), atol=1e-12
    )
    player = taut.Player(run.learner, model)
    for t in range(5):
        np.testing.assert_allclose(player.decision, run.decisions[0, t], atol=1e-13)
        player.observe({"c": costs()[0, t]})


def test_hindsight_and_certificates_use_the_model_at_rest(model):
    best = taut.hindsight(model, {"c": costs()}, seeds=SEEDS)
    total = costs().sum(axis=1)
    np.testing.assert_allclose(best.loss, np.minimum(total.min(axis=1), 0), atol=1e-5)
    run = taut.simulate("half-space", taut.steady(model), {"c": costs()}, seeds=SEEDS, score=model)
    rows = {row.quantity: row for row in run.certificate(check=False).rows}
    assert rows["policy regret"].holds
    assert rows["violation"].bound is None  # the ramps were not seen
    small = taut.tightened(model, 0.01)
    values = taut.steady(small).constraints.values(np.zeros(2), (np.zeros(2),))
    np.testing.assert_allclose(values, [-0.99, -0.19, -0.19], atol=1e-12)


def test_mistakes_are_named(model):
    x, y = cp.Variable(2, bounds=[0, 1]), cp.Variable(2, name="y")
    with pytest.raises(
        ValueError, match=r"previous\(y\): got a variable that the model does not contain"
    ):
        taut.from_cvxpy(cp.sum_squares(x - taut.previous(y)), [cp.sum(x) <= 1])
    with pytest.raises(TypeError, match=r"expected a cvxpy\.Variable"):
        taut.previous(np.zeros(2))
    with pytest.raises(ValueError, match="no parameter that changes"):
        taut.simulate(model, {"c": costs(), "previous(x)": costs()}, seeds=SEEDS)


def test_announced_ramps_hold_exactly_from_the_start_on():
    x, c = cp.Variable(2, name="x", bounds=[0, 1]), cp.Parameter(2, name="c", bounds=[-1, 1])
    limit, ramps = [cp.sum(x) <= 1], [cp.abs(x - taut.previous(x)) <= 0.05]
    model = taut.from_cvxpy(c @ x, limit, announced=ramps, start={"x": [0.1, 0.3]})
    run = taut.simulate("half-space", model, {"c": costs()}, seeds=SEEDS, record=ALL)
    path = np.concatenate([np.broadcast_to([0.1, 0.3], (SEEDS, 1, 2)), run.decisions], axis=1)
    moves = np.abs(np.diff(path, axis=1))
    assert moves.max() <= 0.05 + 1e-12
    assert np.mean(moves > 0.049) > 0.1  # the limits matter
    assert run.totals.peak.shape == (SEEDS, 3)  # the sum, then the announced constraints
    for wrong, message in (
        ({"announced": [cp.Variable(name="u") <= 1]}, "announced: got the variable u"),
        ({"start": [0, 0]}, "start: got a decision for a model without"),
        ({"announced": [cp.norm(x) >= 1]}, "rules do not prove convexity"),
    ):
        with pytest.raises(ValueError, match=message):
            taut.from_cvxpy(c @ x, limit, **wrong)


def test_equations_with_data_are_played_and_compared_round_by_round():
    x, d = cp.Variable(2, name="x", bounds=[0, 3]), cp.Parameter(name="d", bounds=[1, 3])
    price = np.array([1.0, 1.4])
    model = taut.from_cvxpy(price @ x + 0.1 * cp.sum_squares(x), [cp.sum(x) == d])
    assert model.count == 2
    assert any('comparator="per-round"' in note for note in model.notes)
    demand = np.array([1.0, 2.5, 1.7])
    expected = []
    for number in demand:
        program = cp.Problem(
            cp.Minimize(price @ x + 0.1 * cp.sum_squares(x)), [cp.sum(x) == number]
        )
        expected.append(program.solve(solver=cp.CLARABEL))
    best = taut.hindsight(model, {"d": demand}, comparator="per-round")
    assert best.loss[0] == pytest.approx(sum(expected), rel=1e-6)
    np.testing.assert_allclose(best.decision[0].sum(axis=-1), demand, atol=1e-8)
    with pytest.raises(ValueError, match="over 3 rounds for all x"):
        taut.hindsight(model, {"d": demand})


def test_a_previous_decision_is_in_the_domain_and_needs_no_bounds():
    w, r = cp.Variable(3, name="w", nonneg=True), cp.Parameter(3, name="r", bounds=[0.5, 2.0])
    moves = cp.norm1(w - taut.previous(w)) <= 0.02
    problem = taut.from_cvxpy(-cp.log(r @ w), [cp.sum(w) == 1, moves])
    assert not problem.constants.estimated
    assert not any("no bounds" in note for note in problem.notes)
    # Both decisions are in the simplex, so that |w - w'|_1 - 0.02 is between -0.02 and 1.98.
    assert 1.98 <= problem.constants.constraint_range <= 2.98 + 1e-9


def portfolio(**attributes):
    w, r = cp.Variable(3, nonneg=True, name="w"), cp.Parameter(3, name="r", **attributes)
    moved = cp.norm1(w - taut.previous(w))
    return taut.from_cvxpy(-cp.log(r @ w), [cp.sum(w) == 1, moved <= 0.02])


def test_a_portfolio_with_a_limit_on_trades_needs_bounds_of_the_returns_only():
    model = portfolio(bounds=[0.5, 2])
    assert isinstance(model.domain, taut.Simplex)
    returns = np.random.default_rng(0).uniform(0.8, 1.2, size=(10, 3))
    best = taut.hindsight(model, returns)
    w = cp.Variable(3, nonneg=True)
    plain = cp.Problem(cp.Minimize(-cp.sum(cp.log(returns @ w))), [cp.sum(w) == 1])
    plain.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(best.loss[0], plain.value, rtol=1e-6)
    with pytest.raises(ValueError, match=r"parameters: got r without bounds; expected bounds"):
        portfolio(nonneg=True)


def test_conditions_of_atoms_need_no_bounds_of_other_parameters():
    w, c = cp.Variable(2, name="w"), cp.Parameter(2, name="c")
    r = cp.Parameter(2, name="r", bounds=[-0.65, 0.65])  # r @ w > -1 on the ball, not on its box
    model = taut.from_cvxpy(c @ w - cp.log(r @ w + 1), [cp.norm(w, 2) <= 1])
    assert model.constants.loss_lipschitz > 0


def test_a_player_announces_the_parameters_that_announced_rows_use():
    x = cp.Variable(2, name="x")
    price = cp.Parameter(2, name="price", bounds=[-1, 1])
    ramp, cap = (cp.Parameter(name=name, bounds=[0.01, 1]) for name in ("ramp", "cap"))
    model = taut.from_cvxpy(
        price @ x,
        [x >= 0, x <= 1, cp.sum(x) <= 1 + cap],
        announced=[cp.abs(x - taut.previous(x)) <= ramp],
    )
    player = taut.Player(model)
    before = player.announce({"ramp": 0.1})
    z = {"price": np.array([-1.0, 0.5]), "ramp": 0.1, "cap": 0.5}
    player.observe(z)
    assert np.abs(player.announce({ramp: 0.05, cap: 0.5}) - before).max() <= 0.05
    with pytest.raises(ValueError, match=r"z\[1\]: got 0.2 in round 2; expected 0.05, as was ann"):
        player.observe({**z, "ramp": 0.2})
    player.observe({**z, "ramp": 0.05})
    for wrong, text in (
        ({"cap": 0.5}, "got no data for ramp; expected ramp"),
        ({"ramp": 2.0}, r"data: got 2 for ramp; expected at most 1 \(bounds\)"),
        ({"slope": 2.0}, "data: got data for 'slope'"),
    ):
        with pytest.raises(ValueError, match=text):
            player.announce(wrong)
    player.announce(0.05)
    with pytest.raises(ValueError, match=r"data: got 7 for cap; expected at most 1 \(bounds\)"):
        player.observe({**z, "cap": 7.0})
    assert player.round == 3


def test_a_model_that_is_convex_only_for_a_fixed_previous_decision_has_no_form_at_rest():
    """At rest its loss has a narrow dip at x = 0.31, which samples of convexity miss."""
    x, c = cp.Variable(2, bounds=[-1, 1]), cp.Parameter(2)
    dip = cp.pos(0.004 - cp.abs(taut.previous(x)[0] - 0.31))
    model = taut.from_cvxpy(cp.sum_squares(x - c) - 100 * dip, [cp.sum(x) <= 1.5])
    targets = 0.1 * np.random.default_rng(0).normal(size=(60, 2))
    for at_rest in (taut.steady, lambda problem: taut.hindsight(problem, targets)):
        with pytest.raises(ValueError, match="CVXPY's rules do not prove convexity"):
            at_rest(model)

"""Advice and forecasts in simulations and live: all ways in play the same, and bad input is refused
by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.learners.half_space.cuts import Rows
from taut.play.forecast import minimised
from taut.play.round import first_fault

ROUNDS, SEEDS = 24, 2


def ramps() -> taut.Problem:
    """Two units with ramps around the previous decision, which are announced, and a cap."""
    return taut.Problem(
        lambda x, z, previous: (x.sum() - z) ** 2 + 0.1 * jnp.abs(x - previous).sum(),
        lambda x: x[0] + 2 * x[1] - 1.7,
        taut.Box(0.0, 1.0, shape=2),
        previous=True,
        announced=lambda x, z, previous: jnp.concatenate([x - previous - 0.2, previous - x - 0.2]),
        domain_binds=True,
    )


def data() -> np.ndarray:
    phase = np.arange(ROUNDS)[None] / 4 + np.arange(SEEDS)[:, None]
    return 1 + 0.6 * np.sin(phase)


def advice() -> np.ma.MaskedArray:
    """Two advisers, one of them adversarial and infeasible, with gaps."""
    made = np.random.default_rng(1).uniform(-0.5, 1.5, (ROUNDS, 2, 2))
    made[:, 1] = np.where(data()[0, :, None] > 1, -3.0, 5.0)
    made[5:9, 0] = made[2, 1] = np.nan
    return np.ma.masked_invalid(made)


def said(t: int) -> list:
    """The advice of a round, as players take it."""
    return [None if one.mask.all() else one.data for one in advice()[t]]


def simulated(learner, problem, **options):
    record = ("loss", "excess", "decisions", "weights")
    return taut.simulate(learner, problem, data(), seeds=SEEDS, record=record, chunk=10, **options)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    problem = ramps()
    learner = taut.Advised(taut.learner("half-space", problem), advisers=2)
    folder = tmp_path_factory.mktemp("advice")
    run = simulated(learner, problem, advice=advice(), checkpoint=folder)
    return problem, learner, run, folder


def test_players_play_what_simulations_play_also_after_a_restart(played, tmp_path):
    problem, learner, run, _ = played
    player = taut.Player(learner, problem)
    for t in range(ROUNDS):
        x = player.decide(advice=said(t))
        np.testing.assert_allclose(x, run.decisions[0, t], rtol=0, atol=1e-13)
        np.testing.assert_allclose(player.weights[t + 1], run.weights[0, t], rtol=0, atol=1e-12)
        np.testing.assert_array_equal(player.decision, x)
        if t == 10:
            player.save(tmp_path / "player")
            player = taut.Player.load(tmp_path / "player", problem)
            np.testing.assert_array_equal(player.decide(advice=said(t)), x)
        player.observe(data()[0, t])
    assert player.totals.loss == pytest.approx(run.totals.loss[0], rel=1e-13)
    assert player.state()["weights"] == player.weights[ROUNDS + 1].tolist()
    assert player.plot("weights").get_ylabel() == "weight in the mixture"


@pytest.mark.long
def test_a_player_is_certified_with_its_data_and_advice(played):
    problem, learner, _, _ = played
    player = taut.Player(learner, problem)
    for t in range(10):
        player.decide(advice=said(t))
        player.observe(data()[0, t])
    exact = player.certificate(stream=data()[0, :10], advice=advice()[:10], check=False)
    rows = {row.quantity: row for row in exact.rows}
    assert rows["regret to adviser 1"].holds
    assert rows["regret to adviser 2"].holds


def test_the_pure_step_plays_what_simulations_play(played):
    problem, learner, run, _ = played
    step = jax.jit(lambda state, z, told: taut.step(learner, problem, state, z, advice=told))
    state = taut.init(learner, problem, data()[0, 0])
    for t in range(12):
        given = ~advice()[t].mask.any(axis=-1)
        state, scored = step(state, data()[1, t], (advice()[t].data, given))
        np.testing.assert_allclose(scored.x, run.decisions[1, t], rtol=0, atol=1e-13)
    assert int(state.faults) == 0
    state, _ = step(state, data()[1, t], (advice()[5].data, np.array([True, True])))
    assert first_fault(int(state.faults)) == (13, "advice or forecast")
    assert np.isfinite(state.x).all()


def test_all_ways_to_say_that_advice_is_missing_are_the_same(played):
    problem, learner, run, _ = played
    listed = [said(t) for t in range(ROUNDS)]
    answers = np.array([[one is not None for one in row] for row in listed])

    def told(round, previous):
        return jnp.asarray(advice().filled(0))[round - 1], jnp.asarray(answers)[round - 1]

    for given in (listed, told):
        again = simulated(learner, problem, advice=given)
        np.testing.assert_allclose(again.decisions, run.decisions, rtol=0, atol=1e-13)


def test_announced_constraints_and_kept_cuts_hold_with_adversarial_advice(played):
    _, _, run, _ = played
    assert run.totals.peak[:, 1:].max() <= 1e-12  # the ramps, which are announced
    violated = run.excess > 1e-9  # the cap, whose half-space is known after one violation
    assert violated.sum(axis=1).max() <= 1
    assert run.cuts_hold.all()
    moves = np.abs(np.diff(run.decisions, axis=1)).max()
    assert 0.05 < moves <= 0.2 + 1e-12


def test_the_learner_keeps_its_own_bound_with_advice():
    """C2 and C3, in the certificate of a run that is given its data and its advice again."""
    problem = taut.Problem(
        lambda x, z: jnp.abs(x[0] - z),
        lambda x: x[0] - 0.4,
        taut.Box(-1.0, 1.0, shape=1),
        domain_binds=True,
    )
    z, said = np.tile([0.5, -0.1, 0.3], 10), np.full((30, 1), 2.0)
    run = taut.simulate(problem, z, advice=said)
    certificate = run.bare().certificate(problem=problem, stream=z, advice=said)
    rows = {row.quantity: row for row in certificate.rows}
    assert rows["regret"].theorem == "half-space, H2 observed and C2"
    assert rows["regret"].holds
    largest, squares, first, clipped = run.advised.slopes[0]
    own = taut.bounds.adaptive_half_space_regret(
        scale=1.0,
        start_up=100.0,
        radius=1.0,
        diameter=2.0,
        loss_slope=largest,
        squared_slopes=squares,
        first_squared_slope=first,
        clipped_slopes=clipped,
    )
    assert rows["regret"].bound == pytest.approx(
        own + run.advised.gap[0] - run.advised.correction[0]
    )
    assert run.advised.correction[0] > 0
    assert rows["regret to adviser 1"].theorem == "advice, C1"
    assert rows["regret to adviser 1"].worst == pytest.approx(run.advised.regret[0, 0])
    assert rows["regret to adviser 1"].holds
    assert rows["squared violation"].bound is None  # C3
    assert rows["violation"].theorem == "half-space, H6 memory and C3"
    assert rows["violation"].holds


def test_weights_are_saved_and_drawn(played, tmp_path):
    _, _, run, _ = played
    run.save(tmp_path / "run.nc")
    loaded = taut.Run.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(loaded.weights, run.weights)
    frame = loaded.to_dataframe("weights")
    assert list(frame.columns) == ["weight[learner]", "weight[adviser 1]", "weight[adviser 2]"]
    np.testing.assert_allclose(frame.sum(axis=1), 1)
    assert run.plot("weights").get_ylabel() == "weight in the mixture"
    assert loaded.to_xarray()["weights"].dims == ("seed", "kept_round", "expert")


def test_a_simulation_with_advice_continues_from_its_checkpoint(played):
    problem, learner, run, folder = played
    again = simulated(learner, problem, advice=advice(), checkpoint=folder)
    np.testing.assert_array_equal(again.weights, run.weights)
    with pytest.raises(ValueError, match="different advice"):
        simulated(learner, problem, advice=advice() + 1, checkpoint=folder)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones((ROUNDS, 3)), r"advice: got shape \(24, 3\); expected \(24, 2, 2\)"),
        (
            np.full((ROUNDS, 2, 2), [[1.0, np.nan], [1.0, 1.0]]),
            "not finite of adviser 1 in round 1",
        ),
        (np.full((ROUNDS, 2, 2), np.inf), "advice: got a value that is not finite"),
        (np.full((ROUNDS, 2, 2), np.nan), "adviser 1 in round 1.*Missing advice is None in a list"),
        (np.ma.array(np.ones((ROUNDS, 2, 2)), mask=[[[True, False]] * 2] * ROUNDS), "not finite"),
        ([None, *[[[1.0, np.nan], None]] * (ROUNDS - 1)], "not finite of adviser 1 in round 2"),
        (lambda t: t, "advice: got a function with 1 required"),
        (lambda t, previous: previous, r"advice: advice\(round, previous\) returned"),
    ],
)
def test_bad_advice_is_refused_by_name(played, given, message):
    problem, learner, _, _ = played
    with pytest.raises((TypeError, ValueError), match=message):
        taut.simulate(learner, problem, data()[0], advice=given)


def test_bad_advice_is_refused_live_and_changes_nothing(played):
    problem, learner, _, _ = played
    player = taut.Player(learner, problem)
    player.observe(1.0)
    before = player.decision
    for given, message in (
        ({"advice": [[np.nan, 1.0], None]}, r"advice\[0\]: got nan"),
        ({"advice": [[1.0, 1.0]]}, "advice: got"),
        ({"advice": [[1.0], None]}, r"advice\[0\]: got shape \(1,\)"),
        ({"forecast": "lasst"}, "forecast: got 'lasst'"),
        ({"forecast": np.nan}, "forecast: got a value that is not finite"),
        ({"forecast": [1.0, 2.0]}, "forecast: z: got data of shape"),
        ({"z": 1.0}, "z: got data beside advice"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            player.decide(**given)
        np.testing.assert_array_equal(player.decision, before)
    with pytest.raises(TypeError, match="got measurements"):
        player.observe(gradient=[0.0, 0.0], excess=[0.0], jacobian=[[1.0, 1.0]])
    with pytest.raises(TypeError, match="advice: got advice for HalfSpace"):
        taut.Player(problem).decide(advice=[0.1, 0.1])
    with pytest.raises(ValueError, match='record: got "weights"'):
        taut.simulate(problem, data()[0], record="weights")


@pytest.fixture(scope="module")
def forecasting():
    """Forecasts with ramps are compared in tests/play/test_forecast.py."""
    problem = taut.Problem(
        lambda x, z: (x.sum() - z) ** 2 + 0.1 * jnp.abs(x - 0.5).sum(),
        lambda x: x[0] + 2 * x[1] - 1.7,
        taut.Box(0.0, 1.0, shape=2),
    )
    return problem, taut.Advised(taut.learner("half-space", problem))


def test_the_last_data_are_a_forecast(forecasting):
    problem, learner = forecasting
    player, decisions, whole = taut.Player(learner, problem), [], np.rint(data()[0]).astype(int)
    run = taut.simulate(learner, problem, whole, forecast="last", record=("decisions", "weights"))
    assert run.weights[0, 0].tolist() == [1.0, 0.0]  # zeros instead of no data would be a forecast
    for t, z in enumerate(whole):
        decisions.append(player.decide(forecast="last") if t else player.decision)
        player.observe(z)
    # The minimiser is not unique and known to 1e-6, so that rounding errors grow.
    np.testing.assert_allclose(decisions[:8], run.decisions[0, :8], rtol=0, atol=1e-7)
    assert player.totals.loss == pytest.approx(run.totals.loss[0], rel=1e-3)


def test_the_last_data_survive_undo_and_files_and_lost_advice_is_noticed(forecasting):
    problem, learner = forecasting
    player = taut.Player(learner, problem)
    assert player.decide(forecast="last").shape == (2,)  # nothing is predicted in round 1
    player.observe(1.0)
    x = player.decide(forecast="last")
    player.observe(1.5)
    player.undo()
    np.testing.assert_array_equal(player.decide(forecast="last"), x)
    again = taut.Player.from_bytes(player.to_bytes(), problem)
    for lost in (lambda: again.decision, lambda: again.observe(1.2), again.skip):
        with pytest.raises(TypeError, match="advice: round 2 was begun with advice before the"):
            lost()
    np.testing.assert_array_equal(again.decide(forecast="last"), x)
    again.observe(1.2)
    assert again.round == 3
    with pytest.raises(ValueError, match="advice: got advice beside a forecast"):
        again.decide(advice=[0.1, 0.1], forecast="last")
    with pytest.raises(ValueError, match="forecast: got predicted data with which the loss"):
        again.decide(forecast=1e300)


@pytest.mark.parametrize("kind", ["smooth", "kinks"])
def test_minima_of_forecasts_are_accurate(kind):
    cvxpy = pytest.importorskip("cvxpy")
    size, rows = 6, 5

    def loss(x, a, b):
        error = a @ x - b
        return (
            jnp.sum(error**2)
            if kind == "smooth"
            else 0.1 * jnp.sum(error**2) + jnp.sum(jnp.abs(error))
        )

    domain = taut.Box(-1.0, 1.0, shape=size)

    @jax.jit
    def found(a, b, normals, offsets):
        return minimised(
            lambda x: jax.value_and_grad(loss)(x, a, b),
            domain.project,
            jnp.zeros(size),
            Rows(normals, offsets),
            jnp.asarray(domain.diameter),
        )

    for seed in range(8):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(size, size)), 2 * rng.normal(size=size)
        normals = rng.normal(size=(rows, size))
        normals /= np.linalg.norm(normals, axis=1)[:, None]
        offsets = rng.uniform(0, 0.3, rows)
        x = cvxpy.Variable(size)
        error = a @ x - b
        cost = cvxpy.sum_squares(error)
        cost = cost if kind == "smooth" else 0.1 * cost + cvxpy.norm1(error)
        model = cvxpy.Problem(cvxpy.Minimize(cost), [normals @ x <= offsets, x <= 1, x >= -1])
        model.solve(solver="CLARABEL")
        result = found(a, b, normals, offsets)
        slope = jax.grad(loss)(jnp.zeros(size), a, b)
        spread = float(jnp.linalg.norm(slope)) * float(domain.diameter)
        assert (normals @ result.point <= offsets + 1e-12).all()
        assert -1e-7 * spread <= float(result.value) - model.value <= 1.01e-6 * spread
        assert float(result.lower) <= model.value + 1e-7 * spread
        assert result.steps < 200

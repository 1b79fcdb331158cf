"""Problems that depend on the previous decision: every part of the library must pass it on, and to
the right seed."""

import functools
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import assert_bit_equal
from taut.judge.regret_curve import cumulative_regret
from taut.problem.memory import recorded
from taut.problem.streams import RoundData

ROUNDS, SEEDS = 23, 3
START = np.array([0.5, -0.25])
BOX = taut.Box(-1.0, 1.0, shape=2)
RAMP = 0.3


def cost(x, z, previous):
    return z @ x + 0.5 * jnp.sum((x - previous) ** 2)


def ramps(x, z, previous):
    return jnp.concatenate([x - previous - RAMP, previous - x - RAMP])


def total(x):
    return jnp.sum(x) - 1.5


RAMPED = taut.Problem(cost, ramps, BOX, previous=True, start=START)
LIMITED = taut.Problem(
    cost, total, BOX, taut.Constants(loss_lipschitz=8.0, constraint_lipschitz=2**0.5), previous=True
)
LEARNER = taut.ClippedOGD(0.2, 3.0)
ALL = ("loss", "excess", "decisions")


def data(rounds=ROUNDS):
    return np.random.default_rng(1).normal(size=(SEEDS, rounds, 2))


def played(problem=RAMPED, **options):
    return taut.simulate(LEARNER, problem, data(), **{"seeds": SEEDS, "record": ALL, **options})


def by_hand(z, x, previous):
    """Clipped-OGD on RAMPED in plain NumPy."""
    decisions, losses, excesses = [], [], []
    for c in z:
        g = np.concatenate([x - previous - RAMP, previous - x - RAMP])
        decisions.append(x)
        losses.append(c @ x + 0.5 * np.sum((x - previous) ** 2))
        excesses.append(g.max())
        weight = np.maximum(g, 0) / 3.0
        step = 0.2 * (c + x - previous) + weight[:2] - weight[2:]
        x, previous = np.clip(x - step, -1, 1), x
    return np.array(decisions), np.array(losses), np.array(excesses)


def test_every_seed_has_its_own_previous_decision():
    run, z = played(), data()
    for seed in range(SEEDS):
        decisions, losses, excesses = by_hand(z[seed], np.zeros(2), START)
        np.testing.assert_allclose(run.decisions[seed], decisions, atol=1e-12)
        np.testing.assert_allclose(run.loss[seed], losses, atol=1e-12)
        np.testing.assert_allclose(run.excess[seed], excesses, atol=1e-12)


def test_without_a_start_the_first_decision_was_played_before():
    problem = taut.Problem(cost, ramps, BOX, previous=True)
    run = taut.simulate(LEARNER, problem, data()[0], x1=START, record=ALL)
    decisions, losses, _ = by_hand(data()[0], START, START)
    np.testing.assert_allclose(run.decisions[0], decisions, atol=1e-12)
    np.testing.assert_allclose(run.loss[0], losses, atol=1e-12)


def test_threads_and_sweeps_keep_previous_decisions_apart():
    alone = [
        played(),
        taut.simulate(taut.ClippedOGD(0.1, 3.0), RAMPED, data(), seeds=SEEDS, record=ALL),
    ]
    jobs = [
        functools.partial(taut.simulate, one.learner, RAMPED, data(), seeds=SEEDS, record=ALL)
        for one in alone
    ]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda job: job(), jobs))
    for one, other in zip(found, alone, strict=True):
        assert_bit_equal(one, other)
    sweep = taut.simulate([one.learner for one in alone], RAMPED, data(), seeds=SEEDS, record=ALL)
    for i, one in enumerate(alone):
        np.testing.assert_allclose(sweep.loss[i], one.loss, atol=1e-12)


def test_chunks_and_a_resumed_checkpoint_are_bit_identical(tmp_path):
    z = data()

    class Stop(Exception):
        pass

    def chunks(until, start, length):
        if start >= until:
            raise Stop
        return z[:, start : start + length]

    def play(until, folder=None, problem=RAMPED):
        stream = lambda start, length: chunks(until, start, length)  # noqa: E731
        return taut.simulate(
            LEARNER,
            problem,
            stream,
            horizon=ROUNDS,
            seeds=SEEDS,
            record=ALL,
            chunk=5,
            checkpoint=folder,
        )

    whole = play(ROUNDS)
    np.testing.assert_array_equal(whole.loss, played().loss)
    with pytest.raises(Stop):
        play(10, tmp_path)
    with pytest.raises(
        ValueError, match="start"
    ):  # another decision before round 1 is another call
        play(ROUNDS, tmp_path, taut.Problem(cost, ramps, BOX, previous=True, start=-START))
    assert_bit_equal(play(ROUNDS, tmp_path), whole)


def test_a_player_plays_like_the_simulation_also_after_a_restart(tmp_path):
    run, z = played(), data()[0]
    player = taut.Player(LEARNER, RAMPED, count=4)
    for t in range(ROUNDS):
        np.testing.assert_allclose(
            player.decision, run.decisions[0, t], rtol=1e-14
        )  # two compiled programs
        if t in (0, 7):  # between decision and observation
            player.save(tmp_path / "player.npz")
            player = taut.Player.load(tmp_path / "player.npz", RAMPED)
        player.observe(z[t])
    assert player.totals.loss == pytest.approx(run.totals.loss[0])
    np.testing.assert_allclose(player.totals.peak, run.totals.peak[0])


def test_a_file_of_a_player_without_memory_is_refused_with_memory(tmp_path):
    plain = taut.Problem(lambda x, z: z @ x, total, BOX)
    player = taut.Player(LEARNER, plain)
    player.save(tmp_path / "plain.npz")
    with pytest.raises(ValueError, match=r"plain.npz"):
        taut.Player.load(tmp_path / "plain.npz", LIMITED)


TRANSFORMS = {
    "tightened": lambda p: taut.tightened(p, 0.1),
    "squared": taut.squared,
    "max_of": taut.max_of,
    "log_sum_exp": lambda p: taut.log_sum_exp(p, 10.0),
}
EXPECTED = {
    "tightened": lambda g: g + 0.1,
    "squared": lambda g: np.maximum(g, 0) ** 2,
    "max_of": lambda g: g.max(keepdims=True),
    "log_sum_exp": lambda g: np.log(np.exp(10 * g).sum(keepdims=True)) / 10,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_pass_the_previous_decision_on(name):
    problem = TRANSFORMS[name](RAMPED)
    assert problem.previous
    assert np.array_equal(problem.start, START)
    x, z, before = jnp.array([0.4, 0.1]), jnp.array([1.0, 2.0]), jnp.array([-0.5, 0.3])
    g = np.concatenate([x - before - RAMP, before - x - RAMP])
    np.testing.assert_allclose(
        problem.constraints.values(x, RoundData(z, before)), EXPECTED[name](g), atol=1e-12
    )
    assert float(problem.loss(x, RoundData(z, before))) == pytest.approx(0.6 + 0.5 * (0.81 + 0.04))
    run = taut.simulate(LEARNER, problem, data(), seeds=SEEDS, score=RAMPED, record=ALL)
    moved = run.decisions[:, 1:] - run.decisions[:, :-1]
    np.testing.assert_allclose(run.excess[:, 1:], np.abs(moved).max(axis=-1) - RAMP, atol=1e-12)


def test_a_rescaled_problem_scales_the_previous_decision():
    small = taut.rescaled(
        RAMPED.with_constants(taut.Constants(loss_lipschitz=5.0, constraint_lipschitz=2.0))
    )
    unit = small.units
    np.testing.assert_allclose(small.start * unit.decision, START)
    x, z, before = jnp.array([0.4, 0.1]), jnp.array([1.0, 2.0]), jnp.array([-0.5, 0.3])
    pair = RoundData(z, before / unit.decision)
    assert float(small.loss(x / unit.decision, pair)) * unit.loss == pytest.approx(
        0.6 + 0.5 * (0.81 + 0.04)
    )
    g = np.concatenate([x - before - RAMP, before - x - RAMP])
    np.testing.assert_allclose(
        small.constraints.values(x / unit.decision, pair) * unit.constraint, g, atol=1e-12
    )
    rest = taut.steady(small)
    assert float(rest.loss(x / unit.decision, z)) * unit.loss == pytest.approx(0.6)
    np.testing.assert_allclose(
        rest.constraints.values(x / unit.decision, z) * unit.constraint, -RAMP, atol=1e-12
    )


def test_a_run_is_scored_with_memory_although_it_is_played_without_and_the_other_way_round():
    plain = taut.Problem(lambda x, z: z @ x, total, BOX)
    run = played(plain, score=RAMPED)
    moved = np.diff(
        np.concatenate([np.broadcast_to(START, (SEEDS, 1, 2)), run.decisions], axis=1), axis=1
    )
    losses = np.sum(data() * run.decisions, axis=-1)
    np.testing.assert_allclose(run.loss, losses + 0.5 * np.sum(moved**2, axis=-1), atol=1e-12)
    np.testing.assert_allclose(run.excess, np.abs(moved).max(axis=-1) - RAMP, atol=1e-12)
    np.testing.assert_array_equal(run.decisions, played(plain).decisions)
    run = played(RAMPED, score=plain)
    np.testing.assert_array_equal(run.decisions, played(RAMPED).decisions)
    np.testing.assert_allclose(run.loss, np.sum(data() * run.decisions, axis=-1), atol=1e-12)


def test_two_problems_with_other_decisions_before_round_1_do_not_score_each_other():
    other = taut.Problem(cost, ramps, BOX, previous=True, start=-START)
    with pytest.raises(ValueError, match="score: got a problem with start"):
        played(RAMPED, score=other)


def test_problems_without_memory_carry_nothing_more():
    state = taut.init(LEARNER, taut.Problem(lambda x, z: z @ x, total, BOX))
    assert state.previous is None
    np.testing.assert_array_equal(taut.init(LEARNER, LIMITED).previous, np.zeros(2))


def test_policy_comparator_is_its_own_previous_decision():
    z = data()
    best = taut.hindsight(LIMITED, z, seeds=SEEDS)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 81)] * 2), axis=-1).reshape(-1, 2)
    grid = grid[grid.sum(axis=1) <= 1.5]
    np.testing.assert_allclose(best.loss, (z.sum(axis=1) @ grid.T).min(axis=1), atol=1e-6)
    run = taut.simulate(LEARNER, LIMITED, z, seeds=SEEDS)
    np.testing.assert_allclose(
        taut.metrics.measured(run, best)["policy regret"], run.totals.loss - best.loss
    )
    curve = cumulative_regret(run, best)
    np.testing.assert_allclose(curve[:, -1], run.totals.loss - best.loss, atol=1e-9)
    with pytest.raises(ValueError, match="previous=True, in which the decisions"):
        taut.hindsight(LIMITED, z, seeds=SEEDS, comparator="per-round")


@pytest.mark.parametrize("record", [ALL, ()])
def test_adaptive_comparator_follows_the_previous_decisions_of_the_run(record):
    z = data()
    run = taut.simulate(LEARNER, LIMITED, z, seeds=SEEDS, record=record)
    best = taut.hindsight(LIMITED, z, seeds=SEEDS, previous=run)
    every = played(LIMITED).decisions
    before = np.concatenate([np.zeros((SEEDS, 1, 2)), every[:, :-1]], axis=1)
    for seed in range(
        SEEDS
    ):  # the sum is a parabola with its lowest point at the mean of previous - z
        lowest = (before[seed] - z[seed]).mean(axis=0)
        free = np.clip(lowest, -1, 1)
        assert free.sum() < 1.5
        value = np.sum(z[seed] @ free) + 0.5 * np.sum((free - before[seed]) ** 2)
        assert best.loss[seed] == pytest.approx(value, abs=1e-6)


def test_certificates_name_both_regrets_and_bound_the_right_one():
    problem = taut.Problem(cost, total, BOX, LIMITED.constants, domain_binds=True, previous=True)
    z = data(200)
    certificate = taut.simulate("half-space", problem, z, seeds=SEEDS).certificate()
    rows = {row.quantity: row for row in certificate.rows}
    assert "regret" not in rows
    assert rows["adaptive-adversary regret"].holds
    assert rows["policy regret"].bound is None
    assert "taut.steady" in rows["policy regret"].reasons[0]
    run = taut.simulate(
        "half-space", taut.steady(problem), z, seeds=SEEDS, score=problem, record=ALL
    )
    certificate = run.certificate()
    rows = {row.quantity: row for row in certificate.rows}
    policy = rows["policy regret"]
    assert policy.holds
    assert "cost of moving" in policy.theorem
    assert rows["adaptive-adversary regret"].bound is None
    moved = np.diff(np.concatenate([np.zeros((SEEDS, 1, 2)), run.decisions], axis=1), axis=1)
    alone = taut.simulate("half-space", taut.steady(problem), z, seeds=SEEDS).certificate()
    regret = next(row for row in alone.rows if row.quantity == "regret")
    assert policy.bound == pytest.approx(regret.bound + (0.5 * moved**2).sum(axis=(1, 2)).max())
    assert rows["violation"].bound == next(
        row.bound for row in alone.rows if row.quantity == "violation"
    )


def test_bounds_on_violations_do_not_carry_over_to_constraints_with_memory():
    z = data(40)
    run = taut.simulate("half-space", taut.steady(RAMPED), z, seeds=SEEDS, score=RAMPED)
    certificate = run.certificate(check=False)
    row = next(row for row in certificate.rows if row.quantity == "violation")
    assert row.bound is None
    assert "previous decision" in row.reasons[0]


def test_a_comparison_calls_it_policy_regret():
    found = taut.compare({"a": LEARNER}, LIMITED, data(), seeds=SEEDS, timing=False)
    assert "policy regret" in found.values["a"]
    assert "regret" not in found.values["a"]
    assert "policy regret" in found.to_dict()["winners"]
    with pytest.raises(ValueError, match="two regrets"):
        taut.rates(LEARNER, (LIMITED, data()), [5, 10], seeds=SEEDS)


def test_constants_are_estimated_over_previous_decisions():
    known = LIMITED.estimate_constants(data(), jax.random.key(0), seeds=SEEDS)
    exact = np.linalg.norm(
        np.abs(data()) + 2, axis=-1
    ).max()  # |z + x - previous| with x and previous in opposite corners
    assert (
        0.8 * exact
        < taut.Problem(cost, total, BOX, previous=True)
        .estimate_constants(data(), jax.random.key(0), seeds=SEEDS)
        .loss_lipschitz
        <= exact * (1 + 1e-12)
    )
    assert known.loss_lipschitz == 8.0
    ramped = RAMPED.estimate_constants(data(), jax.random.key(0), seeds=SEEDS)
    assert ramped.constraint_count == 4
    assert 1.9 < ramped.constraint_range <= 2 + RAMP


def test_an_adversary_meets_problems_with_memory():
    def reveal(t, x, key):
        return jax.random.normal(key, (2,), x.dtype) + x

    run = taut.simulate(LEARNER, RAMPED, reveal, horizon=10, seeds=2, record=ALL)
    moved = np.diff(run.decisions, axis=1)
    np.testing.assert_allclose(run.excess[:, 1:], np.abs(moved).max(axis=-1) - RAMP, atol=1e-12)
    assert {row.quantity for row in run.certificate(check=False).rows} >= {"policy regret"}


def test_both_views_have_no_memory():
    assert not taut.steady(RAMPED).previous
    assert not recorded(RAMPED).previous
    assert (
        taut.steady(LIMITED).constants.loss_lipschitz is None
    )  # that of the problem with memory may be another one


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: taut.Problem(cost, total, BOX),
            r"loss: got a function with 3 .* set previous=True",
        ),
        (
            lambda: taut.Problem(lambda x, z: z @ x, ramps, BOX),
            r"constraints: got a function with 3 .* previous=True",
        ),
        (
            lambda: taut.Problem(lambda x: x, total, BOX, previous=True),
            r"loss\(x, z, previous\), or two",
        ),
        (
            lambda: taut.Problem(cost, total, BOX, previous=START),
            r"previous: got .*; expected True or False",
        ),
        (
            lambda: taut.Problem(cost, total, BOX, previous=True, start=[2.0, 0.0]),
            "start: got .*outside the domain",
        ),
        (
            lambda: taut.Problem(cost, total, BOX, previous=True, start=[0.0]),
            r"start: got shape \(1,\)",
        ),
        (
            lambda: taut.Problem(lambda x, z: z @ x, total, BOX, start=START),
            "start: got a decision for a problem without",
        ),
        (
            lambda: taut.steady(taut.Problem(lambda x, z: z @ x, total, BOX)),
            "problem: got a problem without memory",
        ),
        (
            lambda: taut.hindsight(RAMPED, data(), seeds=SEEDS, previous=np.zeros((1, 2, 2))),
            "previous: got decisions of shape",
        ),
        (lambda: played(RAMPED, x1=[3.0, 0.0]), "x1"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_cells_of_a_sweep_tell_decisions_before_round_1_and_adversary_states_apart():
    from taut.sweeps.cell import prepare
    from taut.sweeps.sweep import Identities

    def reveal(state, t, x, key):
        return state, state + x

    other = taut.Problem(cost, ramps, BOX, previous=True, start=-START)
    plain = taut.Problem(cost, ramps, BOX, previous=True)
    streams = [data()[0], taut.adversary(reveal, np.zeros(2)), taut.adversary(reveal, np.ones(2))]
    cells = [
        taut.Cell(LEARNER, problem, stream, horizon=9)
        for problem in (RAMPED, other, plain)
        for stream in streams
    ]
    identities, shared = Identities(), {}
    assert len({identities.of(prepare(cell, shared)) for cell in cells}) == len(cells)

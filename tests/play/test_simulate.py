"""Simulation: equal to a plain loop however it is cut, batched or recorded; compiled once; flat in
memory."""

import re
from dataclasses import dataclass
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.compiled import program_of

import taut
from small_games import ALL, BALL, FOUR, GAME, ROUNDS, clipped_by_hand, distance, targets
from taut.engine import register_dataclass
from taut.learners import Learner, State

ETA, SIGMA = 0.3, 5.0
CLIPPED = taut.ClippedOGD(ETA, SIGMA)


def assert_same(a, b, tolerance=0.0):
    """Two runs agree in everything recorded and in their totals."""
    for name in (*ALL, "final"):
        left, right = getattr(a, name), getattr(b, name)
        assert (left is None) == (right is None), name
        if left is not None:
            np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance, err_msg=name)
    for name in vars(a.totals):
        left, right = getattr(a.totals, name), getattr(b.totals, name)
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance, err_msg=name)


# Against a plain loop, however the rounds are cut into chunks.


@pytest.mark.parametrize(
    "chunk", [None, 7, ROUNDS, ROUNDS // 4], ids=["default", "ragged", "one", "even"]
)
def test_equals_a_plain_loop(chunk):
    z = targets()
    run = taut.simulate(CLIPPED, GAME, z, record=ALL, chunk=chunk)
    decisions, losses, excesses, following = clipped_by_hand(z, ETA, SIGMA)
    np.testing.assert_allclose(run.decisions[0], decisions, atol=1e-12)
    np.testing.assert_allclose(run.loss[0], losses, atol=1e-12)
    np.testing.assert_allclose(run.excess[0], excesses, atol=1e-12)
    np.testing.assert_allclose(run.final[0], following, atol=1e-12)
    np.testing.assert_allclose(
        run.multipliers[0, :, 0], np.maximum(excesses, 0) / (SIGMA * ETA), atol=1e-12
    )
    clipped = np.maximum(excesses, 0)
    assert np.count_nonzero(clipped) > 10
    totals = run.totals
    for measured, by_hand in (
        (totals.loss, losses.sum()),
        (totals.excess[:, 0], excesses.sum()),
        (totals.violation[:, 0], clipped.sum()),
        (totals.squared[:, 0], (clipped**2).sum()),
        (totals.peak[:, 0], clipped.max()),
        (totals.worst_excess, excesses.sum()),
        (totals.worst_violation, clipped.sum()),
        (totals.worst_squared, (clipped**2).sum()),
    ):
        np.testing.assert_allclose(measured, [by_hand], rtol=1e-12)


def test_a_horizon_shorter_than_the_stream_and_than_a_chunk():
    z = targets()
    whole = taut.simulate(CLIPPED, GAME, z, record=ALL, chunk=32)
    for rounds in (1, 5, 33):
        part = taut.simulate(CLIPPED, GAME, z, horizon=rounds, record=ALL, chunk=32)
        assert part.horizon == rounds
        assert part.loss.shape == (1, rounds)
        np.testing.assert_array_equal(part.decisions, whole.decisions[:, :rounds])
        np.testing.assert_array_equal(part.final, whole.decisions[:, rounds])


@pytest.mark.parametrize("every", [7, 100])
def test_every_so_manieth_round_is_kept(every):
    z = targets()
    run = taut.simulate(CLIPPED, GAME, z, record=ALL, chunk=10, every=every)
    decisions, losses, excesses, _ = clipped_by_hand(z, ETA, SIGMA)
    assert run.decisions.shape == (1, ROUNDS // every, 2)
    np.testing.assert_allclose(run.decisions[0], decisions[every - 1 :: every], atol=1e-12)
    multipliers = np.maximum(excesses, 0) / (SIGMA * ETA)
    np.testing.assert_allclose(
        run.multipliers[0, :, 0], multipliers[every - 1 :: every], atol=1e-12
    )
    np.testing.assert_allclose(run.loss[0], losses, atol=1e-12)


def test_per_constraint_and_largest_totals():
    run = taut.simulate(taut.ClippedOGD(ETA, 20.0), FOUR, targets(), record=ALL)
    x = run.decisions[0]
    values = np.stack([x @ side for side in ([1, 1], [1, -1], [-1, 1], [-1, -1])], axis=1) - 1
    np.testing.assert_allclose(run.excess[0], values.max(axis=1), atol=1e-13)
    for name, terms in (
        ("excess", values),
        ("violation", np.maximum(values, 0)),
        ("squared", np.maximum(values, 0) ** 2),
    ):
        np.testing.assert_allclose(getattr(run.totals, name)[0], terms.sum(axis=0), rtol=1e-12)
        worst = {"excess": values.max(1), "violation": np.maximum(values.max(1), 0)}
        worst["squared"] = worst["violation"] ** 2
        np.testing.assert_allclose(
            getattr(run.totals, f"worst_{name}")[0], worst[name].sum(), rtol=1e-12
        )
    np.testing.assert_array_equal(run.totals.peak[0], np.maximum(values, 0).max(axis=0))


# Batches: seeds and sweeps.


def test_sweep_over_parameters_and_seeds_equals_single_games():
    z = targets(seeds=2)
    learners = [taut.ClippedOGD(eta, 5.0) for eta in (0.1, 0.3, 0.5)]
    sweep = taut.simulate(learners, GAME, z, seeds=2, record=ALL, every=5)
    assert sweep.swept
    assert sweep.loss.shape == (3, 2, ROUNDS)
    assert sweep.decisions.shape == (3, 2, ROUNDS // 5, 2)
    for i, one in enumerate(learners):
        picked = sweep[i]
        assert picked.learner == one
        assert not picked.swept
        for k in range(2):
            decisions, losses, excesses, following = clipped_by_hand(z[k], 0.1 + 0.2 * i, 5.0)
            np.testing.assert_allclose(picked.loss[k], losses, atol=1e-12)
            np.testing.assert_allclose(picked.decisions[k], decisions[4::5], atol=1e-12)
            np.testing.assert_allclose(picked.final[k], following, atol=1e-12)
            np.testing.assert_allclose(picked.totals.excess[k], [excesses.sum()], rtol=1e-11)


def test_doubling_can_be_swept():
    learners = [
        taut.Doubling.of(lambda horizon, c=c: taut.ClippedOGD(c / horizon**0.5, 5.0))
        for c in (0.2, 0.7)
    ]
    z = targets()
    sweep = taut.simulate(learners, GAME, z, record=ALL)
    for i, one in enumerate(learners):
        assert_same(sweep[i], taut.simulate(one, GAME, z, record=ALL), 1e-13)
    assert not np.allclose(sweep[0].loss, sweep[1].loss)


@pytest.mark.parametrize("seeds", [5, 6, 7, 10, 11, 12])
@pytest.mark.parametrize("swept", [False, True])
def test_any_number_of_seeds_equals_single_games(seeds, swept):
    problem = taut.Problem(
        lambda x, z: jnp.sum((x - jnp.log(z)) ** 2),
        lambda x: (jnp.sum(x) - 1, -x),
        taut.Ball(2.0, shape=3),
    )
    data = np.random.default_rng(seeds).uniform(0.5, 3.0, size=(seeds, 40, 3))
    learner = (
        [taut.ClippedOGD(0.1, sigma) for sigma in (20.0, 40.0)]
        if swept
        else taut.ClippedOGD(0.1, 20.0)
    )
    together = taut.simulate(learner, problem, data, seeds=seeds, record=ALL, chunk=16)
    for index, run in enumerate([together[0], together[1]] if swept else [together]):
        assert run.loss.shape == (seeds, 40)
        for seed in (0, seeds - 1):
            alone = taut.simulate(
                learner[index] if swept else learner, problem, data[seed], record=ALL
            )
            for name in (*ALL, "final"):
                np.testing.assert_allclose(
                    getattr(run, name)[seed], getattr(alone, name)[0], rtol=1e-12, atol=1e-12
                )
            np.testing.assert_allclose(
                run.totals.squared[seed], alone.totals.squared[0], rtol=1e-10
            )


def test_one_seed_keeps_its_axis():
    z = targets(seeds=1)
    run = taut.simulate(CLIPPED, GAME, z, seeds=1)
    assert run.loss.shape == (1, ROUNDS)
    assert run.totals.violation.shape == (1, 1)
    np.testing.assert_array_equal(run.loss, taut.simulate(CLIPPED, GAME, z[0]).loss)


# Adversaries.


def flees(t, x, key):
    """Points away from the decision, by a random distance that depends on the round."""
    return -x * jnp.sqrt(t.astype(x.dtype)) + jax.random.normal(key, (2,), x.dtype)


def test_adversary_sees_round_decision_and_a_key_of_its_own():
    key = jax.random.key(7)
    run = taut.simulate(CLIPPED, GAME, flees, horizon=12, seeds=2, key=key, record=ALL, chunk=5)
    own = jax.vmap(jax.random.fold_in, (0, None)), jax.random.split(key, 2)
    noise = np.stack(
        [jax.vmap(lambda k: jax.random.normal(k, (2,)))(own[0](own[1], t)) for t in range(1, 13)],
        axis=1,
    )
    for seed in range(2):
        x = np.zeros(2)
        for t in range(1, 13):
            np.testing.assert_allclose(run.decisions[seed, t - 1], x, atol=1e-12)
            z = -x * np.sqrt(t) + noise[seed, t - 1]
            _, loss, _, x = clipped_by_hand([z], ETA, SIGMA, x)
            np.testing.assert_allclose(run.loss[seed, t - 1], loss[0], atol=1e-12)
    again = taut.simulate(CLIPPED, GAME, flees, horizon=12, seeds=2, key=key, record=ALL, chunk=5)
    assert_same(run, again)
    old_style = jax.random.key_data(key)
    assert_same(
        run,
        taut.simulate(
            CLIPPED, GAME, flees, horizon=12, seeds=2, key=old_style, record=ALL, chunk=5
        ),
    )
    other = taut.simulate(
        CLIPPED, GAME, flees, horizon=12, seeds=2, key=jax.random.key(8), record=ALL, chunk=5
    )
    assert not np.allclose(run.loss[:, 1:], other.loss[:, 1:])
    assert not np.allclose(run.loss[0, 1:], run.loss[1, 1:])


# Float types.


def test_float32_first_decision_makes_a_float32_game_with_exact_totals():
    rounds = 20_000
    z = targets(rounds=rounds)
    run = taut.simulate(CLIPPED, GAME, z, x1=np.zeros(2, np.float32), record=ALL)
    for name in (*ALL, "final"):
        assert getattr(run, name).dtype == np.float32, name
    assert run.totals.loss.dtype == np.float64
    # The terms are rounded to 32 bits, their sums are not: 24 bits would be off by 1e-4 after so
    # many rounds.
    np.testing.assert_allclose(run.totals.loss[0], run.loss[0].astype(float).sum(), rtol=1e-9)
    np.testing.assert_allclose(
        run.totals.worst_excess[0], run.excess[0].astype(float).sum(), rtol=1e-9
    )
    assert abs(np.cumsum(run.loss[0])[-1] - run.totals.loss[0]) > 1e-7 * run.totals.loss[0]


def test_float32_sweep_of_a_learner_that_never_casts():
    @register_dataclass
    @dataclass(frozen=True)
    class Careless(Learner):
        step_size: Any

        def init(self, x1, count):
            return State(x1, jnp.asarray(1, jnp.int32))

        def step(self, state, round):
            return State(
                round.project(state.x - self.step_size * round.gradient(state.x)), state.t + 1
            )

    z = targets()
    x1 = np.zeros(2, np.float32)
    run = taut.simulate([Careless(0.1), Careless(0.2)], GAME, z, x1=x1, record=ALL)
    assert run.decisions.dtype == np.float32
    for i, size in enumerate((0.1, 0.2)):
        x, expected = np.zeros(2), []
        for point in z:
            expected.append(x)
            x = x - size * (x - point)
            x = x / max(1.0, np.linalg.norm(x) / 1.5)
        np.testing.assert_allclose(run[i].decisions[0], expected, atol=2e-6)
    assert np.all(run.multipliers == 0)


# Scoring by another problem.


def test_score_by_another_problem_with_other_constraints():
    def far(x, z):
        return jnp.sum(jnp.abs(x - z))

    other = taut.Problem(far, lambda x: jnp.stack([x[0] - 0.1, x[1], -x[0]]), BALL)
    z = targets()
    plain = taut.simulate(CLIPPED, GAME, z, record=ALL)
    scored = taut.simulate(CLIPPED, GAME, z, record=ALL, score=other)
    np.testing.assert_allclose(scored.decisions, plain.decisions, atol=1e-14)
    np.testing.assert_allclose(scored.multipliers, plain.multipliers, atol=1e-14)
    x = plain.decisions[0]
    np.testing.assert_allclose(scored.loss[0], np.abs(x - z).sum(axis=1), atol=1e-12)
    values = np.stack([x[:, 0] - 0.1, x[:, 1], -x[:, 0]], axis=1)
    np.testing.assert_allclose(scored.excess[0], values.max(axis=1), atol=1e-12)
    np.testing.assert_allclose(
        scored.totals.violation[0], np.maximum(values, 0).sum(axis=0), atol=1e-12
    )
    assert scored.problem is other
    assert scored.played is GAME


def test_score_of_a_transform_by_what_it_stands_for():
    z = targets()
    run = taut.simulate(taut.ClippedOGD(ETA, 20.0), taut.max_of(FOUR), z, record=ALL, score=FOUR)
    assert run.multipliers.shape[-1] == 1
    assert run.totals.violation.shape == (1, 4)
    np.testing.assert_allclose(
        run.totals.worst_violation, np.maximum(run.excess, 0).sum(axis=1), rtol=1e-12
    )


# What is compiled.


@pytest.fixture
def compiled():
    """The chunks that XLA compiles from here on."""
    seen = []

    def listen(event, duration, **details):
        if event.endswith("backend_compile_duration") and details["fun_name"] == "jit(play_chunk)":
            seen.append(details)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return seen


def test_second_horizon_parameter_and_data_do_not_recompile(compiled):
    z = targets(seeds=2, rounds=200)
    taut.simulate(CLIPPED, GAME, z, seeds=2, horizon=150)
    del compiled[:]
    taut.simulate(CLIPPED, GAME, z, seeds=2, horizon=37)
    taut.simulate(
        taut.ClippedOGD(np.float64(0.1), 7.0), GAME, targets(seeds=2, rounds=99, seed=5), seeds=2
    )
    taut.simulate(CLIPPED, GAME, z.astype(np.float32), seeds=2, x1=[0.1, 0.2])
    assert not compiled
    taut.simulate(taut.ClippedOGD.anytime(GAME.constants), GAME, z, seeds=2)
    assert len(compiled) == 1  # another schedule: the listener works


def _loop(problem, score=None):
    """The optimised text of the compiled loop over rounds, everything recorded."""
    options = {"record": ALL, "score": score, "chunk": 8}
    return program_of(CLIPPED, problem, targets(rounds=8), **options).as_text()


def test_loss_and_constraints_are_evaluated_once_a_round():
    def loss(x, z):
        return jnp.sum(
            jnp.cosh(x - z)
        )  # two exponentials, of x - z and of z - x; its slope needs the same two

    def constraints(x):
        return jnp.tanh(x) - 0.3

    problem = taut.Problem(loss, constraints, BALL)
    for text in (_loop(problem), _loop(taut.max_of(problem), score=problem)):
        assert len(re.findall(r"= \S+ tanh\(", text)) == 1
        assert len(re.findall(r"= \S+ exponential\(", text)) == 2


def test_totals_that_fit_are_taken_without_a_warning_although_their_sum_does_not_fit():
    problem = taut.Problem(lambda x, z: z @ x + 1.5e308, lambda x: jnp.sum(x) - 1, BALL)
    run = taut.simulate(CLIPPED, problem, np.zeros((3, 1, *BALL.shape)), seeds=3)
    np.testing.assert_array_equal(run.totals.loss, 1.5e308)


# Memory.


def test_memory_does_not_depend_on_the_horizon_when_only_totals_are_asked_for():
    asked, alive = [], []

    def chunk(start, length):
        asked.append(length)
        alive.append(sum(array.nbytes for array in jax.live_arrays()))
        return np.full((length, 2), 0.1 + start % 3)

    runs = {
        rounds: taut.simulate(CLIPPED, GAME, chunk, horizon=rounds, record=(), chunk=50)
        for rounds in (500, 5000)
    }
    assert max(asked) == 50
    settled = alive[3:]  # past the first chunks, which bring constants of the compiled game
    assert max(settled) - min(settled) <= 50 * 2 * 8
    for run in runs.values():
        assert [getattr(run, name) for name in ALL] == [None] * 4
    sizes = {
        rounds: sum(a.nbytes for a in vars(run.totals).values()) for rounds, run in runs.items()
    }
    assert sizes[500] == sizes[5000] == 8 * 8
    by_hand = clipped_by_hand([[0.1 + 50 * (i // 50) % 3] * 2 for i in range(5000)], ETA, SIGMA)
    np.testing.assert_allclose(runs[5000].totals.loss, by_hand[1].sum(), rtol=1e-10)


def test_compiled_game_has_no_buffer_of_records_unless_asked():
    sizes = [
        program_of(CLIPPED, GAME, targets(rounds=64), record=record, chunk=4096)
        .memory_analysis()
        .output_size_in_bytes
        for record in ((), ("loss",))
    ]
    assert sizes[0] < 1000
    assert sizes[1] >= 4096 * 8


# The rest of the interface.


def test_learner_of_the_users_own():
    @register_dataclass
    @dataclass(frozen=True)
    class FollowTheData(Learner):
        """Plays the mean of the data seen so far, which a gradient step of length 1/t gives."""

        def init(self, x1, count):
            return State(x1, jnp.asarray(1, jnp.int32))

        def step(self, state, round):
            return State(
                state.x - round.gradient(state.x) / state.t.astype(state.x.dtype), state.t + 1
            )

    z = targets()
    run = taut.simulate(FollowTheData(), GAME, z, record=ALL)
    means = np.cumsum(z, axis=0) / np.arange(1, ROUNDS + 1)[:, None]
    np.testing.assert_allclose(run.decisions[0, 1:], means[:-1], atol=1e-12)
    several = taut.simulate([FollowTheData()] * 2, GAME, np.stack([z, z]), seeds=2, record=ALL)
    np.testing.assert_allclose(several.decisions, np.tile(run.decisions, (2, 2, 1, 1)), atol=1e-12)


def test_what_produced_a_run_is_in_it():
    z = targets()
    run = taut.simulate(CLIPPED, GAME, z, x1=[0.1, -0.2])
    assert run.learner is CLIPPED
    assert run.version == taut.__version__
    assert run.problem is run.played is GAME
    np.testing.assert_array_equal(run.first, [0.1, -0.2])
    np.testing.assert_array_equal(run.stream.block(3, 2)[0], z[3:5])
    assert run.decisions is None


def test_constraints_that_change_with_the_round():
    def below(x, z):
        return x[0] - z[1]

    problem = taut.Problem(distance, below, BALL)
    z = targets()
    run = taut.simulate(CLIPPED, problem, z, record=ALL)
    np.testing.assert_allclose(run.excess[0], run.decisions[0, :, 0] - z[:, 1], atol=1e-14)


def test_progress_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    run = taut.simulate(CLIPPED, GAME, targets(), chunk=20, progress=True)
    assert "60/60" in capsys.readouterr().err
    assert_same(run, taut.simulate(CLIPPED, GAME, targets(), chunk=20))
    assert capsys.readouterr() == ("", "")


def test_transformed_game_of_matrices():
    def g(x):
        return x.sum(axis=0) - 1, jnp.sum(x) - 2

    problem = taut.max_of(
        taut.Problem(lambda x, z: jnp.sum(x * z), g, taut.Box(0.0, 1.0, shape=(2, 3)))
    )
    z = np.random.default_rng(0).normal(size=(20, 2, 3))
    run = taut.simulate(CLIPPED, problem, z, record=ALL)
    assert run.decisions.shape == (1, 20, 2, 3)
    x = run.decisions[0]
    largest = np.maximum((x.sum(axis=1) - 1).max(axis=1), x.sum(axis=(1, 2)) - 2)
    np.testing.assert_allclose(run.excess[0], largest, atol=1e-14)
    np.testing.assert_allclose(run.loss[0], (x * z).sum(axis=(1, 2)), atol=1e-12)

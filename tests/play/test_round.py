"""One round as pure functions: by hand, under JAX's transformations, and what is not finite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import BALL, GAME, clipped_by_hand, distance, outside_diamond, steep, targets
from taut.learners import State
from taut.play.packing import as_arrays
from taut.play.round import (
    BITS,
    FAULTS,
    LAST,
    CheckedRound,
    Game,
    announce,
    fault,
    first_fault,
    init,
    play_round,
    reveal,
)
from taut.problem.rounds import FullInformation
from taut.runs.totals import Totals

ETA, SIGMA = 0.3, 5.0
CLIPPED = as_arrays(taut.ClippedOGD(ETA, SIGMA), np.float64)
X1 = jnp.zeros(2)


# By hand.


def played(game, data, learner=CLIPPED, counts=(1, 1), **given):
    """States before and after each round, and what happened in it."""
    states, rounds = [init(learner, game, X1, counts, **given)], []
    for z in data:
        state, round = reveal(learner, game, announce(learner, game, states[-1], z), z)
        states.append(state)
        rounds.append(round)
    return states, rounds


def test_the_first_state():
    state = init(CLIPPED, Game.of(GAME), X1, (1, 3))
    np.testing.assert_array_equal(state.x, X1)
    assert (int(state.t), int(state.faults)) == (1, 0)
    assert state.previous is state.adversary is None
    assert state.totals.excess.value.shape == (3,)  # of the constraints that are scored
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(state.totals))


def test_rounds_are_those_by_hand():
    z = targets(rounds=20)
    decisions, losses, excesses, following = clipped_by_hand(z, ETA, SIGMA)
    states, rounds = played(Game.of(GAME), z)
    np.testing.assert_allclose([state.x for state in states], [*decisions, following], atol=1e-14)
    np.testing.assert_allclose([round.state.x for round in rounds], decisions, atol=1e-14)
    np.testing.assert_allclose([round.loss for round in rounds], losses, atol=1e-14)
    np.testing.assert_allclose([round.excess for round in rounds], excesses[:, None], atol=1e-14)
    assert [int(state.t) for state in states] == list(range(1, 22))
    totals = Totals.of_chunk(jax.tree.map(np.asarray, states[-1].totals))
    assert totals.loss == pytest.approx(losses.sum())
    assert totals.worst_violation == pytest.approx(np.maximum(excesses, 0).sum())
    assert not any(int(state.faults) for state in states)


def test_rounds_under_transformations_are_the_same_rounds():
    data = jnp.asarray(targets(seeds=3, rounds=20))
    game = Game.of(GAME)

    def play(z):
        def one(state, z):
            after, round = reveal(CLIPPED, game, state, z)
            return after, (round.state.x, round.loss)

        return jax.lax.scan(one, init(CLIPPED, game, X1, (1, 1)), z)

    state, (played, scored) = jax.jit(jax.vmap(play))(data)
    for seed in range(3):
        decisions, losses, _, following = clipped_by_hand(data[seed], ETA, SIGMA)
        np.testing.assert_allclose(played[seed], decisions, atol=1e-13)
        np.testing.assert_allclose(scored[seed], losses, atol=1e-13)
        np.testing.assert_allclose(state.x[seed], following, atol=1e-13)


def test_the_decision_is_scored_by_another_problem():
    other = taut.Problem(
        lambda x, z: jnp.sum(jnp.abs(x - z)), lambda x: jnp.stack([x[0] - 0.1, -x[1]]), BALL
    )
    z = targets(rounds=5)
    decisions = clipped_by_hand(z, ETA, SIGMA)[0]
    states, rounds = played(Game.of(GAME, other), z, counts=(1, 2))
    for x, point, round in zip(decisions, z, rounds, strict=True):
        assert round.loss == pytest.approx(np.abs(x - point).sum())
        np.testing.assert_allclose(round.excess, [x[0] - 0.1, -x[1]], atol=1e-14)
    assert states[-1].totals.excess.value.shape == (2,)


def test_the_previous_decision_is_that_of_the_round_before():
    problem = taut.Problem(
        lambda x, z, previous: z @ x + jnp.sum((x - previous) ** 2),
        lambda x, z, previous: jnp.sum(jnp.abs(x - previous)) - 0.1,
        BALL,
        previous=True,
    )
    start, z = jnp.array([0.5, -0.5]), targets(rounds=6)
    states, rounds = played(Game.of(problem), z, previous=start)
    before = [start, *(round.state.x for round in rounds)]
    np.testing.assert_array_equal([state.previous for state in states], before)
    for round, point, x in zip(rounds, z, before, strict=False):
        moved = round.state.x - x
        assert round.loss == pytest.approx(float(point @ round.state.x + np.sum(moved**2)))
        np.testing.assert_allclose(round.excess, [np.abs(moved).sum() - 0.1], atol=1e-14)


def test_announced_constraints_are_enforced_before_the_round_and_nothing_else_is_known():
    def announced(x, z):
        return x[0] - z[0]

    problem = taut.Problem(distance, outside_diamond, BALL, announced=announced)
    game, learner = Game.of(problem), as_arrays(taut.learner("half-space", problem), np.float64)
    state = init(learner, game, X1, (1, 2))
    moved = announce(learner, game, state, jnp.array([-0.25, 9.0]))
    np.testing.assert_allclose(moved.x, [-0.25, 0.0], atol=1e-12)
    after, round = reveal(learner, game, moved, jnp.array([-0.25, 1.0]))
    np.testing.assert_allclose(round.excess, [-0.75, 0.0], atol=1e-12)  # both are scored
    assert int(after.t) == 2
    plain = Game.of(GAME)
    assert announce(CLIPPED, plain, state, X1) is state

    @taut.learner_dataclass
    class Curious(taut.HalfSpace):
        def heed(self, state, round):
            round.loss(state.x)
            return state

    with pytest.raises(TypeError, match="the loss of a round is not known when"):
        announce(Curious(0.1, 2.0), game, state, X1)


def test_several_points_count_as_one_decision():
    @taut.learner_dataclass
    class Pair(taut.ClippedOGD):
        def points(self, state):
            return state.x, state.x + 0.5

    round = FullInformation(distance, GAME.constraints, BALL, jnp.zeros(2))
    scored, _ = play_round(Pair(ETA, SIGMA), State(X1, jnp.asarray(1)), round, round)
    assert scored.loss == pytest.approx((0 + 0.25) / 2)
    np.testing.assert_allclose(scored.excess, [0.0])  # the larger of -1 and 0
    np.testing.assert_array_equal(scored.state.x, X1)


def test_a_learner_that_sees_the_request_is_scored_where_it_decided():
    @taut.learner_dataclass
    class Asked(taut.ClippedOGD):
        request_first = True

        def decide(self, state, round):
            return state._replace(x=round.project(state.x - round.gradient(state.x)))

        def step(self, state, round):
            return state._replace(t=state.t + 1)

    z = np.array([0.5, 0.25])
    _, rounds = played(Game.of(GAME), [z], Asked(ETA, SIGMA))
    np.testing.assert_allclose(rounds[0].state.x, z)
    assert rounds[0].loss == 0


# What is not finite.


BROKEN = {
    "data": (2, np.inf),
    "loss": (3, 1.0),
    "loss gradient": (4, 1.0),
    "constraints": (5, 1.0),
    "constraint gradient": (6, 1.0),
}
"""What breaks -> the entry of the data that breaks it, and its value."""


def loss(x, z):
    broken = jnp.where(z[3] == 1, jnp.inf, 0.0)
    return 0.5 * jnp.sum((x - z[:2]) ** 2) + 0 * steep(x[0], z[4]) + broken


def constraint(x, z):
    return steep(jnp.sum(jnp.abs(x)), z[6]) - 1 + jnp.where(z[5] == 1, jnp.nan, 0.0)


BREAKABLE = taut.Problem(loss, constraint, taut.Box(-1.0, 1.0, shape=2))
NAMES = {**{name: name for name in BROKEN}, "loss gradient": "next decision"}
NAMES["constraint gradient"] = "next decision"


def breaking(rounds=20, **broken):
    """Data of rounds, in which something breaks in one of them."""
    z = np.zeros((rounds, 7))
    z[:, :2] = targets(rounds=rounds)
    for name, round in broken.items():
        entry, value = BROKEN[name.replace("_", " ")]
        z[round - 1, entry] = value
    return z


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_first_is_remembered(name):
    data = breaking(6, **{name.replace(" ", "_"): 3})
    states, _ = played(Game.of(BREAKABLE), data)
    assert [int(state.faults) for state in states[:3]] == [0] * 3
    for state in states[3:]:  # later rounds break too, because the decision is lost
        assert first_fault(int(state.faults)) == (3, NAMES[name])


def test_bits_of_several_faults_are_kept_and_the_first_in_order_is_named():
    data = breaking(2, constraints=1, loss=1)
    states, _ = played(Game.of(BREAKABLE), data)
    bits = int(states[1].faults) % 2**BITS
    assert {FAULTS[bit] for bit in range(BITS) if bits >> bit & 1} >= {"loss", "constraints"}
    assert first_fault(int(states[-1].faults)) == (1, "loss")


def test_faults_are_numbers():
    assert [int(fault(name, jnp.array([1.0, np.nan]))) for name in FAULTS] == [1, 2, 4, 8, 16, 32]
    for good in ([], [jnp.zeros(0)], [jnp.ones(3), jnp.zeros((2, 2))]):
        assert int(fault("data", *good)) == 0
    assert int(fault("data", jnp.ones(3), jnp.array(-jnp.inf))) == 1
    assert first_fault(7 * 2**BITS + 16 + 32) == (7, FAULTS[4])
    assert np.iinfo(np.int32).max >= LAST * 2**BITS + 2**BITS - 1


def test_rounds_beyond_the_last_that_can_be_named_are_still_bad():
    game = Game.of(BREAKABLE)
    late = init(CLIPPED, game, X1, (1, 1))._replace(t=jnp.asarray(LAST + 5, jnp.int32))
    after, _ = reveal(CLIPPED, game, late, breaking(1, loss=1)[0])
    assert first_fault(int(after.faults)) == (LAST, "loss")
    assert int(after.t) == LAST + 6


def test_whole_numbers_and_flags_are_always_finite():
    problem = taut.Problem(
        lambda x, z: jnp.where(z["on"], x[0], x[z["place"]]), lambda x: x[0] - 1, BALL
    )
    data = {"on": np.array(True), "place": np.array(1)}
    states, _ = played(Game.of(problem), [data])
    assert int(states[-1].faults) == 0


MESSAGES = {
    "data": "stream: got a value that is not finite in round {}; expected finite numbers$",
    "loss": "loss: got a value that is not finite in round {}; expected finite numbers$",
    "constraints": "constraints: got a value that is not finite in round {}; expected finite num",
    "next decision": "loss gradient: got a value that is not finite in round {}; expected finite "
    r"numbers as gradients of loss and constraints \(jnp.linalg.norm",
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("chunk", [None, 4])
def test_a_simulation_names_the_first_round_of_any_seed(name, chunk):
    learner = taut.ClippedOGD(ETA, SIGMA)
    for round in (1, 4, 5, 19):  # at the ends of chunks, and in the last
        bad, message = breaking(**{name.replace(" ", "_"): round}), MESSAGES[NAMES[name]]
        with pytest.raises(ValueError, match=message.format(round)):
            taut.simulate(learner, BREAKABLE, bad, chunk=chunk)
        seeds = np.stack([breaking(loss=round + 1), breaking(), bad])
        with pytest.raises(ValueError, match=message.format(round)):
            taut.simulate(learner, BREAKABLE, seeds, seeds=3, chunk=chunk)


@pytest.mark.parametrize("name", BROKEN)
def test_a_simulation_of_several_learners_names_it_too(name):
    learners = [taut.ClippedOGD(eta, SIGMA) for eta in (0.1, 0.2)]
    data = np.stack([breaking(), breaking(**{name.replace(" ", "_"): 9})])
    with pytest.raises(ValueError, match=MESSAGES[NAMES[name]].format(9)):
        taut.simulate(learners, BREAKABLE, data, seeds=2, chunk=4)


@pytest.mark.parametrize("name", BROKEN)
def test_a_player_names_it_too_and_stays_as_it_was(name):
    player = taut.Player(taut.ClippedOGD(ETA, SIGMA), BREAKABLE, count=1)
    data = breaking(4, **{name.replace(" ", "_"): 4})
    for z in data[:3]:
        player.observe(z)
    expected = {"data": "z", "constraint gradient": "next decision"}.get(name, name)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"^{expected}: got a value that is not finite in ro"):
            player.observe(data[3])
    assert player.round == 4
    player.observe(data[0])


# Rounds with checks.


def test_slopes_that_are_infinite_become_nan_and_no_projection_removes_them():
    z = jnp.asarray(breaking(1, loss_gradient=1, constraint_gradient=1)[0])
    x = jnp.array([0.25, -0.5])
    round = Game.of(BREAKABLE).played_round(z, None)
    assert isinstance(round, CheckedRound)
    assert np.isnan(round.gradient(x)[0])
    values, pull, _ = round.constraints(x)
    np.testing.assert_allclose(values, [-0.25])
    slope = pull(jnp.ones(1))
    assert np.isnan(slope).all()
    assert np.isnan(round.project(x + slope)).any()
    assert np.isnan(round.minimise(slope)).all()
    assert np.isfinite(round.minimise(jnp.ones(2))).all()


def test_checks_change_no_finite_number():
    for z in targets(rounds=5):
        x, plain = jnp.asarray(z) / 3, FullInformation(distance, GAME.constraints, BALL, z)
        checked = CheckedRound(distance, GAME.constraints, BALL, z)
        np.testing.assert_array_equal(checked.gradient(x), plain.gradient(x))
        np.testing.assert_array_equal(checked.project(9 * x), plain.project(9 * x))
        np.testing.assert_array_equal(checked.minimise(x), plain.minimise(x))
        first, second = checked.constraints(x), plain.constraints(x)
        np.testing.assert_array_equal(first.values, second.values)
        np.testing.assert_array_equal(first.pullback(jnp.ones(1)), second.pullback(jnp.ones(1)))
        np.testing.assert_array_equal(first.pushforward(x), second.pushforward(x))

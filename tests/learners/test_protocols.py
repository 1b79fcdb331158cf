"""What learners offer besides init, step and guarantees: who has it, and what callers do if not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import learner
from taut.learners import protocols
from taut.learners.base import State, first_round

BALL = taut.Ball(1.0, shape=2)
PROBLEM = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, BALL)
COSTS = np.random.default_rng(0).uniform(size=(20, 2))
HALF_SPACES = {f"half-space{kind}" for kind in ("", "-horizon", "-anytime", "-strong", "-margin")}
CLIPPED = {f"clipped-ogd{kind}" for kind in ("", "-paper", "-strong", "-anytime")}
SADDLES = {
    f"{name}{kind}" for name in ("ogd", "a-ogd", "a-ogd-strong") for kind in ("", "-clipped")
}
OFFERS = {
    protocols.RequestFirst: {"dual-mirror"},
    protocols.Announced: HALF_SPACES,
    protocols.Movable: HALF_SPACES
    | CLIPPED
    | SADDLES
    | {"cvv-pro", "drift-plus-penalty", "projected-ogd", "projected-ogd-strong", "recoo"},
    protocols.Delayed: {"delay-tolerant"},
    protocols.PlaysPoints: {"one-point", "two-point"},
}


@pytest.mark.parametrize("offer", OFFERS, ids=lambda one: one.__name__)
def test_learners_offer_what_their_methods_say(offer):
    made = {name: learner(name) for name in taut.LEARNERS}
    assert {name for name, one in made.items() if isinstance(one, offer)} == OFFERS[offer]


def test_only_learners_that_draw_numbers_are_random():
    drawing = {name for name in taut.LEARNERS if protocols.is_random(learner(name))}
    assert drawing == {"one-point", "two-point"}
    inner = taut.learner("two-point", PROBLEM.with_constants(KNOWN), horizon=20)
    assert protocols.is_random(taut.DelayTolerant(inner, 1))
    assert not protocols.is_random(taut.DelayTolerant(taut.ClippedOGD(0.1, 4.0), 1))


KNOWN = taut.Constants(loss_lipschitz=2.0, constraint_lipschitz=2**0.5, loss_range=4.0)


@taut.learner_dataclass
class Plain(taut.Learner):
    """A learner with nothing but the contract: it steps down the loss."""

    eta: float

    def init(self, x1, count):
        return State(x1, first_round())

    def step(self, state, round):
        x, t = state
        return State(round.project(x - self.eta * round.gradient(x)), t + 1)


@taut.learner_dataclass
class Pair(Plain):
    """Plays two points around its decision, and has a multiplier, without declaring anything."""

    def points(self, state):
        return state.x + 0.1, state.x - 0.1

    def multiplier(self, state, round):
        return jnp.full_like(round.constraints(state.x).values, 3.0)


@taut.learner_dataclass
class Halted(Plain):
    """Does not move into announced constraints, but out of the way: to the origin."""

    def heed(self, state, round):
        return state._replace(x=jnp.zeros_like(state.x))


def test_the_contract_alone_is_enough_for_simulation_and_player():
    record = ("decisions", "multipliers")
    run = taut.simulate(Plain(0.1), PROBLEM, COSTS, record=record)
    assert np.all(run.multipliers == 0)
    x = np.zeros(2)
    for played, c in zip(run.decisions[0], COSTS, strict=True):
        np.testing.assert_allclose(played, x, atol=1e-12)
        x = x - 0.1 * c
        x = x / max(1.0, np.linalg.norm(x))
    player = taut.Player(Plain(0.1), PROBLEM)
    for c in COSTS:
        player.observe(c)
    np.testing.assert_allclose(player.decision, x, atol=1e-12)
    np.testing.assert_array_equal(player.points, player.decision[None])
    assert run.certificate().outcome == "no guarantee stands"
    for late in (0, 2):
        delayed = taut.simulate(
            Plain(0.1), PROBLEM, COSTS, feedback=taut.Delayed(late), unproven=True, record=record
        )
        at = np.cumsum(np.concatenate([np.zeros((late + 1, 2)), -0.1 * COSTS]), axis=0)
        few = np.linalg.norm(at[:20], axis=1) < 1  # before the ball is left
        np.testing.assert_allclose(delayed.decisions[0][few], at[:20][few], atol=1e-12)


def test_a_method_is_enough_to_offer_something():
    run = taut.simulate(Pair(0.1), PROBLEM, COSTS[:1], record=("multipliers",))
    assert np.all(run.multipliers == 3)
    values = [np.abs(point).sum() - 1 for point in (np.full(2, 0.1), np.full(2, -0.1))]
    assert run.totals.excess[0, 0] == pytest.approx(max(values))
    announced = taut.Problem(PROBLEM.loss, None, BALL, announced=lambda x: x[0] - 0.5)
    halted = taut.simulate(Halted(0.1), announced, COSTS, record=("decisions",))
    assert np.all(halted.decisions == 0)


def test_what_a_learner_does_not_offer_is_refused_by_name():
    announced = taut.Problem(PROBLEM.loss, None, BALL, announced=lambda x: x[0] - 0.5)
    with pytest.raises(TypeError, match="learner: Plain fixes its decision before"):
        taut.simulate(Plain(0.1), announced, COSTS)
    player = taut.Player(Plain(0.1), PROBLEM)
    with pytest.raises(TypeError, match="played: Plain does not go on from a decision"):
        player.observe(COSTS[0], played=np.zeros(2))
    delayed = taut.Player(Plain(0.1), PROBLEM, feedback=taut.Delayed(1), unproven=True)
    with pytest.raises(TypeError, match="played: Plain does not go on from a decision"):
        delayed.observe(COSTS[0], played=np.zeros(2))
    with pytest.raises(ValueError, match="feedback: the guarantees of Plain are proven for full"):
        taut.simulate(Plain(0.1), PROBLEM, COSTS, feedback=taut.Delayed(1))
    with pytest.raises(TypeError, match="decide: Plain decides before a round is revealed"):
        player.decide(COSTS[0])


def test_functions_answer_for_every_learner():
    state = Plain(0.1).init(jnp.zeros(2), 1)
    key = jax.random.key(0)
    assert protocols.seeded(Plain(0.1), state, key) is state
    assert protocols.points_of(Plain(0.1), state) == (state.x,)
    assert Plain(0.1).side_by_side
    assert not Plain.request_first
    assert taut.learners.DualMirror.request_first

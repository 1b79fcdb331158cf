"""Each public check refuses a learner that breaks what it checks, and says what a learner must
do."""

import dataclasses
import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from learners.harness import broken
from taut.learners import Growth, Guarantee
from taut.testing import PROBLEMS, check_learner, checks, checks_for, run_check
from taut.testing.problems import TOY

GOOD = taut.LEARNERS["clipped-ogd-anytime"]


def card_of(make, **changes):
    """A card for a broken relative of Clipped-OGD."""
    return dataclasses.replace(GOOD, name="broken", make=make, growth={}, **changes)


def like(kind):
    """Build a broken class with the parameters of the anytime method."""

    def make(constants):
        good = taut.ClippedOGD.anytime(constants)
        return kind(good.eta, good.sigma)

    return make


SEEN = []


@broken
class Remembers(taut.ClippedOGD):
    def step(self, state, round):
        SEEN.append(None)
        return super().step(state._replace(x=state.x * (1 - 0.01 * len(SEEN))), round)


@broken
class Greedy(taut.ClippedOGD):
    def step(self, state, round):
        after = super().step(state, round)
        return after._replace(
            x=jnp.where(round.loss(after.x) < round.loss(state.x), after.x, state.x)
        )


@broken
class Lookahead(taut.ClippedOGD):
    def step(self, state, round):
        return super().step(state._replace(x=state.x - 0.1 * round.gradient(state.x)), round)


@broken
class Stuck(taut.ClippedOGD):
    def step(self, state, round):
        return super().step(state, round)._replace(t=state.t)


@broken
class Deaf(taut.ClippedOGD):
    def step(self, state, round):
        x, t = state
        excess, pull, _ = round.constraints(x)
        return type(state)(
            round.project(x - self.eta(t, x.dtype) * round.gradient(x) - 0 * pull(excess)), t + 1
        )


@broken
class Outside(taut.ClippedOGD):
    def step(self, state, round):
        after = super().step(state, round)
        return after._replace(x=1.5 * after.x)


@broken
class Widens(taut.ClippedOGD):
    def step(self, state, round):
        after = super().step(state, round)
        return after._replace(t=after.t.astype(jnp.float32))


@broken
class Still(taut.ClippedOGD):
    def step(self, state, round):
        after = super().step(state, round)
        return after._replace(x=state.x + 0 * after.x)


@broken
class Boasts(taut.ClippedOGD):
    def guarantees(self, setting, horizon) -> Iterator[Guarantee]:
        yield Guarantee("violation", 1e-6, "a wish", ("convex losses",))


@broken
class Vague(taut.ClippedOGD):
    def guarantees(self, setting, horizon) -> Iterator[Guarantee]:
        yield Guarantee("violation", 1e6, "a wish", ("fine weather",))


@broken
class Wide(taut.ClippedOGD):
    """Behaves differently in 32 bits."""

    def step(self, state, round):
        after = super().step(state, round)
        return after._replace(x=after.x * (1 if after.x.dtype == jnp.float64 else 0.9))


@broken
class Drifts(taut.ClippedOGD):
    """Changes a parameter whenever it is made, so also when it is loaded."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "sigma", 1.01 * self.sigma)


def called_back(function, x):
    """Call a function of NumPy from compiled code; in a batch it gets the decisions of all seeds at
    once."""
    return jax.pure_callback(
        lambda x: function(np.asarray(x)),
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        x,
        vmap_method="broadcast_all",
    )


@broken
class Whimsical(taut.ClippedOGD):
    """Takes other decisions every time."""

    def step(self, state, round):
        after = super().step(state, round)
        return after._replace(x=called_back(lambda x: x * (1 - 1e-6 * next(CALLS)), after.x))


CALLS = itertools.count()


@broken
class Herd(taut.ClippedOGD):
    """Moves each seed towards the mean of all seeds."""

    def step(self, state, round):
        after = super().step(state, round)
        return after._replace(
            x=called_back(lambda x: 0.9 * x + 0.1 * x.mean(axis=tuple(range(x.ndim - 1))), after.x)
        )


@broken
class Crowded(taut.ClippedOGD):
    """Takes shorter steps in a batch than alone."""

    def step(self, state, round):
        after = super().step(state, round)
        return after._replace(x=called_back(lambda x: x * (1 if x.ndim == 1 else 0.99), after.x))


@taut.learner_dataclass
class Compiled(taut.ClippedOGD):
    """Has a number that is compiled in."""

    damping: float = dataclasses.field(default=1.0, metadata={"static": True})

    def step(self, state, round):
        after = super().step(state, round)
        return after._replace(x=after.x * self.damping)


def compiled(constants, horizon):
    return Compiled(0.1, 4.0, 1 - 1 / horizon)


def needs_horizon(constants, horizon):
    return taut.ClippedOGD.anytime(constants)


BROKEN = [
    (
        checks.check_card,
        card_of(lambda constants: 0.1),
        "make must return a taut.Learner; it returned 0.1",
    ),
    (
        checks.check_survives_json,
        card_of(like(Drifts)),
        "keep its type and every parameter when it is saved",
    ),
    (
        checks.check_is_deterministic,
        card_of(like(Whimsical)),
        "the same run twice must give the same",
    ),
    (
        checks.check_seeds_are_independent,
        card_of(like(Herd)),
        "must not depend on the data of others",
    ),
    (
        checks.check_batch_equals_loop,
        card_of(like(Crowded)),
        "a batch of seeds must equal the seeds played one by one",
    ),
    (
        checks.check_player_equals_simulation,
        card_of(like(Crowded)),
        "a player must take the same decisions as a sim",
    ),
    (
        checks.check_compiles_once,
        card_of(compiled, needs_horizon=True),
        "changing parameters or data must not recompile",
    ),
    (checks.check_step_is_pure, card_of(like(Remembers)), "step must be pure"),
    (checks.check_step_is_pure, card_of(like(Widens)), "structure, shapes and types"),
    (
        checks.check_calls_declared_oracles_at_x_t_only,
        card_of(like(Greedy)),
        "the oracles that the card declares",
    ),
    (checks.check_calls_declared_oracles_at_x_t_only, card_of(like(Lookahead)), "about no other"),
    (checks.check_schedule_matters, card_of(like(Stuck)), "does the round counter advance"),
    (checks.check_constraint_matters, card_of(like(Deaf)), "the constraint must influence"),
    (checks.check_stays_in_domain, card_of(like(Outside)), "end step with round.project"),
    (checks.check_does_not_see_the_future, card_of(like(Still)), "must react"),
    (
        checks.check_horizon_matters,
        card_of(needs_horizon, needs_horizon=True),
        "must depend on the horizon",
    ),
    (checks.check_horizon_matters, card_of(taut.ClippedOGD.tuned, needs_horizon=True), None),
    (
        checks.check_bounds_hold_on_random_streams,
        card_of(like(Boasts)),
        "above the bound 1e-06 of a wish",
    ),
    (checks.check_bounds_hold_against_adversaries, card_of(like(Boasts)), "above the bound"),
    (checks.check_assumptions_are_known, card_of(like(Vague)), "fine weather"),
    (checks.check_float32, card_of(like(Wide)), "32 and 64 bits must agree"),
]


@pytest.mark.parametrize(
    ("check", "card", "sentence"), BROKEN, ids=lambda v: getattr(v, "__name__", "")
)
def test_checks_refuse_broken_learners(check, card, sentence):
    if sentence is None:
        run_check(card, check, PROBLEMS[:1])
        return
    with pytest.raises(AssertionError, match=sentence):
        run_check(card, check, PROBLEMS[:1])


def test_growth_that_is_not_that_of_the_bound_is_refused():
    card = dataclasses.replace(GOOD, growth={"regret": Growth("log T", 0.0)})
    with pytest.raises(
        AssertionError, match=r"regret grows like T\^0, its bound grows like T\^0.5"
    ):
        run_check(card, checks.check_growth_matches_bounds, PROBLEMS[:1])


def test_a_class_that_is_no_pytree_is_refused():
    @dataclasses.dataclass(frozen=True)
    class Plain(taut.ClippedOGD):
        pass

    with pytest.raises(AssertionError, match="learner_dataclass"):
        run_check(card_of(like(Plain)), checks.check_is_pytree, PROBLEMS[:1])


def test_a_card_that_excludes_all_problems_is_refused():
    with pytest.raises(AssertionError, match="must apply to at least one of the problems"):
        run_check(GOOD, checks.check_card, [])


def test_every_check_refuses_a_broken_learner():
    """The list above, and the tests below it, cover all checks of a method with a rate."""
    elsewhere = {checks.check_growth_matches_bounds, checks.check_is_pytree}
    elsewhere |= {checks.check_seeds_side_by_side}  # tests/testing/test_side_by_side.py
    assert {check for check, _, sentence in BROKEN if sentence} | elsewhere == set(checks_for(GOOD))


def test_known_failures_are_strict():
    stuck = card_of(
        like(Stuck),
        known_failures={"check_schedule_matters": "the counter stands still on purpose"},
    )
    run_check(stuck, checks.check_schedule_matters, PROBLEMS[:1])
    good = dataclasses.replace(GOOD, known_failures={"check_schedule_matters": "it does not"})
    with pytest.raises(AssertionError, match="remove the entry"):
        run_check(good, checks.check_schedule_matters, PROBLEMS[:1])


def test_check_learner_takes_a_learner_and_lists_all_that_failed():
    """Names are taken in tests/testing/test_side_by_side.py."""
    check_learner(taut.ClippedOGD.anytime(TOY.problem.constants))
    with pytest.raises(AssertionError, match="Deaf fails") as raised:
        check_learner(Deaf(0.05, 4.0))
    assert "check_constraint_matters" in str(raised.value)
    assert "check_schedule_matters" not in str(raised.value)  # only a card says that it must
    with pytest.raises(TypeError, match="method: got 3"):
        check_learner(3)


def test_every_check_is_documented():
    for check in checks_for(GOOD):
        assert check.__doc__
        assert check.__name__.startswith("check_")

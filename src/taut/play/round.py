"""One round of a game, as pure functions.

    init      the state before round 1
    announce  enforce the constraints that are announced before the decision is played
    reveal    score the decision, reveal the round to the learner, add to the totals
    step      announce and reveal: one whole round

Simulations, players and everyone who compiles or maps a game with `jax.jit` and `jax.vmap` use the
same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..engine import register_dataclass
from ..learners import Advised, Learner
from ..learners.protocols import Announced, RequestFirst, points_of, seeded
from ..problem.constraints import Constraints, Linearisation
from ..problem.domains import Domain
from ..problem.problem import Problem
from ..problem.rounds import FullInformation, Round
from ..problem.streams import RoundData, data_of
from ..runs.totals import ChunkTotals, round_terms
from .forecast import best_for

FAULTS = (
    "data",
    "advice or forecast",
    "loss",
    "loss gradient",
    "constraints",
    "next decision",
)
"""What may not be finite in a round, in the order of its bits. Gradients show in the next decision,
because `CheckedRound` makes an infinite one NaN and no projection removes a NaN; only players, who
compute it anyway, look at the gradient itself."""
BITS = len(FAULTS)
LAST = 2 ** (31 - BITS) - 1
"""The largest number of a round that a state can name as the first bad one."""


@register_dataclass
@dataclass(frozen=True)
class Game:
    """What is played and what is scored. Functions are static; all numbers are leaves of the tree,
    so that another radius or margin does not compile anything again."""

    loss: Callable[[jax.Array, Any], Any] = field(metadata={"static": True})
    scored_loss: Callable[[jax.Array, Any], Any] = field(metadata={"static": True})
    previous: tuple[bool, bool] = field(metadata={"static": True})
    """Whether what is played, and what is scored, depends on the previous decision."""
    constraints: Constraints
    scored_constraints: Constraints | None
    """None if decisions are scored by what is played."""
    announced: Constraints | None
    """Constraints that are known before a decision is played, if there are any."""
    domain: Domain

    @classmethod
    def of(cls, problem: Problem, score: Problem | None = None) -> Game:
        """Return the game in which `problem` is played, and scored by `score` if that is given."""
        scored = score or problem
        same = score is None and problem.announced is None
        return cls(
            loss=problem.loss,
            scored_loss=scored.loss,
            previous=(problem.previous, scored.previous),
            constraints=problem.constraints,
            scored_constraints=None if same else scored.scored_constraints,
            announced=problem.announced,
            domain=problem.domain,
        )

    def played_round(self, z: Any, previous: jax.Array | None) -> CheckedRound:
        """Return the round that is revealed to the learner."""
        data = z if previous is None or not self.previous[0] else RoundData(z, previous)
        return CheckedRound(self.loss, self.constraints, self.domain, data)

    def scored_round(self, z: Any, previous: jax.Array | None) -> CheckedRound | None:
        """Return the round that scores the decision, None if it is the one that is revealed."""
        if self.scored_constraints is None:
            return None
        data = z if previous is None or not self.previous[1] else RoundData(z, previous)
        return CheckedRound(self.scored_loss, self.scored_constraints, self.domain, data)


class GameState(NamedTuple):
    """All that is carried from round to round."""

    learner: Any
    """The learner's own state; its `x` is the decision to play."""
    totals: ChunkTotals | None
    """Totals since they were last set to zero; None for players, which keep their own."""
    t: jax.Array
    """The number of the coming round, counted from 1."""
    faults: jax.Array
    """0 while all numbers are finite; then the first bad round and what was bad (`first_fault`)."""
    previous: jax.Array | None = None
    """The decision of the round before, for a problem that depends on it."""
    adversary: Any = None
    """The state of an adversary that has one."""

    @property
    def x(self) -> jax.Array:
        """The decision to play."""
        decision: jax.Array = self.learner.x
        return decision


class Told(NamedTuple):
    """What a learner with advisers is told before a round."""

    advice: Any
    """What each adviser would play, (adviser, *decision)."""
    given: Any
    """Which advisers say something, (adviser,). The rows of others are not looked at."""
    forecast: Any = None
    """Predicted data of the round, or None. The last adviser is then the decision that is best for
    them, and its entry of `given` says whether the prediction is known."""


class Played(NamedTuple):
    """What happened in a round."""

    learner: Learner
    round: Round
    state: Any
    """The learner's state before the round; `state.x` is the decision that was played."""
    loss: jax.Array
    excess: jax.Array
    """The values of all scored constraints."""


class CheckedRound(FullInformation):
    """A revealed round in which gradients that are not finite become NaN.

    A projection could turn an infinite value into a finite one, for example onto a box, and the
    error would stay unnoticed. No projection removes a NaN.
    """

    def gradient(self, x: jax.Array) -> jax.Array:
        """Return a subgradient of f_t at x."""
        return _nan_if_infinite(super().gradient(x))

    def linearised(self, x: jax.Array) -> Linearisation:
        """Return g_t(x) with its Jacobian products."""
        values, pull, push = super().linearised(x)
        stored = jax.lax.optimization_barrier(values)  # not computed again for each use
        return Linearisation(stored, lambda weights: _nan_if_infinite(pull(weights)), push)

    def project(self, x: jax.Array) -> jax.Array:
        """Return the nearest point of the domain B."""
        return super().project(jax.lax.optimization_barrier(x))

    def minimise(self, direction: jax.Array) -> jax.Array:
        """Return the point of the domain B where a linear function is least; NaN if the function
        has a slope that is not finite, which a comparison would not show."""
        point = super().minimise(direction)
        return jnp.where(jnp.all(jnp.isfinite(direction)), point, jnp.nan)


def _nan_if_infinite(x: jax.Array) -> jax.Array:
    return x + 0 * x


def init(
    learner: Learner,
    game: Game,
    x1: jax.Array,
    counts: tuple[int, int],
    key: jax.Array | None = None,
    previous: jax.Array | None = None,
    adversary: Any = None,
) -> GameState:
    """Return the state before round 1.

    `counts` says how many constraints are played and how many are scored.
    """
    begun = learner.init(x1, counts[0])
    if key is not None:
        begun = seeded(learner, begun, key)
    return GameState(
        learner=begun,
        totals=ChunkTotals.zero(counts[1], x1.dtype),
        t=jnp.asarray(1, jnp.int32),
        faults=jnp.asarray(0, jnp.int32),
        previous=previous,
        adversary=adversary,
    )


def announce(
    learner: Learner, game: Game, state: GameState, z: Any, told: Told | None = None
) -> GameState:
    """Return the state with the decision of the coming round: advice is taken, and announced
    constraints are satisfied. It is the same state if there is neither.

    Advice that is not finite is a fault, and counts as missing.
    """
    round = None if game.announced is None else announced_round(game, state, z)
    if told is not None:
        assert isinstance(learner, Advised)
        advice, given = told.advice, told.given
        if told.forecast is not None:
            best = _best_for_forecast(learner, game, state, z, told.forecast, round)
            advice = jnp.concatenate([advice[:-1], best[None]])
        finite = jnp.all(jnp.isfinite(advice), axis=tuple(range(1, advice.ndim)))
        bit = 2 ** FAULTS.index("advice or forecast")
        state = _with_faults(state, jnp.where(jnp.any(given & ~finite), bit, 0))
        own = learner.advised(state.learner, advice, given & finite, game.domain.project, round)
        return state._replace(learner=own)
    if round is None:
        return state
    assert isinstance(learner, Announced)  # others were refused before
    return state._replace(learner=learner.heed(state.learner, round))


def announced_round(game: Game, state: GameState, z: Any) -> FullInformation:
    """Return what is known of a round before its decision is played: the announced constraints."""
    assert game.announced is not None
    data = z if state.previous is None or not game.previous[0] else RoundData(z, state.previous)
    return FullInformation(_unknown_loss, game.announced, game.domain, data)


def _best_for_forecast(
    learner: Advised,
    game: Game,
    state: GameState,
    z: Any,
    forecast: Any,
    announced: FullInformation | None,
) -> jax.Array:
    """Return the decision that is best for a forecast, NaN if the forecast or its loss is not
    finite."""
    data = forecast = data_of(forecast)
    if isinstance(z, RoundData):  # of a run whose previous decisions were recorded
        data = RoundData(forecast, z.previous)
    elif state.previous is not None and game.previous[0]:
        data = RoundData(forecast, state.previous)
    best = best_for(game.loss, data, learner, state.learner, game.domain, announced)
    known = [jnp.all(jnp.isfinite(leaf)) for leaf in floats_of(forecast)]
    return jnp.where(jnp.all(jnp.stack(known)), best, jnp.nan) if known else best


def _unknown_loss(x: jax.Array, z: Any) -> Any:
    raise TypeError("the loss of a round is not known when its constraints are announced")


def reveal(learner: Learner, game: Game, state: GameState, z: Any) -> tuple[GameState, Played]:
    """Reveal a round to the learner, and score the decision that it had chosen before."""
    round = game.played_round(z, state.previous)
    scored = game.scored_round(z, state.previous) or round
    played, after = play_round(learner, state.learner, round, scored)
    state = _with_faults(state, faults_of(z, played.loss, played.excess, after.x))
    following = GameState(
        learner=after,
        totals=state.totals and state.totals.add(round_terms(jnp, played.loss, played.excess)),
        t=state.t + 1,
        faults=state.faults,
        previous=None if state.previous is None else played.state.x,
        adversary=state.adversary,
    )
    return following, played


def play_round(learner: Learner, state: Any, round: Round, scored: Round) -> tuple[Played, Any]:
    """Let a learner take its step, and score its decision. Returns both, and the learner's state
    after the round.

    A learner with `decide` sees the round before its decision; no other learner is asked to decide
    here. Bandit learners play several points, which count together as one decision.
    """
    if isinstance(learner, RequestFirst):
        state = learner.decide(state, round)
    after = learner.step(state, round)
    points = points_of(learner, state)
    losses, values = [], []
    for point in points:
        losses.append(scored.loss(point))
        values.append(scored.constraints(point).values)
    loss, excess = losses[0], values[0]
    if len(points) > 1:
        loss, excess = jnp.mean(jnp.stack(losses)), jnp.max(jnp.stack(values), axis=0)
    return Played(learner, round, state, loss, excess), after


def _with_faults(state: GameState, faults: jax.Array) -> GameState:
    """Return the state with the faults of the coming round, unless an earlier one has some."""
    here = jnp.minimum(state.t, LAST) * 2**BITS + faults
    return state._replace(faults=jnp.where((state.faults == 0) & (faults > 0), here, state.faults))


def floats_of(data: Any) -> list[jax.Array]:
    """Return the arrays of a round's data that hold floats."""
    floats = []
    for leaf in map(jnp.asarray, jax.tree.leaves(data)):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            floats.append(leaf)
    return floats


def faults_of(z: Any, loss: jax.Array, excess: jax.Array, x: jax.Array) -> jax.Array:
    """Return 0 if all numbers of a round are finite, otherwise one bit for each of `FAULTS`."""
    before = fault("data", *floats_of(z)) | fault("loss", loss)
    return before | fault("constraints", excess) | fault("next decision", x)


def fault(name: str, *arrays: jax.Array) -> jax.Array:
    """Return the bit of `FAULTS` with this name if a number of the arrays is not finite, else 0."""
    finite = jnp.asarray(True)
    for array in arrays:
        finite &= jnp.all(jnp.isfinite(array))
    return jnp.where(finite, 0, jnp.asarray(2 ** FAULTS.index(name), jnp.int32))


def first_fault(faults: int) -> tuple[int, str]:
    """Return the first bad round and what was bad in it, for a state that names one."""
    round, bits = divmod(int(faults), 2**BITS)
    return round, next(name for bit, name in enumerate(FAULTS) if bits & 2**bit)

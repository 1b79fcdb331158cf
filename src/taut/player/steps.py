"""The state of a player, and what happens to it: a round is revealed or measured, comes late or is
skipped, announced constraints and advice are taken, another decision is put in place.

Each of these is a pure function, which players and fleets compile. Parameters are packed into one
vector, once. The state is another vector, behind a header with all that a player reads after a
round: each further array would cost as much as the step. A part of the state is what was seen in
all rounds: the largest gradients, constraint values and loss differences, with their rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..engine import Array, default_float, first_key
from ..jaxpr.maxima import entry_of_largest
from ..learners import Learner
from ..learners.clipping import Clipping, clip_of
from ..learners.half_space.announced import relative_violation
from ..learners.protocols import Grows, LateRounds, Shortened, Shortens, is_random, moved
from ..play import round as rounds
from ..play.advice import as_told
from ..play.compile import Executable, compiled
from ..play.packing import Packing, as_arrays
from ..play.round import BITS, Game, GameState, Played, fault, floats_of
from ..play.with_feedback import through
from ..problem.feedback import Feedback
from ..problem.memory import shared_start
from ..problem.problem import Problem
from ..problem.rounds import MeasuredRound, Round
from ..runs.totals import Sum, round_terms

NAMES = ("loss_lipschitz", "constraint_lipschitz", "constraint_range", "loss_range")
"""What is compared with the constants of the same names."""
COLUMNS = (*NAMES, "constraint_slope")
ALL_ROWS = 256
"""Entries of a Jacobian up to which the gradients of all constraints are looked at; else that of
the largest constraint."""
FAULTY = 2**BITS
"""Flags below this are those of numbers that are not finite."""
REFUTED, VIOLATED, SHORT = FAULTY, 2 * FAULTY, 4 * FAULTY
"""Flags of a round that exceeds a stated constant or the tolerated violation, and of one that has
to be played again with all parts of the learner."""


@dataclass(frozen=True)
class Extreme:
    """The largest value of something over all rounds (and seeds), and where it occurred."""

    value: float
    seed: int | None
    """None for a player."""
    round: int
    """Counted from 1."""
    decision: Array
    """x_t of that round."""

    @property
    def witness(self) -> dict[str, Any]:
        """Round, seed and decision, for a certificate."""
        seed = {} if self.seed is None else {"seed": self.seed}
        return {"round": self.round, **seed, "x": self.decision}


@dataclass(frozen=True)
class Extremes:
    """What a player has seen since round `since`; entries are None if nothing was seen."""

    since: int
    """The first round that was looked at: 1, or the first one on a changed problem."""
    rounds: int
    loss_lipschitz: Extreme | None
    """The largest |df_t(x_t)|."""
    constraint_lipschitz: Extreme | None
    """The largest gradient norm of a constraint at x_t; of many constraints, only that of the
    largest one is looked at."""
    constraint_range: Extreme | None
    """The largest |g_i(x_t)|."""
    loss_range: Extreme | None
    """The largest |f_t(x_t) - f_t(c)|, c being the centre of the domain."""
    constraint_slope: float
    """The largest gradient norm at x_t of the largest constraint of the round."""
    clipping: Clipping
    """What the learner accepted of the loss gradients."""


def round_extremes(
    round: Round, x: jax.Array, loss: jax.Array, gradient: jax.Array, centre: jax.Array
) -> jax.Array:
    """Return what a round adds, in the order of `COLUMNS`; a value that is not known is NaN."""
    values, pull, _ = round.constraints(x)
    weights = jnp.eye(values.shape[0], dtype=x.dtype)

    def length(row: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(pull(row) ** 2))

    if values.shape[0] == 1:
        largest = slope = length(weights[0])
    elif values.size * x.size <= ALL_ROWS:
        # Row by row: together they are a product of matrices, which no kernel can contain.
        lengths = lax.map(length, weights)
        largest, slope = jnp.max(lengths), jnp.sum(entry_of_largest(values) * lengths)
    else:
        largest = slope = length(entry_of_largest(values))
    away = (
        jnp.full((), jnp.nan, x.dtype)
        if isinstance(round, MeasuredRound)
        else jnp.abs(loss - round.loss(centre))
    )
    return jnp.stack(
        [jnp.sqrt(jnp.sum(gradient**2)), largest, jnp.max(jnp.abs(values)), away, slope]
    ).astype(x.dtype)


class Seen(NamedTuple):
    """What a player has seen in all its rounds: a part of its state."""

    values: jax.Array
    """The largest value of each of `COLUMNS`; minus infinity if none is known."""
    rounds: jax.Array
    """For each of `NAMES`, the round in which it was largest."""
    decisions: jax.Array
    """The flat decisions of these rounds."""
    longest: jax.Array
    """Of the loss gradients that the learner accepted; this and the following are the numbers of
    `taut.learners.clipping.Clipping`."""
    squares: Sum
    first_square: jax.Array
    excess: Sum
    clipped: jax.Array

    @classmethod
    def nothing(cls, x: jax.Array) -> Seen:
        """Return what is known before round 1."""
        wide = jnp.promote_types(x.dtype, default_float())
        none, empty = jnp.zeros((), wide), Sum.zero((), wide)
        return cls(
            jnp.full(len(COLUMNS), -jnp.inf, x.dtype),
            jnp.zeros(len(NAMES), jnp.int32),
            jnp.zeros((len(NAMES), x.size), x.dtype),
            *(none, empty, none, empty),
            jnp.zeros((), jnp.int32),
        )

    def add(
        self, extremes: jax.Array, round: jax.Array, x: jax.Array, clip: float | None = None
    ) -> Seen:
        """Return what is known after one more round of a learner that clips gradients so."""
        known = jnp.where(jnp.isfinite(extremes), extremes, -jnp.inf)
        larger = known > self.values
        ours = larger[: len(NAMES)]
        slope = extremes[0].astype(self.longest.dtype)
        above, accepted = jnp.asarray(False), slope
        if clip is not None:
            limit = clip * self.longest
            above = jnp.isposinf(slope) | ((self.longest > 0) & (slope > limit))
            accepted = jnp.where(jnp.isposinf(slope), 0, jnp.where(above, limit, slope))
        square = accepted * accepted
        return Seen(
            jnp.where(larger, known, self.values),
            jnp.where(ours, round, self.rounds),
            jnp.where(ours[:, None], x.ravel()[None], self.decisions),
            jnp.maximum(self.longest, accepted),
            self.squares.add(square),
            jnp.where(self.first_square > 0, self.first_square, square),
            self.excess.add(slope - accepted),
            self.clipped + above,
        )

    def slopes(self) -> Array:
        """Return the numbers of a `Clipping` with one seed."""
        sums = (float(part.value) + float(part.error or 0) for part in (self.squares, self.excess))
        squares, excess = sums
        numbers = self.longest, squares, self.first_square, excess, self.clipped
        return np.array([[float(number)] for number in numbers])

    def extremes(
        self, shape: tuple[int, ...], clip: float | None, since: int, rounds: int
    ) -> Extremes:
        """Return what was seen, with arrays of NumPy.

        `clip` says how many times as long as the longest before it a loss gradient may be.
        """
        clipping, largest = Clipping(clip, 1), {}
        clipping.numbers = self.slopes()
        for i, name in enumerate(NAMES):
            value = float(self.values[i])
            at = int(self.rounds[i]), np.array(self.decisions[i], float).reshape(shape)
            largest[name] = Extreme(value, None, *at) if math.isfinite(value) else None
        slope = max(float(self.values[len(NAMES)]), 0.0)
        return Extremes(since, rounds, **largest, constraint_slope=slope, clipping=clipping)


class PlayerState(NamedTuple):
    """All that changes from round to round in a player, or in a member of a fleet."""

    x: jax.Array
    """The decision to play."""
    game: GameState
    """Its round counts observed rounds only."""
    seen: Seen
    skipped: jax.Array
    """The number of rounds that are over and that totals do not contain."""


class Outcome(NamedTuple):
    """What a step tells: the header of the state after it."""

    flags: Any
    loss: Any
    """The loss, or the number that a step without a loss tells."""
    excess: jax.Array
    x: jax.Array
    """The decision that was played."""
    extremes: jax.Array
    """As `round_extremes` returns them."""


Step = Callable[..., tuple[PlayerState, Outcome]]
"""(learner, game, stated, state, *given) -> the state afterwards, and what happened. `stated` is
what the extremes of a round are compared with, or None."""


class Layout(NamedTuple):
    """What steps are compiled for. Hashable."""

    fixed: Packing
    """Of game, learner, and what the extremes of a round are compared with."""
    state: Packing
    """Behind the header that `Outcome` describes."""


class Compiled:
    """The compiled steps of a player or of the members of a fleet, and how their states are packed.
    Each step is compiled when it is first taken.

    A learner with a part that is slow to compile and seldom needed plays without it first. A step
    that needs the part, which its flag `SHORT` tells, is taken again with all parts.

    Arguments:
        problem: what is played; it owns the compiled functions.
        learner: the learner, with room for its state.
        first: the first decision.
        counts: how many constraints are played and how many are scored.
        key: for learners that draw random numbers; by default `jax.random.key(0)`.
        feedback: what the learner sees of a round; None for full information.
        stated: what the extremes of a round are compared with; None for nothing.
        header: entries of the packed state before the state itself.
    """

    def __init__(
        self,
        problem: Problem,
        learner: Learner,
        first: jax.Array,
        counts: tuple[int, int],
        key: jax.Array | None,
        feedback: Feedback | None = None,
        stated: Array | None = None,
        header: int = 0,
    ) -> None:
        dtype = np.dtype(first.dtype)
        self.problem, self.game = problem, Game.of(problem)
        self.learner = as_arrays(through(learner, feedback), dtype)
        self.random = is_random(self.learner)
        self._first, self._counts = first, counts
        self._short = self.learner
        if feedback is None and isinstance(learner, Shortens):
            self._short = as_arrays(learner.shortened(), dtype)
        self.begun = self.begin(first_key() if key is None and self.random else key)
        """The state before the first round."""
        self.packing = Packing.of(self.begun, dtype, header)
        self.places = self.packing.where()
        self._layouts = {}
        for all_parts, played in ((False, self._short), (True, self.learner)):
            fixed = Packing.of((self.game, played, stated), dtype)
            self._layouts[all_parts] = Layout(fixed, self.packing)
        self._compiled: dict[Any, Executable] = {}
        self.state_thresholds(stated)

    def begin(self, key: jax.Array | None) -> PlayerState:
        """Return the state before the first round of a player with this random key."""
        start = shared_start(self.problem, None, self._first) if self.problem.previous else None
        own = key if self.random else None
        game = rounds.init(self.learner, self.game, self._first, self._counts, own, start)
        x = jnp.asarray(game.x)
        return PlayerState(x, game, Seen.nothing(x), jnp.asarray(0, jnp.int32))

    def state_thresholds(self, stated: Array | None) -> None:
        """Compare the extremes of coming rounds with these numbers."""
        packed = self._layouts[False].fixed.pack((self.game, self._short, stated))
        self.fixed: Any = jax.device_put(packed)

    def call(
        self,
        function: Callable[..., Any],
        step: Step,
        passed: tuple[Any, ...],
        varying: Any,
        all_parts: bool = False,
        in_pieces: Callable[..., Any] | None = None,
    ) -> Any:
        """Return `function((step, layout), rewrite, *passed)`, compiled.

        `varying` are those of the arguments whose structure, shapes and types are not always alike.
        """
        leaves, structure = jax.tree.flatten(varying)
        key: list[Any] = [step, all_parts, structure]
        for leaf in leaves:
            key += leaf.shape, leaf.dtype
        executable = self._compiled.get(tuple(key))
        if executable is None:
            static = step, self._layouts[all_parts]
            executable = compiled(self.problem, function, static, passed, in_pieces=in_pieces)
            self._compiled[tuple(key)] = executable
        return executable(*passed)


class PackedState(NamedTuple):
    """The state of a player, as compiled steps take and return it."""

    arrays: tuple[Any, ...]
    report: Array
    """The first of the arrays in NumPy, with the header: all that is read after a round, because
    each transfer costs time."""

    @property
    def in_numpy(self) -> tuple[Any, ...]:
        """The arrays, to be read in NumPy."""
        return (self.report, *self.arrays[1:])


class Steps(Compiled):
    """The compiled steps of one player."""

    def pack(self, state: PlayerState, header: Array | None = None) -> PackedState:
        """Pack a state, behind zeros or the header of the last round."""
        arrays = self.packing.pack(state, header)
        return PackedState(arrays, arrays[0])

    def unpack(self, packed: PackedState) -> PlayerState:
        """Return the state with arrays of NumPy, which must not be changed."""
        state: PlayerState = self.packing.unpack(packed.in_numpy)
        return state

    def take(self, step: Step, before: PackedState, *details: Any) -> PackedState:
        """Return the state after a step."""
        passed = (self.fixed, before.arrays, details)
        arrays = self.call(_of_player, step, passed, details)
        report = np.asarray(arrays[0])
        if report[0] >= SHORT:
            arrays = self.call(_of_player, step, passed, details, all_parts=True)
            report = np.asarray(arrays[0])
        return PackedState(arrays, report)


def _of_player(
    static: tuple[Step, Layout], rewrite: Callable[..., Any], fixed: Any, state: Any, details: Any
) -> Any:
    return rewrite(partial(_packed, *static))(fixed, state, details)


def _packed(step: Step, layout: Layout, fixed: Any, state: Any, details: Any) -> tuple[Any, ...]:
    """Take a step from packed arrays to packed arrays."""
    game, learner, stated = layout.fixed.unpack(fixed)
    after, told = step(learner, game, stated, layout.state.unpack(state), *details)
    flags, loss = jnp.asarray(told.flags, after.x.dtype), jnp.asarray(told.loss, after.x.dtype)
    parts = [flags[None], loss[None], told.excess, told.x.ravel(), told.extremes]
    header = jnp.concatenate(parts)
    return layout.state.pack(after, header, jnp)


def revealed(
    learner: Learner, game: Game, stated: Any, state: PlayerState, z: Any
) -> tuple[PlayerState, Outcome]:
    """Play a round whose data are revealed. Announced constraints were enforced before."""
    after, played = rounds.reveal(learner, game, state.game, z)
    round = state.game.t + state.skipped
    return _scored(learner, game, stated, state, after, played, after.faults, round)


def measured(
    learner: Learner, game: Game, stated: Any, state: PlayerState, *measurements: Any
) -> tuple[PlayerState, Outcome]:
    """Play a round of which loss, gradient, excess and Jacobian were measured. The loss may be
    NaN."""
    loss, slope, excess, jacobian = measurements
    round = MeasuredRound(loss, slope, excess, jacobian, game.domain)
    played, learned = rounds.play_round(learner, state.game.learner, round, round)
    previous = None if state.game.previous is None else played.state.x
    after = _added(state.game, played)._replace(learner=learned, previous=previous)
    faults = fault("constraints", played.excess) | fault("next decision", after.x)
    number = state.game.t + state.skipped
    return _scored(learner, game, stated, state, after, played, faults, number)


def late(
    learner: Learner,
    game: Game,
    stated: Any,
    state: PlayerState,
    z: Any,
    number: Any,
    tag: Any,
    x: jax.Array,
    previous: Any,
) -> tuple[PlayerState, Outcome]:
    """A round arrives that was skipped, in which `x` was played after `previous`. The decision of
    the present round stays."""
    assert isinstance(learner, LateRounds)  # others were refused before
    round = game.played_round(z, previous)
    scored = game.scored_round(z, previous) or round
    loss, excess = scored.loss(x), scored.constraints(x).values
    played = Played(learner, round, state.game.learner._replace(x=x), loss, excess)
    after = _added(state.game, played)
    after = after._replace(learner=learner.arrived(state.game.learner, round, tag))
    # The decision of the present round does not show a gradient that is not finite.
    unusable = [jnp.where(jnp.isnan(leaf), leaf, 0) for leaf in floats_of(after.learner)]
    faults = rounds.faults_of(z, loss, excess, after.x) | fault("next decision", *unusable)
    fewer = state._replace(skipped=state.skipped - 1)
    return _scored(learner, game, stated, fewer, after, played, faults, number)


def _added(state: GameState, played: Played) -> GameState:
    """Return the state with one more round in its totals."""
    assert state.totals is not None
    terms = round_terms(jnp, played.loss, played.excess)
    return state._replace(totals=state.totals.add(terms), t=state.t + 1)


def _scored(
    learner: Learner,
    game: Game,
    stated: Any,
    state: PlayerState,
    after: GameState,
    played: Played,
    faults: jax.Array,
    round: Any,
) -> tuple[PlayerState, Outcome]:
    """Return the state after a round, with what was seen in it."""
    x = played.state.x
    gradient = played.round.gradient(x)
    centre = jnp.asarray(game.domain.centre, x.dtype)
    extremes = round_extremes(played.round, x, played.loss, gradient, centre)
    flags = faults % FAULTY | fault("loss gradient", gradient)
    if stated is not None:
        refuted = jnp.any(extremes[: len(NAMES)] > stated[: len(NAMES)])
        violated = jnp.max(played.excess) > stated[len(NAMES)]
        flags = flags | jnp.where(refuted, REFUTED, 0) | jnp.where(violated, VIOLATED, 0)
    if isinstance(learner, Shortened):
        flags = flags | jnp.where(learner.fell_short(after.learner), SHORT, 0)
    seen = state.seen.add(extremes, round, x, clip_of(learner))
    following = PlayerState(after.x, after, seen, state.skipped)
    return following, Outcome(flags, played.loss, played.excess, x, extremes)


def skipped(
    learner: Learner, game: Game, stated: Any, state: PlayerState, lost: Any
) -> tuple[PlayerState, Outcome]:
    """Nothing is known of the round. It tells the tag of the round, for a learner to which it may
    come late; `lost` is the tag of a round that it no longer waits for, -1 for none."""
    inner, tag = state.game.learner, jnp.zeros((), jnp.int32)
    if isinstance(learner, LateRounds):
        inner, tag = learner.send(inner)
        inner = learner.advance(learner.give_up(inner, lost))
    previous = None if state.game.previous is None else state.game.x
    after = state.game._replace(learner=inner, previous=previous)
    following = state._replace(x=after.x, game=after, skipped=state.skipped + 1)
    return following, _unplayed(state, 0, tag)


def heeded(
    learner: Learner, game: Game, stated: Any, state: PlayerState, z: Any, said: Any, predicted: Any
) -> tuple[PlayerState, Outcome]:
    """Take advice and a forecast, as `as_told` does it, and enforce announced constraints. It tells
    their largest relative violation."""
    heard = None
    if said is not None or predicted is not None:
        heard = as_told(said, predicted, state.game.learner.advice)
    after = rounds.announce(learner, game, state.game, z, heard)
    left: Any = 0
    if game.announced is not None:
        left = relative_violation(after.x, rounds.announced_round(game, state.game, z))
    flags = after.faults % FAULTY | fault("data", *floats_of(z)) | fault("next decision", after.x)
    following = state._replace(x=after.x, game=after)
    return following, _unplayed(following, flags, left)


def replaced(
    learner: Learner, game: Game, stated: Any, state: PlayerState, x: jax.Array
) -> tuple[PlayerState, Outcome]:
    """Put another decision in the place of the learner's."""
    inner = moved(learner, state.game.learner, x)
    following = state._replace(x=inner.x, game=state.game._replace(learner=inner))
    return following, _unplayed(following, 0, 0)


def _unplayed(state: PlayerState, flags: Any, number: Any) -> Outcome:
    """Return the outcome of a step in which no round was scored."""
    assert state.game.totals is not None
    none = jnp.zeros(state.game.totals.peak.shape, state.x.dtype)
    return Outcome(flags, number, none, state.x, jnp.zeros(len(COLUMNS), state.x.dtype))


def with_room(learner: Learner, room: Any) -> Learner:
    """Return the learner with a state of so many slots, if its state grows: `memory=None` keeps all
    cuts. None leaves it as it is.

    The number doubles when all slots are filled. A round fills one at most, so nothing is lost
    before that. The steps are compiled again for the larger state.
    """
    if room is None or not isinstance(learner, Grows):
        return learner
    if type(room) is not int or room < 1:
        raise ValueError(f"room is {room!r}")
    sized: Learner = learner.with_room(room)
    return sized


def padded(state: Any, larger: Any) -> Any:
    """Return a state with zeros in the slots that a larger one has in addition."""

    def pad(leaf: Any, like: Any) -> Any:
        more = zip(np.shape(leaf), np.shape(like), strict=True)
        widths = [(0, wanted - size) for size, wanted in more]
        return np.pad(np.asarray(leaf), widths) if any(map(any, widths)) else leaf

    return jax.tree.map(pad, state, larger)

"""A learner in live use, one round at a time, with the same step function as the simulation."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments, storage
from ..display import Displayed, Summary, brief, number, numbers
from ..engine import Array, random_key, require_jax
from ..extras import optional
from ..learners import Advised, Learner
from ..learners.advised import AdvisedState
from ..learners.clipping import clip_of
from ..learners.protocols import Grows, points_of
from ..learners.registry import with_default
from ..play.simulation import ROOM
from ..play.with_feedback import checked_learner, through
from ..problem.compatibility import first_decision
from ..problem.feedback import Feedback, as_feedback
from ..problem.problem import Problem
from ..runs.run import AdviceFacts, advice_facts
from ..runs.totals import Totals
from . import file as player_file, observation
from .data import DataTypes, check_round, constraint_count
from .guards import EVENTS, Event, alarm, as_limits, check_reaction, happened, refused, thresholds
from .memory import History, MissingRounds
from .steps import COLUMNS, Extremes, PackedState, PlayerState, Steps, padded, with_room

if TYPE_CHECKING:
    import pandas

    from ..judge.certificate import Certificate


LOG = logging.getLogger("taut.player")


class Player(Displayed):
    """A learner in live use: read `decision`, act on it, then `observe` what happened.

    Arguments:
        learner: the method with its parameters, or the name of one that needs no horizon. Without
            it, `Player(problem)`, "half-space" plays, or an averaged learner for 10,000 rounds if
            constraints are observed with errors, which a log record says.
        problem: loss, constraints and domain.
        x1: the first decision; by default the centre of the domain. All computations use its float
            type.
        count: the number of constraints, needed only when they depend on the round's data.
        announced_count: the number of announced constraints, likewise.
        feedback: what the learner sees of a round whose data `z` are observed, as in
            `taut.simulate`; totals are those of the true loss and constraints. Measurements that
            have errors already need no feedback: pass them to `observe`.
        unproven: whether to play with feedback that no guarantee of the learner covers.
        key: JAX random key for feedback and learners that draw random numbers; by default
            `jax.random.key(0)`.
        limits: what data may be: `taut.Limits(...)`, a dict of them by the names of the data, or a
            function of the data that returns whether they can be true. Data outside are refused.
        on_refuted: what becomes of a round that exceeds a stated constant of the problem: "warn"
            accepts it and reports the event "refuted"; "refuse" refuses it; a function gets the
            event and returns one of these two.
        history: how many of the last rounds are remembered, and about as many earlier ones; 0 for
            none, by default 512.

    A bad observation is refused and leaves the player as it was. Several threads may use one
    player: each observation is atomic, and so are saving and the totals. Players can be copied and
    pickled.

    >>> import jax.numpy as jnp, numpy as np, taut
    >>> toy = taut.Problem(
    ...     lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    ... )
    >>> player = taut.Player(taut.ClippedOGD(eta=0.1, sigma=4.0), toy)
    >>> player.observe(np.array([1.0, 0.0]))
    >>> player.decision.round(3).tolist()
    [-0.1, 0.0]
    >>> player.round, player.totals.violation.tolist()
    (2, [0.0])
    """

    _now: PackedState

    def __init__(
        self,
        learner: Learner | str | Problem | None = None,
        problem: Problem | None = None,
        *,
        x1: Any = None,
        count: int | None = None,
        announced_count: int | None = None,
        feedback: Feedback | None = None,
        unproven: bool = False,
        key: jax.Array | None = None,
        limits: Any = None,
        on_refuted: str | Callable[[Event], str] = "warn",
        history: int | None = None,
    ) -> None:
        require_jax()
        asked, problem = with_default(learner, problem)
        self.feedback = as_feedback(feedback)
        learner = checked_learner(
            asked, problem, "Player(learner, problem)", self.feedback, unproven
        )
        assert problem is not None  # others were refused
        self.learner, self.problem = learner, problem
        counts = (
            constraint_count(problem, count, "Player"),
            constraint_count(problem, announced_count, "Player", announced=True),
        )
        self._count = sum(counts)
        if problem.announced is not None and problem.scored_constraints is problem.announced:
            self._count = counts[1]
        first = first_decision(problem, x1)
        self._dtype, self._shape = np.dtype(first.dtype), problem.domain.shape
        self._first = np.asarray(first, float).ravel()
        self._stated = thresholds(problem, np.inf, self._dtype)
        # Where the vector of a state has the last round, its decision, its extremes, and the next.
        size = math.prod(self._shape)
        self._played = slice(2 + self._count, 2 + self._count + size)
        self._row = slice(1, self._played.stop)
        self._seen = slice(self._played.stop, self._played.stop + len(COLUMNS))
        self._next = slice(self._seen.stop, self._seen.stop + size)
        drawn = None if key is None else random_key("key", key, usual=True)
        # With feedback a state does not grow: what the learner sees is not the whole round.
        grows = self.feedback is None and isinstance(learner, Grows)
        room = ROOM if grows and with_room(learner, ROOM) is not learner else None
        self._prepare_steps(room, counts, first, drawn)
        self._missing, self._changed = MissingRounds(), 0
        self._remember(history, limits, on_refuted, counts)

    def _remember(
        self, history: int | None, limits: Any, on_refuted: Any, counts: tuple[int, int]
    ) -> None:
        """Set guards, hooks, and what is remembered beside the state."""
        problem, size = self.problem, math.prod(self._shape)
        asked = None if history is None else arguments.count("history", history, 0)
        self._history = History(self._count, size, asked)
        self._history.coordinate_names = problem.coordinate_names
        self._saved_names: tuple[str, ...] | None = None  # names of constraints in a file
        self._data = DataTypes(problem, self._dtype, counts)
        # Whether it is not known yet that a decision satisfies constraints that do not change.
        self._in_doubt = not problem.constraints.takes_data
        self._guard = None if limits is None else as_limits(limits)
        self._functions: dict[str, list[Callable[[Event], Any]]] = {}  # by event
        if on_refuted != "warn":
            check_reaction(on_refuted)
        self._on_refuted = on_refuted
        # With advisers, the weights with which the last rounds were played. They are not saved.
        self._past_weights: dict[int, Array] | None = None
        if isinstance(self.learner, Advised):
            self._past_weights = {}
        self._keeps_data = self._guard is not None or self._past_weights is not None
        self._last_data: tuple[int, Any] | None = None  # with their round
        self._checked_every: int | None = None  # rounds between two looks at all bounds
        self._begun: observation.Begun | None = None  # what is known of the coming round
        # A request that was not observed yet: the state after its round, and its data.
        self._asked: tuple[PackedState, Any] | None = None
        self._last: observation.Undo | None = None
        self._fingerprint: tuple[Any, dict[str, Array]] | None = None  # of data of a structure
        self.migration: tuple[str, ...] = ()
        """What was not taken over when the player was loaded for another problem."""
        self._lock = threading.RLock()

    def _prepare_steps(
        self, room: int | None, counts: tuple[int, int], first: Any, key: jax.Array | None
    ) -> None:
        """Begin with a state that has so many slots, if it grows."""
        self._room = room
        sized = with_room(self.learner, room)
        counted = counts[0], self._count
        self._steps = Steps(
            self.problem, sized, first, counted, key, self.feedback, self._stated, self._seen.stop
        )
        self._now = self._steps.pack(self._steps.begun)

    def _make_room(self, room: int) -> None:
        """Give a state that grows so many slots. What `undo` needs moves with it."""
        now, last, small = self._now, self._last, self._steps
        first = jnp.asarray(small.unpack(now).x, self._dtype)
        self._prepare_steps(room, self._data.counts, first, None)

        def moved(packed: PackedState) -> PackedState:
            larger = padded(small.unpack(packed), self._steps.begun)
            return self._steps.pack(larger, packed.report[: self._seen.stop])

        self._now = moved(now)
        self._last = None if last is None else last._replace(before=moved(last.before))

    def _state(self) -> PlayerState:
        return self._steps.unpack(self._now)

    @property
    def decision(self) -> Any:
        """x_t, the decision to play now, as a NumPy array that the caller may change.

        For a problem written in CVXPY with several variables, a dict of them by name. For a learner
        that sees requests first, the decision for the last request. If announced constraints depend
        on data, call `announce` before.
        """
        if self.problem.announced is not None or self._begun is not None:
            with self._lock:
                return self._presented(observation.begin(self))
        asked = self._asked  # one read each: no observation of a thread can come in between
        if asked is not None:
            return self._presented(asked[0], self._played)
        return self._presented(self._now)

    def _presented(self, packed: PackedState, place: slice | None = None) -> Any:
        """Return the decision in a state, by default the next one, as the user gets it, who may
        change it."""
        decision = packed.report[self._next if place is None else place]
        return self.problem.present(decision.reshape(self._shape).copy())

    @property
    def points(self) -> Array:
        """The points to play in this round, (k, *decision): the decision, or those around it that a
        bandit learner plays."""
        with self._lock:
            state = self._state().game.learner
        points = points_of(through(self.learner, self.feedback), jax.tree.map(jnp.asarray, state))
        return np.stack([np.asarray(point) for point in points])

    @property
    def totals(self) -> Totals:
        """Running totals of loss and violations. The total loss is NaN if a round was observed
        without its loss."""
        with self._lock:
            return Totals.of_chunk(jax.tree.map(np.array, self._state().game.totals))

    @property
    def constraint_names(self) -> tuple[str, ...] | None:
        """The names of the constraints, announced ones last. None if they have none, or if the
        names come with the first data."""
        names = self.problem.constraint_names or self._saved_names
        if names is None and self._data.known:
            x = np.zeros(self._shape, self._dtype)
            names = self.problem.names_for(x, self.problem.given(self._data.example, x))
        return names

    @property
    def round(self) -> int:
        """The round about to be played, from 1."""
        with self._lock:
            return self.observed + self._over + 1

    @property
    def _over(self) -> int:
        """The number of rounds that are over and that totals do not contain."""
        return int(self._steps.places.skipped.read(self._now.in_numpy))

    @property
    def unknown(self) -> int:
        """The number of rounds that were skipped and not observed since. Totals do not contain
        them."""
        with self._lock:
            return self._over - self._missing.migrated

    @property
    def observed(self) -> int:
        """The number of rounds that totals contain: those that were observed since the player was
        made or migrated."""
        with self._lock:
            return int(self._steps.places.game.t.read(self._now.in_numpy)) - 1

    @property
    def migrated(self) -> int:
        """The number of rounds that were played on another problem, before it was changed."""
        return self._missing.migrated

    @property
    def pending(self) -> tuple[int, ...]:
        """The rounds that were skipped and can still be observed with `observe_late`."""
        return self._missing.rounds

    @property
    def history(self) -> History:
        """Loss, constraint values and decision of the last rounds, and of some rounds before
        them."""
        self._history.constraint_names = self.constraint_names
        return self._history

    @property
    def extremes(self) -> Extremes:
        """The largest gradients, constraint values and loss differences of all rounds, with their
        rounds."""
        with self._lock:
            seen, rounds = self._state().seen, self.round - 1
            since = self._missing.migrated + 1
            return seen.extremes(self._shape, clip_of(self.learner), since, rounds)

    def certificate(self, **options: Any) -> Certificate:
        """Return measured violations beside the guarantee, and the assumptions compared with all
        rounds that were observed.

        A player does not keep the data of its rounds. `certificate(stream=data)` with the data of
        all rounds so far measures regret as well, and checks more assumptions. With advisers, and
        previous decisions or announced constraints, it needs `advice=` or `forecast=` of all
        rounds too, as `taut.simulate` takes them.
        """
        from ..judge.live import certify_player

        certificate = certify_player(self, **options)
        for row in certificate.rows:
            if row.holds is False and row.worst is not None:
                numbers = {"quantity": row.quantity, "value": row.worst, "bound": row.bound}
                text = f"{row.quantity}: got {row.worst:g}; expected at most {row.bound:g}"
                happened(self, Event("bound", self.round - 1, text, numbers))
        return certificate

    @property
    def cuts_hold(self) -> bool | None:
        """Whether all projections of a half-space learner on its cuts were exact so far; `None` for
        other learners."""
        hold = self._of_state("cuts_hold")
        return None if hold is None else bool(hold)

    @property
    def correction(self) -> Array | None:
        """What the feasibility moves of a half-space learner take off its bound on regret so far;
        `None` for other learners."""
        sums = self._of_state("correction")
        return None if sums is None else np.asarray(sums)

    def _of_state(self, name: str) -> Any:
        """Return an entry of the learner's state; `None` if it has none of this name."""
        with self._lock:
            return getattr(self._state().game.learner, name, None)

    def state(self) -> dict[str, Any]:
        """Return round, decision and totals as numbers, lists and dicts, which fit into JSON.

        The decision is a dict by name if its entries have names; lists in the totals are in the
        order of `constraint_names`. Files are written by `save`.
        """
        with self._lock:
            decision, coordinates = self.decision, self.problem.coordinate_names
            if isinstance(decision, dict):
                shown: Any = {name: np.asarray(value).tolist() for name, value in decision.items()}
            elif coordinates is not None:
                shown = dict(zip(coordinates, decision.ravel().tolist(), strict=True))
            else:
                shown = decision.tolist()
            names, weights = self.constraint_names, self.weights
            return {
                "learner": repr(self.learner),
                "round": self.round,
                "unknown": self.unknown,
                "pending": list(self.pending),
                "decision": shown,
                **({} if names is None else {"constraint_names": list(names)}),
                **({} if weights is None else {"weights": weights[self.round].tolist()}),
                "totals": self.totals.to_dict(),
            }

    def to_dataframe(self, what: str = "rounds") -> pandas.DataFrame:
        """Return a pandas table.

        Arguments:
            what: "rounds": one row per remembered round with the columns loss, then the constraints
                and the entries of the decision by name; "totals": one row per constraint.
        """
        arguments.one_of("what", what, ("rounds", "totals"))
        with self._lock:
            if what == "rounds":
                return self.history.to_frame()
            pd, totals = optional("pandas"), self.totals
            values = {
                name: getattr(totals, name) for name in ("excess", "violation", "squared", "peak")
            }
            names = pd.Index(self.history.names["excess"], name="constraint")
            return pd.DataFrame(values, index=names)

    def plot(self, quantity: str | None = None, *, ax: Any = None) -> Any:
        """Draw the rounds that the player remembers: the last ones all, earlier ones thinned.

        Arguments:
            quantity: "loss", "excess" or "decision"; by default all three. With advisers, also
                "weights".
            ax: the Matplotlib axes to draw on, three of them without `quantity`; by default new
                ones.

        Returns the axes, or an array of three.
        """
        from ..plots.methods import plot_player

        with self._lock:
            return plot_player(self.history, quantity, ax, self.weights)

    def _summary(self) -> Summary:
        with self._lock:
            totals = self.totals
            facts = [
                ("learner", brief(self.learner)),
                ("decision", numbers(self._now.report[self._next].reshape(self._shape))),
                ("total loss", number(totals.loss)),
                ("clipped violation", number(totals.worst_violation)),
                ("peak violation", number(totals.peak.max())),
            ]
            return Summary(f"Player before round {self.round}", facts)

    def decide(self, z: Any = None, *, advice: Any = None, forecast: Any = None) -> Any:
        """Return the decision of the round: for the request `z`, or with advice.

        Arguments:
            z: the request, for a learner that sees it first; then call `observe()`.
            advice: for `taut.Advised(learner)`, what your own controller would play, or None if it
                is missing; for several advisers a list with a decision or None for each.
            forecast: a prediction of the round's data, or "last" for the data of the last round.
                The last adviser is then the decision that is best for it.

        The round is not over until it is observed. Until then `decide` may be called again, and the
        last call counts. With announced constraints that depend on data, call `announce` before.
        """
        if isinstance(self.learner, Advised) or advice is not None or forecast is not None:
            require_jax(tracing=False)
            with self._lock:
                return self._presented(observation.advise(self, z, advice, forecast))
        if not self.learner.request_first:
            kind = type(self.learner).__name__
            raise TypeError(
                f"decide: {kind} decides before a round is revealed; read player.decision instead"
            )
        require_jax(tracing=False)
        with self._lock:
            return self._presented(observation.ask(self, z), self._played)

    @property
    def weights(self) -> dict[int, Array] | None:
        """The weights of the learner and the advisers in the last rounds, by round, and in the
        coming round as it would be played now; `None` for a learner without advisers."""
        if self._past_weights is None:
            return None
        with self._lock:
            before = self._now if self._begun is None else observation.begin(self)
            return {**self._past_weights, self.round: self._weights_in(before)}

    def _weights_in(self, packed: PackedState) -> Array:
        place = self._steps.places.game.learner.weights
        return np.array(place.read(packed.in_numpy), float)

    def _advice_facts(self) -> AdviceFacts | None:
        """What was observed with advisers, for the certificate."""
        state = self._state().game.learner
        if not isinstance(state, AdvisedState):
            return None
        return AdviceFacts(*(array[None] for array in advice_facts(state)))

    def announce(self, z: Any) -> Any:
        """Reveal the data of announced constraints before the round; return the decision, which
        satisfies them if possible.

        Arguments:
            z: data with which `announced(x, z)` or `announced(x, z, previous)` can be computed;
                other data of the round may be missing. `observe(z)` gets all of them, with the same
                values.

        Some decision of the domain must satisfy the constraints; an error says by how much they
        miss otherwise.

        It may be called again before the round is observed. A player that is loaded from a file
        needs it again.
        """
        require_jax(tracing=False)
        with self._lock:
            return self._presented(observation.announce(self, z))

    def observe(
        self,
        z: Any = None,
        *,
        round: int | None = None,
        played: Any = None,
        gradient: Any = None,
        excess: Any = None,
        jacobian: Any = None,
        loss: float | None = None,
    ) -> None:
        """Reveal the round: either its data `z`, or measurements at the decision just played.

        Arguments:
            z: the data, as the problem's loss takes it; in shape and type like those of earlier
                rounds.
            round: the number of the round, if it is to be checked: one that was observed before,
                or that is not the next, is refused.
            gradient: a subgradient of the loss at the decision, of its shape.
            excess: the constraint values g(x_t), shape (m,) or a number if m = 1.
            jacobian: their gradients, shape (m, *decision) or that of the decision if m = 1.
            loss: the loss itself, for the totals; optional.
            played: what was really played, if an operator or an actuator changed the decision: a
                point of the domain. The round is scored there, and the learner goes on from there.
                Guarantees are about a learner's own decisions.

        After `decide(z)`, for a learner that sees the request first, call it without arguments.
        """
        require_jax(tracing=False)
        with self._lock:
            try:
                if round is not None:
                    check_round(round, self.round, self._missing.rounds)
                numbers = gradient, excess, jacobian, loss
                if self.learner.request_first:
                    observation.finish(
                        self, any(each is not None for each in (z, played, *numbers))
                    )
                else:
                    observation.play(self, z, played, numbers)
            except (TypeError, ValueError) as error:
                refused(self, self.round, error)
                raise
            if self._now.report[0] or self._checked_every is not None:
                alarm(self)

    def skip(self, reason: str = "") -> None:
        """Go on to the next round, because no observation of this one came.

        Totals do not contain the round; `unknown` counts it. The learner learns nothing, so its
        decision stays; `taut.DelayTolerant` goes on with a copy that waits for nothing, and the
        round can still be observed with `observe_late`. Guarantees are then about the rounds that
        were observed.

        Arguments:
            reason: why, for the log.

        >>> import numpy as np, taut
        >>> problem = taut.Problem(lambda x, z: z @ x, lambda x: x.sum() - 1, taut.Box(0, 1, 2))
        >>> player = taut.Player(problem)
        >>> player.observe(np.ones(2))
        >>> player.skip(reason="the meter did not answer")
        >>> player.round, player.unknown
        (3, 1)
        """
        observation.skip(self, reason)

    def observe_late(self, round: int, z: Any) -> None:
        """Reveal the data of a round that was skipped.

        Only learners whose guarantees cover delays can use it, such as `taut.DelayTolerant`. The
        decision of the present round stays as it is.

        Arguments:
            round: the number of the round, one of `pending`.
            z: its data.
        """
        observation.observe_late(self, round, z)

    def undo(self) -> None:
        """Take back the last round, so that it can be observed again.

        Only the last observation, or skip, can be taken back, once; not a late observation, and not
        what happened before a file was loaded. Announced constraints must be announced again.

        >>> import numpy as np, taut
        >>> problem = taut.Problem(lambda x, z: z @ x, lambda x: x.sum() - 1, taut.Box(0, 1, 2))
        >>> player = taut.Player(problem)
        >>> player.observe(np.array([1.0, 1e6]))
        >>> player.undo()
        >>> player.round, player.decision.tolist()
        (1, [0.5, 0.5])
        """
        observation.undo(self)

    def on(
        self,
        event: str,
        function: Callable[[Event], Any],
        *,
        tolerance: float | None = None,
        every: int | None = None,
    ) -> None:
        """Call a function whenever something happens that an operator should know of.

        Each event is also a log record of the logger "taut.player", with the same fields. The
        function is called after the round was taken over, in the thread that observed it; what it
        raises reaches the caller. Functions are not saved.

        Arguments:
            event: "refuted": a stated constant was exceeded (once for each doubling); "bound": a
                measured quantity is above its bound, which `certificate` and `every` look at;
                "refused": a round was refused; "violated": a constraint was violated by more than
                the tolerance.
            function: it gets the `taut.Event`, with round, message and numbers.
            tolerance: for "violated", how much is tolerated; by default 0. The last one counts.
            every: for "bound", look at all bounds after every so many rounds.

        >>> import numpy as np, taut
        >>> problem = taut.Problem(lambda x, z: z @ x, lambda x: x.sum() - 1, taut.Box(0, 1, 2))
        >>> player = taut.Player(problem)
        >>> player.on("refused", lambda event: print(event.message))
        >>> player.observe(np.array([1.0, np.nan]))
        Traceback (most recent call last):
        taut.player.guards.Refused: z: got a value that is not finite in round 1; expected finite
        numbers
        """
        if tolerance is not None and event != "violated":
            raise TypeError(f'tolerance: got {tolerance}; expected None for the event "{event}"')
        if every is not None and event != "bound":
            raise TypeError(f'every: got {every}; expected None for the event "{event}"')
        arguments.one_of("event", event, tuple(EVENTS))
        if not callable(function):
            raise TypeError(
                f"function: got {arguments.shown(function)}; expected a function of an event"
            )
        with self._lock:
            self._functions.setdefault(event, []).append(function)
            if event == "violated":
                least = 0.0 if tolerance is None else arguments.non_negative("tolerance", tolerance)
                self._stated[-1] = least
                self._steps.state_thresholds(self._stated)
            if every is not None:
                self._checked_every = arguments.count("every", every)

    def save(self, path: str | Path, *, history: bool = True) -> None:
        """Write the player to a file, atomically: a crash leaves the old file or the new one.

        Arguments:
            path: the file.
            history: whether to write the remembered rounds.
        """
        storage.write_arrays(arguments.path("path", path), *player_file.contents(self, history))

    def to_bytes(self, *, history: bool = True) -> bytes:
        """Return what `save` writes: for a database, or another machine. Nothing is pickled, and a
        checksum protects the content."""
        return storage.arrays_to_bytes(*player_file.contents(self, history))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy a player as its learner, its problem and the contents of its file."""
        contents = player_file.contents(self)
        return player_file.unpickled, (self.learner, self.problem, *contents, self.feedback)

    @classmethod
    def load(
        cls,
        path: str | Path,
        problem: Problem,
        learner: Learner | None = None,
        feedback: Feedback | None = None,
        *,
        migrate: bool | Mapping[str, str] = False,
        limits: Any = None,
        on_refuted: str | Callable[[Event], str] = "warn",
    ) -> Player:
        """Load a player that `save` wrote. It continues exactly where it stopped.

        Arguments:
            path: the file.
            problem: the problem, because a file cannot hold its functions. Domain, names and
                shapes must match, and loss and constraints must have the values that they had, at
                a few decisions.
            learner: if given, the file must have been written by this learner with these
                parameters.
            feedback: if given, the file must have been written with the same; needed only if it
                contains functions.
            migrate: whether the problem may be another one. Entries of the decision are then
                matched by name, or by position if they have none, and a dict gives the new names of
                entries whose names changed. What can be taken over is: the decision, the step
                size, and kept cuts that still hold. `player.migration` says what was not. Totals
                begin anew.
            limits: as for `Player`; a file does not hold it.
            on_refuted: likewise.
        """
        player = player_file.loaded(path, problem, learner, feedback, migrate, limits, on_refuted)
        LOG.info("loaded a player before round %d from %s", player.round, path)
        return player

    @classmethod
    def from_bytes(
        cls,
        content: bytes,
        problem: Problem,
        learner: Learner | None = None,
        feedback: Feedback | None = None,
        *,
        migrate: bool | Mapping[str, str] = False,
        limits: Any = None,
        on_refuted: str | Callable[[Event], str] = "warn",
    ) -> Player:
        """Return the player that `to_bytes` described; the other arguments are those of `load`.

        >>> import numpy as np, taut
        >>> problem = taut.Problem(lambda x, z: z @ x, lambda x: x.sum() - 1, taut.Box(0, 1, 2))
        >>> player = taut.Player(problem)
        >>> player.observe(np.ones(2))
        >>> again = taut.Player.from_bytes(player.to_bytes(), problem)
        >>> again.round, bool(np.all(again.decision == player.decision))
        (2, True)
        """
        if not isinstance(content, bytes | bytearray | memoryview):
            raise TypeError(
                f"content: got {arguments.shown(content)}; expected the bytes that "
                "player.to_bytes() returned"
            )
        return player_file.loaded(
            bytes(content), problem, learner, feedback, migrate, limits, on_refuted
        )

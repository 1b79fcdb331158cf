"""Which learners play on which stream, with which parameters, and why the others do not."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ..learners import LEARNERS, Card, Learner
from ..play.simulation import chunk_of_any_length
from ..plots.families import family_of
from ..problem.feedback import Bandit, Feedback
from ..problem.problem import Problem
from ..runs import metrics
from ..runs.run import Run
from .entrants import ENTRANTS
from .outside import OUTSIDE, Outside
from .registry import STREAMS
from .stream import Stream

THEORY = "theory"
"""The parameters that the method's theory gives."""
FACTORS = (1 / 16, 1 / 4, 4, 16)
"""The grid: one number that a method is told is multiplied by these. All methods have the same
budget of four further runs."""
GRID_ROUNDS = 2**12
"""The grid is played for this number of rounds, or for the largest smaller one that is played."""
MANY = 32
"""Constraints beyond which methods that solve a program in every round, or average constraints,
take a hundred times as long as others."""
REPLACED = {"step-experts": "universal-experts"}
"""Methods without a bound on the violation, and the method with one that plays in their place."""
ALL_CUTS = 2**10
"""The longest horizon of a method that keeps a cut of nearly every round, which takes time with the
square of the number of rounds."""
TUNED = ("loss_lipschitz", "constraint_lipschitz", "loss_range")
"""The number that is multiplied: the first of these constants that the method needs, or its option
`start_up`."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One learner with its parameters on one stream for a number of rounds."""

    stream: Stream
    card: Card
    variant: str
    """`THEORY`, or what was changed, such as "loss_lipschitz x 4"."""
    horizon: int
    seeds: int
    learner: Learner

    @property
    def name(self) -> str:
        """A name that differs from those of all other entries."""
        return (
            f"{self.stream.name} / {self.card.name} / {self.variant} / {self.horizon} / "
            f"{self.seeds}"
        )

    @property
    def problem(self) -> Problem:
        """The problem that is played: constraints one by one, or their maximum, as the card
        says."""
        return _played(self.card, self.stream)

    @property
    def feedback(self) -> Feedback | None:
        """What the learner sees of a round."""
        return self.stream.seen_by(self.learner)

    @property
    def score(self) -> Problem | None:
        """The problem that scores the decisions, if it is another one."""
        return None if self.problem is self.stream.rows else self.stream.rows

    @property
    def recipe(self) -> Callable[[], Any]:
        """What returns the data. Those of a registered stream are made where they are needed, and
        once in a process."""
        stream, size = self.stream, (self.seeds, self.horizon)
        if stream.name in STREAMS:
            return partial(stream_data, stream.name, stream.version, *size)
        return partial(stream.data, *size)

    def cell(self) -> Any:
        """The simulation, for `taut.sweep`."""
        from ..sweeps import Cell

        registered = self.stream.name in STREAMS
        return Cell(
            self.learner,
            self.problem,
            self.recipe if registered else self.recipe(),
            horizon=self.horizon,
            seeds=self.seeds,
            name=self.name,
            score=self.score,
            record=("excess",),
            keep=False,
            measure=measured,
            chunk=chunk_of_any_length(self.horizon),
            feedback=self.feedback,
            unproven=self.feedback is not None,
        )


@lru_cache(maxsize=24)
def stream_data(name: str, version: int, seeds: int, rounds: int) -> Any:
    """The data of a registered stream. The version is part of the arguments, so that results of
    other versions are not reused."""
    stream = STREAMS[name]
    if stream.version != version:
        raise ValueError(
            f"version: got {version} of the stream {name!r}; expected {stream.version}, the "
            "installed one"
        )
    return stream.data(seeds, rounds)


def measured(run: Run) -> dict[str, Any]:
    """All quantities of a run that theorems bound, except for regret, and the number of violating
    rounds, by seed."""
    values = metrics.measured(run) | {"violating rounds": metrics.violating_rounds(run)}
    return {f"arena {name}": column for name, column in values.items()}


def stream_of(name: str) -> Stream:
    """Return a stream by its name."""
    from .. import arguments

    if name not in STREAMS:
        raise ValueError(f"streams: got {name!r}{arguments.expected_one_of(name, STREAMS)}")
    return STREAMS[name]


def card_of(name: str) -> Card:
    """Return the card of a registered learner, or of "package.module:Name": a card, a learner class
    or a constructor.

    A class is built by its constructor `tuned` if it has one.
    """
    if name in LEARNERS:
        return LEARNERS[name]
    if name in ENTRANTS:
        return ENTRANTS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        from .. import arguments

        raise ValueError(
            f"learners: got {name!r}; expected a registered name (see taut learners) or "
            f"package:Name{arguments.did_you_mean(name, LEARNERS)}"
        )
    here = str(Path.cwd())
    sys.path.insert(0, here)  # a module in the folder where the command is run
    try:
        learner = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        raise ValueError(
            f"learners: got {name!r}, but {module!r} cannot be imported: {error}"
        ) from error
    finally:
        sys.path.remove(here)
    if isinstance(learner, Card):
        return learner
    if callable(learner):
        make: Any = getattr(learner, "tuned", learner) if isinstance(learner, type) else learner
        return Card(name=name, make=make)
    raise ValueError(
        f"learners: got {name!r}, which is {learner!r}; expected a taut.Card, a learner class or a "
        "constructor"
    )


def known_card(name: str) -> Card | Outside | None:
    """Return what is known of a learner of taut, of an entrant or of a baseline; `None` for other
    names."""
    return LEARNERS.get(name) or ENTRANTS.get(name) or OUTSIDE.get(name)


def reason_against(card: Card, stream: Stream) -> str:
    """Why a method does not apply to a stream; empty if it does."""
    known = stream.rows.constants
    if card.request_first != stream.request_first:
        return (
            "it needs the request first"
            if card.request_first
            else "requests are revealed before the decision"
        )
    if stream.feedback is not None and card.name == "half-space-all-cuts":
        return "all cuts are kept with full information only"
    if stream.feedback is None and "full" not in card.feedback:
        return f"it is for other feedback: {', '.join(card.feedback)}"
    if isinstance(stream.feedback, Bandit) and "bandit" not in card.feedback:
        return "it needs gradients, and only values are seen"
    if card.losses == "strongly convex" and known.strong_convexity == 0:
        return "the losses are not strongly convex"
    if card.needs_feasible and stream.feasible is None:
        return "the feasible set has no exact projection"
    if card.fixed_constraints and stream.rows.constraints.takes_data:
        return "the constraints change"
    if card.affine_constraints and known.constraint_smoothness != 0:
        return "the constraints are not affine"
    if card.slater and known.slater is None:
        return "no Slater point is known"
    if not stream.feasible_rounds and "excess" not in card.growth:
        return (
            "no decision is feasible in every round, and the method has no bound on the signed sum"
        )
    missing = [name for name in card.needs if getattr(known, name) is None]
    return f"the constant {missing[0]} is not known" if missing else ""


def _not_worth(card: Card, stream: Stream) -> str:
    """Why a method that applies is not worth its time on a stream; empty if it is."""
    if card.name in REPLACED:
        return f"{REPLACED[card.name]} plays in its place; it plays if --learners names it"
    count = stream.rows.constants.constraint_count or 1
    slow = card.solves_program or family_of(card.name).name == "averaged"
    if not slow or count <= MANY:
        return ""
    return f"its program with {count} rows takes too long; it plays if --learners names it"


def _played(card: Card, stream: Stream) -> Problem:
    """The problem that a method plays: constraints one by one, or their maximum."""
    return stream.rows if card.separate or stream.separate else stream.problem


def variants(card: Card, stream: Stream, horizon: int, grid: bool) -> Iterator[tuple[str, Learner]]:
    """The learner with theory's parameters, and with `grid` those of the grid."""
    problem = _played(card, stream)
    options: dict[str, Any] = {"feasible": stream.feasible if card.needs_feasible else None}
    options |= {name: value for name, value in stream.told.items() if name in card.options}
    yield THEORY, card.build(problem, horizon, **options)
    if not grid:
        return
    constant = next((name for name in TUNED if name in card.needs), None)
    option = "start_up" if "start_up" in card.options else None
    for factor in FACTORS:
        if constant is not None:
            changed = _told(stream, problem is stream.rows, constant, factor)
            yield f"{constant} x {factor:g}", card.build(changed, horizon, **options)
        elif option is not None:
            value = card.options[option] * factor
            yield (
                f"{option} x {factor:g}",
                card.build(problem, horizon, **options, **{option: value}),
            )


@lru_cache(
    maxsize=256
)  # every learner is told the same wrong constants, and a new problem is traced again
def _told(stream: Stream, separate: bool, constant: str, factor: float) -> Problem:
    """The problem of a stream with one constant multiplied."""
    problem = stream.rows if separate else stream.problem
    return problem.with_constants(
        problem.constants.with_values(**{constant: factor * getattr(problem.constants, constant)})
    )


def entries(
    streams: Iterable[Stream],
    cards: Iterable[Card],
    horizons: Sequence[int],
    seeds: int,
    grid: bool = False,
    patient: bool = True,
) -> tuple[list[Entry], list[tuple[str, str, str]]]:
    """Return what is played, and (stream, learner, reason) for what is not; the learner is empty if
    no learner plays.

    The grid is played for one number of rounds only, the largest up to `GRID_ROUNDS`. Unless
    `patient`, methods that solve a quadratic program in every round do not play with many
    constraints.
    """
    wanted: list[Entry] = []
    left_out: list[tuple[str, str, str]] = []
    cards = list(cards)
    for stream in streams:
        why = stream.missing()
        lengths = () if why else stream.lengths(tuple(horizons))
        if not lengths:
            asked = ", ".join(map(str, horizons))
            left_out.append(
                (
                    stream.name,
                    "",
                    why or f"it has at most {stream.longest} rounds, asked for were {asked}",
                )
            )
            continue
        tuned = max((T for T in lengths if T <= GRID_ROUNDS), default=min(lengths))
        for card in cards:
            reason = reason_against(card, stream) or ("" if patient else _not_worth(card, stream))
            made: list[Entry] = []
            gathers = card.name == "half-space-all-cuts" and not stream.finite_rows
            longest = ALL_CUTS if gathers else max(lengths)
            try:
                for T in () if reason else [T for T in lengths if longest >= T]:
                    for variant, learner in variants(card, stream, T, grid and tuned == T):
                        made.append(
                            Entry(stream, card, variant, T, stream.seeds_of(seeds), learner)
                        )
            except ValueError as error:
                reason = str(error)
            if reason:
                left_out.append((stream.name, card.name, reason))
            else:
                wanted += made
    return wanted, left_out


def described(learner: Learner) -> str:
    """The parameters of a learner in one line, the same in every process."""
    with np.printoptions(precision=8, threshold=8):
        return repr(learner)

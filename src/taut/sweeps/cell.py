"""A cell of a sweep: one simulation, described by what it needs, so that it can be sent to another
process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any

import jax
import numpy as np

from .. import arguments
from ..engine import random_key
from ..learners import Card, Learner
from ..learners.registry import as_learner
from ..problem.compatibility import first_decision
from ..problem.feedback import Feedback, as_feedback
from ..problem.problem import Problem
from ..problem.streams import Stream, as_stream, required_arguments
from ..runs.run import RECORDS, Run

COLUMNS = (
    "name",
    "cell",
    "learner",
    "horizon",
    "seeds",
    "seed",
    "loss",
    "violation",
    "squared violation",
    "peak violation",
    "excess",
    "seconds",
)
"""Columns of every table of a sweep, which tags and measures must not be called."""
Tag = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Cell:
    """One simulation of a sweep: the arguments of `taut.simulate`, and how tables call it.

    Arguments:
        learner: a learner, or the name of a method, which is tuned to the problem and the horizon.
        problem: loss, constraints and domain.
        stream: what `taut.simulate` takes; or a recipe, which is a function without required
            arguments that returns it, for example `functools.partial(draw, seed=3)`. A recipe is
            called where the cell is played, so that only the function and its arguments travel.
            With several processes prefer recipes and functions `chunk(start, length)` to arrays.
        horizon: number of rounds; needed for functions, and for a recipe if `learner` is a name.
        seeds: number of independent simulations, as in `taut.simulate`.
        name: what tables call the cell; by default its number. Names must differ.
        tags: further columns of the table, for example {"eta": 0.1}. They do not affect the result.
        score: another problem that scores the decisions.
        x1: first decision.
        key: random key of an adversary, the feedback or the learner.
        record: what to keep of every round; by default totals only.
        every: keep decisions and multipliers of every so many rounds only.
        chunk: number of rounds that are played at a time.
        feedback: what the learner sees of a round.
        unproven: whether to play with feedback that no guarantee of the learner covers.
        measure: `measure(run)` is called where the cell is played and returns further results by
            name: numbers, or arrays whose first axis is the seed. Names do not begin with "total_".
        keep: whether to keep what is recorded of every round; if not, it only serves `measure`.
    """

    learner: Learner | Card | str
    problem: Problem
    stream: Any
    _: KW_ONLY
    horizon: int | None = None
    seeds: int | None = None
    name: str | None = None
    tags: Mapping[str, Tag] = field(default_factory=dict)
    score: Problem | None = None
    x1: Any = None
    key: jax.Array | None = None
    record: Sequence[str] = ()
    every: int = 1
    chunk: int | None = None
    feedback: Feedback | None = None
    unproven: bool = False
    measure: Callable[[Run], Mapping[str, Any]] | None = None
    keep: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.learner, (Learner, Card, str)):
            raise TypeError(
                f"learner: got {arguments.shown(self.learner)}; expected a learner, or the name "
                "of a method. The order is Cell(learner, problem, stream)"
            )
        for name, value in (("problem", self.problem), ("score", self.score)):
            if not isinstance(value, Problem) and not (name == "score" and value is None):
                raise TypeError(
                    f"{name}: got {arguments.shown(value)}; expected taut.Problem(...). The order "
                    "is Cell(learner, problem, stream)"
                )
        if self.name is not None and (not isinstance(self.name, str) or not self.name):
            raise TypeError(f"name: got {self.name!r}; expected a text")
        if self.measure is not None and not callable(self.measure):
            raise TypeError(
                f"measure: got {arguments.shown(self.measure)}; expected a function measure(run)"
            )
        arguments.flags(self)
        _check_tags(self.tags)


def _check_tags(tags: Any) -> None:
    if not isinstance(tags, Mapping):
        raise TypeError(
            f"tags: got {arguments.shown(tags)}; expected a dictionary, for example {{'eta': 0.1}}"
        )
    for name, value in tags.items():
        if not isinstance(name, str) or not name or name in COLUMNS:
            raise ValueError(
                f"tags: got the name {name!r}; expected a text other than {', '.join(COLUMNS)}"
            )
        if not isinstance(value, (str, int, float, bool)) and value is not None:
            raise TypeError(
                f"tags: got {arguments.shown(value)} for {name!r}; expected a text, a number, "
                "True, False or None"
            )


@dataclass(frozen=True, eq=False)
class Ready(Cell):
    """A cell after its arguments were checked: what a worker needs to play it. Its stream is a
    `Stream` or a recipe."""

    learner: Learner
    name: str = "0"
    record: tuple[str, ...] = ()
    identity: str = ""
    """The name of its file, if the sweep has a folder."""

    @property
    def kept(self) -> tuple[str, ...]:
        """What is recorded of every round and kept."""
        return self.record if self.keep else ()

    @property
    def work(self) -> float:
        """The number of rounds times seeds, as far as it is known; cells of one program take time
        in this proportion."""
        if isinstance(self.stream, Stream):
            return float(self.stream.horizon * self.stream.seeds)
        return float((self.horizon or 1) * (self.seeds or 1))

    def program(self) -> tuple[Any, ...]:
        """Return a key that is equal for cells which one compiled program can play, in this
        process."""
        shapes = tuple(map(np.shape, jax.tree.leaves(self.learner)))
        return (
            id(self.problem),
            id(self.score),
            jax.tree.structure(self.learner),
            shapes,
            self.seeds,
            self.record,
            self.every,
            self.feedback is None,
        )


def prepare(cell: Cell, shared: dict[Any, Any], name: str = "0") -> Ready:
    """Check the arguments of a cell and tune a method that is given by name.

    Arguments:
        cell: the cell.
        name: how tables call it.
        shared: filled here; cells with the same problem and data then share the same objects, which
            are pickled once.
    """
    seeds = None if cell.seeds is None else arguments.count("seeds", cell.seeds)
    horizon = None if cell.horizon is None else arguments.count("horizon", cell.horizon)
    record = (cell.record,) if isinstance(cell.record, str) else cell.record
    if not isinstance(record, Iterable):
        raise TypeError(
            f"record: got {cell.record!r}; expected names among {', '.join(map(repr, RECORDS))}, "
            "or ()"
        )
    problem, score, stream = cell.problem, cell.score, cell.stream
    if not is_recipe(stream):
        ids = id(problem), id(score), id(stream), horizon, seeds
        if ids not in shared:
            made = as_stream(problem.arrange(stream), horizon=horizon, seeds=seeds)
            # The cell keeps the objects alive whose ids are the key.
            shared[ids] = made, cell
        stream, _ = shared[ids]
        horizon, seeds = stream.horizon, stream.seeds if seeds is not None else None
    elif horizon is None and not isinstance(cell.learner, Learner):
        raise ValueError(
            "horizon: got None for a method given by name on a recipe; expected the number of "
            "rounds"
        )
    checked = {
        "name": name,
        "learner": as_learner(cell.learner, problem, horizon),
        "problem": problem,
        "stream": stream,
        "horizon": horizon,
        "seeds": seeds,
        "score": score,
        "x1": None if cell.x1 is None else np.asarray(first_decision(problem, cell.x1)),
        "key": None if cell.key is None else random_key("key", cell.key),
        "record": tuple(sorted({arguments.one_of("record", name, RECORDS) for name in record})),
        "every": arguments.count("every", cell.every),
        "chunk": None if cell.chunk is None else arguments.count("chunk", cell.chunk),
        "feedback": as_feedback(cell.feedback),
    }
    return Ready(**{entry.name: getattr(cell, entry.name) for entry in fields(cell)} | checked)


def is_recipe(stream: Any) -> bool:
    """Return whether a stream is a function without required arguments, which returns the
    stream."""
    return callable(stream) and not isinstance(stream, Stream) and required_arguments(stream) == 0


def make_stream(recipe: Callable[[], Any]) -> Any:
    """Return the stream that a recipe makes."""
    made = recipe()
    if callable(made) and not isinstance(made, Stream) and required_arguments(made) == 0:
        raise TypeError(
            "stream: got a recipe that returns another recipe; expected data, or a function that "
            "makes them"
        )
    return made

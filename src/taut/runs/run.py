"""The result of a simulation: labelled arrays, and what produced them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import arguments
from ..display import Displayed, Grid, Summary, brief, number
from ..engine import Array
from ..extras import optional
from ..learners import Learner
from ..learners.guarantee import Observed, ObservedAdvice
from . import file as run_file, labels
from .sample import Sample, sample_of_run
from .totals import Totals

if TYPE_CHECKING:
    import jax
    import pandas
    import xarray

    from ..judge.certificate import Certificate
    from ..learners.advised import AdvisedState
    from ..problem.feedback import Feedback
    from ..problem.problem import Problem
    from ..problem.streams import Stream


class AdviceFacts(NamedTuple):
    """What the state of a learner with advisers says at the end; arrays with a leading axis of
    seeds."""

    gap: Array
    """Delta_{T-1} + Delta_T."""
    regret: Array
    """Loss beyond that of each adviser, in its rounds, (seed, adviser)."""
    slopes: Array
    """Of the loss at the learner's own decisions, as in `AdvisedState`."""
    correction: Array
    """What the learner's feasibility moves take off its bound on regret."""

    def observed(self, rounds: int) -> ObservedAdvice:
        """Return what bounds need after so many rounds, the worst over the seeds."""
        largest, total, first, excess = self.slopes.T
        learner = Observed(
            float(largest.max()),
            float(total.max()),
            float(first.min()),
            clipped_slopes=float(excess.max()),
            correction=least_sum(self.correction, rounds),
        )
        return ObservedAdvice(float(self.gap.max()), learner)


def advice_facts(state: AdvisedState) -> AdviceFacts:
    """Return the facts of a state, or of states with leading axes."""
    gap = np.asarray(state.gap, float) + np.asarray(state.gap_before, float)
    correction = np.asarray(getattr(state.base, "correction", np.zeros_like(state.gap)))
    return AdviceFacts(
        gap, np.asarray(state.regret, float), np.asarray(state.slopes, float), correction
    )


def least_sum(sums: Array, rounds: int) -> float:
    """Return the smallest of some sums of so many numbers that are not negative, less what rounding
    can have added to it: half a unit of the last place in each addition."""
    room = max(0.0, 1 - rounds * float(np.finfo(sums.dtype).eps))
    return room * float(np.min(sums))


RECORDS = run_file.RECORDS


@dataclass(frozen=True, eq=False, repr=False)
class Run(Displayed):
    """The result of one learner on one problem, for all seeds and rounds, or of all learners of a
    sweep.

    `loss` and `excess` (that of the largest constraint) have dims (seed, round); `decisions` and
    `multipliers`, if recorded, hold rounds every, 2 every, 3 every, ... In a sweep all of them have
    a leading dim `learner`.
    """

    learner: Learner | tuple[Learner, ...]
    horizon: int
    seeds: int
    totals: Totals
    final: Array
    """The decision of the round after the last."""
    loss: Array | None = None
    excess: Array | None = None
    decisions: Array | None = None
    multipliers: Array | None = None
    weights: Array | None = None
    """The weights of learner and advisers, (seed, kept round, expert)."""
    every: int = 1
    version: str = ""
    first: Array | None = None
    """x_1."""
    index: pandas.Index | None = None
    """The index of the rounds, if the stream was a table that has one, for example times."""
    constraint_names: tuple[str, ...] | None = None
    coordinate_names: tuple[str, ...] | None = None
    """Names of constraints and of the entries of a decision, if the problem has them."""
    feedback: Feedback | None = None
    """What the learner saw of a round; `None` for full information."""
    reacts: bool = False
    """Whether the data came from an adversary, which sees the decisions."""
    cuts_hold: Array | None = field(default=None, repr=False, compare=False)
    """For each seed, whether all projections of a half-space learner on its cuts were exact. This
    is not saved; playing the run again tells it."""
    correction: Array | None = field(default=None, repr=False, compare=False)
    """For each seed, what the feasibility moves of a half-space learner take off its bound on
    regret: the sum of m_t^2 / (2 eta_t). This is not saved either."""
    advised: AdviceFacts | None = field(default=None, repr=False, compare=False)
    """What a run with advisers observed. This is not saved either."""
    sample: Sample | None = field(default=None, repr=False, compare=False)
    """Values of the problem at a few decisions, in a run that was loaded from a file. A certificate
    compares them with those of the problem that it is given."""
    problem: Problem | None = field(default=None, repr=False, compare=False)
    """The problem that was scored. Neither this nor the following fields are saved."""
    played: Problem | None = field(default=None, repr=False, compare=False)
    """The problem that was played, which may be a transform of it."""
    stream: Stream | None = field(default=None, repr=False, compare=False)
    key: jax.Array | None = field(default=None, repr=False, compare=False)
    """The random keys of adversary, feedback and learner, one per seed; `None` if nothing was
    drawn."""
    path: Array | None = field(default=None, repr=False, compare=False)
    """All decisions of a short run, (seed, round, *decision), for its certificate. They are not
    saved."""
    played_by: Any = field(default=None, repr=False, compare=False)
    """The learner whose decisions `path` holds, or those of a sweep."""
    advice: Any = field(default=None, repr=False, compare=False)
    """What advisers said in all rounds, an array as a stream or a function; `None` without
    advice. It is not saved."""
    forecast: Any = field(default=None, repr=False, compare=False)
    """Predicted data of all rounds as a stream, or "last"; `None` without forecasts. They are not
    saved."""

    def __post_init__(self) -> None:
        arguments.flag("reacts", self.reacts)

    @property
    def swept(self) -> bool:
        """Whether the run is a sweep over several learners."""
        return isinstance(self.learner, tuple)

    def __getitem__(self, index: int) -> Run:
        """Select one learner of a sweep."""
        if not isinstance(self.learner, tuple):
            raise TypeError(
                "run[i] selects one learner of a sweep, but this run has only one learner."
            )
        picked: dict[str, Any] = {
            name: getattr(self, name)[index]
            for name in (*RECORDS, "final", "cuts_hold", "correction", "path")
            if getattr(self, name) is not None
        }
        if self.advised is not None:
            picked["advised"] = AdviceFacts(*(array[index] for array in self.advised))
        if self.played_by is not None:
            picked["played_by"] = self.played_by[index]
        return replace(self, learner=self.learner[index], totals=self.totals[index], **picked)

    def bare(self) -> Run:
        """Return the run without problem, stream and random keys, as it would be loaded from a
        file.

        A bare run is small and can be pickled, whatever the problem's functions are. It has no
        certificate.
        """
        run = replace(self, problem=None, played=None, stream=None, key=None)
        return replace(run, advice=None, forecast=None, path=None, played_by=None)

    def certificate(self, **options: Any) -> Certificate:
        """Measured regret and violations beside the guarantee, and the assumptions checked; see
        `taut.certify`."""
        from ..judge.certify import certify

        return certify(self, **options)

    def plot(
        self,
        quantity: str | None = None,
        *,
        quantities: Sequence[str] | None = None,
        log: bool | None = None,
        ax: Any = None,
        bound: float | None = None,
        best: Any = None,
        **line: Any,
    ) -> Any:
        """Draw a quantity over the rounds: the mean over the seeds as a line, their range shaded.

        Arguments:
            quantity: "loss", "violation" or "excess" (cumulative), "decision" (if recorded), or
                "regret", the cumulative loss minus that of the best fixed decision of all rounds,
                or "weights" of learner and advisers (if recorded); by default the first three. With
                several constraints, "excess" is the sum of the largest of each round,
                `taut.metrics.largest_excess`.
            quantities: several of these, one panel each.
            log: by default the axis of violations is logarithmic, with a marked zero; True makes
                both axes logarithmic, False none.
            ax: the Matplotlib axes to draw on, as many as there are panels; by default new ones.
            bound: a number to draw as a dashed line, for example a bound of a certificate.
            best: for "regret", what `taut.hindsight(problem, stream)` returned; by default it is
                computed.
            line: options of the line, such as `color` and `label`.

        Returns the axes, or an array of axes for several panels. Without an index the horizontal
        axis counts rounds.
        """
        from ..plots.methods import plot_run

        if quantity is not None and quantities is not None:
            raise ValueError(
                f"quantities: got {quantities!r} beside quantity={quantity!r}; expected one of them"
            )
        if log is not None:
            arguments.flag("log", log)
        several = ("loss", "violation", "excess") if quantities is None else tuple(quantities)
        names = several if quantity is None else (quantity,)
        regret = None
        if "regret" in names and not self.swept:
            from ..judge.regret_curve import cumulative_regret

            regret = cumulative_regret(self, best)
        elif best is not None:
            raise ValueError(
                f"best: got {type(best).__name__} with quantity={quantity!r}; expected "
                'quantity="regret"'
            )
        panels = plot_run(self, names, ax, bound, log, line, regret)
        return np.array(panels, dtype=object) if quantity is None else panels[0]

    def to_dataframe(self, what: str = "rounds") -> pandas.DataFrame:
        """Return a tidy pandas table.

        Arguments:
            what: "rounds": one row per seed and round with the columns loss, excess and violation,
                as far as they were recorded; "decisions", "multipliers" or "weights": one row per
                seed and kept round, one column per entry; "totals": one row per seed and
                constraint.

        With one seed and a stream that had an index, the table has the same index.
        """
        from .frames import run_frame

        return run_frame(self, what)

    def _summary(self) -> Summary:
        learner = (
            f"sweep of {len(self.learner)} learners"
            if isinstance(self.learner, tuple)
            else brief(self.learner)
        )
        recorded = [name for name in RECORDS if getattr(self, name) is not None]
        facts = [
            ("learner", learner),
            *([] if self.feedback is None else [("feedback", repr(self.feedback))]),
        ]
        facts += [("recorded", ", ".join(recorded) or "totals only")]
        if self.index is not None:
            facts.append(("index", f"{self.index[0]} to {self.index[-1]}"))
        totals, rows = self.totals, []
        for name, values in (
            ("loss", totals.loss),
            ("clipped violation", totals.worst_violation),
            ("peak violation", totals.peak.max(axis=-1)),
            ("excess", totals.excess.max(axis=-1)),
            *self._violating(),
        ):
            rows.append(
                (name, number(np.mean(values)), number(np.min(values)), number(np.max(values)))
            )
        grid = Grid(
            ("total of all rounds", "mean", "smallest", "largest"),
            tuple(rows),
            left=("total of all rounds",),
        )
        seeds = "1 seed" if self.seeds == 1 else f"{self.seeds} seeds"
        return Summary(f"Run: {seeds} x {self.horizon} rounds", facts, (grid,))

    def _violating(self) -> list[tuple[str, Array]]:
        """Return the number of violating rounds by seed, if it is known."""
        from .metrics import violating_rounds

        return [] if self.excess is None else [("violating rounds", violating_rounds(self))]

    def to_xarray(self) -> xarray.Dataset:
        """All arrays with labelled dims; `attrs` say what produced them.

        The index of the rounds and the names of constraints and coordinates are coordinates of the
        dataset.
        """
        return labels.add(self, self._to_xarray())

    def _to_xarray(self) -> xarray.Dataset:
        xr = optional("xarray")

        lead = ("learner", "seed") if self.swept else ("seed",)
        axes = tuple(f"axis_{i}" for i in range(self.final.ndim - len(lead)))
        rounds = np.arange(1, self.horizon + 1)
        kept_rounds = rounds[self.every - 1 :: self.every]
        out = xr.Dataset(attrs={"taut": json.dumps(run_file.header(self))})
        for name, dims, coords in (
            ("loss", ("round",), {"round": rounds}),
            ("excess", ("round",), {"round": rounds}),
            ("decisions", ("kept_round", *axes), {"kept_round": kept_rounds}),
            ("multipliers", ("kept_round", "played_constraint"), {"kept_round": kept_rounds}),
            ("weights", ("kept_round", "expert"), {"kept_round": kept_rounds}),
        ):
            value = getattr(self, name)
            if value is not None:
                out[name] = xr.DataArray(value, dims=(*lead, *dims), coords=coords)
        if self.first is not None:
            out["first"] = xr.DataArray(self.first, dims=axes)
        out["final"] = xr.DataArray(self.final, dims=(*lead, *axes))
        for entry in fields(Totals):
            value = getattr(self.totals, entry.name)
            extra = ("constraint",) if value.ndim > len(lead) else ()
            out[f"total_{entry.name}"] = xr.DataArray(value, dims=(*lead, *extra))
        return out

    def save(self, path: str | Path) -> None:
        """Write a netCDF file with a checksum, atomically. `Run.load` restores every bit, and what
        produced it."""
        run = replace(self, sample=sample_of_run(self))
        run_file.write(path, run_file.content(labels.write(run, run._to_xarray())))

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Read a file that `save` wrote. The problem and the stream are not in it.

        Damaged files are refused. Loading a file never runs code from it, nor reads other files
        (see SECURITY.md).
        """
        return cls(**run_file.read(path))

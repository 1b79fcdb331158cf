"""Comparison of several learners on the same problem and stream: one table, one figure, and a
winner only where it is clear."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..display import Displayed, Grid, Summary, counted, latex, spreadsheet
from ..engine import Array
from ..extras import optional
from ..learners import Card, Learner
from ..learners.registry import as_learner
from ..play.simulate import simulate
from ..problem.feasibility import NoFeasibleDecision
from ..problem.feedback import Feedback
from ..problem.problem import Problem
from ..problem.streams import Adversary, as_stream
from ..runs import metrics
from ..runs.run import Run
from ..sweeps import Cell, sweep
from .hindsight import hindsight
from .hindsight.result import NotCertified
from .over_seeds import Interval, clear_winner, difference, wins

if TYPE_CHECKING:
    import pandas

    from .certificate import Certificate


SHARE = 1e-2
"""The tolerance on the mean violation per round, as a share of the size of the constraints."""
BOUGHT = ("mean loss", "regret", "policy regret")
"""Columns in which a learner gains by violating constraints."""
COLUMNS = (
    "mean loss",
    "regret",
    "policy regret",
    "violation",
    "squared violation",
    "peak violation",
    "violating rounds",
    "excess",
    "microseconds per round",
)
"""What a comparison reports per learner. Less is better in every column but "excess", which has no
best value."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Displayed):
    """Several learners on the same problem and data. `runs` and `values` are by label, `values`
    then by column."""

    runs: Mapping[str, Run]
    values: Mapping[str, Mapping[str, Array]]
    """Per label and column, the value of each seed."""
    horizon: int
    seeds: int
    best: Any = None
    """The best fixed decision in hindsight; `None` if there is none."""
    notes: tuple[str, ...] = ()
    tolerance: float = 0.0
    """The mean violation per round up to which a learner can win in loss and regret."""

    def interval(self, label: str, column: str) -> Interval:
        """Return mean and confidence interval of one entry of the table."""
        arguments.one_of("label", label, tuple(self.values))
        arguments.one_of("column", column, tuple(self.values[label]))
        return Interval.of(self.values[label][column])

    def difference(self, label: str, other: str, column: str) -> Interval:
        """Return mean and confidence interval of the difference `other - label`, seed by seed.

        Learners play the same data with each seed, so that the interval of the differences is
        narrower than those of the two means suggest.
        """
        for name in (label, other):
            arguments.one_of("label", name, tuple(self.values))
            arguments.one_of("column", column, tuple(self.values[name]))
        return difference(self.values[label][column], self.values[other][column])

    @property
    def within_tolerance(self) -> tuple[str, ...]:
        """The labels whose mean violation per round is at most `tolerance`."""
        most = self.tolerance * self.horizon
        values = self.values.items()
        return tuple(label for label, of in values if np.mean(of.get("violation", 0.0)) <= most)

    def winner(self, column: str) -> str | None:
        """Return the label with the smallest value if it is clear from the differences of the same
        seeds, else `None`.

        In loss and regret, only learners compete whose violation is within the tolerance: a
        learner that ignores the constraints has the smallest loss.
        """
        measured = {label: of[column] for label, of in self.values.items() if column in of}
        if len(measured) < 2 or column == "excess":
            return None
        able = self._able(column)
        return clear_winner({label: values for label, values in measured.items() if label in able})

    def _able(self, column: str) -> tuple[str, ...]:
        """The labels that can win a column."""
        return self.within_tolerance if column in BOUGHT else tuple(self.values)

    def certificate(self, label: str, **options: Any) -> Certificate:
        """Return the certificate of one learner; the comparator is not computed again."""
        arguments.one_of("label", label, tuple(self.runs))
        return self.runs[label].certificate(**({"best": self.best} | options))

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row per learner, and columns (quantity, "mean" | "low" |
        "high")."""
        pd = optional("pandas")

        rows = {
            label: {
                (name, part): getattr(Interval.of(value), part)
                for name, value in columns.items()
                for part in ("mean", "low", "high")
            }
            for label, columns in self.values.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("learner")

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON-able values."""
        return {
            "horizon": self.horizon,
            "seeds": self.seeds,
            "notes": list(self.notes),
            "tolerance": self.tolerance,
            "within_tolerance": list(self.within_tolerance),
            "learners": {
                label: {
                    "learner": repr(self.runs[label].learner),
                    **{name: _plain(Interval.of(value)) for name, value in columns.items()},
                }
                for label, columns in self.values.items()
            },
            "winners": {
                name: self.winner(name)
                for name in COLUMNS
                if name != "policy regret" or name in self._columns()
            },
        }

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """Write the table as CSV, or return it as text."""
        flat = self.to_pandas()
        flat.columns = [f"{name} ({part})" for name, part in flat.columns]
        flat.index = flat.index.map(spreadsheet)
        text: str | None = flat.to_csv(None if path is None else Path(path))
        return text

    def to_latex(self) -> str:
        """Return the table for a paper: mean and half-width of the interval, the winner of a column
        in bold."""
        names = self._columns()
        lines = [r"\begin{tabular}{l" + "r" * len(names) + "}", r"\hline"]
        lines.append(" & ".join(["learner", *(latex(name) for name in names)]) + r" \\ \hline")
        for label in self.values:
            cells = [self._tex_cell(label, name) for name in names]
            lines.append(" & ".join([latex(label), *cells]) + r" \\")
        below = " ".join(latex(line) for line in self._below())
        end = [r"\hline", r"\end{tabular}", r"\par\smallskip", rf"{{\footnotesize {below}}}", ""]
        return "\n".join([*lines, *end])

    def plot(
        self,
        quantities: str | Sequence[str] | None = None,
        *,
        log: bool | None = None,
        ax: Any = None,
        certificates: bool = False,
    ) -> Any:
        """Draw regret, clipped violation and excess over the rounds, with bands over the seeds and
        bounds dashed. A bound that is far above all curves is named at the edge instead.

        Without a comparator the first panel shows the loss; for a problem with `previous=True` it
        shows policy regret, and bounds are drawn only with `certificates=True`. With several
        constraints the last panel shows the largest excess of each round, summed, which is
        `taut.metrics.largest_excess` and not the excess of the table. Bounds hold at the last
        round, if the constants of the problem are right.

        Arguments:
            quantities: some of "loss", "regret", "violation" and "excess", one panel each.
            log: by default the axis of violations is logarithmic, with a marked zero; True makes
                all axes logarithmic, False none.
            ax: as many Matplotlib axes to draw on as there are panels; by default new ones.
            certificates: whether to check the bounds first, with one certificate per learner.
                Bounds whose assumptions are refuted are then left out, and bounds from observed
                gradients are added.

        Returns an array of axes.
        """
        from ..plots.of_judgement import plot_comparison

        arguments.flag("certificates", certificates)
        if log is not None:
            arguments.flag("log", log)
        return plot_comparison(self, quantities, log, ax, certificates)

    def _summary(self) -> Summary:
        title = (
            f"{counted(len(self.runs), 'learner')} on {counted(self.seeds, 'seed')} x "
            f"{counted(self.horizon, 'round')} (mean, 95 % interval; * marks a clear winner)"
        )
        names = self._columns()
        won = {name: self.winner(name) for name in names}
        rows = tuple(
            (label, *(self._cell(label, name) + " *" * (won[name] == label) for name in names))
            for label in self.values
        )
        grid = Grid(("learner", *names), rows, left=("learner",))
        return Summary(title, (), (grid,), (*self._below(), *self.notes))

    def _below(self) -> list[str]:
        """Return what is said under the table: who can win, and how clear each winner is."""
        lines = []
        if any(name in BOUGHT for name in self._columns()):
            labels = ", ".join(self.within_tolerance) or "none of these learners"
            lines.append(
                "Only learners that violate by at most "
                f"{self.tolerance:.3g} per round on average can win in loss and regret: {labels}."
            )
        won = [
            f"{name}: {label} {self._how(label, name)}."
            for name in self._columns()
            if (label := self.winner(name)) is not None
        ]
        return [*lines, *won] if won else [*lines, "No learner is clearly best in any column."]

    def _how(self, label: str, column: str) -> str:
        """Return how clearly a learner wins a column."""
        able = self._able(column)
        others = [name for name in able if name != label and column in self.values[name]]
        if not others:
            return "is the only one that can win"
        closest = min(others, key=lambda name: self.difference(label, name, column).low)
        won, count = wins(self.values[label][column], self.values[closest][column])
        apart = self.difference(label, closest, column)
        return f"is smaller than {closest} in {won} of {counted(count, 'seed')}, by {apart}"

    def __repr__(self) -> str:
        return (
            f"<Comparison of {', '.join(self.runs)}: {counted(self.seeds, 'seed')} x "
            f"{counted(self.horizon, 'round')}>"
        )

    def _columns(self) -> list[str]:
        return [
            name for name in COLUMNS if any(name in columns for columns in self.values.values())
        ]

    def _cell(self, label: str, name: str) -> str:
        return str(self.interval(label, name)) if name in self.values[label] else ""

    def _tex_cell(self, label: str, name: str) -> str:
        """An entry with numbers as LaTeX writes them: 8.2e-06 becomes 8.2 \\cdot 10^{-6}."""
        text = self._cell(label, name).replace("±", r"\pm")
        text = re.sub(r"e([+-]\d+)", lambda match: rf" \cdot 10^{{{int(match[1])}}}", text)
        if self.winner(name) == label:
            text = rf"\mathbf{{{text}}}"
        return f"${text}$" if text else ""


def compare(
    learners: Mapping[str, Learner | Card | str] | Sequence[str],
    problem: Problem,
    stream: Any,
    *,
    horizon: int | None = None,
    seeds: int | None = None,
    score: Problem | None = None,
    feedback: Feedback | None = None,
    unproven: bool = False,
    best: Any = None,
    tolerance: float | None = None,
    timing: bool = True,
    executor: Any = 1,
    progress: bool = False,
) -> Comparison:
    """Play several learners on the same problem and data, and compare regret, all violations and
    time per round.

    Arguments:
        learners: label -> learner, card or name of a registered method; or a list of names. Names
            are tuned to the problem and to the number of rounds.
        problem: the problem; `stream`, `horizon`, `seeds`, `score`, `feedback` and `unproven` as in
            `taut.simulate`.
        best: the best fixed decision in hindsight, if it is known; otherwise it is computed. For a
            problem with `previous=True` the regret against it is policy regret.
        tolerance: the mean violation per round up to which a learner can win in loss and regret; by
            default 1 % of the size of the constraints, which is the smallest over the
            learners of the largest |max_i g_i(x_t)|.
        timing: whether to play every learner a second time, when its program is compiled, to
            measure the time per round.
        executor: where learners are played, as in `taut.sweep`; by default one at a time, so that
            they do not disturb each other's timing.
        progress: show a progress bar.

    >>> import numpy as np, taut
    >>> game = taut.testing.PROBLEMS[0].problem
    >>> costs = np.random.default_rng(0).uniform(size=(4, 200, 2)) / 2**0.5
    >>> found = taut.compare(["clipped-ogd", "ogd-clipped"], game, costs, seeds=4, timing=False)
    >>> found.winner("violation")
    'clipped-ogd'
    """
    chosen = _labelled(learners)
    arguments.instance(
        "problem",
        problem,
        Problem,
        "taut.Problem(...). The order is compare(learners, problem, stream)",
    )
    for name, value in (("unproven", unproven), ("timing", timing), ("progress", progress)):
        arguments.flag(name, value)
    source = as_stream(problem.arrange(stream), horizon=horizon, seeds=seeds)
    made = {label: as_learner(value, problem, source.horizon) for label, value in chosen.items()}
    for label, learner in made.items():
        if not isinstance(learner, Learner):
            raise TypeError(
                f"learners: got {arguments.shown(learner)} for {label!r}; expected a learner, a "
                "card or the name of a method"
            )
    seen: dict[str, Any] = {"feedback": feedback, "unproven": unproven}
    how = {"score": score, "record": ("loss", "excess"), **seen}
    cells = [Cell(learner, problem, source, **how) for learner in made.values()]
    played = sweep(cells, executor, progress=progress).check()
    runs = {label: played[name] for label, name in zip(made, played, strict=True)}
    notes: list[str] = []
    if best is None and not isinstance(source, Adversary):
        try:
            best = hindsight(score or problem, source)
        except NoFeasibleDecision as error:
            notes.append(f"Regret is missing because there is no comparator: {error}")
        except NotCertified as error:
            notes.append(f"Regret is missing because no decision was proven to be best: {error}")
    if best is None and not notes:
        notes.append(
            "Regret is missing because an adversary reveals other data to each learner: compare "
            "losses."
        )
    values = {
        label: {
            "mean loss": metrics.loss(run) / run.horizon,
            **metrics.measured(run, best),
            "violating rounds": metrics.violating_rounds(run),
        }
        for label, run in runs.items()
    }
    for label, run in runs.items() if timing else ():
        start = time.perf_counter()
        simulate(run.learner, problem, source, score=score, **seen)
        each = (time.perf_counter() - start) / run.horizon / run.seeds
        values[label]["microseconds per round"] = np.array([each * 1e6])
    if tolerance is None:
        # A learner that strays far does not enlarge the tolerance for the others.
        sizes = (np.max(np.abs(run.excess)) for run in runs.values() if run.excess is not None)
        tolerance = SHARE * float(min(sizes, default=0.0))
    allowed = arguments.non_negative("tolerance", tolerance)
    return Comparison(runs, values, source.horizon, source.seeds, best, tuple(notes), allowed)


def _labelled(learners: Any) -> dict[str, Any]:
    if isinstance(learners, Mapping):
        labelled = dict(learners)
    elif isinstance(learners, Iterable) and not isinstance(learners, str):
        labelled = {
            learner
            if isinstance(learner, str)
            else getattr(learner, "name", None) or arguments.shown(learner): learner
            for learner in learners
        }
    else:
        raise TypeError(
            f"learners: got {learners!r}; expected label -> learner, or a list of names of methods"
        )
    if not labelled:
        raise ValueError("learners: got none; expected at least one learner")
    return labelled


def _plain(interval: Interval) -> dict[str, float | None]:
    known = {"mean": interval.mean, "low": interval.low, "high": interval.high}
    return {name: None if np.isnan(value) else value for name, value in known.items()}

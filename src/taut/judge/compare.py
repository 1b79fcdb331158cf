"""Comparison of several learners on the same problem and stream: one table, one figure, and a
winner only where it is clear."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..display import latex, spreadsheet
from ..engine import Array
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
from .hindsight.not_certified import NotCertified

if TYPE_CHECKING:
    import pandas
    from rich.table import Table

    from .certificate import Certificate

__all__ = ["Comparison", "Interval", "compare"]


SAME = 1e-12
"""Relative half-width up to which an interval is rounding: all seeds have the same value."""
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


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95 % confidence interval (Student's t); with one seed the interval
    is unknown."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Array) -> Interval:
        """Return the interval of the values of independent seeds."""
        values = np.asarray(values, float).ravel()
        mean = float(np.mean(values))
        if len(values) < 2:
            return cls(mean, np.nan, np.nan)
        from scipy import stats

        half = float(
            stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
        )
        return cls(mean, mean - half, mean + half)

    def __str__(self) -> str:
        if np.isnan(self.low):
            return f"{self.mean:.4g}"
        half = self.high - self.mean
        if half <= SAME * abs(self.mean):
            half = 0.0
        if half >= 1e-5 and abs(self.mean) < 1e6:  # as many decimals as the interval has
            decimals = max(0, 1 - math.floor(math.log10(half)))
            return f"{self.mean:.{decimals}f} ± {half:.{decimals}f}"
        return f"{self.mean:.4g} ± {half:.2g}"


@dataclass(frozen=True, eq=False)
class Comparison:
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

    def interval(self, label: str, column: str) -> Interval:
        """Return mean and confidence interval of one entry of the table."""
        arguments.one_of("label", label, tuple(self.values))
        arguments.one_of("column", column, tuple(self.values[label]))
        return Interval.of(self.values[label][column])

    def winner(self, column: str) -> str | None:
        """Return the label with the smallest value if its confidence interval lies below all
        others, else `None`."""
        found = {
            label: self.interval(label, column)
            for label, columns in self.values.items()
            if column in columns
        }
        if len(found) < 2 or column == "excess":
            return None
        first = min(found, key=lambda label: found[label].mean)
        others = [one for label, one in found.items() if label != first]
        if any(np.isnan(one.low) for one in found.values()):
            return None  # one seed says nothing about chance
        return first if all(found[first].high < one.low for one in others) else None

    def certificate(self, label: str, **options: Any) -> Certificate:
        """Return the certificate of one learner; the comparator is not computed again."""
        arguments.one_of("label", label, tuple(self.runs))
        return self.runs[label].certificate(**({"best": self.best} | options))

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row per learner, and columns (quantity, "mean" | "low" |
        "high")."""
        import pandas as pd

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
        return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])

    def table(self) -> Table:
        """Return the table that printing shows; a star marks the winner of a column."""
        from rich.markup import escape
        from rich.table import Table

        title = (
            f"{len(self.runs)} learners on {self.seeds} seed(s) x {self.horizon} rounds (mean, 95 "
            "% interval)"
        )
        table = Table(title=title, title_justify="left")
        table.add_column("learner", overflow="fold")
        names = self._columns()
        for name in names:
            table.add_column("\n".join(name.split(" ", 1)), justify="right", no_wrap=True)
        for label in self.values:
            table.add_row(
                escape(label),
                *(
                    f"{self._cell(label, name)}{' *' if self.winner(name) == label else ''}"
                    for name in names
                ),
            )
        return table

    def plot(self, *, ax: Any = None, certificates: bool = False) -> Any:
        """Draw regret, clipped and signed violation over the rounds, with bands over the seeds and
        bounds dashed.

        Without a comparator the first panel shows the loss. Bounds hold at the last round, if the
        constants of the problem are right.

        Arguments:
            ax: three Matplotlib axes to draw on; by default new ones.
            certificates: whether to check the bounds first, with one certificate per learner.
                Bounds whose assumptions are refuted are then left out, and bounds from observed
                gradients are added.

        Returns an array of three axes.
        """
        from ..plots.of_judgement import plot_comparison

        arguments.flag("certificates", certificates)
        return plot_comparison(self, ax, certificates)

    def __rich_console__(self, console: Any, options: Any) -> Any:
        yield self.table()
        clear = {
            name: self.winner(name) for name in self._columns() if self.winner(name) is not None
        }
        yield (
            "* The confidence interval lies below those of all other learners."
            if clear
            else "No learner is clearly best in any column: the confidence intervals overlap, or "
            "there is one seed."
        )
        yield from self.notes

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=140, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    def __repr__(self) -> str:
        return (
            f"<Comparison of {', '.join(self.runs)}: {self.seeds} seed(s) x {self.horizon} rounds>"
        )

    def _repr_html_(self) -> str:
        names = self._columns()
        head = "".join(f"<th>{name}</th>" for name in ("learner", *names))
        body = ""
        for label in self.values:
            cells = (
                f"<b>{self._cell(label, name)}</b>"
                if self.winner(name) == label
                else self._cell(label, name)
                for name in names
            )
            body += (
                f"<tr><th>{_html(label)}</th>"
                + "".join(f"<td>{cell}</td>" for cell in cells)
                + "</tr>"
            )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _columns(self) -> list[str]:
        return [
            name for name in COLUMNS if any(name in columns for columns in self.values.values())
        ]

    def _cell(self, label: str, name: str) -> str:
        return str(self.interval(label, name)) if name in self.values[label] else ""

    def _tex_cell(self, label: str, name: str) -> str:
        if name not in self.values[label]:
            return ""
        text = _tex_numbers(str(self.interval(label, name)))
        return rf"$\mathbf{{{text}}}$" if self.winner(name) == label else f"${text}$"


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
    timing: bool = True,
    threads: int | None = None,
    executor: Any = None,
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
        timing: whether to play every learner a second time, when its program is compiled, to
            measure the time per round.
        threads: how many learners are played at a time; by default one, so that they do not disturb
            each other's timing.
        executor: where learners are played if not in threads: processes or a cluster, as in
            `taut.sweep`.
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
    problem = problem.for_data(stream)
    source = as_stream(problem.arrange(stream), horizon=horizon, seeds=seeds)
    made = {label: as_learner(value, problem, source.horizon) for label, value in chosen.items()}
    for label, learner in made.items():
        if not isinstance(learner, Learner):
            raise TypeError(
                f"learners: got {arguments.shown(learner)} for {label!r}; expected a learner, a "
                "card or the name of a method"
            )
    seen: dict[str, Any] = {"feedback": feedback, "unproven": unproven}
    record = ("loss", "excess")
    cells = [
        Cell(learner, problem, source, score=score, record=record, **seen)
        for learner in made.values()
    ]
    where = (
        executor
        if executor is not None
        else 1
        if threads is None
        else arguments.count("threads", threads)
    )
    played = sweep(cells, where, progress=progress).check()
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
    values: dict[str, dict[str, Array]] = {}
    for label, run in runs.items():
        values[label] = {
            "mean loss": metrics.loss(run) / run.horizon,
            **metrics.measured(run, best),
            "violating rounds": metrics.violating_rounds(run),
        }
    if timing:
        for label, run in runs.items():
            again = partial(simulate, run.learner, problem, source, score=score, **seen)
            values[label]["microseconds per round"] = np.array(
                [_seconds(again) / run.horizon / run.seeds * 1e6]
            )
    return Comparison(runs, values, source.horizon, source.seeds, best, tuple(notes))


def _labelled(learners: Any) -> dict[str, Any]:
    if isinstance(learners, Mapping):
        found = dict(learners)
    elif isinstance(learners, Iterable) and not isinstance(learners, str):
        found = {
            one if isinstance(one, str) else getattr(one, "name", None) or arguments.shown(one): one
            for one in learners
        }
    else:
        raise TypeError(
            f"learners: got {learners!r}; expected label -> learner, or a list of names of methods"
        )
    if not found:
        raise ValueError("learners: got none; expected at least one learner")
    return found


def _seconds(job: Callable[[], Run]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def _plain(interval: Interval) -> dict[str, float | None]:
    known = {"mean": interval.mean, "low": interval.low, "high": interval.high}
    return {name: None if np.isnan(value) else value for name, value in known.items()}


def _tex_numbers(text: str) -> str:
    """Return numbers as LaTeX writes them: 8.2e-06 becomes 8.2 \\cdot 10^{-6}."""
    return re.sub(r"e([+-]\d+)", lambda found: rf" \cdot 10^{{{int(found[1])}}}", text).replace(
        "±", r"\pm"
    )


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")

"""Certificate: measured value, bound, and the assumptions checked, in one table, for any run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..learners import QUANTITIES, Guarantee
from ..play import metrics
from ..play.chunks import revealed_data
from ..play.run import Run
from ..problem.problem import Problem
from ..problem.streams import Adversary, Stream, as_stream
from . import assumptions as _assumptions
from .assumptions import GIVEN, Assumption
from .guarantees import setting_of, standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

    from .hindsight import Hindsight

__all__ = ["Certificate", "Line", "certify"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Line:
    """One quantity: measured over the seeds, and what theory promises."""

    quantity: str
    mean: float | None
    worst: float | None
    guarantee: Guarantee | None
    void: tuple[str, ...] = ()
    """Refuted assumptions on which the guarantee rests."""
    reasons: tuple[str, ...] = ()
    """Why no theorem gives a bound, for a quantity without any."""

    @property
    def bound(self) -> float | None:
        """The guarantee's number; `None` if there is no guarantee, or none that its assumptions support."""
        return None if self.guarantee is None or self.void else self.guarantee.bound

    @property
    def ratio(self) -> float | None:
        """Worst measured value over the bound."""
        if self.bound is None or self.worst is None:
            return None
        if self.bound == 0:
            return 0.0 if self.worst <= 1e-9 else np.inf
        return self.worst / self.bound

    @property
    def holds(self) -> bool | None:
        """Whether every seed is within the bound."""
        return None if self.ratio is None else self.ratio <= 1 + 1e-9


@dataclass(frozen=True)
class Certificate:
    """What was measured, what was promised, and on what conditions."""

    learner: str
    horizon: int
    seeds: int
    lines: tuple[Line, ...]
    assumptions: tuple[Assumption, ...]
    best: Hindsight | None
    notes: tuple[str, ...] = ()

    @property
    def refuted(self) -> tuple[Assumption, ...]:
        """The assumptions that a witness speaks against."""
        return tuple(one for one in self.assumptions if one.refuted)

    @property
    def holds(self) -> bool:
        """Whether no bound that stands is exceeded."""
        return all(line.holds is not False for line in self.lines)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-able values."""
        return {
            "learner": self.learner,
            "horizon": self.horizon,
            "seeds": self.seeds,
            "holds": self.holds,
            "lines": [
                {
                    "quantity": line.quantity, "mean": line.mean, "worst": line.worst, "bound": line.bound,
                    "ratio": None if line.ratio is None or np.isinf(line.ratio) else line.ratio, "holds": line.holds,
                    "source": line.guarantee.source if line.guarantee else None, "void": list(line.void),
                }
                for line in self.lines
            ],
            "assumptions": [
                {
                    "name": one.name, "status": one.status, "detail": one.detail,
                    "witness": jax.tree.map(lambda a: np.asarray(a).tolist(), one.witness),
                }
                for one in self.assumptions
            ],
            "hindsight": self.best and {"solver": self.best.solver, "gap": float(np.max(self.best.gap))},
            "notes": list(self.notes),
        }  # fmt: skip

    def plot(self, *, ax: Any = None) -> Axes:
        """Draw the largest measured value of each quantity as a share of its bound, on `ax` or on new Matplotlib axes."""
        from .plot import plot_certificate

        return plot_certificate(self, ax)

    def tables(self) -> list[Table]:
        """The two tables that printing shows."""
        from rich.table import Table

        values = Table(title=f"{self.learner}: {self.seeds} seed(s) x {self.horizon} rounds", title_justify="left")
        for name in ("quantity", "measured (mean)", "measured (worst)", "bound", "worst / bound", "by"):
            values.add_column(name, justify="left" if name in ("quantity", "by") else "right")
        for line in self.lines:
            source = line.guarantee.source if line.guarantee else "; ".join(("no bound", *line.reasons[:1]))
            if line.void:
                source = f"void: {', '.join(line.void)} refuted"
            ratio = "" if line.ratio is None else f"{line.ratio:.3g}" + ("" if line.holds else "  EXCEEDED")
            values.add_row(line.quantity, _number(line.mean), _number(line.worst), _number(line.bound), ratio, source)
        checks = Table(title="assumptions", title_justify="left")
        for name in ("assumption", "status", "detail"):
            checks.add_column(name)
        for one in self.assumptions:
            style = "bold red" if one.refuted else None
            checks.add_row(
                one.name.replace("_", " "), one.status.upper() if one.refuted else one.status, one.detail, style=style
            )
        return [values, checks]

    def __rich_console__(self, console: Any, options: Any) -> Any:
        yield from self.tables()
        for one in self.refuted:
            yield f"refuted: {one.name.replace('_', ' ')}: {one.detail}; witness {json.dumps(_plain(one.witness))}"
        yield from self.notes

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=120, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return capture.get()


def certify(
    run: Run,
    *,
    problem: Problem | None = None,
    stream: Any = None,
    seeds: int | None = None,
    best: Any = None,
    data: Any = None,
    check: bool = True,
    key: jax.Array | None = None,
) -> Certificate:
    """Measured regret and violations of a run beside what theory promises for it, and the assumptions checked.

    Arguments:
        run: of one learner (pick one of a sweep with `run[i]`).
        problem: the game that was played; needed only for a run that was loaded from a file.
        stream: its data, in the same case; `seeds` as in `taut.simulate`.
        best: the best fixed decision in hindsight, if it was computed before.
        data: what an adversary revealed, if it is not to be replayed; arrays (seed, round, ...).
        check: whether to probe the assumptions.
        key: random key for the probes.
    """
    learner = run.learner
    if isinstance(learner, tuple):
        raise TypeError("run: got a sweep of learners; expected one run: pick it with run[i]")
    problem = problem or run.played or run.problem
    if problem is None:
        raise ValueError("problem: got None; expected the game that was played, which a saved run does not hold")
    source = _source(run, problem, stream, seeds, data)
    key = jax.random.key(0) if key is None else key
    notes = []
    if best is None and source is not None:
        from .hindsight import hindsight

        best = hindsight(problem, source, horizon=run.horizon)
    if best is None:
        notes.append("regret: unknown, because the data are not at hand; expected stream=... or data=...")
    measured = _measured(run, best)
    checks: tuple[Assumption, ...] = ()
    if check and source is not None:
        checks = _assumptions.check(problem, source, _played(run), key)
    promised = tuple(learner.guarantees(setting_of(problem, run.first), run.horizon))
    chosen = standing(promised, {one.name for one in checks if one.refuted})
    lines = []
    for quantity in QUANTITIES:
        values, stands = measured.get(quantity), chosen[quantity]
        mean, worst = (None, None) if values is None else (float(np.mean(values)), float(np.max(values)))
        lines.append(Line(quantity, mean, worst, stands.guarantee, stands.refuted, stands.reasons))
    named = {one.name for one in checks}
    rests = {name for stands in chosen.values() if stands.guarantee for name in stands.guarantee.assumptions}
    checks += tuple(Assumption(name, GIVEN, "not checked") for name in sorted(rests - named))
    return Certificate(repr(learner), run.horizon, run.seeds, tuple(lines), checks, best, tuple(notes))


def _measured(run: Run, best: Any) -> dict[str, Array]:
    found = {
        "violation": metrics.violation(run),
        "squared violation": metrics.squared_violation(run, per_constraint=True).sum(axis=-1),
        "peak violation": metrics.peak_violation(run),
        "excess": metrics.excess(run, per_constraint=True).max(axis=-1),
    }
    if best is not None:
        found["regret"] = metrics.regret(run, best)
    return found


def _source(run: Run, problem: Problem, stream: Any, seeds: int | None, data: Any) -> Stream | None:
    if stream is not None and data is None:
        return as_stream(problem.arrange(stream), horizon=run.horizon, seeds=seeds)
    if data is None and isinstance(run.stream, Adversary):
        data = revealed_data(run)
    # What an adversary revealed can be held to what a model says of its parameters only now.
    return run.stream if data is None else as_stream(problem.arrange(data), seeds=run.seeds)


def _played(run: Run, most: int = 64) -> Array:
    """Decisions of the run to probe at: those recorded, thinned out, and the last."""
    shape = run.final.shape[1:]
    kept = [run.final.reshape(-1, *shape)]
    if run.decisions is not None:
        flat = run.decisions.reshape(-1, *shape)
        kept.append(flat[:: max(1, len(flat) // most)])
    return np.concatenate(kept)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _plain(witness: Any) -> Any:
    return jax.tree.map(lambda a: np.round(np.asarray(a, float), 6).tolist(), witness)

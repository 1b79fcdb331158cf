"""The figures behind `run.plot()` and `player.plot()`. Both return Matplotlib axes and draw on
given ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..engine import Array
from ..runs.frames import coordinates
from .style import BOUND, FAMILIES, axes_for, curve, styled

if TYPE_CHECKING:
    from ..player.history import History
    from ..runs.run import Run

__all__ = ["plot_player", "plot_run"]

POINTS = 400
"""Points of a curve; more would not be seen."""
LINES = 10
"""Entries of a decision, or constraints, that are drawn at most."""
RUN = ("loss", "violation", "excess")
LABELS = {
    "loss": "cumulative loss",
    "violation": "cumulative clipped violation",
    "excess": "cumulative excess",
    "largest excess": "cumulative largest excess of each round",
    "decision": "decision",
    "regret": "regret",
    "policy regret": "policy regret",
    "weights": "weight in the mixture",
}


@styled
def plot_run(
    run: Run,
    quantity: str | None,
    ax: Any,
    bound: float | None,
    line: dict[str, Any],
    regret: Array | None = None,
) -> Any:
    """Draw what `Run.plot` describes; `regret` after each round, with dims (seed, round), is needed
    only for "regret"."""
    if run.swept:
        raise TypeError(
            "run: got a sweep of learners; expected one run. Select one with run[i], or use "
            "taut.compare"
        )
    if quantity is None:
        panels = axes_for(ax, len(RUN))
        for axes, name in zip(panels, RUN, strict=True):
            _draw(run, name, axes, None, line, None)
        return np.array(panels, dtype=object)
    arguments.one_of("quantity", quantity, (*RUN, "decision", "regret", "weights"))
    (axes,) = axes_for(ax)
    _draw(run, quantity, axes, bound, line, regret)
    return axes


def _draw(
    run: Run,
    quantity: str,
    axes: Any,
    bound: float | None,
    line: dict[str, Any],
    regret: Array | None,
) -> None:
    if quantity in ("decision", "weights"):
        _entries(run, quantity, axes, line)
    else:
        kept = np.unique(np.linspace(1, run.horizon, min(POINTS, run.horizon)).astype(int))
        if regret is not None:
            values = regret
        else:
            values = _recorded(run, "loss" if quantity == "loss" else "excess")
            values = np.cumsum(
                np.maximum(values, 0) if quantity == "violation" else values, axis=-1
            )
        options = {"color": FAMILIES["clipped"], "label": type(run.learner).__name__} | line
        curve(axes, _axis(run)[kept - 1], values[:, kept - 1], **options)
    if bound is not None:
        axes.axhline(
            arguments.real("bound", bound),
            color="#222222",
            linestyle=BOUND,
            linewidth=1.2,
            label="bound",
        )
    axes.set(xlabel=_axis_label(run), ylabel=LABELS[_drawn(run, quantity)])
    _turn_dates(axes, run)


def _drawn(run: Run, quantity: str) -> str:
    """Return what is drawn: of several constraints, a run records the largest of each round."""
    several = run.totals.excess.shape[-1] > 1
    if quantity == "regret" and run.problem is not None and run.problem.previous:
        return "policy regret"
    return "largest excess" if quantity == "excess" and several else quantity


def _entries(run: Run, quantity: str, axes: Any, line: dict[str, Any]) -> None:
    record = "decisions" if quantity == "decision" else quantity
    values: Array | None = getattr(run, record)
    if values is None:
        raise ValueError(
            f'quantity: got "{quantity}" of a run that did not record {record}; expected '
            f'simulate(..., record=("loss", "excess", "{record}"))'
        )
    flat = values.reshape(*values.shape[:2], -1)
    if quantity == "weights":
        names = ["learner", *(f"adviser {k}" for k in range(1, flat.shape[-1]))]
    else:
        names = coordinates(run, run.coordinate_names, values.shape[2:], "x")
    colours = list(FAMILIES.values())
    for i, name in enumerate(names[:LINES]):
        options = {"color": colours[i % len(colours)], "label": name} | line
        curve(axes, _axis(run)[run.every - 1 :: run.every], flat[:, :, i], **options)
    _entries_legend(axes, len(names))


def _recorded(run: Run, name: str) -> Array:
    value: Array | None = getattr(run, name)
    if value is None:
        raise ValueError(
            f'run: got a run without "{name}"; expected simulate(..., record=("loss", "excess"))'
        )
    return value


def _axis(run: Run) -> Array:
    """Return the times of the rounds, or other numbers of the index, or the numbers of the
    rounds."""
    index = run.index
    if index is not None and getattr(index.dtype, "kind", "O") in "iufM":
        naive = index.tz_localize(None) if getattr(index, "tz", None) is not None else index
        return np.asarray(naive.to_numpy())
    return np.arange(1, run.horizon + 1)


def _axis_label(run: Run) -> str:
    named = run.index is not None and getattr(run.index.dtype, "kind", "O") in "iufM"
    return str(run.index.name or "time") if run.index is not None and named else "round"


def _turn_dates(axes: Any, run: Run) -> None:
    if run.index is not None and getattr(run.index.dtype, "kind", "O") == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=5)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        dates = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(dates)


PLAYER = ("loss", "excess", "decision")


@styled
def plot_player(
    history: History,
    quantity: str | None,
    ax: Any,
    names: dict[str, list[str]],
    weights: dict[int, Array] | None = None,
) -> Any:
    """Draw what `Player.plot` describes."""
    if quantity == "weights" and weights is not None:
        return _player_weights(weights, axes_for(ax)[0])
    wanted = PLAYER if quantity is None else (arguments.one_of("quantity", quantity, PLAYER),)
    panels = axes_for(ax, len(wanted))
    rounds, series = (
        history.rounds,
        {"loss": history.loss, "excess": history.excess, "decision": history.decision},
    )
    colours = list(FAMILIES.values())
    for axes, name in zip(panels, wanted, strict=True):
        values = series[name]
        if values.ndim == 1:
            axes.plot(rounds, values, color=FAMILIES["clipped"])
        else:
            for i, label in enumerate(names[name][:LINES]):
                axes.plot(rounds, values[:, i], color=colours[i % len(colours)], label=label)
            _entries_legend(axes, values.shape[1])
        if name == "excess":
            axes.axhline(0, color="#222222", linestyle=BOUND, linewidth=1.0)
        axes.set(xlabel="round", ylabel="constraint values g(x)" if name == "excess" else name)
    return panels[0] if quantity is not None else np.array(panels, dtype=object)


def _player_weights(weights: dict[int, Array], axes: Any) -> Any:
    values, colours = np.stack(list(weights.values())), list(FAMILIES.values())
    for i, label in enumerate(["learner", *(f"adviser {k}" for k in range(1, values.shape[1]))]):
        axes.plot(list(weights), values[:, i], color=colours[i % len(colours)], label=label)
    _entries_legend(axes, values.shape[1])
    axes.set(xlabel="round", ylabel=LABELS["weights"])
    return axes


def _entries_legend(axes: Any, count: int) -> None:
    if count > 1:
        axes.legend(title=None if count <= LINES else f"first {LINES} of {count}", fontsize=7)

"""The figures behind `run.plot()` and `player.plot()`. Both return Matplotlib axes and draw on
given ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..engine import Array
from ..runs.frames import coordinates
from .curves import CUMULATIVE, Curves, axis_label, looks, name_of, rounds_of, turn_dates
from .style import BOUND, ENTRIES, INK, axes_for, curve, legend_inside, styled

if TYPE_CHECKING:
    from ..player.memory import History
    from ..runs.run import Run


LINES = 10
"""Entries of a decision, or constraints, that are drawn at most."""
LABELS = {"excess": "constraint values g(x)", "weights": "weight in the mixture"}


@styled
def plot_run(
    run: Run,
    quantities: Sequence[str],
    ax: Any,
    bound: float | None,
    log: bool | None,
    line: dict[str, Any],
    regret: Array | None = None,
) -> list[Any]:
    """Draw what `Run.plot` describes, one panel per quantity; `regret` after each round, with dims
    (seed, round), is needed only for "regret"."""
    if run.swept:
        raise TypeError(
            "run: got a sweep of learners; expected one run. Select one with run[i], or use "
            "taut.compare"
        )
    for name in quantities:
        arguments.one_of("quantity", name, (*CUMULATIVE, "decision", "weights"))
    if bound is not None:
        bound = arguments.real("bound", bound)
    panels = axes_for(ax, len(quantities))
    named = {name_of(run): run}
    regrets = None if regret is None else {name_of(run): regret}
    shown = Curves(named, regrets, log=log)
    (look,) = looks(named)
    look = {"color": look["color"], "label": look["label"]}  # a line alone needs no marker
    for axes, name in zip(panels, quantities, strict=True):
        if name in ("decision", "weights"):
            _entries(run, name, axes, line)
        else:
            shown.draw(axes, name, [look | line], bound)
            if len(quantities) > 1:
                axes.set_title(shown.title(name))
            legend_inside(axes)
    return list(panels)


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
        names = _experts(flat.shape[-1])
    else:
        names = coordinates(run.coordinate_names, values.shape[2:], "x")
    x, dates = rounds_of(run)
    for i, name in enumerate(names[:LINES]):
        options = {"color": ENTRIES[i % len(ENTRIES)], "label": name} | line
        curve(axes, x[run.every - 1 :: run.every], flat[:, :, i], **options)
    _entries_legend(axes, len(names))
    axes.set(xlabel=axis_label(run), ylabel=LABELS.get(quantity, quantity))
    turn_dates(axes, dates)


PLAYER = ("loss", "excess", "decision")


@styled
def plot_player(
    history: History,
    quantity: str | None,
    ax: Any,
    weights: dict[int, Array] | None = None,
) -> Any:
    """Draw what `Player.plot` describes."""
    names = history.names
    series = {"loss": history.loss, "excess": history.excess, "decision": history.decision}
    if quantity == "weights" and weights is not None:
        wanted: tuple[str, ...] = ("weights",)
        series["weights"] = np.stack(list(weights.values()))
        names = {"weights": _experts(series["weights"].shape[1])}
    else:
        wanted = PLAYER if quantity is None else (arguments.one_of("quantity", quantity, PLAYER),)
    panels = axes_for(ax, len(wanted))
    for axes, name in zip(panels, wanted, strict=True):
        values = series[name]
        rounds = list(weights) if weights is not None and name == "weights" else history.rounds
        if values.ndim == 1:
            axes.plot(rounds, values, color=ENTRIES[0])
        else:
            for i, label in enumerate(names[name][:LINES]):
                axes.plot(rounds, values[:, i], color=ENTRIES[i % len(ENTRIES)], label=label)
            _entries_legend(axes, values.shape[1])
        if name == "excess":
            axes.axhline(0, color=INK, linestyle=BOUND, linewidth=1.0)
        axes.set(xlabel="round", ylabel=LABELS.get(name, name))
    return panels[0] if quantity is not None else np.array(panels, dtype=object)


def _experts(count: int) -> list[str]:
    return ["learner", *(f"adviser {k}" for k in range(1, count))]


def _entries_legend(axes: Any, count: int) -> None:
    if count > 1:
        axes.legend(title=None if count <= LINES else f"first {LINES} of {count}", fontsize=7)

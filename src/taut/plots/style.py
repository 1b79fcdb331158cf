"""The style of all figures: style sheet, palette, and helpers for panels, curves and legends.

The colours are those of Okabe and Ito (and a dark one of Tol's), which colour-blind readers can
distinguish.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "BOUND",
    "FAMILIES",
    "axes_for",
    "curve",
    "label_panels",
    "legend_below",
    "log_axis",
    "new_figure",
    "styled",
]

P = ParamSpec("P")
R = TypeVar("R")

BOUND: tuple[float, tuple[float, float]] = (0, (4.0, 2.0))
"""Dashes of a bound."""

FAMILIES = {
    "ogd": "#D55E00",
    "a-ogd": "#CC79A7",
    "a-ogd-strong": "#882255",
    "clipped": "#0072B2",
    "scaled": "#56B4E9",
    "strong": "#009E73",
    "strong-scaled": "#6CCFAE",
    "other": "#222222",
}
"""Colour of every family of learners."""

SHEET: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same everywhere
    "font.size": 8.5,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.limits": (-4, 5),
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.5,
    "lines.markersize": 3.8,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.4,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "pdf.fonttype": 42,
    "path.simplify_threshold": 0.2,
}


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw under the style sheet, and leave matplotlib's settings as they were."""

    @functools.wraps(draw)
    def inner(*args: P.args, **options: P.kwargs) -> R:
        import matplotlib as mpl

        # Matplotlib's defaults, whatever the user's settings; not the backend, which would be
        # looked for and loaded.
        defaults = {
            name: mpl.rcParamsDefault[name] for name in mpl.rcParamsDefault if "backend" not in name
        }
        with mpl.rc_context({**defaults, **SHEET}):
            return draw(*args, **options)

    return inner


def new_figure(
    count: int,
    narrow: bool,
    width: float = 3.3,
    height: float = 2.75,
    columns: int | None = None,
    **options: Any,
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels side by side (or in `columns`); one below the other if it is to
    be `narrow`.

    It has a canvas of its own that draws to memory; no global state, no window.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = 1 if narrow else columns or count
    rows = -(-count // columns)
    size = (4.1, height * 0.94 * rows + 0.5) if narrow else (width * columns, height * rows + 0.35)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for spare in axes[count:]:
        spare.remove()
    return figure, list(axes[:count])


def axes_for(ax: Any, count: int = 1) -> list[Axes]:
    """Return the axes that a user gave, checked, or those of a new figure of pyplot, which
    notebooks show by themselves."""
    if ax is None:
        import matplotlib.pyplot as plt

        size = (3.3 * count, 2.75) if count > 1 else (4.6, 3.1)
        _, made = plt.subplots(1, count, figsize=size, squeeze=False, layout="constrained")
        return list(made.ravel())
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) != count or not all(
        hasattr(one, "plot") and hasattr(one, "figure") for one in given
    ):
        wanted = "Matplotlib axes" if count == 1 else f"{count} Matplotlib axes"
        raise TypeError(f"ax: got {ax!r}; expected {wanted}, as made by matplotlib.pyplot.subplots")
    return given


def curve(
    axes: Axes,
    x: Any,
    values: Any,
    label: str | None = None,
    positive: bool = False,
    **options: Any,
) -> None:
    """The mean over the leading axis as a line, the range between smallest and largest shaded.

    `positive` leaves out what a logarithmic axis cannot show.
    """
    values = np.atleast_2d(np.asarray(values, float))
    mean, low, high = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
    if positive:
        mean, low, high = (np.where(part > 0, part, np.nan) for part in (mean, low, high))
    axes.plot(x, mean, label=label, **options)
    if len(values) > 1:
        axes.fill_between(x, low, high, color=options["color"], alpha=0.16, linewidth=0)


def log_axis(axis: Axis, ticks: Any = None) -> None:
    """Plain ticks on a logarithmic axis: those given, otherwise powers of ten; no minor ones, which
    say little."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_minor_locator(NullLocator())
    if ticks is not None:
        axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def label_panels(panels: Sequence[Axes], titles: Sequence[str], letters: str = "abcdefgh") -> None:
    """(a), (b), (c) and a title above every panel."""
    for letter, axes, title in zip(letters, panels, titles, strict=False):
        axes.set_title(f"({letter}) {title}")


def legend_below(
    figure: Figure, sources: Sequence[Axes], narrow: bool, extra: Sequence[Any] = ()
) -> None:
    """One legend for the whole figure, below it, in as few rows as its width allows."""
    handles: dict[str, Any] = {}
    for axes in sources:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    handles |= {str(one.get_label()): one for one in extra}
    wide = [0.55 + 0.06 * len(label) for label in handles]  # inches an entry takes, about
    rows = (
        -(-sum(wide) // figure.get_figwidth())
        if not narrow
        else -(-len(wide) // max(1, int(4.1 / max(wide))))
    )
    columns = -(-len(handles) // max(1, int(rows)))
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)

"""The style of all figures: style sheet, colours of lines that show no learner, and helpers for
panels, curves, axes and legends. `families` has the colours and markers of learners."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


P = ParamSpec("P")
R = TypeVar("R")

BOUND: tuple[float, tuple[float, float]] = (0, (4.0, 2.0))
"""Dashes of a bound."""

ENTRIES = (
    "#0072B2",
    "#D55E00",
    "#1E6B43",
    "#E8A0CC",
    "#868686",
    "#6B1F57",
    "#5FB8F5",
    "#F2B705",
    "#2A1A6E",
)
"""Colours of lines that show no learner: entries of a decision, quantities, constraints."""
INK = "#222222"
HOLDS, EXCEEDED, SILENT = "#1E6B43", "#B00020", "#999999"
"""Colours of a bound that holds, of one that is exceeded, and of one that says nothing."""

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
    panels = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(panels) != count or not all(
        hasattr(panel, "plot") and hasattr(panel, "figure") for panel in panels
    ):
        wanted = "Matplotlib axes" if count == 1 else f"{count} Matplotlib axes"
        raise TypeError(f"ax: got {ax!r}; expected {wanted}, as made by matplotlib.pyplot.subplots")
    return panels


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
        band = {"color": options["color"], "alpha": 0.16, "linewidth": 0}
        axes.fill_between(x, low, high, label=f"range of {len(values)} seeds", **band)


def log_axis(axis: Axis, ticks: Any = None) -> None:
    """Plain ticks on a logarithmic axis: those given, otherwise powers of ten; no minor ones, which
    say little."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_minor_locator(NullLocator())
    if ticks is not None:
        axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def log_axis_with_zero(axes: Axes, axis: Axis, values: Iterable[Any]) -> float:
    """Make an axis logarithmic that also shows zero, which has a tick of its own. Return the size
    below which it is linear; 0 if all values are zero, and the axis is left as it was.

    Below the smallest value, rounded down to a power of ten, the axis is linear. Values that are
    more than ten powers of ten below the largest are rounding, and lie at zero. If values have both
    signs, the axis is linear below a thousandth of the largest: they pass through zero there, and
    smaller powers of ten would fill the axis.
    """
    from matplotlib.ticker import FixedLocator

    numbers = np.concatenate([np.ravel(np.asarray(column, float)) for column in values])
    numbers = numbers[np.isfinite(numbers)]
    sizes = np.abs(numbers[numbers != 0])
    if not len(sizes):
        return 0.0
    top = float(np.log10(sizes.max()))
    signed = bool(numbers.min() < 0)
    low = float(np.floor(np.log10(max(sizes.min(), sizes.max() * (1e-3 if signed else 1e-10)))))
    low = min(low, np.ceil(top) - 1)
    set_scale = axes.set_yscale if axis is axes.yaxis else axes.set_xscale
    set_scale("symlog", linthresh=10**low, linscale=0.6)
    powers = np.arange(low, np.ceil(top) + 3, max(1, round((top - low) / 5)))
    ends = axis.get_view_interval()
    ticks = [0.0, *(10.0**powers), *(-(10.0**powers) if ends[0] < -(10**low) else ())]
    log_axis(axis)
    axis.set_major_locator(FixedLocator(ticks))
    return float(10**low)


def shade(colour: str, share: float) -> str:
    """Return a colour mixed with white, or with black if the share is negative."""
    from matplotlib.colors import to_hex, to_rgb

    end = 1.0 if share > 0 else 0.0
    red, green, blue = (part + (end - part) * abs(share) for part in to_rgb(colour))
    return str(to_hex((red, green, blue)))


def empty(axes: Axes, reason: str) -> None:
    """Write into an empty panel why it is empty."""
    import textwrap

    text, centre = "\n".join(textwrap.wrap(reason, 32)), axes.transAxes
    axes.text(0.5, 0.5, text, transform=centre, ha="center", va="center", color="#666666")


def handles_of(sources: Sequence[Axes]) -> dict[str, Any]:
    """Return what legends show of some axes, once for each label."""
    handles: dict[str, Any] = {}
    for axes in sources:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    return handles


def legend_inside(axes: Axes) -> None:
    """Explain line, band and bound in a legend, once each; a line alone needs none."""
    handles = handles_of([axes])
    if len(handles) > 1:
        frame: dict[str, Any] = {"frameon": True, "framealpha": 0.85, "edgecolor": "none"}
        axes.legend(list(handles.values()), list(handles), fontsize=7, **frame)


def label_panels(panels: Sequence[Axes], titles: Sequence[str], letters: str = "abcdefgh") -> None:
    """(a), (b), (c) and a title above every panel."""
    for letter, axes, title in zip(letters, panels, titles, strict=False):
        axes.set_title(f"({letter}) {title}")


def legend_below(
    figure: Figure, sources: Sequence[Axes], narrow: bool, extra: Sequence[Any] = ()
) -> None:
    """One legend for the whole figure, below it, in as few rows as its width allows."""
    handles = handles_of(sources)
    handles |= {str(handle.get_label()): handle for handle in extra}
    wide = [0.55 + 0.06 * len(label) for label in handles]  # inches an entry takes, about
    rows = (
        -(-sum(wide) // figure.get_figwidth())
        if not narrow
        else -(-len(wide) // max(1, int(4.1 / max(wide))))
    )
    columns = -(-len(handles) // max(1, int(rows)))
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)

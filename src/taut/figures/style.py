"""One style sheet for all figures: the page, the palette, and how every learner looks wherever it appears.

Hue tells the family, line and marker the trade-off beta, a lighter tint with hollow markers the scale-aware rule.
The hues are those of Okabe and Ito (and a dark one of Tol's), which colour-blind readers can tell apart.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "BOUND", "FAMILIES", "Look", "curve", "fraction", "label_panels", "legend_below", "log_axis", "look", "names",
    "new_figure", "shades", "styled", "title_of",
]  # fmt: skip

Array = np.ndarray[Any, Any]
P = ParamSpec("P")

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


@dataclass(frozen=True)
class Look:
    """How one learner is drawn."""

    colour: str
    line: str | tuple[float, tuple[float, ...]]
    marker: str
    hollow: bool

    def options(self, markers: bool = True) -> dict[str, Any]:
        """Keyword arguments for `Axes.plot`."""
        found: dict[str, Any] = {"color": self.colour, "linestyle": self.line}
        if markers:
            found |= {"marker": self.marker, "markerfacecolor": "white" if self.hollow else self.colour}
        return found


def look(name: str) -> Look:
    """The look of a contestant by its name, such as `clipped-half` or `a-ogd-strong-two-thirds`."""
    beta = next((part for part in ("half", "two-thirds") if name.endswith(part)), "")
    family = name.removesuffix(f"-{beta}") if beta else name
    marker = {"half": "o", "two-thirds": "^"}.get(beta, "s")
    line: str | tuple[float, tuple[float, ...]] = (0, (4.5, 1.4)) if beta == "two-thirds" else "-"
    return Look(FAMILIES.get(family, FAMILIES["other"]), line, marker, family in ("scaled", "strong-scaled"))


def shades(family: str, count: int) -> list[tuple[float, float, float]]:
    """`count` shades of a family's colour, light to dark: for a grid of trade-offs."""
    from matplotlib.colors import to_rgb

    base = np.asarray(to_rgb(FAMILIES[family]))
    steps = np.linspace(-0.55, 0.55, count) if count > 1 else np.zeros(1)
    found = [base + (1 - base) * -s if s < 0 else base * (1 - s) for s in steps]
    return [(float(c[0]), float(c[1]), float(c[2])) for c in found]


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw under the style sheet, and leave matplotlib's settings as they were."""

    @functools.wraps(draw)
    def inner(*args: P.args, **options: P.kwargs) -> Figure:
        import matplotlib as mpl

        # Matplotlib's defaults, whatever the user's settings; not the backend, which would be looked for and loaded.
        defaults = {name: mpl.rcParamsDefault[name] for name in mpl.rcParamsDefault if "backend" not in name}
        with mpl.rc_context({**defaults, **SHEET}):
            return draw(*args, **options)

    return inner


def new_figure(
    count: int, narrow: bool, width: float = 3.3, height: float = 2.75, columns: int | None = None, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels side by side (or in `columns`); one below the other if it is to be `narrow`.

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


def curve(axes: Axes, x: Any, values: Any, label: str | None = None, positive: bool = False, **options: Any) -> None:
    """The mean over the leading axis as a line, the range between smallest and largest shaded.

    `positive` leaves out what a logarithmic axis cannot show.
    """
    values = np.atleast_2d(np.asarray(values, float))
    mean, low, high = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
    if positive:
        mean, low, high = (np.where(part > 0, part, np.nan) for part in (mean, low, high))
    axes.plot(x, mean, label=label, **options)
    if len(values) > 1:
        axes.fill_between(np.asarray(x, float), low, high, color=options["color"], alpha=0.16, linewidth=0)


def log_axis(axis: Axis, ticks: Any = None) -> None:
    """Plain ticks on a logarithmic axis: those given, otherwise powers of ten; no minor ones, which say little."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_minor_locator(NullLocator())
    if ticks is not None:
        axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def label_panels(panels: Sequence[Axes], titles: Sequence[str], letters: str = "abcdefgh") -> None:
    """(a), (b), (c) and a title above every panel."""
    for letter, axes, title in zip(letters, panels, titles, strict=False):
        axes.set_title(f"({letter}) {title}")


def legend_below(figure: Figure, sources: Sequence[Axes], narrow: bool, extra: Sequence[Any] = ()) -> None:
    """One legend for the whole figure, below it, in as few rows as its width allows."""
    handles: dict[str, Any] = {}
    for axes in sources:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    handles |= {str(one.get_label()): one for one in extra}
    wide = [0.55 + 0.06 * len(label) for label in handles]  # inches an entry takes, about
    rows = -(-sum(wide) // figure.get_figwidth()) if not narrow else -(-len(wide) // max(1, int(4.1 / max(wide))))
    columns = -(-len(handles) // max(1, int(rows)))
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)


def names(data: xarray.Dataset) -> list[str]:
    """The contestants of a dataset."""
    return [str(name) for name in data["contestant"].values]


def title_of(data: xarray.Dataset, name: str) -> str:
    """A contestant's label as plain text: no formulas to set, which is slow, and the same in a figure and on a page."""
    label = str(data["label"].sel(contestant=name).item())
    return label.replace("$\\beta=", "\u03b2 = ").replace("$", "")


def fraction(beta: float) -> str:
    """1/4 for 0.25."""
    return str(Fraction(beta).limit_denominator(12))

"""Figures of speed, drawn from the tables of docs/performance.md, which
`python -m benchmarks.speed --page` writes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from taut.plots.families import family_of
from taut.plots.style import new_figure, styled

__all__ = ["bars", "contenders", "draw_bars", "draw_contenders", "shown_ratio"]

BARS = (
    ("C, 10 seeds", "Clipped-OGD, hand-written C", "clipped-ogd"),
    ("taut, 10 seeds", "Clipped-OGD, taut", "clipped-ogd"),
    ("half-space, C", "half-space, hand-written C", "half-space"),
    ("half-space", "half-space (default), taut", "half-space"),
    ("NumPy", "Clipped-OGD, NumPy loop", ""),
    ("CVXPY, one projection per round", "one projection per round, CVXPY", ""),
)
"""Rows of the performance page, what the figure calls them, and the learner."""
HALF_SPACE = {"taut, 10 seeds": "half-space", "C, 10 seeds": "half-space, C"}
"""Rows of the page's table about half-space, and their names here."""
HEADINGS = ("### Nanoseconds per round", "### What a method costs")
GREY = "#868686"


def bars(text: str) -> dict[str, Any]:
    """Return the time per round and seed on the paper's toy problem, as the performance page has
    it."""
    values: dict[str, float] = {}
    for heading in HEADINGS:
        for section in text.split(heading)[1:]:
            title, _, rest = section.partition("\n")
            rows = re.findall(r"^\| *(.*?) *\| *(.*?) [(+]", rest.split("\n#")[0], re.M)
            for name, value in rows:
                own = HALF_SPACE.get(name, name) if "half-space" in title else name
                values.setdefault(own, float(value.replace(",", "")))
    return {"nanoseconds": {label: values[row] for row, label, _ in BARS}}


@styled
def draw_bars(data: dict[str, Any], narrow: bool) -> Any:
    """Draw horizontal bars of the time per round, with the ratio to C written on them. On a narrow
    screen the labels are above the bars."""
    from matplotlib.ticker import FixedLocator, NullLocator

    figure, (axes,) = new_figure(1, False, 3.7 if narrow else 7.6, 3.9 if narrow else 2.4)
    ink = axes.xaxis.label.get_color()
    times = data["nanoseconds"]
    least, most = min(times.values()) / 2, max(times.values())
    for place, (row, label, learner) in enumerate(reversed(BARS)):
        value, colour = times[label], family_of(learner).colour if learner else GREY
        in_c = BARS[2 if learner == "half-space" else 0][1]  # the same algorithm
        ratio, filled = value / times[in_c], "C" not in row.split(", ")
        axes.barh(
            place,
            value,
            0.4 if narrow else 0.7,
            color=colour if filled else "none",
            edgecolor=colour,
        )
        text = shown_time(value) + (f", {shown_ratio(ratio)} x C" if filled else "")
        axes.annotate(
            f"{label}: {text}" if narrow else text,
            (least if narrow else value, place + (0.38 if narrow else 0)),
            (2 if narrow else 4, 0),
            textcoords="offset points",
            va="center",
            color=ink,
        )
    axes.set_xscale("log")
    axes.set_xlim(least, most * (2 if narrow else 40))
    axes.xaxis.set_major_locator(FixedLocator([10.0**k for k in range(1, 7)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-0.5, len(BARS) - (0.2 if narrow else 0.5))
    labels = [] if narrow else [label for _, label, _ in reversed(BARS)]
    axes.set_yticks(range(len(labels)), labels)
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    ours, default = (shown_ratio(times[BARS[k][1]] / times[BARS[k - 1][1]]) for k in (1, 3))
    end = "\n" if narrow else " "
    axes.set(
        xlabel="nanoseconds per round and seed",
        title=f"Clipped-OGD takes {ours} times as long as in C,{end}the default {default} times",
    )
    return figure


def shown_time(nanoseconds: float) -> str:
    """Return a time with two or three digits in a unit that suits it."""
    if nanoseconds < 1e4:
        return f"{nanoseconds:,.0f} ns"
    return f"{nanoseconds / 1e3:,.0f} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.1f} ms"


def shown_ratio(ratio: float) -> str:
    """Return a ratio with two digits."""
    return f"{ratio:.1f}" if ratio < 10 else f"{int(float(f'{ratio:.2g}')):,}"


MARKS = (
    ("C", "hand-written C", "", "|"),
    ("taut, one stream", "taut, one stream", "#0072B2", "o"),
    ("taut, 10 seeds", "taut, 10 seeds", "#0072B2", "s"),
    ("half-space", "taut, the default, 10 seeds", "#D55E00", "s"),
    ("optax in a scan", "optax in a scan", "#5FB8F5", "^"),
    ("Numba", "Numba", "#F2B705", "v"),
    ("NumPy", "NumPy", GREY, "x"),
    ("CVXPY, one projection per round", "projection by CVXPY", GREY, "*"),
)
"""Rows of the performance page, what the figure calls them, colour and marker. Clipped-OGD is blue
and the default orange, as everywhere; C has the colour of text."""


def contenders(text: str) -> dict[str, Any]:
    """Return the nanoseconds per round of all implementations on all problems, as the performance
    page has them."""
    times: dict[str, dict[str, float]] = {}
    for section in text.split("### Nanoseconds per round")[1:]:
        title, _, rest = section.partition("\n")
        table = re.findall(r"^\|.*\|$", rest.split("\n#")[0], re.M)
        head, _, *rows = ([cell.strip() for cell in row.strip("|").split("|")] for row in table)
        for row, *cells in rows:
            default = "half-space" in title
            name = row if not default else "half-space" if row == "taut, 10 seeds" else ""
            if name not in {known for known, *_ in MARKS}:
                continue
            times[name] = {
                problem: float(cell.split()[0].replace(",", ""))
                for problem, cell in zip(head[1:], cells, strict=True)
                if cell
            }
    return {"nanoseconds": times}


@styled
def draw_contenders(data: dict[str, Any], narrow: bool) -> Any:
    """Draw the time per round of every implementation, one row per problem."""
    from matplotlib.ticker import FixedLocator, NullLocator

    times = data["nanoseconds"]
    problems = list(times["C"])
    figure, (axes,) = new_figure(1, False, 3.7 if narrow else 7.6, 5.4 if narrow else 3.9)
    for row, label, colour, marker in MARKS:
        if row not in times:
            continue
        points = times[row]
        places = [len(problems) - 1 - problems.index(problem) for problem in points]
        axes.plot(
            list(points.values()),
            places,
            linestyle="",
            marker=marker,
            color=colour or axes.xaxis.label.get_color(),
            markersize=6,
            markeredgewidth=1.6 if marker in "|x" else 0.0,
            label=label,
            alpha=0.9,
        )
    axes.set_xscale("log")
    highest = int(np.log10(max(max(row.values()) for row in times.values())))
    powers = range(1, highest + 1, 2 if narrow else 1)
    axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in powers]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(range(len(problems)), list(reversed(problems)))
    axes.set_ylim(-0.6, len(problems) - 0.4)
    worst = max(times["taut, one stream"][problem] / value for problem, value in times["C"].items())
    end = "\n" if narrow else " "
    axes.set(
        xlabel="ns per round and seed" if narrow else "nanoseconds per round and seed",
        title=f"Clipped-OGD takes at most{end}{shown_ratio(worst)} times as long as in C",
    )
    figure.legend(loc="outside lower center", ncols=2 if narrow else 4)
    return figure

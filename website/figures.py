"""Figures of README and of the documentation, drawn from results of this commit.

`python -m website.figures` (`make figures`) computes what each figure shows, writes it to
docs/figures/NAME.json and draws docs/NAME.png from that file, for light and dark pages and for
narrow screens. With `--draw` nothing is computed: the figures are drawn from the files. Every
picture carries the checksum of the data that it shows, so that a test notices a stale one.

The figures of the arena, of noise and of the performance page are written by `make arena`,
`python -m benchmarks.noise` and `python -m benchmarks.page`, with the pages that show them; the times of the figure "speed" are those
of that page.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taut.plots.families import family_of
from taut.plots.style import dark_figures, new_figure, styled

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DPI = 200
KEY = "Data"
"""The entry of a picture's metadata with the checksum of its data."""
SHOWN = {False: 830, True: 358}
"""Pixels at which README shows a wide and a narrow picture."""

__all__ = ["FIGURES", "SHOWN", "Figure", "checksum", "data_of", "embedded", "main", "shown_ratio"]


@dataclass(frozen=True)
class Figure:
    """A figure: what it shows, how it is drawn, and for which pages."""

    name: str
    compute: Callable[[], dict[str, Any]]
    draw: Callable[..., Any]
    variants: tuple[tuple[bool, bool], ...] = ((False, False),)
    """Whether it is narrow and whether it is for dark pages, one pair per picture."""

    def path(self, narrow: bool, dark: bool) -> Path:
        """Return the file of a variant."""
        return DOCS / f"{self.name}{'-narrow' if narrow else ''}{'-dark' if dark else ''}.png"

    def write(self, data: dict[str, Any]) -> None:
        """Draw all variants, with the checksum of the data inside."""
        for narrow, dark in self.variants:
            with dark_figures() if dark else nullcontext():
                figure = self.draw(data, narrow)
                path = self.path(narrow, dark)
                figure.savefig(path, dpi=DPI, metadata={KEY: checksum(data), "Software": None})
            print(path.relative_to(ROOT))


def checksum(data: dict[str, Any]) -> str:
    """Return the checksum of what a figure shows."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def embedded(path: Path) -> str:
    """Return the checksum in a picture; empty if there is none."""
    from PIL import Image

    with Image.open(path) as picture:
        return str(picture.info.get(KEY, ""))


def data_of(name: str) -> dict[str, Any]:
    """Return what a committed figure shows."""
    return dict(json.loads((DOCS / "figures" / f"{name}.json").read_text()))


def _example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"examples/{name}.py: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _line() -> dict[str, Any]:
    example = _example("the_line")
    return dict(example.summary(*example.play()))


def _draw_line(data: dict[str, Any], narrow: bool) -> Any:
    return _example("the_line").figure(data, narrow)


BARS = (
    ("C, 10 seeds", "Clipped-OGD, hand-written C", "clipped-ogd"),
    ("taut, 10 seeds", "Clipped-OGD, taut", "clipped-ogd"),
    ("half-space", "taut's default, half-space", "half-space"),
    ("NumPy", "Clipped-OGD, NumPy loop", ""),
    ("CVXPY, one projection per round", "one projection per round, CVXPY", ""),
)
"""Rows of the performance page, what the figure calls them, and the learner."""
HEADINGS = ("### Nanoseconds per round", "### What a method costs")


def _speed() -> dict[str, Any]:
    """Return the time per round and seed on the paper's toy problem, as `python -m benchmarks.page`
    has measured it and written it into the documentation."""
    text = (DOCS / "performance.md").read_text()
    values: dict[str, float] = {}
    for heading in HEADINGS:
        for section in text.split(heading)[1:]:
            title, _, rest = section.partition("\n")
            rows = re.findall(r"^\| *(.*?) *\| *(.*?) [(+]", rest.split("\n#")[0], re.M)
            for name, value in rows:
                own = "half-space" if "half-space" in title and name == "taut, 10 seeds" else name
                values.setdefault(own, float(value.replace(",", "")))
    bars = {label: values[row] for row, label, _ in BARS}
    return {"nanoseconds": bars}


@styled
def _draw_speed(data: dict[str, Any], narrow: bool) -> Any:
    """Draw horizontal bars of the time per round, with the ratio to C written on them. On a narrow
    screen the labels are above the bars."""
    from matplotlib.ticker import FixedLocator, NullLocator

    figure, (axes,) = new_figure(1, False, 3.7 if narrow else 7.6, 3.4 if narrow else 2.1)
    ink = axes.xaxis.label.get_color()
    bars = data["nanoseconds"]
    least, most = min(bars.values()) / 2, max(bars.values())
    for place, (_, label, learner) in enumerate(reversed(BARS)):
        value, colour = bars[label], family_of(learner).colour if learner else "#868686"
        ratio = value / bars[BARS[0][1]]
        filled = ratio != 1
        axes.barh(
            place,
            value,
            0.4 if narrow else 0.7,
            color=colour if filled else "none",
            edgecolor=colour,
        )
        text = f"{value:,.0f} ns" + (f", {shown_ratio(ratio)} x C" if filled else "")
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
    ours, default = (shown_ratio(bars[BARS[k][1]] / bars[BARS[0][1]]) for k in (1, 2))
    end = "\n" if narrow else " "
    axes.set(
        xlabel="nanoseconds per round and seed",
        title=f"Clipped-OGD takes {ours} times as long as in C,{end}the default {default} times",
    )
    return figure


def shown_ratio(ratio: float) -> str:
    """Return a ratio with two digits."""
    return f"{ratio:.1f}" if ratio < 10 else f"{int(float(f'{ratio:.2g}')):,}"


def _verdicts() -> dict[str, Any]:
    """Return how many claims of the paper have each verdict; the experiments are run if there are
    no results yet."""
    folder = ROOT / "reproduction"
    if not (folder / "claims.json").is_file():
        from taut.paper.pipeline import run_all

        run_all("all", folder, quiet=True)
    claims = json.loads((folder / "claims.json").read_text())["claims"]
    return dict(Counter(one["verdict"] for one in claims))


EVERYWHERE = ((False, False), (False, True), (True, False), (True, True))
FIGURES = (
    Figure("line", _line, _draw_line, EVERYWHERE),
    Figure("speed", _speed, _draw_speed, EVERYWHERE),
    Figure("verdicts", _verdicts, lambda *_: None, ()),  # README says it in a sentence
)


def main() -> None:
    """Compute and draw the figures that are named, or all."""
    import jax

    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*", help="names of figures; by default all")
    words.add_argument("--draw", action="store_true", help="draw from the files, compute nothing")
    asked = words.parse_args()
    jax.config.update("jax_enable_x64", True)
    (DOCS / "figures").mkdir(exist_ok=True)
    for figure in FIGURES:
        if asked.names and figure.name not in asked.names:
            continue
        if not asked.draw:
            text = json.dumps(figure.compute(), indent=None, separators=(",", ":"), sort_keys=True)
            (DOCS / "figures" / f"{figure.name}.json").write_text(text + "\n")
        figure.write(data_of(figure.name))


if __name__ == "__main__":
    main()

"""Figures of README and of the documentation, drawn from results of this commit.

`python -m website.figures` (`make figures`) computes what each figure shows, writes it to
docs/figures/NAME.json and draws docs/NAME.png from that file, for light and dark pages and for
narrow screens. With `--draw` nothing is computed: the figures are drawn from the files. Every
picture carries the checksum of the data that it shows, so that a test notices a stale one.

Some figures show what other commands have measured: "speed" and "benchmark" the tables of
docs/performance.md (`python -m benchmarks.speed --page`), "profile" the numbers of the arena in
docs/arena-board.json.gz (`taut arena report --docs`).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from taut.plots.style import SHEET

from . import arena_figures, speed_figures

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DPI = 200
KEY = "Data"
"""The entry of a picture's metadata with the checksum of its data."""
SHOWN = {False: 830, True: 358}
"""Pixels at which README shows a wide and a narrow picture."""
Data = dict[str, Any]

__all__ = [
    "FIGURES",
    "SHOWN",
    "Figure",
    "checksum",
    "dark_figures",
    "data_of",
    "embedded",
    "example",
    "main",
    "tables",
]


DARK: dict[str, Any] = {
    "figure.facecolor": "#0d1117",
    "axes.facecolor": "#0d1117",
    "savefig.facecolor": "#0d1117",
    "grid.color": "#2b3138",
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), "#e6edf3"),
    **dict.fromkeys(("axes.titlecolor", "xtick.color", "ytick.color"), "#e6edf3"),
}
"""What differs on a dark page."""


def dark_figures() -> AbstractContextManager[Any]:
    """Return a context in which figures are drawn for a dark page."""
    return mock.patch.dict(SHEET, DARK)


@dataclass(frozen=True)
class Figure:
    """A figure: what it shows, how it is drawn, and for which pages."""

    name: str
    compute: Callable[[], Data]
    draw: Callable[..., Any]
    variants: tuple[tuple[bool, bool], ...] = ((False, False),)
    """Whether it is narrow and whether it is for dark pages, one pair per picture."""
    table: Callable[[Data], str] | None = None
    """The same data as a table, and where it is written: between the marks with the figure's name
    in the page."""
    page: str = ""

    def path(self, narrow: bool, dark: bool) -> Path:
        """Return the file of a variant."""
        return DOCS / f"{self.name}{'-narrow' if narrow else ''}{'-dark' if dark else ''}.png"

    def write(self, data: Data) -> None:
        """Draw all variants, with the checksum of the data inside, and write the table."""
        for narrow, dark in self.variants:
            with dark_figures() if dark else nullcontext():
                figure = self.draw(data, narrow)
                path = self.path(narrow, dark)
                figure.savefig(path, dpi=DPI, metadata={KEY: checksum(data), "Software": None})
            print(path.relative_to(ROOT))
        if self.table is not None:
            page = DOCS / self.page
            before, _, after = tables(self)
            page.write_text(f"{before}{self.table(data)}{after}")


def tables(figure: Figure) -> tuple[str, str, str]:
    """Return the page of a figure in three parts: before, inside and after the marks of its
    table."""
    text = (DOCS / figure.page).read_text()
    begin, end = (f"<!-- {figure.name}: {word} -->" for word in ("begin", "end"))
    if text.count(f"{begin}\n") != 1 or text.count(f"{end}\n") != 1:
        raise ValueError(f"docs/{figure.page}: expected the lines {begin} and {end}")
    before, _, rest = text.partition(f"{begin}\n")
    inside, _, after = rest.partition(f"{end}\n")
    return f"{before}{begin}\n", inside, f"{end}\n{after}"


def checksum(data: Data) -> str:
    """Return the checksum of what a figure shows."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def embedded(path: Path) -> str:
    """Return the checksum in a picture; empty if there is none."""
    from PIL import Image

    with Image.open(path) as picture:
        return str(picture.info.get(KEY, ""))


def data_of(name: str) -> Data:
    """Return what a committed figure shows."""
    return dict(json.loads((DOCS / "figures" / f"{name}.json").read_text()))


def example(name: str) -> Any:
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"examples/{name}.py: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _line() -> Data:
    line = example("the_line")
    return dict(line.summary(*line.play()))


def _draw_line(data: Data, narrow: bool) -> Any:
    return example("the_line").figure(data, narrow)


def _noise() -> Data:
    from benchmarks import noise

    return noise.results()


def _draw_noise(data: Data, narrow: bool) -> Any:
    from benchmarks import noise

    return noise.draw(data, narrow)


def _noise_table(data: Data) -> str:
    from benchmarks import noise

    return noise.table(data)


def _feedback() -> Data:
    from benchmarks import feedback

    return feedback.results()


def _feedback_table(data: Data) -> str:
    from benchmarks import feedback

    return feedback.table(data)


def _nothing(data: Data, narrow: bool) -> None:
    """Draw nothing: the data are shown as text."""


def _verdicts() -> Data:
    """Return how many claims of the paper have each verdict; the experiments are run if there are
    no results yet."""
    folder = ROOT / "reproduction"
    if not (folder / "claims.json").is_file():
        from taut.paper.reproduce import run_all

        run_all("all", folder, quiet=True)
    claims = json.loads((folder / "claims.json").read_text())["claims"]
    return dict(Counter(one["verdict"] for one in claims))


def _speed() -> Data:
    return speed_figures.bars((DOCS / "performance.md").read_text())


def _benchmark() -> Data:
    return speed_figures.contenders((DOCS / "performance.md").read_text())


def _profile() -> Data:
    return arena_figures.profiles(DOCS / "arena-board.json.gz")


EVERYWHERE = ((False, False), (False, True), (True, False), (True, True))
FIGURES = (
    Figure("line", _line, _draw_line, EVERYWHERE),
    Figure("speed", _speed, speed_figures.draw_bars, EVERYWHERE),
    Figure("profile", _profile, arena_figures.draw, EVERYWHERE),
    Figure("benchmark", _benchmark, speed_figures.draw_contenders, EVERYWHERE),
    Figure("noise", _noise, _draw_noise, EVERYWHERE, _noise_table, "feedback.md"),
    Figure("feedback", _feedback, _nothing, (), _feedback_table, "feedback.md"),
    Figure("verdicts", _verdicts, _nothing, ()),  # README says it in a sentence
)


def main() -> None:
    """Compute and draw the figures that are named, or all."""
    import jax

    words = argparse.ArgumentParser(description=__doc__)
    names = [figure.name for figure in FIGURES]
    words.add_argument("names", nargs="*", help=f"{', '.join(names)}; by default all")
    words.add_argument("--draw", action="store_true", help="draw from the files, compute nothing")
    asked = words.parse_args()
    wanted = ["profile" if name == "arena" else name for name in asked.names] or names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        words.error(f"unknown figures: {', '.join(unknown)}; expected some of {', '.join(names)}")
    jax.config.update("jax_enable_x64", True)
    (DOCS / "figures").mkdir(exist_ok=True)
    for figure in FIGURES:
        if figure.name not in wanted:
            continue
        if not asked.draw:
            text = json.dumps(figure.compute(), indent=None, separators=(",", ":"))
            (DOCS / "figures" / f"{figure.name}.json").write_text(text + "\n")
        figure.write(data_of(figure.name))


if __name__ == "__main__":
    main()

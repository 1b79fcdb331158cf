"""Figures of README and of the documentation show the data that are committed beside them."""

import re
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")

from website.figures import DPI, FIGURES, SHOWN, checksum, data_of, embedded

from taut.plots.style import dark_figures

ROOT = Path(__file__).parent.parent
ELSEWHERE = {
    "arena.png": "make arena",
    "benchmark.png": "python -m benchmarks.page",
    "noise.png": "python -m benchmarks.noise",
}
"""Figures that are written with the page that shows them, and the command."""
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda one: one.name)
def test_no_committed_figure_is_stale(figure):
    wanted = checksum(data_of(figure.name))
    for variant in figure.variants:
        path = figure.path(*variant)
        assert embedded(path) == wanted, f"run make figures: {path.name} shows other data"


def test_times_are_those_of_the_performance_page():
    (speed,) = [figure for figure in FIGURES if figure.name == "speed"]
    assert speed.compute() == data_of("speed"), "run python -m website.figures speed"


def test_every_figure_that_is_shown_is_drawn_by_a_command():
    drawn = {figure.path(*variant).name for figure in FIGURES for variant in figure.variants}
    shown = {
        Path(name).name
        for page in PAGES
        for name in re.findall(r"[\w/:.-]+\.png", page.read_text())
        if (ROOT / "docs" / Path(name).name).exists()
    }
    assert shown <= drawn | set(ELSEWHERE)
    there = {path.name for path in (ROOT / "docs").glob("*.png")}
    assert there <= shown | drawn, "a picture that no page shows"
    assert all(path.stat().st_size < 400_000 for path in (ROOT / "docs").glob("*.png"))


@pytest.mark.parametrize("figure", FIGURES[:2], ids=lambda one: one.name)
@pytest.mark.parametrize("narrow", [False, True])
def test_texts_are_large_enough_at_the_width_at_which_they_are_shown(figure, narrow):
    data = data_of(figure.name)
    with dark_figures():
        made = figure.draw(data, narrow)
    made.draw_without_rendering()
    assert made.get_facecolor()[:3] < (0.2, 0.2, 0.2)
    scale = DPI / 72 * SHOWN[narrow] / (made.get_figwidth() * DPI)
    sizes = [text.get_fontsize() for text in made.findobj(matplotlib.text.Text) if text.get_text()]
    assert min(sizes) * scale >= 9
    right = [
        text.get_window_extent().x1
        for text in made.findobj(matplotlib.text.Text)
        if text.get_text() and text.get_visible()
    ]
    assert max(right) <= made.bbox.x1 + 1, "a text is cut off"

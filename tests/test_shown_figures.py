"""Figures of README and of the documentation show the data that are committed beside them."""

import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from benchmarks import noise
from website import gallery
from website.figures import (
    DPI,
    FIGURES,
    SHOWN,
    checksum,
    dark_figures,
    data_of,
    embedded,
    example,
    tables,
)

import taut

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda one: one.name)
def test_no_committed_figure_is_stale(figure):
    wanted = checksum(data_of(figure.name))
    for variant in figure.variants:
        path = figure.path(*variant)
        assert embedded(path) == wanted, f"run make figures: {path.name} shows other data"


@pytest.mark.parametrize("name", ["speed", "benchmark", "profile"])
def test_what_other_commands_have_measured_is_drawn(name):
    (figure,) = [figure for figure in FIGURES if figure.name == name]
    assert figure.compute() == data_of(name), f"run python -m website.figures {name}"


def test_the_demand_and_the_default_still_draw_the_line():
    """The first day of the default, which needs no horizon; other methods are tuned for all days."""
    data, every = data_of("line"), data_of("line")["every"]
    rounds = data["rounds per day"]
    demand, game = example("the_line").demand_and_game()
    run = taut.simulate("half-space", game, demand[:rounds], record=("excess",))
    drawn = data["methods"]["half-space"]["emissions"][: rounds // every]
    np.testing.assert_allclose(run.excess[0][every - 1 :: every] + data["cap"], drawn, atol=0.02)


def test_noise_is_still_measured_as_it_is_drawn():
    data = data_of("noise")
    first = data["horizons"][0]
    for label in ("half-space", "clipped-ogd"):
        stored = data["regret and violation"][label][0]
        np.testing.assert_allclose(noise.measured(label, first), stored, rtol=1e-3, atol=0.02)


def test_tables_beside_figures_show_their_data():
    written = [figure for figure in FIGURES if figure.table is not None]
    assert written
    for figure in written:
        assert tables(figure)[1] == figure.table(data_of(figure.name)), figure.page


def test_every_figure_that_is_shown_is_drawn_by_a_command():
    drawn = {figure.path(*variant).name for figure in FIGURES for variant in figure.variants}
    shown = {
        Path(name).name
        for page in PAGES
        for name in re.findall(r"[\w/:.-]+\.png", page.read_text())
        if (ROOT / "docs" / Path(name).name).exists()
    }
    assert shown <= drawn
    there = {path.name for path in (ROOT / "docs").glob("*.png")}
    assert there <= shown | drawn, "a picture that no page shows"
    assert all(path.stat().st_size < 400_000 for path in (ROOT / "docs").glob("*.png"))


@pytest.mark.parametrize(
    "figure", [one for one in FIGURES if one.variants], ids=lambda one: one.name
)
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
    unseen = {  # ticks beyond the ends of an axis are not drawn
        label
        for axes in made.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        for label in (tick.label1, tick.label2)
    }
    right = [
        text.get_window_extent().x1
        for text in made.findobj(matplotlib.text.Text)
        if text.get_text() and text.get_visible() and text not in unseen
    ]
    assert max(right) <= made.bbox.x1 + 1, "a text is cut off"


def test_every_example_of_the_gallery_has_its_picture():
    stored = {gallery.picture(entry) for entry in gallery.ENTRIES}
    assert {path for path in stored if not path.is_file()} == set(), "run make gallery"
    assert set(gallery.PICTURES.iterdir()) == stored
    assert all(path.stat().st_size < 1_000_000 for path in stored)
    examples = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert examples <= {entry.file for entry in gallery.ENTRIES}

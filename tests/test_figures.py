"""The painter: every figure shows the numbers of its dataset, in the same colours everywhere,
without simulating."""

import itertools
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Circle

import stored
from taut.paper.figures import GALLERY, draw_all, gallery, paper, save, theory
from taut.paper.figures.style import CONTESTANTS
from taut.plots.families import FAMILIES, OTHERS
from taut.plots.style import ENTRIES

DATA = {name: make() for name, make in stored.MAKERS.items()}


def line(axes, label):
    found = [one for one in axes.lines if one.get_label() == label]
    assert len(found) == 1, [one.get_label() for one in axes.lines]
    return found[0]


@pytest.mark.parametrize("picture", GALLERY, ids=lambda one: one.name)
def test_every_figure_can_be_drawn_and_leaves_no_settings_behind(picture):
    before = dict(mpl.rcParams)
    for narrow in (False, True):
        figure = picture.draw(DATA[picture.experiment], narrow=narrow)
        columns = {axes.get_subplotspec().colspan.start for axes in figure.axes}
        assert (len(columns) == 1) == narrow
    # Placing labels takes half of the time and is looked at elsewhere.
    figure.set_layout_engine("none")
    figure.draw_without_rendering()
    assert dict(mpl.rcParams) == before
    assert len(picture.caption.format(**DATA[picture.experiment].attrs)) > 100


def test_trajectories_show_each_path_in_its_panel_with_star_and_outer_ball():
    data = DATA["toy"]
    for rule, ours, label in (
        ("paper", "clipped", "Clipped-OGD"),
        ("scale-aware", "scaled", "Clipped-OGD, scale-aware"),
    ):
        for axes, beta in zip(
            paper.trajectories(data, rule).axes, ("half", "two-thirds"), strict=True
        ):
            for name, text in (
                (f"{ours}-{beta}", label),
                (f"a-ogd-{beta}", "A-OGD"),
                ("ogd", "OGD"),
            ):
                shown = np.column_stack(line(axes, text).get_data())
                np.testing.assert_array_equal(shown, data["trajectory"].sel(contestant=name))
            np.testing.assert_array_equal(
                np.ravel(line(axes, "best fixed decision").get_data()), data["star"]
            )
            (ball,) = [patch for patch in axes.patches if isinstance(patch, Circle)]
            assert ball.radius == data.attrs["radius"]


def test_sums_show_the_mean_and_shade_the_range():
    data = DATA["doubly-stochastic"]
    figure = paper.sums(data)
    for axes, quantity in zip(
        figure.axes, ("violation", "largest_excess", "excess", "regret"), strict=True
    ):
        values = data[quantity].sel(contestant="strong").values
        np.testing.assert_allclose(line(axes, "Our-strong").get_ydata(), values.mean(axis=0))
        ranges = [band.get_paths()[0].get_extents() for band in axes.collections]
        want = (values.min(), values.max())
        assert any(np.allclose((one.y0, one.y1), want) for one in ranges)
    labels = {one.get_label() for one in figure.axes[0].lines}
    assert not any("scale-aware" in label for label in labels)
    beside = {one.get_label() for one in paper.sums(data, "scale-aware").axes[0].lines}
    assert {
        "Clipped-OGD, \u03b2 = 1/2",
        "Clipped-OGD, scale-aware, \u03b2 = 1/2",
        "Our-strong, scale-aware",
    } <= beside


def test_an_axis_is_logarithmic_only_where_every_value_is_positive():
    scales = [axes.get_yscale() for axes in paper.sums(DATA["toy"]).axes]
    assert scales == ["log", "linear", "linear"]  # the made-up regret is partly negative


def test_dispatch_shows_running_means_and_says_when_nothing_is_violated():
    data = DATA["dispatch"]
    _, everyone, ours, cost = paper.dispatch(data).axes
    label = "Clipped-OGD, \u03b2 = 1/2"
    assert line(cost, label).get_ydata()[-1] == pytest.approx(
        float(data["cost"].sel(contestant="clipped-half").mean())
    )
    assert line(cost, "best fixed strategy").get_ydata()[-1] == pytest.approx(
        float(data["best_cost"].mean())
    )
    shown = line(everyone, "OGD").get_ydata()
    np.testing.assert_array_equal(shown, np.maximum(data["excess"].sel(contestant="ogd"), 0))
    assert len(ours.lines) == 2
    assert [text.get_text() for text in ours.texts] == ["never above 0"]
    assert not paper.dispatch(data, "scale-aware").axes[2].texts


def test_bounds_are_dashed_in_the_colour_of_what_they_bound():
    data = DATA["theory"]
    axes = theory.growth(data, theory.CLIPPED).axes[1]
    measured = line(axes, "\u03b2 = 1/4")
    bound = data["bound_violation"].sel(case="theorem-1-0.25").values
    (dashed,) = [one for one in axes.lines if np.array_equal(one.get_ydata(), bound)]
    assert dashed.get_color() == measured.get_color()
    assert dashed.get_linestyle() == "--"
    assert measured.get_linestyle() == "-"


def test_exponents_are_hollow_exactly_where_theory_is_exceeded():
    data = DATA["theory"]
    drawn = [
        one for axes in theory.exponents(data).axes for one in axes.lines if one.get_marker() == "o"
    ]
    hollow = sum(one.get_markerfacecolor() == "white" for one in drawn)
    above = known = 0
    for quantity in ("regret", "violation", "squared", "peak"):
        measured, allowed = data[f"measured_{quantity}"].values, data[f"theory_{quantity}"].values
        known += int(np.isfinite(measured).sum())
        above += int(np.nansum(measured > allowed + 0.02))
    assert (len(drawn), hollow) == (known, above)


def test_a_learner_has_one_colour_in_all_figures():
    label = "Clipped-OGD, \u03b2 = 1/2"
    panels = (paper.sums(DATA["toy"]).axes[0], paper.sums(DATA["doubly-stochastic"]).axes[2])
    panels += (paper.dispatch(DATA["dispatch"]).axes[1],)
    colours = {to_hex(line(axes, label).get_color()) for axes in panels}
    colours.add(to_hex(line(paper.trajectories(DATA["toy"]).axes[0], "Clipped-OGD").get_color()))
    clipped = next(one.colour for one in FAMILIES if one.name == "clipped-ogd")
    assert colours == {clipped.lower()} == {CONTESTANTS["clipped"].lower()}


# Machado, Oliveira & Fernandes 2009, severity 1: protanopia and deuteranopia, on linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}


@pytest.mark.parametrize("kind", BLINDNESS)
def test_families_can_be_told_apart_by_colour_blind_readers(kind):
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )

    def lab(colour):
        rgb = np.asarray(to_rgb(colour))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        x, y, z = np.cbrt(
            np.maximum(to_xyz @ np.clip(np.asarray(BLINDNESS[kind]) @ linear, 0, 1), 1e-4)
            / to_xyz.sum(axis=1)
        )
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    families = {one.name: one.colour for one in (*FAMILIES, OTHERS)}
    for palette in (families, CONTESTANTS, dict(enumerate(ENTRIES))):
        for a, b in itertools.combinations(palette, 2):
            assert np.linalg.norm(lab(palette[a]) - lab(palette[b])) > 17, (a, b)
    markers = [one.marker for one in (*FAMILIES, OTHERS)]
    assert len(set(markers)) == len(markers)


def test_files_are_the_same_bytes_every_time(tmp_path):
    first, second = (
        save(paper.trajectories(DATA["toy"]), tmp_path / name / "one") for name in "ab"
    )
    assert [path.name for path in first] == ["one.png", "one.pdf"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert first[1].read_bytes().startswith(b"%PDF")
    assert b"CreationDate" not in first[1].read_bytes()


def test_only_what_is_there_is_drawn(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"folder: got .*, without results; expected one"):
        draw_all(tmp_path)
    stored.write(tmp_path, ("dispatch",))
    chosen = [one for one in GALLERY if not one.name.endswith("-scale-aware")]
    monkeypatch.setattr(gallery, "GALLERY", chosen)
    found = draw_all(tmp_path)
    assert {path.name for path in found} == {
        f"figure-3-dispatch{kind}" for kind in (".png", ".pdf", "-narrow.png")
    }
    assert all(path.parent == tmp_path / "figures" for path in found)
    assert all(path.stat().st_size > 5000 for path in found)


def test_matplotlib_waits_until_it_is_needed_and_pyplot_is_never_loaded():
    code = (
        "import sys, taut.paper.figures, stored; assert 'matplotlib' not in "
        "sys.modules;taut.paper.figures.paper.sums(stored.toy()).draw_without_rendering(); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=stored.Path(stored.__file__).parent
    )

"""`plot()` of runs, players, certificates and rates: Matplotlib axes with the right numbers, on
given axes or on new ones."""

import dataclasses

import matplotlib
import numpy as np
import pandas as pd
import pytest

import taut
from small_games import FOUR, GAME, targets

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LEARNER = taut.ClippedOGD(0.3, 20.0)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def run():
    return taut.simulate(
        LEARNER, FOUR, targets(seeds=3), seeds=3, record=("loss", "excess", "decisions"), every=4
    )


def test_a_run_in_three_panels(run):
    panels = run.plot()
    assert panels.shape == (3,)
    for axes, values in zip(panels, (run.loss, np.maximum(run.excess, 0), run.excess), strict=True):
        np.testing.assert_allclose(
            axes.lines[0].get_ydata(), np.cumsum(values, axis=1).mean(axis=0)
        )
        assert axes.get_xlabel() == "round"
        (band,) = axes.collections
        assert band.get_label() == "range of 3 seeds"
        assert "range of 3 seeds" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_one_quantity_on_given_axes_with_a_bound(run):
    _, ax = plt.subplots()
    assert run.plot("violation", ax=ax, bound=7.5, color="black", label="mine") is ax
    assert len(plt.get_fignums()) == 1
    assert ax.lines[0].get_label() == "mine"
    assert set(ax.lines[2].get_ydata()) == {7.5}  # after the line at zero


def test_decisions_have_one_line_per_entry_with_its_name(run):
    ax = run.plot("decision")
    assert [line.get_label() for line in ax.lines] == ["x[0]", "x[1]"]
    np.testing.assert_allclose(ax.lines[1].get_ydata(), run.decisions[:, :, 1].mean(axis=0))
    assert ax.lines[0].get_xdata().tolist() == list(range(4, 61, 4))


def test_times_are_on_the_horizontal_axis():
    times = pd.date_range("2024-03-01", periods=60, freq="5min", name="time")
    ax = taut.simulate(LEARNER, FOUR, pd.DataFrame(targets(), index=times)).plot("loss")
    assert ax.get_xlabel() == "time"
    assert ax.lines[0].get_xdata()[-1] == times[-1].to_datetime64()


def test_a_player_draws_what_it_remembers():
    player = taut.Player(LEARNER, FOUR)
    decisions = []
    for z in targets():
        decisions.append(player.decision)
        player.observe(z)
    panels = player.plot()
    assert len(panels) == 3
    assert len(panels[1].lines) == 4 + 1  # the constraints and zero
    ax = player.plot("decision", ax=plt.subplots()[1])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), np.array(decisions)[:, 0])


def test_a_certificate_draws_shares_of_its_bounds():
    made = taut.learner("clipped-ogd", GAME, horizon=60)
    certificate = taut.simulate(made, GAME, targets(seeds=2), seeds=2).certificate()
    ax = certificate.plot()
    drawn = [line.get_xdata()[1] for line in ax.lines[:-1]]
    shares = [row.ratio for row in reversed(certificate.rows) if row.ratio is not None]
    np.testing.assert_allclose(drawn, np.where(np.array(shares) < 1e-6, 0, shares))
    assert "0" in [tick.get_text() for tick in ax.get_xticklabels()]  # zero is marked
    few = certificate.plot(["regret", "violation"], log=False)
    assert [tick.get_text() for tick in few.get_yticklabels()] == ["violation", "regret"]
    assert few.get_xscale() == "linear"
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [
        row.quantity for row in reversed(certificate.rows)
    ]


def test_rates_are_drawn_on_logarithmic_axes():
    rates = taut.rates(LEARNER, (GAME, targets(seeds=2)), [20, 40, 60], seeds=2)
    ax = rates.plot("violation")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), rates.values["violation"].mean(axis=0))
    assert ax.lines[1].get_ydata()[0] == ax.lines[0].get_ydata()[0]


def test_axes_that_do_not_fit(run):
    with pytest.raises(TypeError, match=r"ax: got .*expected 3 Matplotlib axes"):
        run.plot(ax=plt.subplots()[1])
    with pytest.raises(TypeError, match="ax: got 'here'; expected Matplotlib axes"):
        run.plot("loss", ax="here")
    with pytest.raises(ValueError, match=r"quantity: got 'regrets'\. Did you mean 'regret'"):
        run.plot("regrets")


def test_regret_ends_at_the_regret_of_the_run_and_has_the_losses_of_the_best_decision(run):
    best = taut.hindsight(FOUR, targets(seeds=3), seeds=3)
    ax = run.plot("regret", bound=3.0)
    drawn = ax.lines[0].get_ydata()
    assert drawn[-1] == pytest.approx(taut.metrics.regret(run, best).mean(), rel=1e-6)
    fixed = np.array(
        [
            [FOUR.loss(x, z) for z in rounds]
            for x, rounds in zip(best.decision, targets(seeds=3), strict=True)
        ]
    )
    np.testing.assert_allclose(drawn, np.cumsum(run.loss - fixed, axis=1).mean(axis=0), atol=1e-6)
    np.testing.assert_array_equal(run.plot("regret", best=best).lines[0].get_ydata(), drawn)


def test_regret_needs_what_it_is_measured_with(run, tmp_path):
    run.save(tmp_path / "run.nc")
    with pytest.raises(
        ValueError, match=r"run: got a run without problem and stream.*taut\.certify"
    ):
        taut.Run.load(tmp_path / "run.nc").plot("regret")
    with pytest.raises(
        ValueError, match=r'best: got Hindsight with quantity=.loss.; expected quantity="regret"'
    ):
        run.plot("loss", best=taut.hindsight(FOUR, targets(seeds=3), seeds=3))
    with pytest.raises(ValueError, match=r"best: got decisions for prefixes"):
        run.plot("regret", best=taut.hindsight(FOUR, targets(seeds=3), seeds=3, prefixes=[5]))
    with pytest.raises(TypeError, match=r"best: got 3"):
        run.plot("regret", best=3)


def test_bands_of_seeds_are_at_the_times_of_the_index():
    times = pd.date_range("2024-03-01", periods=60, freq="5min", name="time")
    run = taut.simulate(LEARNER, FOUR, targets(seeds=3), seeds=3)
    ax = dataclasses.replace(run, index=times).plot("loss")
    left, right = ax.collections[0].get_datalim(ax.transData).intervalx
    assert left == matplotlib.dates.date2num(times[0])
    assert right == matplotlib.dates.date2num(times[-1])


PAPER = (
    (lambda run, _: run.plot(), 3),
    (lambda run, _: run.plot("violation", bound=50.0), 1),
    (lambda run, _: run.plot(quantities=["regret", "violation"], log=True), 2),
    (lambda run, _: run.plot("decision"), 1),
    (lambda _, found: found.plot(), 3),
    (lambda _, found: found.plot(["regret", "violation"], log=True), 2),
    (lambda _, found: found.certificate("half-space", check=False).plot(), 1),
    (lambda *_: taut.rates((GAME, targets(seeds=2)), [15, 30, 60], seeds=2).plot(), 1),
)
"""The figures that a paper about a method needs, with the number of their panels."""


@pytest.fixture(scope="module")
def compared():
    names = ["half-space", "clipped-ogd", "ogd-clipped", "surrogate"]
    return taut.compare(names, GAME, targets(seeds=3), seeds=3, timing=False)


@pytest.mark.parametrize("number", range(len(PAPER)))
def test_the_figures_of_a_paper(run, compared, number, tmp_path):
    draw, count = PAPER[number]
    panels = np.ravel(np.asarray(draw(run, compared), dtype=object))
    assert len(panels) == count
    figure = panels[0].figure
    figure.savefig(tmp_path / "figure.png", dpi=60)
    for axes in panels:
        assert axes.get_xlabel()
        drawn = [line for line in axes.lines if len(line.get_xdata()) > 2]
        assert drawn or axes.texts, "an empty panel says why"
        assert all(np.isfinite(line.get_ydata()).all() for line in drawn)
        ends = [text.get_window_extent().x1 for text in axes.texts]
        assert max(ends, default=0) <= figure.bbox.width, "a label is cut off"


def test_a_family_has_its_colour_and_marker_and_the_default_is_orange(run, compared):
    from taut.plots.families import family_of

    lines = {line.get_label(): line for line in compared.plot()[1].lines}
    for name in compared.runs:
        family = family_of(name)
        assert (lines[name].get_color(), lines[name].get_marker()) == (
            family.colour.lower(),
            family.marker,
        )
    assert lines["half-space"].get_color() == "#d55e00"
    assert run.plot("loss").lines[0].get_color() == family_of("clipped-ogd").colour.lower()


def test_violations_have_a_logarithmic_axis_with_a_marked_zero(run):
    ax = run.plot("violation")
    assert ax.get_yscale() == "symlog"
    assert ax.get_yticklabels()[0].get_text() == "0"
    for axes in (ax, run.plot()[1]):  # nothing is below zero
        assert -axes.yaxis.get_transform().linthresh < axes.get_ylim()[0] < 0
    assert run.plot("violation", log=False).get_yscale() == "linear"
    assert run.plot("loss").get_yscale() == "linear"
    still = dataclasses.replace(run, excess=np.full_like(run.excess, -1.0)).plot("violation")
    assert [text.get_text() for text in still.texts] == ["never violated"]


def test_with_logarithmic_axes_points_are_evenly_spaced_on_them():
    from taut.plots.curves import _rounds

    spaced = _rounds(10**6, by_logarithm=True)
    assert (spaced[0], spaced[-1]) == (1, 10**6)
    ratios = np.log(spaced[spaced > 1000][1:] / spaced[spaced > 1000][:-1])
    assert len(spaced) <= 400
    np.testing.assert_allclose(ratios, ratios.mean(), rtol=0.05)


def test_a_panel_without_regret_says_why(compared):
    nobody = dataclasses.replace(compared, best=None, notes=("the data are those of an adversary",))
    (ax,) = nobody.plot("regret")
    assert "those of an adversary" in ax.texts[0].get_text().replace("\n", " ")
    with pytest.raises(ValueError, match="quantities: got 'speed'; expected one of 'loss'"):
        compared.plot(["speed"])
    with pytest.raises(ValueError, match="expected one of them"):
        compared.runs["half-space"].plot("loss", quantities=["loss"])


def test_a_bound_far_above_the_curves_does_not_squeeze_them(compared):
    (ax,) = compared.plot("regret")
    reach = max(
        np.abs(line.get_ydata()).max() for line in ax.lines if line.get_label() in compared.runs
    )
    assert ax.get_ylim()[1] < 3 * reach

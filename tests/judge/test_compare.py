"""Comparisons: the same numbers as single runs, intervals by hand, and a winner only where
intervals separate."""

import csv
import io
import json
import re
from types import SimpleNamespace

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import taut
from taut.judge.compare import Interval
from taut.runs.totals import ChunkTotals, Totals
from taut.testing.problems import MOVING, TOY

matplotlib.use("Agg")
import matplotlib.pyplot as plt

NAMES = ["clipped-ogd", "ogd-clipped"]


@pytest.fixture(scope="module")
def found():
    return taut.compare(NAMES, TOY.problem, TOY.stream(4, 100), seeds=4, timing=False)


def test_values_are_those_of_single_runs(found):
    data = TOY.stream(4, 100)
    best = TOY.optimum(data)
    for name in NAMES:
        run = taut.simulate(
            taut.learner(name, TOY.problem, horizon=100), TOY.problem, data, seeds=4
        )
        np.testing.assert_allclose(found.values[name]["regret"], run.totals.loss - best, atol=1e-6)
        np.testing.assert_array_equal(found.values[name]["violation"], run.totals.worst_violation)
        np.testing.assert_array_equal(found.values[name]["mean loss"], run.totals.loss / 100)


def test_intervals_by_hand():
    values = np.array([1.0, 2.0, 3.0, 6.0])
    interval = Interval.of(values)
    assert interval.mean == 3.0
    assert interval.high - 3.0 == pytest.approx(
        3.182446305 * np.std(values, ddof=1) / 2
    )  # t(0.975, 3) from a table
    assert 3.0 - interval.low == pytest.approx(interval.high - 3.0)
    assert np.isnan(Interval.of(np.array([2.0])).low)


def comparison(tolerance=0.0, horizon=10, **columns):
    """A comparison of a, b, ... with these values by column: one row per learner."""
    names = "abc"[: len(next(iter(columns.values())))]
    values = {
        name: {
            column.replace("_", " "): np.asarray(rows[i], float) for column, rows in columns.items()
        }
        for i, name in enumerate(names)
    }
    seeds = len(next(iter(values["a"].values())))
    return taut.judge.compare.Comparison({}, values, horizon, seeds, tolerance=tolerance)


def test_a_winner_is_clear_from_the_differences_of_the_same_seeds(found):
    def made(first, second, column="violation"):
        return comparison(**{column: [first, second]}).winner(column)

    assert made([1, 1.1, 0.9], [2, 2.1, 1.9]) == "a"
    assert made([1, 1.1, 0.9], [1.05, 1.15, 0.95]) == "a"  # each seed by 0.05
    assert made([1, 1.1, 0.9], [1.15, 0.95, 1.05]) is None  # the same numbers in another order
    assert made([1], [100]) is None  # one seed says nothing about chance
    assert made([1, 1.1, 0.9], [2, 2.1, 1.9], "excess") is None  # less is not better
    assert made([1, 2, 3], [1 + 1e-15, 2 + 1e-15, 3 + 1e-15]) is None  # rounding
    assert found.winner("violation") == "clipped-ogd"


def test_a_learner_that_wins_in_every_seed_is_shown_as_such():
    rng = np.random.default_rng(0)
    level = rng.normal(100, 40, size=20)
    made = comparison(violation=[level, level + rng.exponential(0.5, size=20)])
    assert made.interval("a", "violation").high > made.interval("b", "violation").low
    assert made.winner("violation") == "a"
    assert "violation: a is smaller than b in 20 of 20 seeds, by" in str(made)
    paired = made.difference("a", "b", "violation")
    np.testing.assert_allclose(
        paired.mean, np.mean(made.values["b"]["violation"] - made.values["a"]["violation"])
    )
    # One seed with a huge difference widens the interval beyond 0, but all seeds agree.
    rare = comparison(violation=[np.zeros(8), [1e-3] * 7 + [100.0]])
    assert rare.difference("a", "b", "violation").low < 0
    assert rare.winner("violation") == "a"


def test_a_learner_that_violates_does_not_win_in_loss_or_regret():
    made = comparison(
        mean_loss=[[-9, -9.1], [1, 1.1], [2, 2.1]],
        regret=[[-90, -91], [10, 11], [20, 21]],
        violation=[[703, 700], [0.01, 0.02], [0.03, 0.0]],
        tolerance=0.01,
    )
    assert made.within_tolerance == ("b", "c")
    assert made.winner("mean loss") == made.winner("regret") == "b"
    assert made.winner("violation") is None
    bold = [line for line in made.to_latex().splitlines() if "mathbf" in line]
    assert [line[0] for line in bold] == ["b"]
    for text in (str(made), made._repr_html_(), made.to_latex()):
        said = " ".join(text.split())  # lines are broken where the terminal ends
        assert "at most 0.01 per round on average can win in loss and regret: b, c." in said
    strict = comparison(mean_loss=[[1, 1], [2, 2]], violation=[[5, 5], [6, 6]])
    assert strict.winner("mean loss") is None
    assert strict.winner("violation") == "a"
    assert "none of these learners" in str(strict)


def test_the_tolerance_is_in_units_of_the_constraints():
    data = TOY.stream(3, 60)
    learners = {"kept": taut.HalfSpace(0.5, 2.0), "ignored": taut.HalfSpace(0.5, 2.0, memory=0)}

    def scaled(factor):
        problem = taut.Problem(
            TOY.problem.loss,
            lambda x: factor * TOY.problem.constraints.values(x, None),
            TOY.problem.domain,
        )
        return taut.compare(learners, problem, data, seeds=3, timing=False)

    small, large = scaled(1e-9), scaled(1e9)
    assert large.tolerance == pytest.approx(1e18 * small.tolerance)
    assert large.within_tolerance == small.within_tolerance
    assert (
        taut.compare(learners, TOY.problem, data, seeds=3, timing=False, tolerance=0.5).tolerance
        == 0.5
    )
    with pytest.raises(ValueError, match="tolerance: got -1"):
        taut.compare(learners, TOY.problem, data, seeds=3, timing=False, tolerance=-1)


def test_outputs(found, tmp_path):
    frame = found.to_pandas()
    assert list(frame.index) == NAMES
    assert (
        frame.loc["clipped-ogd", ("violation", "mean")]
        == found.values["clipped-ogd"]["violation"].mean()
    )
    found.to_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == found.to_csv()
    assert r"\mathbf" in found.to_latex()
    assert found.to_latex().count(r"\\") == 3
    json.dumps(found.to_dict())
    text = str(found)
    assert "clipped-ogd" in text
    assert "can win in loss and regret" in " ".join(text.split())
    assert "<table>" in found._repr_html_()
    assert repr(found) == "<Comparison of clipped-ogd, ogd-clipped: 4 seeds x 100 rounds>"
    assert found.certificate("clipped-ogd", check=False).rows[0].mean == pytest.approx(
        found.interval("clipped-ogd", "regret").mean
    )


def test_tables_are_no_wider_than_the_terminal_and_names_stay_in_one_piece(found, monkeypatch):
    for width in (80, 100, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = str(found).splitlines()
        assert max(map(len, lines)) <= min(width, 100)
        rows = [line for line in lines if line.startswith("  clipped-ogd ")]
        assert len(rows) == sum(line.startswith("  learner ") for line in lines)
        cells = [cell for row in rows for cell in re.split("  +", row.strip())[1:]]
        assert len(cells) == len(found.values["clipped-ogd"])


def test_labels_learners_and_cards():
    learner = taut.ClippedOGD(0.01, 4.0)
    data = TOY.stream(2, 30)
    found = taut.compare(
        {"mine": learner, "card": taut.LEARNERS["clipped-ogd-anytime"]},
        TOY.problem,
        data,
        seeds=2,
        progress=True,
    )
    assert found.runs["mine"].learner == learner
    assert found.values["mine"]["microseconds per round"].min() > 0
    assert found.runs["card"].learner == taut.ClippedOGD.anytime(TOY.problem.constants)


def test_without_a_comparator_regret_is_missing_and_the_reason_is_given():
    run = taut.compare(["clipped-ogd-anytime"], TOY.problem, TOY.reveal, horizon=20, timing=False)
    assert "regret" not in run.values["clipped-ogd-anytime"]
    assert "adversary" in run.notes[0]
    crossed = MOVING.stream(1, 4)
    crossed["levels"][0, 0], crossed["levels"][0, 1] = (
        [-0.4, 1, 1, 1],
        [1, 1, -0.4, 1],
    )  # x_1 <= -0.4 and x_1 >= 0.4
    crossed["normals"][:] = [[1, 0], [0, 1], [-1, 0], [0, -1]]
    run = taut.compare(["clipped-ogd-anytime"], MOVING.problem, crossed, seeds=1, timing=False)
    assert "regret" not in run.values["clipped-ogd-anytime"]
    assert "no comparator" in run.notes[0]


@pytest.mark.parametrize(
    ("learners", "error", "text"),
    [
        ([], ValueError, "learners: got none"),
        ("clipped-ogd", TypeError, "learners: got 'clipped-ogd'; expected label -> learner"),
        (3, TypeError, "learners: got 3"),
        ({"a": 3}, TypeError, "learners: got 3 for 'a'"),
        (["nope"], ValueError, "learner: got 'nope'"),
    ],
)
def test_bad_arguments(learners, error, text):
    with pytest.raises(error, match=text):
        taut.compare(learners, TOY.problem, TOY.stream(1, 5)[0])


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, 2.0, 3.0, 6.0], "3.0 ± 3.4"),
        ([100.0, 200.0], "150 ± 635"),
        ([0.41, 0.4101, 0.4102], "0.41010 ± 0.00025"),
        ([1e-6, 2e-6], "1.5e-06 ± 6.4e-06"),
        ([2.0, 2.0], "2 ± 0"),
        ([7.0], "7"),
    ],
)
def test_a_mean_has_as_many_decimals_as_its_interval(values, text):
    assert str(Interval.of(np.array(values))) == text


def test_names_of_the_user_are_texts_in_every_format():
    names = ["=1+1", r"$\input{secret}$ 5_%", "[/bold] a|b", "<script>"]
    learners = {name: taut.ClippedOGD(0.1 * (i + 1), 4.0) for i, name in enumerate(names)}
    found = taut.compare(learners, TOY.problem, TOY.stream(2, 30), seeds=2, timing=False)
    table = list(csv.reader(io.StringIO(found.to_csv())))
    assert [row[0] for row in table[1:]] == ["'=1+1", *names[1:]]
    rows = [line.partition(" & ")[0] for line in found.to_latex().splitlines()]
    assert r"\$\textbackslash{}input\{secret\}\$ 5\_\%" in rows
    assert "[/bold] a|b" in str(found)
    assert "<script>" not in found._repr_html_()


def test_small_numbers_in_latex_are_powers_of_ten():
    values = {"a": {"violation": np.array([1e-6, 2e-6])}}
    made = taut.judge.compare.Comparison({}, values, 10, 2)
    assert r"$1.5 \cdot 10^{-6} \pm 6.4 \cdot 10^{-6}$" in made.to_latex()


def test_a_comparison_draws_regret_with_bounds_on_given_axes(found):
    panels = found.plot()
    assert panels.shape == (3,)
    lines = {line.get_label(): line.get_ydata() for line in panels[0].lines}
    for name in NAMES:
        assert lines[name][-1] == pytest.approx(found.interval(name, "regret").mean)
    assert panels[0].get_title(loc="left") == "(a) regret: lower is better"
    bound = taut.certify(found.runs["clipped-ogd"], check=False, best=found.best).rows[0].bound
    drawn = [
        set(line.get_ydata())
        for line in panels[0].lines
        if line.get_label() == "bound at the last round"
    ]
    written = [text.get_text() for text in panels[0].texts]
    assert {bound} in drawn or any(f"bound {bound:.3g} of clipped-ogd" in text for text in written)
    _, axes = plt.subplots(1, 3)
    assert found.plot(ax=axes, certificates=True)[1] is axes[1]
    plt.close("all")


BOUNDED = "bound at the last round"


def test_bounds_are_off_the_top_only_if_they_are_above_the_axis():
    def run(end):
        """What the figure needs of a run: sums that end at `end`."""
        series = np.full((2, 50), end / 50)
        totals = Totals.of_chunk(ChunkTotals.zero(1, np.dtype(float)))
        return SimpleNamespace(
            learner=None,
            horizon=50,
            problem=None,
            swept=False,
            totals=totals,
            loss=series,
            excess=series,
            index=None,
        )

    from taut.plots.curves import Curves, looks

    # The bound of the first learner is far above its own curve, not above that of the last one.
    runs = {f"learner {i}": run(end) for i, end in enumerate((1.0, 40.0, 1300.0))}
    limits = {"learner 0": {"violation": 118.0}, "learner 1": {"violation": 3700.0}}
    limits["learner 2"] = {"violation": 1e6}
    _, axes = plt.subplots()
    Curves(runs, bounds=limits).draw(axes, "violation", looks(runs))
    drawn = {line.get_ydata()[0] for line in axes.lines if line.get_label() == BOUNDED}
    written = {float(text.get_text().split()[2]) for text in axes.texts}
    assert 118.0 in drawn
    assert drawn | written == {118.0, 3700.0, 1e6}
    low, high = axes.get_ylim()
    assert all(low < bound < high for bound in drawn)
    assert all(bound > high for bound in written)
    plt.close("all")


def test_eleven_learners_can_be_told_apart():
    learners = {f"eta {i}": taut.ClippedOGD(0.01 * (i + 1), 4.0) for i in range(11)}
    found = taut.compare(learners, TOY.problem, TOY.stream(1, 20), timing=False, seeds=1)
    lines = [line for line in found.plot()[0].lines if line.get_label() in learners]
    looks = {
        (line.get_color(), str(line._unscaled_dash_pattern), line.get_marker()) for line in lines
    }
    assert len(looks) == len(lines) == 11
    plt.close("all")


def test_a_word_means_one_number_in_tables_figures_and_certificates():
    """Several constraints: the largest of the sums is not the sum of the largest."""
    found = taut.compare(
        ["clipped-ogd"], MOVING.problem, MOVING.stream(2, 40), seeds=2, timing=False
    )
    run, panels = found.runs["clipped-ogd"], found.plot()
    excess = run.totals.excess.max(axis=-1)
    assert abs(run.totals.worst_excess.mean() - excess.mean()) > 0.1
    np.testing.assert_allclose(found.values["clipped-ogd"]["excess"], excess)
    rows = {row.quantity: row.mean for row in found.certificate("clipped-ogd", check=False).rows}
    assert rows["excess"] == pytest.approx(excess.mean())
    printed = next(line for line in str(run).splitlines() if line.strip().startswith("excess"))
    assert float(printed.split()[1]) == pytest.approx(excess.mean(), rel=1e-3)
    assert panels[2].get_title(loc="left").startswith("(c) largest excess:")
    curve = next(line for line in panels[2].lines if line.get_label() == "clipped-ogd")
    assert curve.get_ydata()[-1] == pytest.approx(taut.metrics.largest_excess(run).mean())
    assert not [line for line in panels[2].lines if line.get_label() == BOUNDED]
    assert not panels[2].texts
    assert run.plot("excess").get_ylabel() == "cumulative largest excess of each round"
    single = taut.simulate(taut.ClippedOGD(0.01, 4.0), TOY.problem, TOY.stream(1, 10)[0])
    assert single.plot("excess").get_ylabel() == "cumulative excess"
    plt.close("all")


def test_policy_regret_is_called_so_and_has_no_bound_of_another_regret():
    def switching(x, z, previous):
        return z @ x + jnp.sum((x - previous) ** 2)

    problem = taut.Problem(
        switching, lambda x: jnp.sum(x) - 1, taut.Ball(1.0, shape=2), previous=True
    )
    data = np.random.default_rng(0).uniform(-1, 0, (2, 30, 2))
    found = taut.compare(["half-space"], problem, data, seeds=2, timing=False)
    for certificates in (False, True):
        axes = found.plot(certificates=certificates)[0]
        assert axes.get_title(loc="left").startswith("(a) policy regret")
        rows = {row.quantity: row.bound for row in found.certificate("half-space").rows}
        shown = [line for line in axes.lines if line.get_label() == BOUNDED] + list(axes.texts)
        assert rows["policy regret"] is None
        assert shown == []
    assert found.runs["half-space"].plot("regret").get_ylabel() == "policy regret"
    plt.close("all")

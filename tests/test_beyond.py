"""Beyond the paper: the default learner against the paper's methods on the paper's experiments and
on other demand series."""

import json
from pathlib import Path

import numpy as np
import pytest

from taut.arena import demand
from taut.paper import beyond
from taut.paper.experiments import dispatch

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
NAMES = ("half-space", "clipped-ogd")


def better(problem, data):
    best, mine, theirs = beyond.contest(problem, data, NAMES)
    assert best["learner"] == "best fixed decision"
    assert (mine["learner"], theirs["learner"]) == NAMES
    assert mine["violation"] < 0.05 * theirs["violation"]
    return best, mine, theirs


@pytest.mark.parametrize("name", ["toy", "dispatch"])
def test_the_default_violates_far_less_than_clipped_ogd(name):
    problem, data = next((p, d) for n, p, d in beyond.games(quick=True) if n == name)
    best, mine, theirs = better(problem, data)
    if name == "dispatch":
        assert mine["loss"] < theirs["loss"]
        assert mine["loss"] < best["loss"]
        assert mine["peak"] < 0.01


@pytest.mark.parametrize(
    "file",
    sorted(SHARED.glob("*.csv")) if SHARED.is_dir() else [],
    ids=lambda path: getattr(path, "stem", "none"),
)
def test_other_demand_series(file):
    series = demand.read([file])
    d = demand.rescaled(series, 33.0)
    better(dispatch.problem(dispatch.CHOICES[0], float(np.max(d))), d)


def test_figure_has_a_panel_per_experiment():
    row = {"learner": "half-space", "loss": 1.0, "violation": 0.0, "peak": 0.0}
    best = row | {"learner": "best fixed decision"}
    figure = beyond.draw({"toy": [best, row], "dispatch": [best, row | {"violation": 3.0}]})
    assert [axes.get_title() for axes in figure.axes] == ["toy", "economic dispatch"]


def test_the_report_has_the_comparison_as_a_section(tmp_path):
    """Apart from the claims: a table per experiment, best loss first, and a wide and a narrow
    figure."""
    from taut.paper.report.page import _beyond

    assert _beyond(tmp_path) is None
    rows = [
        {"learner": "best fixed decision", "loss": 1.0, "violation": 0.0, "peak": 0.0},
        {"learner": "clipped-ogd", "loss": 3.0, "violation": 5.0, "peak": 1.0},
        {"learner": "half-space", "loss": 2.0, "violation": 0.5, "peak": 0.1},
    ]
    (tmp_path / beyond.FILE).write_text(json.dumps({"toy": rows}))
    assert _beyond(tmp_path) is None  # no figures yet
    (tmp_path / "figures").mkdir()
    for kind, narrow in (("", False), ("-narrow", True)):
        beyond.draw({"toy": rows}, narrow).savefig(
            tmp_path / "figures" / f"{beyond.PICTURE}{kind}.png"
        )
    found = _beyond(tmp_path)
    assert [row["learner"] for row in found["tables"][0]["rows"]] == [
        "best fixed decision",
        "half-space",
        "clipped-ogd",
    ]
    assert found["picture"]["wide"]["width"] > 0

"""How objects print: short and aligned in a terminal, escaped HTML in a notebook; and what the
package announces."""

import logging
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import BALL, CONSTANTS, FOUR, GAME, distance, targets
from taut.display import Grid, Summary, numbers

LEARNER = taut.ClippedOGD(0.3, 20.0)


def shown():
    run = taut.simulate(LEARNER, FOUR, targets(seeds=2), seeds=2)
    player = taut.Player(LEARNER, FOUR)
    player.observe([1.0, 0.0])
    return {
        "problem": FOUR,
        "run": run,
        "player": player,
        "rates": taut.rates("clipped-ogd", (GAME, targets(seeds=2)), [20, 40], seeds=2),
        "recommendation": taut.recommend(GAME, 1000),
        "comparison": taut.compare(
            ["clipped-ogd", "ogd"], GAME, targets(seeds=2), seeds=2, timing=False
        ),
    }


@pytest.fixture(scope="module")
def objects():
    return shown()


@pytest.mark.parametrize(
    "name", ["problem", "run", "player", "rates", "recommendation", "comparison"]
)
def test_short_and_readable(objects, name):
    value = objects[name]
    for text in (repr(value), str(value)):
        assert len(text) < 2500, text
        assert "0x" not in text
        assert all(len(line) <= 140 for line in text.splitlines())
    page = value._repr_html_()
    assert "<table" in page
    assert page.count("<tr>") == page.count("</tr>")


def test_what_a_run_says(objects):
    text, run = str(objects["run"]), objects["run"]
    assert text.startswith("Run: 2 seeds x 60 rounds\n")
    assert f"{run.totals.worst_violation.max():.4g}" in text
    assert "ClippedOGD(eta=Constant(value=0.3), sigma=20.0)" in text


def test_columns_are_aligned():
    text = Grid(("name", "value"), (("a", "1"), ("longer", "12345678")), left=("name",)).text()
    assert text.splitlines() == [
        "name       value",
        "------  --------",
        "a              1",
        "longer  12345678",
    ]
    lines = Summary("T", [("a", "1"), ("long", "2")]).text().splitlines()
    assert lines == ["T", "  a     1", "  long  2"]


def test_a_table_follows_the_width_of_the_terminal(monkeypatch):
    names = ("learner", *(f"{k} violations" for k in range(9)))
    grid = Grid(names, (("half-space", *["1234567"] * 9),), left=("learner",))
    for width in (40, 80, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = Summary("T", grids=(grid,)).text().splitlines()
        assert max(map(len, lines)) <= width
        assert " ".join(lines).count("1234567") == 9  # nothing is lost, only moved below
        assert sum("half-space" in line for line in lines) == {40: 5, 80: 2, 100: 2}[width]
    remark = Grid(("name", "remark"), (("a", "word " * 11),), left=("name", "remark"))
    assert max(map(len, remark.text(30).splitlines())) <= 30


def test_html_is_escaped():
    page = Summary("a < b", [("<i>", "&")], [Grid(("<th>",), (("<td>",),))]).html()
    for text in ("a &lt; b", "&lt;i&gt;", "&amp;", "&lt;th&gt;", "&lt;td&gt;"):
        assert text in page


def test_large_arrays_are_cut():
    assert numbers(np.arange(3.0)) == "[0 1 2]"
    assert numbers(np.zeros((100, 4))) == "[0 0 0 0 0 0 ...] of shape (100, 4)"
    large = taut.Problem(distance, lambda x: jnp.sum(x) - 1, taut.Ball(1.0, shape=4000), CONSTANTS)
    assert len(repr(large)) < 2000
    assert len(repr(taut.Player(LEARNER, large))) < 1000


def test_the_logger_is_silent_until_configured_and_then_tells(caplog, tmp_path):
    silent = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            "import logging, taut; logging.getLogger('taut').info('x')",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert silent.stderr == ""
    with caplog.at_level(logging.DEBUG, logger="taut"):
        taut.simulate(LEARNER, GAME, targets())
    assert "simulating 60 rounds, 1 seed, with ClippedOGD" in caplog.text
    assert "played 60 of 60 rounds" in caplog.text


def test_every_public_name_is_listed_and_there():
    assert set(taut.__all__) <= set(dir(taut))
    assert "from_cvxpy" in dir(taut)
    for name in taut.__all__:
        assert getattr(taut, name) is not None
    assert BALL is FOUR.domain


def test_lines_are_no_wider_than_the_terminal(monkeypatch):
    summary = Summary("title", [("label", "word " * 40)], notes=["word " * 40])
    for width in (60, 80, 100, 300):
        monkeypatch.setenv("COLUMNS", str(width))
        longest = max(map(len, summary.text().splitlines()))
        assert min(width, 100) - 5 <= longest <= min(width, 100)

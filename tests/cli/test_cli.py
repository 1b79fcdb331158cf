"""The command line says what the library says, in JSON too, and complains in one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import taut
from taut.cli import main as cli
from taut.display import brief
from taut.judge.guarantees import guarantees
from taut.learners import Setting
from taut.paper import reproduce

runner = CliRunner(env={"COLUMNS": "200"})
CONSTANTS = ["-R", "1", "-f", "1", "-g", "1.5"]


def called(*words):
    result = runner.invoke(cli.app, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def test_help_lists_every_command_in_the_order_of_need_and_does_not_load_jax():
    program = (
        "import sys\n"
        "from taut.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    print(sorted({'jax', 'numpy', 'rich'} & set(sys.modules)))\n"
    )
    for words in (["--help"], ["run", "--help"], ["arena", "run", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]", words
        assert max(map(len, done.stdout.splitlines())) <= 80
    listed = called("--help").partition("Commands:")[2].splitlines()
    assert tuple(line.split()[0] for line in listed if line) == cli.ORDER


def test_learners_as_json_is_the_registry():
    rows = json.loads(called("learners", "--json"))
    assert [row["name"] for row in rows] == list(taut.LEARNERS)
    assert "clipped-ogd" in called("learners")
    first = list(taut.LEARNERS).index("clipped-ogd")
    peak = rows[first]["growth"]["peak violation"]
    assert (peak["order"], peak["condition"]) == (
        "T^(-b/3)",
        "there is one smooth fixed constraint",
    )
    printed = called("learners", "--markdown").splitlines()
    assert printed[2 + first].startswith("| `clipped-ogd` | convex | O(T^max(b,1-b)) |")
    assert len(printed) == 2 + len(rows)


def test_bound_equals_the_library():
    out = json.loads(called("bound", "clipped-ogd", "-T", "1000", *CONSTANTS, "--json"))
    known = taut.Constants(
        radius=1.0,
        loss_lipschitz=1.0,
        constraint_lipschitz=1.5,
        constraint_count=1,
        constraint_range=3.0,
        loss_range=2.0,
    )
    made = taut.ClippedOGD.tuned(known, 1000)
    expected = {
        g.quantity: g.bound
        for g in guarantees(made, Setting(known, 2.0, initial_violation=0.0), 1000)
    }
    assert {name: row["bound"] for name, row in out["bounds"].items()} == pytest.approx(expected)
    assert "regret" in called("bound", "clipped-ogd", "-T", "1000", *CONSTANTS)


def test_recommend_answers():
    advice = json.loads(called("recommend", *CONSTANTS, "-T", "1000", "--json"))
    assert advice["name"] in taut.LEARNERS
    few, every = called("recommend", *CONSTANTS), called("recommend", *CONSTANTS, "--all")
    assert few.splitlines()[-1].endswith("--all says why.")
    assert all(name in every for name in taut.LEARNERS)
    refused = runner.invoke(cli.app, ["recommend", *CONSTANTS, "-m", "-3"])
    assert str(refused.exception) == "constraints: got -3; expected a whole number of at least 1"


def test_recommend_knows_nothing_of_the_constraints_but_their_constants():
    given = ("-R", "1", "-f", "1", "-g", "1", "-T", "1000")
    advice = json.loads(called("recommend", *given, "--json"))
    text = " ".join(advice["reasons"])
    assert "at most 0" not in text
    assert "peak violation (at most 2)" in text  # G_g times the diameter, for every learner
    known = taut.Constants(
        radius=1.0,
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
        constraint_range=2.0,
        constraint_count=1,
        loss_range=2.0,
    )
    # The parameters are not those of taut.learner, and the advice says why and which those are.
    usual = taut.learner("clipped-ogd", known, horizon=1000)
    assert advice["learner"] == repr(taut.ClippedOGD.tuned(known, 1000, rule="bound-optimal"))
    assert advice["learner"] != repr(usual)
    assert f"has those of Theorem 1: {brief(usual)}" in text
    # The bounds are those of `taut bound` for the same learner.
    (row,) = [row for row in advice["candidates"] if row["name"] == "half-space-anytime"]
    bounds = json.loads(called("bound", "half-space-anytime", *given, "--json"))["bounds"]
    assert row["bounds"]["violation"] == pytest.approx(bounds["violation"]["bound"])


def test_errors_are_one_sentence_and_exit_codes_tell():
    bad = [sys.executable, "-m", "taut", "bound", "nothing", "-T", "10", *CONSTANTS]
    done = subprocess.run(bad, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("taut: learner: got 'nothing'; expected one of")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    loud = subprocess.run([*bad, "--debug"], capture_output=True, text=True, check=False)
    assert loud.returncode == 1
    assert "Traceback" in loud.stderr


def test_version():
    assert called("--version").strip() == taut.__version__


def test_reproduce_passes_every_option_on(monkeypatch):
    asked = []
    monkeypatch.setattr(
        reproduce, "run_all", lambda *given, **options: asked.append((given, options)) or {}
    )
    called(
        "reproduce",
        "toy",
        "--out",
        "here",
        "--quick",
        "--seeds",
        "3",
        "--demand",
        "a.csv",
        "--json",
    )
    called("reproduce")
    assert asked[0] == (("toy", Path("here"), True, 3, ("a.csv",)), {"quiet": True})
    assert asked[1] == (("all", Path("reproduction"), False, 10, ()), {"quiet": False})


def test_an_interruption_says_that_finished_work_is_kept(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit, match="130"):
        cli.main()
    assert "finished experiments are kept" in capsys.readouterr().err

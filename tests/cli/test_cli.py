"""The command line says what the library says, in JSON too, and complains in one sentence."""

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

import taut
from taut.cli import main as cli
from taut.paper import pipeline

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
        "    print(sorted({'jax', 'numpy', 'rich', 'taut.public'} & set(sys.modules)))\n"
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


def test_errors_are_one_sentence_and_exit_codes_tell():
    bad = [sys.executable, "-m", "taut", "certify", "nothing.nc"]
    done = subprocess.run(bad, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("taut: path: got nothing.nc, where there is no file; expected")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    loud = subprocess.run([*bad, "--debug"], capture_output=True, text=True, check=False)
    assert loud.returncode == 1
    assert "Traceback" in loud.stderr


def test_bench_outside_a_checkout_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(cli.app, ["bench"])
    assert isinstance(result.exception, FileNotFoundError)
    assert "checkout" in str(result.exception)


def test_version():
    assert called("--version").strip() == taut.__version__


def test_reproduce_passes_every_option_on(monkeypatch):
    asked = []
    monkeypatch.setattr(
        pipeline, "run_all", lambda *given, **options: asked.append((given, options)) or {}
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

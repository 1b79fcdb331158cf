"""run, compare, certify and plot on a user's own problem say what the library says."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import taut
from taut.cli import commands, main as cli

SOURCE = """
import jax.numpy as jnp
import taut

game = taut.Problem(
    lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2),
    taut.Constants(loss_lipschitz=1.5, constraint_lipschitz=2**0.5),
)
unknown = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))

def made():
    return game

number = 3
"""
COSTS = np.random.default_rng(0).uniform(size=(40, 2))
TIMES = pd.date_range("2024-01-01", periods=40, freq="1h", name="time")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.py").write_text(SOURCE)
    pd.DataFrame(COSTS, index=TIMES, columns=["a", "b"]).to_csv("costs.csv")
    return tmp_path


def called(*words, fails=False):
    result = CliRunner(env={"COLUMNS": "80"}).invoke(cli.app, list(words))
    assert (result.exception is not None) == fails, result.output
    return str(result.exception) if fails else result.output


RUN = (
    "run",
    "problem.py:game",
    "--learner",
    "clipped-ogd",
    "--data",
    "costs.csv",
    "--out",
    "out.nc",
)
PLAYED = ("--problem", "problem.py:game", "--data", "costs.csv")


def test_run_certify_and_plot(folder):
    text = called(*RUN, "--set", "beta=0.6")
    assert "Run: 1 seed x 40 rounds" in text
    run = taut.Run.load("out.nc")
    game = commands.load_problem("problem.py:game")
    expected = taut.simulate(taut.learner("clipped-ogd", game, horizon=40, beta=0.6), game, COSTS)
    np.testing.assert_array_equal(run.loss, expected.loss)
    assert (list(run.index), run.index.name) == (list(TIMES), "time")
    said = json.loads(called("certify", "out.nc", *PLAYED, "--json"))
    assert said == json.loads(json.dumps(expected.certificate().to_dict()))
    assert called("plot", "out.nc", "-q", "violation").strip() == "saved to out.png"
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")


def test_a_certificate_notices_other_data(folder):
    called(*RUN, "--json")
    pd.DataFrame(COSTS * 2, index=TIMES).to_csv("costs.csv")
    said = called("certify", "out.nc", *PLAYED, fails=True)
    assert "the losses of round 2 are not those of the run" in said


def test_seeds_on_the_command_line_are_those_of_the_library(folder):
    np.save("costs.npy", np.stack([COSTS, COSTS[::-1]]))
    called(
        "run",
        "problem.py:game",
        "-l",
        "clipped-ogd",
        "-d",
        "costs.npy",
        "--seeds",
        "2",
        "-o",
        "two.nc",
    )
    run = taut.Run.load("two.nc")
    assert (run.seeds, run.horizon) == (2, 40)
    rows = json.loads(
        called("certify", "two.nc", "--json", *PLAYED[:3], "costs.npy", "--seeds", "2")
    )
    assert rows["seeds"] == 2


def test_compare_prints_one_table(folder):
    words = (
        "compare",
        "problem.py:made",
        "-l",
        "clipped-ogd",
        "-l",
        "ogd",
        "-d",
        "costs.csv",
        "--csv",
        "table.csv",
        "--json",
    )
    found = json.loads(called(*words))
    assert list(found["learners"]) == ["clipped-ogd", "ogd"]
    assert "clipped-ogd" in (folder / "table.csv").read_text()


def test_unknown_constants_are_estimated(folder):
    text = called("run", "problem.py:unknown", "-l", "clipped-ogd", "-d", "costs.csv")
    assert "estimated from the data" in text


@pytest.mark.parametrize("text", ["1,2\n3,4\n", "1,1\n3,4\n", "2026-01-01,2\n2026-01-02,4\n"])
def test_a_table_without_names_of_columns_is_refused(folder, text):
    (folder / "nohead.csv").write_text(text)
    said = called("run", "problem.py:game", "-d", "nohead.csv", fails=True)
    assert "--data: got nohead.csv, whose first line is " in said
    assert "expected names of the columns" in said


def test_numbers_above_columns_that_pandas_wrote_are_names(folder):
    frame = pd.DataFrame(COSTS)
    frame.to_csv(folder / "numbered.csv")
    assert len(commands.read_data(folder / "numbered.csv")) == len(COSTS)


def test_a_parquet_file_without_pyarrow_names_the_extra(folder, monkeypatch):
    (folder / "z.parquet").write_bytes(b"PAR1")
    for package in ("pyarrow", "fastparquet"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r'pip install "taut\[cluster\]"'):
        commands.read_data(folder / "z.parquet")


@pytest.mark.parametrize("suffix", ["npy", "npz", "nc", "csv", "parquet"])
def test_data_in_many_formats(folder, suffix):
    path = folder / f"z.{suffix}"
    frame = pd.DataFrame(COSTS, columns=["a", "b"])
    if suffix == "npy":
        np.save(path, COSTS)
    elif suffix == "npz":
        np.savez(path, c=COSTS)
    elif suffix == "csv":
        frame.to_csv(path, index=False)
    elif suffix == "nc":
        frame.to_xarray().to_netcdf(path, engine="h5netcdf")
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    found = commands.read_data(path)
    found = (
        found["c"]
        if suffix == "npz"
        else np.stack([found["a"], found["b"]], 1)
        if suffix == "nc"
        else found
    )
    np.testing.assert_allclose(np.asarray(found), COSTS)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("problem.py", "expected a file and a name in it, as in problem.py:game"),
        ("nothing.py:game", "there is no file 'nothing.py'"),
        ("problem.py:gmae", "has no 'gmae'; expected one of game, unknown"),
        ("problem.py:number", "which is of class int; expected a taut.Problem"),
    ],
)
def test_problems_that_are_not_there(folder, where, message):
    assert message in called("run", where, "-d", "costs.csv", fails=True)


def test_names_fit_eighty_columns_and_brackets_survive(folder):
    for words in (
        ("learners",),
        ("recommend", "-R", "1", "-f", "1", "-g", "1.5", "-T", "1000", "--all"),
    ):
        text = called(*words)
        assert "…" not in text
        for name in taut.LEARNERS:
            assert name in text
    assert "[OPTIONS]" in called("bound", "--help")


def test_completion_knows_the_learners():
    assert "clipped-ogd" in commands.learner_names("clip")
    assert "--install-completion" in called("--help")

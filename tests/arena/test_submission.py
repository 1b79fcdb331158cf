"""Submissions are scored from their decisions; the frozen suite notices streams that change."""

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import taut
from taut.arena import STREAMS, results, submission, suite
from taut.cli.main import app

FROZEN = json.loads((Path(__file__).parent / "arena-1.json").read_text())


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAUT_ARENA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def played():
    stream = STREAMS["polytope"]
    return taut.simulate(
        "clipped-ogd", stream.problem, stream.data(2, 32), seeds=2, record="decisions"
    )


FACTS = {"learner": "theirs", "origin": "their code"}


@pytest.fixture
def folder(tmp_path, played):
    return submission.write_submission(
        tmp_path / "theirs", {("polytope", 32): np.asarray(played.decisions)}, **FACTS
    )


def test_numbers_from_decisions_are_those_of_a_simulation(folder, played):
    checked = submission.check(folder)
    assert checked.complaints == ()
    (result,) = checked.results
    stream = STREAMS["polytope"]
    run = taut.simulate(
        "clipped-ogd",
        stream.problem,
        stream.data(2, 32),
        seeds=2,
        score=stream.rows,
        record=("decisions", "excess"),
    )
    np.testing.assert_array_equal(run.decisions, played.decisions)
    best = taut.hindsight(stream.rows, stream.data(2, 32), seeds=2)
    expected = taut.metrics.measured(run, best.loss) | {
        "violating rounds": taut.metrics.violating_rounds(run)
    }
    assert set(result.values) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(result.values[name], values, rtol=1e-6, atol=1e-9)
    assert max(result.values["violating rounds"]) > 0


def change(folder, **entries):
    path = folder / submission.FILE
    told = json.loads(path.read_text())
    for name, value in entries.items():
        (told["entries"][0] if name in told["entries"][0] else told)[name] = value
    path.write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stream": "polytop"}, "streams: got 'polytop'"),
        ({"stream_version": 7}, "stream_version: got 7; expected 1"),
        ({"horizon": 31}, "got the shape"),
        ({"seeds": "0.1.0"}, "other seeds or other data"),
        ({"stream": "polytope-thin", "data": "x"}, "checksum x; expected"),
        ({"decisions": "../theirs.npy"}, "inside of the submission"),
        ({"decisions": "nothing.npy"}, "no array in a .npy file"),
        ({"stream": "noisy-polytope"}, "noisy or bandit feedback"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_stored(folder, tmp_path, changes, text):
    change(folder, **changes)
    checked = submission.check(folder)
    assert checked.results == ()
    with pytest.raises(ValueError, match=text):
        raise ValueError(checked.complaints[0])
    with pytest.raises(ValueError, match="entry 0"):
        submission.add_submission(tmp_path / "board", folder)
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"suite": "arena 0"}, "suite 'arena 0'"),
        ({"format": 2}, "another format"),
        ({"learner": "half-space"}, "learner: got 'half-space'"),
        ({"origin": "taut"}, "origin: got 'taut'"),
        ({"entries": []}, "no entries"),
        ({"entries": [3]}, "no entries"),
    ],
)
def test_a_file_that_is_no_submission_is_refused(folder, changes, text):
    path = folder / submission.FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ValueError, match=text):
        submission.check(folder)
    path.write_text("[" * 10)
    with pytest.raises(ValueError, match="cannot be read"):
        submission.check(folder)


def test_decisions_outside_of_the_domain_are_refused(folder):
    file = folder / "polytope-32.npy"
    decisions = np.load(file)
    decisions[1, 3, 0] += 5.0
    np.save(file, decisions)
    (text,) = submission.check(folder).complaints
    assert "outside of the domain" in text
    decisions[1, 3, 0] = np.nan
    np.save(file, decisions)
    assert "not finite" in submission.check(folder).complaints[0]
    np.save(file, decisions + 1j)
    assert "without real numbers" in submission.check(folder).complaints[0]
    with file.open("wb") as archive:
        np.savez(archive, decisions)
    assert "without real numbers" in submission.check(folder).complaints[0]


def test_the_commands_check_and_add(folder, tmp_path):
    done = CliRunner().invoke(app, ["arena", "check", str(folder)])
    assert (done.exit_code, "polytope, 32 rounds, 2 seeds" in done.stdout) == (0, True)
    board = tmp_path / "board"
    added = CliRunner().invoke(app, ["arena", "add-result", str(board), str(folder), "--json"])
    assert added.exit_code == 0, added.output
    (result,) = results.read_all(board).values()
    assert (result.learner, result.origin) == ("theirs", "their code")
    change(folder, horizon=31)
    assert CliRunner().invoke(app, ["arena", "check", str(folder)]).exit_code == 1


def test_seeds_of_a_release_are_verified_and_do_not_join_the_board(tmp_path):
    stream = STREAMS["polytope"]
    chosen = suite.seeds_of("0.1.0", 2)
    assert len(set(suite.seeds_of("0.1.0"))) == 10
    assert min(chosen) >= 10  # none of the public ones
    still = np.tile(np.asarray(stream.rows.domain.centre), (2, 32, 1))
    folder = submission.write_submission(
        tmp_path / "x", {("polytope", 32): still}, seeds="0.1.0", **FACTS
    )
    checked = submission.check(folder)
    assert checked.complaints == ()
    data = stream.data(chosen, 32)
    assert not np.array_equal(data, stream.data(2, 32))
    with pytest.raises(ValueError, match="other seeds than the public ones"):
        submission.add_submission(tmp_path / "board", folder)
    with pytest.raises(ValueError, match="expected at most the 1 of the stream"):
        STREAMS["dispatch"].data(chosen, 32)


def facts_of(stream):
    """A checksum of the data, and loss and constraints of the first round at a point near the
    centre."""
    data = stream.data((0,), 64)
    first = stream.rows.round(jax.tree.map(lambda a: a[0, 0], data))
    point = jnp.asarray(stream.rows.domain.project(stream.rows.domain.centre + 0.1))
    return {
        "version": stream.version,
        "data": suite.checksum(data),
        "loss": float(first.loss(point)),
        "constraints": float(np.abs(first.constraints(point).values).sum()),
    }


def test_the_suite_lists_all_streams_of_this_package():
    assert set(suite.STREAM_VERSIONS) == set(STREAMS)
    assert all(suite.in_suite(one) for one in STREAMS.values())
    assert {name: one["version"] for name, one in FROZEN.items()}.items() <= (
        suite.STREAM_VERSIONS.items()
    )


@pytest.mark.parametrize("name", sorted(FROZEN))
def test_streams_of_the_frozen_suite_do_not_change(name):
    stream = STREAMS[name]
    if stream.missing():
        pytest.skip(stream.missing())
    found = facts_of(stream)
    expected = FROZEN[name]
    assert found["data"] == expected["data"], "another version of the stream is needed"
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-9, abs=1e-12)
    assert found["constraints"] == pytest.approx(expected["constraints"], rel=1e-9)


def test_a_stream_that_changes_leaves_the_suite(folder, monkeypatch):
    from dataclasses import replace

    newer = replace(STREAMS["polytope"], version=2)
    assert not suite.in_suite(newer)
    monkeypatch.setattr(submission, "stream_of", lambda name: newer)
    change(folder, stream_version=2)
    assert "expected 1, as in arena 1" in submission.check(folder).complaints[0]
    shutil.rmtree(folder)

"""The contest: which learners play, results that do not depend on how they were computed, bounds,
commands, others' learners."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import taut
from taut.arena import STREAMS, play, results, run
from taut.arena.entries import FACTORS, card_of, entries, reason_against, variants
from taut.cli.main import app
from taut.learners.guarantee import Assumes

SMALL = {
    "learners": ["half-space", "clipped-ogd"],
    "streams": ["toy"],
    "horizons": (32, 64),
    "seeds": 2,
    "progress": False,
}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arena")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAUT_ARENA_CACHE", str(folder / "cache"))
        return play(folder, **SMALL)


def files(folder, kind="results"):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / kind).rglob("*.json"))
    }


@pytest.mark.parametrize(
    ("learner", "stream", "reason"),
    [
        ("half-space", "toy", ""),
        ("yu-neely", "polytope", ""),
        ("yu-neely", "toy", "not affine"),
        ("yu-neely", "pool-random", "change"),
        ("half-space-strong", "toy", "not strongly convex"),
        ("half-space-strong", "toy-strong", ""),
        ("projected-ogd", "toy", ""),
        ("projected-ogd", "polytope", "no exact projection"),
        ("dual-mirror", "ad-pacing", ""),
        ("dual-mirror", "toy", "request first"),
        ("half-space", "ad-pacing", "before the decision"),
        ("drift-plus-penalty", "polytope", ""),
        ("drift-plus-penalty", "polytope-flat", "Slater"),
        ("clipped-ogd", "gradual-slater-0.3", "no decision is feasible in every round"),
        ("clipped-ogd", "gradual-slater-0.7", ""),
        ("drift-plus-penalty", "gradual-slater-0.3", ""),
        ("bounded-game", "doubly-stochastic", "Slater"),
    ],
)
def test_learners_play_where_they_apply_and_the_others_have_a_reason(learner, stream, reason):
    found = reason_against(taut.LEARNERS[learner], STREAMS[stream])
    assert reason in found
    assert bool(found) == bool(reason)


def test_every_learner_plays_somewhere_and_nothing_is_lost():
    streams = [STREAMS[name] for name in ("toy", "toy-strong", "polytope", "ad-pacing")]
    wanted, left_out = entries(streams, taut.LEARNERS.values(), (16, 32), 2)
    assert {one.card.name for one in wanted} == {
        name for name, card in taut.LEARNERS.items() if "full" in card.feedback
    }
    assert len({one.name for one in wanted}) == len(wanted)
    played, reasons = (
        {(one.stream.name, one.card.name) for one in wanted},
        {(s, name) for s, name, _ in left_out},
    )
    assert played | reasons == {
        (stream.name, learner) for stream in streams for learner in taut.LEARNERS
    }
    assert not played & reasons
    tuned, _ = entries(streams[:1], [taut.LEARNERS["clipped-ogd"]], (16, 32), 2, grid=True)
    assert [(one.variant == "theory", one.horizon) for one in tuned] == [(True, 16), (True, 32)] + [
        (False, 32)
    ] * len(FACTORS)


def test_a_method_that_takes_a_hundred_times_as_long_plays_only_if_it_is_named():
    streams, cards = [STREAMS["polytope"], STREAMS["nested-boxes"]], [taut.LEARNERS["cvv-pro"]]
    wanted, left_out = entries(streams, cards, (16,), 2, patient=False)
    assert [one.stream.name for one in wanted] == ["nested-boxes"]
    assert "64 rows takes too long" in left_out[0][2]
    assert len(entries(streams, cards, (16,), 2)[0]) == 2


def test_the_grid_changes_one_number_that_the_learner_is_told():
    made = dict(variants(taut.LEARNERS["clipped-ogd"], STREAMS["toy"], 100, grid=True))
    assert list(made) == ["theory", *(f"loss_lipschitz x {factor:g}" for factor in FACTORS)]
    known = STREAMS["toy"].problem.constants
    told = known.with_values(loss_lipschitz=4 * known.loss_lipschitz)
    assert made["loss_lipschitz x 4"] == taut.ClippedOGD.tuned(told, 100)
    assert "start_up x 4" in dict(
        variants(taut.LEARNERS["half-space"], STREAMS["toy"], 100, grid=True)
    )


def test_regret_and_violation_are_those_of_a_simulation(played):
    stream = STREAMS["toy"]
    data = stream.data(2, 64)
    single = taut.simulate("clipped-ogd", stream.problem, data, seeds=2)
    totals = data.sum(axis=1)
    best = -np.abs(totals).max(axis=1)  # the best vertex of the l1 ball
    found = results.read_all(played.folder)["toy", "clipped-ogd", "theory", 64]
    np.testing.assert_allclose(found.values["regret"], single.loss.sum(axis=1) - best, rtol=1e-7)
    np.testing.assert_allclose(
        found.values["violation"], np.maximum(single.excess, 0).sum(axis=1), rtol=1e-12
    )
    assert found.bounds["regret"] >= max(found.values["regret"])
    assert played.broken == ()
    assert played.cells == 2 * 2 + 2 * len(FACTORS)


def test_the_same_call_continues_and_gives_the_same_files(played, tmp_path, monkeypatch):
    monkeypatch.setenv("TAUT_ARENA_CACHE", str(tmp_path / "cache"))
    again = play(played.folder, **SMALL)
    assert (again.cells, again.new) == (played.cells, 0)
    first = files(played.folder)
    other = play(tmp_path / "other", **SMALL)
    assert files(other.folder) == first
    # Interrupted: some runs and some results are missing, and one result was half written
    # elsewhere.
    for path in (
        sorted((other.folder / "runs").rglob("*.npz"))[::3]
        + sorted((other.folder / "results").rglob("*.json"))[::2]
    ):
        path.unlink()
    resumed = play(other.folder, **SMALL)
    assert resumed.new > 0
    assert files(other.folder) == first


def test_a_bound_that_is_exceeded_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUT_ARENA_CACHE", str(tmp_path / "cache"))

    def boastful(learner, setting, horizon):
        return (taut.Guarantee("violation", 1e-6, "a wrong theorem"),)

    monkeypatch.setattr(taut.ClippedOGD, "guarantees", boastful)
    found = play(tmp_path, **SMALL | {"learners": ["clipped-ogd"], "horizons": (64,)}, grid=False)
    assert len(found.broken) == 1
    assert "a wrong theorem" in found.broken[0]
    assert "exceeds 1e-06" in found.broken[0]


def test_bounds_that_do_not_apply_to_a_stream_are_not_checked():
    wanted, _ = entries(
        [STREAMS["drifting-fast"], STREAMS["gradual-slater-0.7"], STREAMS["toy"]],
        [taut.LEARNERS["clipped-ogd"]],
        (64,),
        1,
    )
    kinds = {one.stream.name: set(run._bounds(one)) for one in wanted}
    assert "regret" in kinds["toy"]
    assert "regret" not in kinds["drifting-fast"] | kinds["gradual-slater-0.7"]
    assert "violation" in kinds["drifting-fast"] & kinds["gradual-slater-0.7"]


def test_under_noise_everybody_plays_and_only_bounds_that_cover_noise_are_checked():
    stream = STREAMS["noisy-polytope"]
    cards = [taut.LEARNERS[name] for name in ("averaged", "clipped-ogd")]
    (averaged, clipped), _ = entries([stream], cards, (64,), 1)
    assert float(averaged.learner.sigma) == pytest.approx(
        0.3 / 3**0.5
    )  # the standard deviation of the errors
    assert {"regret", "violation"} <= set(run._bounds(averaged))
    assert run._bounds(clipped) == {}
    assert clipped.cell().feedback is stream.feedback
    assert clipped.cell().unproven
    assert not entries([STREAMS["polytope"]], cards[1:], (64,), 1)[0][0].cell().unproven


def test_with_values_only_learners_that_estimate_gradients_play_at_their_own_points():
    wanted, left_out = entries([STREAMS["bandit-pool"]], taut.LEARNERS.values(), (64,), 1)
    assert {one.card.name: one.cell().feedback.points for one in wanted} == {
        "two-point": 2,
        "one-point": 1,
    }
    assert {reason for _, _, reason in left_out} >= {"it needs gradients, and only values are seen"}
    assert len(wanted) + len(left_out) == len(taut.LEARNERS)
    assert all({"regret", "violation"} <= set(run._bounds(one)) for one in wanted)


def test_on_batches_all_learners_see_the_rows_and_averages_are_told_the_errors():
    stream = STREAMS["fair-batches"]
    (averaged, clipped), _ = entries(
        [stream], [taut.LEARNERS[name] for name in ("averaged", "clipped-ogd")], (64,), 1
    )
    assert clipped.problem is averaged.problem is stream.rows
    told = {name: float(getattr(averaged.learner, name)) for name in stream.told}
    assert told == pytest.approx(dict(stream.told))
    assert set(run._bounds(averaged)) >= {"regret", "violation"}
    assert run._bounds(clipped) == {}


def test_the_grid_is_played_for_a_number_of_rounds_that_all_afford(monkeypatch):
    monkeypatch.setattr("taut.arena.entries.GRID_ROUNDS", 32)
    found, _ = entries([STREAMS["toy"]], [taut.LEARNERS["clipped-ogd"]], (16, 32, 64), 2, grid=True)
    assert {one.horizon for one in found if one.variant != "theory"} == {32}
    alone, _ = entries([STREAMS["toy"]], [taut.LEARNERS["clipped-ogd"]], (64,), 2, grid=True)
    assert {one.horizon for one in alone if one.variant != "theory"} == {64}


MINE = """
import taut

@taut.learner_dataclass
class Still(taut.Learner):
    step_size: float = 0.0

    def init(self, x1, count):
        return taut.learners.State(x1, taut.learners.base.first_round())

    def step(self, state, round):
        return state._replace(t=state.t + 1)

number = 3
"""


def test_a_learner_of_somebody_else_joins_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUT_ARENA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_package.py").write_text(MINE)
    words = [
        "arena",
        "run",
        "-l",
        "my_package:Still",
        "-s",
        "toy",
        "-T",
        "2^5",
        "--seeds",
        "2",
        "-o",
        "out",
        "--json",
    ]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert (told["cells"], told["new"], told["failed"], told["broken"]) == (1, 1, [], [])
    printed = (
        CliRunner()
        .invoke(app, ["arena", "report", "out", "--latex"], catch_exceptions=False)
        .stdout
    )
    assert "my\\_package:Still" in printed
    for name, text in (
        ("my_package:Nothing", "which is None"),
        ("no_package:X", "cannot be imported"),
        ("half-spice", "half-space"),
    ):
        with pytest.raises(ValueError, match=text):
            card_of(name)
    with pytest.raises(ValueError, match=r"expected a taut\.Card"):
        card_of("my_package:number")


def test_the_commands_say_what_is_skipped_and_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr(
        type(STREAMS["toy"]),
        "missing",
        lambda self: "its data are elsewhere" if self.requires else "",
    )
    done = CliRunner().invoke(
        app, ["arena", "run", "-s", "ad-clicks", "-o", str(tmp_path / "x")], catch_exceptions=False
    )
    assert "ad-clicks is skipped: its data are elsewhere" in done.stdout
    for words, text in (
        (["-T", "many"], "--horizons: got 'many'"),
        (["-s", "toyy"], "streams: got 'toyy'"),
        (["-T", "0"], "horizons: got 0"),
        (["--seeds", "0"], "seeds: got 0"),
    ):
        wrong = CliRunner().invoke(app, ["arena", "run", *words, "-o", str(tmp_path / "x")])
        assert text in str(wrong.exception)


def test_a_bound_on_the_expectation_is_exceeded_if_its_interval_is_above_it(monkeypatch):
    (entry,), _ = entries([STREAMS["toy"]], [taut.LEARNERS["clipped-ogd"]], (64,), 3)
    bound = taut.Guarantee("violation", 1.0, "a theorem", expected=True)
    monkeypatch.setattr(run, "_bounds", lambda entry: {"violation": bound})
    names = run.MEASURED

    def broken(values):
        rows = [{"loss": 1.0, **{f"arena {name}": value for name in names}} for value in values]
        return run._result(entry, rows, np.zeros(len(values))).broken

    assert "a theorem" in broken([5.0, 5.1, 4.9])[0]
    assert not broken([0.9, 1.2, 1.1])
    assert not broken([5.0])  # one seed says nothing about an expectation


def test_bounds_for_independent_rounds_are_not_checked_on_other_streams(monkeypatch):
    def stochastic(learner, setting, horizon):
        return (taut.Guarantee("violation", 1.0, "a theorem", (str(Assumes.STOCHASTIC),)),)

    monkeypatch.setattr(taut.ClippedOGD, "guarantees", stochastic)
    (entry,), _ = entries([STREAMS["toy"]], [taut.LEARNERS["clipped-ogd"]], (64,), 1)
    assert run._bounds(entry) == {}
    requests = replace(entry, stream=replace(entry.stream, setting="requests"))
    assert set(run._bounds(requests)) == {"violation"}


def test_an_interrupted_run_has_the_results_of_finished_streams(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUT_ARENA_CACHE", str(tmp_path / "cache"))
    wanted = SMALL | {
        "streams": ["toy", "switching"],
        "learners": ["clipped-ogd"],
        "horizons": (32,),
    }
    real = run._stored

    def interrupted(folder, played, *rest):
        if played[0].stream.name == "switching":
            raise KeyboardInterrupt
        return real(folder, played, *rest)

    monkeypatch.setattr(run, "_stored", interrupted)
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, **wanted)
    assert {key[0] for key in results.read_all(tmp_path)} == {"toy"}
    assert results.read_json(tmp_path / "machine.json")["taut"]
    assert CliRunner().invoke(app, ["arena", "report", str(tmp_path)]).exit_code == 0
    monkeypatch.setattr(run, "_stored", real)
    resumed = play(tmp_path, **wanted)
    assert resumed.new == resumed.cells // 2  # those of the second stream
    assert {key[0] for key in results.read_all(tmp_path)} == {"toy", "switching"}


def test_logs_have_lines_and_jobs_exclude_a_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUT_ARENA_CACHE", str(tmp_path / "cache"))
    words = ["arena", "run", "-l", "clipped-ogd", "-s", "toy", "-T", "32", "--seeds", "1"]
    words += ["--no-grid", "-o", str(tmp_path / "x")]
    done = CliRunner().invoke(app, [*words, "--jobs", "1"], catch_exceptions=False)
    assert "1/1 cells" in done.stderr
    again = CliRunner().invoke(app, [*words, "--jobs", "1"], catch_exceptions=False)
    assert "1/1 cells (1 from an earlier run)" in again.stderr
    both = CliRunner().invoke(app, [*words, "--jobs", "1", "--scheduler", "tcp://x:1"])
    assert "--jobs: got a number beside --scheduler" in str(both.exception)
    none = CliRunner().invoke(app, [*words, "--jobs", "0", "--retry", "-T", "64"])
    assert "got 0" in str(none.exception)

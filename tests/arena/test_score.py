"""Scores, ranks and fronts of results with known numbers, their files, and the tables made of
them."""

import dataclasses
import json
import re
import shutil

import made_results
import numpy as np
import pytest

from taut.arena import STREAMS, report, results, score, statistics
from taut.arena.report import page, tables
from taut.arena.score import board, boards_of, exponents, front, leaderboard


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made_results.write(tmp_path_factory.mktemp("arena"))


@pytest.fixture(scope="module")
def stored(folder):
    return results.read_all(folder)


def test_the_best_of_the_grid_is_taken_where_the_grid_was_played():
    found = [made_results.made("toy", "mine", T) for T in (512, 1024)]
    found += [
        made_results.made("toy", "mine", 512, "loss_lipschitz x 4", factor) for factor in (0.5,)
    ]
    listed = {one.key: one for one in found}
    assert board(listed, STREAMS["toy"]).horizon == 1024
    tuned = board(listed, STREAMS["toy"], tuned=True)
    assert (tuned.horizon, tuned["mine"].result.variant) == (512, "loss_lipschitz x 4")
    del listed["toy", "mine", "loss_lipschitz x 4", 512]
    assert board(listed, STREAMS["toy"], tuned=True).horizon == 1024


def test_the_score_is_the_share_of_targets_and_its_parts_add_up(stored):
    boards = [board(stored, STREAMS[name]) for name in ("toy", "polytope")]
    found = leaderboard(boards)
    wobble = 1 + 0.02 * np.sin(np.arange(4) + len("mine"))
    hits = []
    for name in ("toy", "polytope"):
        known, diameter = STREAMS[name].problem.constants, 2.0
        regret, violation = np.array([8.0, 90.0]) * np.sqrt(2) / (diameter * np.sqrt(2048))
        for seed in wobble:
            r = regret * seed / known.loss_lipschitz
            v = violation * seed / known.constraint_lipschitz
            pairs = [(a, b) for a in statistics.TARGETS for b in statistics.TARGETS]
            hits.append(np.mean([r <= a and v <= b for a, b in pairs]))
    assert found["mine"].score.mean == pytest.approx(np.mean(hits), rel=1e-12)
    for one in found.standings:
        missed = one.missed_regret + one.missed_violation + one.missed_both
        assert one.score.mean + missed == pytest.approx(1.0)
        assert one.score.low <= one.score.mean <= one.score.high
    assert found["clipped-ogd"].missed_regret == 0  # negative regret hits all targets of regret
    assert found["clipped-ogd"].columns["feasible rounds"] == pytest.approx(0.75)


def test_only_learners_that_played_everywhere_are_ranked(stored):
    found = leaderboard(boards_of(stored))
    assert [(one.learner, one.rank) for one in found.standings] == [
        ("clipped-ogd", 1),
        ("half-space", 2),
        ("mine", 3),
        ("poor", None),
    ]
    assert found.standings[-1].streams == 2
    assert found.better["clipped-ogd", "mine"] == 1
    assert found.families == ("toy", "toy", "polytope")
    assert leaderboard(()).standings == ()


def lines_of(values, stream="toy"):
    """A board of learners with these violations by seed, and no regret."""
    lines = []
    for name, violation in values.items():
        one = made_results.made(stream, "mine", 1024, seeds=len(violation))
        one = dataclasses.replace(one, learner=name)
        lines.append(score.Line(name, one, np.zeros(len(violation)), np.asarray(violation)))
    return score.Board(STREAMS[stream], 1024, tuple(lines))


def test_learners_that_the_bootstrap_cannot_separate_share_a_rank():
    rng = np.random.default_rng(0)

    def noise(centre):
        return centre * 10 ** (0.3 * rng.normal(size=10))

    found = leaderboard([lines_of({"a": noise(0.1), "b": noise(0.11), "c": noise(3.0)})])
    assert {one.learner: one.rank for one in found.standings} == {"a": 1, "b": 1, "c": 3}
    assert found["a"].ranks == (1, 2)
    assert found["c"].ranks == (3, 3)
    certain = leaderboard([lines_of({"a": [0.1], "b": [0.2]})])
    assert certain["a"].score.low == certain["a"].score.high  # nothing to draw from


def test_a_family_has_one_vote_however_many_streams_it_has():
    good, bad = {"a": [1e-6], "b": [1e3]}, {"a": [1e3], "b": [1e-6]}
    boards = [lines_of(good, "toy"), lines_of(good, "toy-strong"), lines_of(bad, "pool-random")]
    found = leaderboard(boards)
    assert found["a"].score.mean == pytest.approx(found["b"].score.mean) == 0.5
    ways = {way: leader for way, leader, _ in score.sensitivity(boards)}
    assert ways["one vote per stream"] == "a"
    assert ways["without the family toy"] == "b"


def test_a_stream_with_large_numbers_decides_the_plain_mean_only():
    large = lines_of({"a": [90.0], "b": [80.0], "c": [85.0]}, "toy")
    small = [
        lines_of({"a": [0.01], "b": [0.1], "c": [0.2]}, name)
        for name in ("polytope", "pool-random")
    ]
    ways = {way: leader for way, leader, _ in score.sensitivity([large, *small])}
    assert ways["mean of regret part + violation part"] == "b"
    assert ways["the same, in units of the median learner of each stream"] == "a"


def test_the_unit_of_a_stream_does_not_depend_on_its_number_of_seeds():
    many = lines_of({"a": [1.0] * 4, "b": [1.4] * 4, "c": [1.6] * 4}, "toy")
    few = lines_of({"a": [1.6], "b": [1.4], "c": [1.5]}, "polytope")  # a loses less above
    ways = {way: leader for way, leader, _ in score.sensitivity([many, few])}
    assert ways["the same, in units of the median learner of each stream"] == "a"


def test_one_perfect_stream_changes_a_score_by_its_weight_at_most():
    names = ("toy", "polytope", "pool-random", "nested-boxes")
    plain = [lines_of({"a": [0.1], "b": [0.1]}, name) for name in names]
    perfect = [lines_of({"a": [0.0], "b": [0.1]}, names[0]), *plain[1:]]
    gain = leaderboard(perfect)["a"].score.mean - leaderboard(plain)["a"].score.mean
    assert 0 < gain <= 0.25


def test_streams_with_fewer_seeds_weigh_the_same():
    boards = [lines_of({"a": [0.1, 0.1, 0.1]}, "toy"), lines_of({"a": [1e3]}, "pool-random")]
    alone = leaderboard(boards[:1])["a"].score.mean
    assert leaderboard(boards)["a"].score.mean == pytest.approx(alone / 2)


def test_the_front_holds_the_learners_that_no_other_one_beats_twice(stored):
    lines = board(stored, STREAMS["toy"]).lines
    assert front(lines) == {"half-space", "clipped-ogd"}
    assert front([line for line in lines if line.learner != "half-space"]) == {"clipped-ogd"}


def test_growth_is_measured_on_the_upper_half_of_the_horizons(stored):
    rates = exponents(stored, "toy", "half-space")
    assert rates["regret"].exponent == pytest.approx(0.5)
    assert np.isnan(
        exponents(stored, "toy", "clipped-ogd")["regret"].exponent
    )  # negative regret has no exponent


def test_the_grid_is_kept_apart_from_theory(stored):
    theory, tuned = (board(stored, STREAMS["toy"], tuned=flag)["mine"] for flag in (False, True))
    assert (theory.result.variant, tuned.result.variant) == ("theory", "loss_lipschitz x 4")
    np.testing.assert_allclose(tuned.regret, theory.regret / 2)
    assert tuned.score > theory.score


def test_results_are_written_once_and_never_changed(tmp_path):
    first = made_results.made("toy", "mine", 256)
    assert results.write(tmp_path, first) is True
    assert results.write(tmp_path, first) is False
    with pytest.raises(ValueError, match="never overwritten"):
        results.write(tmp_path, made_results.made("toy", "mine", 256, factor=2.0))
    newer = made_results.made("toy", "mine", 256, factor=3.0, version="0.2.0")
    assert results.write(tmp_path, newer)
    (found,) = results.read_all(tmp_path).values()
    assert found == newer
    assert len(list((tmp_path / "results" / "toy").iterdir())) == 2  # the older one is kept
    with pytest.raises(FileNotFoundError, match="without results"):
        results.read_all(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"format": 2}', b'{"format": 1, "stream": "toy"}', b"\xff"]
)
def test_damaged_files_are_named(tmp_path, content):
    path = tmp_path / "results" / "toy" / "x.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.json: got a damaged or foreign file"):
        results.read_all(tmp_path)


def test_a_changed_digit_and_a_swapped_file_are_noticed(tmp_path):
    for learner in ("mine", "poor"):
        results.write(tmp_path, made_results.made("toy", learner, 256))
    first, second = sorted((tmp_path / "results" / "toy").iterdir())
    text = first.read_text()
    digit = text.index(".", text.index("regret")) + 1
    first.write_text(text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :])
    with pytest.raises(ValueError, match=r"damaged or foreign file .*checksum is wrong"):
        results.read_all(tmp_path)
    first.write_text(second.read_text())
    with pytest.raises(ValueError, match="contains the result that belongs into"):
        results.read_all(tmp_path)
    first.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="damaged or foreign file"):
        results.read_all(tmp_path)
    entries = json.loads(text)
    del entries["sha256"]
    first.write_text(json.dumps(entries))
    with pytest.raises(ValueError, match=r"damaged or foreign file .*sha256"):
        results.read_all(tmp_path)


def test_files_beside_the_results_grow_and_have_a_checksum(tmp_path):
    path = tmp_path / "times.json"
    assert results.read_json(path) == {}
    results.update_json(path, {"one": 1.5})
    results.update_json(path, {"other": 2.5})
    assert results.read_json(path) == {"one": 1.5, "other": 2.5}
    text = path.read_text()
    for content, reason in (
        (text.replace("1.5", "1.25"), "checksum is wrong"),
        (text[:10], ""),
        ("[]", ""),
        ('{"one": 1.5}', "sha256"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=rf"times.json: got a damaged or foreign .*{reason}"):
            results.read_json(path)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": 5}, "version: got 5"),
        ({"stream_version": "x"}, "stream_version: got"),
        ({"bounds": {"regret": "x"}}, "bounds: got"),
        ({"broken": (3,)}, "broken: got"),
        ({"values": {"regret": (1.0,)}}, "none for 'violation'"),
        ({"values": {"regret": (1.0,), "violation": (-1.0,)}}, "not negative"),
        ({"values": {"regret": (1.0, 2.0), "violation": (1.0,)}}, "the same number"),
        ({"values": {"regret": (float("nan"),), "violation": (1.0,)}}, "finite number per seed"),
        ({"values": {"regret": (1.0,), "violation": (1.0,), "speed": (1.0,)}}, "got 'speed'"),
        ({"horizon": 0}, "horizon: got 0"),
        ({"learner": ""}, "learner: got ''"),
    ],
)
def test_results_check_what_they_are_given(changes, text):
    given = {
        "stream": "toy",
        "stream_version": 1,
        "learner": "x",
        "variant": "theory",
        "horizon": 8,
    }
    given["values"] = {"regret": (1.0,), "violation": (1.0,)}
    with pytest.raises((TypeError, ValueError), match=text):
        results.Result(**{**given, **changes})


def test_the_table_of_all_results_has_a_row_per_seed(folder, stored):
    table = results.index(folder, stored.values())
    assert len(table) == sum(one.seeds for one in stored.values())
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(folder / "index.parquet")["regret"].to_pylist() == list(
        table["regret"]
    )


def test_submitted_results_join_the_leaderboard(tmp_path):
    folder = made_results.write(tmp_path)
    theirs = dataclasses.replace(
        made_results.made("toy", "half-space", 2048), learner="theirs", origin="their code"
    )
    values = {"regret": (1.5, 1.6), "violation": (0.5, 0.4), "excess": (-3.0, -2.0)}
    results.write(folder, dataclasses.replace(theirs, values=values))
    found = board(results.read_all(folder), STREAMS["toy"])
    assert found.lines[0].learner == "theirs"
    assert found.lines[0].result.origin == "their code"


def test_names_of_submitted_results_are_texts_in_every_table(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # so that no name is broken
    folder = shutil.copytree(folder, tmp_path / "results")
    name = "$\\input{x}$ `a`|[/b]\n% <b>"
    for stream in {one.stream for one in results.read_all(folder).values()}:
        for horizon in made_results.HORIZONS:
            submitted = dataclasses.replace(
                made_results.made(stream, "mine", horizon), learner=name
            )
            results.write(folder, submitted)
    paper = tables.latex(folder, (name, "mine"))
    assert r"\$\textbackslash{}input\{x\}\$ `a`|[/b] \% <b> & " in paper
    rows = [line for line in tables.markdown(folder).splitlines() if "input" in line]
    for row in (line for line in rows if line.startswith("| ")):
        assert "| `$\\input{x}$ 'a'\\|[/b] % <b>` |" in row
        assert len(re.findall(r"(?<!\\)\|", row)) == 1 + len(tables.DOCUMENTED)
    assert rows
    assert "[/b]" in report.text(folder)


def test_reasons_that_are_no_json_are_blamed_on_their_file(folder, tmp_path):
    folder = shutil.copytree(folder, tmp_path / "results")
    (folder / "left_out.json").write_text("{")
    with pytest.raises(ValueError, match=r"left_out.json: got a damaged or foreign file"):
        page.payload(folder)


def test_tables_for_documentation_paper_and_terminal(folder, tmp_path):
    file = tmp_path / "arena.md"
    file.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n")
    tables.write_docs(folder, file)
    text = file.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| 1 | `clipped-ogd` |" in text
    assert "0 were exceeded" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| `toy` |")]
    assert row.count("|") == 8  # the bars of |x_1| do not end cells
    assert f"{tables.markdown(folder)}{tables.END}" in text  # once more changes nothing
    paper = tables.latex(folder)
    assert r"\multicolumn{2}{c}{polytope}" in paper
    assert "poor" not in paper  # it did not play on every stream
    assert paper.count(r"\\") == 2 + 3
    assert "poor" in tables.latex(folder, ("poor", "mine"))
    assert r"at most $0.001\,G_g D$ per round" in paper
    shown = report.text(folder)
    assert "half-space" in shown
    assert max(map(len, shown.splitlines())) <= 80
    with pytest.raises(ValueError, match="without the lines"):
        tables.write_docs(folder, folder / "left_out.json")


def test_what_was_left_out_is_kept(folder):
    assert results.read_json(folder / "left_out.json") == {
        "toy / yu-neely": "the constraints are not affine"
    }


def test_the_bold_regret_is_the_best_of_those_that_keep_the_constraints(tmp_path):
    numbers = {  # regret, violation: the best score, the best regret, a regret that is bought
        "scored": (8.0, 0.0),
        "regretful": (3.0, 1.0),
        "violating": (-90.0, 400.0),
    }
    for name, (regret, violation) in numbers.items():
        one = made_results.made("toy", "mine", 2048)
        values = one.values | {
            "regret": tuple(regret + np.arange(4.0)),  # intervals of the means overlap
            "violation": tuple(violation + 0.01 * np.arange(4.0)),
        }
        results.write(tmp_path, dataclasses.replace(one, learner=name, values=values))
    (line,) = boards_of(results.read_all(tmp_path))
    cells = {
        row.split(" & ")[0]: row.split(" & ")[1:]
        for row in tables.latex(tmp_path).splitlines()
        if row.count(" & ") == 2
    }
    bold = {name: [r"\mathbf" in cell for cell in row] for name, row in cells.items()}
    assert bold.pop("learner") == [False, False]
    assert bold == {
        "scored": [False, True],
        "regretful": [True, False],
        "violating": [False, False],
    }
    assert line.stream.name == "toy"

"""The benchmark suite: contenders play the same game before they are timed, and results become
tables, page and figure."""

import shutil
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import batched, cases, modelling, naive, native, optax_scan, ours, page, tables
from benchmarks.compiled import bodies, operations, passes
from benchmarks.passes import LOOPS, loop_with
from benchmarks.played import difference

ROUNDS, SEEDS = 60, 3
SMALL = {
    "toy": lambda: cases.toy(ROUNDS),
    "doubly stochastic": lambda: cases.doubly_stochastic(4, ROUNDS),
    "dispatch": lambda: cases.dispatch(ROUNDS),
    "logistic, one group": lambda: cases.logistic(6, 1, 800),
    "logistic, three groups": lambda: cases.logistic(6, 3, 800),
    "logistic, long decisions": lambda: replace(
        cases.logistic(160, 1, ROUNDS), start=np.full(160, 0.25)
    ),
    "logistic, long groups": lambda: replace(
        cases.logistic(160, 4, ROUNDS), start=np.full((4, 40), 0.25)
    ),
    "polyhedron": lambda: cases.polyhedron(5, 20, ROUNDS),
}
CONTENDERS = {"NumPy": naive, "NumPy over seeds": batched, "optax": optax_scan, "taut": ours}


@pytest.mark.parametrize("name", SMALL)
def test_contenders_play_the_same_game(name):
    case = SMALL[name]()
    plays = {
        contender: module.prepare(case, SEEDS, case.horizon)()
        for contender, module in CONTENDERS.items()
    }
    assert np.count_nonzero(plays["taut"].violation), (
        "a game that never leaves the feasible set compares nothing"
    )
    for contender, played in plays.items():
        assert difference(plays["NumPy"], played) < 1e-9, contender


@pytest.mark.skipif(
    shutil.which("gcc") is None, reason="needs gcc, to build the hand-written loops"
)
@pytest.mark.parametrize("name", SMALL)
def test_the_hand_written_loops_play_it_too(name):
    case = SMALL[name]()
    reference = naive.prepare(case, SEEDS, case.horizon)()
    assert difference(reference, native.prepare(case, SEEDS, case.horizon)()) < 1e-9
    assert np.float64(1e-308) / 1e5 > 0, (
        "the library changed how the whole process rounds small numbers"
    )


def test_games_in_32_bits_are_played_in_32_bits():
    case = cases.toy(ROUNDS)
    single, double = (ours.prepare(case, 1, ROUNDS, floating=f"float{bits}")() for bits in (32, 64))
    assert single.loss.dtype == np.float32
    assert 0 < difference(single, double) < 1e-5


BODY = """
%body (arg: (f64[10,3], f64[10])) -> (f64[10,3], f64[10]) {
  %arg = (f64[10,3]{1,0}, f64[10]{0}) parameter(0)
  %x = f64[10,3]{1,0} get-tuple-element(%arg), index=0
  %t = f64[10]{0} get-tuple-element(%arg), index=1
  %sum = f64[10]{0} fusion(%x), kind=kLoop, calls=%add
  %small = f64[10]{0} fusion(%t, %sum), kind=kLoop, calls=%small_one
  %step = f64[10,3]{1,0} fusion(%x, %small), kind=kLoop, calls=%subtract
  ROOT %tuple = (f64[10,3]{1,0}, f64[10]{0}) tuple(%step, %small)
}
"""


def test_operations_and_passes_are_counted_in_the_compiled_code():
    assert operations(BODY) == ["fusion", "fusion", "fusion"]
    assert (
        passes(BODY, 30) == 2
    )  # the sum reads all decisions, the step writes them; the small one does neither


NESTED = """
%inner (a: (s32[], f64[3])) -> (s32[], f64[3]) {
  %step = f64[3]{0} fusion(%a), kind=kLoop, calls=%add
}
%outer (b: (s32[], f64[3])) -> (s32[], f64[3]) {
  %loop = (s32[], f64[3]{0}, /*index=5*/f64[]) while(%b), condition=%c, body=%inner
  %sum = f64[] fusion(%loop), kind=kLoop, calls=%add
}
ENTRY %main (d: f64[3]) -> f64[3] {
  ROOT %rounds = (s32[], f64[3]{0}) while(%d), condition=%c, body=%outer
}
"""


def test_loops_inside_a_round_are_found_too():
    assert [operations(body) for body in bodies(NESTED)] == [["fusion"], ["while", "fusion"]]


def timing(median):
    return {
        "median": median,
        "low": median,
        "high": median,
        "difference": 0.0,
        "ratio": median / 10,
    }


RESULTS = {
    "machine": {"processor": "a processor", "system": "a system", "jax": "1", "compiler": "cc"},
    "repeats": 5,
    "contenders": {
        "toy": {
            "C": timing(10.0),
            "taut, one stream": timing(45.0),
            "cooper": {"skipped": "not installed"},
        }
    },
    "targets": [
        {
            "what": "toy, one stream",
            "value": 4.5,
            "limit": 5,
            "below": True,
            "unit": "x C",
            "met": True,
        },
        {
            "what": "two cores",
            "value": 1.5,
            "limit": 1.7,
            "below": False,
            "unit": "x faster",
            "met": False,
        },
    ],
    "profile": [
        {
            "problem": "toy",
            "seeds": 1,
            "call": 4e-4,
            "round": 4e-8,
            "ratio": 3.0,
            "optax": 1.1,
            "operations": 18,
            "passes": 6,
        }
    ],
    "passes": [{"name": "step", **timing(300.0)}, {"name": "+ norm", **timing(400.0)}],
    "methods": {"toy": {"half-space": {**timing(30.0), "operations": 25}}},
    "threads": {"toy, 10 seeds each": {"faster": 1.5, "C faster": 1.8}},
    "records": {
        "toy": {"totals": timing(20.0), "metrics": timing(25.0), "everything": timing(40.0)}
    },
    "float32": {"toy, 10 seeds": {"float64": timing(20.0), "float32": timing(18.0)}},
    "memory": [{"rounds": 10**6, "recorded": "totals", "seconds": 0.1, "bytes": 2.5e8}],
    "scaling": {
        "T": {
            "what": "toy, rounds",
            "sizes": [10, 100, 1000],
            "exponents": {"taut": 0.9, "C": 1.0},
            "seconds": {"taut": [1e-3, 2e-3, 1e-2], "C": [1e-4, 1e-3, 1e-2]},
        }
    },
    "startup": {"toy": {"compile": 0.4, "from the cache": 0.1}},
}


def test_the_page_holds_what_was_measured(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    written = tmp_path / "docs" / "performance.md"
    written.write_text(
        "before\n<!-- measured: begin -->\nold figures\n<!-- measured: end -->\nafter\n"
    )
    monkeypatch.setattr(page, "PAGE", written)
    monkeypatch.setattr(page.setting, "ROOT", tmp_path)
    page.write(RESULTS)
    text = written.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old figures" not in text
    for wanted in (
        "| toy, one stream | 4.50 x C | at most 5 | yes |",
        "| two cores | 1.50 x faster | at least 1.7 | **no** |",
        "45.0 +-0% (4.50x)",
        "a processor",
        "250 |",
    ):
        assert wanted in text
    assert (tmp_path / "docs" / "benchmark.png").stat().st_size > 10_000
    page.write(RESULTS)
    assert written.read_text() == text  # once more changes nothing
    with pytest.raises(SystemExit, match="limits: begin"):
        page.put("limits", "")


def test_rows_that_are_printed_can_be_written_too():
    written = page.table(
        "A title",
        [
            {"step": "all", "seconds": 1.78, "met": True},
            {"step": "rest", "seconds": 5.0, "met": False},
        ],
    )
    assert written.splitlines() == [
        "### A title",
        "",
        "| step | seconds | met |",
        "| --- | --- | --- |",
        "| all | 1.78 | yes |",
        "| rest | 5 | **no** |",
    ]


def test_the_tables_name_what_was_missed_and_what_was_skipped(capsys):
    tables.show(RESULTS)
    shown = " ".join(capsys.readouterr().out.split())  # lines are wrapped
    assert "NO" in shown
    assert "not installed" in shown


def test_the_microgrid_is_the_same_problem_as_a_loop_and_with_vectors():
    loop, vectors = (
        modelling.model(name) for name in modelling.MODELS if name.startswith("microgrid")
    )
    values = []
    for stated, data in (loop, vectors):
        for parameter in stated.parameters():
            parameter.value = data[parameter.name()][0]
        values.append(stated.solve(solver="CLARABEL"))
    assert values[0] == pytest.approx(values[1], rel=1e-7)
    assert values[0] > 1


def test_the_loops_with_fewer_passes_play_the_same_game():
    z, start = np.random.default_rng(0).normal(size=(50, 160)), jnp.zeros(160)
    ends = [loop_with(*kind, 0.5, 2.0, 1.0)(start, z, 50) for kind in LOOPS.values()]
    assert np.linalg.norm(ends[0]) > 0.5
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=1e-11, atol=1e-13)


def test_hand_written_loops_get_arrays_at_suitable_addresses():
    case = cases.toy(100)
    assert np.asarray(case.placed(3, 50)).shape == (3, 50, 2)
    assert np.asarray(case.placed(1, 50, "float32")).dtype == np.float32
    assert np.asarray(case.placed(1, 50)).ctypes.data % 64 == 0

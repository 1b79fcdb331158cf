"""Sweeps: every executor gives the bits of `simulate`, files make them resumable, and failures stay
with their cells."""

import dataclasses
import functools
import multiprocessing
import os
import pickle
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import (
    BALL,
    CONSTANTS,
    GAME,
    ROUNDS,
    assert_bit_equal,
    distance,
    outside_diamond,
    targets,
)
from taut.play.compile import count_compiled
from taut.play.simulation import chunk_of_any_length
from taut.progress import Counter
from taut.sweeps import driver, task
from taut.sweeps.cell import prepare
from taut.sweeps.sweep import Identities

ETAS = (0.1, 0.2, 0.3)


def draw(seed, seeds=2):
    return targets(seeds=seeds, seed=seed)


def broken(seed):
    if seed == 1:
        raise ZeroDivisionError(f"no data for seed {seed}")
    return draw(seed)


def last_excess(run):
    return {
        "last": run.totals.worst_excess / run.horizon,
        "rounds": run.horizon,
        "curve": np.cumsum(np.ones((2, 3)), 1),
    }


def cells(recipe=draw, **options):
    return [
        taut.Cell(
            taut.ClippedOGD(eta, 5.0),
            GAME,
            functools.partial(recipe, seed),
            seeds=2,
            name=f"{eta} on {seed}",
            tags={"eta": eta, "stream": seed},
            **options,
        )
        for eta in ETAS
        for seed in range(2)
    ]


def wanted(cell):
    return taut.simulate(cell.learner, cell.problem, cell.stream(), seeds=2, record=cell.record)


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def assert_same(found, listed):
    for cell in listed:
        assert_bit_equal(found[cell.name], wanted(cell))


def test_threads_give_the_runs_of_simulate(tmp_path):
    listed = cells(record=("loss",), measure=last_excess)
    found = taut.sweep(listed, folder=tmp_path / "a")
    assert_same(found, listed)
    assert_same(taut.sweep(listed, 3), listed)
    with ThreadPoolExecutor(2) as threads:
        assert_same(taut.sweep(listed, threads), listed)
    table = found.to_pandas()
    assert len(table) == 12
    first = table[table.name == "0.3 on 1"].iloc[1]
    run = wanted(listed[-1])
    assert (first.eta, first.stream, first.seed, first.rounds) == (0.3, 1, 1, ROUNDS)
    assert first.violation == run.totals.worst_violation[1]
    assert first["last"] == run.totals.worst_excess[1] / ROUNDS
    assert "curve" not in table
    assert found.measures("0.3 on 1")["curve"].shape == (2, 3)
    attached = found["0.3 on 1"]
    assert attached.problem is attached.played is GAME  # so that it has a certificate
    np.testing.assert_array_equal(attached.stream.block(0, ROUNDS), draw(1))
    assert "6 of 6 cells" in repr(found)


def test_a_process_pool_gives_the_same_bits_and_the_same_files(pool, tmp_path):
    listed = cells(record=("loss",), measure=last_excess)
    found = taut.sweep(listed, pool, folder=tmp_path / "b")
    assert_same(found, listed)
    assert found.environments[0]["x64"]
    assert found.environments[0]["pid"] != os.getpid()
    again = taut.sweep(listed, folder=tmp_path / "b")  # threads find the files of the processes
    assert again.played == 0
    assert_same(again, listed)
    assert_same(taut.sweep(listed, pool), listed)


def test_functions_that_pickle_cannot_take_travel(pool):
    scale = np.float64(0.1) + 1e-12  # lost if it were cut to 32 bits
    problem = taut.Problem(lambda x, z: scale * distance(x, z), outside_diamond, BALL, CONSTANTS)
    cell = taut.Cell(taut.ClippedOGD(0.2, 5.0), problem, targets(), name="one", record=("loss",))
    assert_bit_equal(
        taut.sweep([cell], pool)["one"],
        taut.simulate(cell.learner, problem, targets(), record=("loss",)),
    )


def test_the_same_call_goes_on_where_it_was_interrupted(tmp_path):
    listed = cells()
    assert taut.sweep(listed[:2], folder=tmp_path).played == 2
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    found = taut.sweep(listed, folder=tmp_path)
    assert found.played == 4
    assert_same(found, listed)
    files = list((tmp_path / "cells").iterdir())
    assert len(files) == 6
    assert all(
        path.stat().st_mtime_ns == kept.get(path.name, path.stat().st_mtime_ns) for path in files
    )
    files[0].write_bytes(files[0].read_bytes()[:-40])  # torn
    content = bytearray(files[1].read_bytes())
    content[len(content) // 2] ^= 1
    files[1].write_bytes(content)
    found = taut.sweep(listed, folder=tmp_path)
    assert found.played == 2
    assert_same(found, listed)
    assert taut.sweep(listed[:1], folder=tmp_path).played == 0


@pytest.mark.parametrize("executor", ["threads", "pool"])
def test_a_cell_that_raises_is_listed_and_the_others_are_played(executor, pool, tmp_path):
    listed = [
        taut.Cell(
            "clipped-ogd", GAME, functools.partial(broken, s), seeds=2, horizon=9, name=str(s)
        )
        for s in range(3)
    ]
    found = taut.sweep(listed, pool if executor == "pool" else executor, folder=tmp_path)
    assert [(one.name, one.kind) for one in found.failed] == [("1", "ZeroDivisionError")]
    assert "no data for seed 1" in str(found)
    assert "in broken" in found.failed[0].traceback
    assert_bit_equal(
        found["2"], taut.simulate("clipped-ogd", GAME, draw(2), seeds=2, horizon=9, record=())
    )
    for call in (found.check, lambda: found["1"]):
        with pytest.raises(ZeroDivisionError, match="no data for seed 1"):
            call()


def unless(path, run):
    if os.path.exists(path):
        raise OSError("not yet")
    return {}


def test_failures_are_kept_until_retry(tmp_path):
    switch, folder = tmp_path / "switch", tmp_path / "sweep"
    switch.write_text("")
    late = taut.Cell(
        taut.ClippedOGD(0.1, 5.0),
        GAME,
        draw(0),
        seeds=2,
        name="late",
        measure=functools.partial(unless, switch),
    )
    listed = [*cells()[:1], late]
    found = taut.sweep(listed, folder=folder)
    assert [str(one) for one in found.failed] == ["late: OSError: not yet"]
    switch.unlink()
    found = taut.sweep(listed, folder=folder)
    assert (found.played, [one.message for one in found.failed]) == (0, ["not yet"])
    assert "in unless" in found.failed[0].traceback
    found = taut.sweep(listed, folder=folder, retry=True)
    assert (found.played, found.failed) == (1, ())
    assert not list((folder / "failed").iterdir())
    assert taut.sweep(listed, folder=folder).failed == ()


def endless(start, length):
    time.sleep(0.005)
    return targets()[np.arange(start, start + length) % ROUNDS]


def test_a_cell_that_never_ends_meets_its_deadline():
    cell = taut.Cell(taut.ClippedOGD(0.1, 5.0), GAME, endless, horizon=2**31 - 1, name="endless")
    found = taut.sweep([cell, *cells()[:1]], timeout=0.2)
    assert [(one.name, one.kind) for one in found.failed] == [("endless", "TimeoutError")]
    assert "time limit of 0.2 s ended after" in found.failed[0].message


def die(run):
    os.kill(os.getpid(), 9)


def test_a_cell_that_kills_its_process_is_found_and_nothing_else_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "ATTEMPTS", 1)
    listed = [
        *cells()[:2],
        taut.Cell(taut.ClippedOGD(0.1, 5.0), GAME, draw(0), seeds=2, name="bad", measure=die),
    ]
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    found = taut.sweep(listed, pool, folder=tmp_path)
    pool.shutdown()
    assert [(one.name, one.kind) for one in found.failed] == [("bad", "BrokenProcessPool")]
    assert_same(found, listed[:-1])
    assert taut.sweep(listed, folder=tmp_path).played == 0  # it stays listed


def identity(cell):
    jax.config.update("jax_enable_x64", True)
    return Identities().of(prepare(cell, {}))


def test_the_identity_of_a_cell_is_the_same_in_every_process(pool):
    listed = [
        *cells(),
        taut.Cell("half-space", GAME, targets()),
        taut.Cell("ogd", GAME, endless, horizon=20, measure=last_excess),
    ]
    assert [pool.submit(identity, cell).result() for cell in listed] == [
        identity(cell) for cell in listed
    ]
    assert len({identity(cell) for cell in listed}) == len(listed)


def test_whatever_changes_the_result_changes_the_identity():
    def problem(limit, numbers):
        table = np.arange(40.0)
        table[20] = numbers  # hidden in the middle of a long array, which JAX prints in part
        return taut.Problem(
            lambda x, z: distance(x, z) + 0 * jnp.sum(table),
            lambda x: outside_diamond(x) - limit,
            BALL,
            CONSTANTS,
        )

    base = {"learner": taut.ClippedOGD(0.1, 5.0), "problem": problem(0.0, 0.0), "stream": targets()}
    other = targets()
    other[-1, -1] = np.nextafter(other[-1, -1], 9)
    changes = [
        {},
        {"learner": taut.ClippedOGD(np.nextafter(0.1, 1), 5.0)},
        {"problem": problem(1e-16, 0.0)},
        {"problem": problem(0.0, 1e-300)},
        {"stream": other},
        {"stream": targets()[:-1]},
        {"x1": np.full(2, 0.1)},
        {"record": ("loss",)},
        {"record": ("decisions",)},
        {"record": ("decisions",), "every": 2},
        {"measure": last_excess},
        {"score": problem(0.5, 0.0)},
        {"score": problem(0.25, 0.0)},
        {"chunk": 7},
        {"keep": False},
        {"feedback": taut.Noisy(values=0.1)},
        {"feedback": taut.Noisy(values=0.2)},
        {"key": jax.random.key(3)},
        {"stream": functools.partial(targets, seed=1)},
        {"stream": functools.partial(targets, seed=2)},
        {"stream": lambda: targets() + 1.0},
        {"stream": lambda: targets() + 2.0},
    ]
    found = [identity(taut.Cell(**{**base, **change})) for change in changes]
    assert len(set(found)) == len(found)
    assert (
        identity(taut.Cell(**base, name="x", tags={"a": 1})) == found[0]
    )  # how tables call it does not matter
    assert identity(taut.Cell(**{**base, "problem": problem(0.0, 0.0)})) == found[0]


def test_a_changed_method_is_not_mistaken_for_the_old_one():
    def method(factor):
        @taut.learner_dataclass
        class Mine(taut.ClippedOGD):
            def step(self, state, round):
                return super().step(state, round)._replace(x=state.x * factor)

        return Mine(0.1, 5.0)

    assert identity(taut.Cell(method(0.5), GAME, targets())) != identity(
        taut.Cell(method(0.25), GAME, targets())
    )


def test_feedback_is_part_of_a_cell(tmp_path):
    options = {"feedback": taut.Noisy(values=0.1), "unproven": True, "key": jax.random.key(5)}
    cell = taut.Cell(taut.ClippedOGD(0.1, 5.0), GAME, targets(), name="noisy", **options)
    expected = taut.simulate(cell.learner, GAME, targets(), record=(), **options)
    for folder in (None, tmp_path):
        found = taut.sweep([cell], folder=folder)["noisy"]
        assert_bit_equal(found, expected)
        assert found.feedback == expected.feedback
        assert jax.random.key_data(found.key).tolist() == jax.random.key_data(expected.key).tolist()


def row_of(x, z):
    return outside_diamond(x) + 0 * z


def test_feedback_that_holds_functions_is_kept_by_the_cell_and_not_by_its_file(tmp_path):
    seen = taut.Batched(row_of, rows=np.arange(3.0))
    cell = taut.Cell(
        taut.ClippedOGD(0.1, 5.0), GAME, targets(), name="batched", feedback=seen, unproven=True
    )
    found = taut.sweep([cell], folder=tmp_path)
    assert found.failed == ()
    assert taut.sweep([cell], folder=tmp_path).played == 0
    assert found["batched"].feedback is seen


def test_records_that_only_serve_a_measure_are_not_kept(tmp_path):
    listed = cells(record=("loss",), measure=losses)[:2]
    for folder in (None, tmp_path):
        short = [dataclasses.replace(cell, keep=False) for cell in listed]
        found = taut.sweep(short, folder=folder)
        run = wanted(listed[0])
        assert found[listed[0].name].loss is None
        np.testing.assert_array_equal(found.measures(listed[0].name)["last loss"], run.loss[:, -1])
        assert_bit_equal(dataclasses.replace(run, loss=None), found[listed[0].name])
    assert taut.sweep(listed, folder=tmp_path).played == 2  # other cells


def losses(run):
    return {"last loss": run.loss[:, -1]}


def test_short_cells_can_share_the_program_of_long_ones():
    z = np.resize(targets(seeds=3), (3, 1100, 2))
    before = count_compiled()
    listed = [
        taut.Cell(
            taut.ClippedOGD(0.1, 5.0), GAME, z, seeds=3, horizon=T, chunk=chunk_of_any_length(T)
        )
        for T in (1100, 7)
    ]
    found = taut.sweep(listed, 1)
    assert count_compiled() == before + 1
    assert_bit_equal(
        found["1"], taut.simulate(taut.ClippedOGD(0.1, 5.0), GAME, z, seeds=3, horizon=7, record=())
    )


def test_a_compiled_program_is_finished_before_another_one_is_compiled():
    class Stub:
        stream, work = None, 1.0

        def __init__(self, name):
            self.program = lambda: name

    class One:
        ahead, remote, isolates = 1, False, False

        def count(self):
            return 1

    play = driver.Driver({i: Stub("aabb"[i]) for i in range(4)}, One(), None, {}, None, print)
    play.rates["b"] = 10.0  # seconds per round, known because it was played
    assert [play._next() for _ in range(4)] == [[2], [3], [0], [1]]


def test_a_process_unpickles_a_problem_once_per_precision():
    content = cloudpickle.dumps(taut.Problem(lambda x, z: z @ x, outside_diamond, BALL))
    first = task._interned(True, "checksum", content)
    assert (
        task._interned(True, "checksum", content) is first
    )  # the same object is the same compiled program
    assert task._interned(False, "checksum", content) is not first
    for number in range(task.OBJECTS):
        task._interned(True, f"other {number}", pickle.dumps(number))
    assert len(task._objects) == task.OBJECTS  # bounded
    assert task._interned(True, "checksum", content) is not first


def test_equal_cells_are_played_once(tmp_path):
    cell, twin = (taut.Cell("clipped-ogd", GAME, draw(0), seeds=2, name=name) for name in "ab")
    found = taut.sweep([cell, twin], folder=tmp_path)
    assert len(list((tmp_path / "cells").iterdir())) == 1
    assert_bit_equal(found["a"], found["b"])


def test_the_index_holds_the_cells_of_the_sweep(tmp_path):
    parquet = pytest.importorskip(
        "pyarrow.parquet", reason="the index needs pyarrow, which taut[cluster] installs"
    )
    found = taut.sweep(cells()[:2], folder=tmp_path)
    path = tmp_path / "index.parquet"
    assert parquet.read_table(path).to_pylist() == found.rows()
    before = path.stat().st_mtime_ns
    taut.sweep(cells()[:2], folder=tmp_path)
    assert path.stat().st_mtime_ns == before  # nothing to write, so that a disk may be read-only
    path.write_bytes(b"damaged")
    taut.sweep(cells()[:2], folder=tmp_path)
    assert parquet.read_table(path).to_pylist() == found.rows()


def test_tasks_take_about_as_long_as_they_should(monkeypatch):
    """Groups grow with the speed of the cells, and a worker returns cells that it has no time
    for."""
    monkeypatch.setattr(taut.sweeps.task, "BUDGET", 0.0)
    listed = cells()
    sizes = []
    play = driver.play_cells
    monkeypatch.setattr(
        driver, "play_cells", lambda group, *rest: sizes.append(len(group)) or play(group, *rest)
    )
    assert_same(taut.sweep(listed, 1), listed)
    assert sum(sizes) > len(listed)  # some came back
    assert len(sizes) == len(listed)  # one was played each time


def test_a_mix_of_workers_is_refused(monkeypatch):
    one = {
        "host": "a",
        "pid": 1,
        "x64": True,
        "passes": [],
        "backend": "cpu",
        "machine": "x",
    }
    play = driver.Driver({}, None, None, {}, None, print)
    play._check(one)
    play._check({**one, "pid": 2})
    with pytest.raises(
        RuntimeError, match=r"passes \[\] \(process 1 on a\) and \['kernel'\] \(process 3 on b\)"
    ):
        play._check({**one, "host": "b", "pid": 3, "passes": ["kernel"]})


def test_workers_with_other_versions_are_refused(pool, monkeypatch):
    monkeypatch.setattr(taut.engine, "VERSION", "0.0.7")
    found = taut.sweep(cells()[:1], pool)
    assert "instead of 0.0.7" in found.failed[0].message


CELL = taut.Cell("clipped-ogd", GAME, targets(), name="one")
MISTAKES = {
    "no cells": (ValueError, "cells: got none", lambda: taut.sweep([])),
    "a number": (TypeError, "cells: got 3; expected a list", lambda: taut.sweep(3)),
    "a learner": (
        TypeError,
        "at position 1; expected taut.Cell",
        lambda: taut.sweep([CELL, taut.ClippedOGD(0.1, 5.0)]),
    ),
    "two of one name": (ValueError, "two cells called 'one'", lambda: taut.sweep([CELL, CELL])),
    "order": (
        TypeError,
        "learner: got .*The order is Cell",
        lambda: taut.Cell(GAME, "ogd", targets()),
    ),
    "problem": (TypeError, "problem: got 'ogd'", lambda: taut.Cell("ogd", "ogd", targets())),
    "tags": (
        TypeError,
        "tags: got 3; expected a dictionary",
        lambda: taut.Cell("ogd", GAME, targets(), tags=3),
    ),
    "tag name": (
        ValueError,
        "tags: got the name 'loss'",
        lambda: taut.Cell("ogd", GAME, targets(), tags={"loss": 1}),
    ),
    "tag value": (
        TypeError,
        "for 'a'; expected a text",
        lambda: taut.Cell("ogd", GAME, targets(), tags={"a": [1]}),
    ),
    "measure": (TypeError, "measure: got 3", lambda: taut.Cell("ogd", GAME, targets(), measure=3)),
    "executor": (
        TypeError,
        "executor: got 'proceses'; expected None",
        lambda: taut.sweep([CELL], "proceses"),
    ),
    "no threads": (ValueError, "executor: got 0", lambda: taut.sweep([CELL], 0)),
    "timeout": (ValueError, "timeout: got 0", lambda: taut.sweep([CELL], timeout=0)),
    "folder": (TypeError, "folder: got 3", lambda: taut.sweep([CELL], folder=3)),
    "a file": (
        ValueError,
        "a file; expected a folder",
        lambda: taut.sweep([CELL], folder=__file__),
    ),
    "name of nothing": (ValueError, "name: got 'two'", lambda: taut.sweep([CELL])["two"]),
    "record": (
        ValueError,
        "record: got 'los'",
        lambda: taut.sweep([taut.Cell("ogd", GAME, targets(), record="los")]),
    ),
    "no horizon": (
        ValueError,
        "horizon: got None",
        lambda: taut.sweep([taut.Cell("ogd", GAME, targets)]),
    ),
    "forked": (
        ValueError,
        "executor: got processes that are forked",
        lambda: taut.sweep(
            [CELL], ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))
        ),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_get_a_sentence(mistake):
    kind, message, call = MISTAKES[mistake]
    with pytest.raises(kind, match=message):
        call()


def test_a_mistake_in_a_cell_names_the_cell():
    with pytest.raises(ValueError, match="horizon") as caught:
        taut.sweep([CELL, taut.Cell("ogd", GAME, targets(), horizon=10**6, name="long")])
    assert "cell 1, called 'long'" in str(caught.value.__notes__)


def test_measures_that_are_no_numbers_fail_with_a_sentence():
    def words(run):
        return {"a": "text"}

    found = taut.sweep(
        [
            taut.Cell("ogd", GAME, targets(), measure=words),
            taut.Cell("ogd", GAME, targets(), measure=len),
        ]
    )
    assert "measure: got 'a'" in found.failed[0].message
    assert found.failed[1].kind == "TypeError"


def test_two_sweeps_do_not_share_a_folder(tmp_path):
    with (
        taut.storage.lock_folder(tmp_path, "folder"),
        pytest.raises(RuntimeError, match=r"folder: .* is in use"),
    ):
        taut.sweep([CELL], folder=tmp_path)


def test_a_bare_run_holds_nothing_that_produced_it():
    run = taut.simulate("clipped-ogd", GAME, targets())
    bare = run.bare()
    assert (bare.problem, bare.played, bare.stream, bare.key) == (None, None, None, None)
    assert_bit_equal(run, bare)


def test_progress_counts_cells(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    taut.sweep(cells(), progress=True)
    assert "6/6" in capsys.readouterr().err


def test_a_counter_counts_the_cells_of_several_sweeps(tmp_path):
    counter = Counter(12)
    for _ in range(2):
        taut.sweep(cells(), folder=tmp_path, progress=counter)
    assert (counter.played, counter.known) == (6, 6)

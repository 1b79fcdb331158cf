"""Files of sweeps: what is damaged, swapped or foreign is played again, and never taken for a
result."""

import errno
import os

import numpy as np
import pytest

import taut
from small_games import GAME, targets
from taut import storage
from taut.sweeps.store import INDEX, Store

CELLS = [
    taut.Cell(
        taut.ClippedOGD(eta, 5.0), GAME, targets(seeds=2), seeds=2, name=str(eta), record=("loss",)
    )
    for eta in (0.1, 0.2, 0.3)
]


@pytest.fixture
def sweep(tmp_path):
    return taut.sweep(CELLS, folder=tmp_path)


def file_of(sweep, name="0.1"):
    return sweep.folder / "cells" / f"{sweep._ready[name].identity}.npz"


CHANGED = {
    "seeds": ({"seeds": 10**9}, {}),
    "text": ({"seeds": "x"}, {}),
    "horizon": ({"horizon": 7}, {}),
    "time": ({"seconds": float("nan")}, {}),
    "learners": ({"learners": []}, {}),
    "schedule": ({"learners": [{"kind": "Constant", "fields": {"value": 1.0}}]}, {}),
    "number": ({"learners": 3}, {}),
    "missing total": ({}, {"total_loss": None}),
    "missing record": ({}, {"loss": None}),
    "missing decision": ({}, {"final": None}),
    "shape": ({}, {"total_loss": np.zeros(3)}),
    "NaN": ({}, {"total_loss": np.full(2, np.nan)}),
}


def test_a_file_that_is_no_result_is_played_again(sweep):
    """The checksums of these files are right, so that only their meaning gives them away."""
    path, right = file_of(sweep), sweep.rows()[0]["loss"]
    content = path.read_bytes()
    header, arrays = storage.read_arrays(path)
    for case, (facts, numbers) in CHANGED.items():
        kept = {name: array for name, array in {**arrays, **numbers}.items() if array is not None}
        storage.write_arrays(path, {**header, **facts}, kept)
        with pytest.raises(
            FileNotFoundError, match=r"name: got '0.1', whose file .* is gone or damaged"
        ):
            sweep["0.1"]
        again = taut.sweep(CELLS, folder=sweep.folder)
        assert (again.played, again.rows()[0]["loss"]) == (1, right), case
    stored = storage.read_arrays(path)[0]
    assert {**stored, "seconds": 0} == {**header, "seconds": 0}
    other = file_of(sweep, "0.2")
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)  # swapped
    assert taut.sweep(CELLS, folder=sweep.folder).played == 2


def test_links_and_pipes_in_a_folder_lead_nowhere(sweep, tmp_path_factory):
    mine = tmp_path_factory.mktemp("home") / "mine.txt"
    mine.write_text("mine")
    path, note = file_of(sweep), sweep.folder / "failed" / f"{sweep._ready['0.2'].identity}.json"
    path.unlink()
    path.symlink_to(mine)
    (sweep.folder / INDEX).unlink()
    (sweep.folder / INDEX).symlink_to(mine)
    file_of(sweep, "0.2").unlink()
    os.mkfifo(note)
    again = taut.sweep(CELLS, folder=sweep.folder)
    assert again.played == 2
    assert mine.read_text() == "mine"
    assert not path.is_symlink()
    note.unlink(missing_ok=True)
    note.write_text("[" * 100_000)
    assert Store(sweep.folder).failure(sweep._ready["0.2"].identity) is None


def full(*args, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_cells_that_could_not_be_written_are_played_again(tmp_path, monkeypatch):
    with monkeypatch.context() as disk:
        disk.setattr(Store, "write", full)
        sweep = taut.sweep(CELLS, folder=tmp_path)
    assert [(one.name, one.kind) for one in sweep.failed] == [
        (cell.name, "OSError") for cell in CELLS
    ]
    again = taut.sweep(CELLS, folder=tmp_path)
    assert (again.played, again.failed) == (3, ())


def test_a_full_disk_is_noted_and_ends_no_sweep(tmp_path, monkeypatch):
    bad = taut.Cell(CELLS[0].learner, GAME, targets(), name="bad", measure=len)
    with monkeypatch.context() as disk:
        disk.setattr(Store, "fail", full)
        disk.setattr(taut.sweeps.store, "write_atomically", full)
        sweep = taut.sweep([*CELLS, bad], folder=tmp_path)
    assert sweep.played == 3
    assert [one.name for one in sweep.failed] == ["bad"]
    assert "the failure of bad is not written" in sweep.notes[0]
    assert "index.parquet is not written: " in sweep.notes[1]
    assert "No space left" in str(sweep)
    assert taut.sweep([*CELLS, bad], folder=tmp_path).played == 0

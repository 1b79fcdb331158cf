"""The files of a sweep: one small file per cell, written where the cell is played; failures and the
index, by the driver.

`cells/<identity>.npz` exists only if the cell was played to its end. It has a checksum and is
written atomically: if a worker dies while it writes, there is no file, and if two workers play the
same cell, both write the same results.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import files, storage
from ..engine import Array
from ..runs import file as run_file, labels
from ..runs.run import Run
from ..runs.totals import Totals
from ..storage import write_atomically

if TYPE_CHECKING:
    from .result import Sweep


LOG = logging.getLogger(__name__)
FORMAT = 1
MEASURE = "measure/"


class Played:
    """What is known of a cell that was played: its totals, its measures, the seconds it took, and
    perhaps its run."""

    def __init__(
        self,
        header: Mapping[str, Any],
        arrays: Mapping[str, Array],
        seconds: float,
        kept: Run | None = None,
    ) -> None:
        self.header, self.arrays, self.seconds = dict(header), dict(arrays), seconds
        self.kept = kept
        """The run itself, if it was played in this process and not written to a file."""

    @classmethod
    def here(cls, run: Run, measures: Mapping[str, Array], seconds: float) -> Played:
        """Return what is known of a run that stays in this process. Its learner need not fit into a
        file."""
        header = {
            "learners": [{"kind": files.class_name(type(run.learner))}],
            "horizon": run.horizon,
            "seeds": run.seeds,
        }
        return cls(header, _totals(run) | _measures(measures), seconds, run)

    @property
    def measures(self) -> dict[str, Array]:
        """What `measure` returned."""
        return {
            name[len(MEASURE) :]: array
            for name, array in self.arrays.items()
            if name.startswith(MEASURE)
        }

    @property
    def totals(self) -> Totals:
        """Totals over all rounds, by seed."""
        return Totals(
            **{entry.name: self.arrays[f"total_{entry.name}"] for entry in fields(Totals)}
        )

    def run(self) -> Run:
        """Return the run, without problem and stream."""
        arrays = {
            name: array for name, array in self.arrays.items() if not name.startswith(MEASURE)
        }
        return Run(**run_file.run_fields(self.header, arrays))

    def brief(self) -> Played:
        """Return the same without records of single rounds, which stay in the file."""
        arrays = {
            name: array
            for name, array in self.arrays.items()
            if name not in (*run_file.RECORDS, labels.INDEX)
        }
        return Played(self.header, arrays, self.seconds)


def run_arrays(run: Run, measures: Mapping[str, Array]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return header and arrays of a cell's file.

    The feedback is not written: it can hold functions, and the cell has it.
    """
    arrays: dict[str, Array] = {"final": run.final}
    for name in (*run_file.RECORDS, "first"):
        if getattr(run, name) is not None:
            arrays[name] = np.asarray(getattr(run, name))
    return run_file.header(replace(run, feedback=None)), arrays | _totals(run) | _measures(measures)


def _totals(run: Run) -> dict[str, Array]:
    return {
        f"total_{entry.name}": np.asarray(getattr(run.totals, entry.name))
        for entry in fields(Totals)
    }


def _measures(measures: Mapping[str, Array]) -> dict[str, Array]:
    return {f"{MEASURE}{name}": array for name, array in measures.items()}


def measured(run: Run, measure: Any) -> dict[str, Array]:
    """Return what a user's function measures of a run, checked."""
    if measure is None:
        return {}
    result = measure(run)
    if not isinstance(result, Mapping):
        raise TypeError(
            f"measure: got a result of class {type(result).__name__}; expected a dictionary of "
            "numbers or arrays"
        )
    arrays = {}
    for name, value in result.items():
        array = np.asarray(value)
        if not isinstance(name, str) or not name or array.dtype.kind not in "fiub":
            raise TypeError(
                f"measure: got {name!r}: {array.dtype}; expected names with real numbers or arrays"
            )
        arrays[name] = array
    return arrays


class Store:
    """The folder of a sweep."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Make the folders, remove what processes left behind that were killed while they wrote,
        and hold a lock."""
        for part in ("cells", "failed"):
            path = self.folder / part
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OSError(
                    error.errno, f"folder: {self.folder} cannot be created: {error.strerror}"
                ) from error
            storage.remove_stale_drafts(path)
        with storage.lock_folder(self.folder, "folder"):
            yield

    def path(self, identity: str) -> Path:
        """Return the file of a cell."""
        return self.folder / "cells" / f"{identity}.npz"

    def write(self, identity: str, played: Played) -> None:
        """Write the file of a cell, and remove the note that it failed before."""
        facts = {"cell": identity, "cell_format": FORMAT, "seconds": played.seconds}
        storage.write_arrays(
            self.path(identity), played.header | facts, played.arrays, durable=False, follow=False
        )
        self._failure(identity).unlink(missing_ok=True)

    def read(self, identity: str, record: Collection[str]) -> Played | None:
        """Return what the file of a cell contains, or None if there is no complete file, so that
        the cell is played again.

        Arguments:
            identity: the checksum that names the file.
            record: what the cell keeps of every round, which the file must contain.
        """
        path = self.path(identity)
        if not path.exists():
            return None
        try:
            header, arrays = storage.read_arrays(path)
            if header["cell"] != identity or header["cell_format"] != FORMAT:
                raise ValueError("it belongs to another cell")
            seconds = float(header["seconds"])
            played = Played(header, arrays, seconds)
            played.run()  # checks that header and arrays fit together
            finite = all(
                np.isfinite(array).all()
                for name, array in arrays.items()
                if name.startswith("total_")
            )
            if not finite or not 0 <= seconds < np.inf or not set(record) <= arrays.keys():
                raise ValueError("it is not the result of a simulation")
            return played
        except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
            LOG.warning("%s is not a complete result of this cell (%s)", path, error)
            return None

    def fail(self, identity: str, failure: Mapping[str, Any]) -> None:
        """Note that a cell failed, with its error."""
        write_atomically(
            self._failure(identity), json.dumps(failure).encode(), durable=False, follow=False
        )

    def failure(self, identity: str) -> dict[str, Any] | None:
        """Return the noted failure of a cell."""
        try:
            note = json.loads(
                storage.read_file(self._failure(identity), "folder", "a note of a failure")
            )
        except (OSError, ValueError, RecursionError):
            return None
        return note if isinstance(note, dict) else None

    def _failure(self, identity: str) -> Path:
        return self.folder / "failed" / f"{identity}.json"


INDEX = "index.parquet"


def write_index(store: Store, sweep: Sweep) -> None:
    """Write the table of a sweep, if pandas and pyarrow are installed."""
    try:
        frame = sweep.to_pandas()
        for name in frame:
            values = frame[name].dropna()
            if len(set(map(type, values))) > 1:  # a column of Parquet has one type
                numbers = all(isinstance(v, (int, float)) for v in values)
                frame[name] = frame[name].astype(float if numbers else str)
        content = frame.to_parquet(None, index=False)
    except ImportError as error:
        LOG.info("no %s is written: %s", INDEX, error)
        return
    path = store.folder / INDEX
    # A finished sweep can be read on a disk that cannot be written.
    if not (path.is_file() and path.read_bytes() == content):
        write_atomically(path, content, follow=False)

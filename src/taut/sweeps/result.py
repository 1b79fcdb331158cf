"""What a sweep returns: the totals of every cell, the cells that failed and why, and runs on
demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..display import Displayed, Grid, Summary, counted
from ..engine import Array
from ..extras import optional
from ..problem.streams import as_stream
from ..runs.run import Run
from .cell import Ready, is_recipe, make_stream
from .store import Played, Store
from .task import Failure

if TYPE_CHECKING:
    import pandas

    from .cell import Cell


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Displayed):
    """The result of `taut.sweep`. `sweep["name"]` is the run of a cell, `sweep.to_pandas()` a table
    of all cells."""

    cells: Mapping[str, Cell]
    failed: tuple[Failure, ...]
    """Cells that failed, with their errors."""
    played: int
    """How many cells were played by this call. The others were played before, or failed."""
    folder: Path | None
    environments: tuple[Mapping[str, Any], ...]
    """What the worker processes computed with; empty for threads."""
    notes: tuple[str, ...] = ()
    _played: Mapping[str, Played] = field(default_factory=dict)
    _ready: Mapping[str, Ready] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the cells."""
        return tuple(self.cells)

    def __getitem__(self, name: str) -> Run:
        """Return the run of a cell, with its problem and stream, so that it has a certificate."""
        arguments.one_of("name", name, self.names)
        failed = next((failure for failure in self.failed if failure.name == name), None)
        if failed is not None:
            raise failed.exception or RuntimeError(str(failed))
        played, cell = self._played[name], self._ready[name]
        if played.kept is not None:
            return played.kept
        if self.folder is not None:
            store = Store(self.folder)
            stored = store.read(cell.identity, cell.kept)
            if stored is None:
                raise FileNotFoundError(
                    f"name: got {name!r}, whose file {store.path(cell.identity)} is gone or "
                    "damaged; call taut.sweep again with the same cells and folder to play it"
                )
            played = stored
        return _attached(played.run(), cell)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def measures(self, name: str) -> dict[str, Array]:
        """Return what the cell's `measure` returned."""
        arguments.one_of("name", name, self.names)
        return self._played[name].measures if name in self._played else {}

    def check(self) -> Sweep:
        """Raise the error of the first cell that failed; return the sweep if none did."""
        for failure in self.failed:
            raise failure.exception or RuntimeError(f"{failure}\n{failure.traceback}")
        return self

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row per cell and seed: tags, totals over all rounds, and
        measures.

        Measures that are neither a number nor one number per seed are left out; see `measures`.
        """
        pd = optional("pandas")

        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table."""
        return [
            row
            for name, cell in self.cells.items()
            if name in self._played
            for row in _rows(cell, self._ready[name], self._played[name])
        ]

    def _summary(self) -> Summary:
        done = len(self._played)
        facts = [
            ("played", f"{done} of {len(self.names)} cells, {self.played} of them by this call")
        ]
        if self.folder is not None:
            facts.append(("folder", str(self.folder)))
        if self.environments:
            hosts = {str(environment["host"]) for environment in self.environments}
            processes = counted(len(self.environments), "process", "processes")
            facts.append(("workers", f"{processes} on {counted(len(hosts), 'machine')}"))
        shown = [
            (failure.name, failure.kind, failure.message.split("\n")[0])
            for failure in self.failed[:10]
        ]
        columns = ("failed cell", "error", "message")
        grids = [Grid(columns, tuple(shown), left=columns)] if shown else []
        notes = list(self.notes)
        if len(self.failed) > 10:
            notes.insert(0, f"{len(self.failed) - 10} more cells failed: see .failed")
        return Summary(f"Sweep of {len(self.names)} cells", facts, grids, notes)


def _rows(cell: Cell, ready: Ready, played: Played) -> list[dict[str, Any]]:
    totals, header = played.totals, played.header
    kind = header["learners"][0]["kind"]
    rows = []
    for seed in range(int(header["seeds"])):
        measures = {
            label: value.item() if value.ndim == 0 else value[seed].item()
            for label, value in played.measures.items()
            if value.ndim == 0 or value.shape == (header["seeds"],)
        }
        rows.append(
            {
                "name": ready.name,
                "cell": ready.identity,
                "learner": cell.learner if isinstance(cell.learner, str) else kind,
                **cell.tags,
                "horizon": header["horizon"],
                "seeds": header["seeds"],
                "seed": seed,
                "loss": float(totals.loss[seed]),
                "violation": float(totals.worst_violation[seed]),
                "squared violation": float(totals.worst_squared[seed]),
                "peak violation": float(np.max(totals.peak[seed])),
                "excess": float(totals.worst_excess[seed]),
                **measures,
                "seconds": played.seconds,
            }
        )
    return rows


def _attached(run: Run, cell: Ready) -> Run:
    """Return the run with the problem, the stream and the feedback of its cell."""
    import jax

    from ..play.simulate import random_keys

    data = make_stream(cell.stream) if is_recipe(cell.stream) else cell.stream
    stream = as_stream(cell.problem.arrange(data), horizon=cell.horizon, seeds=cell.seeds)
    keys: jax.Array | None = random_keys(cell.key, stream, cell.learner, cell.feedback)
    return replace(
        run,
        learner=cell.learner,
        problem=cell.score or cell.problem,
        played=cell.problem,
        stream=stream,
        feedback=cell.feedback,
        key=keys,
    )

"""The index of a sweep: one Parquet file with the table of all its cells, written by the driver alone."""

from __future__ import annotations

import io
import logging
from typing import Any

from ...storage import write_atomically
from .result import Sweep
from .store import Store

__all__ = ["INDEX", "write_index"]

INDEX = "index.parquet"
LOG = logging.getLogger(__name__)


def write_index(store: Store, found: Sweep) -> None:
    """Write the table of a sweep, and keep the rows of other cells whose files are in the same folder."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        LOG.info("no %s is written, because the package pyarrow is not installed: pip install 'taut[cluster]'", INDEX)
        return
    rows = found.rows()
    path = store.folder / INDEX
    known = {row["name"] for row in rows}
    if path.exists():
        try:
            earlier: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        except (OSError, pa.ArrowException):
            earlier = []  # the index is computed anew from the files of the cells
        kept = (row for row in earlier if row.get("name") not in known)
        rows += [row for row in kept if store.path(str(row.get("cell"))).exists()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: pa.array(_alike([row.get(name) for row in rows])) for name in names}
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    write_atomically(path, buffer.getvalue())


def _alike(values: list[Any]) -> list[Any]:
    """Return the values of a column in one type: texts if they are of different kinds."""
    kinds = {
        bool if isinstance(v, bool) else float if isinstance(v, (int, float)) else type(v)
        for v in values
        if v is not None
    }
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in values]
    if kinds == {float} and any(isinstance(value, float) for value in values):
        return [None if value is None else float(value) for value in values]
    return values

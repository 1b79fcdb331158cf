"""The index of a sweep: one Parquet file with the table of all its cells, written by the driver
alone."""

from __future__ import annotations

import hashlib
import io
import json
import logging
from pathlib import Path
from typing import Any

from ..storage import write_atomically
from .result import Sweep
from .store import Store

__all__ = ["INDEX", "write_index"]

INDEX = "index.parquet"
CHECKSUM = b"taut-sha256"
LARGEST = 2**30
"""Bytes and rows of an index, at most, that is read."""
LOG = logging.getLogger(__name__)


def write_index(store: Store, found: Sweep) -> None:
    """Write the table of a sweep, and keep the rows of other cells whose files are in the same
    folder."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        LOG.info(
            "no %s is written, because the package pyarrow is not installed: pip install "
            "'taut[cluster]'",
            INDEX,
        )
        return
    rows = found.rows()
    path = store.folder / INDEX
    known = {row["name"] for row in rows}
    kept = (row for row in _earlier(path) if row.get("name") not in known)
    rows += [row for row in kept if store.path(str(row.get("cell"))).exists()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: pa.array(_alike([row.get(name) for row in rows])) for name in names})
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({CHECKSUM: _checksum(table.to_pylist())}), buffer)
    content = buffer.getvalue()
    if not (
        path.is_file() and path.read_bytes() == content
    ):  # a finished sweep can be read on a disk that cannot be written
        write_atomically(path, content, follow=False)


def _earlier(path: Path) -> list[dict[str, Any]]:
    """Return the rows of the index as it is; none if there is no file, or one that taut did not
    write.

    Nothing in it is needed: rows come back when their cells are part of a sweep again.
    """
    import pyarrow.parquet as pq

    if not path.is_file():
        return []
    try:
        with pq.ParquetFile(path) as file:
            about = file.metadata
            size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            if max(size, about.num_rows, path.stat().st_size) > LARGEST:
                raise ValueError("it is too large")
            table = file.read()
        rows: list[dict[str, Any]] = table.to_pylist()
        if (table.schema.metadata or {}).get(CHECKSUM) != _checksum(rows):
            raise ValueError("its checksum is wrong")
        return rows
    except Exception as error:  # a damaged file can raise anything
        LOG.warning("%s is damaged or foreign (%s), so it is written anew", path, error)
        return []


def _checksum(rows: list[dict[str, Any]]) -> bytes:
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest().encode()


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

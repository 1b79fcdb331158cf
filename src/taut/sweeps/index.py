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
ROWS, VALUES, BYTES = 2**18, 2**22, 2**28
"""Rows, values and bytes of an index, at most, that is read. Compressed files of a few kilobytes
can declare far more."""
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
            metadata = file.schema_arrow.metadata or {}
            rows = _read(file)
        if metadata.get(CHECKSUM) != _checksum(rows):
            raise ValueError("its checksum is wrong")
        return rows
    except Exception as error:  # a damaged file can raise anything
        LOG.warning("%s is damaged or foreign (%s), so it is written anew", path, error)
        return []


def _read(file: Any) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file; ValueError if it declares, or turns out, to be larger than
    an index is."""
    about = file.metadata
    if about.num_rows > ROWS or about.num_rows * about.num_columns > VALUES:
        raise ValueError(f"it declares {about.num_rows} rows of {about.num_columns} columns")
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    sizes = [
        group.column(k).total_uncompressed_size
        for group in groups
        for k in range(group.num_columns)
    ]
    if sum(sizes) > BYTES:
        raise ValueError(f"it declares {sum(sizes)} bytes")
    # A text is stored once and may be repeated in every row, so that only few rows are decoded at
    # a time if a column holds long texts.
    together = min(ROWS, max(1, BYTES // max(sizes, default=1)))
    rows: list[dict[str, Any]] = []
    size = 0
    for batch in file.iter_batches(batch_size=together):
        size += batch.nbytes
        if size > BYTES:
            raise ValueError(f"its rows take more than {BYTES} bytes")
        rows += batch.to_pylist()
    return rows


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

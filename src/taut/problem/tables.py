"""Data in tables (pandas, polars, xarray) and in lists, converted to arrays; and the index that a table carries.

None of these packages is imported here: a value of theirs exists only if its package has been imported already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

__all__ = ["index_of", "plain"]

Array = np.ndarray[Any, Any]


def plain(data: Any, names: Collection[str] = ()) -> Any:
    """Return data with tables and lists of numbers replaced by arrays. Everything else is returned as it is.

    Arguments:
        data: a table, a list of numbers (or of rows of numbers), or a dict, tuple or list of such values. A table of
            pandas or polars becomes one array with a row per round; an xarray Dataset becomes a dict of arrays. Dims
            called `seed` and `round` of an xarray object come first, in this order.
        names: if a column (or an entry of a row) has one of these names, the table becomes a dict by name instead.
    """
    if isinstance(data, np.ndarray):
        return data
    package, kind = type(data).__module__.split(".")[0], type(data).__name__
    if package == "pandas" and kind in ("DataFrame", "Series"):
        return _frame(data, kind, names)
    if package == "polars" and kind in ("DataFrame", "Series"):
        return _frame(data, kind, names)
    if package == "xarray" and kind == "DataArray":
        lead = [dim for dim in ("seed", "round") if dim in data.dims]
        return _numeric(data.transpose(*lead, ...).to_numpy(), str(data.name or ""))
    if package == "xarray" and kind == "Dataset":
        return {str(name): plain(value) for name, value in data.data_vars.items()}
    if isinstance(data, list) and data:
        return _list(data, names)
    if type(data) is dict:
        return {name: plain(value) for name, value in data.items()}
    if type(data) is tuple:
        return tuple(plain(value) for value in data)
    return data


def index_of(data: Any) -> Any:
    """Return the pandas index of a table's rounds, or `None` if it has none or only counts rows."""
    package, kind = type(data).__module__.split(".")[0], type(data).__name__
    if package == "pandas" and kind in ("DataFrame", "Series"):
        return None if type(data.index).__name__ == "RangeIndex" else data.index
    if package == "xarray" and kind in ("DataArray", "Dataset"):
        first = next((dim for dim in ("round", "time") if dim in data.dims), None)
        first = first or (data.dims[0] if kind == "DataArray" and data.dims else None)
        return data.get_index(first) if first is not None and first in data.coords else None
    if isinstance(data, Mapping):
        return next((index for index in map(index_of, data.values()) if index is not None), None)
    if isinstance(data, (tuple, list)):
        return next((index for index in map(index_of, data) if index is not None), None)
    return None


def _frame(data: Any, kind: str, names: Collection[str]) -> Any:
    if kind == "Series":
        labels = list(getattr(data, "index", ()))
        if any(label in names for label in labels if isinstance(label, str)):
            return {str(label): data[label] for label in labels if label in names}
        return _numeric(data.to_numpy(), str(data.name or ""))
    columns = [(name, data[name]) for name in data.columns]
    for name, column in columns:
        _numeric(column.to_numpy(), str(name))
    if any(name in names for name in data.columns):
        return {str(name): column.to_numpy() for name, column in columns if name in names}
    return data.to_numpy()


def _numeric(array: Array, column: str) -> Array:
    if array.dtype.kind in "fiub":
        return array
    where = f" in the column {column!r}" if column else ""
    raise TypeError(
        f"stream: got values of type {array.dtype}{where}; expected real numbers. Drop the column, or move dates and "
        "labels into the index"
    )


def _list(data: list[Any], names: Collection[str]) -> Any:
    """Return an array if the list holds only numbers, nested to any depth; otherwise a list with its entries converted."""
    if not _only_numbers(data):
        return [plain(value, names) for value in data]
    try:
        return np.asarray(data)
    except ValueError:
        lengths = sorted({len(row) for row in data if isinstance(row, (list, tuple))})
        raise ValueError(
            f"stream: got a list whose rows have the lengths {lengths}; expected rows of one length, one row per round"
        ) from None


def _only_numbers(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return bool(data) and all(map(_only_numbers, data))
    return isinstance(data, (bool, int, float, np.number, np.bool_))

"""Data in tables (pandas, polars, xarray) and in lists, converted to arrays; and the index that a
table carries.

None of these packages is imported here: a value of theirs exists only if its package has been
imported already.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import numpy as np

from ..engine import Array


def plain(data: Any, names: Collection[str] = ()) -> Any:
    """Return data with tables and lists of numbers replaced by arrays. Everything else is returned
    as it is.

    Arguments:
        data: a table, a list of numbers (or of rows of numbers), or a dict, tuple or list of such
            values. A table of pandas or polars becomes one array with a row per round; an xarray
            Dataset becomes a dict of arrays. Dims called `seed` and `round` of an xarray object
            come first, in this order.
        names: if a column (or an entry of a row) has one of these names, the table becomes a dict
            by name instead.
    """
    if isinstance(data, np.ndarray):
        return data
    package, kind = type(data).__module__.split(".")[0], type(data).__name__
    if package in ("pandas", "polars") and kind in ("DataFrame", "Series"):
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


def labels_of(data: Any) -> tuple[str, ...]:
    """Return the names of the columns of a table, or of the entries of a row of one; nothing for
    other data, and for rows that are labelled by something else than texts."""
    package, kind = type(data).__module__.split(".")[0], type(data).__name__
    if package not in ("pandas", "polars") or kind not in ("DataFrame", "Series"):
        return ()
    labels = list(data.columns if kind == "DataFrame" else getattr(data, "index", ()))
    return tuple(labels) if all(isinstance(label, str) for label in labels) else ()


class _LookedUp(Exception):
    """A function asked for data by name."""


class _Names:
    """Data that notice whether they are asked for by name."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            raise _LookedUp
        raise TypeError("these are no data")


def looks_up_names(
    function: Callable[[Any, Any], Any], x: Any, make_data: Callable[[Any, Any], Any]
) -> bool:
    """Return whether a function of a decision and data asks for data by name, before anything
    else; `make_data` makes its second argument from data and a decision."""
    try:
        jax.eval_shape(lambda x: function(x, make_data(_Names(), x)), x)
    except _LookedUp:
        return True
    except Exception:  # whatever a user's function raises when it gets something else
        return False
    return False


def _frame(data: Any, kind: str, names: Collection[str]) -> Any:
    if kind == "Series":
        labels = list(getattr(data, "index", ()))
        if any(label in names for label in labels if isinstance(label, str)):
            return {str(label): data[label] for label in labels if label in names}
        return _numeric(_values(data), str(data.name or ""))
    labels = [str(name) for name in data.columns]
    by_position = hasattr(data, "iloc")  # pandas allows two columns of one name
    series = [data.iloc[:, i] if by_position else data[name] for i, name in enumerate(data.columns)]
    columns = [_numeric(_values(column), name) for name, column in zip(labels, series, strict=True)]
    if any(name in names for name in labels):
        return {name: column for name, column in zip(labels, columns, strict=True) if name in names}
    return np.stack(columns, axis=1) if columns else data.to_numpy()


def _values(column: Any) -> Array:
    """Return the numbers of a column. Missing ones of pandas' own types (Int64) become NaN."""
    kind = getattr(column.dtype, "kind", "")
    if hasattr(column.dtype, "na_value") and isinstance(kind, str) and kind in tuple("fiub"):
        return np.asarray(column.to_numpy(dtype=float, na_value=np.nan))
    return np.asarray(column.to_numpy())


def _numeric(array: Array, column: str) -> Array:
    if array.dtype.kind in "fiub":
        return array
    where = f" in the column {column!r}" if column else ""
    mend = "Drop the column, or move dates and labels into the index"
    if array.dtype.kind in "OUS":
        try:
            array.astype(float)
            mend = "Convert it with .astype(float)"
        except (TypeError, ValueError):
            pass
    raise TypeError(
        f"stream: got values of type {array.dtype}{where}; expected real numbers. {mend}"
    )


def check_order(data: Any, names: tuple[str, ...] | None) -> None:
    """Refuse a table whose columns are the decision's coordinates in another order."""
    package, kind = type(data).__module__.split(".")[0], type(data).__name__
    if names is None or package not in ("pandas", "polars") or kind not in ("DataFrame", "Series"):
        return
    labels = [
        str(label)
        for label in (data.columns if kind == "DataFrame" else getattr(data, "index", ()))
    ]
    if labels != list(names) and len(labels) == len(names) and set(labels) == set(names):
        raise ValueError(
            f"stream: got the columns {', '.join(labels)}; expected the order of the problem's "
            f"coordinate_names: table[{list(names)}]"
        )


def warn_of_decreasing_times(index: Any) -> None:
    """Warn if the times of an index decrease: rounds come in the order of rows."""
    if getattr(index.dtype, "kind", "") == "M" and not index.is_monotonic_increasing:
        row = int(np.argmax(np.diff(index.asi8) < 0)) + 1
        warnings.warn(
            f"stream: the times of the index decrease from {index[row - 1]} to {index[row]} (row "
            f"{row}). Rounds are played in the order of the rows. Sort them with "
            "table.sort_index(), or use times with a time zone if the clocks changed",
            stacklevel=3,
        )


def _list(data: list[Any], names: Collection[str]) -> Any:
    """Return an array if the list holds only numbers; otherwise convert its entries."""
    if not _only_numbers(data):
        if all(isinstance(value, Mapping) for value in data):
            raise TypeError(
                f"stream: got a list of {len(data)} dicts; expected one dict of arrays with a row "
                "per round, for example {name: [row[name] for row in stream] for name in "
                "stream[0]}"
            )
        return [plain(value, names) for value in data]
    try:
        return np.asarray(data)
    except ValueError:
        lengths = sorted({len(row) for row in data if isinstance(row, (list, tuple))})
        raise ValueError(
            f"stream: got a list whose rows have the lengths {lengths}; expected rows of one "
            "length, one row per round"
        ) from None


def _only_numbers(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return bool(data) and all(map(_only_numbers, data))
    return isinstance(data, (bool, int, float, np.number, np.bool_))

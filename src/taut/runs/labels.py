"""Labels of a run: the index of its rounds, and the names of constraints and coordinates, in
datasets and in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine import Array
from ..extras import optional

if TYPE_CHECKING:
    import xarray

    from .run import Run


INDEX = "round_index"
"""The variable of a file that holds the index of the rounds."""


def add(run: Run, data: xarray.Dataset) -> xarray.Dataset:
    """Return the dataset with the labels of the run as coordinates. The index is called after its
    own name."""
    if run.index is not None:
        name = str(run.index.name or "index")
        name = f"{name}_" if name in data.variables or name in data.dims else name
        if "round" in data.dims:
            data = data.assign_coords({name: ("round", run.index)})
        if "kept_round" in data.dims:
            data = data.assign_coords(
                {f"kept_{name}": ("kept_round", run.index[run.every - 1 :: run.every])}
            )
    if run.constraint_names is not None:
        data = data.assign_coords(constraint=list(run.constraint_names))
    if run.coordinate_names is not None and "axis_0" in data.dims and "axis_1" not in data.dims:
        data = data.assign_coords(axis_0=list(run.coordinate_names))
    return data


def header(run: Run) -> dict[str, Any]:
    """Return what a file's header says of the labels; nothing if there are none."""
    entries: dict[str, Any] = {}
    for name in ("constraint_names", "coordinate_names"):
        if getattr(run, name) is not None:
            entries[name] = list(getattr(run, name))
    if run.index is not None:
        index = run.index
        entries["index"] = {
            "name": None if index.name is None else str(index.name),
            "dtype": str(index.dtype),
        }
        if not _numeric(index):
            entries["index"]["text"] = [str(entry) for entry in index]
        if getattr(index, "tz", None) is not None:
            entries["index"]["tz"] = str(index.tz)
        if getattr(index, "freqstr", None) is not None:
            entries["index"]["freq"] = index.freqstr
    return entries


def write(run: Run, data: xarray.Dataset) -> xarray.Dataset:
    """Return the dataset with the index of the rounds as a variable of whole numbers or floats."""
    if run.index is None or not _numeric(run.index):
        return data
    values = run.index.asi8 if str(run.index.dtype)[0] in "dt" else run.index.to_numpy()
    return data.assign({INDEX: ("index", np.asarray(values))})


def read(
    arrays: dict[str, Array], head: dict[str, Any], horizon: int, constraints: int, size: int
) -> dict[str, Any]:
    """Return the labels in a file as arguments of `Run`; ValueError, TypeError or KeyError if they
    do not fit."""
    labels: dict[str, Any] = {}
    for name, count in (("constraint_names", constraints), ("coordinate_names", size)):
        if name in head:
            labels[name] = tuple(_texts(head[name], count))
    if "index" in head:
        labels["index"] = _index(head["index"], arrays.get(INDEX), horizon)
    return labels


def _index(about: dict[str, Any], values: Array | None, horizon: int) -> Any:
    pd = optional("pandas")

    name = about["name"]
    if name is not None:
        _texts([name], 1)
    if "text" in about:
        return pd.Index(_texts(about["text"], horizon), name=name)
    if values is None:
        raise ValueError("the index of the rounds is missing")
    kind, _, unit = about["dtype"].partition("[")
    unit = unit.split(",")[0].rstrip("]")
    if kind not in ("datetime64", "timedelta64", "int64", "float64") or unit not in (
        "",
        "s",
        "ms",
        "us",
        "ns",
    ):
        raise ValueError(f"the index of the rounds has the type {about['dtype']!r}")
    index = pd.Index(values.astype(f"{kind}[{unit}]" if unit else kind), name=name)
    if "tz" in about:
        index = index.tz_localize("UTC").tz_convert(str(about["tz"]))
    if "freq" in about:
        index.freq = str(about["freq"])
    return index


def _texts(values: Any, count: int) -> list[str]:
    if (
        not isinstance(values, list)
        or len(values) != count
        or not all(isinstance(label, str) for label in values)
    ):
        raise ValueError(f"its labels are not {count} texts")
    return values


def _numeric(index: Any) -> bool:
    return str(index.dtype).partition("[")[0] in ("datetime64", "timedelta64", "int64", "float64")

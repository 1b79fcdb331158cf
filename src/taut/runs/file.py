"""Run files: netCDF with a checksum at the end. Reading trusts nothing in the file."""

from __future__ import annotations

import hashlib
import io
import json
import math
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments, files, storage
from ..engine import KEYS, Array, wrapped_key
from ..extras import optional
from ..learners import Learner
from ..problem.feedback import Feedback
from . import labels
from .sample import Sample
from .totals import Totals

if TYPE_CHECKING:
    import xarray


FORMAT = 2
MARK = b"\ntaut-sha256:"
RECORDS = ("loss", "excess", "decisions", "multipliers", "weights")


def header(run: Any) -> dict[str, Any]:
    """Return what a file says of a run: learners, numbers of rounds and seeds, version and
    labels."""
    learners = run.learner if isinstance(run.learner, tuple) else (run.learner,)
    entries = {
        "format": FORMAT,
        "version": run.version,
        "learners": [files.pack(learner) for learner in learners],
        "swept": run.swept,
        "horizon": run.horizon,
        "seeds": run.seeds,
        "every": run.every,
        **labels.header(run),
    }
    if run.feedback is not None:
        entries["feedback"] = files.pack(run.feedback)
    if run.key is not None and str(jax.random.key_impl(run.key)) == KEYS:
        entries["key"] = np.asarray(jax.random.key_data(run.key)).tolist()
    if run.reacts:
        entries["reacts"] = True
    if run.sample is not None:
        entries["sample"] = {name: values.tolist() for name, values in run.sample.items()}
    return entries


def content(data: xarray.Dataset) -> bytes:
    """Return a dataset as a netCDF file.

    It is written without xarray, which would take a lock of the cluster on a Dask worker and fail
    there.
    """
    h5netcdf = optional("h5netcdf")

    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        file.dimensions = dict(data.sizes)
        for name, variable in data.variables.items():
            file.create_variable(str(name), variable.dims, variable.dtype, data=variable.values)
        file.attrs.update(data.attrs)
    return buffer.getvalue()


def write(path: str | Path, content: bytes) -> None:
    """Write the content of a netCDF file, followed by its checksum, which other readers of netCDF
    ignore."""
    storage.write_atomically(
        arguments.path("path", path), content + MARK + hashlib.sha256(content).hexdigest().encode()
    )


def read(path: str | Path) -> dict[str, Any]:
    """Return the fields of a run from a file."""
    content = storage.read_file(arguments.path("path", path), "path", "a run that taut saved")
    try:
        _check_sum(content)
        header, arrays = _read(content)
    except Exception as error:  # HDF5 can raise anything for a damaged file
        raise ValueError(
            f"path: got {path}, damaged or foreign ({error}); expected a run that taut saved"
        ) from error
    if header.get("format") != FORMAT:
        raise ValueError(
            f"path: got {path} in format {header.get('format')!r}; expected format {FORMAT}"
        )
    try:
        files.refuse_newer(header.get("version"))
        return run_fields(header, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"path: got {path}, damaged or foreign ({error}); expected a run that taut saved"
        ) from error


def _check_sum(content: bytes) -> None:
    """Refuse a file whose checksum is missing or wrong, before anything else is read."""
    end = content[-len(MARK) - 64 :]
    if not end.startswith(MARK):
        raise ValueError("its checksum is missing")
    if hashlib.sha256(content[: -len(end)]).hexdigest().encode() != end[len(MARK) :]:
        raise ValueError("its checksum is wrong")


def _read(content: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return header and arrays. What could make HDF5 open other files or decompress is refused
    first."""
    h5py = optional("h5py")

    names = {
        *RECORDS,
        "first",
        "final",
        labels.INDEX,
        *(f"total_{entry.name}" for entry in fields(Totals)),
    }
    with h5py.File(io.BytesIO(content), "r") as file:
        text = file.attrs["taut"]
        if not isinstance(text, str):
            raise ValueError("its header is not text")
        header = json.loads(text)
        if not isinstance(header, dict):
            raise ValueError("its header is not a dictionary")
        arrays = {}
        for name in file:
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{name!r} is a link")
            if name in names:
                arrays[str(name)] = _array(h5py, str(name), file[name], len(content))
    return header, arrays


def _array(h5py: Any, name: str, data: Any, most: int) -> Array:
    if not isinstance(data, h5py.Dataset):
        raise ValueError(f"{name!r} is not an array")
    layout = data.id.get_create_plist()
    if layout.get_layout() not in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT) or layout.get_nfilters():
        raise ValueError(f"{name!r} is compressed or virtual")
    if layout.get_external_count():
        raise ValueError(f"{name!r} lies in another file")
    if (
        data.dtype.kind not in ("if" if name == labels.INDEX else "f")
        or data.size * data.dtype.itemsize > most
    ):
        raise ValueError(f"{name!r} is not an array of real numbers, or larger than the file")
    array: Array = data[()]
    return array


def run_fields(header: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Return the fields of a run, after checking that header and arrays fit together."""
    horizon, seeds, every = (_whole(header, name) for name in ("horizon", "seeds", "every"))
    if (
        not isinstance(header["swept"], bool)
        or not isinstance(header["learners"], list)
        or not header["learners"]
    ):
        raise ValueError("its header does not describe learners")
    learners = tuple(files.unpack(packed) for packed in header["learners"])
    if not all(isinstance(learner, Learner) for learner in learners):
        raise ValueError("its header describes something else than learners")
    if len(learners) > 1 and not header["swept"]:
        raise ValueError("its header describes several learners")
    lead = (len(learners), seeds) if header["swept"] else (seeds,)
    decision = arrays["final"].shape[len(lead) :]
    recorded = (*lead, horizon // every)
    constraints = arrays["total_excess"].shape[-1:]
    shapes: dict[str, tuple[int, ...]] = {
        labels.INDEX: (horizon,),
        "final": (*lead, *decision),
        "first": decision,
        "loss": (*lead, horizon),
        "excess": (*lead, horizon),
        "decisions": (*recorded, *decision),
        **{
            name: (*recorded, *arrays[name].shape[-1:])
            for name in ("multipliers", "weights")
            if name in arrays
        },
        **{f"total_{entry.name}": lead for entry in fields(Totals)},
        **{
            f"total_{name}": (*lead, *constraints)
            for name in ("excess", "violation", "squared", "peak")
        },
    }
    for name, array in arrays.items():
        if array.shape != shapes[name]:
            raise ValueError(f"{name!r} has the shape {array.shape}, not {shapes[name]}")
    return {
        "learner": learners if header["swept"] else learners[0],
        "horizon": horizon,
        "seeds": seeds,
        "totals": Totals(**{entry.name: arrays[f"total_{entry.name}"] for entry in fields(Totals)}),
        "final": arrays["final"],
        "every": every,
        "version": header["version"],
        "feedback": _feedback(header.get("feedback")),
        "key": _keys(header.get("key"), seeds),
        "reacts": header.get("reacts", False),  # `Run` refuses what is no truth value
        "sample": _sample(header.get("sample")),
        **{name: arrays[name] for name in (*RECORDS, "first") if name in arrays},
        **labels.read(arrays, header, horizon, math.prod(constraints), math.prod(decision)),
    }


def _keys(numbers: Any, seeds: int) -> jax.Array | None:
    if numbers is None:
        return None
    shaped = type(numbers) is list and len(numbers) == seeds
    if not shaped or not all(
        type(pair) is list and [type(word) for word in pair] == [int, int] for pair in numbers
    ):
        raise ValueError(f"its random keys are not {seeds} pairs of whole numbers")
    if not all(0 <= word < 2**32 for pair in numbers for word in pair):
        raise ValueError("its random keys are not numbers of 32 bits")
    return wrapped_key(jnp.asarray(np.asarray(numbers, np.uint32)))


def _sample(parts: Any) -> Sample | None:
    if parts is None:
        return None
    if type(parts) is not dict or not all(
        type(values) is list and all(type(value) is float for value in values)
        for values in parts.values()
    ):
        raise ValueError("its sample of the problem is not lists of numbers")
    return {name: np.asarray(values, float) for name, values in parts.items()}


def _feedback(packed: Any) -> Feedback | None:
    feedback = files.unpack(packed)
    if feedback is not None and not isinstance(feedback, Feedback):
        raise ValueError("its header does not describe feedback")
    return feedback


def _whole(header: dict[str, Any], name: str) -> int:
    value = header[name]
    if type(value) is not int or value > 2**31 - 1:
        raise ValueError(f"{name} is {value!r}")
    return arguments.count(name, value)

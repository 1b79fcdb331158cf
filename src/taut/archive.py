"""Files: learners as JSON, arrays as npz, every write atomic, nothing ever unpickled."""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import kinds
from .constants import Constants
from .domains import Domain, domain_from_dict
from .learners import Learner
from .learners.schedules import Schedule

__all__ = ["flat", "like", "pack", "read_arrays", "same", "unpack", "write_arrays", "write_atomically"]

Array = np.ndarray[Any, Any]
PARAMETERS = (Learner, Schedule)
"""What a file describes by its kind and fields."""


def pack(value: Any) -> Any:
    """A learner, schedule, domain or constants as JSON-able values; floats keep every bit."""
    if isinstance(value, Domain):
        return {"domain": value.to_dict()}
    if isinstance(value, Constants):
        plain = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"constants": {k: sorted(v) if isinstance(v, frozenset) else v for k, v in plain.items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: pack(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": kinds.name_of(type(value)), "fields": fields}
    if isinstance(value, (np.ndarray, jax.Array)):
        array = np.asarray(value)
        return array.item() if array.ndim == 0 else {"array": array.tolist(), "dtype": str(array.dtype)}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"learner: got a field of type {type(value).__name__}; expected numbers, arrays, schedules or domains, "
        "which a file can hold"
    )


def unpack(packed: Any) -> Any:
    """The value that `pack` described."""
    if not isinstance(packed, dict):
        return packed
    if "domain" in packed:
        return domain_from_dict(packed["domain"])
    if "constants" in packed:
        entries: dict[str, Any] = {
            k: frozenset(v) if isinstance(v, list) else v for k, v in packed["constants"].items()
        }
        return Constants(**entries)
    if "array" in packed:
        return np.asarray(packed["array"], packed["dtype"])
    kind = kinds.find(str(packed.get("kind")), PARAMETERS)
    if kind is None:
        known = ", ".join(kinds.names(PARAMETERS))
        raise ValueError(f"file: got a learner of kind {packed.get('kind')!r}; expected one of {known}")
    return kind(**{name: unpack(field) for name, field in packed["fields"].items()})


def same(a: Any, b: Any) -> bool:
    """Whether two packed values are equal, to the last bit; a class may have been called otherwise in an older file."""
    return json.dumps(_renamed(a), sort_keys=True) == json.dumps(_renamed(b), sort_keys=True)


def _renamed(packed: Any) -> Any:
    """The same description with its classes called as they are today."""
    if isinstance(packed, (list, tuple)):
        return [_renamed(entry) for entry in packed]
    if not isinstance(packed, dict):
        return packed
    entries = {name: _renamed(entry) for name, entry in packed.items()}
    if isinstance(entries.get("kind"), str):
        kind = kinds.find(entries["kind"], PARAMETERS if "fields" in entries else Domain)
        entries["kind"] = entries["kind"] if kind is None else kinds.name_of(kind)
    return entries


def flat(tree: Any) -> dict[str, Array]:
    """The leaves of a state, numbered; random keys as their words."""
    keys = (jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in jax.tree.leaves(tree))
    return {str(i): np.asarray(leaf) for i, leaf in enumerate(keys)}


def like(tree: Any, leaves: Mapping[str, Array]) -> Any:
    """A state of the structure of `tree` with the leaves that `flat` numbered; ValueError if they do not fit."""
    models, structure = jax.tree.flatten(tree)
    kinds = {name: (leaf.shape, leaf.dtype) for name, leaf in flat(tree).items()}
    if {name: (leaf.shape, leaf.dtype) for name, leaf in leaves.items()} != kinds:
        raise ValueError("the state's arrays have other shapes or types")
    restored = [_restored(leaves[str(i)], model) for i, model in enumerate(models)]
    return jax.tree.unflatten(structure, restored)


def _restored(array: Array, model: Any) -> Any:
    if isinstance(model, np.ndarray):
        return array
    if _is_key(model):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(model))
    return jnp.asarray(array)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash at any moment, sees the old file or the new one, whole."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_arrays(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Arrays with a JSON header, in one npz file, atomically."""
    buffer = io.BytesIO()
    parts: dict[str, Any] = {f"array/{name}": array for name, array in arrays.items()}
    np.savez(buffer, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **parts)
    write_atomically(path, buffer.getvalue())


def read_arrays(path: str | Path, name: str = "path") -> tuple[dict[str, Any], dict[str, Array]]:
    """What `write_arrays` wrote, or an error that says what is wrong with the file, which the user calls `name`."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{name}: got {path}, where there is no file; expected one that taut wrote")
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes().decode())
            arrays = {key.removeprefix("array/"): file[key] for key in file.files if key.startswith("array/")}
        if not isinstance(header, dict):
            raise TypeError("its header is no dictionary")
    except Exception as error:  # a damaged file can raise anything
        raise ValueError(
            f"{name}: got {path}, damaged or foreign ({error}); expected a file that taut wrote"
        ) from error
    return header, arrays

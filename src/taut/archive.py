"""Files: learners as JSON, arrays as npz, every write atomic, nothing ever unpickled."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .constants import Constants
from .domains import Domain, domain_from_dict
from .learners import Learner
from .learners import schedules as _schedules

__all__ = ["pack", "read_arrays", "same", "unpack", "write_arrays", "write_atomically"]

_SCHEDULES = {
    name: kind
    for name, kind in vars(_schedules).items()
    if isinstance(kind, type) and issubclass(kind, _schedules.Schedule)
}


def pack(value: Any) -> Any:
    """A learner, schedule, domain or constants as JSON-able values; floats keep every bit."""
    if isinstance(value, Domain):
        return {"domain": value.to_dict()}
    if isinstance(value, Constants):
        plain = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"constants": {k: sorted(v) if isinstance(v, frozenset) else v for k, v in plain.items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: pack(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, "fields": fields}
    if isinstance(value, (np.ndarray, jax.Array)):
        array = np.asarray(value)
        return array.item() if array.ndim == 0 else {"array": array.tolist(), "dtype": str(array.dtype)}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"learner: got a field of type {type(value).__name__}; expected numbers, arrays, schedules or domains")


def unpack(packed: Any) -> Any:
    """The value that `pack` described."""
    if not isinstance(packed, dict):
        return packed
    if "domain" in packed:
        return domain_from_dict(packed["domain"])
    if "constants" in packed:
        entries = dict(packed["constants"])
        return Constants(**{k: frozenset(v) if isinstance(v, list) else v for k, v in entries.items()})
    if "array" in packed:
        return np.asarray(packed["array"], packed["dtype"])
    kind = packed.get("kind")
    known = {**_SCHEDULES, **Learner.kinds}
    if kind not in known:
        raise ValueError(f"file: got a learner of kind {kind!r}; expected one of {', '.join(sorted(known))}")
    return known[kind](**{name: unpack(field) for name, field in packed["fields"].items()})


def same(a: Any, b: Any) -> bool:
    """Whether two packed values are equal, to the last bit."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


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


def write_arrays(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Arrays with a JSON header, in one npz file, atomically."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(buffer, **{"header": text}, **{f"array/{name}": array for name, array in arrays.items()})  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def read_arrays(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """What `write_arrays` wrote, or an error that says what is wrong with the file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes().decode())
            arrays = {name.removeprefix("array/"): file[name] for name in file.files if name.startswith("array/")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: got a damaged or foreign file ({error}); expected one that taut wrote") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path}: got a foreign header; expected one that taut wrote")
    return header, arrays

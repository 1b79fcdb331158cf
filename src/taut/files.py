"""Files: classes by name, values as JSON, arrays as npz. Every write is atomic, and pickle is never
used.

A class of taut is stored under its bare name, any other class under its module and qualified name,
as in `lab:Mirror`. A module that runs as a script is named `__main__`, so that name matches every
module.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .engine import VERSION, Array

PARAMETERS = "parameters"
"""The role of learners and schedules, which are dataclasses that a file describes by class name and
fields."""
SCRIPT = "__main__"

_classes: list[tuple[str, type]] = []
_fields: list[tuple[type, str, Callable[[Any], Any]]] = []
_formats: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {}


def add_class(kind: type, role: str = PARAMETERS) -> None:
    """Let files refer to a class by name."""
    _classes.append((role, kind))


def add_format(
    tag: str, kind: type, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]
) -> None:
    """Store values of `kind` as `{tag: pack(value)}`."""
    _formats[tag] = (kind, pack, unpack)


def add_field(kind: type, name: str, unpack: Callable[[Any], Any]) -> None:
    """Restore one field of a class with a function of its own."""
    _fields.append((kind, name, unpack))


def class_name(kind: type) -> str:
    """Return the name under which files store a class."""
    return kind.__name__ if _is_ours(kind) else f"{kind.__module__}:{kind.__qualname__}"


def class_names(role: str = PARAMETERS) -> tuple[str, ...]:
    """Return the names of all known classes of a role."""
    return tuple(
        sorted(
            {
                class_name(kind)
                for known, kind in _classes
                if known == role and kind.__name__[0] != "_"
            }
        )
    )


def find_class(name: str, role: str = PARAMETERS) -> Any:
    """Return the class of a role that a file calls `name`, the newest if it was redefined, or None
    if there is none."""
    classes = {class_name(kind): kind for known, kind in _classes if known == role}
    if name in classes:
        return classes[name]
    possible = [kind for kind in classes.values() if _could_be(kind, name)]
    if len(possible) > 1:
        listed = " or ".join(sorted(map(class_name, possible)))
        raise ValueError(
            f"file: got the class name {name!r}, which could be {listed}; expected one of them"
        )
    return possible[0] if possible else None


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == __package__


def _could_be(kind: type, name: str) -> bool:
    if _is_ours(kind):
        return False  # taut's classes match by their bare name only
    module, _, path = name.rpartition(":")
    in_script = bool(module) and SCRIPT in (module, kind.__module__)
    return in_script and kind.__qualname__ == path


def pack(value: Any) -> Any:
    """Convert a learner, schedule, domain or constants to values for JSON. Floats keep their exact
    value."""
    for tag, (known, describe, _) in _formats.items():
        if isinstance(value, known):
            return {tag: describe(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: pack(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": class_name(type(value)), "fields": fields}
    if isinstance(value, (np.ndarray, jax.Array)):
        array = np.asarray(value)
        return (
            array.item()
            if array.ndim == 0
            else {"array": array.tolist(), "dtype": str(array.dtype)}
        )
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"learner: got a field of type {type(value).__name__}; expected numbers, arrays, "
        "schedules or domains, which a file can hold"
    )


def unpack(packed: Any) -> Any:
    """Return the value that `pack` described."""
    if not isinstance(packed, dict):
        return packed
    for tag, (_, _, restore) in _formats.items():
        if tag in packed:
            return restore(packed[tag])
    if "array" in packed:
        if np.dtype(packed["dtype"]).kind not in "fiub":
            raise ValueError(
                f"file: got an array of type {packed['dtype']!r}; expected real numbers"
            )
        return np.asarray(packed["array"], packed["dtype"])
    kind = find_class(str(packed.get("kind")))
    if kind is None:
        known = ", ".join(class_names())
        raise ValueError(
            f"file: got a learner of kind {packed.get('kind')!r}; expected one of {known}"
        )
    special = {name: restore for known, name, restore in _fields if issubclass(kind, known)}
    return kind(
        **{name: special.get(name, unpack)(field) for name, field in packed["fields"].items()}
    )


def refuse_newer(version: Any) -> None:
    """Raise an error if a file was written by a later version of taut, which may mean something
    else by it."""
    if version == "":  # a run that was not made by a simulation
        return
    match = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?.*", version) if isinstance(version, str) else None
    if match is None:
        raise ValueError(f"its version is {version!r}")
    if tuple(map(int, match.groups()[:2])) > tuple(map(int, VERSION.split(".")[:2])):
        raise ValueError(
            f"it was written by taut {version}, this is taut {VERSION}: update taut to read it"
        )


def same(a: Any, b: Any) -> bool:
    """Return True if two packed values are exactly equal. The class of a script can have two
    names."""
    return json.dumps(_renamed(a), sort_keys=True) == json.dumps(_renamed(b), sort_keys=True)


def _renamed(packed: Any) -> Any:
    """Return the same description with current class names."""
    if isinstance(packed, (list, tuple)):
        return [_renamed(entry) for entry in packed]
    if not isinstance(packed, dict):
        return packed
    entries = {name: _renamed(entry) for name, entry in packed.items()}
    if isinstance(entries.get("kind"), str):
        roles = (PARAMETERS,) if "fields" in entries else tuple(_formats)
        kind = next(
            (known for role in roles if (known := find_class(entries["kind"], role)) is not None),
            None,
        )
        entries["kind"] = entries["kind"] if kind is None else class_name(kind)
    return entries


def flat(tree: Any) -> dict[str, Array]:
    """Return the leaves of a state by number, with random keys as arrays of integers."""
    keys = (jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in jax.tree.leaves(tree))
    return {str(i): np.asarray(leaf) for i, leaf in enumerate(keys)}


class OtherState(ValueError):
    """A file whose state has other arrays than a learner has in this version."""


def like(tree: Any, leaves: Mapping[str, Array]) -> Any:
    """Return a state with the structure of `tree` and the leaves that `flat` returned; OtherState
    if they do not match."""
    models, structure = jax.tree.flatten(tree)
    kinds = {name: (leaf.shape, leaf.dtype) for name, leaf in flat(tree).items()}
    if {name: (leaf.shape, leaf.dtype) for name, leaf in leaves.items()} != kinds:
        raise OtherState("the state's arrays have other shapes or types")
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

"""Kinds: what classes are called in files, so that a user's class and one of ours are never taken for each other.

A class of this library goes by its bare name, any other by its module and its name in it, as in `lab:Mirror`. A module
that is run as a script is called `__main__`, whatever its name is when it is imported: that stands for any module. Files
written before had bare names for all classes; ours is then meant if there is one, else the only class of that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["add", "find", "name_of", "names"]

_kinds: list[type] = []
SCRIPT = "__main__"


def add(kind: type) -> None:
    """Let files name a class."""
    _kinds.append(kind)


def name_of(kind: type) -> str:
    """What a file calls a class."""
    return kind.__name__ if _is_ours(kind) else f"{kind.__module__}:{kind.__qualname__}"


def names(base: type | tuple[type, ...]) -> tuple[str, ...]:
    """What the known subclasses of `base` are called."""
    return tuple(sorted({name_of(kind) for kind in _kinds if issubclass(kind, base) and kind.__name__[0] != "_"}))


def find(name: str, base: type | tuple[type, ...]) -> Any:
    """The subclass of `base` that a file calls `name`, None if there is none, the newest if it was defined again."""
    found = {name_of(kind): kind for kind in _kinds if issubclass(kind, base)}
    if name in found:
        return found[name]
    meant = [kind for kind in found.values() if _could_be(kind, name)]
    if len(meant) > 1:
        raise ValueError(f"file: got the class name {name!r}, which could be {_listed(meant)}; expected one of them")
    return meant[0] if meant else None


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == __package__


def _could_be(kind: type, name: str) -> bool:
    if _is_ours(kind):
        return False  # by its bare name only
    module, _, path = name.rpartition(":")
    if not module:
        return kind.__name__ == name
    return SCRIPT in (module, kind.__module__) and kind.__qualname__ == path


def _listed(kinds: Iterable[type]) -> str:
    return " or ".join(sorted(map(name_of, kinds)))

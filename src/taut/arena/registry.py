"""The registry of streams: those of this package, and those of others by entry points in the group
`taut.streams`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from .. import entry_points
from .stream import Stream

GROUP = "taut.streams"
ORDER = (
    "toy",
    "toy-strong",
    "doubly-stochastic",
    "polytope",
    "polytope-thin",
    "polytope-flat",
    "pool-adaptive",
    "pool-random",
    "nested-boxes",
    "nested-spheres",
    "drifting-fast",
    "drifting-slow",
    "switching",
)
"""Streams that tables show first; the others follow in alphabetical order."""


def _own() -> Iterator[Stream]:
    package = f"{__name__.rpartition('.')[0]}.streams"
    streams: list[Stream] = []
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        streams += getattr(importlib.import_module(f"{package}.{module.name}"), "STREAMS", ())
    streams.sort(
        key=lambda stream: (
            ORDER.index(stream.name) if stream.name in ORDER else len(ORDER),
            stream.name,
        )
    )
    return iter(streams)


STREAMS: entry_points.Registry[Stream] = entry_points.Registry(
    _own(), Stream, GROUP, "stream", "taut.arena.Stream"
)
"""Every stream by name."""

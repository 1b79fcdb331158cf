"""Registries of named things, to which other packages add by entry points."""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class Registry(Mapping[str, Item], Generic[Item]):
    """Everything of one kind by name. Entry points of other packages are loaded when the registry
    is first read.

    Arguments:
        items: what taut itself has; each item has a `name`.
        kind: the class of all items.
        group: the group of entry points, each of which is an item under its own name.
        word: what an item is called in messages.
        expected: what the class is called in messages.
    """

    def __init__(
        self, items: Iterable[Item], kind: type[Item], group: str, word: str, expected: str
    ) -> None:
        self._items = {_name(item): item for item in items}
        self._own = frozenset(self._items)
        self._kind, self._group, self._word, self._expected = kind, group, word, expected
        self._loaded = False

    def __getitem__(self, name: str) -> Item:
        self._load()
        try:
            return self._items[name]
        except KeyError:
            raise KeyError(
                f"{self._word}: got {name!r}; expected one of {', '.join(self._items)}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(tuple(self._items))

    def __len__(self) -> int:
        self._load()
        return len(self._items)

    def __repr__(self) -> str:
        return f"<{len(self)} {self._word}s: {', '.join(self)}>"

    def add(self, item: Item, replace: bool = False) -> None:
        """Add an item. A name that is taken is refused, unless `replace` is set and the item is not
        one of taut's."""
        self._load()
        if not isinstance(item, self._kind):
            raise TypeError(
                f"{self._kind.__name__.lower()}: got {item!r}; expected a {self._expected}"
            )
        name = _name(item)
        if name in self._items and (not replace or name in self._own):
            raise ValueError(
                f"name: got {name!r}, which is already registered; expected another name"
            )
        self._items[name] = item

    def remove(self, name: str) -> None:
        """Remove an item that `add` added."""
        if name in self._own:
            word = "method" if self._word == "learner" else self._word
            raise ValueError(f"name: got {name!r}, a {word} of taut; expected one that was added")
        del self._items[name]

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True  # first, so that an entry point may read the registry
        for point in importlib.metadata.entry_points(group=self._group):
            try:
                item = point.load()
                if not isinstance(item, self._kind) or _name(item) != point.name:
                    raise TypeError(
                        f"expected a {self._expected} named {point.name!r}, got {item!r}"
                    )
                if point.name in self._items:
                    raise ValueError(f"the name {point.name!r} is already registered")
            except Exception as error:  # a broken package of somebody else must not break taut
                package = point.dist.name if point.dist else "an unknown package"
                warnings.warn(
                    f"{self._word} {point.name!r} of {package} is ignored: {error}", stacklevel=3
                )
            else:
                self._items[point.name] = item


def _name(item: Any) -> str:
    return str(item.name)

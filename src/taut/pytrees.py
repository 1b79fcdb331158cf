"""Frozen dataclasses as JAX pytrees that JAX can tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, TypeVar

import jax
from jax.tree_util import GetAttrKey

__all__ = ["register_dataclass"]

Kind = TypeVar("Kind", bound=type)


def register_dataclass(kind: Kind) -> Kind:
    """Register a dataclass whose fields are leaves or subtrees, or static if their metadata say `{"static": True}`.

    Use this one, not `jax.tree_util.register_dataclass`: with that one the structures of two classes with the same fields
    compare equal (jaxlib 0.10.2; only their hashes differ). `jax.jit` finds a program by 7 bits of the hash and then by
    equality, so one class in 128 silently runs the program of another: steps of 1/t for 1/sqrt(t), squares for a maximum.

    A tree is rebuilt from its fields alone, without `__init__` and `__post_init__`: what these checked and converted was so
    when the tree was taken apart, leaves may be tracers or placeholders by then, and every compiled call would pay for it.
    What a `__post_init__` puts elsewhere than into fields is lost; compute that when it is asked for.
    """
    static = tuple(f.name for f in fields(kind) if f.metadata.get("static"))
    names = tuple(f.name for f in fields(kind) if f.name not in static)
    keys = tuple(map(GetAttrKey, names))
    put = object.__setattr__  # the class may be frozen

    def flatten(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(value, name) for name in names), tuple(getattr(value, name) for name in static)

    def flatten_with_keys(value: Any) -> tuple[tuple[tuple[Any, Any], ...], tuple[Any, ...]]:
        children, fixed = flatten(value)
        return tuple(zip(keys, children, strict=True)), fixed

    def unflatten(fixed: tuple[Any, ...], children: Iterable[Any]) -> Any:
        value: Any = object.__new__(kind)
        for name, child in zip(names, children, strict=True):
            put(value, name, child)
        for name, one in zip(static, fixed, strict=True):
            put(value, name, one)
        return value

    jax.tree_util.register_pytree_with_keys(kind, flatten_with_keys, unflatten, flatten)
    return kind

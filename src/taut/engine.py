"""JAX: the one setting that taut needs, the width of floats, dataclasses as pytrees; and the version of taut."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jax.tree_util import GetAttrKey

__all__ = [
    "COMPILER_OPTIONS", "FLAG", "VERSION", "Array", "cache", "default_float", "double_precision", "prepare", "register_dataclass",
]  # fmt: skip

VERSION = "0.1.0"

Array = np.ndarray[Any, Any]
"""A NumPy array of any type and shape, for annotations."""

OPTION = "xla_cpu_small_while_loop_byte_threshold"
COMPILER_OPTIONS = {"xla_disable_hlo_passes": "tree_reduction_rewriter"}
"""For games alone: that pass turns sums and maxima of 32 numbers and more into windows, which are not vectorised."""
FLAG = f"--xla_backend_extra_options={OPTION}=100000000"


def prepare() -> bool:
    """Ask XLA's CPU backend to compile whole loops, and say whether the request was made.

    The backend compiles a `while` loop into one function only while the loop's buffers are small (1 KiB by
    default); otherwise it dispatches every operation of every round, up to seven times slower. The threshold is
    read when the backend starts, so nothing is done once it runs, nor when `XLA_FLAGS` already has an opinion.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" in flags or _backend_is_up():
        return False
    os.environ["XLA_FLAGS"] = f"{flags} {FLAG}".strip()
    return True


def cache(folder: str | Path) -> None:
    """Keep compiled games in `folder`, so that the next process starts without compiling them again."""
    from jax.experimental.compilation_cache import compilation_cache

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # or a folder in use before would stay in use


def _backend_is_up() -> bool:
    # There is no public question for this; if the private one moves, set the flag: at worst it has no effect.
    try:
        from jax._src import xla_bridge

        return bool(xla_bridge.backends_are_initialized())
    except (ImportError, AttributeError):
        return False


def default_float() -> jax.numpy.dtype:
    """The float type that the user's JAX settings give to plain numbers."""
    return jax.dtypes.canonicalize_dtype(np.float64)


@contextmanager
def double_precision() -> Iterator[None]:
    """A context in which JAX computes in 64 bits, whatever the user's setting.

    Compiled code is forgotten when the width changes: JAX remembers NumPy constants of a user's functions in the width they
    were first seen in, and would mix the two.
    """
    if jax.config.read("jax_enable_x64"):
        yield
        return
    jax.clear_caches()
    try:
        with _enable_x64(True):
            yield
    finally:
        jax.clear_caches()


def _enable_x64(on: bool) -> Any:
    try:
        return jax.enable_x64(on)
    except AttributeError:  # JAX before 0.8
        from jax.experimental import enable_x64  # type: ignore[attr-defined]

        return enable_x64(on)


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

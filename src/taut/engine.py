"""JAX set-up: passes, the compilation cache, the precision of floats, dataclasses as pytrees;
taut's version."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jax.tree_util import GetAttrKey

from .jax_internals import backend_started, forget_traces

VERSION = "0.1.0"

Array = np.ndarray[Any, Any]
"""A NumPy array of any type and shape, for annotations."""


def unless_chosen(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of XLA's compiler without those that the user has chosen in `XLA_FLAGS`."""
    return {
        name: value
        for name, value in options.items()
        if name not in os.environ.get("XLA_FLAGS", "")
    }


KEYS = "threefry2x32"
"""The usual kind of random keys: two numbers of 32 bits."""


def chosen_passes() -> frozenset[str] | None:
    """Return the names of the passes that are switched on; None for all."""
    return _Process.passes


@contextmanager
def passes(*names: str) -> Iterator[None]:
    """Return a context in which only these passes rewrite compiled loops: none without a name.

    Passes change the speed of simulations and players, and no result; `taut.play.passes.PASSES`
    lists them. `TAUT_PASSES` in the environment does the same for a process: "none", or names
    separated by commas.

    >>> import taut
    >>> with taut.engine.passes():
    ...     print(taut.engine.chosen_passes())
    frozenset()
    """
    before, _Process.passes = _Process.passes, frozenset(names)
    try:
        yield
    finally:
        _Process.passes = before


def _passes_of_environment() -> frozenset[str] | None:
    listed = os.environ.get("TAUT_PASSES", "").strip()
    if not listed:
        return None
    names = frozenset(name.strip() for name in listed.split(","))
    return frozenset() if names == {"none"} else names


def cache(folder: str | Path) -> None:
    """Keep compiled code in `folder`, so that the next process does not compile the same
    simulations again."""
    from jax.experimental.compilation_cache import compilation_cache

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # otherwise a folder that was set before would stay in use


def cache_folder() -> str | None:
    """Return the folder in which this process keeps compiled code, if it has one."""
    folder: str | None = getattr(jax.config, "jax_compilation_cache_dir", None)
    return folder or None


class _Process:
    """What is known about JAX in this process."""

    forked = False
    """Whether the process was forked from one in which JAX had started."""
    has_device = False
    """Whether JAX was seen to have a device to compute on."""
    x64: bool | None = None
    """The precision in which functions were traced last."""
    passes: frozenset[str] | None = _passes_of_environment()
    """The passes that are switched on; None for all."""


def _after_fork() -> None:
    _Process.forked = backend_started()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def require_jax(tracing: bool = True) -> None:
    """Raise an error where JAX cannot compute; and trace functions anew if the precision was
    changed since the last call.

    These are processes that were forked after JAX had started, in which compiled code would wait
    forever, and those for which the user chose a platform that this machine does not have. If
    nothing is traced, `tracing=False` saves a microsecond.
    """
    if tracing:
        notice_precision()
    if _Process.forked:
        raise RuntimeError(
            "This process was forked from one in which JAX had already started, and JAX does not "
            "work in it. Start processes "
            'with multiprocessing.get_context("spawn"), or use threads (taut.sweep).'
        )
    if not _Process.has_device:
        _require_device()


def _require_device() -> None:
    try:
        jax.devices()
    except Exception as error:  # an AssertionError without a text for a GPU that is not there
        chosen = os.environ.get("JAX_PLATFORMS") or jax.config.read("jax_platforms")
        why = str(error) or "it found no such device"
        raise RuntimeError(
            f"JAX_PLATFORMS: got {chosen!r}, on which JAX cannot compute here ({why}); expected "
            "'cpu', or no value, with which JAX chooses a device that there is"
        ) from error
    _Process.has_device = True


def first_key() -> jax.Array:
    """Return `jax.random.key(0)`, of JAX's usual kind whatever kind the user has made the
    default."""
    return jax.random.key(0, impl=KEYS)


def wrapped_key(numbers: jax.Array) -> jax.Array:
    """Return the random key that consists of these two numbers."""
    return jax.random.wrap_key_data(numbers, impl=KEYS)


def random_key(name: str, key: Any, usual: bool = False) -> jax.Array:
    """Return a random key of the user, which may be one of the old kind (`jax.random.PRNGKey`).

    With `usual`, only keys of JAX's usual kind are accepted, because states and files contain their
    two numbers.
    """
    if isinstance(key, jax.Array) and key.dtype == np.uint32 and key.shape == (2,):
        key = wrapped_key(key)
    if (
        not isinstance(key, jax.Array)
        or not jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key)
        or key.shape != ()
    ):
        made = (
            f"jax.random.key({key})"
            if isinstance(key, int) and not isinstance(key, bool)
            else "jax.random.key(seed)"
        )
        raise TypeError(f"{name}: got {key!r}; expected one key, as made by {made}")
    if usual and str(jax.random.key_impl(key)) != KEYS:
        raise ValueError(
            f"{name}: got a key of the kind {str(jax.random.key_impl(key))!r}; expected one of "
            f"the kind {KEYS!r} for feedback and learners that draw random numbers: "
            f"jax.random.key(seed, impl={KEYS!r})"
        )
    return key


def default_float() -> jax.numpy.dtype:
    """Return the float type that JAX gives to Python numbers under the user's configuration."""
    return jax.dtypes.canonicalize_dtype(np.float64)


def notice_precision() -> None:
    """Trace functions anew if the precision changed.

    JAX caches NumPy constants of a user's functions in the precision of their first use and would
    mix the two. Compiled programs stay.
    """
    now = bool(jax.config.read("jax_enable_x64"))
    if _Process.x64 not in (None, now):
        forget_traces()
    _Process.x64 = now


@contextmanager
def double_precision() -> Iterator[None]:
    """Return a context in which JAX computes in float64, whatever the user's configuration."""
    if jax.config.read("jax_enable_x64"):
        notice_precision()
        yield
        return
    _Process.x64 = False
    try:
        with _enable_x64(True):
            notice_precision()
            yield
    finally:
        notice_precision()


def _enable_x64(on: bool) -> Any:
    try:
        return jax.enable_x64(on)
    except AttributeError:  # JAX before 0.8
        from jax.experimental import enable_x64  # type: ignore[attr-defined]

        return enable_x64(on)


Kind = TypeVar("Kind", bound=type)
registered: weakref.WeakSet[type] = weakref.WeakSet()
"""Classes that `register_attributes` registered. JAX does not confuse them with others."""


def register_dataclass(kind: Kind) -> Kind:
    """Register a dataclass as a pytree. Fields are leaves or subtrees, or static if their metadata
    say `{"static": True}`.

    Use this function instead of `jax.tree_util.register_dataclass`. With the latter, the tree
    structures of two classes with the same fields compare equal (jaxlib 0.10.2; only their hashes
    differ). `jax.jit` looks up a program by 7 bits of the hash and then by equality, so one class
    in 128 silently runs the program of another, for example with steps of 1/t instead of 1/sqrt(t).

    A value is rebuilt from its fields only, without calling `__init__` and `__post_init__`: its
    fields were checked when the original was created, they can be tracers now, and every compiled
    call would be slower. Attributes that `__post_init__` sets and that are not fields are lost;
    compute them on demand instead.
    """
    static = tuple(f.name for f in fields(kind) if f.metadata.get("static"))
    register_attributes(kind, tuple(f.name for f in fields(kind) if f.name not in static), static)
    return kind


def register_attributes(kind: type, leaves: tuple[str, ...], static: tuple[str, ...]) -> None:
    """Register a class as a pytree whose children and static parts are the attributes of these
    names, as `register_dataclass` does for all fields."""
    keys = tuple(map(GetAttrKey, leaves))
    pair = ("__class__", "__class__")  # with fewer than two names `attrgetter` makes no tuple
    children_of, static_of = attrgetter(*leaves, *pair), attrgetter(*static, *pair)
    put = object.__setattr__  # instances can be frozen

    def flatten(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return children_of(value)[:-2], static_of(value)[:-2]

    def flatten_with_keys(value: Any) -> tuple[tuple[tuple[Any, Any], ...], tuple[Any, ...]]:
        children, fixed = flatten(value)
        return tuple(zip(keys, children, strict=True)), fixed

    def unflatten(fixed: tuple[Any, ...], children: Iterable[Any]) -> Any:
        value: Any = object.__new__(kind)
        for name, child in zip(leaves, children, strict=True):
            put(value, name, child)
        for name, entry in zip(static, fixed, strict=True):
            put(value, name, entry)
        return value

    jax.tree_util.register_pytree_with_keys(kind, flatten_with_keys, unflatten, flatten)
    registered.add(kind)

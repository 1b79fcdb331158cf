"""Compiled functions, kept with the problem whose functions they contain, so that they are freed
together with it.

A cache at module level would keep every user's function, and the data in its closure, alive. Here
each problem owns its programs. Two problems with the same loss and the same constraint function
share them while either exists.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import jax

from .constraints import UserConstraints
from .problem import Problem

__all__ = ["Programs", "Recent", "programs_of"]

LIMIT = 128
"""Programs per problem, at most. The one that was not used for the longest time is dropped
first."""
TOTAL = 512
"""Compiled functions of all problems together, at most. XLA needs up to 65 memory maps for one, and
Linux gives a process 65,530; when they are used up, compiling ends the process."""
Value = TypeVar("Value")


class Recent:
    """Values by key. When there are too many, the one that was not used for the longest time is
    dropped."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._limit = limit

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value stored under `key`; the first time, call `make` and store what it
        returns."""
        found: Value | None = self.find(key)
        return self.keep(key, make()) if found is None else found

    def find(self, key: Hashable) -> Any:
        """Return the value stored under `key`, or None."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
        return value

    def keep(self, key: Hashable, value: Value) -> Value:
        """Store a value, unless another thread stored one under the same key, and return the one
        that is stored."""
        with self._lock:
            value = self._values.setdefault(key, value)
            while len(self._values) > self._limit():
                self._forget(next(iter(self._values)))
        return value

    def drop(self, key: Hashable) -> None:
        """Forget the value stored under `key`, if there is one."""
        with self._lock:
            self._forget(key)

    def _forget(self, key: Hashable) -> None:
        self._values.pop(key, None)

    def values(self) -> tuple[Any, ...]:
        """Return all stored values."""
        with self._lock:
            return tuple(self._values.values())


class Programs(Recent):
    """Compiled functions and what is needed to call them, by key."""

    def __init__(self) -> None:
        super().__init__(lambda: LIMIT)
        _all.add(self)
        self.used: dict[Hashable, int] = {}
        """When each compiled function was used last, as a number that grows."""

    def compiled(self, function: Callable[..., Any], *static: Hashable, **options: Any) -> Any:
        """Return `function`, which is defined at module level, compiled with its first arguments
        fixed to `static`.

        The other arguments must be trees that hold no function of the user, because JAX keeps the
        structures of arguments in caches of its own.
        """

        def make() -> Any:
            def fixed(*arguments: Any) -> Any:
                return function(*static, *arguments)

            fixed.__name__ = function.__name__  # shown in profiles
            return jax.jit(fixed, **options)

        return self.executable((function, static), make)

    def executable(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the compiled function stored under `key`; the first time, what `make` returns."""
        program = self.find(key)
        if program is None:
            _drop_oldest()
            program = self.keep(key, make())
        self.used[key] = next(_clock)
        return program

    def _forget(self, key: Hashable) -> None:
        super()._forget(key)
        self.used.pop(key, None)

    def call(
        self, function: Callable[..., Any], *arguments: Any, static: tuple[Hashable, ...] = ()
    ) -> Any:
        """Return `function(*static, *arguments)`, compiled. The arguments may hold functions of the
        user, as constraints do.

        Use this in place of `jax.jit(function)` at module level, whose cache would keep such
        functions alive.
        """
        leaves, structure = jax.tree.flatten(arguments)
        return self.compiled(_on_leaves, function, static, structure)(*leaves)


def _on_leaves(
    function: Callable[..., Any], static: tuple[Hashable, ...], structure: Any, *leaves: Any
) -> Any:
    return function(*static, *jax.tree.unflatten(structure, leaves))


_clock = itertools.count()
_all: weakref.WeakSet[Programs] = weakref.WeakSet()
_counting = threading.Lock()


def _drop_oldest() -> None:
    """Make room for one more compiled function: drop the one of any problem that was not used for
    the longest time."""
    with _counting:
        alive = [
            (when, programs, key)
            for programs in tuple(_all)
            for key, when in tuple(programs.used.items())
        ]
        for _, programs, key in sorted(alive, key=lambda one: one[0])[
            : max(0, len(alive) + 1 - TOTAL)
        ]:
            programs.drop(key)


_shared: weakref.WeakValueDictionary[Any, Programs] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def programs_of(problem: Problem) -> Programs:
    """Return the programs that `problem` owns, which are those of any living problem with the same
    functions."""
    owned: Programs | None = problem.programs
    if owned is None:
        with _sharing:
            key = _functions(problem)
            owned = Programs() if key is None else _shared.setdefault(key, Programs())
            problem.programs = owned
    return owned


def _functions(problem: Problem) -> Any:
    """Identify the user's functions by weak references, or return None if they cannot be
    identified."""
    constraints: Any = problem.constraints
    while hasattr(constraints, "inner"):
        constraints = constraints.inner
    if not isinstance(constraints, UserConstraints):
        return None
    try:
        key = weakref.ref(problem.loss), weakref.ref(constraints.function)
        # A reference remembers the hash, which it can no longer compute when the function is gone.
        hash(key)
    except TypeError:
        return None
    return key

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

LIMIT = 128
"""Programs per problem, at most. The one that was not used for longest is dropped first."""
TOTAL = 512
"""Compiled functions of all problems together, at most. XLA needs up to 65 memory maps for one, and
Linux gives a process 65,530; when they are used up, compiling ends the process."""
Value = TypeVar("Value")


class Programs:
    """Compiled functions by key; when there are too many, those not used for longest go."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()
        self.used: dict[Hashable, int] = {}
        """When each compiled function was used last, as a number that grows."""
        _all.add(self)

    def get(self, key: Hashable, make: Callable[[], Value], compiles: bool = False) -> Value:
        """Return the value of `key`, at first from `make`, which perhaps `compiles`."""
        with self._lock:
            value: Value | None = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
        if value is None:
            if compiles:
                _drop_oldest()
            made = make()
            with self._lock:  # another thread may have stored one under the same key
                value = self._values.setdefault(key, made)
                while len(self._values) > LIMIT:
                    self._forget(next(iter(self._values)))
        if compiles:
            self.used[key] = next(_clock)
        return value

    def call(
        self, function: Callable[..., Any], *arguments: Any, static: tuple[Hashable, ...] = ()
    ) -> Any:
        """Return `function(*static, *arguments)`, compiled. The arguments may hold functions of the
        user, as constraints do.

        Use this in place of `jax.jit(function)` at module level, whose cache would keep such
        functions, and the structures of arguments, alive.
        """
        leaves, structure = jax.tree.flatten(arguments)

        def make() -> Any:
            def on_leaves(*leaves: Any) -> Any:
                return function(*static, *jax.tree.unflatten(structure, leaves))

            on_leaves.__name__ = function.__name__  # shown in profiles
            return jax.jit(on_leaves)

        return self.get((function, static, structure), make, compiles=True)(*leaves)

    def drop(self, key: Hashable) -> None:
        """Forget the value stored under `key`, if there is one."""
        with self._lock:
            self._forget(key)

    def _forget(self, key: Hashable) -> None:
        self._values.pop(key, None)
        self.used.pop(key, None)

    def values(self) -> tuple[Any, ...]:
        """Return all stored values."""
        with self._lock:
            return tuple(self._values.values())


_clock = itertools.count()
_all: weakref.WeakSet[Programs] = weakref.WeakSet()
_counting = threading.Lock()


def _drop_oldest() -> None:
    """Make room for a compiled function: drop the one that was not used for longest."""
    with _counting:
        alive = [
            (when, programs, key)
            for programs in tuple(_all)
            for key, when in tuple(programs.used.items())
        ]
        alive.sort(key=lambda entry: entry[0])
        for _, programs, key in alive[: max(0, len(alive) + 1 - TOTAL)]:
            programs.drop(key)


_shared: weakref.WeakValueDictionary[Any, Programs] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def programs_of(problem: Problem) -> Programs:
    """Return the programs of `problem`, shared by living problems with the same functions."""
    owned: Programs | None = problem.programs
    if owned is None:
        with _sharing:
            key = _functions(problem)
            owned = Programs() if key is None else _shared.setdefault(key, Programs())
            problem.programs = owned
    return owned


def _functions(problem: Problem) -> Any:
    """Identify the user's functions by weak references; None if they allow none."""
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

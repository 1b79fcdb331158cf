"""The identity of a cell: a checksum of everything that determines its result, which names its
file.

It must be the same in every process and on every day, so it does not use pickles, whose bytes
change. Loss and constraints are described by the program that JAX traces from them, with all
numbers in it. Functions that make data or measure runs are described by their code, their arguments
and the values that they refer to in enclosing functions.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import json
import pathlib
import types
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import files
from ..engine import VERSION, Array, default_float
from ..play.fingerprint import parts_of, program_digest
from ..problem.compatibility import first_decision, round_shapes
from ..problem.streams import Adversary, Arrays, Chunks, Stream, as_stream
from ..storage import digest
from .cell import Ready, make_stream

__all__ = ["Identities", "described"]


class Identities:
    """Computes identities, and remembers what cells have in common: problems and recipes."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}

    def of(self, cell: Ready) -> str:
        """Return the identity of a cell, 40 hexadecimal digits."""
        source, description = self._stream(cell)
        first = first_decision(cell.problem, cell.x1)
        facts = {
            "learner": [files.pack(cell.learner), _code_of(cell.learner)],
            "problem": self._problem(cell, source, first),
            "stream": description,
            "horizon": cell.horizon,
            "seeds": cell.seeds,
            "x1": None if cell.x1 is None else _array(np.asarray(cell.x1)),
            "key": None if cell.key is None else described(cell.key),
            "record": cell.record,
            "every": cell.every,
            "feedback": None
            if cell.feedback is None
            else [described(cell.feedback), _code_of(cell.feedback)],
            "measure": None
            if cell.measure is None
            else [described(cell.measure), files.pack(cell.problem.constants)],
            "float": str(default_float()),
            "versions": [VERSION, jax.__version__],
        }
        if (
            cell.chunk is not None
        ):  # not named otherwise, so that files of earlier versions are found
            facts["chunk"] = cell.chunk
        if not cell.keep:
            facts["keep"] = False
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:40]

    def _problem(self, cell: Ready, stream: Stream | None, first: jax.Array) -> Any:
        if stream is None:
            return None
        random_key = jax.random.key(0) if stream.reacts else None
        example = round_shapes(stream, first, random_key)
        reacting = (
            (id(stream.function), id(stream.state)) if isinstance(stream, Adversary) else None
        )
        key = (id(cell.problem), id(cell.score), reacting, str(example), first.dtype)

        def describe() -> Any:
            played = cell.problem
            functions, trees = parts_of(played, cell.score, stream, first.dtype)
            return [played.domain.to_dict(), program_digest(functions, trees, first, example)]

        return self._remembered(key, describe, cell.problem, cell.score, stream)

    def _stream(self, cell: Ready) -> tuple[Stream | None, Any]:
        """Return a stream of the same shapes, and what identifies the data. A recipe that fails
        here will fail when played."""
        stream = cell.stream
        if isinstance(stream, Stream):
            return stream, self._remembered(
                (id(stream),), lambda: _described_stream(stream), stream
            )
        recipe = described(stream)
        key = (json.dumps(recipe), id(cell.problem), cell.horizon, cell.seeds)

        def shapes() -> Stream | None:
            try:
                made = make_stream(stream)
                data = as_stream(cell.problem.arrange(made), horizon=cell.horizon, seeds=cell.seeds)
            except Exception:  # the cell will fail with this error, and the others are played
                return None
            if not isinstance(data, Arrays):
                return data
            return Arrays(jax.tree.map(np.zeros_like, data.block(0, 1)), 1, data.seeds, True)

        return self._remembered(key, shapes, cell.problem), recipe

    def _remembered(self, key: Any, make: Any, *alive: Any) -> Any:
        """Return what `make` returned the first time. The objects whose `id` is in the key are kept
        alive."""
        if key not in self._kept:
            self._kept[key] = make(), alive
        return self._kept[key][0]


def _described_stream(stream: Stream) -> Any:
    if isinstance(stream, Arrays):
        data = stream.block(0, stream.horizon)
        structure = str(jax.tree.structure(data))
        return [
            "arrays",
            structure,
            digest({f"{i:06}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(data))}),
        ]
    if isinstance(stream, (Chunks, Adversary)):
        return [type(stream).__name__.lower(), described(stream.function)]
    return [type(stream).__name__, described(vars(stream))]


def described(value: Any) -> Any:
    """Describe a value or a function by JSON values that are equal in every process; TypeError if
    that is impossible.

    Functions and constants of the same module that a function uses are part of its description;
    those of other modules are represented by their names, so that changes of them are not noticed.
    """
    return _Description(set()).of(value)


class _Description:
    def __init__(self, active: set[int]) -> None:
        self.active = active
        """Functions that are being described, since a function can refer to itself."""

    def of(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, (float, complex, bytes, np.generic)):
            return [type(value).__name__, repr(value)]
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            return [
                "key",
                str(jax.random.key_impl(value)),
                _array(np.asarray(jax.random.key_data(value))),
            ]
        if isinstance(value, (np.ndarray, jax.Array)):
            return _array(np.asarray(value))
        if isinstance(value, (list, tuple)):
            return [type(value).__name__, *map(self.of, value)]
        if isinstance(value, (set, frozenset)):
            return [type(value).__name__, *sorted(json.dumps(self.of(one)) for one in value)]
        if isinstance(value, Mapping):
            return ["dict", *([self.of(name), self.of(entry)] for name, entry in value.items())]
        if isinstance(value, pathlib.PurePath):
            return ["path", str(value)]
        if isinstance(value, types.ModuleType):
            return ["module", value.__name__]
        if isinstance(value, type):
            return ["class", f"{value.__module__}:{value.__qualname__}"]
        if isinstance(value, enum.Enum):
            return ["enum", self.of(type(value)), value.name]
        return self._once(value)

    def _once(self, value: Any) -> Any:
        if id(value) in self.active:
            return ["itself"]
        self.active.add(id(value))
        try:
            return self._object(value)
        finally:
            self.active.discard(id(value))

    def _object(self, value: Any) -> Any:
        if isinstance(value, functools.partial):
            return ["partial", self.of(value.func), self.of(value.args), self.of(value.keywords)]
        if isinstance(value, types.MethodType):
            return ["method", self.of(value.__func__), self.of(value.__self__)]
        if isinstance(value, types.FunctionType):
            cells = [_contents(cell) for cell in value.__closure__ or ()]
            rest = (value.__defaults__, value.__kwdefaults__, cells)
            used = {
                name: value.__globals__[name]
                for name in _names(value.__code__)
                if name in value.__globals__
            }
            near = {name: one for name, one in used.items() if _is_near(one, value.__module__)}
            code = self.code(value.__code__)
            return [
                "function",
                f"{value.__module__}:{value.__qualname__}",
                code,
                self.of(rest),
                self.of(near),
            ]
        if isinstance(value, types.BuiltinFunctionType) or type(value).__name__ == "ufunc":
            return ["builtin", getattr(value, "__qualname__", value.__name__)]
        if hasattr(value, "__wrapped__") and callable(value):
            return ["wrapped", type(value).__name__, self.of(value.__wrapped__)]
        if dataclasses.is_dataclass(value):
            entries = {
                entry.name: getattr(value, entry.name) for entry in dataclasses.fields(value)
            }
            return ["object", self.of(type(value)), self.of(entries)]
        if callable(value) and hasattr(value, "__dict__"):
            return [
                "object",
                self.of(type(value)),
                self.of(_functions(type(value))),
                self.of(vars(value)),
            ]
        raise TypeError(
            f"got a function that refers to an object of class {type(value).__name__}, which has "
            "no description that is the same in every process; expected numbers, texts, arrays, "
            "dataclasses and functions"
        )

    def code(self, code: types.CodeType) -> Any:
        constants = [
            self.code(c) if isinstance(c, types.CodeType) else self.of(_constant(c))
            for c in code.co_consts
        ]
        state = hashlib.sha256(code.co_code)
        return [state.hexdigest(), constants, list(code.co_names)]


def _names(code: types.CodeType) -> list[str]:
    """Return the names of variables and functions of the module that a function can use, sorted."""
    inner = [
        name
        for constant in code.co_consts
        if isinstance(constant, types.CodeType)
        for name in _names(constant)
    ]
    return sorted({*code.co_names, *inner})


def _is_near(value: Any, module: str) -> bool:
    """Return whether a variable of a module is described with the functions that use it."""
    if isinstance(value, types.FunctionType):
        return value.__module__ == module
    return isinstance(value, (bool, int, float, complex, str, bytes, np.generic)) or (
        isinstance(value, np.ndarray) and value.dtype != object
    )


def _code_of(learner: Any) -> Any:
    """Return the code of all classes of a learner and its schedules that are not part of taut,
    whose version is known."""
    kinds: set[type] = set()
    waiting = [learner]
    while waiting:
        value = waiting.pop()
        if dataclasses.is_dataclass(value):
            kinds |= set(type.mro(type(value)))
            waiting += [getattr(value, entry.name) for entry in dataclasses.fields(value)]
    ours = __name__.partition(".")[0]
    foreign = [
        kind
        for kind in kinds
        if kind.__module__.partition(".")[0] not in (ours, "builtins", "abc", "typing")
    ]
    found = {}
    for kind in sorted(foreign, key=lambda kind: (kind.__module__, kind.__qualname__)):
        found[f"{kind.__module__}:{kind.__qualname__}"] = described(_functions(kind))
    return found


def _functions(kind: type) -> dict[str, Any]:
    """Return the methods of a class that its author wrote."""
    methods = {name: _function(value) for name, value in vars(kind).items()}
    written = ("__call__", "__post_init__")
    return {
        name: method
        for name, method in sorted(methods.items())
        if method is not None and (name in written or not name.startswith("__"))
    }


def _function(value: Any) -> Any:
    if isinstance(value, (classmethod, staticmethod)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    return value if isinstance(value, types.FunctionType) else None


def _constant(value: Any) -> Any:
    return "..." if value is Ellipsis else value


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _array(array: Array) -> Any:
    if array.dtype == object:
        raise TypeError("got an array of Python objects; expected numbers or texts")
    if array.dtype.kind not in "fiubc":
        return ["array", str(array.dtype), array.tolist()]
    return ["array", digest({"": array})]

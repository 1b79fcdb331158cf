"""What a function reaches: a description of its code and of everything that it reads, in values for
JSON.

Two functions with equal descriptions compute the same, in every process and on every day. Pickles
would not do, because their bytes change. Code that the user wrote is described by what it says:
bytecode, constants, arguments by default, enclosing variables, and the variables, functions and
classes of modules that it names. Code of installed packages is described by its name and version.
Not noticed is what code reads without naming it: files, `getattr` with a computed name, `eval`.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import hashlib
import importlib
import importlib.util
import json
import pathlib
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from ..storage import digest

INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed packages."""
TAUT = __name__.partition(".")[0]
GENERATED = "<string>"
"""The file of methods that `dataclass` and `NamedTuple` write."""


class Descriptions:
    """Describes values and functions, and remembers functions and arrays that many of them have in
    common."""

    def __init__(self) -> None:
        self._functions: dict[int, tuple[Any, Any]] = {}
        self._digests: dict[int, tuple[Any, str]] = {}

    def of(self, value: Any, argument: str) -> Any:
        """Describe a value. Raises TypeError, with the name of the `argument`, for what cannot be
        described."""
        if isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return ["partial", *(self.of(part, argument) for part in parts)]
        if not isinstance(value, types.FunctionType):
            return _Description(argument, self._digests).of(value)
        if id(value) not in self._functions:
            made = _Description(argument, self._digests).of(value)
            self._functions[id(value)] = value, made  # the value stays alive, and so its id
        return self._functions[id(value)][1]

    def of_classes(self, value: Any, argument: str) -> Any:
        """Describe the user's own classes of a dataclass and of the dataclasses in its fields."""
        description = _Description(argument, self._digests)
        kinds: set[type] = set()
        waiting = [value]
        while waiting:
            part = waiting.pop()
            if dataclasses.is_dataclass(part):
                kinds |= {kind for kind in type.mro(type(part)) if _is_own(kind.__module__)}
                waiting += [getattr(part, entry.name) for entry in dataclasses.fields(part)]
        return [description.of(kind) for kind in sorted(kinds, key=_name_of_class)]


class _Description:
    def __init__(self, argument: str, digests: dict[int, tuple[Any, str]]) -> None:
        self._argument, self._digests = argument, digests
        self._path: list[str] = []
        """The names from the argument to what is being described, for errors."""
        self._numbers: dict[int, int] = {}
        """Functions, classes and objects that were described before, by `id`."""
        self._alive: list[Any] = []
        """The same objects, so that no `id` is used again."""

    def of(self, value: Any, name: str = "") -> Any:
        """Describe a value, which the user calls `name`."""
        if not name:
            return self._value(value)
        self._path.append(name)
        description = self._value(value)
        self._path.pop()
        return description

    def _value(self, value: Any) -> Any:
        if isinstance(value, enum.Enum):
            return ["enum", self.of(type(value)), value.name]
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, (float, complex, bytes, np.generic, range, slice)):
            return [type(value).__name__, repr(value)]
        if isinstance(value, (np.ndarray, jax.Array)):
            return self._array(value)
        if type(value) in (list, tuple):
            return [type(value).__name__, *map(self.of, value)]
        if type(value) in (set, frozenset):
            return [type(value).__name__, *sorted(json.dumps(self.of(part)) for part in value)]
        if type(value) in (dict, types.MappingProxyType):
            return ["dict", *([self.of(key), self.of(entry)] for key, entry in value.items())]
        if isinstance(value, pathlib.PurePath):
            return ["path", str(value)]
        if isinstance(value, types.ModuleType):
            return _far(value.__name__)
        if isinstance(value, types.CodeType):
            return self._code(value)
        if value is Ellipsis or value is NotImplemented:
            return [repr(value)]
        if id(value) in self._numbers:
            return ["as before", self._numbers[id(value)]]
        self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        return self._object(value)

    def _array(self, value: Any) -> Any:
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            kind = str(jax.random.key_impl(value))
            return ["key", kind, self.of(np.asarray(jax.random.key_data(value)))]
        array = np.asarray(value)
        if array.dtype.kind in "fiubc":
            if id(value) not in self._digests:
                self._digests[id(value)] = value, digest({"": array})
            return ["array", self._digests[id(value)][1]]
        return ["array", str(array.dtype), list(array.shape), self.of(array.ravel().tolist())]

    def _object(self, value: Any) -> Any:
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, functools.partial):
            return ["partial", self.of(value.func), self.of(value.args), self.of(value.keywords)]
        if isinstance(value, types.MethodType):
            return ["method", self.of(value.__func__), self.of(value.__self__)]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.BuiltinFunctionType):
            return ["builtin", value.__qualname__, self.of(value.__self__)]
        if isinstance(value, np.ufunc):
            return ["builtin", value.__name__]
        if callable(value) and hasattr(value, "__wrapped__"):  # functools.cache, jax.jit
            rules = {name: rule for name, rule in _variables(value).items() if callable(rule)}
            return ["wrapped", self.of(type(value)), self.of(value.__wrapped__), self.of(rules)]
        if dataclasses.is_dataclass(value):
            names = [entry.name for entry in dataclasses.fields(value)]
            entries = [[name, self.of(getattr(value, name), name)] for name in names]
            return ["object", self.of(type(value)), entries]
        return self._reduced(value)

    def _function(self, function: types.FunctionType) -> Any:
        code, module = function.__code__, str(function.__globals__.get("__name__"))
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        enclosing = {name: self.of(_contents(cell), name) for name, cell in cells.items()}
        if not _is_own(module):  # for example a decorator, which encloses the user's function
            return ["function", _far(module), code.co_qualname, enclosing]
        self._path.append(code.co_qualname)
        names = set(_names(code))
        used = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
        used |= {imported.__name__: imported for imported in _imports(code, function.__globals__)}
        reached = [[name, self._global(used[name], name, names)] for name in sorted(used)]
        attributes = {name: value for name, value in vars(function).items() if name[:2] != "__"}
        defaults = self.of((function.__defaults__, function.__kwdefaults__, attributes))
        self._path.pop()
        return ["function", module, self._code(code), defaults, enclosing, reached]

    def _global(self, value: Any, name: str, names: set[str]) -> Any:
        """Describe a variable of a module. Of a module of the user, describe what is named."""
        if not isinstance(value, types.ModuleType) or not _is_own(value.__name__):
            return self.of(value, name)
        if id(value) in self._numbers:
            return ["as before", value.__name__]
        self._numbers[id(value)] = len(self._numbers)
        parts = [part for part in sorted(names & vars(value).keys()) if part != name]
        entries = [
            [part, self._global(vars(value)[part], f"{name}.{part}", names)] for part in parts
        ]
        del self._numbers[id(value)]  # another function may name other parts of it
        return ["module", value.__name__, entries]

    def _code(self, code: types.CodeType) -> Any:
        constants = [self.of(constant) for constant in code.co_consts]
        bytecode = hashlib.sha256(code.co_code).hexdigest()
        return [code.co_qualname, bytecode, constants, list(code.co_names)]

    def _class(self, kind: type) -> Any:
        name = _name_of_class(kind)
        if not _is_own(kind.__module__):
            return ["class", _far(kind.__module__), name]
        self._path.append(kind.__qualname__)
        bases = [self.of(base) for base in kind.__bases__]
        entries = [[part, self.of(value, part)] for part, value in sorted(_members(kind))]
        self._path.pop()
        return ["class", name, bases, entries]

    def _reduced(self, value: Any) -> Any:
        """Describe an object by the parts from which a copy of it is made."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception as error:  # whatever a class of the user or of a package raises
            self._refuse(value, error)
        if isinstance(reduced, str):
            return ["global", _far(type(value).__module__), reduced]
        make, arguments, state, entries, pairs = (*reduced, None, None, None)[:5]
        return [
            "object",
            self.of(type(value)),
            self.of(make),
            self.of(tuple(arguments)),
            self.of(state),
            None if entries is None else self.of(list(entries)),
            None if pairs is None else self.of(list(pairs)),
        ]

    def _refuse(self, value: Any, error: Exception) -> NoReturn:
        where = " -> ".join(self._path) or "an object"
        raise TypeError(
            f"{self._argument}: got {where}, of class {type(value).__name__}, which has no "
            f"description that is the same in every process ({error}), so that a change of it "
            "would not be noticed. Expected functions that read numbers, texts, arrays, "
            "dataclasses and functions; or no folder"
        ) from error


def _is_own(module: str) -> bool:
    """Return whether the user wrote a module, rather than that it was installed."""
    top = module.partition(".")[0]
    if top == TAUT or top in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or not set(INSTALLED) & set(pathlib.PurePath(file).parts)


def _far(module: str) -> Any:
    """Describe a module by its name and the version of its package."""
    top = module.partition(".")[0]
    if top == TAUT:
        return ["module", module, _source_digest(module)]
    version = getattr(sys.modules.get(top), "__version__", None)
    return ["module", module, version if isinstance(version, str) else None]


@functools.cache
def _source_digest(module: str) -> str | None:
    """Return a checksum of a source file of taut, whose version changes with releases only."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return None if file is None else hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()


def _name_of_class(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield what the author of a class wrote, by name."""
    for name, value in vars(kind).items():
        member = _unwrapped(value)
        if isinstance(member, types.FunctionType):
            if member.__code__.co_filename != GENERATED:
                yield name, member
        elif not name.startswith(("__", "_abc_")) and not isinstance(
            member, (types.MemberDescriptorType, types.GetSetDescriptorType)
        ):
            yield name, member


def _unwrapped(member: Any) -> Any:
    """Return the functions behind a method or property of a class."""
    if isinstance(member, (classmethod, staticmethod)):
        return member.__func__
    if isinstance(member, functools.cached_property):
        return member.func
    if isinstance(member, property):
        return [part for part in (member.fget, member.fset, member.fdel) if part is not None]
    return member


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the names that code uses, also inside functions that it defines."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _imports(code: types.CodeType, variables: Mapping[str, Any]) -> Iterator[types.ModuleType]:
    """Yield the user's own modules that code imports when it runs."""
    package, constants = str(variables.get("__package__") or ""), list[Any]()
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT")):
            constants.append(instruction.argval)
        if instruction.opname == "IMPORT_NAME":
            level = int(constants[-2])  # pushed before the names that are imported
            name = "." * level + str(instruction.argval)
            module = _found(name, package)
            if module is not None:
                yield module
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _imports(constant, variables)


def _found(name: str, package: str) -> types.ModuleType | None:
    """Return a module of the user; None if it is installed or cannot be found."""
    try:
        full = importlib.util.resolve_name(name, package)
        spec = importlib.util.find_spec(full)
    except (ImportError, ValueError):
        return None
    origin = None if spec is None else spec.origin
    if origin is None or set(INSTALLED) & set(pathlib.PurePath(origin).parts):
        return None
    standard = pathlib.PurePath(sysconfig.get_path("stdlib"))
    if pathlib.PurePath(origin).is_relative_to(standard) or not _is_own(full):
        return None
    return importlib.import_module(full)


def _variables(value: Any) -> Mapping[str, Any]:
    return getattr(value, "__dict__", {})


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None

"""Small functions evaluated in NumPy instead of being compiled.

Compiling a function takes XLA some 100 milliseconds, evaluating it on small arrays takes
microseconds. `evaluated` is used in place of `jax.jit` for functions that are called a few times
only: it traces the function as JAX does, evaluates the traced program in NumPy while that is cheap,
and compiles it once the time spent in NumPy exceeds what compiling would cost. Programs that
contain an operation without a counterpart here are compiled at once. Both ways give the same
numbers up to rounding.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload

import jax
import numpy as np

from ..engine import Array
from ..jax_internals import ClosedJaxpr, Jaxpr, Literal, plain
from .numpy_rules import RULES, Rule, usual

__all__ = [
    "CALLS",
    "Evaluated",
    "Tape",
    "bodies",
    "current_owner",
    "evaluated",
    "owned_by",
    "supported",
]

ENTRIES = 20_000_000
"""Programs that compute more entries than this are compiled at once."""
PER_OPERATION = 1000
"""Entries that NumPy computes in the time that it takes to call one operation."""
ITERATIONS = 2000
"""Iterations of a loop without a known length after which the program is compiled after all."""
PROGRAMS = 64
"""The number of traced programs that are kept per function and owner."""
SECONDS = 0.25
"""The processor time after which a program is compiled rather than evaluated in NumPy once more."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Owner(Protocol):
    """Keeps programs, as `taut.problem.programs.Programs` does."""

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what is kept under `key`; the first time, what `make` returns."""


_owner: ContextVar[Owner | None] = ContextVar("owner of evaluated programs", default=None)


@contextmanager
def owned_by(owner: Owner) -> Iterator[None]:
    """Return a context in which programs are kept by `owner`, because they contain functions of the
    user.

    They are freed together with it. Outside of such a context each function keeps its programs
    itself.
    """
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)


def current_owner() -> Owner | None:
    """Return the owner of the context, if there is one."""
    return _owner.get()


@overload
def evaluated(function: Function) -> Function: ...


@overload
def evaluated(*, static_argnames: Sequence[str]) -> Callable[[Function], Function]: ...


def evaluated(function: Any = None, *, static_argnames: Sequence[str] = ()) -> Any:
    """Decorate a pure function of arrays, which is then evaluated in NumPy while that is cheaper
    than to compile it."""
    if function is None:
        return functools.partial(evaluated, static_argnames=static_argnames)
    return functools.wraps(function)(Evaluated(function, static_argnames))


class Evaluated:
    """A function that is evaluated in NumPy at first and compiled when it is used often; see
    `evaluated`."""

    def __init__(self, function: Callable[..., Any], static_argnames: Sequence[str] = ()) -> None:
        self._function = function
        self._static = [name in static_argnames for name in inspect.signature(function).parameters]
        self._own: dict[Any, _Program] = {}

    @property
    def programs(self) -> dict[Any, _Program]:
        """The programs that the current owner keeps, by what they were traced for."""
        owner = _owner.get()
        if owner is None:
            return self._own
        kept: dict[Any, _Program] = owner.get(self, dict)
        return kept

    def __call__(self, *arguments: Any) -> Any:
        """The function's results, as NumPy or JAX arrays."""
        dynamic = [one for one, static in zip(arguments, self._static, strict=True) if not static]
        leaves, tree = jax.tree_util.tree_flatten(dynamic)
        arrays = [np.asarray(leaf) for leaf in leaves]
        fixed = tuple(one for one, static in zip(arguments, self._static, strict=True) if static)
        key = (
            fixed,
            tree,
            tuple((a.shape, a.dtype) for a in arrays),
            jax.config.read("jax_enable_x64"),
        )
        programs = self.programs
        program = programs.get(key)
        if program is None:
            program = programs[key] = self._traced(fixed, tree, arrays)
            if len(programs) > PROGRAMS:
                programs.pop(next(iter(programs)), None)
        if program.tape is not None and program.spent <= SECONDS:
            began = time.thread_time()
            try:
                with np.errstate(all="ignore"):
                    results = program.tape.run(arrays)
            except _TooLong:
                program.spent = np.inf
            else:
                program.spent += time.thread_time() - began
                return jax.tree_util.tree_unflatten(program.results, results)
        return program.jitted(
            *(a if isinstance(a, jax.Array) else b for a, b in zip(leaves, arrays, strict=True))
        )

    def _traced(self, fixed: tuple[Any, ...], tree: Any, arrays: list[Array]) -> _Program:
        # The function gets its arguments as leaves: JAX keeps the structures of arguments, which
        # may hold users' functions.
        def on_leaves(*leaves: Any) -> Any:
            given, dynamic = iter(fixed), iter(jax.tree_util.tree_unflatten(tree, leaves))
            return self._function(
                *(next(given) if static else next(dynamic) for static in self._static)
            )

        on_leaves.__name__ = self._function.__name__  # shown in profiles
        return _Program.of(jax.jit(on_leaves), arrays)


@dataclass
class _Program:
    """A program, compiled and in NumPy, and the seconds spent on it in NumPy, infinite if it must
    be compiled."""

    jitted: Any
    tape: Tape | None
    results: Any
    spent: float

    @classmethod
    def of(cls, jitted: Any, arrays: Sequence[Array]) -> _Program:
        traced = jitted.trace(*arrays)
        closed, results = traced.jaxpr, jax.tree_util.tree_structure(traced.out_info)
        usable = (
            supported(closed.jaxpr)
            and _entries(closed.jaxpr) <= ENTRIES
            and jax.default_backend() == "cpu"
            and not plain()
        )
        return cls(jitted, Tape(closed) if usable else None, results, 0.0 if usable else np.inf)


class _TooLong(Exception):
    """A loop takes so many iterations that compiling is cheaper."""


def supported(jaxpr: Any) -> bool:
    """Whether every operation of a traced program has a counterpart in NumPy."""
    for equation in jaxpr.eqns:
        inner = bodies(equation)
        if inner:
            if (
                not all(supported(body.jaxpr) for body in inner)
                or equation.params.get("length") == 0
            ):
                return False
        elif equation.primitive.name not in RULES or not usual(equation):
            return False
    return True


class Tape:
    """A traced program as a list of steps in NumPy; it must be `supported`.

    Calls are inlined. Nothing of JAX is kept, because JAX would use the constants of a traced
    program that exists, in its precision, for other programs with the same constants in another
    precision.
    """

    def __init__(self, closed: Any) -> None:
        self._steps: list[_Step] = []
        self._constants: dict[int, Array] = {}
        self._count = len(closed.jaxpr.invars)
        outputs = self._add(closed, list(range(self._count)))
        self._outputs = [
            (slot, v.aval.dtype) for slot, v in zip(outputs, closed.jaxpr.outvars, strict=True)
        ]
        self._free_early()

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of the program."""
        values: dict[int, Any] = dict(enumerate(inputs)) | self._constants
        for step in self._steps:
            result = step.rule(*[values[slot] for slot in step.operands], **step.parameters)
            values.update(zip(step.results, result if step.multiple else (result,), strict=True))
            for slot in step.last_used:
                del values[slot]
        return [np.asarray(values[slot], dtype) for slot, dtype in self._outputs]

    def _add(self, closed: Any, inputs: list[int]) -> list[int]:
        """Append the steps of a program whose inputs are in these slots, and return the slots of
        its outputs."""
        jaxpr = closed.jaxpr
        slots = dict(zip(jaxpr.constvars, map(self._constant, closed.consts), strict=True))
        slots.update(zip(jaxpr.invars, inputs, strict=True))

        def slot(variable: Any) -> int:
            return (
                self._constant(variable.val) if isinstance(variable, Literal) else slots[variable]
            )

        for equation in jaxpr.eqns:
            name, operands = equation.primitive.name, [slot(v) for v in equation.invars]
            if name in CALLS:
                results = self._add(bodies(equation)[0], operands)
            else:
                results = [self._new() for _ in equation.outvars]
                looped, multiple = name in LOOPS, equation.primitive.multiple_results
                rule = LOOPS[name] if looped else RULES[name]
                parameters = _with_tapes(equation.params) if looped else equation.params
                self._steps.append(_Step(rule, operands, parameters, results, multiple))
            slots.update(zip(equation.outvars, results, strict=True))
        return [slot(v) for v in jaxpr.outvars]

    def _new(self) -> int:
        self._count += 1
        return self._count - 1

    def _constant(self, value: Any) -> int:
        slot = self._new()
        self._constants[slot] = np.array(value)
        return slot

    def _free_early(self) -> None:
        """Note for every step the slots that no later step reads."""
        needed = {slot for slot, _ in self._outputs} | set(self._constants)
        for step in reversed(self._steps):
            here = {*step.operands, *step.results} - needed
            step.last_used = tuple(here)
            needed |= here


@dataclass
class _Step:
    rule: Rule
    operands: list[int]
    parameters: dict[str, Any]
    results: list[int]
    multiple: bool
    """Whether the rule returns a list."""
    last_used: tuple[int, ...] = ()


def _with_tapes(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a loop, with tapes in place of traced programs."""
    kept = {name: value for name, value in parameters.items() if name not in _PROGRAMS}
    for name in _PROGRAMS & set(parameters):
        value = parameters[name]
        kept[name] = (
            [Tape(_closed(one)) for one in value] if name == "branches" else Tape(_closed(value))
        )
    return kept


def bodies(equation: Any) -> list[Any]:
    """The programs inside a call or a loop, closed; none for other operations."""
    name, params = equation.primitive.name, equation.params
    if name in CALLS:
        found = [
            params[key]
            for key in ("jaxpr", "call_jaxpr", "fun_jaxpr")
            if params.get(key) is not None
        ][:1]
    elif name in LOOPS:
        found = [params[key] for key in ("cond_jaxpr", "body_jaxpr", "jaxpr") if key in params]
        found += params.get("branches", ())
    else:
        return []
    return [_closed(inner) for inner in found]


def _closed(program: Any) -> Any:
    return ClosedJaxpr(program, ()) if isinstance(program, Jaxpr) else program


def _entries(jaxpr: Any) -> int:
    """The number of entries that a program computes; a matrix product counts each
    multiplication."""
    total = 0
    for equation in jaxpr.eqns:
        inner = bodies(equation)
        if inner:
            total += equation.params.get("length", 1) * sum(_entries(body.jaxpr) for body in inner)
            continue
        size = max((int(np.prod(v.aval.shape)) for v in equation.outvars), default=0)
        if equation.primitive.name == "dot_general":
            (left, _), _ = equation.params["dimension_numbers"]
            size *= int(np.prod([equation.invars[0].aval.shape[i] for i in left]))
        total += size + PER_OPERATION
    return total


def _while(
    *operands: Array,
    cond_nconsts: int,
    cond_jaxpr: Any,
    body_nconsts: int,
    body_jaxpr: Any,
    **_: Any,
) -> list[Array]:
    known, given = (
        list(operands[:cond_nconsts]),
        list(operands[cond_nconsts : cond_nconsts + body_nconsts]),
    )
    carry = list(operands[cond_nconsts + body_nconsts :])
    for _iteration in range(ITERATIONS):
        (goes_on,) = cond_jaxpr.run(known + carry)  # has the leading axes of a batch, if it is one
        if not goes_on.any():
            return carry
        new = body_jaxpr.run(given + carry)
        carry = [
            np.where(
                goes_on.reshape(goes_on.shape + (1,) * (after.ndim - goes_on.ndim)), after, before
            )
            for before, after in zip(carry, new, strict=True)
        ]
    raise _TooLong


def _scan(
    *operands: Array,
    jaxpr: Any,
    length: int,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    **_: Any,
) -> list[Array]:
    given, carry = list(operands[:num_consts]), list(operands[num_consts : num_consts + num_carry])
    rows: list[Any] = [None] * length
    for i in reversed(range(length)) if reverse else range(length):
        outputs = jaxpr.run(
            [*given, *carry, *(np.asarray(xs[i]) for xs in operands[num_consts + num_carry :])]
        )
        carry, rows[i] = outputs[:num_carry], outputs[num_carry:]
    return carry + [np.stack(column) for column in zip(*rows, strict=True)]


def _cond(which: Array, *operands: Array, branches: Any, **_: Any) -> list[Array]:
    taken: Tape = branches[int(np.clip(which, 0, len(branches) - 1))]
    return taken.run(operands)


CALLS = frozenset(
    (
        "jit",
        "pjit",
        "closed_call",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "remat",
        "remat2",
        "checkpoint",
    )
)
_PROGRAMS = {"cond_jaxpr", "body_jaxpr", "jaxpr", "branches"}
LOOPS: dict[str, Rule] = {"while": _while, "scan": _scan, "cond": _cond}

"""Translation of CVXPY expressions into JAX functions of their variables and parameters.

Expressions that loops build have one structure, with other entries and numbers in it. They are
evaluated together: `for t in range(24): cost += price[t] * buy[t]` builds 24 products, which differ
in the entries of variables and parameters and the constants in it, so that one product of vectors
computes them all. Such a model costs about as much as the same model written with vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
from cvxpy.atoms.atom import Atom
from cvxpy.expressions.leaf import Leaf

from ...engine import Array
from .atoms.rules import fit, is_negated, take
from .atoms.table import UnsupportedAtom, operands, operation
from .attributes import constant_value, spans_of

Values = Mapping[int, jax.Array]
Evaluate = Callable[[Values, Values], jax.Array]
EvaluateAll = Callable[[Values, Values], list[jax.Array]]
# Earlier results, values of the leaves, float type -> result.
_Step = Callable[[list[Any], Values, Any], Any]


def translate(expression: Any) -> Evaluate:
    """The JAX function `evaluate(variables, parameters)` of a CVXPY expression.

    Both arguments map the `id` of a CVXPY leaf to its value, an array of the leaf's shape. The
    result has the shape of the expression and the float type of the values. The function is pure
    and works under `jit`, `vmap` and differentiation; its gradient is a subgradient of a convex
    expression, a supergradient of a concave one.

    Parts without variables and parameters are evaluated here, once; parts that occur several times
    in the tree are computed once. Outside of its domain an atom has the value that CVXPY gives it,
    or an infinite one.

    Raises `UnsupportedAtom` for atoms that are not in `atoms.rules.RULES`.
    """
    evaluate_rows = translate_rows([expression])
    return lambda variables, parameters: evaluate_rows(variables, parameters)[0]


def translate_rows(expressions: Sequence[Any]) -> EvaluateAll:
    """The JAX function `evaluate(variables, parameters)` of several CVXPY expressions, as arrays to
    be joined.

    Their entries in row order, one array after another, are those of the expressions. Parts that
    several expressions share are computed, and differentiated, once. Expressions of one structure,
    which loops build, are computed together, and neighbours among them are returned as one array.
    """
    program = _Program()
    return program.evaluator(program.rows(expressions))


class _Program:
    """The nodes of an expression as a list of steps, each after those whose results it reads."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._leaves: dict[int, Any] = {}
        self._places: dict[int, int] = {}

    def evaluator(self, results: list[int]) -> EvaluateAll:
        """The function that returns the results of the steps at these positions."""

        def evaluate(variables: Values, parameters: Values) -> list[jax.Array]:
            values = {**variables, **parameters}
            read = [_value_of(leaf, values) for leaf in self._leaves.values()]
            dtype = jnp.result_type(float, *read)
            done: list[Any] = []
            for step in self._steps:
                done.append(step(done, values, dtype))
            return [jnp.asarray(done[result]) for result in results]

        return evaluate

    def place(self, expression: Any) -> int:
        """Position of the step that computes the expression, added if it is not there yet."""
        key = id(expression)
        if key not in self._places:
            self._places[key] = self._add(self._step(expression))
        return self._places[key]

    def rows(self, expressions: Sequence[Any]) -> list[int]:
        """Positions of arrays whose entries in row order are those of the expressions."""
        groups, rest = grouped(expressions)
        if not groups:
            return [self.place(expression) for expression in expressions]
        # All entries of all groups in one vector, and the places of each member in it.
        pool = self._add(_joined([self._group(alike) for alike in groups]))
        members = [k for alike in groups for k in alike.members]
        ends = np.cumsum([expressions[k].size for k in members])
        places = {
            k: np.arange(end - expressions[k].size, end)
            for k, end in zip(members, ends, strict=True)
        }
        results = list[int]()
        for alone, run in groupby(range(len(expressions)), set(rest).__contains__):
            if alone:
                results += [self.place(expressions[k]) for k in run]
            else:
                results.append(self._add(_taken(pool, np.concatenate([places[k] for k in run]))))
        return results

    def _add(self, step: _Step) -> int:
        self._steps.append(step)
        return len(self._steps) - 1

    def _step(self, expression: Any) -> _Step:
        if isinstance(expression, (cp.Variable, cp.Parameter)):
            self._leaves[expression.id] = expression
            return lambda done, values, dtype: jnp.asarray(values[expression.id], dtype)
        # Only atoms and leaves can be asked for their value or looked into; operation() refuses the
        # rest.
        constant = constant_value(expression) if isinstance(expression, (Atom, Leaf)) else None
        if constant is not None:
            return _constant(expression, constant)
        name = type(expression).__name__
        if name == "AddExpression":
            groups, rest = grouped(expression.args)
            if groups:
                return self._sum(expression, groups, rest)
        if name == "Hstack" and all(argument.ndim <= 1 for argument in expression.args):
            return _joined(self.rows(expression.args))
        apply = operation(expression)
        inputs = [self.place(operand) for operand in operands(expression)]
        return lambda done, values, dtype: apply(*(done[place] for place in inputs))

    def _group(self, alike: Alike) -> int:
        """Position of the step that computes all expressions of a group, (member, *shape)."""
        evaluate = alike.build()
        inputs = [self._slot(slot) for slot in alike.slots]
        axes = tuple(axis for _, axis in inputs)
        if any(axis is not None for axis in axes):
            evaluate = jax.vmap(evaluate, in_axes=axes)
            return self._add(lambda done, _, dtype: evaluate(*(done[k] for k, _ in inputs)))
        shape = len(alike.members), *alike.shape
        return self._add(
            lambda done, values, dtype: jnp.broadcast_to(
                evaluate(*(done[k] for k, _ in inputs)), shape
            )
        )

    def _slot(self, slot: tuple[Any, ...]) -> tuple[int, int | None]:
        """Position of the step that reads what the members of a group have at one place, and the
        axis along which they differ, if they do."""
        if isinstance(slot[0], _Part):
            leaves = {part.leaf.id: part.leaf for part in slot}
            starts = spans_of(list(leaves.values()))
            numbers = np.stack([starts[part.leaf.id].start + part.places for part in slot])
        else:
            numbers = np.stack(slot)
        axis = 0 if np.any(numbers != numbers[0]) else None
        numbers = numbers[0] if axis is None else numbers
        if not isinstance(slot[0], _Part):
            return self._add(lambda done, values, dtype: numbers.astype(dtype)), axis
        pool = [self.place(leaf) for leaf in leaves.values()]
        if len(pool) > 1:
            pool = [self._add(_joined(pool))]
        return self._add(_taken(pool[0], numbers)), axis

    def _sum(self, expression: Any, groups: list[Alike], rest: list[int]) -> _Step:
        """A sum of many terms, group by group."""
        inputs = [self._group(alike) for alike in groups]
        others = [self.place(expression.args[k]) for k in rest]

        def step(done: list[Any], values: Values, dtype: Any) -> Any:
            parts = [jnp.sum(done[place], 0) for place in inputs]
            parts += [jnp.asarray(done[place]) for place in others]
            return reduce(jnp.add, (fit(part, expression.shape) for part in parts))

        return step


def _joined(inputs: list[int]) -> _Step:
    return lambda done, values, dtype: jnp.concatenate([jnp.ravel(done[k]) for k in inputs])


def _taken(pool: int, places: Array) -> _Step:
    return lambda done, values, dtype: take(done[pool], places)


def _constant(expression: Any, value: Array) -> _Step:
    if np.iscomplexobj(value):
        raise UnsupportedAtom("complex constant", expression, "only real numbers are supported")
    if value.size > 1 and np.all(value == value.flat[0]):
        single = value.flat[0]
        return lambda done, values, dtype: jnp.full(value.shape, single, dtype)
    # A NumPy array stays a literal of the compiled program, where XLA can fold it.
    return lambda done, values, dtype: value.astype(dtype)


def _value_of(leaf: Any, values: Values) -> Any:
    shape = np.shape(values[leaf.id]) if leaf.id in values else None
    if shape != leaf.shape:
        raise ValueError(
            f"{leaf.name()}: got {'no value' if shape is None else f'shape {shape}'}; expected an "
            f"array of shape {leaf.shape}"
        )
    return values[leaf.id]


FEWEST = 4
"""So many expressions of one structure are evaluated together; fewer are evaluated one by one."""
LARGEST = 1000
"""Expressions with more entries than this are evaluated one by one: nothing would be gained."""

READ = frozenset(("MatrixFrac", "QuadForm", "quad_over_lin"))
"""Atoms whose operation depends on the value of their second argument, if it is constant."""


class _Part(NamedTuple):
    """Entries of a variable or parameter."""

    leaf: Any
    places: Array


Build = Callable[[], Callable[..., Any]]
"""Makes a function of the arrays in the slots of a structure."""


class Alike(NamedTuple):
    """Expressions of one structure."""

    members: list[int]
    """Their numbers in the list that was grouped."""
    slots: list[tuple[Any, ...]]
    """For each place of the structure, what the members have there: parts of leaves, or numbers."""
    build: Build
    shape: tuple[int, ...]


def grouped(expressions: Sequence[Any]) -> tuple[list[Alike], list[int]]:
    """Groups of at least `FEWEST` expressions of one structure, and the numbers of all others."""
    if len(expressions) < FEWEST:
        return [], list(range(len(expressions)))
    by_structure: dict[Any, list[tuple[int, list[Any], Build]]] = {}
    rest = []
    for k, expression in enumerate(expressions):
        slots: list[Any] = []
        structure = None if expression.size > LARGEST else _structure(expression, slots)
        if structure is None:
            rest.append(k)
        else:
            by_structure.setdefault(structure[0], []).append((k, slots, structure[1]))
    groups: list[Alike] = []
    for alike in by_structure.values():
        members, parts, builds = map(list, zip(*alike, strict=True))
        if len(members) < FEWEST or not any(isinstance(part, _Part) for part in parts[0]):
            rest += members
            continue
        shape = expressions[members[0]].shape
        groups.append(Alike(members, list(zip(*parts, strict=True)), builds[0], shape))
    return groups, sorted(rest)


def _structure(expression: Any, slots: list[Any]) -> tuple[Any, Build] | None:
    """A key that is equal for expressions of one structure, and the expression as a function of its
    slots; None if it must be evaluated alone.

    Leaves and constants are appended to `slots`.
    """
    place = len(slots)
    part = _part(expression)
    if part is not None:
        slots.append(part)
        return ("leaf", expression.shape), lambda: lambda *parts: parts[place]
    name = type(expression).__name__
    if not isinstance(expression, (Atom, cp.Constant)) or name == "perspective":
        return None
    constant = constant_value(expression)
    if constant is not None:
        if np.iscomplexobj(constant):
            return None
        slots.append(constant)
        return ("constant", expression.shape), lambda: lambda *parts: parts[place]
    second = constant_value(expression.args[1]) if name in READ else None
    try:  # CVXPY copies atoms with these data, so that they determine an atom
        data = _plain([expression.get_data(), None if second is None else second.ravel().tolist()])
    except TypeError:
        return None
    inner = []
    for operand in operands(expression):
        structure = _structure(operand, slots)
        if structure is None:
            return None
        inner.append(structure)

    def build() -> Callable[..., Any]:
        apply, values = operation(expression), [build() for _, build in inner]
        return lambda *parts: apply(*(value(*parts) for value in values))

    # A sum takes what is negated in it as an operand to subtract.
    signs = tuple(map(is_negated, expression.args))
    keys = tuple(key for key, _ in inner)
    return (type(expression), expression.shape, data, signs, keys), build


def _part(expression: Any) -> _Part | None:
    """The entries of a leaf that an expression consists of, if it is a leaf or selects from one."""
    if isinstance(expression, (cp.Variable, cp.Parameter)):
        return _Part(expression, np.arange(expression.size).reshape(expression.shape))
    name = type(expression).__name__
    inner = _part(expression.args[0]) if name in ("index", "special_index") else None
    if inner is None:
        return None
    key = expression.key if name == "special_index" else expression.get_data()[1]
    return _Part(inner.leaf, np.asarray(inner.places[key]).reshape(expression.shape))


def _plain(data: Any) -> Any:
    """The data of an atom in a form that can be compared; raises TypeError for others."""
    if data is None or isinstance(data, (bool, int, float, str, Fraction)):
        return data
    if isinstance(data, (list, tuple)):
        return tuple(map(_plain, data))
    if isinstance(data, slice):
        return "slice", data.start, data.stop, data.step
    if isinstance(data, np.generic):
        return data.item()
    if isinstance(data, cp.Constant) and data.size == 1:
        return float(np.ravel(data.value)[0])
    raise TypeError(type(data).__name__)

"""Translation of CVXPY expressions into JAX functions of their variables and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import groupby
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
from cvxpy.atoms.atom import Atom
from cvxpy.expressions.leaf import Leaf

from .alike import Alike, grouped
from .atoms.rules import fit, take
from .atoms.table import UnsupportedAtom, operands, operation
from .attributes import constant_value

__all__ = ["Evaluate", "EvaluateAll", "translate", "translate_all", "translate_rows"]

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

    Raises `UnsupportedAtom` for atoms that are not in `atoms.table.SUPPORTED`.
    """
    evaluate_all = translate_all([expression])
    return lambda variables, parameters: evaluate_all(variables, parameters)[0]


def translate_all(expressions: Sequence[Any]) -> EvaluateAll:
    """The JAX function `evaluate(variables, parameters)` of several CVXPY expressions, which
    returns all their values.

    Parts that several of them share are computed, and differentiated, once.
    """
    program = _Program()
    return program.evaluator([program.place(expression) for expression in expressions])


def translate_rows(expressions: Sequence[Any]) -> EvaluateAll:
    """The JAX function `evaluate(variables, parameters)` of several CVXPY expressions, as arrays to
    be joined.

    Their entries in row order, one array after another, are those of the expressions. Expressions
    of one structure, which loops build, are computed together (see `alike`), and neighbours among
    them are returned as one array.
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
            given = {**variables, **parameters}
            read = [_value_of(leaf, given) for leaf in self._leaves.values()]
            dtype = jnp.result_type(float, *read)
            done: list[Any] = []
            for step in self._steps:
                done.append(step(done, given, dtype))
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
        inputs = [self._group(alike) for alike in groups]
        pool = self._add(
            lambda done, given, dtype: jnp.concatenate([jnp.ravel(done[place]) for place in inputs])
        )
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
                results.append(self._taken(pool, np.concatenate([places[k] for k in run])))
        return results

    def _add(self, step: _Step) -> int:
        self._steps.append(step)
        return len(self._steps) - 1

    def _step(self, expression: Any) -> _Step:
        if isinstance(expression, (cp.Variable, cp.Parameter)):
            self._leaves[expression.id] = expression
            return lambda done, given, dtype: jnp.asarray(given[expression.id], dtype)
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
            parts = self.rows(expression.args)
            return lambda done, given, dtype: jnp.concatenate(
                [jnp.ravel(jnp.asarray(done[place])) for place in parts]
            )
        apply = operation(expression)
        inputs = [self.place(operand) for operand in operands(expression)]
        return lambda done, given, dtype: apply(*(done[place] for place in inputs))

    def _group(self, alike: Alike) -> int:
        """Position of the step that computes all expressions of a group, (member, *shape)."""
        evaluate = alike.evaluator()
        where = {leaf.id: self.place(leaf) for leaf in alike.leaves}
        return self._add(
            lambda done, given, dtype: evaluate(lambda leaf: done[where[leaf.id]], dtype)
        )

    def _taken(self, pool: int, places: np.ndarray[Any, Any]) -> int:
        return self._add(lambda done, given, dtype: take(done[pool], places))

    def _sum(self, expression: Any, groups: list[Alike], rest: list[int]) -> _Step:
        """A sum of many terms, group by group."""
        inputs = [self._group(alike) for alike in groups]
        others = [self.place(expression.args[k]) for k in rest]

        def step(done: list[Any], given: Values, dtype: Any) -> Any:
            parts = [jnp.sum(done[place], 0) for place in inputs]
            parts += [jnp.asarray(done[place]) for place in others]
            return reduce(jnp.add, (fit(part, expression.shape) for part in parts))

        return step


def _constant(expression: Any, value: np.ndarray[Any, Any]) -> _Step:
    if np.iscomplexobj(value):
        raise UnsupportedAtom("complex constant", expression, "only real numbers are supported")
    if value.size > 1 and np.all(value == value.flat[0]):
        single = value.flat[0]
        return lambda done, given, dtype: jnp.full(value.shape, single, dtype)
    # A NumPy array stays a literal of the compiled program, where XLA can fold it.
    return lambda done, given, dtype: value.astype(dtype)


def _value_of(leaf: Any, given: Values) -> Any:
    shape = np.shape(given[leaf.id]) if leaf.id in given else None
    if shape != leaf.shape:
        raise ValueError(
            f"{leaf.name()}: got {'no value' if shape is None else f'shape {shape}'}; expected an "
            f"array of shape {leaf.shape}"
        )
    return given[leaf.id]

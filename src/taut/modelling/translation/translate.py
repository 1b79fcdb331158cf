"""Translation of CVXPY expressions into JAX functions of their variables and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
from cvxpy.atoms.atom import Atom
from cvxpy.expressions.leaf import Leaf

from .alike import FEWEST, Alike, grouped
from .atoms.affine import fit, take
from .atoms.table import UnsupportedAtom, operands, operation
from .attributes import constant_value

__all__ = ["Evaluate", "EvaluateAll", "translate", "translate_all", "translate_rows"]

Values = Mapping[int, jax.Array]
Evaluate = Callable[[Values, Values], jax.Array]
EvaluateAll = Callable[[Values, Values], list[jax.Array]]
_Step = Callable[
    [list[Any], Values, Any], Any
]  # earlier results, values of the leaves, float type -> result


def translate(expression: Any) -> Evaluate:
    """The JAX function `evaluate(variables, parameters)` of a CVXPY expression.

    Both arguments map the `id` of a CVXPY leaf to its value, an array of the leaf's shape. The
    result has the shape of the expression and the float type of the values. The function is pure
    and works under `jit`, `vmap` and differentiation; its gradient is a subgradient of a convex
    expression, a supergradient of a concave one.

    Parts without variables and parameters are evaluated here, once; parts that occur several times
    in the tree are computed once. Outside of its domain an atom has the value that CVXPY gives it,
    or an infinite one.

    Raises `UnsupportedAtom` for atoms that are not in `atoms.table.SUPPORTED`, for complex numbers,
    and for integer or boolean variables.
    """
    evaluate_all = translate_all([expression])

    def evaluate(variables: Values, parameters: Values) -> jax.Array:
        return evaluate_all(variables, parameters)[0]

    return evaluate


def translate_all(expressions: Sequence[Any]) -> EvaluateAll:
    """The JAX function `evaluate(variables, parameters)` of several CVXPY expressions, which
    returns all their values.

    Parts that several of them share are computed, and differentiated, once.
    """
    program = _Program()
    return _evaluator(program, [program.place(_checked(expression)) for expression in expressions])


def translate_rows(expressions: Sequence[Any]) -> EvaluateAll:
    """The JAX function `evaluate(variables, parameters)` of several CVXPY expressions, as arrays to
    be joined.

    Their entries in row order, one array after another, are those of the expressions. Expressions
    of one structure, which loops build, are computed together (see `alike`), and neighbours among
    them are returned as one array.
    """
    program = _Program()
    expressions = [_checked(expression) for expression in expressions]
    groups, rest = grouped(expressions) if len(expressions) >= FEWEST else ([], [])
    if not groups:
        return _evaluator(program, [program.place(expression) for expression in expressions])
    pool, places = program.pool(groups, expressions)
    alone, results, run = set(rest), list[int](), list[Any]()
    for k, expression in enumerate(expressions):
        if k not in alone:
            run.append(places[k])
        if run and (k in alone or k + 1 == len(expressions)):
            results.append(program.taken(pool, np.concatenate(run)))
            run = []
        if k in alone:
            results.append(program.place(expression))
    return _evaluator(program, results)


def _checked(expression: Any) -> Any:
    if not isinstance(expression, cp.Expression):
        raise TypeError(
            f"expression: got {type(expression).__name__}; expected a CVXPY expression "
            "(objectives and constraints hold theirs as `expr`)"
        )
    return expression


def _evaluator(program: _Program, results: list[int]) -> EvaluateAll:
    def evaluate(variables: Values, parameters: Values) -> list[jax.Array]:
        given = {
            leaf.id: _value_of(leaf, variables, parameters) for leaf in program.leaves.values()
        }
        dtype = jnp.result_type(float, *given.values())
        done: list[Any] = []
        for step in program.steps:
            done.append(step(done, given, dtype))
        return [jnp.asarray(done[result]) for result in results]

    return evaluate


class _Program:
    """The nodes of an expression as a list of steps, each after those whose results it reads."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self.leaves: dict[int, Any] = {}
        self._places: dict[int, int] = {}

    def place(self, expression: Any) -> int:
        """Position of the step that computes the expression, added if it is not there yet."""
        key = id(expression)
        if key not in self._places:
            step = self._step(expression)
            self.steps.append(step)
            self._places[key] = len(self.steps) - 1
        return self._places[key]

    def _step(self, expression: Any) -> _Step:
        if isinstance(expression, (cp.Variable, cp.Parameter)):
            return self._leaf(expression)
        # Only atoms and leaves can be asked for their value or looked into; operation() refuses the
        # rest.
        constant = constant_value(expression) if isinstance(expression, (Atom, Leaf)) else None
        if constant is not None:
            return _constant(expression, constant)
        name = type(expression).__name__
        if name == "AddExpression" and len(expression.args) >= FEWEST:
            groups, rest = grouped(expression.args)
            if groups:
                return self._added(expression, groups, rest)
        if (
            name == "Hstack"
            and len(expression.args) >= FEWEST
            and all(argument.ndim <= 1 for argument in expression.args)
        ):
            groups, _ = grouped(expression.args)
            if groups:
                return self._stacked(expression, groups)
        apply = operation(expression)
        inputs = [self.place(operand) for operand in operands(expression)]
        return lambda done, given, dtype: apply(*(done[place] for place in inputs))

    def _leaf(self, leaf: Any) -> _Step:
        wrong = [name for name in ("complex", "imag", "hermitian") if leaf.attributes.get(name)]
        if isinstance(leaf, cp.Variable):
            wrong += [name for name in ("boolean", "integer") if leaf.attributes.get(name)]
        if wrong:
            kind = type(leaf).__name__.lower()
            raise UnsupportedAtom(
                f"{wrong[0]} {kind}", leaf, "decisions are continuous and data are real"
            )
        self.leaves[leaf.id] = leaf
        return lambda done, given, dtype: jnp.asarray(given[leaf.id], dtype)

    def group(self, alike: Alike) -> int:
        """Position of the step that computes all expressions of a group, (member, *shape)."""
        evaluate = alike.evaluator()
        where = {leaf.id: self.place(leaf) for leaf in alike.leaves}
        self.steps.append(
            lambda done, given, dtype: evaluate(lambda leaf: done[where[leaf.id]], dtype)
        )
        return len(self.steps) - 1

    def pool(self, groups: list[Alike], expressions: Sequence[Any]) -> tuple[int, dict[int, Any]]:
        """Position of all entries of all groups in one vector, and the places of each member in it,
        in row order."""
        inputs = [self.group(alike) for alike in groups]
        places, start = {}, 0
        for alike in groups:
            for k in alike.members:
                places[k] = np.arange(start, start + expressions[k].size)
                start += expressions[k].size
        self.steps.append(
            lambda done, given, dtype: jnp.concatenate([jnp.ravel(done[place]) for place in inputs])
        )
        return len(self.steps) - 1, places

    def taken(self, pool: int, places: np.ndarray[Any, Any]) -> int:
        """Position of these entries of a pool."""
        self.steps.append(lambda done, given, dtype: take(done[pool], places))
        return len(self.steps) - 1

    def _added(self, expression: Any, groups: list[Alike], rest: list[int]) -> _Step:
        """A sum of many terms, group by group."""
        inputs = [self.group(alike) for alike in groups]
        others = [self.place(expression.args[k]) for k in rest]

        def step(done: list[Any], given: Values, dtype: Any) -> Any:
            parts = [fit(jnp.sum(done[place], 0), expression.shape) for place in inputs]
            parts += [fit(jnp.asarray(done[place]), expression.shape) for place in others]
            total = parts[0]
            for part in parts[1:]:
                total = jnp.add(total, part)
            return total

        return step

    def _stacked(self, expression: Any, groups: list[Alike]) -> _Step:
        """Numbers and vectors one after another."""
        pool, places = self.pool(groups, expression.args)
        others = {
            k: self.place(argument) for k, argument in enumerate(expression.args) if k not in places
        }
        runs: list[tuple[int, Any]] = []  # (position, places in it)
        for k in range(len(expression.args)):
            if k in others:
                runs.append((others[k], None))
            elif runs and runs[-1][1] is not None:
                runs[-1] = pool, np.concatenate([runs[-1][1], places[k]])
            else:
                runs.append((pool, places[k]))

        def step(done: list[Any], given: Values, dtype: Any) -> Any:
            parts = [
                jnp.ravel(jnp.asarray(done[place])) if where is None else take(done[place], where)
                for place, where in runs
            ]
            return jnp.concatenate(parts)

        return step


def _constant(expression: Any, value: np.ndarray[Any, Any]) -> _Step:
    if np.iscomplexobj(value):
        raise UnsupportedAtom("complex constant", expression, "only real numbers are supported")
    if value.size > 1 and np.all(value == value.flat[0]):
        single = value.flat[0]
        return lambda done, given, dtype: jnp.full(value.shape, single, dtype)
    # A NumPy array stays a literal of the compiled program, where XLA can fold it.
    return lambda done, given, dtype: value.astype(dtype)


def _value_of(leaf: Any, variables: Values, parameters: Values) -> Any:
    kind, values = (
        ("variable", variables) if isinstance(leaf, cp.Variable) else ("parameter", parameters)
    )
    if leaf.id not in values:
        raise ValueError(
            f"{kind}s: got no value for {leaf.name()}; expected one under its id {leaf.id}"
        )
    value = values[leaf.id]
    if np.shape(value) != leaf.shape:
        raise ValueError(
            f"{kind}s: got shape {np.shape(value)} for {leaf.name()}; expected {leaf.shape}"
        )
    return value

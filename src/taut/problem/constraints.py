"""Constraints g_1..g_m: their values at a decision, and the products with their Jacobian.

`UserConstraints` wraps the user's function. The transforms in `transforms.py` wrap other
constraints.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..engine import register_dataclass
from ..jaxpr.maxima import by_index
from .constants import Constants
from .streams import data_of
from .tracing import UnusableType, UnusableValue


class Linearisation(NamedTuple):
    """Constraint values at a decision, and the Jacobian there as two functions."""

    values: jax.Array
    """g(x), shape (m,)."""
    pullback: Callable[[jax.Array], jax.Array]
    """weights (m,) -> sum_i weights_i * gradient g_i(x), of the decision's shape."""
    pushforward: Callable[[jax.Array], jax.Array]
    """direction -> (<gradient g_i(x), direction>)_i, shape (m,)."""

    def jacobian(self) -> jax.Array:
        """Return the gradients of all constraints as rows, (m, d)."""
        count, dtype = self.values.shape[0], self.values.dtype
        return jax.vmap(self.pullback)(jnp.eye(count, dtype=dtype)).reshape(count, -1)


class Parts(NamedTuple):
    """A linearisation whose m values lie in several arrays."""

    values: list[jax.Array]
    pullback: Callable[[list[jax.Array]], jax.Array]
    pushforward: Callable[[jax.Array], list[jax.Array]]


class Constraints:
    """Constraints g_1..g_m. A decision is feasible if every value is at most 0."""

    takes_data: bool
    """Whether the constraints depend on the round's data."""

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """g(x), shape (m,)."""
        raise TypeError("abstract")

    def linearise(self, x: jax.Array, z: Any) -> Linearisation:
        """Return values and Jacobian products at `x`, by automatic differentiation."""
        function = by_index(lambda y: self.values(y, z))
        values, pull = jax.vjp(function, x)

        def push(direction: jax.Array) -> jax.Array:
            slopes: jax.Array = jax.jvp(function, (x,), (direction,))[1]
            return slopes

        return Linearisation(values, lambda weights: pull(weights)[0], push)

    def in_parts(self, x: jax.Array, z: Any) -> Parts:
        """Return the same by arrays, because joining them takes longer than evaluating them."""
        values, pull, push = self.linearise(x, z)
        return Parts(
            [values], lambda weights: pull(weights[0]), lambda direction: [push(direction)]
        )

    def row_names(self, x: Any = None, z: Any = None) -> tuple[str, ...] | None:
        """Return the user's names of g_1..g_m, in the user's order; None if there are none.

        Names that are keys of what a function returns are known only for a decision `x` and data
        `z`, or their shapes and types.
        """
        return None

    def constants(self, base: Constants) -> Constants:
        """Return the constants after this transform, given those of the constraints it wraps."""
        return base


@register_dataclass
@dataclass(frozen=True)
class UserConstraints(Constraints):
    """Constraints defined by a user's function of x, or of x and z, that returns a scalar or
    arrays.

    In a problem with memory the function may also take the previous decision.
    """

    function: Callable[..., Any] = field(metadata={"static": True})
    takes_data: bool = field(metadata={"static": True})
    takes_previous: bool = field(default=False, metadata={"static": True})
    """Whether the function is one of x, z and the previous decision."""
    name: str = field(default="constraints", metadata={"static": True})
    """The argument of `taut.Problem` that the function was, for error messages."""
    names: tuple[str, ...] | None = field(default=None, metadata={"static": True})
    """The names that the user stated apart from the function, one for each value."""

    @classmethod
    def of(
        cls,
        function: Any,
        previous: bool = False,
        name: str = "constraints",
        names: tuple[str, ...] | None = None,
    ) -> UserConstraints:
        """Wrap a user's function, or a dict of functions; its signature says whether it takes the
        round's data, and the previous decision."""
        if isinstance(function, Mapping) and function:
            parts = {
                str(key): cls.of(part, previous, f"{name}[{key!r}]")
                for key, part in function.items()
            }
            count = max(part.takes for part in parts.values())
            function = FunctionsByName(tuple(parts.items()))
        else:
            count = _argument_count(function, 3 if previous else 2, name)
        return cls(function, count >= 2, count == 3, name, names)

    @property
    def takes(self) -> int:
        """The number of arguments that the function takes."""
        return 1 + self.takes_data + self.takes_previous

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """Return the outputs of the function in one vector."""
        parts = [jnp.ravel(part) for part in self._arrays(x, z)]
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)

    def in_parts(self, x: jax.Array, z: Any) -> Parts:
        """Return one part per array that the function returns."""
        function = by_index(lambda y: self._arrays(y, z))
        values, pull = jax.vjp(function, x)

        def push(direction: jax.Array) -> list[jax.Array]:
            slopes: list[jax.Array] = jax.jvp(function, (x,), (direction,))[1]
            return slopes

        return Parts(values, lambda weights: pull(weights)[0], push)

    def row_names(self, x: Any = None, z: Any = None) -> tuple[str, ...] | None:
        """Return the stated names, or the keys of the dicts that the function returns."""
        if self.names is not None or x is None:
            return self.names
        entries: list[tuple[str, tuple[int, ...]]] = []

        def traced(x: jax.Array, z: Any) -> None:
            entries.extend((key, jnp.shape(leaf)) for key, leaf in _entries(self._output(x, z)))

        jax.eval_shape(traced, x, z)
        named = [key for key, _ in entries if key]
        return _names_of(entries) if named else None

    def _output(self, x: jax.Array, z: Any) -> Any:
        if self.takes_previous:
            return self.function(x, z.data, z.previous)
        return self.function(x, data_of(z)) if self.takes_data else self.function(x)

    def _arrays(self, x: jax.Array, z: Any) -> list[jax.Array]:
        arrays, count = [], 0
        for _, leaf in _entries(self._output(x, z)):
            if jnp.iscomplexobj(leaf):
                raise UnusableType(f"{self.name}: got complex values; expected real numbers")
            if jnp.issubdtype(jnp.result_type(leaf), jnp.bool_):
                raise UnusableType(
                    f"{self.name}: got truth values; expected numbers g(x) that are at most 0 "
                    "where x is feasible. Write jnp.sum(x) - 1 instead of jnp.sum(x) <= 1"
                )
            array = jnp.asarray(leaf, x.dtype)
            count += array.size
            if array.size:
                arrays.append(array)
        if count == 0:
            raise UnusableValue(
                f"{self.name}: got a function that returns no number; expected a scalar or a "
                "vector. Is the `return` missing?"
            )
        if self.names is not None and len(self.names) != count:
            called = f"{self.name}({', '.join(('x', 'z', 'previous')[: self.takes])})"
            raise UnusableValue(
                f"constraint_names: got {len(self.names)} names; expected {count}, one for each "
                f"value of {called}"
            )
        return arrays


@dataclass(frozen=True)
class FunctionsByName:
    """A dict of functions as one function, which returns a dict of their values."""

    functions: tuple[tuple[str, UserConstraints], ...]

    def __call__(self, x: jax.Array, *data: Any) -> dict[str, list[jax.Array]]:
        """Call each function with as many arguments as it takes."""
        return {name: [part.function(x, *data[: part.takes - 1])] for name, part in self.functions}


def _entries(out: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays that a function returned, in the user's order, each with its key.

    JAX sorts the keys of a dict, so dicts are not left to it.
    """
    if isinstance(out, Mapping):
        for key, part in out.items():
            yield from _entries(part, f"{path}.{key}" if path else str(key))
    elif isinstance(out, (list, tuple)):
        for part in out:
            yield from _entries(part, path)
    else:
        for leaf in jax.tree.leaves(out):
            yield path, leaf


def _names_of(entries: list[tuple[str, tuple[int, ...]]]) -> tuple[str, ...]:
    """Return a name for each value of arrays with these keys and shapes.

    A key of several values gets an index; a value without a key is called after its place.
    """
    arrays = Counter(key for key, _ in entries)
    sizes: Counter[str] = Counter()
    for key, shape in entries:
        sizes[key] += math.prod(shape)
    names: list[str] = []
    seen: Counter[str] = Counter()
    for key, shape in entries:
        for place in range(math.prod(shape)):
            index = (
                ", ".join(str(int(i)) for i in np.unravel_index(place, shape))
                if arrays[key] == 1 and shape
                else seen[key]
            )
            seen[key] += 1
            named = key if sizes[key] == 1 else f"{key}[{index}]"
            names.append(named if key else f"g[{len(names)}]")
    return distinct(names)


def distinct(names: list[str]) -> tuple[str, ...]:
    """Return the names, with a number behind those that occur more than once."""
    repeated = Counter(names)
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if repeated[name] == 1 else f"{name} ({seen[name]})")
    return tuple(numbered)


@register_dataclass
@dataclass(frozen=True)
class JoinedConstraints(Constraints):
    """The values of two kinds of constraints in one vector."""

    first: Constraints
    second: Constraints

    @property
    def takes_data(self) -> bool:  # type: ignore[override]
        """Whether one of them depends on the round's data."""
        return self.first.takes_data or self.second.takes_data

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The values of the first, then those of the second."""
        return jnp.concatenate([self.first.values(x, z), self.second.values(x, z)])

    def row_names(self, x: Any = None, z: Any = None) -> tuple[str, ...] | None:
        """Return the names of both, if at least one of them has names."""
        first, second = (part.row_names(x, z) for part in (self.first, self.second))
        if (x is None and None in (first, second)) or first is second is None:
            return None

        def placed(part: Constraints, letter: str) -> tuple[str, ...]:
            count = jax.eval_shape(part.values, x, z).shape[0]
            return tuple(f"{letter}[{i}]" for i in range(count))

        return distinct(
            [*(first or placed(self.first, "g")), *(second or placed(self.second, "announced"))]
        )


def _argument_count(function: Any, most: int, name: str) -> int:
    if not callable(function):
        listed = isinstance(function, (list, tuple)) and function and callable(function[0])
        mend = ". Join several functions in one: lambda x: (g1(x), g2(x))" if listed else ""
        parts = function if isinstance(function, (list, tuple)) else [function]
        if any(type(part).__module__.startswith("cvxpy") for part in parts):
            mend = ". CVXPY constraints become a problem with taut.from_cvxpy(loss, constraints)"
        raise TypeError(
            f"{name}: got {arguments.shown(function)}; expected a function of x, or of x and "
            f"z{mend}"
        )
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}: got a function whose signature cannot be read; wrap it in a lambda"
        ) from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    named = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    if 1 <= len(required) <= most and not named:
        return len(required)
    expected = (
        "one (x) or two (x, z)" if most == 2 else "one (x), two (x, z) or three (x, z, previous)"
    )
    mend = (
        f". With previous=True {name} may take (x, z, previous)"
        if len(required) == 3 and not named
        else ""
    )
    raise TypeError(
        f"{name}: got a function with {len(required)} required arguments; expected {expected}{mend}"
    )

"""How a model of the suite is stated, so that it can be read as a game and as one ordinary CVXPY
program.

A model is a function `model(m)` that returns a loss and constraints, or a `cp.Problem`. It asks `m`
for its variables and data. As a game, data are parameters. As a program, data are the numbers of a
round; the variables that are decided before the data are known are the same in all rounds, and
those that are chosen afterwards are new in each round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np

import taut

FOUR = ("loss_lipschitz", "constraint_lipschitz", "loss_range", "constraint_range")
"""Constants that are proven if the data are bounded."""
ALL: list[Case] = []
"""Every model of the suite, in the order of definition."""


@dataclass(frozen=True)
class Data:
    """Data of a round: bounds, or a function that draws one round."""

    shape: tuple[int, ...]
    low: Any
    high: Any
    draw: Callable[[np.random.Generator], Any] | None

    def rounds(
        self, random: np.random.Generator, count: int, corners: bool = False
    ) -> np.ndarray[Any, Any]:
        """Admissible data of several rounds; with `corners`, every entry is at one of its
        bounds."""
        if self.draw is not None:
            return np.array([self.draw(random) for _ in range(count)], float)
        share = random.uniform(size=(count, *self.shape))
        share = np.round(share) if corners else share
        return self.low + share * (np.asarray(self.high, float) - self.low)


@dataclass
class Game:
    """Hands out parameters for data."""

    inputs: dict[str, Data] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)

    def variable(self, name: str, shape: Any = (), **attributes: Any) -> Any:
        """A variable that is decided before the data of the round are known."""
        self.before[name] = cp.Variable(shape, name=name, **attributes)
        return self.before[name]

    def later(self, name: str, shape: Any = (), **attributes: Any) -> Any:
        """A variable that is chosen after the data of the round are known."""
        self.after[name] = cp.Variable(shape, name=name, **attributes)
        return self.after[name]

    def data(
        self,
        name: str,
        shape: Any = (),
        low: Any = None,
        high: Any = None,
        draw: Any = None,
        **attributes: Any,
    ) -> Any:
        """What a round reveals."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.inputs[name] = Data(shape, low, high, draw)
        if low is not None:
            attributes["bounds"] = [low, high]
        return cp.Parameter(shape, name=name, **attributes)

    def constant(self, name: str, value: Any, **attributes: Any) -> Any:
        """A parameter with a value, which stays as it is."""
        return cp.Parameter(np.shape(value), name=name, value=value, **attributes)

    def previous(self, variable: Any) -> Any:
        """The decision of the round before."""
        return taut.previous(variable)


@dataclass
class Program:
    """Hands out the numbers of one round after another."""

    known: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)

    def variable(self, name: str, shape: Any = (), **attributes: Any) -> Any:
        """The same variable in every round."""
        if name not in self.known:
            self.known[name] = cp.Variable(shape, name=name, **attributes)
        return self.known[name]

    def later(self, name: str, shape: Any = (), **attributes: Any) -> Any:
        """A new variable in every round."""
        return cp.Variable(shape, name=name, **attributes)

    def data(self, name: str, *_: Any, **__: Any) -> Any:
        """The numbers of this round."""
        return self.numbers[name]

    def constant(self, _: str, value: Any, **__: Any) -> Any:
        """The value itself."""
        return value

    def previous(self, variable: Any) -> Any:
        """A fixed decision is its own previous one."""
        return variable


@dataclass(frozen=True)
class Case:
    """A model and what should become of it."""

    model: Callable[[Any], Any]
    refused: str = ""
    """Words of the message, as a regular expression; empty if the model is accepted."""
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of `taut.from_cvxpy`."""
    domain: str = ""
    """The class of the domain that should be found."""
    estimated: frozenset[str] = frozenset()
    """Constants for which there is no proven bound."""
    cones: bool = False
    """Whether some rows measure the distance from a cone in another way than this suite does; only
    their signs are compared."""
    slow: bool = False
    """Whether projections are so slow in NumPy that fewer rounds are played."""
    defect: str = ""
    """What is wrong today; the test is then expected to fail."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.model.__name__


def accepted(function: Any = None, /, **expected: Any) -> Any:
    """Decorate a model that is a game."""
    if function is None:
        return lambda function: accepted(function, **expected)
    expected["estimated"] = frozenset(expected.get("estimated", ()))
    ALL.append(Case(function, **expected))
    return function


def refused(words: str, defect: str = "", **options: Any) -> Any:
    """Decorate a model that has no meaning as a game, with words of the message that says why."""

    def decorate(function: Any) -> Any:
        ALL.append(Case(function, words, options, defect=defect))
        return function

    return decorate


def parts(stated: Any) -> tuple[Any, list[Any]]:
    """The expression to minimise, and all CVXPY constraints, of what a model returns."""
    loss, constraints = (
        (stated.objective, stated.constraints) if isinstance(stated, cp.Problem) else stated
    )
    if isinstance(loss, cp.Maximize):
        loss = -loss.expr
    elif isinstance(loss, cp.Minimize):
        loss = loss.expr
    return loss, list(_flat(constraints))


def _flat(constraints: Any) -> Iterable[Any]:
    if isinstance(constraints, cp.Constraint):
        yield constraints
    elif isinstance(constraints, (list, tuple)):
        for one in constraints:
            yield from _flat(one)

"""The registry: every method by name, those of this package and those of others.

Every module of this package that has a tuple `CARDS` is a family of methods; it is found without
being listed. Another package registers a method by an entry point in the group `taut.learners`
whose object is a `Card`; the name of the entry point is the name of the method. In a script or
notebook `taut.register_learner` does the same.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..entry_points import Registry
from ..problem.constants import Constants
from .base import Learner
from .card import Card

if TYPE_CHECKING:
    from ..problem.domains import Domain
    from ..problem.problem import Problem


GROUP = "taut.learners"
DEFAULT = "half-space"
"""The method that plays where none is named. It needs a domain and no constants."""
FIRST = ("half_space", "clipped_ogd")
"""Families that tables show first; the others follow in alphabetical order."""


def _families() -> tuple[ModuleType, ...]:
    package = __name__.rpartition(".")[0]
    path = importlib.import_module(package).__path__
    names = [family.name for family in pkgutil.iter_modules(path) if family.name != "registry"]
    names.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    modules = (importlib.import_module(f"{package}.{name}") for name in names)
    return tuple(module for module in modules if hasattr(module, "CARDS"))


FAMILIES = _families()
"""The modules of this package that hold methods, in the order in which tables show them."""


CARDS = tuple(card for family in FAMILIES for card in family.CARDS)
LEARNERS: Registry[Card] = Registry(CARDS, Card, GROUP, "learner", "taut.Card")
"""Every method by name."""


def learner(
    name: str,
    problem: Problem | Constants | None = None,
    *,
    horizon: int | None = None,
    feasible: Domain | None = None,
    **options: Any,
) -> Learner:
    """Build a method by its name.

    Arguments:
        name: a name of `taut.LEARNERS`.
        problem: the problem, whose constants tune the method. `taut.Constants` alone suffice for
            most methods.
        horizon: number of rounds, for methods that need it.
        feasible: the feasible set as a domain, for methods that project onto it.
        options: the method's own options, such as beta=0.5; `taut.LEARNERS[name].options` lists
            them.

    >>> import taut
    >>> known = taut.Constants(
    ...     radius=1.0, loss_lipschitz=1.0, constraint_lipschitz=2**0.5, constraint_count=1
    ... )
    >>> taut.learner("clipped-ogd", known, horizon=20_000, beta=0.5)
    ClippedOGD(eta=Constant(value=0.005), sigma=4.000000000000001)
    """
    return _card(name).build(problem, horizon, feasible=feasible, **options)


def as_learner(value: Any, problem: Problem, horizon: int | None) -> Any:
    """Return the learner that a name stands for, tuned to the problem and the horizon; anything
    else unchanged."""
    if isinstance(value, str):
        value = _card(value)
    if isinstance(value, Card):
        return value.build(problem, horizon if value.needs_horizon else None)
    return value


def with_default(learner: Any, *rest: Any) -> tuple[Any, ...]:
    """Return (learner, *rest) for a call that may have left the learner out, so that its arguments
    moved up by one place; the learner is then `None`."""
    from ..problem.problem import Problem

    if not isinstance(learner, Problem):
        return (learner, *rest)
    passed = [argument for argument in (learner, *rest) if argument is not None]
    if len(passed) > len(rest):
        raise TypeError(
            f"learner: got {arguments.shown(learner)}; expected a learner before the problem, or "
            "no learner at all. The order is simulate(learner, problem, stream) and "
            "Player(learner, problem)"
        )
    return (None, *passed, *[None] * (len(rest) - len(passed)))


def register_learner(card: Card | None = None, /, **fields: Any) -> Any:
    """Add a method to the registry: `register_learner(card)`, or as a decorator of a learner class
    or a constructor.

    Decorating a class registers its constructor `tuned` if it has one, else the class itself:

        @taut.register_learner(name="mirror-descent", reference="...")
        @taut.learner_dataclass
        class MirrorDescent(taut.Learner): ...
    """
    if card is not None:
        LEARNERS.add(card, replace=True)
        return card

    def decorate(kind: Callable[..., Learner]) -> Callable[..., Learner]:
        make = getattr(kind, "tuned", kind) if isinstance(kind, type) else kind
        LEARNERS.add(Card(make=make, **fields), replace=True)
        return kind

    return decorate


def _card(name: str) -> Card:
    if not isinstance(name, str) or name not in LEARNERS:
        raise ValueError(f"learner: got {name!r}{arguments.expected_one_of(name, LEARNERS)}")
    return LEARNERS[name]

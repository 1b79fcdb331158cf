"""Cards: what the registry knows about a method, and how it builds the method for a problem."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..problem.constants import Constants
from .base import Learner
from .guarantee import QUANTITIES

if TYPE_CHECKING:
    from ..problem.domains import Domain
    from ..problem.problem import Problem


STRONG = ("strongly convex losses", "convex constraints", "the domain contains the feasible set")
"""The usual assumptions of a method for strongly convex losses."""
USUAL = ("convex losses and constraints", "the domain contains the feasible set")
WITH_SLATER = (*USUAL, "Slater's condition")
SLOPES = ("radius", "loss_lipschitz", "constraint_lipschitz")
COUNTED = (*SLOPES, "constraint_count")
RANGED = (*SLOPES, "constraint_range", "constraint_count")
"""Constants that many methods need."""


@dataclass(frozen=True)
class Growth:
    """How a bound grows with the horizon T, at the default parameters."""

    text: str
    """Such as "T^max(b,1-b)"; b is the trade-off beta."""
    exponent: float
    """The power of T at the default parameters, logarithms apart."""
    condition: str = ""
    """When the bound holds, beyond the card's assumptions."""

    def __str__(self) -> str:
        return ("0" if self.text == "0" else f"O({self.text})") + (
            f" if {self.condition}" if self.condition else ""
        )


ROOT, THREE_QUARTERS = Growth("sqrt T", 0.5), Growth("T^(3/4)", 0.75)
LOGARITHM, NONE = Growth("log T", 0.0), Growth("0", 0.0)
"""Growth of many bounds."""
WITH_CURVATURE = {
    "regret": LOGARITHM,
    "violation": Growth("sqrt(T log T)", 0.5),
    "squared violation": LOGARITHM,
}
"""Growth of several methods for strongly convex losses."""

_FILLED = {
    "horizon": "the number of rounds, for example horizon=1000",
    "feasible": "the feasible set as a domain with an exact projection",
    "constants": "a problem, or its constants",
    "problem": "a problem",
    "domain": "a problem",
}
"""Parameters of a constructor that are filled in from the problem and the horizon, and what to give
where one is missing; all other parameters are options."""


@dataclass(frozen=True, eq=False)  # compared by identity, so that a card can be a key
class Card:
    """What the registry knows about a method: how to build it from a problem, and what is known
    about it."""

    name: str
    make: Callable[..., Learner]
    """A constructor. Its parameters named constants, horizon, problem, domain and feasible are
    filled in; the others are the method's options."""
    title: str = ""
    """The usual name, as figures show it."""
    reference: str = ""
    losses: str = "convex"
    """ "convex" or "strongly convex"."""
    assumptions: tuple[str, ...] = USUAL
    oracles: frozenset[str] = frozenset({"gradient", "values", "pullback", "project"})
    """Of "loss", "gradient", "values", "pullback", "pushforward", "project", "minimise"."""
    growth: Mapping[str, Growth] = field(default_factory=dict)
    """Growth of each quantity that has a bound."""
    cost: str = "1 projection, m constraint values, 1 vector-Jacobian product"
    """Work per round besides the loss gradient; a projection is one onto the domain unless it says
    otherwise."""
    needs: tuple[str, ...] = ()
    """Constants that the constructor needs."""
    needs_horizon: bool = False
    """Whether the parameters depend on the horizon; true if the constructor requires it."""
    aggregated: bool = False
    """Whether the method plays a single constraint only; use `taut.max_of` for several."""
    separate: bool = False
    """Whether the method keeps a multiplier, queue or cut per constraint, so that several
    constraints are better given one by one than as their maximum."""
    fixed_constraints: bool = False
    """Whether the method applies only to constraints that are the same in every round."""
    affine_constraints: bool = False
    """Whether the method applies only to affine constraints."""
    slater: bool = False
    """Whether the guarantees need a decision at which every constraint has room."""
    solves_program: bool = False
    """Whether a quadratic program with a row per constraint is solved in every round, which takes
    long with many rows."""
    feedback: tuple[str, ...] = ("full",)
    """The kinds of feedback that the guarantees cover."""
    request_first: bool = False
    """Whether the round's data are revealed before the decision."""
    known_failures: Mapping[str, str] = field(default_factory=dict)
    """Checks of `taut.testing.check_learner` that this method fails, each with its reason."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name: got {self.name!r}; expected the method's name, a string")
        if not callable(self.make):
            raise TypeError(
                f"make: got {self.make!r}; expected a constructor that returns a learner"
            )
        arguments.flags(self)
        object.__setattr__(self, "title", self.title or self.name)
        object.__setattr__(self, "oracles", frozenset(self.oracles))
        horizon = inspect.signature(self.make).parameters.get("horizon")
        if horizon is not None and horizon.default is inspect.Parameter.empty:
            object.__setattr__(self, "needs_horizon", True)
        unknown = set(self.growth) - set(QUANTITIES)
        if unknown:
            raise ValueError(
                f"growth: got {sorted(unknown)}; expected quantities among {', '.join(QUANTITIES)}"
            )

    @property
    def options(self) -> dict[str, Any]:
        """The method's own options and their defaults."""
        parameters = inspect.signature(self.make).parameters.values()
        return {
            p.name: p.default
            for p in parameters
            if p.name not in _FILLED and p.kind is not p.VAR_KEYWORD
        }

    @property
    def needs_feasible(self) -> bool:
        """Whether the method projects onto the feasible set itself."""
        return "feasible" in inspect.signature(self.make).parameters

    @property
    def regret(self) -> str:
        """The growth of regret in words."""
        return str(self.growth["regret"]) if "regret" in self.growth else "no bound"

    @property
    def violation(self) -> str:
        """The growth of all kinds of violation in words."""
        short = {
            "violation": "clipped",
            "squared violation": "squared",
            "peak violation": "peak",
            "excess": "signed",
        }
        rates = [
            f"{word} {self.growth[name]}" for name, word in short.items() if name in self.growth
        ]
        return ", ".join(rates) or ("none" if self.needs_feasible else "no bound")

    def build(
        self,
        problem: Problem | Constants | None = None,
        horizon: int | None = None,
        *,
        feasible: Domain | None = None,
        **options: Any,
    ) -> Learner:
        """Build the learner for a problem (or for its constants alone), with its own options."""
        parameters = inspect.signature(self.make).parameters
        for name in options:
            if name not in parameters or name in _FILLED:
                listed = ", ".join(self.options) or "none"
                raise TypeError(
                    f"{name}: {self.name} has no such option; its options are: {listed}"
                )
        if horizon is not None:
            arguments.count("horizon", horizon)
        alone = isinstance(problem, Constants)
        known: dict[str, Any] = {
            "horizon": horizon,
            "feasible": feasible,
            "constants": problem if alone else getattr(problem, "constants", None),
            "problem": None if alone else problem,
            "domain": getattr(problem, "domain", None),
        }
        for name, hint in _FILLED.items():
            if name not in parameters:
                continue
            if known[name] is not None and (name != "horizon" or self.needs_horizon):
                options[name] = known[name]
            elif parameters[name].default is inspect.Parameter.empty:
                raise ValueError(f"{name}: got None; expected {hint}, which {self.name} needs")
        return self.make(**options)

"""The contract of a learner: an immutable value with `init`, `step` and `guarantees`.

What theory says about a learner is in `guarantee.py`.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp

from .. import arguments, files
from ..engine import register_dataclass
from ..jaxpr.maxima import entry_of_largest
from ..problem.constants import Constants
from ..problem.constraints import Linearisation
from ..problem.domains import Domain
from ..problem.rounds import Round
from .guarantee import Guarantee, Setting
from .protocols import RequestFirst
from .schedules import as_schedule, check_non_negative, check_positive

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True)
def learner_dataclass(kind: Class) -> Class:
    """Make a class a learner: a frozen dataclass whose fields are parameters, registered as a JAX
    pytree.

    Fields are traced, so changing or sweeping them never recompiles; a field with
    `metadata={"static": True}` is a flag that is compiled in. Use this decorator and not
    `jax.tree_util.register_dataclass`, with which two classes that have the same fields can run
    each other's compiled code.
    """
    made: Any = dataclass(frozen=True)(kind)
    return register_dataclass(made)


def _with_constants(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a constructor that refuses anything but `taut.Constants` as its argument `constants`,
    by name."""
    signature = inspect.signature(make)
    default = signature.parameters["constants"].default

    @functools.wraps(make)
    def checked(*positional: Any, **options: Any) -> Any:
        try:
            bound = signature.bind(*positional, **options).arguments
        except TypeError:
            # Python names the argument that is missing or unknown.
            return make(*positional, **options)
        constants = bound.get("constants", default)
        if constants is not default and not isinstance(constants, Constants):
            shown = arguments.shown(constants)
            if hasattr(constants, "constants"):
                shown = f"an object of class {type(constants).__name__}"
            raise TypeError(
                f"constants: got {shown}; expected taut.Constants, for example problem.constants"
            )
        return make(*positional, **options)

    return checked


def _learner(name: str, value: Any) -> Learner:
    if not isinstance(value, Learner):
        raise TypeError(
            f"{name}: got {arguments.shown(value)}; expected a learner, such as "
            'taut.learner("half-space", problem)'
        )
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "Positive": check_positive,
    "NonNegative": check_non_negative,
    "Schedule": as_schedule,
    "Learner": _learner,
}
"""For each annotation of a learner's field, the check, which returns the value."""


class State(NamedTuple):
    """The state of a learner without multipliers."""

    x: jax.Array
    """The decision to play in round t."""
    t: jax.Array
    """The round, counted from 1."""


class MultiplierState(NamedTuple):
    """The state of a learner that keeps one multiplier per constraint."""

    x: jax.Array
    t: jax.Array
    multiplier: jax.Array


class Learner(ABC):
    """A method with its parameters: a frozen dataclass, registered as a pytree whose leaves are the
    parameters.

    A learner owns no loop, prints nothing, does not score itself and never sees the stream.
    Changing a parameter, or sweeping it with vmap, never recompiles. `tuned` and similar
    constructors compute parameters from theory; plain construction takes them as given. Subclasses
    use the decorator `taut.learner_dataclass`.

    A learner may offer more, such as an answer to announced constraints: see `protocols.py`.

    Fields that are annotated as `Positive`, `NonNegative`, `Schedule` or `Learner` are checked to
    be that.
    """

    request_first: ClassVar[bool] = False
    """Whether the round is revealed before the decision. It is set for classes that have `decide`;
    the card has the same flag."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        files.add_class(cls)
        cls.request_first = issubclass(cls, RequestFirst)
        for name, value in list(vars(cls).items()):
            if (
                isinstance(value, classmethod)
                and "constants" in inspect.signature(value.__func__).parameters
            ):
                setattr(cls, name, classmethod(_with_constants(value.__func__)))

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            check, _, optional = str(field.type).partition(" | ")
            value = getattr(self, field.name)
            if check in _CHECKS and not (value is None and optional == "None"):
                object.__setattr__(self, field.name, _CHECKS[check](field.name, value))

    @property
    def side_by_side(self) -> bool:
        """Whether several seeds take less time side by side, in vector instructions, than one after
        the other. They take more if the number of steps of a round depends on its numbers: side by
        side, all seeds take as many steps as the slowest."""
        return True

    @abstractmethod
    def init(self, x1: jax.Array, count: int) -> Any:
        """Return the state before round 1: `state.x` is the decision to play, `count` the number of
        constraints."""

    @abstractmethod
    def step(self, state: Any, round: Round) -> Any:
        """Return the state for round t + 1, given what round t reveals."""

    def guarantees(self, setting: Setting, horizon: int) -> Iterable[Guarantee]:
        """Yield one entry per theorem and quantity: a number with its assumptions, or the reason
        why there is none.

        The default is no guarantee. `setting.evaluate` computes an entry from a formula.
        """
        return ()


class KeepsMultiplier(Learner):
    """A learner whose state is a decision with a multiplier or queue per constraint, from zero."""

    def init(self, x1: jax.Array, count: int) -> MultiplierState:
        """Play x1 first, with multipliers of zero."""
        return MultiplierState(x1, first_round(), jnp.zeros((count,), x1.dtype))

    def multiplier(self, state: MultiplierState, round: Round) -> jax.Array:
        """Return lambda_t."""
        return state.multiplier


def first_round() -> jax.Array:
    """Return t = 1, in a type that does not depend on the user's settings."""
    return jnp.asarray(1, jnp.int32)


def largest_row(constraints: Linearisation) -> tuple[jax.Array, jax.Array]:
    """Return max_i g_i(x) and the weights (m,) whose pull-back is a subgradient of it: that of the
    first largest row."""
    return jnp.max(constraints.values), entry_of_largest(constraints.values)


def sizes(domain: Domain | None, constants: Constants | None) -> tuple[float, float]:
    """The largest distance from the first decision, and the diameter."""
    if domain is not None:
        return float(domain.radius), float(domain.diameter)
    if constants is None:
        raise ValueError("domain: got None; expected the domain, or constants with a radius")
    (radius,) = constants.need("radius")
    return radius, 2 * radius

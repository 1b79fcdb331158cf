r"""Lyapunov surrogates: gradient steps on V f_t + Phi'(Q_t) [g_t]_+, where Q_t adds up the
violation so far.

    Q_t = Q_{t-1} + b_g [g_t(x_t)]_+,        w_t = Phi_t'(Q_t)
    h_t = V b_f df_t(x_t) + w_t b_g dg_t(x_t) 1[g_t(x_t) > 0],        B_t = B_{t-1} + |h_t|^2
    x_{t+1} = Pi_B( x_t - D h_t / sqrt(2 B_t) )

g_t is the largest constraint. Constraints may change in every round. The scales are b_f = 1 / (2
G_f D) and b_g = 1 / (2 G_g D); the original method uses the larger of G_f and G_g for both.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import arguments, files
from ..engine import register_dataclass
from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.domains.base import finfo
from ..problem.rounds import Round
from . import bounds
from .base import (
    BASE,
    Guarantee,
    Learner,
    Setting,
    diameter_of,
    first_round,
    largest_row,
    learner_dataclass,
)
from .card import LOGARITHM, ROOT, STRONG, THREE_QUARTERS, Card, Growth
from .schedules import check_positive

CONSTANTS = ("radius", "loss_lipschitz", "constraint_lipschitz")
SLOPES = ("loss_lipschitz", "constraint_lipschitz")


class Potential:
    """Phi_t, convex and increasing in the accumulated violation, and not increasing in t."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        files.add_class(cls)

    @abstractmethod
    def slope(self, queue: jax.Array, t: jax.Array) -> jax.Array:
        """Return Phi_t'(queue)."""


@register_dataclass
@dataclass(frozen=True)
class ExponentialPotential(Potential):
    """exp(rate q) - 1. The exponent is cut where the square of the slope would overflow."""

    rate: Any

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)

    def slope(self, queue: jax.Array, t: jax.Array) -> jax.Array:
        """Return rate exp(rate q)."""
        rate = jnp.asarray(self.rate, queue.dtype)
        return rate * jnp.exp(jnp.minimum(rate * queue, largest_exponent(queue.dtype)))


@register_dataclass
@dataclass(frozen=True)
class QuadraticPotential(Potential):
    """q^2 / sqrt(t), which needs no horizon."""

    def slope(self, queue: jax.Array, t: jax.Array) -> jax.Array:
        """Return 2 q / sqrt(t)."""
        return 2 * queue / jnp.sqrt(t.astype(queue.dtype))


def largest_exponent(dtype: Any) -> float:
    """Return the largest u that is used in exp(u): such numbers, times steep slopes, can still be
    squared and added up."""
    return 0.25 * math.log(float(finfo(dtype).max))


class SurrogateState(NamedTuple):
    """The state of a surrogate learner."""

    x: jax.Array
    t: jax.Array
    queue: jax.Array
    """Q_{t-1}, the scaled violation of all rounds before round t."""
    squares: jax.Array
    """B_{t-1}, the sum of |h|^2."""


@dataclass(frozen=True)
class _AdaGrad(Learner):
    """What the methods with AdaGrad steps share: the surrogate's parameters and its gradient."""

    penalty: Any
    potential: Potential
    loss_scale: Any
    constraint_scale: Any
    diameter: Any

    def __post_init__(self) -> None:
        if not isinstance(self.potential, Potential):
            raise TypeError(
                f"potential: got {arguments.shown(self.potential)}; expected a potential"
            )
        for name in ("penalty", "loss_scale", "constraint_scale", "diameter"):
            check_positive(name, getattr(self, name))

    @classmethod
    def tuned(
        cls, constants: Constants, horizon: int, domain: Domain | None = None, c: float = 0.25
    ) -> Any:  # of this class
        r"""The exponential potential with lam = 1 / (2 sqrt(T)) and V = c / sqrt(T).

        Arguments:
            constants: R, G_f and G_g are needed.
            horizon: T.
            domain: the domain, whose diameter is D; without it, D = 2 R.
            c: the weight of the loss. If a bound on the optimal multiplier in units of G_f / G_g is
                known, take c = min(1, 1 / (2 bound)). The original V = 1 is c = sqrt(T): then the
                constraint is ignored until the violation is of the order of sqrt(T) log T, which at
                practical horizons means always.
        """
        root = math.sqrt(arguments.count("horizon", horizon))
        return cls(
            arguments.positive("c", c) / root,
            ExponentialPotential(0.5 / root),
            *_scales(constants, domain),
        )

    def surrogate(
        self, x: jax.Array, t: jax.Array, queue: jax.Array, round: Round
    ) -> tuple[jax.Array, jax.Array]:
        """Return Q_t and h_t."""
        constraints = round.constraints(x)
        value, rows = largest_row(constraints)
        queue = queue + jnp.asarray(self.constraint_scale, x.dtype) * jnp.maximum(value, 0)
        weights = rows * self._weight(value, t, queue)
        loss = jnp.asarray(self.penalty, x.dtype) * jnp.asarray(self.loss_scale, x.dtype)
        return queue, loss * round.gradient(x) + constraints.pullback(weights)

    def _weight(self, value: jax.Array, t: jax.Array, queue: jax.Array) -> jax.Array:
        """w_t b_g where the constraint is violated, else zero."""
        scale = jnp.asarray(self.constraint_scale, queue.dtype)
        return jnp.where(value > 0, scale * self.potential.slope(queue, t), 0)

    def multiplier(self, state: Any, round: Round) -> jax.Array:
        """Return w_t b_g / (V b_f) for the largest constraint if it is violated, in units of the
        loss."""
        value, rows = largest_row(round.constraints(state.x))
        dtype = state.x.dtype
        queue = state.queue + jnp.asarray(self.constraint_scale, dtype) * jnp.maximum(value, 0)
        unit = jnp.asarray(self.penalty, dtype) * jnp.asarray(self.loss_scale, dtype)
        return rows * self._weight(value, state.t, queue) / unit


@learner_dataclass
class Surrogate(_AdaGrad):
    r"""x_{t+1} = Pi_B( x_t - D h_t / sqrt(2 B_t) ),
        h_t = V b_f df_t(x_t) + Phi_t'(Q_t) b_g dg_t(x_t) 1[g_t(x_t) > 0].

    Guarantee: with the exponential potential regret O(sqrt(T)) and clipped violation O(sqrt(T) log
    T); with the quadratic one, for every T, regret O(sqrt(T) log T) and clipped violation
    O(T^(3/4)). Constraints may be adversarial.

    Arguments:
        penalty: V, the weight of the loss.
        potential: Phi_t, `ExponentialPotential(rate)` or `QuadraticPotential()`.
        loss_scale: b_f.
        constraint_scale: b_g.
        diameter: D, the length of the first step times sqrt(2).

    References: Sinha & Vaze, "Optimal algorithms for online convex optimization with adversarial
    constraints", NeurIPS 2024, Algorithm 1. The choice of V, the two scales and the quadratic
    potential are taut's; see docs/theory.md.

    >>> import taut
    >>> known = taut.Constants(radius=1.0, loss_lipschitz=1.0, constraint_lipschitz=2.0)
    >>> taut.learner("surrogate", known, horizon=10_000).penalty
    0.0025
    """

    @classmethod
    def anytime(
        cls, constants: Constants, domain: Domain | None = None, penalty: float = 0.25
    ) -> Surrogate:
        """The quadratic potential with V = `penalty`, for every horizon at once."""
        return cls(
            arguments.positive("penalty", penalty),
            QuadraticPotential(),
            *_scales(constants, domain),
        )

    def init(self, x1: jax.Array, count: int) -> SurrogateState:
        """Play x1 first."""
        zero = jnp.zeros((), x1.dtype)
        return SurrogateState(x1, first_round(), zero, zero)

    def step(self, state: SurrogateState, round: Round) -> SurrogateState:
        """One AdaGrad step on the surrogate of round t; no step while all gradients were zero."""
        x, t, queue, squares = state
        queue, slope = self.surrogate(x, t, queue, round)
        squares = squares + jnp.sum(slope**2)
        move = _adagrad(self.diameter, squares) * slope
        return SurrogateState(round.project(x - move), t + 1, queue, squares)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the bounds that follow from the potential."""
        numbers: dict[str, Any] = {
            "horizon": horizon,
            "penalty": float(self.penalty),
            "loss_scale": float(self.loss_scale),
            "constraint_scale": float(self.constraint_scale),
            "reach": float(self.diameter),
        }
        regret: Callable[..., float]
        violation: Callable[..., float]
        if isinstance(self.potential, ExponentialPotential):
            numbers["rate"] = float(self.potential.rate)
            source, regret, violation = (
                "Sinha & Vaze, sharpened",
                bounds.surrogate_regret,
                bounds.surrogate_violation,
            )
        elif isinstance(self.potential, QuadraticPotential):
            source = "quadratic potential"
            regret, violation = bounds.anytime_surrogate_regret, bounds.anytime_surrogate_violation
        else:
            yield Guarantee.none("regret", "surrogate", f"no bound is known for {self.potential!r}")
            return
        yield setting.evaluate("regret", regret, source, **numbers)
        yield from _violation(setting, violation, source, BASE, **numbers)


class QueueState(NamedTuple):
    """The state of the strongly convex form."""

    x: jax.Array
    t: jax.Array
    queue: jax.Array
    """Q_{t-1}, the violation of all rounds before round t."""


@learner_dataclass
class StrongSurrogate(Learner):
    r"""x_{t+1} = Pi_B( x_t - (V df_t(x_t) + 2 Q_t dg_t(x_t) 1[g_t(x_t) > 0]) / (V H t) ),
        Q_t = sum_{s<=t} [g_s(x_s)]_+.

    Guarantee: for H-strongly convex losses regret O(log T) and clipped violation O(sqrt(T log T)).

    Arguments:
        penalty: V, the weight of the loss.
        strong_convexity: H.

    Reference: Sinha & Vaze, NeurIPS 2024, section 3. The step is divided by the modulus V H of the
    surrogate; dividing by H alone, as the listing reads, loses the logarithmic regret.
    """

    penalty: Any
    strong_convexity: Any

    def __post_init__(self) -> None:
        check_positive("penalty", self.penalty)
        check_positive("strong_convexity", self.strong_convexity)

    @classmethod
    def tuned(cls, constants: Constants, horizon: int) -> StrongSurrogate:
        """V = 8 G_g^2 ln(eT) / H; G_f does not enter."""
        slope, modulus = constants.need("constraint_lipschitz", "strong_convexity")
        slope = arguments.positive("constraint_lipschitz", slope)
        logarithm = 1 + math.log(arguments.count("horizon", horizon))
        return cls(8 * slope**2 * logarithm / modulus, modulus)

    def init(self, x1: jax.Array, count: int) -> QueueState:
        """Play x1 first."""
        return QueueState(x1, first_round(), jnp.zeros((), x1.dtype))

    def step(self, state: QueueState, round: Round) -> QueueState:
        """One gradient step on the surrogate of round t, with the step 1 / (V H t)."""
        x, t, queue = state
        constraints = round.constraints(x)
        value, rows = largest_row(constraints)
        queue = queue + jnp.maximum(value, 0)
        penalty, modulus = (jnp.asarray(p, x.dtype) for p in (self.penalty, self.strong_convexity))
        slope = penalty * round.gradient(x) + constraints.pullback(
            rows * jnp.where(value > 0, 2 * queue, 0)
        )
        step = 1 / (penalty * modulus * t.astype(x.dtype))
        return QueueState(round.project(x - step * slope), t + 1, queue)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the bounds for losses that are at least as strongly convex as the step assumes."""
        source, modulus, known = (
            "Sinha & Vaze, strongly convex",
            float(self.strong_convexity),
            setting.constants,
        )
        if modulus > known.strong_convexity * (1 + 1e-12):
            why = (
                f"the step assumes H = {modulus:g}, but the losses are known to have H = "
                f"{known.strong_convexity:g}"
            )
            yield Guarantee.none("regret", source, why)
            return
        numbers: dict[str, Any] = {
            "horizon": horizon,
            "penalty": float(self.penalty),
            "strong_convexity": modulus,
        }
        rests = (*BASE, "strong_convexity")
        regret = bounds.strong_surrogate_regret
        yield setting.evaluate("regret", regret, source, (), rests, **numbers)
        yield from _violation(setting, bounds.strong_surrogate_violation, source, rests, **numbers)

    def multiplier(self, state: QueueState, round: Round) -> jax.Array:
        """Return 2 Q_t / V for the largest constraint if it is violated."""
        value, rows = largest_row(round.constraints(state.x))
        queue = state.queue + jnp.maximum(value, 0)
        return rows * jnp.where(value > 0, 2 * queue, 0) / jnp.asarray(self.penalty, state.x.dtype)


class OptimisticState(NamedTuple):
    """The state of the optimistic surrogate learner."""

    x: jax.Array
    t: jax.Array
    queue: jax.Array
    base: jax.Array
    """The point from which the next gradient step starts, without the prediction."""
    hint: jax.Array
    """The prediction of h_t."""
    errors: jax.Array
    """The sum of |h_s - hint_s|^2 over the rounds before t."""


@learner_dataclass
class OptimisticSurrogate(_AdaGrad):
    r"""y_{t+1} = Pi_B( y_t - eta_t h_t ),   x_{t+1} = Pi_B( y_{t+1} - eta_t h_t ),
        eta_t = D / sqrt(2 sum_s |h_s - h_{s-1}|^2).

    The surrogate's gradient of the last round predicts that of the next one (h_0 = 0). On losses
    that stay the same for many rounds the violation is smaller than that of `Surrogate`; on
    independent ones both behave alike. No explicit bound is known: the published one has
    unspecified constants.

    Arguments: as for `Surrogate`.

    Reference: Lekeufack & Jordan, "An optimistic algorithm for online convex optimization with
    adversarial constraints", 2024.
    """

    def init(self, x1: jax.Array, count: int) -> OptimisticState:
        """Play x1 first, predicting nothing."""
        zero = jnp.zeros((), x1.dtype)
        return OptimisticState(x1, first_round(), zero, x1, jnp.zeros_like(x1), zero)

    def step(self, state: OptimisticState, round: Round) -> OptimisticState:
        """A step with what was observed, then one with the prediction; no step while all
        predictions were right."""
        x, t, queue, base, hint, errors = state
        queue, slope = self.surrogate(x, t, queue, round)
        errors = errors + jnp.sum((slope - hint) ** 2)
        eta = _adagrad(self.diameter, errors)
        base = round.project(base - eta * slope)
        return OptimisticState(round.project(base - eta * slope), t + 1, queue, base, slope, errors)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Say that there is no number."""
        why = (
            "the published bound has the order sqrt(prediction errors), with constants that are "
            "not specified"
        )
        yield Guarantee.none("regret", "Lekeufack & Jordan", why)
        yield Guarantee.none("violation", "Lekeufack & Jordan", why)


def _adagrad(diameter: Any, squares: jax.Array) -> jax.Array:
    """D / sqrt(2 B), or zero where B is zero."""
    safe = jnp.where(squares > 0, squares, 1)
    return jnp.where(squares > 0, jnp.asarray(diameter, squares.dtype) / jnp.sqrt(2 * safe), 0)


def _scales(constants: Constants, domain: Domain | None) -> tuple[float, float, float]:
    """b_f, b_g and D."""
    loss_slope, slope = constants.need(*SLOPES)
    across = diameter_of(constants, domain)
    loss_slope = arguments.positive("loss_lipschitz", loss_slope)
    slope = arguments.positive("constraint_lipschitz", slope)
    return 1 / (2 * loss_slope * across), 1 / (2 * slope * across), across


def _violation(
    setting: Setting,
    formula: Callable[..., float],
    source: str,
    rests: tuple[str, ...],
    **numbers: Any,
) -> Iterator[Guarantee]:
    """The clipped violation, and the excess, which is never above it."""
    violation = setting.evaluate("violation", formula, source, (), rests, **numbers)
    yield violation
    yield violation.become("excess")


_PAPER = "Sinha & Vaze, NeurIPS 2024"
_STEPS = {
    "check_schedule_matters": (
        "steps shorten with the rounds played; the horizon sets the weight of the constraint"
    )
}
_PAIRS = {
    "check_constraint_matters": (
        "on doubly stochastic matrices the largest constraint alternates between the two sides of "
        "an equality, and 120 rounds are too few to settle"
    )
}
_LOGARITHM = {"check_growth_matches_bounds": "the bound has a factor log T beside sqrt T"}

CARDS = (
    Card(
        "surrogate",
        Surrogate.tuned,
        "Surrogate",
        f"{_PAPER}, with V = c / sqrt(T)",
        needs=CONSTANTS,
        growth={"regret": ROOT, "violation": Growth("sqrt T log T", 0.5)},
        known_failures=_STEPS | _PAIRS | _LOGARITHM,
    ),
    Card(
        "surrogate-anytime",
        Surrogate.anytime,
        "Surrogate (anytime)",
        f"{_PAPER}, with a quadratic potential",
        needs=CONSTANTS,
        growth={"regret": Growth("sqrt T log T", 0.5), "violation": THREE_QUARTERS},
        known_failures=_PAIRS,
    ),
    Card(
        "surrogate-strong",
        StrongSurrogate.tuned,
        "Surrogate, strongly convex",
        f"{_PAPER}, section 3",
        "strongly convex",
        STRONG,
        needs=("constraint_lipschitz", "strong_convexity"),
        growth={"regret": LOGARITHM, "violation": Growth("sqrt(T log T)", 0.5)},
        known_failures=_STEPS,
    ),
    Card(
        "surrogate-optimistic",
        OptimisticSurrogate.tuned,
        "Surrogate (optimistic)",
        "Lekeufack & Jordan, 2024",
        cost="2 projections, m constraint values, 1 vector-Jacobian product",
        needs=CONSTANTS,
        known_failures=_STEPS | _PAIRS,
    ),
)

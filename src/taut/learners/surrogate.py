r"""Lyapunov surrogates: gradient steps on V f_t + Phi'(Q_t) [g_t]_+, where Q_t adds up the
violation so far.

    Q_t = Q_{t-1} + b_g [g_t(x_t)]_+,        w_t = Phi_t'(Q_t)
    h_t = V b_f df_t(x_t) + w_t b_g dg_t(x_t) 1[g_t(x_t) > 0],        B_t = B_{t-1} + |h_t|^2
    x_{t+1} = Pi_B( x_t - r h_t / sqrt(2 B_t) )

g_t is the largest constraint. Constraints may change in every round. Tuned, r is the diameter D and
the scales are b_f = 1 / (2 G_f D) and b_g = 1 / (2 G_g D); the original method uses the larger of
G_f and G_g for both.

The potential Phi_t is convex and increasing, and does not increase with t, so Phi_t(Q_t) -
Phi_{t-1}(Q_{t-1}) is at most w_t b_g [g_t(x_t)]_+, and [g_t(x_t)]_+ <= dg_t(x_t).(x_t - x) for
every x that is feasible in round t. The AdaGrad steps give sum_t h_t.(x_t - x) <= k sqrt(B_T) with
k = (D^2/r + r) / sqrt(2), and |h_t| <= V b_f G_f + w_t b_g G_g. With A = k b_f G_f, the share of
the loss, and C = k b_g G_g, that of the constraint (both 1/sqrt(2) if tuned), this is

    Phi_T(Q_T) + V b_f Regret_T <= A V sqrt(T) + C sqrt(sum_t w_t^2).   (#)

All bounds follow from (#) and from -Regret_T <= F T.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import arguments, files
from ..engine import register_dataclass
from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.domains.base import finfo
from ..problem.rounds import Round
from .base import Learner, first_round, largest_row, learner_dataclass, sizes
from .card import LOGARITHM, ROOT, SLOPES, STRONG, THREE_QUARTERS, Card, Growth
from .guarantee import BASE, Guarantee, Setting, with_excess
from .schedules import check_positive
from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula_of, range_of_losses


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

    penalty: Positive
    potential: Potential
    loss_scale: Positive
    constraint_scale: Positive
    diameter: Positive

    def __post_init__(self) -> None:
        if not isinstance(self.potential, Potential):
            raise TypeError(
                f"potential: got {arguments.shown(self.potential)}; expected a potential"
            )
        super().__post_init__()

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

    @with_excess
    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the bounds that follow from the potential."""
        evaluate = partial(
            setting.evaluate,
            horizon=horizon,
            penalty=float(self.penalty),
            loss_scale=float(self.loss_scale),
            constraint_scale=float(self.constraint_scale),
            reach=float(self.diameter),
        )
        if isinstance(self.potential, ExponentialPotential):
            source, rate = "Sinha & Vaze, sharpened", float(self.potential.rate)
            yield evaluate("regret", surrogate_regret, source, rate=rate)
            yield evaluate("violation", surrogate_violation, source, rate=rate)
        elif isinstance(self.potential, QuadraticPotential):
            source = "quadratic potential"
            yield evaluate("regret", anytime_surrogate_regret, source)
            yield evaluate("violation", anytime_surrogate_violation, source)
        else:
            yield Guarantee.none("regret", "surrogate", f"no bound is known for {self.potential!r}")


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

    penalty: Positive
    strong_convexity: Positive

    @classmethod
    def tuned(cls, constants: Constants, horizon: int) -> StrongSurrogate:
        """V = 8 G_g^2 ln(eT) / H; G_f does not enter."""
        slope, modulus = constants.positive("constraint_lipschitz", "strong_convexity")
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

    @with_excess
    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the bounds for losses that are at least as strongly convex as the step assumes."""
        source, modulus = "Sinha & Vaze, strongly convex", float(self.strong_convexity)
        if why := setting.less_convex_than(modulus):
            yield Guarantee.none("regret", source, why)
            return
        evaluate = partial(
            setting.evaluate,
            source=source,
            assumptions=(*BASE, "strong_convexity"),
            horizon=horizon,
            penalty=float(self.penalty),
            strong_convexity=modulus,
        )
        yield evaluate("regret", strong_surrogate_regret)
        yield evaluate("violation", strong_surrogate_violation)

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
    loss_slope, slope = constants.positive("loss_lipschitz", "constraint_lipschitz")
    across = sizes(domain, constants)[1]
    return 1 / (2 * loss_slope * across), 1 / (2 * slope * across), across


@dataclass(frozen=True)
class _Game:
    horizon: Count
    penalty: Positive
    loss_scale: Positive
    constraint_scale: Positive
    reach: Positive
    diameter: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative

    @property
    def _factor(self) -> float:
        return (self.diameter**2 / self.reach + self.reach) / math.sqrt(2)

    @property
    def loss(self) -> float:
        """A."""
        return self._factor * self.loss_scale * self.loss_lipschitz

    @property
    def constraint(self) -> float:
        """C."""
        return self._factor * self.constraint_scale * self.constraint_lipschitz

    def theta(self, rate: float) -> float:
        """C lam sqrt(T), which the theorem needs to be at most 1."""
        theta = self.constraint * rate * math.sqrt(self.horizon)
        if theta > 1:
            raise OutsideTheorem(
                f"rate: got {rate:g}; expected at most {rate / theta:g} for {self.horizon} rounds, "
                "else the potential grows faster than the steps allow"
            )
        return theta


@formula_of(_Game)
def surrogate_regret(game: _Game, *, rate: Positive) -> float:
    r"""Regret with Phi(q) = exp(lam q) - 1: (A V sqrt(T) + theta) / (V b_f), theta = C lam sqrt(T),
    if theta <= 1.

    sum_t w_t^2 <= lam^2 T E^2 with E = exp(lam Q_T) >= 1, so (#) reads (1 - theta) E + V b_f Regret
    <= 1 + A V sqrt(T). Tuned with lam = 1 / (2 sqrt(T)): 2 G_f D (sqrt(T/2) + 0.354 / V). `rate` is
    lam, `reach` is r.
    """
    share = game.loss * game.penalty * math.sqrt(game.horizon)
    return (share + game.theta(rate)) / (game.penalty * game.loss_scale)


@formula_of(_Game)
def surrogate_violation(
    game: _Game, *, rate: Positive, loss_range: NonNegative | None = None
) -> float:
    r"""Clipped violation: ln((1 + A V sqrt(T) + V b_f F T) / (1 - theta)) / (lam b_g), if theta <
    1.

    Tuned: 4 G_g D sqrt(T) ln(1.55 (1 + V sqrt(T/2) + V T / 2)). F = `loss_range`, G_f times the
    diameter if it is unknown.
    """
    theta = game.theta(rate)
    if theta >= 1:
        raise OutsideTheorem(
            f"rate: got {rate:g}, which makes theta = {theta:g}; expected theta below 1"
        )
    spread = range_of_losses(loss_range, game.loss_lipschitz, game.diameter)
    gain = game.penalty * game.loss_scale * spread * game.horizon
    share = game.loss * game.penalty * math.sqrt(game.horizon)
    return math.log((1 + share + gain) / (1 - theta)) / (rate * game.constraint_scale)


@formula_of(_Game)
def anytime_surrogate_regret(game: _Game) -> float:
    r"""Regret with Phi_t(q) = q^2 / sqrt(t), for every T: sqrt(T) (A V + C^2 (1 + ln T)) / (V b_f).

    Q does not decrease, so sum_t w_t^2 = 4 sum_t Q_t^2 / t <= 4 Q_T^2 (1 + ln T); the largest value
    of 2 C sqrt(1 + ln T) Q - Q^2 / sqrt(T) over Q is C^2 (1 + ln T) sqrt(T).
    """
    total = game.loss * game.penalty + game.constraint**2 * (1 + math.log(game.horizon))
    return math.sqrt(game.horizon) * total / (game.penalty * game.loss_scale)


@formula_of(_Game)
def anytime_surrogate_violation(game: _Game, *, loss_range: NonNegative | None = None) -> float:
    r"""Clipped violation: Q / b_g, Q the root of q^2 - 2 c q = V (A T + b_f F T^(3/2)), c = C
    sqrt(T (1 + ln T))."""
    rounds = game.horizon
    middle = game.constraint * math.sqrt(rounds * (1 + math.log(rounds)))
    spread = range_of_losses(loss_range, game.loss_lipschitz, game.diameter)
    gain = game.loss_scale * spread * rounds**1.5
    root = math.sqrt(middle**2 + game.penalty * (game.loss * rounds + gain))
    return (middle + root) / game.constraint_scale


@dataclass(frozen=True)
class _Strong:
    horizon: Count
    penalty: Positive
    strong_convexity: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative

    def __post_init__(self) -> None:
        if self.share >= 1:
            least = 2 * self.constraint_lipschitz**2 * self._logarithm / self.strong_convexity
            raise OutsideTheorem(
                f"penalty: got {self.penalty:g}; expected more than 2 G_g^2 ln(eT) / H = "
                f"{least:g}, else the multiplier grows too fast for the step"
            )

    @property
    def _logarithm(self) -> float:
        return 1 + math.log(self.horizon)

    @property
    def share(self) -> float:
        """u."""
        part = 2 * self.constraint_lipschitz**2 * self._logarithm
        return part / (self.penalty * self.strong_convexity)

    @property
    def base(self) -> float:
        """a."""
        return self.loss_lipschitz**2 * self._logarithm / (2 * self.strong_convexity)


@formula_of(_Strong)
def strong_surrogate_regret(game: _Strong) -> float:
    r"""Regret with Phi(q) = q^2, x_{t+1} = P_B(x_t - h_t / (V H t)), Q_t = sum [g]_+: G_f^2 ln(eT)
    / (2 H (1 - u)).

    u = 2 G_g^2 ln(eT) / (V H) must be below 1. Strong convexity of V f_t cancels the distances,
    which leaves Q_T^2 + V Regret <= sum_t |h_t|^2 / (2 V H t) with |h_t|^2 <= (1 + c) V^2 G_f^2 +
    (1 + 1/c) 4 Q_T^2 G_g^2 for every c > 0; the best c makes (1 + 1/c) u = 1. At V = 8 G_g^2 ln(eT)
    / H that is 2/3 of Sinha and Vaze's (G_f^2 / H) ln(eT), c = 1.
    """
    return game.base / (1 - game.share)


@formula_of(_Strong)
def strong_surrogate_violation(
    game: _Strong, *, diameter: float, loss_range: NonNegative | None = None
) -> float:
    r"""Clipped violation: sqrt(V ((1 + c) a + F T) / (1 - (1 + 1/c) u)), a = G_f^2 ln(eT) / (2 H),
    at the best c > 0."""
    a, u, penalty = game.base, game.share, game.penalty
    gain = range_of_losses(loss_range, game.loss_lipschitz, diameter) * game.horizon
    if a == 0 or u == 0:  # c -> infinity, or c -> 0, costs nothing
        return math.sqrt(penalty * (a + gain) / (1 - u))
    c = (a * u + math.sqrt(a**2 * u**2 + a * (1 - u) * (a + gain) * u)) / (a * (1 - u))
    return math.sqrt(penalty * ((1 + c) * a + gain) / (1 - (1 + 1 / c) * u))


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
        needs=SLOPES,
        growth={"regret": ROOT, "violation": Growth("sqrt T log T", 0.5)},
        known_failures=_STEPS | _PAIRS | _LOGARITHM,
    ),
    Card(
        "surrogate-anytime",
        Surrogate.anytime,
        "Surrogate (anytime)",
        f"{_PAPER}, with a quadratic potential",
        needs=SLOPES,
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
        needs=SLOPES,
        known_failures=_STEPS | _PAIRS,
    ),
)

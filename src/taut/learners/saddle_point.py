r"""Saddle-point methods: gradient descent in the decision, gradient ascent in the multiplier, both
at once.

    L_t(x, lambda) = f_t(x) + sum_i { lambda_i g_i(x) - (theta_t / 2) lambda_i^2 }
    x_{t+1}      = Pi_B( x_t - eta_t (df_t(x_t) + sum_i lambda_{t,i} dg_i(x_t)) )
    lambda_{t+1} = [ lambda_t + mu_t (g(x_t) - theta_t lambda_t) ]_+

With `clipped` the Lagrangian has [g_i]_+ in place of g_i, in both lines.

Guarantees are on the excess sum_t g_i(x_t), which can cancel. With `clipped` the same proof, hence
the same number, bounds sum_t [g_i(x_t)]_+ (Propositions 4 and 5 of Yuan and Lamperski, 2018), since
it uses only lambda >= 0, g(x*) <= 0, |dg| <= G_g and |g| <= D, all true of [g]_+: functions named
`*_excess` therefore also bound the violation when the learner clips. Constraints may vary from
round to round. D bounds |g_i|, not g_i: the gradient in lambda contains g_i^2 (the paper writes max
g_i).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax.numpy as jnp

from .. import arguments
from ..problem.constants import Constants
from ..problem.rounds import Round
from .base import KeepsMultiplier, MultiplierState, learner_dataclass
from .card import COUNTED, RANGED, ROOT, STRONG, THREE_QUARTERS, Card, Growth
from .guarantee import BASE, Guarantee, Setting, with_excess
from .protocols import StepsFromDecision
from .schedules import Constant, Inverse, PowerLaw, Reciprocal, Schedule, power
from .theorem import (
    Count,
    NonNegative,
    OutsideTheorem,
    Positive,
    Share,
    Steps,
    diameter_of,
    formula_of,
    range_of_losses,
)


@learner_dataclass
class SaddlePoint(StepsFromDecision, KeepsMultiplier):
    r"""Take a gradient step of the decision and one of the multiplier, both at once.

        x <- Pi_B( x - eta_t (df + lambda dg) )
        lambda <- [ lambda + mu_t (g - theta_t lambda) ]_+

    Guarantee: for the signed sum of g_i(x_t), or of [g_i(x_t)]_+ when `clipped`; see the
    constructors.

    Arguments:
        eta: step of the decision.
        mu: step of the multiplier.
        theta: damping of the multiplier.
        clipped: whether the Lagrangian has [g]_+ in place of g.

    References: Mahdavi, Jin & Yang, JMLR 13 (2012); Jenatton, Huang & Archambeau, ICML 2016.

    >>> import taut
    >>> known = taut.Constants(
    ...     radius=1.0, loss_lipschitz=1.0, constraint_lipschitz=1.0, constraint_count=1
    ... )
    >>> taut.SaddlePoint.jenatton(known).theta
    InverseRoot(scale=6.0, shift=0.0)
    """

    eta: Schedule
    mu: Schedule
    theta: Schedule
    clipped: bool = field(default=False, metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.flag("clipped", self.clipped)

    @classmethod
    def mahdavi(cls, constants: Constants, horizon: int, clipped: bool = False) -> SaddlePoint:
        r"""Mahdavi et al. 2012, Theorem 4 (the paper's "OGD").

        a = R sqrt((m+1) G^2 + 2 m D^2), eta = mu = R^2 / (a sqrt(T)), theta = delta eta, with delta
        the smallest solution of delta >= (m+1) G^2 + 2 delta^2 eta^2. Regret <= a sqrt(T),
        violation O(T^(3/4)).

        Arguments:
            constants: R, G_f, G_g, B_g = max |g| and m are needed; G = max(G_f, G_g).
            horizon: T. The condition on delta has no solution when T is too short: then this is an
                error.
            clipped: Proposition 4, the same rates for the clipped sum.
        """
        radius, loss_slope, slope, reach, count = constants.need(*RANGED)
        horizon = arguments.count("horizon", horizon)
        spread = (count + 1) * arguments.positive("loss_lipschitz", max(loss_slope, slope)) ** 2
        a = radius * math.sqrt(spread + 2 * count * reach**2)
        eta = radius**2 / (a * math.sqrt(horizon))
        room = 8 * eta**2 * spread
        if room > 1:
            least = math.ceil(8 * spread * radius**4 / a**2)
            raise arguments.TooSmall(
                "horizon",
                f"got {horizon}; expected at least {least} for this problem, below which the "
                "condition delta >= (m+1) G^2 + 2 delta^2 eta^2 of Mahdavi et al. has no solution",
            )
        # The smaller root of 2 eta^2 delta^2 - delta + spread, in the form that does not cancel for
        # small eta.
        delta = 2 * spread / (1 + math.sqrt(1 - room))
        return cls(Constant(eta), Constant(eta), Constant(delta * eta), clipped)

    @classmethod
    def jenatton(
        cls, constants: Constants, beta: float = 0.5, clipped: bool = False
    ) -> SaddlePoint:
        r"""Jenatton et al. 2016 for convex losses (the paper's "A-OGD"); no horizon needed.

        theta_t = 6 R G / t^beta, eta_t = R / (G t^beta), mu_t = 1 / (theta_t (t+1)). Regret
        O(T^max(beta, 1-beta)), violation O(T^(1-beta/2)) of the one aggregated constraint;
        `clipped` is Proposition 5.
        """
        radius, slope = _one_constraint(constants)
        beta = arguments.fraction("beta", beta)
        return cls._adaptive(power(radius / slope, beta), power(6 * radius * slope, beta), clipped)

    @classmethod
    def jenatton_strongly_convex(
        cls, constants: Constants, beta: float = 0.5, clipped: bool = False
    ) -> SaddlePoint:
        r"""Jenatton et al. 2016 for H-strongly convex losses; no horizon needed.

        theta_t = 6 G^2 / (H t^beta), eta_t = 1 / (H t), mu_t = 1 / (theta_t (t+1)).
        """
        _, slope = _one_constraint(constants)
        (modulus,) = constants.need("strong_convexity")
        beta = arguments.fraction("beta", beta)
        return cls._adaptive(Inverse(1 / modulus), power(6 * slope**2 / modulus, beta), clipped)

    @classmethod
    def _adaptive(cls, eta: Schedule, theta: Schedule, clipped: bool) -> SaddlePoint:
        return cls(eta, Reciprocal(theta, 1.0), theta, clipped)

    def step(self, state: MultiplierState, round: Round) -> MultiplierState:
        """Update decision and multiplier, both from x_t and lambda_t."""
        x, t, weight = state
        excess, pull, _ = round.constraints(x)
        pulled = weight
        if self.clipped:
            pulled = jnp.where(excess > 0, weight, 0)  # d[g]_+ is 0 where g <= 0
            excess = jnp.maximum(excess, 0)
        eta, mu, theta = (schedule(t, x.dtype) for schedule in (self.eta, self.mu, self.theta))
        x_next = round.project(x - eta * (round.gradient(x) + pull(pulled)))
        return MultiplierState(
            x_next, t + 1, jnp.maximum(weight + mu * (excess - theta * weight), 0)
        )

    @with_excess
    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the theorem of Mahdavi et al. or of Jenatton et al. that covers these schedules, or
        say why none does."""
        eta, mu, theta = (schedule.power_law() for schedule in (self.eta, self.mu, self.theta))
        if (
            eta is not None
            and mu is not None
            and theta is not None
            and eta.beta == mu.beta == theta.beta == 0
        ):
            yield from self._mahdavi(eta.scale, mu.scale, theta.scale, setting, horizon)
        elif theta is not None and theta.shift == 0 and self.mu == Reciprocal(self.theta, 1.0):
            yield from self._jenatton(eta, theta, setting, horizon)
        else:
            why = (
                "the steps are neither constant with eta = mu, nor powers of t with mu_t = 1 / "
                "(theta_t (t + 1))"
            )
            yield Guarantee.none("regret", "Mahdavi et al., Jenatton et al.", why)

    def _mahdavi(
        self, eta: float, mu: float, theta: float, setting: Setting, horizon: int
    ) -> Iterator[Guarantee]:
        source = "Mahdavi et al., Theorem 4"
        if eta != mu:
            yield Guarantee.none(
                "regret", source, f"eta and mu must be equal; got {eta:g} and {mu:g}"
            )
            return
        numbers: dict[str, Any] = {"horizon": horizon, "eta": eta, "delta": theta / eta}
        yield setting.evaluate("regret", mahdavi_regret, source, **numbers)
        quantity, formula = "excess", mahdavi_excess
        if self.clipped:
            quantity, formula, source = "violation", mahdavi_total_violation, "Proposition 4"
        yield setting.evaluate(quantity, formula, source, **numbers)

    def _jenatton(
        self, eta: PowerLaw | None, theta: PowerLaw, setting: Setting, horizon: int
    ) -> Iterator[Guarantee]:
        source = "Proposition 5" if self.clipped else "Jenatton et al., Theorem 1"
        if setting.constants.constraint_count != 1 or eta is None or eta.shift != 0:
            yield Guarantee.none(
                "regret", source, "one aggregated constraint and a step eta / t^beta are needed"
            )
            return
        numbers: dict[str, Any] = {"horizon": horizon, "theta": theta.scale, "beta": theta.beta}
        rests: tuple[str, ...] = (*BASE, "constraint_count")
        regret: Callable[..., float] = jenatton_regret
        excess: Callable[..., float] = jenatton_excess
        if eta.beta == 1 and not setting.less_convex_than(1 / eta.scale):
            numbers |= {"strong_convexity": 1 / eta.scale}
            rests = (*rests, "strong_convexity")
            regret, excess = jenatton_strong_regret, jenatton_strong_excess
        elif eta.beta == theta.beta:
            numbers |= {"eta": eta.scale}
        else:
            why = (
                "eta and theta must fall with the same power of t, or eta as 1 / (H t) for "
                "H-strongly convex losses"
            )
            yield Guarantee.none("regret", source, why)
            return
        yield setting.evaluate("regret", regret, source, (), rests, **numbers)
        quantity = "violation" if self.clipped else "excess"
        yield setting.evaluate(quantity, excess, source, (), rests, **numbers)


def _one_constraint(constants: Constants) -> tuple[float, float]:
    radius, loss_slope, slope, count = constants.need(*COUNTED)
    if count != 1:
        raise ValueError(
            f"constraint_count: got {count}; expected 1, because this method plays one aggregated "
            "constraint: use taut.max_of(problem)"
        )
    return radius, arguments.positive("loss_lipschitz", max(loss_slope, slope))


_ROUNDING = 1e-9  # delta may be the exact root of its own condition, computed in floating point


@dataclass(frozen=True)
class _Mahdavi:
    horizon: Count
    eta: Positive
    delta: Positive
    radius: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative
    constraint_range: NonNegative
    constraint_count: Count

    def __post_init__(self) -> None:
        delta, part = self.delta, (self.constraint_count + 1) * self.constraint_lipschitz**2
        if delta * (1 + _ROUNDING) < part + 2 * delta**2 * self.eta**2:
            raise OutsideTheorem(
                f"delta: got {delta:g}; expected delta >= (m + 1) G_g^2 + 2 delta^2 eta^2, which "
                f"is {part + 2 * delta**2 * self.eta**2:g} here; 2 (m + 1) G_g^2 = {2 * part:g} "
                f"satisfies it once 8 eta^2 (m + 1) G_g^2 = {8 * self.eta**2 * part:g} is at most 1"
            )

    @property
    def regret(self) -> float:
        loss = (self.constraint_count + 1) * self.loss_lipschitz**2
        dual = 2 * self.constraint_count * self.constraint_range**2
        return self.radius**2 / (2 * self.eta) + self.eta * self.horizon * (loss + dual) / 2

    def excess(self, loss_range: float | None) -> float:
        spread = range_of_losses(loss_range, self.loss_lipschitz, 2 * self.radius)
        weight = self.delta * self.eta * self.horizon + 1 / self.eta
        return math.sqrt(2 * weight * (self.regret + spread * self.horizon))


@formula_of(_Mahdavi)
def mahdavi_regret(game: _Mahdavi) -> float:
    r"""Regret: R^2 / (2 eta) + (eta T / 2)((m+1) G_f^2 + 2 m D^2)  (Mahdavi et al., Theorem 4).

    Steps up and down by eta, theta = delta eta, multipliers from zero. The squared step lengths are
    at most (m+1)(G_f^2 + G_g^2 |lambda|^2) and 2 m D^2 + 2 delta^2 eta^2 |lambda|^2, and
    |lambda_t|^2 cancels for delta >= (m+1) G_g^2 + 2 delta^2 eta^2 (checked). At eta = R^2 / (a
    sqrt(T)) with a = R sqrt((m+1) G^2 + 2 m D^2) the value is a sqrt(T).
    """
    return game.regret


@formula_of(_Mahdavi)
def mahdavi_excess(game: _Mahdavi, *, loss_range: NonNegative | None = None) -> float:
    r"""Sum over rounds of g_i(x_t), each i; of [g_i(x_t)]_+ when the learner clips (Theorem 4;
    Proposition 4).

    sqrt(2 (delta eta T + 1/eta)(regret bound + F T)), from Mahdavi et al.'s key inequality
    regret + sum_i [sum_t g_i(x_t)]_+^2 / (2 (delta eta T + 1/eta)) <= regret bound, and regret >=
    -F T. Yuan and Lamperski quote m/eta for 1/eta; the multipliers' telescoping sum is |lambda|^2
    / (2 eta), so 1/eta is right and stronger.
    """
    return game.excess(loss_range)


@formula_of(_Mahdavi)
def mahdavi_total_violation(game: _Mahdavi, *, loss_range: NonNegative | None = None) -> float:
    """Sum over rounds and constraints of [g_i(x_t)]_+, so also of the largest, when the learner
    clips.

    sqrt(m) times `mahdavi_excess`, which bounds the Euclidean norm of the m sums over rounds.
    """
    return math.sqrt(game.constraint_count) * game.excess(loss_range)


@dataclass(frozen=True)
class _Jenatton:
    """A-OGD: theta_t = theta / t^beta, mu_t = 1 / (theta_t (t+1)), one constraint."""

    horizon: Count
    theta: Positive
    beta: Share
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative
    constraint_range: NonNegative

    def require(self, least: float, formula: str) -> None:
        """Refuse a theta that is too small for the theorem."""
        if self.theta * (1 + _ROUNDING) < least:
            raise OutsideTheorem(
                f"theta: got {self.theta:g}; expected at least {formula} = {least:g}"
            )

    @property
    def dual_cost(self) -> float:
        """At least D^2 sum_t mu_t: mu_t = t^beta / (theta (t + 1)) <= t^(beta - 1) / theta."""
        power = math.pow(self.horizon, self.beta)
        return self.constraint_range**2 * power / (self.beta * self.theta)

    def regret(self, eta: float, radius: float, diameter: float | None) -> float:
        self.require(6 * eta * self.constraint_lipschitz**2, "6 eta G_g^2")
        steps, across = Steps(eta, self.beta), diameter_of(diameter, radius)
        loss = self.loss_lipschitz**2 * steps.sum(self.horizon)
        return steps.distance_term(self.horizon, radius, across) + loss + self.dual_cost

    def strong_regret(self, modulus: float) -> float:
        self.require(6 * self.constraint_lipschitz**2 / modulus, "6 G_g^2 / H")
        loss = self.loss_lipschitz**2 / modulus * (1 + math.log(self.horizon))
        return loss + self.dual_cost

    def excess(self, regret: float, spread: float) -> float:
        """sqrt(2 (sum_t theta_t + theta_1)(regret bound + F T))."""
        weight = self.theta + Steps(self.theta, self.beta).sum(self.horizon)
        return math.sqrt(2 * weight * (regret + spread * self.horizon))


@formula_of(_Jenatton)
def jenatton_regret(
    game: _Jenatton, *, eta: Positive, radius: Positive, diameter: Positive | None = None
) -> float:
    r"""Regret of A-OGD, eta_t = eta / t^beta, theta_t = theta / t^beta, mu_t = 1 / (theta_t (t+1)),
    one constraint.

    (Q^2 / eta_T - (Q^2 - R^2) / eta_1) / 2 + sum_t (eta_t G_f^2 + mu_t D^2), Q = `diameter` (2 R if
    not given), and sum_t mu_t <= T^beta / (beta theta). Needs theta >= 6 eta G_g^2 (checked), which
    is Jenatton et al.'s condition eta_t G^2 + mu_t theta_t^2 <= theta_t / 2 from round 2 on; the
    multiplier of round 1 is zero. Theirs are eta = R/G, theta = 6 R G. The constant quoted for
    them, R G T^beta + 2 R G T^(1-beta) / (1-beta) + D^2 T^beta / (6 beta R G), charges the
    distances only R G T^beta; a learner at one end of the domain when the losses turn pays up to 2
    R G T^beta, so for beta > 1/2 that constant is exceeded and is not used here.
    """
    return game.regret(eta, radius, diameter)


@formula_of(_Jenatton)
def jenatton_excess(
    game: _Jenatton,
    *,
    eta: Positive,
    radius: Positive,
    diameter: Positive | None = None,
    loss_range: NonNegative | None = None,
) -> float:
    r"""Sum over rounds of g(x_t), g = max_i g_i; of [g(x_t)]_+ when the learner clips (Proposition
    5).

    sqrt(2 (sum_t theta_t + theta_1)(regret bound + F T)), from regret + [sum_t g(x_t)]_+^2 / (2
    (sum_t theta_t + theta_1)) <= regret bound and regret >= -F T: the multiplier's distances
    telescope since 1/mu_t - 1/mu_{t-1} <= theta_t. It is at most their sqrt(24 R G / (1-beta)
    (regret bound + F T) T^(1-beta)) for their parameters.
    """
    spread = range_of_losses(loss_range, game.loss_lipschitz, 2 * radius)
    return game.excess(game.regret(eta, radius, diameter), spread)


@formula_of(_Jenatton)
def jenatton_strong_regret(game: _Jenatton, *, strong_convexity: Positive) -> float:
    r"""Regret of A-OGD with eta_t = 1 / (H t): (G_f^2 / H)(1 + ln T) + D^2 T^beta / (beta theta).

    As `jenatton_regret`, the distances cancelling as in `hazan_regret`. Needs theta >= 6 G_g^2 / H
    (checked); theirs is theta = 6 G^2 / H.
    """
    return game.strong_regret(strong_convexity)


@formula_of(_Jenatton)
def jenatton_strong_excess(
    game: _Jenatton,
    *,
    strong_convexity: Positive,
    radius: Positive,
    loss_range: NonNegative | None = None,
) -> float:
    """Sum over rounds of g(x_t) with eta_t = 1 / (H t); of [g(x_t)]_+ when the learner clips
    (Proposition 5).

    As `jenatton_excess`, with F never larger than G_f^2 / (2 H).
    """
    spread = range_of_losses(loss_range, game.loss_lipschitz, 2 * radius)
    spread = min(spread, game.loss_lipschitz**2 / (2 * strong_convexity))
    return game.excess(game.strong_regret(strong_convexity), spread)


_MAHDAVI = "Mahdavi, Jin & Yang, JMLR 13, 2012"
_JENATTON = "Jenatton, Huang & Archambeau, ICML 2016"
_YUAN = "Yuan & Lamperski, NeurIPS 2018"
_POWER = Growth("T^max(b,1-b)", 0.5)
_COST = "1 projection, 1 constraint value, 1 constraint gradient"

CARDS = (
    Card(
        "ogd",
        partial(SaddlePoint.mahdavi, clipped=False),
        "OGD",
        f"{_MAHDAVI}, Theorem 4",
        needs=RANGED,
        growth={"regret": ROOT, "excess": THREE_QUARTERS},
    ),
    Card(
        "ogd-clipped",
        partial(SaddlePoint.mahdavi, clipped=True),
        "OGD, clipped",
        f"{_YUAN}, Proposition 4",
        needs=RANGED,
        growth={"regret": ROOT, "violation": THREE_QUARTERS},
    ),
    Card(
        "a-ogd",
        partial(SaddlePoint.jenatton, clipped=False),
        "A-OGD",
        _JENATTON,
        needs=COUNTED,
        aggregated=True,
        cost=_COST,
        growth={"regret": _POWER, "excess": Growth("T^(1-b/2)", 0.75)},
    ),
    Card(
        "a-ogd-clipped",
        partial(SaddlePoint.jenatton, clipped=True),
        "A-OGD, clipped",
        f"{_YUAN}, Proposition 5",
        needs=COUNTED,
        aggregated=True,
        cost=_COST,
        growth={"regret": _POWER, "violation": Growth("T^(1-b/2)", 0.75)},
    ),
    Card(
        "a-ogd-strong",
        partial(SaddlePoint.jenatton_strongly_convex, clipped=False),
        "A-OGD, strongly convex",
        _JENATTON,
        "strongly convex",
        STRONG,
        needs=(*COUNTED, "strong_convexity"),
        aggregated=True,
        cost=_COST,
        growth={"regret": Growth("T^b", 0.5), "excess": Growth("T^(1-b/2)", 0.75)},
    ),
    Card(
        "a-ogd-strong-clipped",
        partial(SaddlePoint.jenatton_strongly_convex, clipped=True),
        "A-OGD, strongly convex, clipped",
        f"{_YUAN}, Proposition 5",
        "strongly convex",
        STRONG,
        needs=(*COUNTED, "strong_convexity"),
        aggregated=True,
        cost=_COST,
        growth={"regret": Growth("T^b", 0.5), "violation": Growth("T^(1-b/2)", 0.75)},
    ),
)

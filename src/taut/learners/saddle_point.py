r"""Saddle-point methods: gradient descent in the decision, gradient ascent in the multiplier, both
at once.

    L_t(x, lambda) = f_t(x) + sum_i { lambda_i g_i(x) - (theta_t / 2) lambda_i^2 }
    x_{t+1}      = Pi_B( x_t - eta_t (df_t(x_t) + sum_i lambda_{t,i} dg_i(x_t)) )
    lambda_{t+1} = [ lambda_t + mu_t (g(x_t) - theta_t lambda_t) ]_+

With `clipped` the Lagrangian has [g_i]_+ in place of g_i, in both lines (the paper's Propositions 4
and 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .. import arguments
from ..problem.constants import Constants
from ..problem.rounds import Round
from . import bounds
from .base import BASE, Guarantee, Learner, MultiplierState, Setting, first_round, learner_dataclass
from .card import ROOT, STRONG, THREE_QUARTERS, Card, Growth
from .protocols import StepsFromDecision
from .schedules import Constant, Inverse, PowerLaw, Reciprocal, Schedule, as_schedule, power


@learner_dataclass
class SaddlePoint(StepsFromDecision, Learner):
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
        for name in ("eta", "mu", "theta"):
            object.__setattr__(self, name, as_schedule(name, getattr(self, name)))
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
        radius, loss_slope, slope, reach, count = constants.need(
            "radius",
            "loss_lipschitz",
            "constraint_lipschitz",
            "constraint_range",
            "constraint_count",
        )
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

    def init(self, x1: jax.Array, count: int) -> MultiplierState:
        """Return the state that plays x1 first, with multipliers at zero."""
        return MultiplierState(x1, first_round(), jnp.zeros((count,), x1.dtype))

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

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the theorem of Mahdavi et al. or of Jenatton et al. that covers these schedules, or
        say why none does."""
        eta, mu, theta = (schedule.power_law() for schedule in (self.eta, self.mu, self.theta))
        found: list[Guarantee] = []
        if (
            eta is not None
            and mu is not None
            and theta is not None
            and eta.beta == mu.beta == theta.beta == 0
        ):
            found += self._mahdavi(eta.scale, mu.scale, theta.scale, setting, horizon)
        elif theta is not None and theta.shift == 0 and self.mu == Reciprocal(self.theta, 1.0):
            found += self._jenatton(eta, theta, setting, horizon)
        else:
            why = (
                "the steps are neither constant with eta = mu, nor powers of t with mu_t = 1 / "
                "(theta_t (t + 1))"
            )
            found.append(Guarantee.none("regret", "Mahdavi et al., Jenatton et al.", why))
        yield from found
        for one in found:
            if one.quantity == "violation":
                yield one.become("excess")  # a signed sum is never above the clipped one

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
        yield setting.evaluate("regret", bounds.mahdavi_regret, source, **numbers)
        quantity, formula = "excess", bounds.mahdavi_excess
        if self.clipped:
            quantity, formula, source = "violation", bounds.mahdavi_total_violation, "Proposition 4"
        yield setting.evaluate(quantity, formula, source, **numbers)

    def _jenatton(
        self, eta: PowerLaw | None, theta: PowerLaw, setting: Setting, horizon: int
    ) -> Iterator[Guarantee]:
        source = "Proposition 5" if self.clipped else "Jenatton et al., Theorem 1"
        known, quantity = setting.constants, "violation" if self.clipped else "excess"
        if known.constraint_count != 1 or eta is None or eta.shift != 0:
            yield Guarantee.none(
                "regret", source, "one aggregated constraint and a step eta / t^beta are needed"
            )
            return
        numbers: dict[str, Any] = {"horizon": horizon, "theta": theta.scale, "beta": theta.beta}
        rests: tuple[str, ...] = (*BASE, "constraint_count")
        regret: Callable[..., float]
        excess: Callable[..., float]
        if eta.beta == 1 and 1 / eta.scale <= known.strong_convexity * (1 + 1e-12):
            numbers |= {"strong_convexity": 1 / eta.scale}
            rests = (*rests, "strong_convexity")
            regret, excess = bounds.jenatton_strong_regret, bounds.jenatton_strong_excess
        elif eta.beta == theta.beta:
            numbers |= {"eta": eta.scale}
            regret, excess = bounds.jenatton_regret, bounds.jenatton_excess
        else:
            why = (
                "eta and theta must fall with the same power of t, or eta as 1 / (H t) for "
                "H-strongly convex losses"
            )
            yield Guarantee.none("regret", source, why)
            return
        yield setting.evaluate("regret", regret, source, (), rests, **numbers)
        yield setting.evaluate(quantity, excess, source, (), rests, **numbers)

    def multiplier(self, state: MultiplierState, round: Round) -> jax.Array:
        """Return lambda_t."""
        return state.multiplier


def _one_constraint(constants: Constants) -> tuple[float, float]:
    radius, loss_slope, slope, count = constants.need(
        "radius", "loss_lipschitz", "constraint_lipschitz", "constraint_count"
    )
    if count != 1:
        raise ValueError(
            f"constraint_count: got {count}; expected 1, because this method plays one aggregated "
            "constraint: use taut.max_of(problem)"
        )
    return radius, arguments.positive("loss_lipschitz", max(loss_slope, slope))


_MAHDAVI = "Mahdavi, Jin & Yang, JMLR 13, 2012"
_JENATTON = "Jenatton, Huang & Archambeau, ICML 2016"
_YUAN = "Yuan & Lamperski, NeurIPS 2018"
_RANGED = (
    "radius",
    "loss_lipschitz",
    "constraint_lipschitz",
    "constraint_range",
    "constraint_count",
)
_SINGLE = ("radius", "loss_lipschitz", "constraint_lipschitz", "constraint_count")
_POWER = Growth("T^max(b,1-b)", 0.5)
_COST = "1 projection, 1 constraint value, 1 constraint gradient"

CARDS = (
    Card(
        "ogd",
        partial(SaddlePoint.mahdavi, clipped=False),
        "OGD",
        f"{_MAHDAVI}, Theorem 4",
        needs=_RANGED,
        growth={"regret": ROOT, "excess": THREE_QUARTERS},
    ),
    Card(
        "ogd-clipped",
        partial(SaddlePoint.mahdavi, clipped=True),
        "OGD, clipped",
        f"{_YUAN}, Proposition 4",
        needs=_RANGED,
        growth={"regret": ROOT, "violation": THREE_QUARTERS},
    ),
    Card(
        "a-ogd",
        partial(SaddlePoint.jenatton, clipped=False),
        "A-OGD",
        _JENATTON,
        needs=_SINGLE,
        aggregated=True,
        cost=_COST,
        growth={"regret": _POWER, "excess": Growth("T^(1-b/2)", 0.75)},
    ),
    Card(
        "a-ogd-clipped",
        partial(SaddlePoint.jenatton, clipped=True),
        "A-OGD, clipped",
        f"{_YUAN}, Proposition 5",
        needs=_SINGLE,
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
        needs=(*_SINGLE, "strong_convexity"),
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
        needs=(*_SINGLE, "strong_convexity"),
        aggregated=True,
        cost=_COST,
        growth={"regret": Growth("T^b", 0.5), "violation": Growth("T^(1-b/2)", 0.75)},
    ),
)

r"""Clipped-OGD: the multiplier that maximises the clipped Lagrangian, in closed form.

    L_t(x, lambda) = f_t(x) + sum_i { lambda_i [g_i(x)]_+ - (theta_t / 2) lambda_i^2 },   theta_t = sigma eta_t
    lambda_t = [g(x_t)]_+ / (sigma eta_t)
    x_{t+1} = Pi_B( x_t - eta_t (df_t(x_t) + sum_i lambda_{t,i} dg_i(x_t)) )

The product eta_t lambda_t = [g(x_t)]_+ / sigma does not depend on the step: feasibility is restored at a fixed rate.
Nothing in the proofs asks g to be fixed, so all of it holds for constraints that change with the round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .. import arguments
from ..engine import register_dataclass
from ..problem.constants import Constants
from ..problem.rounds import Round
from . import bounds
from .base import Learner, State, first_round
from .schedules import Constant, Inverse, InverseRoot, Schedule, as_schedule, check_positive

__all__ = ["ClippedOGD"]

RULES = ("scale-aware", "paper", "bound-optimal")


@register_dataclass
@dataclass(frozen=True)
class ClippedOGD(Learner):
    r"""x_{t+1} = Pi_B( x_t - eta_t df_t(x_t) - (1/sigma) sum_i [g_i(x_t)]_+ dg_i(x_t) ).

    Guarantee: with sigma > (m+1) G_g^2 / 2, regret and the sum of ([g_i(x_t)]_+)^2 are bounded together (Theorem 1);
    see `taut.bounds`. One gradient, m values, one Jacobian product and one projection on B a round.

    Arguments:
        eta: the step eta_t, a number or a schedule.
        sigma: the inverse feasibility step.

    Reference: Yuan & Lamperski, "Online convex optimization for cumulative constraints", NeurIPS 2018, Algorithm 1.

    >>> import taut
    >>> known = taut.Constants(radius=1.0, loss_lipschitz=1.0, constraint_lipschitz=2**0.5, constraint_count=1)
    >>> taut.ClippedOGD.tuned(known, horizon=20_000)
    ClippedOGD(eta=Constant(value=0.005), sigma=4.000000000000001)
    """

    eta: Schedule | Any
    sigma: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", as_schedule("eta", self.eta))
        check_positive("sigma", self.sigma)

    @classmethod
    def tuned(
        cls,
        constants: Constants,
        horizon: int,
        beta: float = 0.5,
        alpha: float = 0.5,
        rule: str = "scale-aware",
        weight: float = 1.0,
        initial_distance: float | None = None,
    ) -> ClippedOGD:
        r"""Constant step for a known horizon (Algorithm 1, Theorem 1, Proposition 3).

        Regret grows like T^max(beta, 1-beta), the squared violation like T^(1-beta).

        Arguments:
            constants: R, G_f, G_g and m are needed (F as well for "bound-optimal").
            horizon: T.
            beta: the trade-off, in (0, 1): larger means less violation.
            alpha: in (0, 1): larger means a more careful feasibility step. The paper's experiments have 0.5.
            rule: "scale-aware": sigma = (m+1) G_g^2 / (2 (1-alpha)), eta = R / (G_f sqrt(m+1) T^beta).
                "paper": the literal step, sigma = (m+1) G^2 / (2 (1-alpha)), eta = 1 / (T^beta G sqrt(R (m+1))) with
                G = max(G_f, G_g). Its power of R is wrong and one G for both hurts when G_f and G_g differ; the two
                rules agree when R = 1 and G_f = G_g.
                "bound-optimal": the pair that minimises the explicit bound on regret plus `weight` times that on the
                clipped violation; beta and alpha are not used.
            weight: what a unit of violation costs in units of loss ("bound-optimal" only).
            initial_distance: from the first decision to the feasible set, 0 if it is feasible ("bound-optimal" only):
                with it and an error bound among the constants, for fixed constraints, the sharper bounds are minimised.
        """
        radius, loss_slope, slope, count = constants.need(
            "radius", "loss_lipschitz", "constraint_lipschitz", "constraint_count"
        )
        horizon = arguments.count("horizon", horizon)
        beta, alpha = arguments.fraction("beta", beta), arguments.fraction("alpha", alpha)
        arguments.one_of("rule", rule, RULES)
        if rule == "bound-optimal":
            best = bounds.optimal_parameters(
                constants, horizon, arguments.positive("weight", weight), initial_distance=initial_distance
            )
            return cls(Constant(best.eta), best.sigma)
        if rule == "paper":
            slope = loss_slope = max(loss_slope, slope)
            radius = 1 / math.sqrt(radius)  # the paper's power of R
        loss_slope = arguments.positive("loss_lipschitz", loss_slope)
        eta = radius / (loss_slope * math.sqrt(count + 1) * horizon**beta)
        return cls(Constant(eta), _sigma(slope, count, alpha))

    @classmethod
    def strongly_convex(cls, constants: Constants, rule: str = "scale-aware") -> ClippedOGD:
        r"""Theorem 2 ("Our-strong"): eta_t = 1 / (H (t+1)), sigma = (m+1) G_g^2. No horizon needed.

        Regret O(log T), clipped violation O(sqrt(T log T)), and squared violation O(log T), which the paper does not
        state. `rule="paper"` takes G = max(G_f, G_g) in sigma.
        """
        loss_slope, slope, count, modulus = constants.need(
            "loss_lipschitz", "constraint_lipschitz", "constraint_count", "strong_convexity"
        )
        arguments.one_of("rule", rule, RULES[:2])
        if rule == "paper":
            slope = max(loss_slope, slope)
        return cls(Inverse(1 / modulus, 1.0), _sigma(slope, count, 0.5))

    @classmethod
    def anytime(cls, constants: Constants, alpha: float = 0.5) -> ClippedOGD:
        r"""eta_t = R / (G_f sqrt((m+1) t)): the balanced rates for every T at once, without doubling."""
        radius, loss_slope, slope, count = constants.need(
            "radius", "loss_lipschitz", "constraint_lipschitz", "constraint_count"
        )
        loss_slope = arguments.positive("loss_lipschitz", loss_slope)
        eta = radius / (loss_slope * math.sqrt(count + 1))
        return cls(InverseRoot(eta), _sigma(slope, count, arguments.fraction("alpha", alpha)))

    def init(self, x1: jax.Array, count: int) -> State:
        """Play x1 first."""
        return State(x1, first_round())

    def step(self, state: State, round: Round) -> State:
        """Lines 5 to 7 of Algorithm 1. g is evaluated once, at x_t."""
        x, t = state
        excess, pull, _ = round.constraints(x)
        eta = self.eta(t, x.dtype)
        sigma = jnp.asarray(self.sigma, x.dtype)
        feasibility = pull(jnp.maximum(excess, 0) * (1 / sigma))  # eta_t * sum_i lambda_i d[g_i]_+
        return State(round.project(x - eta * round.gradient(x) - feasibility), t + 1)

    def multiplier(self, state: State, round: Round) -> jax.Array:
        """lambda_t = [g(x_t)]_+ / (sigma eta_t), also for t = 1, which the paper leaves undefined."""
        excess = round.constraints(state.x).values
        dtype = state.x.dtype
        return jnp.maximum(excess, 0) / (jnp.asarray(self.sigma, dtype) * self.eta(state.t, dtype))


def _sigma(slope: float, count: int, alpha: float) -> float:
    slope = arguments.positive("constraint_lipschitz", slope)
    return (count + 1) * slope**2 / (2 * (1 - alpha))

r"""Clipped-OGD: gradient descent with the multiplier that maximises the clipped Lagrangian, in
closed form.

    L_t(x, lambda) = f_t(x) + sum_i { lambda_i [g_i(x)]_+ - (theta_t / 2) lambda_i^2 },
        theta_t = sigma eta_t
    lambda_t = [g(x_t)]_+ / (sigma eta_t)
    x_{t+1} = Pi_B( x_t - eta_t (df_t(x_t) + sum_i lambda_{t,i} dg_i(x_t)) )

The product eta_t lambda_t = [g(x_t)]_+ / sigma does not depend on the step: feasibility is restored
at a fixed rate. The proofs do not use that g is fixed, so all bounds hold for constraints that
change with the round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .. import arguments
from ..problem.constants import Constants
from ..problem.rounds import Round
from . import clipped_bounds as bounds
from .base import Learner, State, first_round, learner_dataclass
from .card import COUNTED, ROOT, STRONG, THREE_QUARTERS, WITH_CURVATURE, Card, Growth
from .clipped_parameters import optimal_parameters
from .doubling import Doubling
from .guarantee import BASE, Guarantee, Setting, with_excess
from .protocols import StepsFromDecision
from .schedules import Constant, Inverse, InverseRoot, PowerLaw, Schedule
from .theorem import Positive, peak_from_squared

RULES = ("scale-aware", "paper", "bound-optimal")


@learner_dataclass
class ClippedOGD(StepsFromDecision, Learner):
    r"""Take a gradient step of the loss, and a step of the clipped constraints whose length does
    not depend on it.

        x_{t+1} = Pi_B( x_t - eta_t df_t(x_t) - (1/sigma) sum_i [g_i(x_t)]_+ dg_i(x_t) )

    Guarantee: with sigma > (m+1) G_g^2 / 2, regret and the sum of ([g_i(x_t)]_+)^2 are bounded
    together (Theorem 1); see `taut.bounds`. Each round needs one loss gradient, m constraint
    values, one vector-Jacobian product and one projection onto B.

    Arguments:
        eta: the step eta_t, a number or a schedule.
        sigma: the inverse feasibility step.

    Reference: Yuan & Lamperski, "Online convex optimization for cumulative constraints", NeurIPS
    2018, Algorithm 1.

    >>> import taut
    >>> known = taut.Constants(
    ...     radius=1.0, loss_lipschitz=1.0, constraint_lipschitz=2**0.5, constraint_count=1
    ... )
    >>> taut.ClippedOGD.tuned(known, horizon=20_000)
    ClippedOGD(eta=Constant(value=0.005), sigma=4.000000000000001)
    """

    eta: Schedule | Any
    sigma: Positive

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
            alpha: in (0, 1): larger means a more careful feasibility step. The paper's experiments
                have 0.5.
            rule: "scale-aware": sigma = (m+1) G_g^2 / (2 (1-alpha)), eta = R / (G_f sqrt(m+1)
                T^beta). "paper": the literal step, sigma = (m+1) G^2 / (2 (1-alpha)), eta = 1 /
                (T^beta G sqrt(R (m+1))) with G = max(G_f, G_g). Its power of R is wrong and one G
                for both hurts when G_f and G_g differ; the two rules agree when R = 1 and G_f =
                G_g. "bound-optimal": the pair that minimises the explicit bound on regret plus
                `weight` times that on the clipped violation; beta and alpha are not used.
            weight: the cost of one unit of violation in units of loss ("bound-optimal" only).
            initial_distance: from the first decision to the feasible set, 0 if it is feasible
                ("bound-optimal" only): with it and an error bound among the constants, for fixed
                constraints, the sharper bounds are minimised.
        """
        radius, loss_slope, slope, count = constants.need(*COUNTED)
        horizon = arguments.count("horizon", horizon)
        beta, alpha = arguments.fraction("beta", beta), arguments.fraction("alpha", alpha)
        arguments.one_of("rule", rule, RULES)
        weight = arguments.positive("weight", weight)
        if initial_distance is not None:
            initial_distance = arguments.non_negative("initial_distance", initial_distance)
        if rule == "bound-optimal":
            best = optimal_parameters(constants, horizon, weight, initial_distance=initial_distance)
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

        Regret O(log T), clipped violation O(sqrt(T log T)), and squared violation O(log T), which
        the paper does not state. `rule="paper"` takes G = max(G_f, G_g) in sigma.
        """
        loss_slope, slope, count, modulus = constants.need(*COUNTED[1:], "strong_convexity")
        arguments.one_of("rule", rule, RULES[:2])
        if rule == "paper":
            slope = max(loss_slope, slope)
        return cls(Inverse(1 / modulus, 1.0), _sigma(slope, count, 0.5))

    @classmethod
    def anytime(cls, constants: Constants, alpha: float = 0.5) -> ClippedOGD:
        r"""eta_t = R / (G_f sqrt((m+1) t)): the balanced rates for every T at once, without
        doubling."""
        radius, loss_slope, slope, count = constants.need(*COUNTED)
        loss_slope = arguments.positive("loss_lipschitz", loss_slope)
        eta = radius / (loss_slope * math.sqrt(count + 1))
        return cls(InverseRoot(eta), _sigma(slope, count, arguments.fraction("alpha", alpha)))

    def init(self, x1: jax.Array, count: int) -> State:
        """Return the state that plays x1 first."""
        return State(x1, first_round())

    def step(self, state: State, round: Round) -> State:
        """Apply lines 5 to 7 of Algorithm 1. The constraints are evaluated once, at x_t."""
        x, t = state
        excess, pull, _ = round.constraints(x)
        eta = self.eta(t, x.dtype)
        sigma = jnp.asarray(self.sigma, x.dtype)
        feasibility = pull(jnp.maximum(excess, 0) * (1 / sigma))  # eta_t * sum_i lambda_i d[g_i]_+
        return State(round.project(x - eta * round.gradient(x) - feasibility), t + 1)

    @with_excess
    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield Theorem 1 or 2 for these parameters, and what follows from an error bound or a
        smooth constraint."""
        sigma, law = float(self.sigma), self.eta.power_law()
        promised: list[Guarantee] = []
        if law is None or not (
            (law.shift == 0 and law.beta < 1) or (law.shift == 1 and law.beta == 1)
        ):
            why = (
                "a step eta / t^beta with beta < 1, or 1 / (H (t + 1)), is needed; got "
                f"{self.eta!r}"
            )
            yield Guarantee.none("regret", "Theorems 1 and 2", why)
            return
        if law.beta == 1:
            promised += _strongly_convex(1 / law.scale, sigma, setting, horizon)
            promised += _error_bound({"strong_convexity": 1 / law.scale}, sigma, setting, horizon)
        else:
            promised += _theorem_1(law, sigma, setting, horizon)
            step = {"eta": law.scale, "beta": law.beta, "strong_convexity": None}
            promised += _error_bound(step, sigma, setting, horizon)
        start = setting.initial_violation
        if (
            law.beta == 0
            and setting.constraints_fixed
            and setting.constants.constraint_count == 1
            and start is not None
        ):
            promised.append(
                setting.evaluate(
                    "peak violation",
                    bounds.smooth_peak_violation,
                    "Lemma 1",
                    eta=law.scale,
                    sigma=sigma,
                    initial_violation=start,
                    centre_feasible=start == 0,
                )
            )
        yield from promised
        for guarantee in promised:
            if guarantee.quantity == "squared violation" and guarantee.bound is not None:
                peak = peak_from_squared(squared_violation=guarantee.bound)
                yield guarantee.become("peak violation", peak, f"{guarantee.source}, square root")

    def multiplier(self, state: State, round: Round) -> jax.Array:
        """Return lambda_t = [g(x_t)]_+ / (sigma eta_t), also for t = 1, for which the paper does
        not define it."""
        excess = round.constraints(state.x).values
        dtype = state.x.dtype
        return jnp.maximum(excess, 0) / (jnp.asarray(self.sigma, dtype) * self.eta(state.t, dtype))


def _sigma(slope: float, count: int, alpha: float) -> float:
    slope = arguments.positive("constraint_lipschitz", slope)
    return (count + 1) * slope**2 / (2 * (1 - alpha))


def _theorem_1(law: PowerLaw, sigma: float, setting: Setting, horizon: int) -> Iterator[Guarantee]:
    """Theorem 1 and Propositions 2 and 3 for eta_t = eta / t^beta, beta < 1."""
    evaluate = partial(
        setting.evaluate, horizon=horizon, eta=law.scale, beta=law.beta, sigma=sigma, form="sharp"
    )
    source = "Theorem 1, anytime" if law.beta else "Theorem 1"
    fixed = evaluate("regret", bounds.clipped_regret, source)
    yield setting.along_path(fixed, law.scale / horizon**law.beta)
    yield evaluate("squared violation", bounds.clipped_squared_violation, source)
    source = source if law.beta else "Propositions 2 and 3"
    yield evaluate("violation", bounds.clipped_violation, source)


def _strongly_convex(
    modulus: float, sigma: float, setting: Setting, horizon: int
) -> Iterator[Guarantee]:
    """Theorem 2 for eta_t = 1 / (H (t + 1))."""
    if why := setting.less_convex_than(modulus):
        yield Guarantee.none("regret", "Theorem 2", why)
        return
    evaluate = partial(
        setting.evaluate,
        assumptions=(*BASE, "strong_convexity"),
        horizon=horizon,
        strong_convexity=modulus,
        sigma=sigma,
        form="sharp",
    )
    fixed = evaluate("regret", bounds.strong_clipped_regret, "Theorem 2")
    yield setting.along_path(fixed, 1 / (modulus * horizon))
    squared = bounds.strong_clipped_squared_violation
    yield evaluate("squared violation", squared, "Theorem 2, squared")
    yield evaluate("violation", bounds.strong_clipped_violation, "Theorem 2")


def _error_bound(
    step: dict[str, Any], sigma: float, setting: Setting, horizon: int
) -> Iterator[Guarantee]:
    """Sharper bounds where the violation measures the distance to the feasible set (fixed
    constraints only)."""
    kappa, rests = setting.error_bound()
    if kappa is None or not setting.constraints_fixed or setting.initial_violation is None:
        return
    for quantity, formula in (
        ("peak violation", bounds.error_bound_peak_violation),
        ("violation", bounds.error_bound_violation),
        ("squared violation", bounds.error_bound_squared_violation),
    ):
        yield setting.evaluate(
            quantity,
            formula,
            "error bound" + (" from Slater's condition" if "slater" in rests else ""),
            assumptions=(*BASE, *rests),
            horizon=horizon,
            sigma=sigma,
            error_bound=kappa,
            initial_distance=setting.initial_violation / kappa,
            **step,
        )


def _doubled(
    constants: Constants, beta: float = 0.5, alpha: float = 0.5, warm: bool = False
) -> Doubling:
    """Build the doubling trick around `ClippedOGD.tuned`."""
    return Doubling.of(lambda length: ClippedOGD.tuned(constants, length, beta, alpha), warm)


_PAPER = "Yuan & Lamperski, NeurIPS 2018"
_HALF = {
    "regret": Growth("T^max(b,1-b)", 0.5),
    "violation": Growth("T^(1-b/2)", 0.75),
    "squared violation": Growth("T^(1-b)", 0.5),
}
_ROOT = {"regret": ROOT, "violation": THREE_QUARTERS, "squared violation": ROOT}

CARDS = (
    Card(
        "clipped-ogd",
        ClippedOGD.tuned,
        "Clipped-OGD",
        f"{_PAPER}, Theorem 1",
        needs=COUNTED,
        growth=_HALF
        | {"peak violation": Growth("T^(-b/3)", -1 / 6, "there is one smooth fixed constraint")},
    ),
    Card(
        "clipped-ogd-paper",
        partial(ClippedOGD.tuned, rule="paper"),
        "Clipped-OGD (literal step)",
        f"{_PAPER}, section 5",
        needs=COUNTED,
        growth=_HALF,
    ),
    Card(
        "clipped-ogd-strong",
        ClippedOGD.strongly_convex,
        "Clipped-OGD, strongly convex",
        f"{_PAPER}, Theorem 2",
        "strongly convex",
        STRONG,
        needs=(*COUNTED[1:], "strong_convexity"),
        growth=WITH_CURVATURE,
    ),
    Card(
        "clipped-ogd-anytime",
        ClippedOGD.anytime,
        "Clipped-OGD (anytime)",
        f"{_PAPER}, with a step that falls like 1/sqrt(t)",
        needs=COUNTED,
        growth=_ROOT,
    ),
    Card(
        "clipped-ogd-doubling",
        _doubled,
        "Clipped-OGD (doubling)",
        f"{_PAPER}, with the doubling trick",
        needs=COUNTED,
        growth=_ROOT,
    ),
)

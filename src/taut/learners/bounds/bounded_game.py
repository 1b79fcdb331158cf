r"""The bounded-multiplier game: gradient descent in x against gradient ascent in lambda on {lambda
>= 0, sum lambda <= M}.

    x_{t+1} = P_B(x_t - eta_t (df_t(x_t) + lambda_t.dg_t(x_t))),
        lambda_{t+1} = P(lambda_t + mu_t g_t(x_t)),   lambda_1 = 0,

with eta_t = eta / t^b and mu_t = mu / t^b, b in [0, 1). Let A be the regret bound of the first
player, whose gradients are at most G_f + M G_g long, and C that of the second, whose gradients are
at most sqrt(m) max|g| long on a set of diameter M (sqrt(2) M for several constraints). Adding the
two gives for every lambda in the set and every x with lambda_t.g_t(x) <= 0 for all t

    Regret_T + lambda . sum_t g_t(x_t) <= A + C.   (*)
"""

from __future__ import annotations

import math

from ... import arguments
from .step_sums import Steps
from .theorem import OutsideTheorem

__all__ = ["bounded_game_expected_excess", "bounded_game_regret"]


def bounded_game_regret(
    *,
    horizon: int,
    eta: float,
    mu: float,
    limit: float,
    radius: float,
    diameter: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
    beta: float = 0.5,
) -> float:
    r"""Regret: A + C, against decisions that are feasible in every round; (*) at lambda = 0.

    For rounds that are independent and identically distributed it holds in expectation against
    decisions that are feasible on average. `limit` is M. Tuned with b = 1/2: at most 1.5 ((G_f + M
    G_g) D + M max|g|) sqrt(T) for one constraint.
    """
    power = 0.0 if beta == 0 else arguments.fraction("beta", beta)
    rounds, count = (
        arguments.count("horizon", horizon),
        arguments.count("constraint_count", constraint_count),
    )
    most, radius, across = (
        arguments.positive(name, value)
        for name, value in (("limit", limit), ("radius", radius), ("diameter", diameter))
    )
    slope = arguments.non_negative("loss_lipschitz", loss_lipschitz)
    slope += most * arguments.non_negative("constraint_lipschitz", constraint_lipschitz)
    height = math.sqrt(count) * arguments.non_negative("constraint_range", constraint_range)
    down, up = (
        Steps(arguments.positive("eta", eta), power),
        Steps(arguments.positive("mu", mu), power),
    )
    first = (
        down.distance_term(rounds, radius, max(radius, across)) + slope**2 * down.sum(rounds) / 2
    )
    width = most if count == 1 else math.sqrt(2) * most
    return first + up.distance_term(rounds, most, width) + height**2 * up.sum(rounds) / 2


def bounded_game_expected_excess(
    *,
    horizon: int,
    eta: float,
    mu: float,
    limit: float,
    radius: float,
    diameter: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
    slater: float,
    loss_range: float | None = None,
    beta: float = 0.5,
) -> float:
    r"""Expected sum over rounds of g_{t,k}(x_t), each k, for i.i.d. rounds with E g_k(u) <=
    -epsilon: (A + C) / (M - F / epsilon).

    Let f, g be the expected loss and constraints, and y the expectation of the mean decision.
    Jensen's inequality gives E Regret >= T (f(y) - f(x)) and T g_k(y) <= e_k, the expected sum.
    Lagrange multipliers of the expected problem add up to at most F / epsilon, so f(y) - f(x) >=
    -(F / epsilon) max_k [g_k(y)]_+, and (*) at lambda = M times the k-th unit vector, in
    expectation, is M e_k <= A + C + (F / epsilon) max_k [e_k]_+.
    """
    total = bounded_game_regret(
        horizon=horizon,
        eta=eta,
        mu=mu,
        limit=limit,
        radius=radius,
        diameter=diameter,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_range=constraint_range,
        constraint_count=constraint_count,
        beta=beta,
    )
    largest = loss_lipschitz * diameter
    reach = (
        largest
        if loss_range is None
        else min(arguments.non_negative("loss_range", loss_range), largest)
    )
    multiplier = reach / arguments.positive("slater", slater)
    if limit <= multiplier:
        raise OutsideTheorem(
            f"limit: got {limit:g}; expected more than loss_range / slater = {multiplier:g}, "
            "which bounds the optimal multipliers"
        )
    return total / (limit - multiplier)

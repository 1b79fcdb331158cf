r"""Dual descent for requests that are seen before the decision, with budgets over the whole
horizon.

In round t a reward r_t and consumptions c_t, both linear and not negative, are drawn independently
from one distribution; the decision x_t maximises r_t(x) - mu_t.c_t(x), and mu_{t+1} = [mu_t + eta
(c_t(x_t) - rho)]_+ from mu_1 = 0. With g_t = c_t - rho and f_t = -r_t the budget is sum_t g_t(x_t)
<= 0. A decision that uses and earns nothing is played when the budget left is too small.

Let D(mu) = rho.mu + E max_x (r - mu.c). By weak duality the expected best offline reward is at most
T D(mu) for every mu >= 0. Let tau be the first round in which the budget left of some resource j is
below its largest consumption. Before tau every decision is served and earns, in expectation,
D(mu_t) - mu_t.(rho - c_t(x_t)); after it, rewards are not negative. The steps of mu give

    sum_{t<tau} mu_t.(rho - c_t(x_t))
        <= sum_{t<tau} mu.(rho - c_t(x_t)) + |mu|^2 / (2 eta) + eta m G^2 T / 2,   G >= |g|,

for every mu >= 0. Take mu = 0 if there is no tau; otherwise mu_j = F / rho_j, all other entries
zero: resource j has used more than rho_j T minus its largest consumption, at most G + rho_j, so the
first sum is at most -(T - tau + 1) F + F (G + rho_j) / rho_j.
"""

from __future__ import annotations

from .theorem import Count, NonNegative, Positive, formula

__all__ = ["dual_mirror_expected_regret"]


@formula
def dual_mirror_expected_regret(
    *,
    horizon: Count,
    eta: Positive,
    loss_range: NonNegative,
    constraint_range: NonNegative,
    constraint_count: Count,
    slater: Positive,
) -> float:
    r"""Expected regret against the best offline decisions: F (G + rho) / rho + (F / rho)^2 / (2
    eta) + eta m G^2 T / 2.

    F = `loss_range` bounds the reward of a round, G = `constraint_range` bounds |c - rho|, and rho
    = `slater` is the smallest budget per round. Decisions that are chosen anew in every round, with
    the whole stream known, earn at least as much as a fixed one.
    """
    price, height = loss_range / slater, constraint_range
    spread = eta * constraint_count * height**2 * horizon / 2
    return price * (height + slater) + price**2 / (2 * eta) + spread

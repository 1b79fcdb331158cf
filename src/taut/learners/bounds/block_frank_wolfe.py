r"""Blocks with Frank-Wolfe steps: decisions are held for B rounds, and projections are replaced by
linear minimisations.

    y = x - eta sum_t df_t(x) - c mean_t([g_t(x)]_+ dg_t(x)),   c = 1 / (2 G_g^2),
        x' = the Frank-Wolfe iterate of smallest gap,

over the B rounds of a block. The iterates minimise |z - y|^2 / 2 over the domain from z = x, with
exact line search; the gap of z is the maximum over v of (z - y).(z - v). Of B >= 2 iterates one has
a gap of at most (27/4) D^2 / (B + 2) (Jaggi 2013, Theorem 2). With |x' - u|^2 = |y - u|^2 - |y -
x'|^2 + 2 (x' - y).(x' - u) and 2 a.b <= |a|^2 + |b|^2 every block gives, for feasible u,

    2 eta sum_t df_t(x).(x - u) + 2 c (1 - c G_g^2) mean_t([g_t(x)]_+^2)
        <= |x - u|^2 - |x' - u|^2 + 2 eta^2 G_f^2 B^2 + 13.5 D^2 / (B + 2).

Summed over K = ceil(T / B) blocks; a last block that is cut short counts as one with rounds that
cost nothing.
"""

from __future__ import annotations

import math

from ... import arguments
from .theorem import OutsideTheorem

__all__ = ["block_frank_wolfe_regret", "block_frank_wolfe_squared_violation", "frank_wolfe_gap"]


def frank_wolfe_gap(*, block: int, diameter: float) -> float:
    """The smallest gap of B line-search iterates on |z - y|^2 / 2: at most (27/4) D^2 / (B + 2), B
    >= 2."""
    count = arguments.count("block", block)
    if count < 2:
        raise OutsideTheorem(
            f"block: got {count}; expected at least 2 rounds, which the bound on the gap needs"
        )
    return 6.75 * arguments.positive("diameter", diameter) ** 2 / (count + 2)


def block_frank_wolfe_regret(
    *,
    horizon: int,
    eta: float,
    block: int,
    feasibility: float,
    radius: float,
    diameter: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
) -> float:
    r"""Regret: R^2 / (2 eta) + eta G_f^2 B^2 K + K gap / eta, if c <= 1 / G_g^2.

    At eta = D / (G_f sqrt(T B)), B = sqrt(T): at most 8.25 G_f D T^(3/4). `feasibility` is c.
    """
    return _total(
        horizon, eta, block, feasibility, radius, diameter, loss_lipschitz, constraint_lipschitz
    ) / (2 * eta)


def block_frank_wolfe_squared_violation(
    *,
    horizon: int,
    eta: float,
    block: int,
    feasibility: float,
    radius: float,
    diameter: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    loss_range: float | None = None,
) -> float:
    r"""Sum of the squared violations of the largest constraint: B (total + 2 eta F T) / (2 c (1 - c
    G_g^2)), c < 1 / G_g^2.

    At the tuned parameters: at most 2 G_g^2 D^2 sqrt(T) (16.5 + 2 T^(1/4)). F = `loss_range`, G_f D
    where it is not known.
    """
    total = _total(
        horizon, eta, block, feasibility, radius, diameter, loss_lipschitz, constraint_lipschitz
    )
    largest = loss_lipschitz * diameter
    reach = (
        largest
        if loss_range is None
        else min(arguments.non_negative("loss_range", loss_range), largest)
    )
    left = 2 * feasibility * (1 - feasibility * constraint_lipschitz**2)
    if left <= 0:
        raise OutsideTheorem(f"feasibility: got {feasibility:g}; expected less than 1 / G_g^2")
    return block * (total + 2 * eta * reach * horizon) / left


def _total(
    horizon: int,
    eta: float,
    block: int,
    feasibility: float,
    radius: float,
    diameter: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
) -> float:
    """The right-hand side, summed over all blocks."""
    gap = frank_wolfe_gap(block=block, diameter=diameter)
    step, slope = (
        arguments.positive("eta", eta),
        arguments.non_negative("loss_lipschitz", loss_lipschitz),
    )
    bend = arguments.non_negative("constraint_lipschitz", constraint_lipschitz)
    if arguments.positive("feasibility", feasibility) * bend**2 > 1 + 1e-12:
        raise OutsideTheorem(
            f"feasibility: got {feasibility:g}; expected at most 1 / G_g^2 = {1 / bend**2:g}"
        )
    blocks = math.ceil(arguments.count("horizon", horizon) / block)
    return arguments.positive("radius", radius) ** 2 + blocks * (
        2 * (step * slope * block) ** 2 + 2 * gap
    )

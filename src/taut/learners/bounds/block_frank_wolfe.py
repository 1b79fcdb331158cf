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
from dataclasses import dataclass

from .step_sums import range_of_losses
from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula, formula_of

__all__ = ["block_frank_wolfe_regret", "block_frank_wolfe_squared_violation", "frank_wolfe_gap"]


@formula
def frank_wolfe_gap(*, block: Count, diameter: Positive) -> float:
    """The smallest gap of B line-search iterates on |z - y|^2 / 2: at most (27/4) D^2 / (B + 2), B
    >= 2."""
    if block < 2:
        raise OutsideTheorem(
            f"block: got {block}; expected at least 2 rounds, which the bound on the gap needs"
        )
    return 6.75 * diameter**2 / (block + 2)


@dataclass(frozen=True)
class _Game:
    horizon: Count
    eta: Positive
    block: Count
    feasibility: Positive
    radius: Positive
    diameter: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative

    def __post_init__(self) -> None:
        if self.feasibility * self.constraint_lipschitz**2 > 1 + 1e-12:
            raise OutsideTheorem(
                f"feasibility: got {self.feasibility:g}; expected at most 1 / G_g^2 = "
                f"{1 / self.constraint_lipschitz**2:g}"
            )

    @property
    def total(self) -> float:
        """The right-hand side, summed over all blocks."""
        gap = frank_wolfe_gap(block=self.block, diameter=self.diameter)
        blocks = math.ceil(self.horizon / self.block)
        push = (self.eta * self.loss_lipschitz * self.block) ** 2
        return self.radius**2 + blocks * (2 * push + 2 * gap)


@formula_of(_Game)
def block_frank_wolfe_regret(game: _Game) -> float:
    r"""Regret: R^2 / (2 eta) + eta G_f^2 B^2 K + K gap / eta, if c <= 1 / G_g^2.

    At eta = D / (G_f sqrt(T B)), B = sqrt(T): at most 8.25 G_f D T^(3/4). `feasibility` is c.
    """
    return game.total / (2 * game.eta)


@formula_of(_Game)
def block_frank_wolfe_squared_violation(
    game: _Game, *, loss_range: NonNegative | None = None
) -> float:
    r"""Sum of the squared violations of the largest constraint: B (total + 2 eta F T) / (2 c (1 - c
    G_g^2)), c < 1 / G_g^2.

    At the tuned parameters: at most 2 G_g^2 D^2 sqrt(T) (16.5 + 2 T^(1/4)). F = `loss_range`, G_f D
    where it is not known.
    """
    c, reach = game.feasibility, range_of_losses(loss_range, game.loss_lipschitz, game.diameter)
    left = 2 * c * (1 - c * game.constraint_lipschitz**2)
    if left <= 0:
        raise OutsideTheorem(f"feasibility: got {c:g}; expected less than 1 / G_g^2")
    return game.block * (game.total + 2 * game.eta * reach * game.horizon) / left

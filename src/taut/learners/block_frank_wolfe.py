r"""Decisions held for a block of rounds and moved by Frank-Wolfe steps: linear minimisations
instead of projections.

    y = x - eta sum_t df_t(x) - c mean_t( [g_t(x)]_+ dg_t(x) )   over the B rounds of a block
    z_0 = x;   v = argmin_{v in B} (z_k - y).v;
        z_{k+1} = z_k + s (v - z_k), s in [0, 1] by exact line search on |z - y|^2 / 2
    x' = the z_k, k = 0 .. B, with the smallest gap (z_k - y).(z_k - v)

g_t is the largest constraint. The domain is asked for B + 1 linear minimisers per block and never
for a projection.

Of B >= 2 iterates one has a gap of at most (27/4) D^2 / (B + 2) (Jaggi 2013, Theorem 2). With |x' -
u|^2 = |y - u|^2 - |y - x'|^2 + 2 (x' - y).(x' - u) and 2 a.b <= |a|^2 + |b|^2 every block gives,
for feasible u,

    2 eta sum_t df_t(x).(x - u) + 2 c (1 - c G_g^2) mean_t([g_t(x)]_+^2)
        <= |x - u|^2 - |x' - u|^2 + 2 eta^2 G_f^2 B^2 + 13.5 D^2 / (B + 2).

Summed over K = ceil(T / B) blocks; a last block that is cut short counts as one with rounds that
cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import arguments
from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.rounds import Round
from .base import Learner, first_round, largest_row, learner_dataclass, sizes
from .card import SLOPES, THREE_QUARTERS, Card, Growth
from .guarantee import Guarantee, Setting
from .schedules import concrete
from .theorem import (
    Count,
    NonNegative,
    OutsideTheorem,
    Positive,
    formula,
    formula_of,
    peak_from_squared,
    range_of_losses,
    violation_from_squared,
)


class BlockState(NamedTuple):
    """The state of a learner that holds its decision for a block of rounds."""

    x: jax.Array
    t: jax.Array
    target: jax.Array
    """y, as far as the rounds of this block have moved it."""


@learner_dataclass
class BlockFrankWolfe(Learner):
    r"""x' = Frank-Wolfe( x - eta sum_t df_t(x) - c mean_t([g_t(x)]_+ dg_t(x)) ) after every block
    of B rounds.

    Guarantee: with B = sqrt(T) regret at most 8.25 G_f D T^(3/4) and clipped violation O(T^(7/8)),
    for constraints that may be adversarial. Use it where the domain has a cheap linear minimiser
    and no cheap projection.

    Arguments:
        eta: the step of the loss.
        feasibility: c, the step of the constraint; below 1 / G_g^2.
        block: B, the number of rounds in a block, at least 2.

    References: the rates are those of Garber & Kretzu, ICML 2024; the method and its proof are in
    docs/theory.md. The gap of the
    iterates: Jaggi, ICML 2013, Theorem 2.
    """

    eta: Positive
    feasibility: Positive
    block: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if (block := concrete("block", self.block, "a whole number of at least 2")) is not None:
            arguments.count("block", block, least=2)

    @classmethod
    def tuned(
        cls,
        constants: Constants,
        horizon: int,
        domain: Domain | None = None,
        block: int | None = None,
    ) -> BlockFrankWolfe:
        """B = sqrt(T) rounded to a whole number, eta = D / (G_f sqrt(T B)), c = 1 / (2 G_g^2)."""
        loss_slope, slope = constants.positive(*SLOPES[1:])
        horizon = arguments.count("horizon", horizon)
        length = (
            max(2, round(math.sqrt(horizon)))
            if block is None
            else arguments.count("block", block, least=2)
        )
        eta = sizes(domain, constants)[1] / (loss_slope * math.sqrt(horizon * length))
        return cls(eta, 1 / (2 * slope**2), length)

    def init(self, x1: jax.Array, count: int) -> BlockState:
        """Play x1 in the first block."""
        return BlockState(x1, first_round(), x1)

    def step(self, state: BlockState, round: Round) -> BlockState:
        """Move the target; at the end of a block, move the decision towards it."""
        x, t, target = state
        constraints = round.constraints(x)
        value, rows = largest_row(constraints)
        block = jnp.asarray(self.block, jnp.int32)
        share = jnp.asarray(self.feasibility, x.dtype) / block.astype(x.dtype)
        push = constraints.pullback(rows * (share * jnp.maximum(value, 0)))
        target = target - jnp.asarray(self.eta, x.dtype) * round.gradient(x) - push
        ends = t % block == 0
        moved = _frank_wolfe(round, x, target, jnp.where(ends, block + 1, 0))
        return BlockState(moved, t + 1, jnp.where(ends, moved, target))

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the bounds, for any horizon and any block length of at least 2."""
        source = "blocks of Frank-Wolfe steps"
        numbers: dict[str, Any] = {
            "horizon": horizon,
            "eta": float(self.eta),
            "block": int(self.block),
            "feasibility": float(self.feasibility),
        }
        yield setting.evaluate("regret", block_frank_wolfe_regret, source, **numbers)
        formula = block_frank_wolfe_squared_violation
        largest = setting.evaluate("squared violation", formula, source, **numbers)
        count = setting.constants.constraint_count
        if largest.bound is None or count is None:
            yield largest
            return
        # Summed over the constraints: each is at most the largest.
        yield largest.become("squared violation", count * largest.bound)
        total = violation_from_squared(squared_violation=largest.bound, horizon=horizon)
        yield largest.become("violation", total)
        peak = peak_from_squared(squared_violation=largest.bound)
        yield largest.become("peak violation", peak)
        yield largest.become("excess", total)


def _frank_wolfe(round: Round, x: jax.Array, target: jax.Array, calls: jax.Array) -> jax.Array:
    """The iterate of smallest gap; x itself if there are no calls. The loop ends at once in all
    rounds but the last of a block."""

    def body(_: Any, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        point, best, least = carry
        slope = point - target
        away = round.minimise(slope) - point
        gap, size = -jnp.sum(slope * away), jnp.sum(away**2)
        length = jnp.clip(jnp.where(size > 0, gap / jnp.where(size > 0, size, 1), 0), 0, 1)
        best = jnp.where(gap >= least, best, point)  # NaN is not hidden by an earlier point
        return point + length * away, best, jnp.minimum(gap, least)

    best: jax.Array = jax.lax.fori_loop(0, calls, body, (x, x, jnp.asarray(jnp.inf, x.dtype)))[1]
    return best


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


CARDS = (
    Card(
        "block-frank-wolfe",
        BlockFrankWolfe.tuned,
        "Blocked Frank-Wolfe",
        "after Garber & Kretzu, ICML 2024",
        oracles=frozenset({"gradient", "values", "pullback", "minimise"}),
        cost="1 linear minimisation over the domain, m constraint values, "
        "1 vector-Jacobian product",
        needs=SLOPES,
        growth={
            "regret": THREE_QUARTERS,
            "violation": Growth("T^(7/8)", 0.875),
            "squared violation": THREE_QUARTERS,
        },
        known_failures={
            "check_schedule_matters": (
                "decisions are held for blocks of rounds, so most steps are zero"
            )
        },
    ),
)

r"""A game between the decision and a bounded multiplier, both played by gradient steps at the same
time.

    x_{t+1} = Pi_B( x_t - eta_t (df_t(x_t) + sum_i lambda_{t,i} dg_{t,i}(x_t)) )
    lambda_{t+1} = Pi_M( lambda_t + mu_t g_t(x_t) ),   lambda_1 = 0,
        Pi_M the projection onto {lambda >= 0, sum lambda <= M}

Both updates are linear in what is observed, so noise of zero mean in the constraint values does no
harm on average. Only the signed sum of the constraints is bounded: with adversarial constraints the
clipped violation can grow linearly.

Let eta_t = eta / t^b and mu_t = mu / t^b, b in [0, 1). Let A be the regret bound of the first
player, whose gradients are at most G_f + M G_g long, and C that of the second, whose gradients are
at most sqrt(m) max|g| long on a set of diameter M (sqrt(2) M for several constraints). Adding the
two gives for every lambda in the set and every x with lambda_t.g_t(x) <= 0 for all t

    Regret_T + lambda . sum_t g_t(x_t) <= A + C.   (*)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .. import arguments
from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.domains.simplex import onto_simplex
from ..problem.rounds import Round
from .base import KeepsMultiplier, MultiplierState, learner_dataclass, sizes
from .card import RANGED, ROOT, WITH_SLATER, Card, Growth
from .guarantee import BASE, Assumes, Guarantee, Setting
from .schedules import InverseRoot, Schedule
from .theorem import (
    Count,
    NonNegative,
    OutsideTheorem,
    Positive,
    Power,
    Steps,
    formula_of,
    range_of_losses,
)


@learner_dataclass
class BoundedGame(KeepsMultiplier):
    r"""x_{t+1} = Pi_B( x_t - eta_t (df_t + lambda_t dg_t) ),
        lambda_{t+1} = Pi_M( lambda_t + mu_t g_t(x_t) ).

    Guarantee: regret O(sqrt(T)) against every decision that is feasible in all rounds; if rounds
    are independent and identically distributed and a Slater point exists, the expected signed
    violation is O(sqrt(T)) as well. Nothing sublinear is known for the clipped violation.

    Arguments:
        eta: the step of the decision, a number or a schedule.
        mu: the step of the multiplier, a number or a schedule.
        limit: M, the largest sum of the multipliers.

    Reference: Castiglioni, Celli, Marchesi, Romano & Gatti, "A unifying framework for online
    optimization with long-term constraints", NeurIPS 2022, with gradient descent for both players.
    """

    eta: Schedule | Any
    mu: Schedule | Any
    limit: Positive

    @classmethod
    def tuned(cls, constants: Constants, domain: Domain | None = None) -> BoundedGame:
        r"""M = 2 F / epsilon, eta_t = D / ((G_f + M G_g) sqrt(t)), mu_t = width / (sqrt(m) max|g|
        sqrt(t)); no horizon.

        The width of the multiplier's set is M for one constraint and sqrt(2) M for several. F is
        the range of the losses, G_f D if it is not known, and epsilon the slack of a Slater point.
        """
        loss_slope, slope, reach, count, margin = constants.need(*RANGED[1:], "slater")
        across = sizes(domain, constants)[1]
        losses = loss_slope * across if constants.loss_range is None else constants.loss_range
        limit = 2 * arguments.positive("loss_range", losses) / margin
        width = limit if count == 1 else math.sqrt(2) * limit
        height = math.sqrt(count) * arguments.positive("constraint_range", reach)
        return cls(
            InverseRoot(across / (loss_slope + limit * slope)), InverseRoot(width / height), limit
        )

    def step(self, state: MultiplierState, round: Round) -> MultiplierState:
        """Both players move at the same time: the decision answers lambda_t, the multiplier answers
        x_t."""
        x, t, weight = state
        excess, pull, _ = round.constraints(x)
        moved = round.project(x - self.eta(t, x.dtype) * (round.gradient(x) + pull(weight)))
        return MultiplierState(moved, t + 1, self._bounded(weight + self.mu(t, x.dtype) * excess))

    def _bounded(self, weight: jax.Array) -> jax.Array:
        """The nearest point of {lambda >= 0, sum lambda <= M}."""
        limit, positive = jnp.asarray(self.limit, weight.dtype), jnp.maximum(weight, 0)
        if weight.shape[0] == 1:
            return jnp.minimum(positive, limit)
        shares, threshold = onto_simplex(positive, limit)
        return jnp.where(threshold <= 0, positive, shares)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the regret bound, and the bound on the expected excess for i.i.d. rounds."""
        source, down, up = "bounded game", self.eta.power_law(), self.mu.power_law()
        if (
            down is None
            or up is None
            or down.shift
            or up.shift
            or down.beta != up.beta
            or not 0 <= down.beta < 1
        ):
            why = (
                "steps eta / t^beta and mu / t^beta with the same beta < 1 are needed; got "
                f"{self.eta!r} and {self.mu!r}"
            )
            yield Guarantee.none("regret", source, why)
            return
        numbers: dict[str, Any] = {
            "horizon": horizon,
            "eta": down.scale,
            "mu": up.scale,
            "beta": down.beta,
            "limit": float(self.limit),
        }
        yield setting.evaluate("regret", bounded_game_regret, source, **numbers)
        yield setting.evaluate(
            "excess",
            bounded_game_expected_excess,
            f"{source}, i.i.d. rounds",
            (),
            (*BASE, Assumes.STOCHASTIC),
            expected=True,
            **numbers,
        )
        yield Guarantee.none(
            "violation", source, "slack in one round can pay for violations in another"
        )


@dataclass(frozen=True)
class _Game:
    horizon: Count
    eta: Positive
    mu: Positive
    limit: Positive
    radius: Positive
    diameter: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative
    constraint_range: NonNegative
    constraint_count: Count
    beta: Power = 0.5

    @property
    def total(self) -> float:
        """A + C."""
        rounds, most = self.horizon, self.limit
        slope = self.loss_lipschitz + most * self.constraint_lipschitz
        height = math.sqrt(self.constraint_count) * self.constraint_range
        down, up = Steps(self.eta, self.beta), Steps(self.mu, self.beta)
        first = down.distance_term(rounds, self.radius, max(self.radius, self.diameter))
        first += slope**2 * down.sum(rounds) / 2
        width = most if self.constraint_count == 1 else math.sqrt(2) * most
        return first + up.distance_term(rounds, most, width) + height**2 * up.sum(rounds) / 2


@formula_of(_Game)
def bounded_game_regret(game: _Game) -> float:
    r"""Regret: A + C, against decisions that are feasible in every round; (*) at lambda = 0.

    For rounds that are independent and identically distributed it holds in expectation against
    decisions that are feasible on average. `limit` is M. Tuned with b = 1/2: at most 1.5 ((G_f + M
    G_g) D + M max|g|) sqrt(T) for one constraint.
    """
    return game.total


@formula_of(_Game)
def bounded_game_expected_excess(
    game: _Game, *, slater: Positive, loss_range: NonNegative | None = None
) -> float:
    r"""Expected sum over rounds of g_{t,k}(x_t), each k, for i.i.d. rounds with E g_k(u) <=
    -epsilon: (A + C) / (M - F / epsilon).

    Let f, g be the expected loss and constraints, and y the expectation of the mean decision.
    Jensen's inequality gives E Regret >= T (f(y) - f(x)) and T g_k(y) <= e_k, the expected sum.
    Lagrange multipliers of the expected problem add up to at most F / epsilon, so f(y) - f(x) >=
    -(F / epsilon) max_k [g_k(y)]_+, and (*) at lambda = M times the k-th unit vector, in
    expectation, is M e_k <= A + C + (F / epsilon) max_k [e_k]_+.
    """
    multiplier = range_of_losses(loss_range, game.loss_lipschitz, game.diameter) / slater
    if game.limit <= multiplier:
        raise OutsideTheorem(
            f"limit: got {game.limit:g}; expected more than loss_range / slater = "
            f"{multiplier:g}, which bounds the optimal multipliers"
        )
    return game.total / (game.limit - multiplier)


CARDS = (
    Card(
        "bounded-game",
        BoundedGame.tuned,
        "Bounded game",
        "Castiglioni et al., NeurIPS 2022",
        assumptions=WITH_SLATER,
        needs=(*RANGED, "slater"),
        slater=True,
        growth={
            "regret": ROOT,
            "excess": Growth(
                "sqrt T", 0.5, "rounds are independent and identically distributed, in expectation"
            ),
        },
    ),
)

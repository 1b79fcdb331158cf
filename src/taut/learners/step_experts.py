r"""Copies of the half-space step with steps eta, 2 eta, 4 eta, ..., mixed by exponential weights:
for comparators that move.

    x_t = sum_e w_{t,e} x_{t,e},   v = g_t(x_t),   s a subgradient of g_t at x_t,   p = df_t(x_t)
    w_{t+1,e} ~ w_{t,e} exp( -a l_{t,e} ),
        l_{t,e} = p.(x_{t,e} - x_t) + mu [v + s.(x_{t,e} - x_t)]_+
    x_{t+1,e} = Pi_B( Pi_H( x_{t,e} - 2^e eta p ) ),        H = {u : v + s.(u - x_t) <= 0}

g_t is the largest constraint. The smallest step suits a fixed comparator, larger ones suit
comparators that move. Let u_t be feasible in round t, P = sum_t |u_{t+1} - u_t|, R >= |x_1 - u_1|
and D the diameter. Then, for every copy with its step eta_e,

    sum_t p_t.(x_{t,e} - u_t) <= (R^2 + 2 D P) / (2 eta_e) + eta_e G_f^2 T / 2   (copy)
    sum_t dist(x_{t,e}, H_t)^2 <= R^2 + 2 D P + 2 eta_e G_f D T + eta_e^2 G_f^2 T   (cuts)

and, as l spans at most D (G_f + mu G_g), and its mean is at least mu [g_t(x_t)]_+ by Jensen's
inequality,

    mu sum_t [g_t(x_t)]_+ - sum_t l_{t,e} <= ln N / a + a T D^2 (G_f + mu G_g)^2 / 8.   (mixture)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.rounds import Round
from .base import Learner, first_round, largest_row, learner_dataclass, sizes
from .card import SLOPES, THREE_QUARTERS, Card
from .guarantee import Guarantee, Setting
from .theorem import Count, NonNegative, Positive, formula_of


class ExpertsState(NamedTuple):
    """The state of a mixture of copies."""

    x: jax.Array
    """The mixture, which is played."""
    t: jax.Array
    points: jax.Array
    """The decisions of the copies, with a leading axis of N."""
    scores: jax.Array
    """The logarithms of the weights up to a constant, (N,)."""


@learner_dataclass
class StepExperts(Learner):
    r"""A mixture of N copies of the half-space step with steps 2^e eta, e = 0 .. N-1, all fed at
    the mixture.

    Guarantee: a bound on the regret against comparators u_t that move, which grows with their path
    length P = sum_t |u_{t+1} - u_t|. No bound on the violation of the mixture is proved, with or
    without movement.

    Arguments:
        eta: the smallest step.
        rate: a, how fast weights follow the losses.
        penalty: mu, what a unit of predicted violation costs a copy, in units of the loss.
        count: N, the number of copies. It is compiled in.
        cuts: whether copies project onto the half-space H. If not, they take gradient steps on f_t
            + mu [g_t]_+ instead: that has the better bound, O(sqrt(T (1 + P))) on regret plus mu
            times the violation. It is compiled in.

    Reference: the mixture is that of Zhang, Lu & Zhou, NeurIPS 2018, around the half-space step.
    """

    eta: Positive
    rate: Positive
    penalty: Positive
    count: int = field(default=1, metadata={"static": True})
    cuts: bool = field(default=True, metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "count", arguments.count("count", self.count))
        arguments.flag("cuts", self.cuts)

    @classmethod
    def tuned(
        cls,
        constants: Constants,
        horizon: int,
        domain: Domain | None = None,
        penalty: float | None = None,
        cuts: bool = True,
    ) -> StepExperts:
        r"""N = ceil(log2(T) / 2) + 1 copies, eta = D / (G sqrt(T)), a = sqrt(8 ln N / T) / (D (G_f
        + mu G_g)), mu = 2 G_f / kappa.

        G is G_f with cuts and G_f + mu G_g without.

        Arguments:
            constants: R, G_f and G_g are needed; the error bound kappa, or epsilon of a Slater
                point, if they are known.
            horizon: T.
            domain: the domain, whose diameter is D; without it, D = 2 R.
            penalty: mu. By default kappa is the error bound, else epsilon / D, else G_g, which is
                its largest possible value.
            cuts: whether copies project onto the half-space.
        """
        loss_slope, slope = constants.positive(*SLOPES[1:])
        horizon, across = arguments.count("horizon", horizon), sizes(domain, constants)[1]
        if penalty is None:
            kappa = constants.error_bound
            if kappa is None:
                kappa = slope if constants.slater is None else constants.slater / across
            penalty = 2 * loss_slope / kappa
        penalty = arguments.positive("penalty", penalty)
        count = math.ceil(math.log2(horizon) / 2) + 1
        total = loss_slope + penalty * slope
        rate = math.sqrt(8 * math.log(max(count, 2)) / horizon) / (across * total)
        return cls(
            across / ((loss_slope if cuts else total) * math.sqrt(horizon)),
            rate,
            penalty,
            count,
            cuts,
        )

    def init(self, x1: jax.Array, count: int) -> ExpertsState:
        """All copies start at x1 with equal weights."""
        points = jnp.broadcast_to(x1, (self.count, *x1.shape))
        return ExpertsState(x1, first_round(), points, jnp.zeros((self.count,), x1.dtype))

    def step(self, state: ExpertsState, round: Round) -> ExpertsState:
        """Weigh the copies by what they would have paid at x_t, then move them."""
        x, t, points, scores = state
        constraints = round.constraints(x)
        value, rows = largest_row(constraints)
        loss_slope, slope = round.gradient(x), constraints.pullback(rows)
        rate, penalty, eta = (jnp.asarray(p, x.dtype) for p in (self.rate, self.penalty, self.eta))
        steps = eta * jnp.asarray(2.0 ** np.arange(self.count), x.dtype)
        size = jnp.sum(slope**2)

        push = None if self.cuts else self.push(x, round)

        def one(point: jax.Array, step: jax.Array) -> tuple[jax.Array, jax.Array]:
            away = point - x
            if push is not None:
                return jnp.sum(push * away), round.project(point - step * push)
            cost = jnp.sum(loss_slope * away) + penalty * jnp.maximum(
                value + jnp.sum(slope * away), 0
            )
            moved = point - step * loss_slope
            excess = jnp.maximum(value + jnp.sum(slope * (moved - x)), 0)
            return cost, round.project(
                moved - jnp.where(size > 0, excess / jnp.where(size > 0, size, 1), 0) * slope
            )

        costs, points = jax.vmap(one)(points, steps)
        scores = scores - rate * costs
        scores = scores - jnp.max(scores)
        weights = jax.nn.softmax(scores)
        return ExpertsState(jnp.tensordot(weights, points, axes=1), t + 1, points, scores)

    def push(self, x: jax.Array, round: Round) -> jax.Array:
        """Return the gradient of f_t + mu [g_t]_+ at x, on which copies without cuts descend."""
        constraints = round.constraints(x)
        value, rows = largest_row(constraints)
        price = jnp.where(value > 0, jnp.asarray(self.penalty, x.dtype), 0)
        return round.gradient(x) + price * constraints.pullback(rows)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the bound on regret with the path length of the comparator, zero for a fixed
        one."""
        length = 0.0 if setting.path_length is None else float(setting.path_length)
        source = (
            "experts over steps, linearised regret"
            if self.cuts
            else "experts over steps, exact penalty"
        )
        formula = step_experts_regret if self.cuts else step_experts_penalty_regret
        regret = setting.evaluate(
            "regret",
            formula,
            source,
            horizon=horizon,
            eta=float(self.eta),
            count=self.count,
            rate=float(self.rate),
            penalty=float(self.penalty),
            path_length=length,
        )
        yield replace(regret, moving=setting.path_length is not None)
        yield Guarantee.none(
            "violation", source, "no bound on the violation of the mixture is proved"
        )


@dataclass(frozen=True)
class _Game:
    horizon: Count
    eta: Positive
    count: Count
    rate: Positive
    penalty: NonNegative
    radius: Positive
    diameter: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative
    path_length: NonNegative = 0.0

    @property
    def steps(self) -> list[float]:
        return [self.eta * 2**e for e in range(self.count)]

    @property
    def slope(self) -> float:
        """G_f + mu G_g."""
        return self.loss_lipschitz + self.penalty * self.constraint_lipschitz

    @property
    def start(self) -> float:
        """R^2 + 2 D P."""
        return self.radius**2 + 2 * self.diameter * self.path_length

    def copy(self, step: float, slope: float) -> float:
        """The regret of one copy, on gradients of at most this length."""
        return self.start / (2 * step) + step * slope**2 * self.horizon / 2

    @property
    def mixture(self) -> float:
        """What the mixture loses against its best copy."""
        spread = self.diameter * self.slope
        return math.log(self.count) / self.rate + self.rate * self.horizon * spread**2 / 8


@formula_of(_Game)
def step_experts_regret(game: _Game) -> float:
    r"""Dynamic regret with cuts: min_e (copy) + (mixture) + mu G_g sqrt(T (cuts)), of order T^(3/4)
    unless mu = 0.

    It bounds sum_t p_t.(x_t - u_t), and with it sum_t f_t(x_t) - f_t(u_t). The last term is there
    because a copy may lie outside the cut; a statement without it, as O(sqrt(T (1 + P))), is proved
    for mu = 0 only. `eta` is the smallest step, `rate` is a.
    """
    rounds, slope = game.horizon, game.loss_lipschitz
    weight = game.penalty * game.constraint_lipschitz

    def along(step: float) -> float:
        outside = game.start + 2 * step * slope * game.diameter * rounds
        outside += (step * slope) ** 2 * rounds
        return game.copy(step, slope) + weight * math.sqrt(rounds * outside)

    return min(along(step) for step in game.steps) + game.mixture


@formula_of(_Game)
def step_experts_penalty_regret(game: _Game) -> float:
    r"""Dynamic regret plus mu times the clipped violation, without cuts: min_e (copy with G_f + mu
    G_g) + (mixture).

    Every copy gets the gradient l_t = p_t + mu s_t 1[g_t(x_t) > 0] of the exact penalty, and the
    weights shrink by exp(-a l_t.x_e). l_t.(x_t - u_t) >= f_t(x_t) - f_t(u_t) + mu [g_t(x_t)]_+, so
    this is of order sqrt(T (1 + P)).
    """
    return min(game.copy(step, game.slope) for step in game.steps) + game.mixture


CARDS = (
    Card(
        "step-experts",
        StepExperts.tuned,
        "Experts over steps",
        "Zhang, Lu & Zhou, NeurIPS 2018, with half-space steps",
        assumptions=(
            "convex losses and constraints",
            "the domain contains the feasible set",
            "no bound on the violation is proved",
        ),
        cost="log2(T) / 2 + 1 projections, m constraint values, 1 vector-Jacobian product",
        needs=SLOPES,
        growth={"regret": THREE_QUARTERS},
        known_failures={
            "check_compiles_once": "the number of copies grows with the horizon and is compiled in"
        },
    ),
)

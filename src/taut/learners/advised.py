r"""Advice: the decisions of the user's own controller, mixed with those of a learner by AdaHedge.

There are K experts: the learner (0) and the advisers (1 .. K-1). Before round t

    e_0   the learner's decision,
    e_k   adviser k's decision, moved into the domain, the kept cuts and the announced constraints,
    w_k  ~ exp(-eta (L_k - min L)),  eta = ln K / Delta,        x_t = sum_k w_k e_k

where L_k are summed losses. An adviser without advice has the weight 0. After the round

    l_k = f_t(e_k),    h = sum_k w_k l_k;    an adviser without advice is given l_k = h,
    m   = softmin(L + l) - softmin(L),       softmin(u) = -(1 / eta) ln sum_k exp(-eta u_k),
    Delta += h - m,    L += l.

No range and no horizon is needed. The learner takes its own step from e_0, and keeps the cut that
the round reveals at x_t besides its own. The formulas never divide by Delta before they subtract:
while Delta is 0, the experts with the least L have equal weights.

The theorems, C1 to C3, are in `docs/theory.md`; the weights are those of de Rooij, van Erven,
Grunwald & Koolen (2014).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .. import arguments
from ..problem.domains.base import finfo
from ..problem.rounds import FullInformation, MeasuredRound, Round
from .base import Learner, first_round, learner_dataclass
from .clipping import clip_of
from .guarantee import Assumes, Guarantee, ObservedAdvice, Setting
from .half_space.announced import enforced, rows_at
from .half_space.method import HalfSpace
from .half_space.projection import Project
from .protocols import (
    Delayed,
    PlaysPoints,
    RequestFirst,
    StepsFromDecision,
    is_random,
    multiplier_of,
    seeded,
)
from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula


class AdvisedState(NamedTuple):
    """The state of a learner with advisers."""

    x: jax.Array
    """The mixture, which is played in round t."""
    t: jax.Array
    base: Any
    """The state of the learner; its decision is e_0."""
    previous: jax.Array
    """The decision that was played in the round before; in round 1 the first decision."""
    advice: jax.Array
    """The last advice of each adviser as it came, (K - 1, *decision)."""
    given: jax.Array
    """Whether each adviser takes part in round t, (K - 1,)."""
    points: jax.Array
    """e_0 .. e_{K-1}; e_0 for an adviser that does not take part."""
    weights: jax.Array
    """w_0 .. w_{K-1}."""
    losses: jax.Array
    """L_k - min L."""
    gap: jax.Array
    """Delta."""
    gap_before: jax.Array
    """Delta one round before."""
    regret: jax.Array
    """Sum over the rounds of each adviser of f_t(x_t) - f_t(e_k), (K - 1,)."""
    slopes: jax.Array
    """Of the loss at e_0, |q| being what the learner accepts of |df|: the largest |q|, the sum of
    |q|^2, the first |q|^2 above 0, and the sum of |df| - |q|."""
    holds: jax.Array
    """Whether the kept cuts hold at e_1 .. e_{K-1}."""
    cuts_hold: jax.Array | None
    """Whether the cuts held at all experts in all rounds so far; `None` for a learner without
    cuts."""


@learner_dataclass
class Advised(StepsFromDecision, Learner):
    r"""A learner that plays a mixture of its own decisions and of your controller's.

    Guarantees, on the path that was played: the total loss is at most that of each adviser plus
    Delta_{T-1} + Delta_T, a number of order sqrt(T) that the run observes (C1); the regret against
    every fixed decision is at most that of the learner plus the same number (C2); kept cuts and
    announced constraints hold as without advice (C3).

    Arguments:
        learner: what plays besides the advice, for example `taut.learner("half-space", problem)`.
        advisers: the number of advisers.
        hold: whether the last advice stands in for advice that is missing in a round. Otherwise the
            others play that round without the adviser.

    Advice is passed to `taut.simulate`, `taut.step` or `Player.decide` as `advice`. It is moved
    into the domain, the kept cuts and the announced constraints. If the loss is not finite
    where an adviser would have gone, the adviser is given the loss that explains that of the
    mixture, and at least the mean of the others.

    >>> import jax.numpy as jnp, numpy as np, taut
    >>> demand = taut.Problem(
    ...     lambda x, z: (x[0] - z) ** 2, lambda x: x[0] - 2.0, taut.Box(0.0, 3.0, shape=1)
    ... )
    >>> player = taut.Player(taut.Advised(taut.learner("half-space", demand)), demand)
    >>> player.decide(advice=[1.0]).tolist()  # equal weights: between 1.5 and the advice
    [1.25]
    >>> player.observe(1.0)
    >>> player.decide(advice=[1.0]).round(3).tolist()  # the advice has a weight of 0.8 now
    [1.07]
    """

    learner: Learner
    advisers: int = field(default=1, metadata={"static": True})
    hold: bool = field(default=True, metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        own: Any = self.learner
        if isinstance(own, (Advised, RequestFirst, PlaysPoints, Delayed)):
            raise TypeError(
                f"learner: got {type(own).__name__}, whose decisions cannot be mixed with advice; "
                "expected a learner that plays one decision before the round is revealed"
            )
        object.__setattr__(self, "advisers", arguments.count("advisers", self.advisers))
        object.__setattr__(self, "hold", arguments.flag("hold", self.hold))

    @property
    def random(self) -> bool:
        """As the learner."""
        return is_random(self.learner)

    @property
    def side_by_side(self) -> bool:
        """As the learner."""
        return self.learner.side_by_side

    def init(self, x1: jax.Array, count: int) -> AdvisedState:
        """Begin with the state of the learner, and without advice."""
        base = self.learner.init(x1, count)
        zero = jnp.zeros((), x1.dtype)
        experts = 1 + self.advisers
        return AdvisedState(
            x=base.x,
            t=first_round(),
            base=base,
            previous=x1,
            advice=jnp.broadcast_to(x1, (self.advisers, *x1.shape)),
            given=jnp.zeros((self.advisers,), bool),
            points=jnp.broadcast_to(base.x, (experts, *x1.shape)),
            weights=jnp.zeros((experts,), x1.dtype).at[0].set(1),
            losses=jnp.zeros((experts,), x1.dtype),
            gap=zero,
            gap_before=zero,
            regret=jnp.zeros((self.advisers,), x1.dtype),
            slopes=jnp.zeros((4,), x1.dtype),
            holds=jnp.ones((), bool),
            cuts_hold=jnp.ones((), bool) if hasattr(base, "cuts_hold") else None,
        )

    def seeded(self, state: AdvisedState, key: jax.Array) -> AdvisedState:
        """Take the random key of one seed."""
        return state._replace(base=seeded(self.learner, state.base, key))

    def advised(
        self,
        state: AdvisedState,
        advice: jax.Array,
        given: jax.Array,
        project: Project,
        round: FullInformation | None,
    ) -> AdvisedState:
        """Return the state with the mixture of the coming round.

        Arguments:
            state: the state before the round.
            advice: (K - 1, *decision); entries of advisers without advice are not looked at.
            given: which advisers have advice, (K - 1,).
            project: the projection onto the domain.
            round: the announced constraints of the round, or None.
        """
        chosen = jnp.reshape(given, (-1, *[1] * (advice.ndim - 1)))
        latest = jnp.where(chosen, advice, state.advice)
        taking_part = given | state.given if self.hold else given
        return self._mixed(state._replace(advice=latest, given=taking_part), project, round)

    def heed(self, state: AdvisedState, round: FullInformation) -> AdvisedState:
        """Move all experts into the announced constraints, and mix them again."""
        return self._mixed(state, round.project, round)

    def _mixed(
        self, state: AdvisedState, project: Project, round: FullInformation | None
    ) -> AdvisedState:
        """Return the state with the decision that experts and weights make."""
        base, taking_part, advice, hold = state.base, state.given, state.advice, jnp.ones((), bool)

        def moved(point: jax.Array) -> tuple[jax.Array, jax.Array]:
            return self.into(state.base, point, project, round)

        if round is None:  # the learner's own point satisfies the cuts
            others, holds = lax.map(moved, advice)
        else:
            # All points in one loop: the exact projection in it is compiled once.
            points, holds = lax.map(moved, jnp.concatenate([base.x[None], advice]))
            base, others = base._replace(x=points[0]), points[1:]
            hold, holds = holds[0], holds[1:]
        chosen = jnp.reshape(taking_part, (-1, *[1] * base.x.ndim))
        others = jnp.where(chosen, others, base.x[None])
        weights = _weights(
            state.losses, state.gap, jnp.concatenate([jnp.ones(1, bool), taking_part])
        )
        shares = jnp.reshape(weights[1:], chosen.shape)
        return state._replace(
            x=base.x + jnp.sum(shares * (others - base.x[None]), axis=0),
            base=base,
            points=jnp.concatenate([base.x[None], others]),
            weights=weights,
            holds=hold & jnp.all(holds | ~taking_part),
        )

    def into(
        self, base: Any, x: jax.Array, project: Project, round: FullInformation | None
    ) -> tuple[jax.Array, jax.Array]:
        """Return a point moved into domain, kept cuts and announced constraints, and whether cuts
        and constraints hold there."""
        y = project(x)
        rows = None if round is None else rows_at(y, round)
        hold = jnp.ones((), bool)
        if isinstance(self.learner, HalfSpace):
            y, hold = self.learner.into_cuts(base, y, project, rows)
        return (y if round is None else enforced(y, round)), hold

    def step(self, state: AdvisedState, round: Round) -> AdvisedState:
        """Weigh the experts by their losses, and let the learner take its own step."""
        if isinstance(round, MeasuredRound):
            raise TypeError(
                "gradient: got measurements at the decision for a learner with advisers, whose "
                "losses at their own decisions are needed; expected the round's data z"
            )
        present = jnp.concatenate([jnp.ones(1, bool), state.given])
        loss = round.loss(state.x)
        each = jax.vmap(round.loss)(state.points)
        each = _explained(each, loss, state.weights, present)
        mean = jnp.sum(jnp.where(present, state.weights * each, 0))
        each = jnp.where(present, each, mean)
        least = jnp.min(each)
        mixed = _softmin(state.losses + (each - least), state.gap) - _softmin(
            state.losses, state.gap
        )
        gap = state.gap + jnp.maximum(mean - least - mixed, 0)
        losses = lax.optimization_barrier(state.losses + (each - least))
        slopes = _with_slope(state.slopes, round.gradient(state.base.x), clip_of(self.learner))
        base = state.base
        if isinstance(self.learner, HalfSpace):
            base = self.learner.with_cut_at(base, state.x, round)
        base = self.learner.step(base, round)
        after = state._replace(
            t=state.t + 1,
            base=base,
            previous=state.x,
            given=state.given if self.hold else jnp.zeros_like(state.given),
            losses=losses - jnp.min(losses),
            gap=gap,
            gap_before=state.gap,
            regret=state.regret + jnp.where(state.given, loss - each[1:], 0),
            slopes=slopes,
            cuts_hold=None
            if state.cuts_hold is None
            else state.cuts_hold & state.holds & base.cuts_hold,
        )
        return self._mixed(after, round.project, None)

    def multiplier(self, state: AdvisedState, round: Round) -> jax.Array:
        """The multiplier of the learner."""
        return multiplier_of(self.learner, state.base, round)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield C2 for the regret, and the bounds on violations that hold with advice, C3."""
        seen = setting.observed
        known = None if seen is None else seen.advice
        own = None
        if seen is not None and known is not None:
            own = replace(known.learner, constraint_slope=seen.constraint_slope)
        inner = replace(setting, observed=own)
        for guarantee in self.learner.guarantees(inner, horizon):
            if guarantee.bound is None:
                yield guarantee
            elif guarantee.quantity == "regret":
                yield self._mixture_regret(setting, guarantee, known, horizon)
            elif Assumes.EXACT_PROJECTIONS in guarantee.assumptions:
                yield replace(guarantee, source=f"{guarantee.source} and C3")
            else:
                yield Guarantee.none(
                    guarantee.quantity,
                    f"{guarantee.source} and C3",
                    "advice may violate a new constraint in every round, so bounds on the "
                    "learner's own decisions are none on the mixture",
                )

    def _mixture_regret(
        self, setting: Setting, own: Guarantee, known: ObservedAdvice | None, horizon: int
    ) -> Guarantee:
        """C2: what mixing costs, and the regret of the learner."""
        source = f"{own.source} and C2"
        if known is not None:
            return own.become("regret", (own.bound or 0.0) + known.gap, source)
        cost = setting.evaluate(
            "regret", advice_regret, source, horizon=horizon, experts=1 + self.advisers
        )
        if cost.bound is None:
            return cost
        rests = tuple(dict.fromkeys((*own.assumptions, *cost.assumptions)))
        bound = (own.bound or 0.0) + cost.bound
        return replace(own, bound=bound, source=source, assumptions=rests)


def _weights(losses: jax.Array, gap: jax.Array, present: jax.Array) -> jax.Array:
    """w_k ~ exp(-(L_k - min L) ln K / Delta) over the experts that take part.

    The least L is that of the present experts: the weights of absent ones may be so much larger
    that the others would all round to zero.
    """
    least = jnp.min(jnp.where(present, losses, jnp.inf))
    behind = jnp.where(present, losses - least, jnp.inf)
    weights = jnp.exp(-_over_gap(behind, gap, math.log(losses.shape[0])))
    return weights / jnp.sum(weights)


def _softmin(values: jax.Array, gap: jax.Array) -> jax.Array:
    """-(1 / eta) ln sum_k exp(-eta u_k) with eta = ln K / Delta; the least value for Delta = 0."""
    rate, least = math.log(values.shape[0]), jnp.min(values)
    spread = jnp.sum(jnp.exp(-_over_gap(values - least, gap, rate)))
    return least - jnp.where(_is_normal(gap), gap, 0) / rate * jnp.log(spread)


def _over_gap(behind: jax.Array, gap: jax.Array, rate: float) -> jax.Array:
    """behind * rate / Delta without 0 / 0: 0 where `behind` is 0, and infinity for Delta = 0."""
    scaled = behind / jnp.where(_is_normal(gap), gap, 1) * rate
    return jnp.where(behind > 0, jnp.where(_is_normal(gap), scaled, jnp.inf), 0)


def _is_normal(gap: jax.Array) -> jax.Array:
    """Whether Delta is at least the smallest normal number; less counts as 0."""
    return gap >= finfo(gap.dtype).tiny


def _explained(
    each: jax.Array, loss: jax.Array, weights: jax.Array, present: jax.Array
) -> jax.Array:
    """Return the losses of the experts with finite numbers in the place of others.

    The mixture has gone towards an expert whose loss is not finite, so it must not count as absent.
    Its loss is the least number with which the loss of the mixture is at most the mean, and at
    least the mean of the others.
    """
    good = jnp.isfinite(each) & present
    bad = present & ~good
    finite = jnp.where(good, each, 0)
    rest, share = jnp.sum(weights * finite), jnp.sum(jnp.where(good, weights, 0))
    weight = jnp.sum(jnp.where(bad, weights, 0))
    mean = jnp.where(share > 0, rest / jnp.where(share > 0, share, 1), loss)
    needed = jnp.where(weight > 0, (loss - rest) / jnp.where(weight > 0, weight, 1), mean)
    most = math.sqrt(float(finfo(each.dtype).max))
    return jnp.where(bad, jnp.minimum(jnp.maximum(mean, needed), most), finite)


def _with_slope(slopes: jax.Array, gradient: jax.Array, clip: float | None) -> jax.Array:
    """Return `AdvisedState.slopes` after one more gradient, as in `clipping.Clipping`."""
    largest, total, first, excess = slopes
    length = jnp.sqrt(jnp.sum(jnp.square(gradient)))
    accepted = length
    if clip is not None:
        accepted = jnp.where(largest > 0, jnp.minimum(length, clip * largest), length)
        accepted = jnp.where(jnp.isinf(length), 0, accepted)
    return jnp.stack(
        [
            jnp.maximum(largest, accepted),
            total + accepted**2,
            jnp.where(first > 0, first, accepted**2),
            excess + (length - accepted),
        ]
    )


@formula
def advice_regret(
    *, horizon: Count, experts: Count, diameter: Positive, loss_lipschitz: NonNegative
) -> float:
    r"""G_f D (sqrt(T ln K) + 2), before a run; afterwards the observed Delta_{T-1} + Delta_T is
    smaller.

    Arguments:
        horizon: T.
        experts: K, the learner and the advisers.
        diameter: D, of the domain.
        loss_lipschitz: G_f.

    >>> round(advice_regret(horizon=100, experts=2, diameter=2.0, loss_lipschitz=1.0), 3)
    20.651
    """
    if experts < 2:
        raise OutsideTheorem(f"experts: got {experts}; expected the learner and an adviser")
    return loss_lipschitz * diameter * (math.sqrt(horizon * math.log(experts)) + 2)

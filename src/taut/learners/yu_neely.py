r"""A virtual queue that never lets the multiplier's weight become negative, for fixed affine
constraints g(x) = A x - b <= 0.

    q_t = gamma g(x_t),        Q_{t+1} = max( -q_t, Q_t + q_t ),   Q_1 = 0
    x_{t+1} = Pi_B( x_t - ( df_t(x_t) + gamma A' (Q_{t+1} + q_t) ) / (2 alpha) )

The maximum treats noise of either sign as violation, so with noisy constraint values regret and
violation both grow linearly. Use it without noise only.

x_{t+1} minimises df_t(x_t).x + (Q_{t+1} + q_t).q(x) + alpha |x - x_t|^2 over the domain, which is 2
alpha strongly convex. Q_{t+1} >= |q_t| in every row, so the weights Q_{t+1} + q_t are not negative,
and (|Q_{t+1}|^2 - |Q_t|^2) / 2 <= Q_t.q_t + |q_t|^2. With 2 q_t.q_{t+1} >= |q_t|^2 + |q_{t+1}|^2 -
gamma^2 |A|^2 |x_{t+1} - x_t|^2 and c = alpha - gamma^2 |A|^2 / 2 > 0 this gives, for every x of the
domain,

    (|Q_{t+2}|^2 - |q_{t+1}|^2) / 2 - (|Q_{t+1}|^2 - |q_t|^2) / 2 + df_t(x_t).(x_t - x)
        <= (Q_{t+1} + q_t).q(x) + alpha (|x_t - x|^2 - |x_{t+1} - x|^2) + G_f^2 / (4 c).   (*)

The brackets on the left are never negative, and the first one is zero, because Q_2 = |q_1|.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..problem.constants import Constants
from ..problem.problem import Problem
from ..problem.rounds import Round
from .base import KeepsMultiplier, MultiplierState, learner_dataclass
from .card import Card, Growth
from .guarantee import BASE, Assumes, Guarantee, Setting
from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula, range_of_losses


@learner_dataclass
class YuNeely(KeepsMultiplier):
    r"""x_{t+1} = Pi_B( x_t - (df_t(x_t) + gamma A'(Q_{t+1} + q_t)) / (2 alpha) ),
        Q_{t+1} = max(-q_t, Q_t + q_t).

    Guarantee: for fixed affine constraints regret O(sqrt(T)), and under Slater's condition a signed
    violation O(1) in every row, both with explicit constants. Noise-free only.

    Arguments:
        gain: gamma, the factor on the constraints.
        proximity: alpha, the weight of staying near x_t.
        norm: |A|, the operator norm (largest singular value) of the constraints' Jacobian. It
            enters only the guarantee.

    Reference: Yu & Neely, "A low complexity algorithm with O(sqrt T) regret and O(1) constraint
    violations for online convex optimization with long term constraints", JMLR 21 (2020).

    >>> import taut
    >>> known = taut.Constants(
    ...     radius=1.0, loss_lipschitz=1.0, constraint_lipschitz=1.0, constraint_count=1
    ... )
    >>> taut.learner("yu-neely", known, horizon=16)
    YuNeely(gain=2.0, proximity=4.0, norm=1.0)
    """

    gain: Positive
    proximity: Positive
    norm: Positive

    @classmethod
    def tuned(
        cls,
        constants: Constants,
        horizon: int,
        problem: Problem | None = None,
        norm: float | None = None,
    ) -> YuNeely:
        r"""gamma = T^(1/4), alpha = (|A|^2 + 1) sqrt(T) / 2.

        Arguments:
            constants: G_g and m are needed if |A| is not known otherwise; it is at most sqrt(m)
                G_g.
            horizon: T.
            problem: the problem. |A| is computed from its Jacobian if that is the same at several
                points.
            norm: |A|, if it is known.
        """
        horizon = arguments.count("horizon", horizon)
        if norm is None:
            norm = None if problem is None else _affine_norm(problem)
            norm = _largest(constants) if norm is None else norm
        norm = arguments.positive("norm", norm)
        return cls(float(horizon) ** 0.25, (norm**2 + 1) * math.sqrt(horizon) / 2, norm)

    def step(self, state: MultiplierState, round: Round) -> MultiplierState:
        """First the queues with g(x_t), then the decision with the new queues."""
        x, t, queue = state
        excess, pull, _ = round.constraints(x)
        gain, proximity = (jnp.asarray(p, x.dtype) for p in (self.gain, self.proximity))
        scaled = gain * excess
        queue = jnp.maximum(-scaled, queue + scaled)
        step = (round.gradient(x) + pull(gain * (queue + scaled))) / (2 * proximity)
        return MultiplierState(round.project(x - step), t + 1, queue)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the bounds for fixed affine constraints, with and without a Slater point."""
        source, known = "Yu & Neely", setting.constants
        if not setting.constraints_fixed:
            yield Guarantee.none(
                "regret", source, "the constraints must be the same in every round"
            )
            return
        if not (setting.constraints_affine or known.constraint_smoothness == 0):
            why = "the constraints must be affine (constraint_smoothness = 0); this is not known"
            yield Guarantee.none("regret", source, why)
            return
        affine = (
            Assumes.AFFINE_CONSTRAINTS if setting.constraints_affine else "constraint_smoothness"
        )
        rests: tuple[str, ...] = (*BASE, Assumes.FIXED_CONSTRAINTS, affine, Assumes.CONSTRAINT_NORM)
        numbers: dict[str, Any] = {
            "horizon": horizon,
            "gain": float(self.gain),
            "proximity": float(self.proximity),
            "norm": float(self.norm),
        }
        yield setting.evaluate("regret", yu_neely_regret, source, (), rests, **numbers)
        excess = yu_neely_excess
        without = f"{source}, no Slater point"
        yield setting.evaluate("excess", excess, without, (), rests, slater=None, **numbers)
        yield setting.evaluate("excess", excess, source, ("slater",), rests, **numbers)
        yield Guarantee.none(
            "violation", source, "slack in one round can pay for violations in another"
        )

    def multiplier(self, state: MultiplierState, round: Round) -> jax.Array:
        """Return gamma (Q_{t+1} + q_t), the weights of the constraints in units of the loss."""
        gain = jnp.asarray(self.gain, state.x.dtype)
        scaled = gain * round.constraints(state.x).values
        return gain * (jnp.maximum(-scaled, state.multiplier + scaled) + scaled)


def _largest(constants: Constants) -> float:
    slope, count = constants.need("constraint_lipschitz", "constraint_count")
    return float(slope) * math.sqrt(count)


def _affine_norm(problem: Problem) -> float | None:
    """The operator norm of the constraints' Jacobian, or `None` if it is not the same at the centre
    and two points of the edge.

    It is computed once per problem: for 500 rows in 1,000 dimensions it takes a second, and every
    horizon asks for it.
    """
    if problem not in _norms:
        _norms[problem] = _computed_norm(problem)
    return _norms[problem]


_norms: weakref.WeakKeyDictionary[Problem, float | None] = weakref.WeakKeyDictionary()


def _computed_norm(problem: Problem) -> float | None:
    if problem.constraints.takes_data:
        raise ValueError(
            "constraints: these depend on the round's data; yu-neely needs fixed affine constraints"
        )
    domain = problem.domain
    across = jnp.ones(domain.shape, domain.centre.dtype)
    points = jnp.stack(
        [domain.centre, domain.linear_minimiser(across), domain.linear_minimiser(-across)]
    )

    first, *others = np.asarray(
        jax.vmap(lambda x: problem.constraints.linearise(x, None).jacobian())(points)
    )
    if not first.any() or not all(np.allclose(first, other, rtol=1e-5) for other in others):
        return None
    return float(np.linalg.norm(first, 2))


@formula
def yu_neely_regret(
    *,
    horizon: Count,
    gain: Positive,
    proximity: Positive,
    norm: NonNegative,
    radius: Positive,
    loss_lipschitz: NonNegative,
) -> float:
    r"""Regret: alpha R^2 + G_f^2 T / (4 c); no Slater point is needed.

    (*) summed at a feasible x. `gain` is gamma, `proximity` alpha and `norm` |A|, the operator
    norm. At gamma = T^(1/4), alpha = (|A|^2 + 1) sqrt(T) / 2: ((|A|^2 + 1) R^2 + G_f^2) sqrt(T) /
    2.
    """
    room = _room(gain, proximity, norm)
    return proximity * radius**2 + loss_lipschitz**2 * horizon / (4 * room)


@formula
def yu_neely_excess(
    *,
    horizon: Count,
    gain: Positive,
    proximity: Positive,
    norm: NonNegative,
    radius: Positive,
    diameter: Positive,
    loss_lipschitz: NonNegative,
    constraint_range: NonNegative,
    constraint_count: Count,
    slater: Positive | None = None,
    loss_range: NonNegative | None = None,
) -> float:
    r"""Sum over rounds of g_k(x_t), each k: O(1) with a Slater point at the authors' parameters,
    O(T^(1/4)) without.

    The sum is at most Q_{T+1,k} / gamma. Let C = F + G_f^2 / (4 c) and let G = gamma sqrt(m) max|g|
    bound |q|. Without a Slater point (*) summed gives |Q_{T+1}|^2 <= G^2 + 2 alpha R^2 + 2 C T.
    With g <= -epsilon at some x, W_t = (|Q_{t+1}|^2 - |q(x_t)|^2) / 2 + alpha |x_t - x|^2 changes
    by at most C - gamma epsilon (|Q_{t+1}| - G), so it falls while
    |Q_{t+1}| > theta = C / (gamma epsilon) + G, and |Q_{T+1}|^2 <= G^2 + 2 alpha D^2 + max(theta^2,
    2 C + 2 gamma epsilon G).
    """
    largest = gain * math.sqrt(constraint_count) * constraint_range
    reach = range_of_losses(loss_range, loss_lipschitz, diameter)
    cost = reach + loss_lipschitz**2 / (4 * _room(gain, proximity, norm))
    square = 2 * proximity * radius**2 + 2 * cost * horizon
    if slater is not None:
        margin = gain * slater
        if margin > gain * constraint_range:
            raise OutsideTheorem(
                f"slater: got {slater:g}; expected at most constraint_range = "
                f"{constraint_range:g}, which bounds |g|"
            )
        level = max((cost / margin + largest) ** 2, 2 * cost + 2 * margin * largest)
        square = min(square, 2 * proximity * diameter**2 + level)
    return math.sqrt(largest**2 + square) / gain


def _room(gain: float, proximity: float, norm: float) -> float:
    """c."""
    least = gain**2 * norm**2 / 2
    if proximity <= least:
        raise OutsideTheorem(
            f"proximity: got {proximity:g}; expected more than gain^2 |A|^2 / 2 = {least:g}, else "
            "the constraint's step overshoots"
        )
    return proximity - least


CARDS = (
    Card(
        "yu-neely",
        YuNeely.tuned,
        "Yu-Neely",
        "Yu & Neely, JMLR 21, 2020",
        assumptions=(
            "convex losses",
            "fixed affine constraints",
            "noise-free constraint values",
            "the domain contains the feasible set",
            "Slater's condition",
        ),
        needs=("constraint_lipschitz", "constraint_count"),
        affine_constraints=True,
        slater=True,
        fixed_constraints=True,
        separate=True,
        growth={
            "regret": Growth("sqrt T", 0.5, "the constraints are affine"),
            "excess": Growth("1", 0.0, "the constraints are affine and Slater's condition holds"),
        },
    ),
)

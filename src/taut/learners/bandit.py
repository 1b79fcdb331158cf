r"""Bandit learners: gradients are estimated from the values at the points that are played
(docs/theory.md, B1 and B2).

    l_t = f_t + mu max_i [g_{t,i}]_+,   u uniform on the unit sphere
    two points:   play x_t + delta u and x_t - delta u,
        z = (d / (2 delta)) (l_t(x_t + delta u) - l_t(x_t - delta u)) u
    one point:   play x_t + delta u,                     z = (d / delta) l_t(x_t + delta u) u
    x_{t+1} = Pi( x_t - eta_t z )
        onto the domain shrunk by 1 - delta / r, so that all points stay inside

Constraints enter through an exact penalty, because only values are seen. The step is that of
another learner, which gets z as the gradient of its loss and no constraint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..display import counted
from ..engine import first_key, wrapped_key
from ..problem.constants import Constants
from ..problem.constraints import Linearisation
from ..problem.domains import Ball, Box, Domain, L1Ball
from ..problem.feedback import Bandit, Feedback
from ..problem.rounds import Round, RoundSeen, with_jacobian
from .base import Learner, first_round, learner_dataclass
from .card import Card, Growth
from .guarantee import BASE, Assumes, Guarantee, Setting, with_excess
from .half_space.method import HalfSpace
from .schedules import Constant
from .theorem import Count, NonNegative, Positive, formula


class BanditState(NamedTuple):
    """The state of a learner that sees values only."""

    x: jax.Array
    """The decision; with two points their middle, with one the point that is played."""
    t: jax.Array
    inner: Any
    direction: jax.Array
    """u."""
    points: tuple[jax.Array, ...]
    key: jax.Array


class _ShrunkRound(RoundSeen):
    """What the inner learner sees: an estimated gradient, no constraint, and the shrunk domain."""

    def __init__(
        self, round: Round, slope: jax.Array, value: jax.Array, centre: jax.Array, factor: jax.Array
    ) -> None:
        super().__init__(round)
        self.slope, self.value, self.centre, self.factor = slope, value, centre, factor

    def loss(self, x: jax.Array) -> jax.Array:
        return self.value

    def gradient(self, x: jax.Array) -> jax.Array:
        return self.slope

    def constraints(self, x: jax.Array) -> Linearisation:
        return with_jacobian(-jnp.ones((1,), x.dtype), jnp.zeros((1, *x.shape), x.dtype))

    def project(self, x: jax.Array) -> jax.Array:
        # Pi onto c + s (B - c) is c + s (Pi_B(c + (x - c) / s) - c).
        outside = self.centre + (x - self.centre) / self.factor
        return self.centre + self.factor * (self.round.project(outside) - self.centre)

    def minimise(self, direction: jax.Array) -> jax.Array:
        return self.centre + self.factor * (self.round.minimise(direction) - self.centre)


@dataclass(frozen=True)
class _BanditLearner(Learner):
    """What both kinds have in common."""

    learner: Learner
    delta: Positive
    penalty: Positive
    inner_radius: Positive
    centre: Any
    count: ClassVar[int]
    """The number of points per round."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.centre, (str, complex)) or not np.all(np.isfinite(self.centre)):
            raise TypeError(
                f"centre: got {arguments.shown(self.centre)}; expected a point of the domain"
            )
        known = (self.delta, self.inner_radius)
        if all(isinstance(length, (int, float)) for length in known) and known[0] >= known[1]:
            raise ValueError(
                f"delta: got {known[0]:g}; expected less than the inner radius of the domain, "
                f"{known[1]:g}"
            )

    @property
    def random(self) -> bool:
        """Directions are drawn at random."""
        return True

    def init(self, x1: jax.Array, count: int) -> BanditState:
        """Begin inside the shrunk domain, with a direction that `seeded` replaces."""
        middle, factor = self._shrunk(x1)
        inner = self.learner.init(middle + factor * (x1 - middle), 1)
        return self._drawn(inner, first_round(), jax.random.key_data(first_key()))

    def seeded(self, state: BanditState, key: jax.Array) -> BanditState:
        """Draw the first direction with the key of one seed."""
        return self._drawn(state.inner, state.t, jax.random.key_data(key))

    def points(self, state: BanditState) -> tuple[jax.Array, ...]:
        """The points that are played."""
        return state.points

    def step(self, state: BanditState, round: Round) -> BanditState:
        """Estimate the gradient of the penalised loss, let the inner learner step, and draw the
        next direction."""
        penalty = jnp.asarray(self.penalty, state.x.dtype)
        values = [
            round.loss(point) + penalty * jnp.maximum(jnp.max(round.constraints(point).values), 0)
            for point in state.points
        ]
        middle, factor = self._shrunk(state.x)
        size, delta = state.x.size, jnp.asarray(self.delta, state.x.dtype)
        change = values[0] if len(values) == 1 else (values[0] - values[1]) / 2
        slope = size / delta * change * state.direction
        seen = _ShrunkRound(round, slope, jnp.mean(jnp.stack(values)), middle, factor)
        return self._drawn(self.learner.step(state.inner, seen), state.t + 1, state.key)

    def _shrunk(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Centre and factor of the shrunk domain."""
        delta, room = (jnp.asarray(length, x.dtype) for length in (self.delta, self.inner_radius))
        return jnp.asarray(self.centre, x.dtype), 1 - delta / room

    def _drawn(self, inner: Any, t: jax.Array, key: jax.Array) -> BanditState:
        x = inner.x
        normal = jax.random.normal(jax.random.fold_in(wrapped_key(key), t), x.shape, x.dtype)
        length = jnp.sqrt(jnp.sum(jnp.square(normal)))
        u = normal / jnp.where(length > 0, length, 1)
        move = jnp.asarray(self.delta, x.dtype) * u
        points = (x + move,) if self.count == 1 else (x + move, x - move)
        return BanditState(points[0] if self.count == 1 else x, t, inner, u, points, key)

    def uncovered(self, feedback: Feedback) -> str:
        """Values at the points that this learner plays are covered."""
        if not isinstance(feedback, Bandit):
            return (
                f"the guarantees of {type(self).__name__} cover full information and values only, "
                f"not {feedback.kind}"
            )
        if feedback.points != self.count:
            return (
                f"{type(self).__name__} plays {counted(self.count, 'point')} per round, the "
                f"feedback shows {feedback.points}"
            )
        return ""

    @with_excess
    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield B1 or B2 for a constant step: bounds on expectations."""
        source = f"{type(self).__name__}, B{3 - self.count}"
        eta = getattr(self.learner, "eta", None)
        if not isinstance(self.learner, HalfSpace) or not isinstance(eta, Constant):
            yield Guarantee.none(
                "regret", source, "the inner learner must be HalfSpace with a constant step"
            )
            return
        rests = (*BASE, Assumes.OBLIVIOUS, *((Assumes.LOSS_VALUES,) if self.count == 1 else ()))

        known, penalty, delta = setting.constants, float(self.penalty), float(self.delta)
        slope = (known.loss_lipschitz or 0.0) + penalty * (known.constraint_lipschitz or 0.0)
        needs: tuple[str, ...] = ("loss_lipschitz", "constraint_lipschitz")
        if self.count == 2:
            moment = two_point_moment(size=setting.size) * slope**2
        else:
            reach = (known.loss_range or 0.0) + penalty * (known.constraint_range or 0.0)
            moment = (setting.size * reach / delta) ** 2
            needs = (*needs, "loss_range", "constraint_range")
        regret = setting.evaluate(
            "regret",
            bandit_expected_regret,
            source,
            needs,
            rests,
            expected=True,
            horizon=horizon,
            eta=float(eta.value),
            delta=delta,
            inner_radius=float(self.inner_radius),
            lipschitz=slope,
            second_moment=moment,
        )
        yield regret
        yield setting.evaluate(
            "violation",
            bandit_expected_violation,
            source,
            ("radius", *needs),
            rests,
            expected=True,
            horizon=horizon,
            regret=regret.bound,
            penalty=penalty,
        )


@learner_dataclass
class TwoPoint(_BanditLearner):
    """A learner for two values per round: differences of values estimate gradients.

    Guarantee, in expectation: regret at most G R sqrt(d^2 T / (d - 1)) + O(1) with G = G_f + mu
    G_g, and violation at most (that + F T) / mu; mu = T^(1/4) G_f / G_g makes both O(sqrt(d)
    T^(3/4)). See `docs/theory.md`, B1.

    Arguments:
        learner: takes the steps on the penalised loss.
        delta: the distance of the two points from the decision.
        penalty: mu.
        inner_radius: r, the radius of a ball around the centre that the domain contains.
        centre: the centre of the domain.

    >>> import taut
    >>> taut.learner("two-point", taut.testing.PROBLEMS[0].problem, horizon=1000).delta
    0.001
    """

    count: ClassVar[int] = 2

    @classmethod
    def tuned(
        cls, constants: Constants, horizon: int, domain: Domain, penalty: float | None = None
    ) -> TwoPoint:
        """delta = r / T and eta = R / (G sqrt(d' T)), d' = d^2 / (d - 1)."""
        rounds = arguments.count("horizon", horizon, 2)
        weight, slope, room, size = _sizes(constants, rounds ** (1 / 4), domain, penalty)
        eta = float(domain.radius) / (slope * math.sqrt(two_point_moment(size=size) * rounds))
        step = HalfSpace(Constant(eta), float(domain.diameter))
        return cls(step, room / rounds, weight, room, np.asarray(domain.centre))


@learner_dataclass
class OnePoint(_BanditLearner):
    """A learner for a single value per round. It learns slowly: use two points if there is any way
    to.

    Guarantee, in expectation: O(T^(7/8)) regret and violation. See `docs/theory.md`, B2. Growth is
    not visible below about T = 1e5.

    Arguments: as those of `TwoPoint`; losses must lie between -F and F.
    """

    count: ClassVar[int] = 1

    @classmethod
    def tuned(
        cls, constants: Constants, horizon: int, domain: Domain, penalty: float | None = None
    ) -> OnePoint:
        """delta = r T^(-1/4) / 2, eta = R delta / (d max|l| sqrt T), mu = T^(1/8) G_f / G_g."""
        rounds = arguments.count("horizon", horizon, 2)
        weight, _, room, size = _sizes(constants, rounds ** (1 / 8), domain, penalty)
        reach, height = constants.need("loss_range", "constraint_range")
        delta = room * rounds ** (-1 / 4) / 2
        eta = float(domain.radius) * delta / (size * (reach + weight * height) * math.sqrt(rounds))
        return cls(
            HalfSpace(Constant(eta), float(domain.diameter)),
            delta,
            weight,
            room,
            np.asarray(domain.centre),
        )


def _sizes(
    constants: Constants, growth: float, domain: Domain, penalty: float | None
) -> tuple[float, float, float, int]:
    """The penalty, G, the inner radius and the dimension."""
    loss_slope, slope = constants.need("loss_lipschitz", "constraint_lipschitz")
    steep = arguments.positive("loss_lipschitz", loss_slope)
    if penalty is None:
        weight = growth * steep / arguments.positive("constraint_lipschitz", slope)
    else:
        weight = arguments.positive("penalty", penalty)
    return weight, steep + weight * slope, inner_radius(domain), math.prod(domain.shape)


def inner_radius(domain: Domain) -> float:
    """Return the radius of the largest ball around the centre that the domain contains; simplices
    contain none."""
    if type(domain) is Ball:
        return float(domain.radius)
    if type(domain) is Box:
        return float(np.min(np.asarray(domain.upper) - np.asarray(domain.lower))) / 2
    if type(domain) is L1Ball:
        return float(domain.radius) / math.sqrt(math.prod(domain.shape))
    raise ValueError(
        f"domain: got {type(domain).__name__}; expected a ball, a box or an l1 ball, inside which "
        "points can be played in every direction. Build taut.TwoPoint(learner, delta, penalty, "
        "inner_radius, centre) by hand for other domains"
    )


@formula
def two_point_moment(*, size: Count) -> float:
    """E |z|^2 / G^2 <= d^2 / (d - 1), or 1 for one dimension."""
    return 1.0 if size == 1 else size**2 / (size - 1)


@formula
def bandit_expected_regret(
    *,
    horizon: Count,
    eta: Positive,
    delta: Positive,
    inner_radius: Positive,
    radius: Positive,
    lipschitz: NonNegative,
    second_moment: float,
) -> float:
    r"""Expected regret plus mu times expected violation: R^2 / (2 eta) + eta M T / 2 + 3 delta G T
    + (delta / r) G R T (B1).

    Arguments:
        inner_radius: r.
        lipschitz: G = G_f + mu G_g.
        second_moment: M, a bound on E |z|^2.
    """
    descent = radius**2 / (2 * eta) + eta * second_moment * horizon / 2
    return descent + delta * lipschitz * horizon * (3 + radius / inner_radius)


@formula
def bandit_expected_violation(
    *, horizon: Count, regret: NonNegative, penalty: Positive, loss_range: NonNegative
) -> float:
    r"""Expected violation: (A + F T) / mu, A being the bound on regret plus mu times violation,
    because regret >= -F T (B1)."""
    return (regret + loss_range * horizon) / penalty


_ORACLES = frozenset({"loss", "values", "project"})
_NEEDS = ("loss_lipschitz", "constraint_lipschitz")
CARDS = (
    Card(
        "two-point",
        TwoPoint.tuned,
        "Two-point bandit",
        "Shamir, JMLR 18, 2017, and docs/theory.md, B1",
        oracles=_ORACLES,
        cost="1 projection, 2 losses, 2 m constraint values",
        needs=_NEEDS,
        feedback=("full", "bandit"),
        growth={
            "regret": Growth("sqrt(d) T^(3/4)", 0.75),
            "violation": Growth("sqrt(d) T^(3/4)", 0.75),
        },
    ),
    Card(
        "one-point",
        OnePoint.tuned,
        "One-point bandit",
        "Flaxman, Kalai & McMahan, SODA 2005, and docs/theory.md, B2",
        oracles=_ORACLES,
        cost="1 projection, 1 loss, m constraint values",
        needs=(*_NEEDS, "loss_range", "constraint_range"),
        feedback=("full", "bandit"),
        growth={"regret": Growth("d T^(7/8)", 0.875), "violation": Growth("d T^(7/8)", 0.875)},
        known_failures={
            "check_constraint_matters": (
                "in the rounds of the check its steps are too short to reach the toy's constraint"
            )
        },
    ),
)

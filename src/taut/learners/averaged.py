r"""Averaged rows: estimate every constraint row from noisy observations, subtract a margin, then
take the learner's step (docs/theory.md, N1 to N3).

    estimate_t,i  of g_i from all rounds so far,  margin_t = sigma sqrt(2 rate_t ln(m T^2))
    x_{t+1} = step of the learner with estimate_t,i - margin_t in place of g_i

Clipping comes after averaging, so its bias vanishes as the averages converge; a method that clips
each observed value keeps that bias for ever. Rows are estimated one by one, never their maximum:
the largest of several noisy values is biased as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import arguments
from ..problem.constants import Constants
from ..problem.constraints import Linearisation
from ..problem.domains import Domain
from ..problem.feedback import Batched, Feedback, Noisy
from ..problem.rounds import Round, RoundSeen, with_jacobian
from .base import Learner, first_round, learner_dataclass, sizes
from .card import ROOT, Card, Growth
from .estimates import Affine, Estimated, Held, Smooth
from .guarantee import BASE, Assumes, Guarantee, Setting, with_excess
from .half_space.method import HalfSpace
from .protocols import is_random, multiplier_of, seeded
from .schedules import Constant
from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula

ROWS = ("affine", "smooth", "convex")


class AveragedState(NamedTuple):
    """The state of a learner that sees estimated rows."""

    x: jax.Array
    t: jax.Array
    inner: Any
    """The state of the learner that takes the steps."""
    estimate: Affine | Smooth | Held


class _EstimatedRound(RoundSeen):
    """A round with estimated constraints, and with the mean gradient of a block if the decision is
    held."""

    def __init__(
        self, round: Round, values: jax.Array, slopes: jax.Array, slope: jax.Array | None = None
    ) -> None:
        super().__init__(round)
        self.values, self.slopes, self.slope = values, slopes, slope

    def gradient(self, x: jax.Array) -> jax.Array:
        return self.round.gradient(x) if self.slope is None else self.slope

    def constraints(self, x: jax.Array) -> Linearisation:
        return with_jacobian(self.values, self.slopes.reshape(-1, *x.shape))


@learner_dataclass
class Averaged(Learner):
    r"""A learner that sees averages of noisy constraint rows, less a confidence margin.

    Guarantee, around `HalfSpace` without memory and with all rows: regret as without noise, and for
    affine rows a violation of at most v_1 + 4 sigma sqrt(2 T ln(m T^2)), with probability 1 - 2/T;
    for smooth rows O(T^(2/3)), for other convex rows O(T^(5/6)) up to logarithms. See
    `docs/theory.md`, N1 to N3. The constraints must be the same in every round: noise and an
    adversary cannot be told apart.

    Arguments:
        learner: takes the steps; `Averaged.tuned` builds the right one.
        horizon: T.
        sigma: the errors are sigma-sub-Gaussian (normal errors with this standard deviation are).
            If gradients are noisy too, it is that of the observed linear model g + dg.(u - x_t) at
            any one decision u. `None` estimates it from residuals, for which no bound is proven.
        gradient_sigma: the same for every entry of a constraint gradient; 0 for exact gradients.
        smoothness: L of smooth rows.
        block: number of rounds for which a decision is held, for convex rows.
        rows: "affine" averages linear models; "smooth" carries a moving average of values along
            gradients, which must be exact; "convex" assumes nothing else and holds each decision
            for `block` rounds.

    >>> import taut
    >>> known = taut.testing.PROBLEMS[2].problem
    >>> taut.learner("averaged", known, horizon=1000, sigma=0.3).rows
    'affine'
    """

    learner: Learner
    horizon: Any
    sigma: NonNegative | None = None
    gradient_sigma: NonNegative = 0.0
    smoothness: NonNegative | None = None
    block: Any = 1
    rows: str = field(default="affine", metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.one_of("rows", self.rows, ROWS)
        if isinstance(self.block, (complex, float, int, str)):
            object.__setattr__(self, "block", arguments.count("block", self.block))
        if isinstance(self.horizon, (complex, float, int, str)):
            object.__setattr__(self, "horizon", float(arguments.count("horizon", self.horizon)))
        if self.rows == "smooth" and self.smoothness is None:
            raise ValueError(
                "smoothness: got None; expected L, a bound on the curvature of the rows, for "
                'rows="smooth"'
            )

    @classmethod
    def tuned(
        cls,
        constants: Constants,
        horizon: int,
        domain: Domain | None = None,
        sigma: float | None = None,
        gradient_sigma: float = 0.0,
        rows: str = "affine",
        block: int | None = None,
    ) -> Averaged:
        """Around a half-space step of R / (G_f sqrt T); for convex rows in blocks of T^(1/3)
        rounds."""
        arguments.one_of("rows", rows, ROWS)
        rounds = arguments.count("horizon", horizon)
        radius, diameter = sizes(domain, constants)
        (slope,) = constants.positive("loss_lipschitz")
        held = (
            max(1, round(rounds ** (1 / 3))) if block is None else arguments.count("block", block)
        )
        held = held if rows == "convex" else 1
        (bend,) = constants.need("constraint_smoothness") if rows == "smooth" else (None,)
        eta = radius / (slope * math.sqrt(-(-rounds // held)))
        single = constants.constraint_count == 1
        inner = HalfSpace(Constant(eta), diameter, memory=0, sweeps=None, joint=single, rows="all")
        return cls(inner, rounds, sigma, gradient_sigma, bend, held, rows)

    @property
    def random(self) -> bool:
        """Whether the learner inside draws random numbers."""
        return is_random(self.learner)

    def seeded(self, state: AveragedState, key: jax.Array) -> AveragedState:
        """Hand the key to the learner inside."""
        inner = seeded(self.learner, state.inner, key)
        return state._replace(x=inner.x, inner=inner)

    def init(self, x1: jax.Array, count: int) -> AveragedState:
        """Play x1 first, with estimates that have seen nothing."""
        inner = self.learner.init(x1, count)
        kind: Any = {"affine": Affine, "smooth": Smooth, "convex": Held}[self.rows]
        return AveragedState(inner.x, first_round(), inner, kind.begin(x1, count))

    def step(self, state: AveragedState, round: Round) -> AveragedState:
        """Add what was observed to the estimates; step with estimates less their margin."""
        x, t, inner, estimate = state
        inner, observed = inner._replace(x=x), round.constraints(x)
        if isinstance(estimate, Held):
            return self._held(state, inner, observed, round)
        if isinstance(estimate, Smooth):
            least = jnp.asarray(self.horizon, x.dtype) ** (-2 / 3)
            estimate, estimated = estimate.update(
                t, x, observed, least, jnp.asarray(self.smoothness, x.dtype)
            )
        else:
            estimate, estimated = estimate.update(t, x, observed)
        inner = self.learner.step(
            inner, _EstimatedRound(round, self._lowered(estimated, t - 1), estimated.slopes)
        )
        return AveragedState(inner.x, t + 1, inner, estimate)

    def _held(
        self, state: AveragedState, inner: Any, observed: Linearisation, round: Round
    ) -> AveragedState:
        """Add a round to the block; at the end of the block, step with the means over it."""
        x, t, _, estimate = state
        assert isinstance(estimate, Held)
        held, estimated, slope = estimate.update(x, observed, round.gradient(x))
        values = self._lowered(estimated, t - (t + self.block - 1) // self.block)
        stepped = self.learner.step(inner, _EstimatedRound(round, values, estimated.slopes, slope))
        over = held.filled >= self.block
        empty = jax.tree.map(jnp.zeros_like, held)._replace(squares=held.squares)
        inner = jax.tree.map(lambda new, old: jnp.where(over, new, old), stepped, inner)
        held = jax.tree.map(lambda new, old: jnp.where(over, new, old), empty, held)
        return AveragedState(inner.x, t + 1, inner, held)

    def _lowered(self, estimated: Estimated, degrees: jax.Array) -> jax.Array:
        """The estimated values less the margin; `degrees` is the number of residuals that estimate
        sigma."""
        dtype, count = estimated.values.dtype, estimated.values.shape[0]
        horizon = jnp.asarray(self.horizon, dtype)
        logarithm = math.log(count) + 2 * jnp.log(horizon)
        unit = jnp.sqrt(2 * logarithm * estimated.rate)
        if self.sigma is not None:
            return estimated.values - estimated.bias - jnp.asarray(self.sigma, dtype) * unit
        number = degrees.astype(dtype)
        known = jnp.maximum(number, 1)
        sigma = jnp.sqrt(estimated.squares / known) * (1 + 2 / jnp.sqrt(known))
        width = jnp.asarray(getattr(self.learner, "diameter", 1.0), dtype)
        # A half-space that contains the domain.
        nowhere = -width * jnp.sqrt(jnp.sum(jnp.square(estimated.slopes), axis=1))
        return jnp.where(number > 0, estimated.values - estimated.bias - sigma * unit, nowhere)

    def multiplier(self, state: AveragedState, round: Round) -> jax.Array:
        """Return the multiplier of the learner inside for the true round."""
        return multiplier_of(self.learner, state.inner._replace(x=state.x), round)

    # -- What is proven

    def uncovered(self, feedback: Feedback) -> str:
        """Errors of constraint values are covered if sigma is given; those of gradients for affine
        rows."""
        why = self._unproven()
        if why or (isinstance(feedback, Batched) and feedback.exact):
            return why
        rows, inside = f'the guarantees of Averaged with rows="{self.rows}"', self.learner
        sigma, slope_sigma = float(self.sigma or 0.0), float(self.gradient_sigma)
        if isinstance(feedback, Batched):
            if self.rows != "affine":
                return f"{rows} need exact gradients, which minibatches do not have"
            if slope_sigma == 0 or sigma == 0:
                return (
                    "minibatches have noisy values and gradients: give sigma=... and "
                    "gradient_sigma=..., both above 0"
                )
            return ""
        if not isinstance(feedback, Noisy):
            return (
                "the guarantees of Averaged cover full information and noise, not "
                f"{feedback.kind} feedback"
            )
        if feedback.loss_gradients is not None:
            return "the guarantees of Averaged need exact gradients of the loss"
        if feedback.gradients is not None and self.rows != "affine":
            return f"{rows} need exact gradients of the constraints"
        values = 0.0 if feedback.values is None else feedback.values.sigma
        slopes = 0.0 if feedback.gradients is None else feedback.gradients.sigma
        if slopes is not None and slopes > slope_sigma * (1 + 1e-9):
            return f"its gradient_sigma = {slope_sigma:g} is below that of the noise, {slopes:g}"
        if slopes is not None and values is not None:
            needed = math.hypot(values, slopes * float(getattr(inside, "diameter", 0.0)))
            if needed > sigma * (1 + 1e-9):
                return f"its sigma = {sigma:g} is below that of the noise, {needed:g}"
        return ""

    def _unproven(self) -> str:
        """Why nothing is proven for these parameters; empty if something is."""
        inside = self.learner
        if self.sigma is None:
            return "sigma is estimated from residuals, for which no bound is proven; give sigma=..."
        if (
            not isinstance(inside, HalfSpace)
            or inside.memory
            or inside.rows != "all"
            or inside.sweeps is not None
        ):
            return (
                "the learner inside Averaged must be HalfSpace with memory=0, sweeps=None, "
                "rows='all'"
            )
        return "the learner inside Averaged must have no margin of its own" if inside.margin else ""

    def _unproven_for(self, setting: Setting, horizon: int) -> str:
        """Why nothing is proven for this problem and horizon."""
        if why := self._unproven():
            return why
        if setting.constants.constraint_count == 1 and not getattr(self.learner, "joint", False):
            return "with one constraint the last projection must be joint: expected joint=True"
        if not setting.constraints_fixed:
            return "the constraints must be the same in every round"
        if self.rows == "affine" and not setting.constraints_affine:
            return "the constraints are not known to be affine; use rows='smooth' or rows='convex'"
        if horizon > float(self.horizon):
            return f"the margins are for {float(self.horizon):g} rounds"
        return ""

    @with_excess
    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield N1, N2 or N3, according to the rows."""
        number = ROWS.index(self.rows) + 1
        lost = 4 if self.rows == "smooth" or self.gradient_sigma else 2
        source = f"averaged, N{number} (probability 1 - {lost}/T)"
        if why := self._unproven_for(setting, horizon):
            yield Guarantee.none("regret", source, why)
            yield Guarantee.none("violation", source, why)
            return
        held = int(self.block)
        here = setting if held == 1 else replace(setting, observed=None)
        rows = here.constants.with_values(half_spaces=None)  # estimated rows are others
        here = replace(here, constraints_fixed=False, constants=rows)
        for guarantee in self.learner.guarantees(here, -(-horizon // held)):
            if guarantee.quantity == "regret":
                yield self._also(guarantee, source, guarantee.bound and held * guarantee.bound)
            if guarantee.quantity == "violation" and self.rows == "convex":
                yield self._also(guarantee, source, self._in_blocks(guarantee, setting, horizon))
        if self.rows != "convex":
            yield self._of_estimates(source, setting, horizon)

    def _assumes(self) -> tuple[str, ...]:
        affine = (Assumes.AFFINE_CONSTRAINTS,) if self.rows == "affine" else ()
        return (*BASE, Assumes.FIXED_CONSTRAINTS, *affine, Assumes.NOISE)

    def _also(self, guarantee: Guarantee, source: str, bound: float | None) -> Guarantee:
        """A guarantee of the learner inside, with the assumptions that averaging adds."""
        rests = tuple(dict.fromkeys((*guarantee.assumptions, *map(str, self._assumes()))))
        rests = rests if guarantee.bound is not None else ()
        return replace(guarantee, source=source, bound=bound, assumptions=rests)

    def _of_estimates(self, source: str, setting: Setting, horizon: int) -> Guarantee:
        """The violation by N1 or N2."""
        known, start = setting.constants, setting.initial_violation
        smooth, eta = self.rows == "smooth", getattr(self.learner, "eta", None)
        bend, least = float(self.smoothness or 0.0), known.constraint_smoothness or 0.0
        why = ""
        if start is None:
            why = "the violation of the first decision is not known"
        elif smooth and bend < least * (1 - 1e-12):
            why = f"smoothness is {bend:g}, below L = {least:g}"
        elif smooth and not isinstance(eta, Constant):
            why = "the step must be constant"
        if why:
            return Guarantee.none("violation", source, why)
        several = known.constraint_count != 1
        slope = (known.constraint_lipschitz or 0.0) if several else 0.0
        needs = ("constraint_lipschitz",) if several else ()
        evaluate = partial(
            setting.evaluate,
            "violation",
            source=source,
            assumptions=self._assumes(),
            horizon=horizon,
            sigma=self._scale(horizon, known.constraint_count or 1),
            initial_violation=start,
        )
        if not smooth:
            return evaluate(
                averaged_violation,
                needs=needs,
                gradient_sigma=float(self.gradient_sigma),
                size=setting.size,
                radius=setting.diameter,
                left_over=LEFT_OVER * slope * setting.diameter,
            )
        assert isinstance(eta, Constant)
        return evaluate(
            averaged_smooth_violation,
            needs=(*needs, "constraint_smoothness", "loss_lipschitz"),
            constraint_smoothness=bend,
            longest=float(eta.value) * (known.loss_lipschitz or 0.0),
            rate=float(self.horizon) ** (-2 / 3),
            several=several,
            constraint_lipschitz=slope,
        )

    def _in_blocks(self, guarantee: Guarantee, setting: Setting, horizon: int) -> float | None:
        count = setting.constants.constraint_count
        if guarantee.bound is None or count is None:
            return None
        return averaged_block_violation(
            horizon=horizon,
            block=int(self.block),
            sigma=self._scale(horizon, count),
            constraint_count=count,
            violation=guarantee.bound,
        )

    def _scale(self, horizon: int, count: int) -> float:
        """sigma for a bound over fewer rounds than the margins were made for, whose logarithm is
        larger."""
        assert self.sigma is not None
        longer = 2 * math.log(float(self.horizon)) + math.log(count)
        shorter = 2 * math.log(horizon) + math.log(count)
        return float(self.sigma) * math.sqrt(longer / shorter) if shorter > 0 else float(self.sigma)


LEFT_OVER = math.pi**2 / 6 - 1
"""The sum over t >= 1 of 1 / (t + 1)^2: sweeps stop when all rows hold within D / (t + 1)^2."""
LONGEST = 2**20
"""Rounds for which the recursion of N2 is evaluated at most."""


@formula
def averaged_margin(
    *, sigma: NonNegative, horizon: Count, constraint_count: Count, rate: float
) -> float:
    r"""sigma sqrt(2 rate ln(m T^2)): the margin of an average whose squared weights add up to
    `rate`, 1/t for a mean."""
    return sigma * math.sqrt(2 * rate * math.log(constraint_count * horizon**2))


@formula
def averaged_violation(
    *,
    horizon: Count,
    sigma: NonNegative,
    constraint_count: Count,
    initial_violation: NonNegative,
    gradient_sigma: NonNegative = 0.0,
    size: int = 1,
    radius: float = 0.0,
    left_over: float = 0.0,
) -> float:
    r"""Violation of m affine rows: v_1 + 4 sigma sqrt(2 T ln(m T^2)), with probability 1 - 2/T
    (N1).

    If gradients are noisy too, the error of the mean gradient adds 2 R gamma sqrt(2 d T ln(d m
    T^2)), gamma being its parameter in each of d coordinates, and the probability is 1 - 4/T.

    Arguments:
        sigma: the errors of the observed linear model at any one decision are sigma-sub-Gaussian.
        gradient_sigma: gamma.
        size: d.
        radius: the largest distance of a decision from the domain's centre.
        left_over: the sum over rounds of what sweeps over several rows leave of the estimated rows;
            0 for one row.
    """
    margins = averaged_margin(
        sigma=sigma, horizon=horizon, constraint_count=constraint_count, rate=1.0
    )
    margins = margins * 2 * math.sqrt(horizon)
    if gradient_sigma > 0:
        log = math.log(size * constraint_count * horizon**2)
        margins += radius * gradient_sigma * math.sqrt(2 * size * log) * math.sqrt(horizon)
    return initial_violation + 2 * margins + left_over


@formula
def averaged_smooth_violation(
    *,
    horizon: Count,
    sigma: NonNegative,
    constraint_count: Count,
    initial_violation: NonNegative,
    constraint_smoothness: NonNegative,
    slater: Positive,
    diameter: Positive,
    longest: float,
    rate: Positive,
    several: bool = False,
    constraint_lipschitz: float = 0.0,
) -> float:
    r"""Violation of L-smooth rows with exact gradients, with probability 1 - 4/T (N2): O(T^(2/3)
    sqrt(log T)) for rate T^(-2/3).

    The recursion of docs/theory.md, N2, evaluated round by round: bounds on u_t = [estimate -
    margin]_+, on the bias of the estimate, on the move and on the violation.

    Arguments:
        slater: e, the slack of one decision in all rows.
        longest: the longest gradient step, eta G_f.
        rate: a, the least weight of the newest value; weights are max(a, 1/t).
        several: whether sweeps over several rows replace the exact projection.
        constraint_lipschitz: G_g, for what the sweeps leave.
    """
    if horizon > LONGEST:
        raise OutsideTheorem(
            f"the bound is a recursion over rounds, which is evaluated for at most {LONGEST} of "
            "them"
        )
    if rate > 1:
        raise ValueError(f"rate: got {rate:g}; expected at most 1, the weight of the newest value")
    bend, width = constraint_smoothness, diameter
    unit = averaged_margin(
        sigma=sigma, horizon=horizon, constraint_count=constraint_count, rate=1.0
    )
    v = u = initial_violation
    bias, weight, total = 0.0, 1.0, v
    for t in range(1, horizon):
        margin = bias + unit * math.sqrt(weight)
        back = width * u / (u + slater)
        left = constraint_lipschitz * width / (t + 1) ** 2 if several else 0.0
        move = (longest + 2 * back) ** 2 if several else longest**2 + back**2
        weight = max(rate, 1 / (t + 1))
        v = 2 * margin + bend * move / 2 + left
        u = min(v, (1 - weight) * (3 * bend * move / 8 + left) + weight * (v + unit))
        bias = (1 - weight) * (bias + bend * move / 8)
        total += v
    return total


@formula
def averaged_block_violation(
    *,
    horizon: Count,
    block: Count,
    sigma: NonNegative,
    constraint_count: Count,
    violation: NonNegative,
) -> float:
    """Violation in blocks of B rounds: B (2 N margin + V_N), N = ceil(T / B), margin = sigma
    sqrt(2 ln(m T^2) / B), V_N = `violation` being H1's bound over N rounds (N3)."""
    blocks = -(-horizon // block)
    margin = averaged_margin(
        sigma=sigma, horizon=horizon, constraint_count=constraint_count, rate=1 / block
    )
    return block * (2 * blocks * margin + violation)


_OURS = "docs/theory.md, Noise"
_COST = (
    "m constraint values, m vector-Jacobian products, projections on the domain and all "
    "estimated rows"
)
_ASSUMES = (
    "convex losses",
    "constraints that are the same in every round, observed with zero-mean errors",
)

CARDS = (
    Card(
        "averaged",
        Averaged.tuned,
        "Averaged rows",
        f"{_OURS}, N1",
        assumptions=(*_ASSUMES, "affine constraints"),
        cost=_COST,
        needs=("loss_lipschitz", "constraint_smoothness"),
        fixed_constraints=True,
        affine_constraints=True,
        separate=True,
        feedback=("full", "noisy", "batched"),
        growth={"regret": ROOT, "violation": Growth("sqrt(T log T)", 0.5)},
    ),
    Card(
        "averaged-smooth",
        partial(Averaged.tuned, rows="smooth"),
        "Averaged rows, smooth",
        f"{_OURS}, N2",
        assumptions=(*_ASSUMES, "smooth constraints with exact gradients", "Slater's condition"),
        cost=_COST,
        needs=("loss_lipschitz", "constraint_smoothness", "slater"),
        fixed_constraints=True,
        slater=True,
        separate=True,
        feedback=("full", "noisy"),
        growth={"regret": ROOT, "violation": Growth("T^(2/3) sqrt(log T)", 2 / 3)},
    ),
    Card(
        "averaged-blocks",
        partial(Averaged.tuned, rows="convex"),
        "Averaged rows, blocks",
        f"{_OURS}, N3",
        assumptions=(*_ASSUMES, "exact gradients of the constraints"),
        cost=_COST,
        needs=("loss_lipschitz",),
        fixed_constraints=True,
        separate=True,
        feedback=("full", "noisy"),
        growth={"regret": Growth("T^(2/3)", 2 / 3), "violation": Growth("T^(5/6)", 5 / 6)},
    ),
)

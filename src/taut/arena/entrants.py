"""Methods that take part in the arena only: classics of a special setting, and variants that boards
lack.

They are compiled like the learners of `taut.LEARNERS`, are built from cards, and have their theorem
or none. They are not in the registry, because they do not keep constraints, or apply to one kind of
stream only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import arguments
from ..jaxpr.maxima import entry_of_largest
from ..learners.base import Learner, State, first_round, learner_dataclass
from ..learners.card import Card, Growth
from ..learners.dual_mirror import NEEDS as BUDGET_NEEDS, BudgetState, DualMirror
from ..learners.guarantee import Guarantee, Setting
from ..learners.half_space import HalfSpace
from ..learners.half_space.announced import rows_at
from ..learners.half_space.projection import exact_projection, of_flat_points
from ..learners.schedules import check_positive
from ..learners.step_experts import StepExperts
from ..problem.constants import Constants
from ..problem.domains import Domain, Simplex
from ..problem.rounds import Round

if TYPE_CHECKING:
    from ..problem.problem import Problem


IGNORES = "the method does not look at the constraints"
EXPERTS = 9
"""The smallest number of experts of `UniversalExperts`, enough for 32,768 rounds."""
STEPS = 60
"""Accelerated steps of the projection in the norm of a matrix."""


def _on_simplex(domain: Domain | None, name: str) -> int:
    """The number of entries of a decision; an error for other domains than a simplex."""
    if not isinstance(domain, Simplex):
        raise ValueError(f"domain: {name} plays on a simplex only")
    return int(domain.centre.shape[0])


@learner_dataclass
class ExponentiatedGradient(Learner):
    r"""x_{t+1} ~ x_t exp(-eta p_t) on the simplex, with p_t the gradient of the loss at x_t.

    Guarantee: for eta = sqrt(2 ln(d) / T) / G_f and equal weights at the start, the regret against
    every point of the simplex is at most G_f sqrt(2 T ln d). Constraints are ignored.

    Arguments:
        eta: the step.
        size: d, the number of weights.

    Reference: Kivinen & Warmuth, Information and Computation 132, 1997; for portfolios Helmbold,
    Schapire, Singer & Warmuth, Mathematical Finance 8, 1998.
    """

    eta: Any
    size: Any

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)
        check_positive("size", self.size)

    @classmethod
    def tuned(
        cls, constants: Constants, horizon: int, domain: Domain | None = None
    ) -> ExponentiatedGradient:
        """Return the step of the theorem."""
        size = _on_simplex(domain, "exponentiated gradient")
        (slope,) = constants.need("loss_lipschitz")
        horizon = arguments.count("horizon", horizon)
        return cls(math.sqrt(2 * math.log(size) / horizon) / slope, float(size))

    def init(self, x1: jax.Array, count: int) -> State:
        """Start at x1."""
        return State(x1, first_round())

    def step(self, state: State, round: Round) -> State:
        """Multiply the weights and divide by their sum."""
        x, t = state
        push = jnp.asarray(self.eta, x.dtype) * round.gradient(x)
        weights = x * jnp.exp(jnp.min(push) - push)
        return State(weights / jnp.sum(weights), t + 1)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield ln(d) / eta + eta G_f^2 T / 2, for equal weights at the start."""
        source = "Kivinen & Warmuth 1997"
        slope, eta = setting.constants.loss_lipschitz, float(self.eta)
        if slope is None:
            yield Guarantee.none("regret", source, "loss_lipschitz (G_f) is unknown")
        else:
            bound = math.log(float(self.size)) / eta + eta * float(slope) ** 2 * horizon / 2
            yield Guarantee("regret", bound, source)
        yield Guarantee.none("violation", source, IGNORES)


class NewtonState(NamedTuple):
    """The state of the online Newton step."""

    x: jax.Array
    t: jax.Array
    matrix: jax.Array
    """epsilon I plus the sum of the outer products of gradients."""


@learner_dataclass
class NewtonStep(Learner):
    r"""x_{t+1} = P_A( x_t - A_t^-1 p_t / gamma ), A_t = A_{t-1} + p_t p_t', on the simplex.

    P_A is the projection in the norm of A_t, which is computed by 60 accelerated gradient steps.
    Because of that, no bound is claimed. Constraints are ignored.

    Arguments:
        gamma: the inverse step.
        epsilon: A_0 = epsilon I.

    Reference: Hazan, Agarwal & Kale, Machine Learning 69, 2007; for portfolios Agarwal, Hazan, Kale
    & Schapire, ICML 2006.
    """

    gamma: Any
    epsilon: Any

    def __post_init__(self) -> None:
        check_positive("gamma", self.gamma)
        check_positive("epsilon", self.epsilon)

    @classmethod
    def tuned(cls, constants: Constants, domain: Domain | None = None) -> NewtonStep:
        """gamma = min(1 / (4 G_f D), 1) / 2 and epsilon = 1 / (gamma D)^2, as for losses whose
        exponential is concave with parameter 1."""
        _on_simplex(domain, "the online Newton step")
        (slope,) = constants.need("loss_lipschitz")
        across = math.sqrt(2.0)
        gamma = min(1 / (4 * float(slope) * across), 1.0) / 2
        return cls(gamma, 1 / (gamma * across) ** 2)

    def init(self, x1: jax.Array, count: int) -> NewtonState:
        """Start at x1 with A_0."""
        matrix = jnp.asarray(self.epsilon, x1.dtype) * jnp.eye(x1.shape[0], dtype=x1.dtype)
        return NewtonState(x1, first_round(), matrix)

    def step(self, state: NewtonState, round: Round) -> NewtonState:
        """Take the Newton step, then project in the norm of the matrix."""
        x, t, matrix = state
        slope = round.gradient(x)
        matrix = matrix + slope[:, None] * slope[None, :]
        wanted = x - jnp.linalg.solve(matrix, slope) / jnp.asarray(self.gamma, x.dtype)
        length = 1 / jnp.trace(matrix)  # at most the inverse of the largest eigenvalue

        def descend(k: Any, carried: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            point, ahead = carried
            new = round.project(ahead - length * (matrix @ (ahead - wanted)))
            momentum = jnp.asarray(k, x.dtype) / (jnp.asarray(k, x.dtype) + 3)
            return new, new + momentum * (new - point)

        point, _ = jax.lax.fori_loop(0, STEPS, descend, (x, x))
        return NewtonState(point, t + 1, matrix)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield why there is no bound."""
        source = "Hazan, Agarwal & Kale 2007"
        yield Guarantee.none("regret", source, "the projection is approximate")
        yield Guarantee.none("violation", source, IGNORES)


@learner_dataclass
class RemainingBudget(DualMirror):
    r"""Dual mirror descent whose prices follow what is left:

        mu_{t+1} = [mu_t + eta (c_t - rho_t)]_+

    where rho_t is the remaining budget over the remaining rounds.

    Budgets are never exceeded, as for `DualMirror`. No bound on the regret is claimed for the
    changed prices.

    Arguments:
        eta: the step of the prices.
        horizon: T, the number of rounds that the budget is for.
    """

    def step(self, state: BudgetState, round: Round) -> BudgetState:
        """Raise the prices of what was wanted beyond the remaining budget of a round."""
        x, t, price, used, wanted = state
        left = jnp.maximum(jnp.asarray(self.horizon, x.dtype) - t.astype(x.dtype) + 1, 1)
        over = wanted + used / left  # used is negative where the budget was spared so far
        price = jnp.maximum(price + jnp.asarray(self.eta, x.dtype) * over, 0)
        return BudgetState(x, t + 1, price, used + round.constraints(x).values, wanted)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield that the budget holds; nothing is claimed about regret."""
        for guarantee in super().guarantees(setting, horizon):
            if guarantee.quantity == "excess":
                yield guarantee
        reason = "no theorem about prices that follow the remaining budget is claimed"
        yield Guarantee.none("regret", "remaining budget", reason)


@learner_dataclass
class UniversalExperts(StepExperts):
    r"""Experts over steps on the surrogate losses

        f_t(x) + 2 G_f dist(x, X_t) + (G_f / G_g) [g_t(x)]_+,    X_t the feasible set of round t.

    All experts get the gradient of the surrogate at x_t, which is at most 4 G_f long. Guarantee,
    for every sequence u_t in X_t with the path length P: the regret is at most a number B(P) of
    order sqrt(T (1 + P)). If u_t is the best decision of X_t for f_t, then f_t(x_t) + G_f
    dist(x_t, X_t) >= f_t(u_t), so the clipped violation is at most (G_g / G_f) B(P). No decision
    has to be feasible in all rounds.

    The distance is that to the linear models of all rows at x_t inside of the domain, which is
    exact for affine rows. For curved rows it is too small, and no bound on the violation is
    claimed.

    Arguments:
        eta, rate, penalty, count, cuts: as for `StepExperts`; the penalty is 3 G_f / G_g, so that
            G_f + penalty G_g is the length of a gradient.
        slope: G_f.
        diameter: D.

    Reference: Supantha & Sinha, ALT 2026 (the surrogate); Zhang, Lu & Zhou, NeurIPS 2018 (experts).
    """

    slope: Any = 1.0
    diameter: Any = 1.0

    @property
    def side_by_side(self) -> bool:
        """The projection takes as long as that of the slowest seed."""
        return False

    @classmethod
    def universal(
        cls, constants: Constants, horizon: int, domain: Domain | None = None
    ) -> UniversalExperts:
        """Return the experts with the steps of the theorem for gradients of length 4 G_f.

        There are at least `EXPERTS` of them, so that programs are compiled once for all horizons.
        """
        loss_slope, slope = constants.need("loss_lipschitz", "constraint_lipschitz")
        made = StepExperts.tuned(
            constants, horizon, domain, penalty=3 * loss_slope / slope, cuts=False
        )
        across = 2 * constants.need("radius")[0] if domain is None else float(domain.diameter)
        count = max(made.count, EXPERTS)
        rate = math.sqrt(8 * math.log(count) / horizon) / (4 * loss_slope * across)
        return cls(made.eta, rate, made.penalty, count, False, loss_slope, across)

    def push(self, x: jax.Array, round: Round) -> jax.Array:
        """Return the gradient of the surrogate at x."""
        values, pull, _ = round.constraints(x)
        t = first_round()

        def outside() -> jax.Array:
            rows = rows_at(x, round)  # type: ignore[arg-type]  # it reads the constraints only
            ages = jnp.full(rows.offsets.shape, t)
            across = jnp.asarray(self.diameter, x.dtype)
            projection = exact_projection(
                of_flat_points(round.project, x.shape),
                x.reshape(-1),
                rows.normals,
                rows.offsets,
                ages,
                t,
                across,
            )
            away = x - projection.point.reshape(x.shape)
            length = jnp.sqrt(jnp.sum(away**2))
            unit = away / jnp.where(length > 0, length, 1)
            steepest = pull(entry_of_largest(values))
            price = jnp.asarray(self.penalty, x.dtype) / 3
            return 2 * jnp.asarray(self.slope, x.dtype) * unit + price * steepest

        further = jax.lax.cond(jnp.max(values) > 0, outside, lambda: jnp.zeros_like(x))
        return round.gradient(x) + further

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the bound on regret, and that on the violation if the path length is known."""
        source = "Supantha & Sinha 2026, distance surrogate"
        for guarantee in super().guarantees(setting, horizon):
            if guarantee.quantity != "regret":
                continue
            yield replace(guarantee, source=source)
            known = setting.constants
            if known.constraint_smoothness != 0:
                why = "the rows are not known to be affine, so the distance is not exact"
            elif setting.path_length is None:
                why = "the path length of the best decision of each round is not known"
            elif guarantee.bound is None:
                why = guarantee.reason
            else:
                ratio = 3 / float(self.penalty)  # G_g / G_f
                yield guarantee.become("violation", ratio * guarantee.bound, source)
                continue
            yield Guarantee.none("violation", source, why)


def all_cuts(
    domain: Domain | None = None,
    constants: Constants | None = None,
    problem: Problem | None = None,
) -> HalfSpace:
    """Return the adaptive half-space learner that keeps every cut and projects exactly.

    The violation is O(sqrt(T log T)) with a constant of the dimension, because projections on
    nested sets have a bounded path (Sarkar & Sinha 2026).
    """
    return HalfSpace.adaptive(domain, constants, memory=None, problem=problem)


_SLOPES = ("radius", "loss_lipschitz", "constraint_lipschitz")
CARDS = (
    Card(
        "exponentiated-gradient",
        ExponentiatedGradient.tuned,
        "Exponentiated gradient",
        "Kivinen & Warmuth 1997; Helmbold, Schapire, Singer & Warmuth 1998",
        assumptions=("convex losses", "a simplex as domain", "constraints are ignored"),
        oracles=frozenset({"gradient"}),
        cost="d exponentials",
        needs=("loss_lipschitz",),
        growth={"regret": Growth("sqrt(T log d)", 0.5)},
    ),
    Card(
        "online-newton-step",
        NewtonStep.tuned,
        "Online Newton step",
        "Agarwal, Hazan, Kale & Schapire, ICML 2006",
        assumptions=("exp-concave losses", "a simplex as domain", "constraints are ignored"),
        oracles=frozenset({"gradient", "project"}),
        cost=f"1 linear system, {STEPS} projections",
        needs=("loss_lipschitz",),
    ),
    Card(
        "dual-mirror-remaining",
        RemainingBudget.tuned,
        "Dual mirror descent, remaining budget",
        "Balseiro, Lu & Mirrokni 2023, with prices that follow the remaining budget over the "
        "remaining rounds",
        assumptions=("linear losses and constraints", "a decision that earns and uses nothing"),
        oracles=frozenset({"gradient", "values", "pullback", "minimise"}),
        cost="2 linear minimisations over the domain, 3 m constraint values, 2 vector-Jacobian "
        "products",
        needs=BUDGET_NEEDS,
        needs_horizon=True,
        request_first=True,
        separate=True,
        growth={"excess": Growth("0", 0.0)},
    ),
    Card(
        "universal-experts",
        UniversalExperts.universal,
        "Experts on the distance surrogate",
        "Supantha & Sinha, ALT 2026, with the experts of Zhang, Lu & Zhou, NeurIPS 2018",
        assumptions=(
            "convex losses and constraints",
            "the feasible set of a round can be projected on; here, affine rows",
        ),
        cost=f"{EXPERTS} projections, m constraint values, m + 1 vector-Jacobian products, 1 "
        "projection onto the feasible set of the round",
        needs=_SLOPES,
        needs_horizon=True,
        separate=True,
        growth={
            "regret": Growth("sqrt T", 0.5),
            "violation": Growth(
                "sqrt(T (1 + P))",
                0.5,
                "rows are affine; P is the path length of the best decision of each round",
            ),
        },
    ),
    Card(
        "half-space-all-cuts",
        all_cuts,
        "Half-space, all cuts kept",
        "docs/theory.md, Beyond the paper, after Sarkar & Sinha, arXiv 2605.21107",
        cost="1 exact projection onto all cuts and the domain, m constraint values, 1 "
        "vector-Jacobian product",
        growth={
            "regret": Growth("sqrt T", 0.5),
            "violation": Growth("sqrt(T log T)", 0.5, "the dimension is fixed"),
        },
    ),
)
ENTRANTS = {card.name: card for card in CARDS}
"""The cards by name."""

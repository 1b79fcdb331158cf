"""Methods that take part in the arena only: classics of a special setting, and variants that boards
lack.

They are compiled like the learners of `taut.LEARNERS`, are built from cards, and have their theorem
or none. They are not in the registry, because they do not keep constraints, or apply to one kind of
stream only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import arguments
from ..learners.base import Guarantee, Learner, Setting, State, first_round, learner_dataclass
from ..learners.card import Card, Growth
from ..learners.dual_mirror import NEEDS as BUDGET_NEEDS
from ..learners.dual_mirror import BudgetState, DualMirror
from ..learners.schedules import check_positive
from ..learners.step_experts import StepExperts
from ..problem.constants import Constants
from ..problem.domains import Domain, Simplex
from ..problem.rounds import Round

__all__ = ["ENTRANTS", "ExponentiatedGradient", "NewtonStep", "RemainingBudget", "experts"]

IGNORES = "the method does not look at the constraints"
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
        for one in super().guarantees(setting, horizon):
            if one.quantity == "excess":
                yield one
        reason = "no theorem about prices that follow the remaining budget is claimed"
        yield Guarantee.none("regret", "remaining budget", reason)


def experts(constants: Constants, horizon: int, domain: Domain | None = None) -> StepExperts:
    """Return experts over steps on the exact penalty f_t + mu [g_t]_+, without cuts.

    Against comparators u_t that are feasible in their own round and move by P in total, regret plus
    mu times the violation is O(sqrt(T (1 + P))).
    """
    return StepExperts.tuned(constants, horizon, domain, cuts=False)


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
        "step-experts-penalty",
        experts,
        "Experts over steps, exact penalty",
        "Zhang, Lu & Zhou, NeurIPS 2018, on the exact penalty; after Supantha & Sinha, ALT 2026",
        cost="log2(T) / 2 + 1 projections, m constraint values, 1 vector-Jacobian product",
        needs=_SLOPES,
        needs_horizon=True,
        growth={"regret": Growth("sqrt T", 0.5)},
    ),
)
ENTRANTS = {card.name: card for card in CARDS}
"""The cards by name."""

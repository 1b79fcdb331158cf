r"""Prices for budgets: the request of a round is seen before the decision, and consumption must
stay within rho T in total.

    x_t = argmin_{x in B} f_t(x) + mu_t.g_t(x)
        g_t(x) = c_t(x) - rho, the consumption beyond the budget of a round
    mu_{t+1} = [ mu_t + eta g_t(x_t) ]_+,   mu_1 = 0

Losses and constraints are linear in x, so the minimiser is a vertex of the domain, for example one
of several actions if the domain is a simplex. One decision uses nothing, as a first action with
zero reward and consumption. It is played instead of x_t when serving x_t would exceed the budget of
the whole horizon; the price still follows the consumption that was wanted.

Let rewards r_t = -f_t and consumptions c_t, not negative, be drawn independently from one
distribution, and D(mu) = rho.mu + E max_x (r - mu.c). By weak duality the expected best offline
reward is at most T D(mu) for every mu >= 0. Let tau be the first round in which the budget left of
some resource j is below its largest consumption. Before tau every decision is served and earns, in
expectation, D(mu_t) - mu_t.(rho - c_t(x_t)); after it, rewards are not negative. The steps of mu
give

    sum_{t<tau} mu_t.(rho - c_t(x_t))
        <= sum_{t<tau} mu.(rho - c_t(x_t)) + |mu|^2 / (2 eta) + eta m G^2 T / 2,   G >= |g|,

for every mu >= 0. Take mu = 0 if there is no tau; otherwise mu_j = F / rho_j, all other entries
zero: resource j has used more than rho_j T minus its largest consumption, at most G + rho_j, so the
first sum is at most -(T - tau + 1) F + F (G + rho_j) / rho_j.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .. import arguments
from ..problem.constants import Constants
from ..problem.rounds import Round
from .base import Learner, first_round, learner_dataclass
from .card import NONE, Card, Growth
from .guarantee import Assumes, Guarantee, Setting
from .theorem import Count, NonNegative, Positive, formula

NEEDS = ("loss_range", "constraint_range", "constraint_count", "slater")
RESTS = (Assumes.LINEAR, Assumes.IDLE)


class BudgetState(NamedTuple):
    """The state of a learner with prices and budgets."""

    x: jax.Array
    """The decision of the round; before the first request, the first decision, which is not
    played."""
    t: jax.Array
    multiplier: jax.Array
    """mu_t, the prices."""
    used: jax.Array
    """The sum of g(x_s) over the rounds before t."""
    wanted: jax.Array
    """g_t at the decision that the prices favour, whether it is served or not."""


@learner_dataclass
class DualMirror(Learner):
    r"""x_t = argmin_B f_t + mu_t.g_t after the request is seen;
        mu_{t+1} = [mu_t + eta g_t(x_t)]_+;   budgets are never exceeded.

    Guarantee: sum_t g_t(x_t) <= 0 in every row over the horizon. If requests are independent and
    identically distributed, the expected regret against the best decisions in hindsight, chosen
    anew for every request, is O(sqrt(T)).

    Arguments:
        eta: the step of the prices.
        horizon: T, the number of rounds that the budget rho T is for.

    Reference: Balseiro, Lu & Mirrokni, "The best of many worlds: dual mirror descent for online
    allocation problems", Operations Research 2023, with the Euclidean step.

    >>> import jax.numpy as jnp, numpy as np, taut
    >>> shop = taut.Problem(
    ...     lambda x, z: -z["reward"] @ x, lambda x, z: z["use"] @ x - 0.5, taut.Simplex(3)
    ... )
    >>> player = taut.Player(taut.learners.DualMirror(eta=0.5, horizon=10), shop, count=1)
    >>> player.decide(
    ...     {"reward": np.array([0.0, 1.0, 0.6]), "use": np.array([0.0, 1.0, 0.3])}
    ... ).tolist()
    [0.0, 1.0, 0.0]
    >>> player.observe()
    """

    eta: Positive
    horizon: Positive

    @classmethod
    def tuned(cls, constants: Constants, horizon: int) -> DualMirror:
        r"""eta = F / (rho G sqrt(m T)), with F the range of the losses, G a bound on |g| and rho
        the smallest budget per round.

        rho is the slack of the decision that uses nothing, so it is the Slater constant of the
        problem.
        """
        reward, height, count, rate = constants.positive(*NEEDS)
        horizon = arguments.count("horizon", horizon)
        return cls(reward / (rate * height * math.sqrt(count * horizon)), float(horizon))

    def init(self, x1: jax.Array, count: int) -> BudgetState:
        """All prices are zero."""
        zero = jnp.zeros((count,), x1.dtype)
        return BudgetState(x1, first_round(), zero, zero, zero)

    def decide(self, state: BudgetState, round: Round) -> BudgetState:
        """Answer the request: the decision that the prices favour, or the one that uses nothing if
        the budget is too small."""
        x, t, price, used, _ = state
        _, pull, _ = round.constraints(x)
        favoured = round.minimise(round.gradient(x) + pull(price))
        idle = round.minimise(pull(jnp.ones_like(price)))
        wanted, saved = round.constraints(favoured).values, round.constraints(idle).values
        # Rounds after this one.
        left = jnp.maximum(jnp.asarray(self.horizon, x.dtype) - t.astype(x.dtype), 0)
        fits = ~jnp.any(used + wanted + left * saved > 0)  # NaN is played, and noticed
        return state._replace(x=jnp.where(fits, favoured, idle), wanted=wanted)

    def step(self, state: BudgetState, round: Round) -> BudgetState:
        """Raise the prices of what was wanted beyond the budget of a round, and count what was
        used."""
        x, t, price, used, wanted = state
        price = jnp.maximum(price + jnp.asarray(self.eta, x.dtype) * wanted, 0)
        return BudgetState(x, t + 1, price, used + round.constraints(x).values, wanted)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield that the budget holds, and the expected regret for i.i.d. requests."""
        source = "hard stop at the budget"
        if horizon < float(self.horizon):
            why = (
                f"the budget is for {float(self.horizon):g} rounds; after {horizon} it may have "
                "been used already"
            )
            yield Guarantee.none("excess", source, why)
            yield Guarantee.none(
                "regret", "Balseiro, Lu & Mirrokni", f"the budget is not for {horizon} rounds"
            )
            return
        yield Guarantee("excess", 0.0, source, tuple(str(assumption) for assumption in RESTS))
        if horizon > float(self.horizon):
            yield Guarantee.none(
                "regret", "Balseiro, Lu & Mirrokni", f"the budget is not for {horizon} rounds"
            )
            return
        yield setting.evaluate(
            "regret",
            dual_mirror_expected_regret,
            "Balseiro, Lu & Mirrokni",
            (),
            (*RESTS, Assumes.STOCHASTIC),
            expected=True,
            horizon=horizon,
            eta=float(self.eta),
        )

    def multiplier(self, state: BudgetState, round: Round) -> jax.Array:
        """Return mu_t."""
        return state.multiplier


@formula
def dual_mirror_expected_regret(
    *,
    horizon: Count,
    eta: Positive,
    loss_range: NonNegative,
    constraint_range: NonNegative,
    constraint_count: Count,
    slater: Positive,
) -> float:
    r"""Expected regret against the best offline decisions: F (G + rho) / rho + (F / rho)^2 / (2
    eta) + eta m G^2 T / 2.

    F = `loss_range` bounds the reward of a round, G = `constraint_range` bounds |c - rho|, and rho
    = `slater` is the smallest budget per round. Decisions that are chosen anew in every round, with
    the whole stream known, earn at least as much as a fixed one.
    """
    price, height = loss_range / slater, constraint_range
    spread = eta * constraint_count * height**2 * horizon / 2
    return price * (height + slater) + price**2 / (2 * eta) + spread


CARDS = (
    Card(
        "dual-mirror",
        DualMirror.tuned,
        "Dual mirror descent",
        "Balseiro, Lu & Mirrokni, Operations Research 2023",
        assumptions=("linear losses and constraints", "a decision that earns and uses nothing"),
        oracles=frozenset({"gradient", "values", "pullback", "minimise"}),
        cost="2 linear minimisations over the domain, 3 m constraint values, 2 vector-Jacobian "
        "products",
        needs=NEEDS,
        request_first=True,
        separate=True,
        growth={
            "regret": Growth(
                "sqrt T",
                0.5,
                "requests are independent and identically distributed, in expectation",
            ),
            "excess": NONE,
        },
    ),
)

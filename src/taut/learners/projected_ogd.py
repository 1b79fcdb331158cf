r"""Projected online gradient descent, for feasible sets onto which a projection is cheap.

    x_{t+1} = Pi_S( x_t - eta_t df_t(x_t) )

Both results sum 2 eta_t df_t(x_t).(x_t - x) <= b_t - b_{t+1} + eta_t^2 G_f^2, b_t = |x_t - x|^2.
Only the distance of x_1 to the comparator (`radius`) and between two feasible decisions
(`diameter`) enter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import jax

from .. import arguments
from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.rounds import Round
from .base import Learner, State, first_round, learner_dataclass
from .card import LOGARITHM, ROOT, Card
from .guarantee import QUANTITIES, Assumes, Guarantee, Setting
from .protocols import StepsFromDecision
from .schedules import Constant, Inverse, InverseRoot, Schedule
from .theorem import Count, NonNegative, Positive, Power, Steps, diameter_of, formula


@learner_dataclass
class ProjectedOGD(StepsFromDecision, Learner):
    r"""Take a gradient step and project onto the feasible set S, exactly.

        x_{t+1} = Pi_S( x_t - eta_t df_t(x_t) )

    Guarantee: no violation in any round, because every decision lies in S. The constraint functions
    are not used.

    Arguments:
        eta: the step, a number or a schedule.
        feasible: S, a domain. The caller asserts that S is the set where g <= 0; violations of g
            are measured all the same.

    References: Zinkevich, ICML 2003; Hazan, Agarwal & Kale, Machine Learning 69 (2007).

    >>> import taut
    >>> known = taut.Constants(radius=1.0, loss_lipschitz=1.0)
    >>> taut.ProjectedOGD.zinkevich(known, taut.L1Ball(1.0, shape=2)).eta
    InverseRoot(scale=2.0, shift=0.0)
    """

    eta: Schedule
    feasible: Domain

    def __post_init__(self) -> None:
        super().__post_init__()
        _checked(self.feasible)

    @classmethod
    def zinkevich(
        cls, constants: Constants, feasible: Domain, horizon: int | None = None
    ) -> ProjectedOGD:
        r"""eta_t = D / (G_f sqrt(t)), D the diameter of S: regret <= 1.5 G_f D sqrt(T) for every T.

        With a `horizon`, the constant step D / (G_f sqrt(T)): regret <= G_f D sqrt(T).
        """
        (slope,) = constants.positive("loss_lipschitz")
        scale = float(_checked(feasible).diameter) / slope
        if horizon is None:
            return cls(InverseRoot(scale), feasible)
        return cls(Constant(scale / math.sqrt(arguments.count("horizon", horizon))), feasible)

    @classmethod
    def strongly_convex(cls, constants: Constants, feasible: Domain) -> ProjectedOGD:
        r"""eta_t = 1 / (H t) (Hazan et al. 2007): regret <= G_f^2 / (2 H) (1 + ln T)."""
        (modulus,) = constants.need("strong_convexity")
        return cls(Inverse(1 / modulus), _checked(feasible))

    def init(self, x1: jax.Array, count: int) -> State:
        """Return the state that plays the feasible point nearest to x1 first."""
        return State(self.feasible.project(x1), first_round())

    def step(self, state: State, round: Round) -> State:
        """Take one gradient step and project onto S."""
        x, t = state
        return State(self.feasible.project(x - self.eta(t, x.dtype) * round.gradient(x)), t + 1)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the regret bound of Zinkevich or of Hazan et al.; there is no violation if S is the
        feasible set."""
        for quantity in QUANTITIES[1:]:
            yield Guarantee(
                quantity, 0.0, "projection onto the feasible set", (str(Assumes.PROJECTION),)
            )
        law, across = self.eta.power_law(), float(self.feasible.diameter)
        rests, source = (Assumes.CONVEX_LOSSES, Assumes.PROJECTION), "Zinkevich, Theorem 1"
        if law is None or law.shift != 0:
            why = f"a step eta / t^beta is needed; got {self.eta!r}"
            yield Guarantee.none("regret", source, why)
            return
        if law.beta < 1:
            fixed = setting.evaluate(
                "regret",
                projected_regret,
                source,
                (),
                rests,
                horizon=horizon,
                eta=law.scale,
                beta=law.beta,
                radius=across,
                diameter=across,
            )
            yield setting.along_path(fixed, law.scale / horizon**law.beta, across)
            return
        source, modulus = "Hazan et al., Theorem 1", 1 / law.scale
        why = f"a step eta / t^beta with beta <= 1 is needed; got {self.eta!r}"
        if law.beta == 1:
            why = setting.less_convex_than(modulus)
        if why:
            yield Guarantee.none("regret", source, why)
            return
        fixed = setting.evaluate(
            "regret",
            hazan_regret,
            source,
            (),
            (*rests, "strong_convexity"),
            horizon=horizon,
            strong_convexity=modulus,
        )
        yield setting.along_path(fixed, law.scale / max(horizon - 1, 1), across)


def _checked(feasible: Domain) -> Domain:
    if not isinstance(feasible, Domain):
        raise TypeError(
            f"feasible: got {feasible!r}; expected a taut domain with an exact projection"
        )
    return feasible


@formula
def projected_regret(
    *,
    horizon: Count,
    eta: Positive,
    radius: Positive,
    loss_lipschitz: NonNegative,
    beta: Power = 0.0,
    diameter: Positive | None = None,
) -> float:
    r"""Regret for any step eta_t = eta / t^beta, beta in [0, 1): Zinkevich's inequality without
    tuning.

    (D^2 / eta_T - (D^2 - R^2) / eta_1) / 2 + (G_f^2 / 2) sum_t eta_t; with a fixed step (beta = 0),
    R^2 / (2 eta) + eta T G_f^2 / 2. D = `diameter`, 2 R where it is not given. With R = D and the
    steps D / (G_f sqrt(t)) it is at most 1.5 G_f D sqrt(T) for every T; with the fixed step D /
    (G_f sqrt(T)), G_f D sqrt(T).
    """
    steps, across = Steps(eta, beta), diameter_of(diameter, radius)
    return steps.distance_term(horizon, radius, across) + loss_lipschitz**2 * steps.sum(horizon) / 2


@formula
def hazan_regret(
    *, horizon: Count, strong_convexity: Positive, loss_lipschitz: NonNegative
) -> float:
    """Hazan, Agarwal and Kale (2007), H-strongly convex losses, eta_t = 1 / (H t): (G_f^2 / (2
    H))(1 + ln T).

    Strong convexity adds -H b_t; with these steps the coefficients of every b_t vanish, the first
    included, so no distance enters; the steps sum to at most (1 + ln T) / H.
    """
    return loss_lipschitz**2 / (2 * strong_convexity) * (1 + math.log(horizon))


_EXACT = ("convex losses", "the projection onto the feasible set is exact")

CARDS = (
    Card(
        "projected-ogd",
        ProjectedOGD.zinkevich,
        "Projected OGD",
        "Zinkevich, ICML 2003",
        assumptions=_EXACT,
        oracles=frozenset({"gradient"}),
        cost="1 projection onto the feasible set",
        needs=("loss_lipschitz",),
        growth={"regret": ROOT},
    ),
    Card(
        "projected-ogd-strong",
        ProjectedOGD.strongly_convex,
        "Projected OGD, strongly convex",
        "Hazan, Agarwal & Kale, Machine Learning 69, 2007",
        "strongly convex",
        ("strongly convex losses", "the projection onto the feasible set is exact"),
        oracles=frozenset({"gradient"}),
        cost="1 projection onto the feasible set",
        needs=("loss_lipschitz", "strong_convexity"),
        growth={"regret": LOGARITHM},
    ),
)

r"""Projected online gradient descent: the gold standard where the feasible set itself is cheap to project on.

x_{t+1} = Pi_S( x_t - eta_t df_t(x_t) )
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax

from .. import arguments
from ..engine import register_dataclass
from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.rounds import Round
from .base import Learner, State, first_round
from .schedules import Constant, Inverse, InverseRoot, Schedule, as_schedule

__all__ = ["ProjectedOGD"]


@register_dataclass
@dataclass(frozen=True)
class ProjectedOGD(Learner):
    r"""x_{t+1} = Pi_S( x_t - eta_t df_t(x_t) ), with an exact projection on the feasible set S.

    Guarantee: no violation in any round, because S is given as a set; the constraints are never asked.

    Arguments:
        eta: the step, a number or a schedule.
        feasible: S, a domain. It is the caller's word that S is where g <= 0; the referee still scores g.

    References: Zinkevich, ICML 2003; Hazan, Agarwal & Kale, Machine Learning 69 (2007).

    >>> import taut
    >>> known = taut.Constants(radius=1.0, loss_lipschitz=1.0)
    >>> taut.ProjectedOGD.zinkevich(known, taut.L1Ball(1.0, shape=2)).eta
    InverseRoot(scale=2.0, shift=0.0)
    """

    eta: Schedule
    feasible: Domain

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", as_schedule("eta", self.eta))
        _checked(self.feasible)

    @classmethod
    def zinkevich(cls, constants: Constants, feasible: Domain, horizon: int | None = None) -> ProjectedOGD:
        r"""eta_t = D / (G_f sqrt(t)), D the diameter of S: regret <= 1.5 G_f D sqrt(T) for every T.

        With a `horizon`, the constant step D / (G_f sqrt(T)): regret <= G_f D sqrt(T).
        """
        (slope,) = constants.need("loss_lipschitz")
        scale = float(_checked(feasible).diameter) / arguments.positive("loss_lipschitz", slope)
        if horizon is None:
            return cls(InverseRoot(scale), feasible)
        return cls(Constant(scale / math.sqrt(arguments.count("horizon", horizon))), feasible)

    @classmethod
    def strongly_convex(cls, constants: Constants, feasible: Domain) -> ProjectedOGD:
        r"""eta_t = 1 / (H t) (Hazan et al. 2007): regret <= G_f^2 / (2 H) (1 + ln T)."""
        (modulus,) = constants.need("strong_convexity")
        return cls(Inverse(1 / modulus), _checked(feasible))

    def init(self, x1: jax.Array, count: int) -> State:
        """Play the feasible point nearest to x1 first."""
        return State(self.feasible.project(x1), first_round())

    def step(self, state: State, round: Round) -> State:
        """One gradient step, projected on S."""
        x, t = state
        return State(self.feasible.project(x - self.eta(t, x.dtype) * round.gradient(x)), t + 1)


def _checked(feasible: Domain) -> Domain:
    if not isinstance(feasible, Domain):
        raise TypeError(f"feasible: got {feasible!r}; expected a taut domain with an exact projection")
    return feasible

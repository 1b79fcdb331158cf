r"""The cost of mixing a learner with advisers by AdaHedge (de Rooij, van Erven, Grunwald & Koolen,
2014; docs/theory.md, C1).

With s_t the range of the experts' losses in round t and S the largest of them, the mixture is
behind its best expert by at most Delta_{T-1} + Delta_T <= sqrt(ln K sum_t s_t^2) + 2 S. Losses with
gradients of at most G_f over a domain of diameter D have s_t <= G_f D.
"""

from __future__ import annotations

import math

from ... import arguments

__all__ = ["advice_regret"]


def advice_regret(*, horizon: int, experts: int, diameter: float, loss_lipschitz: float) -> float:
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
    rounds = arguments.count("horizon", horizon)
    spread = arguments.non_negative("loss_lipschitz", loss_lipschitz) * arguments.positive(
        "diameter", diameter
    )
    return spread * (math.sqrt(rounds * math.log(arguments.count("experts", experts, 2))) + 2)

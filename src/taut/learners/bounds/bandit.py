r"""Gradients estimated from values: expected regret and violation of penalised losses
(docs/theory.md, B1 and B2).

The learner runs gradient descent on l_t = f_t + mu max_i [g_{t,i}]_+, which is G = G_f + mu G_g
Lipschitz, on the domain shrunk towards its centre by the factor 1 - delta / r, r the radius of a
ball around the centre inside the domain. With u uniform on the unit sphere, both estimates have the
gradient of the smoothed loss as their mean:

    two points:   z = (d / (2 delta)) (l_t(x + delta u) - l_t(x - delta u)) u,
        E |z|^2 <= d^2 / (d - 1) G^2   (1 if d = 1),
    one point:   z = (d / delta) l_t(x + delta u) u,   |z| <= (d / delta) max |l_t|.

The first second moment is Poincare's inequality on the sphere, whose constant is 1 / (d - 1).
"""

from __future__ import annotations

import math

from ... import arguments

__all__ = ["bandit_expected_regret", "bandit_expected_violation", "two_point_moment"]


def two_point_moment(*, size: int) -> float:
    """E |z|^2 / G^2 <= d^2 / (d - 1), or 1 for one dimension."""
    d = arguments.count("size", size)
    return 1.0 if d == 1 else d**2 / (d - 1)


def bandit_expected_regret(
    *,
    horizon: int,
    eta: float,
    delta: float,
    inner_radius: float,
    radius: float,
    lipschitz: float,
    second_moment: float,
) -> float:
    r"""Expected regret plus mu times expected violation: R^2 / (2 eta) + eta M T / 2 + 3 delta G T
    + (delta / r) G R T (B1).

    Arguments:
        inner_radius: r.
        lipschitz: G = G_f + mu G_g.
        second_moment: M, a bound on E |z|^2.
    """
    rounds, step = arguments.count("horizon", horizon), arguments.positive("eta", eta)
    away, spread = arguments.positive("radius", radius), arguments.positive("delta", delta)
    slope, room = (
        arguments.non_negative("lipschitz", lipschitz),
        arguments.positive("inner_radius", inner_radius),
    )
    descent = away**2 / (2 * step) + step * second_moment * rounds / 2
    return descent + spread * slope * rounds * (3 + away / room)


def bandit_expected_violation(
    *, horizon: int, regret: float, penalty: float, loss_range: float
) -> float:
    r"""Expected violation: (A + F T) / mu, A being the bound on regret plus mu times violation,
    because regret >= -F T (B1)."""
    rounds = arguments.count("horizon", horizon)
    worst = (
        arguments.non_negative("regret", regret)
        + arguments.non_negative("loss_range", loss_range) * rounds
    )
    return worst / arguments.positive("penalty", penalty) if math.isfinite(worst) else math.inf

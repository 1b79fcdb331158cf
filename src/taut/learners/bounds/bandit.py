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

from .theorem import Count, NonNegative, Positive, formula

__all__ = ["bandit_expected_regret", "bandit_expected_violation", "two_point_moment"]


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

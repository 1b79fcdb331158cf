"""Blocks that the bounds share: sums of step sizes, and the two ways of splitting the squared norm
of a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ... import arguments
from .theorem import OutsideTheorem

__all__ = ["FORMS", "Split", "Steps", "diameter_of", "exact_difference", "range_of_losses"]

FORMS = ("paper", "scale-aware", "sharp")


@dataclass(frozen=True)
class Steps:
    r"""The step sizes eta_t = scale / (t + offset)^exponent, t = 1, 2, ..., with an upper bound on
    their sums.

    A decreasing convex function lies below its average over an interval centred at t
    (Hermite-Hadamard), hence sum_{t=1}^T (t + o)^-p <= integral of s^-p from o + 1/2 to o + T +
    1/2.
    """

    scale: float
    exponent: float = 0.0
    offset: int = 0

    def at(self, t: int) -> float:
        """The step size of round t."""
        return self.scale / math.pow(t + self.offset, self.exponent)

    def sum(self, horizon: int) -> float:
        """At least the sum of eta_t over t = 1..horizon."""
        return self.scale * self._power_sum(horizon, self.exponent)

    def sum_of_squares(self, horizon: int) -> float:
        """At least the sum of eta_t^2 over t = 1..horizon."""
        return self.scale**2 * self._power_sum(horizon, 2 * self.exponent)

    def _power_sum(self, horizon: int, power: float) -> float:
        if horizon <= 0 or power == 0:
            return float(max(horizon, 0))
        low = self.offset + 0.5
        logarithm, rest = math.log1p(horizon / low), 1 - power
        if rest == 0:
            return logarithm
        # (high^rest - low^rest) / rest
        return math.pow(low, rest) * math.expm1(rest * logarithm) / rest

    def distance_term(self, horizon: int, radius: float, diameter: float) -> float:
        """At least sum_t (b_t - b_{t+1}) / (2 eta_t), b_1 <= radius^2 and b_t <= diameter^2, steps
        not increasing.

        Abel summation: b_1 / (2 eta_1) + sum_{t>1} b_t (1/eta_t - 1/eta_{t-1}) / 2.
        """
        later = math.expm1(self.exponent * math.log((horizon + self.offset) / (1 + self.offset)))
        return (radius**2 + diameter**2 * later) / (2 * self.at(1))


@dataclass(frozen=True)
class Split:
    r"""How the squared norm of a Clipped-OGD step is split into a loss part and a constraint part.

    With a = the loss gradient, b = sum_i lambda_i dg_i, |b|^2 <= m G_g^2 |lambda|^2 and any c > 0

        |a + b|^2 <= (1 + 1/c) G_f^2 + (1 + c) m G_g^2 |lambda|^2,

    so the loss is charged A = 1 + 1/c times and the slack left for the violation is
    alpha = 1 - (1 + c) k, k = m G_g^2 / (2 sigma). The paper's choice is c = 1/m, giving A = m + 1
    and alpha = 1 - (m+1) G_g^2 / (2 sigma), with G_f = G_g = G = max(G_f, G_g) in the form "paper".
    The form "sharp" takes the best c for each result: the learner does not depend on c, so neither
    must its guarantee.
    """

    form: str
    sigma: float
    loss_lipschitz: float
    constraint_lipschitz: float
    constraint_count: int

    @classmethod
    def checked(
        cls,
        form: str,
        sigma: float,
        loss_lipschitz: float,
        constraint_lipschitz: float,
        constraint_count: int,
    ) -> Split:
        """The split, refused where the theorem says nothing about its numbers."""
        form, count = arguments.one_of("form", form, FORMS), constraint_count
        loss, constraint = loss_lipschitz, constraint_lipschitz
        if form == "paper":
            loss = constraint = max(loss, constraint)
        factor, name = (count, "m") if form == "sharp" else (count + 1, "(m + 1)")
        least = factor * constraint**2 / 2
        if sigma <= least:
            raise OutsideTheorem(
                f"sigma: got {sigma:g}; expected more than {name} G^2 / 2 = {least:g}, else the "
                f"feasibility step overshoots and the theorem (form {form!r}) says nothing"
            )
        return cls(form, sigma, loss, constraint, count)

    @property
    def constraint_part(self) -> float:
        """k = m G_g^2 / (2 sigma)."""
        return self.constraint_count * self.constraint_lipschitz**2 / (2 * self.sigma)

    @property
    def slack(self) -> float:
        """1 - k, or 1 - (m + 1) k / m unless the form is "sharp"."""
        factor = self.constraint_count if self.form == "sharp" else self.constraint_count + 1
        return exact_difference(2 * self.sigma, factor, self.constraint_lipschitz) / (
            2 * self.sigma
        )

    @property
    def loss_factor(self) -> float:
        """A for a bound on the regret alone, where the violation may use up the whole slack."""
        if self.form == "sharp":  # alpha = 0 at c = (1 - k) / k
            return 1 / self.slack
        return self.constraint_count + 1.0

    def over_slack(self, fixed: float, charged: float) -> float:
        """(fixed + A charged) / alpha; in the form "sharp" the least such value over c."""
        k, slack = self.constraint_part, self.slack
        if self.form != "sharp":
            return (fixed + (self.constraint_count + 1) * charged) / slack
        if charged == 0 or k == 0:  # c -> 0 costs nothing, or c -> infinity does
            return (fixed + charged) / slack
        # d/dc (P + Q/c) / (1 - k - kc) = 0  <=>  k P c^2 + 2 k Q c - (1 - k) Q = 0, P = fixed +
        # charged. With the root S below, c = (1 - k) Q / (k Q + S), 1 - k - kc = (1 - k) S / (k Q +
        # S) and Q / c = (k Q + S) / (1 - k).
        part, total = k * charged, fixed + charged
        root = math.sqrt(part * (part + slack * total))
        return (total + (part + root) / slack) * (part + root) / (slack * root)


def exact_difference(value: float, factor: int, root: float) -> float:
    """value - factor * root^2, rounded once: a rounded square would leave few digits of a small
    difference."""
    return float(Fraction(value) - factor * Fraction(root) ** 2)


def range_of_losses(loss_range: float | None, loss_lipschitz: float, diameter: float) -> float:
    """F, or G_f times the diameter where that is less or F is not known."""
    largest = diameter * loss_lipschitz
    return largest if loss_range is None else min(loss_range, largest)


def diameter_of(diameter: float | None, radius: float) -> float:
    """The largest distance between two decisions, or, where it is not known, twice the radius."""
    return 2 * radius if diameter is None else max(diameter, radius)

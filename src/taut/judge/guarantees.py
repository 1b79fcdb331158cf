"""From a learner to its bounds: which theorem speaks about these parameters, and what it says as a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import jax
import numpy as np

from .. import arguments
from ..learners import ClippedOGD, Doubling, DriftPlusPenalty, Learner, ProjectedOGD, SaddlePoint, bounds
from ..learners.schedules import Constant, Inverse, InverseRoot, Power, Reciprocal, Schedule
from ..problem.constants import Constants

__all__ = ["QUANTITIES", "Guarantee", "Setting", "guarantees"]

QUANTITIES = ("regret", "violation", "squared violation", "peak violation", "excess")
"""What bounds are about: loss beyond the best fixed decision; of the largest constraint, the clipped sum and its
largest value; over all constraints, the sum of squares; of each constraint, the signed sum."""

_BASE = ("convex losses", "convex constraints", "domain", "loss_lipschitz", "constraint_lipschitz")


@dataclass(frozen=True)
class Guarantee:
    """One bound on one quantity, with what it rests on."""

    quantity: str
    bound: float
    source: str
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    """What the bounds need to know beside the constants."""

    constants: Constants
    diameter: float
    """Of the domain."""
    fixed: bool = True
    """Whether the constraints are the same in every round."""
    initial_violation: float | None = None
    """max_i [g_i(x_1)]_+, if known: some bounds start from it."""


def guarantees(learner: Learner, setting: Setting, horizon: int) -> tuple[Guarantee, ...]:
    """Every bound that applies to this learner with these parameters, the smallest for each quantity.

    A theorem whose conditions the parameters or constants do not meet is left out; nothing is assumed silently.
    """
    horizon = arguments.count("horizon", horizon)
    best: dict[str, Guarantee] = {}
    for one in _of(learner, setting, horizon):
        known = best.get(one.quantity)
        if math.isfinite(one.bound) and (known is None or one.bound < known.bound):
            best[one.quantity] = one
    return tuple(best[quantity] for quantity in QUANTITIES if quantity in best)


@singledispatch
def _of(learner: Learner, setting: Setting, horizon: int) -> list[Guarantee]:
    return []  # a user's own learner: nothing is known


class _Ledger:
    """Collects bounds, leaving out those whose theorem does not apply here."""

    def __init__(self, setting: Setting, horizon: int) -> None:
        self.setting, self.horizon, self.found = setting, horizon, list[Guarantee]()

    def add(
        self, quantity: str, bound: Callable[..., float], source: str, needs: str, *more: str, **numbers: Any
    ) -> None:
        """Evaluate one bound with the constants it needs (named in `needs`)."""
        try:
            values = dict(zip(needs.split(), self.setting.constants.need(*needs.split()), strict=True))
            value = bound(**values, **numbers)
        except ValueError:  # a constant is unknown, or the parameters are outside the theorem
            return
        self.found.append(Guarantee(quantity, value, source, (*_BASE, *more)))


_FOUR = "radius loss_lipschitz constraint_lipschitz constraint_count"


@_of.register
def _clipped(learner: ClippedOGD, setting: Setting, horizon: int) -> list[Guarantee]:
    ledger = _Ledger(setting, horizon)
    known = setting.constants
    step = {"horizon": horizon, "sigma": float(learner.sigma)}
    extra = {"loss_range": known.loss_range, "form": "sharp"}
    decay = _decay(learner.eta)
    if decay is not None and decay[1] < 1:
        eta, beta = decay
        name = "Theorem 1" if beta == 0 else "Theorem 1, anytime"
        if beta == 0:
            step["eta"] = eta
            ledger.add("regret", bounds.clipped_regret, name, _FOUR, **step, form="sharp")
            ledger.add(
                "squared violation", bounds.clipped_squared_violation, name, _FOUR, "loss_range", **step, **extra
            )
            ledger.add(
                "violation", bounds.clipped_violation, "Propositions 2 and 3", _FOUR, "loss_range", **step, **extra
            )
        else:
            step |= {"eta": eta, "beta": beta}
            ledger.add(
                "regret", bounds.clipped_anytime_regret, name, _FOUR, **step, form="sharp", diameter=setting.diameter
            )
            ledger.add(
                "squared violation",
                bounds.clipped_anytime_squared_violation,
                name,
                _FOUR,
                "loss_range",
                **step,
                **extra,
            )
            ledger.add("violation", bounds.clipped_anytime_violation, name, _FOUR, "loss_range", **step, **extra)
        _error_bound(ledger, learner, {"eta": eta, "beta": beta})
        if beta == 0 and setting.fixed and known.constraint_count == 1 and setting.initial_violation is not None:
            ledger.add(
                "peak violation", bounds.smooth_peak_violation, "Lemma 1",
                "radius loss_lipschitz constraint_lipschitz constraint_smoothness",
                "constraint_smoothness", "centre feasible",
                eta=eta, sigma=float(learner.sigma), initial_violation=setting.initial_violation,
                centre_feasible=setting.initial_violation == 0,
            )  # fmt: skip
    modulus = _modulus(learner.eta, shift=1.0)
    if modulus is not None and modulus <= known.strong_convexity * (1 + 1e-12):
        step |= {"strong_convexity": modulus}
        more = ("strong_convexity", "loss_range")
        ledger.add("regret", bounds.strong_clipped_regret, "Theorem 2", _FOUR, "strong_convexity", **step, form="sharp")
        ledger.add(
            "squared violation",
            bounds.strong_clipped_squared_violation,
            "Theorem 2, squared",
            _FOUR,
            *more,
            **step,
            **extra,
        )
        ledger.add("violation", bounds.strong_clipped_violation, "Theorem 2", _FOUR, *more, **step, **extra)
        _error_bound(ledger, learner, {"strong_convexity": modulus})
    for one in [g for g in ledger.found if g.quantity == "squared violation"]:
        peak = bounds.peak_from_squared(squared_violation=one.bound)
        ledger.found.append(Guarantee("peak violation", peak, f"{one.source}, square root", one.assumptions))
    _excess_from_violation(ledger)
    return ledger.found


def _error_bound(ledger: _Ledger, learner: ClippedOGD, step: dict[str, float]) -> None:
    """Sharper bounds where the violation measures the distance to the feasible set (fixed constraints only)."""
    setting = ledger.setting
    known = setting.constants
    if not setting.fixed or setting.initial_violation is None:
        return
    kappa, rests = known.error_bound, "error_bound"
    if kappa is None and known.slater is not None:
        kappa = bounds.error_bound_from_slater(slater=known.slater, distance=setting.diameter)
        rests = "slater"
    if kappa is None:
        return
    numbers: dict[str, Any] = {
        "horizon": ledger.horizon, "sigma": float(learner.sigma), **step,
        "initial_distance": setting.initial_violation / kappa, "error_bound": kappa,
    }  # fmt: skip
    needs = "loss_lipschitz constraint_lipschitz constraint_count"
    source = "error bound" if rests == "error_bound" else "error bound from Slater's condition"
    for quantity, bound in (
        ("peak violation", bounds.error_bound_peak_violation),
        ("violation", bounds.error_bound_violation),
        ("squared violation", bounds.error_bound_squared_violation),
    ):
        ledger.add(quantity, bound, source, needs, rests, **numbers)


def _excess_from_violation(ledger: _Ledger) -> None:
    """A signed sum is never above the clipped one."""
    for one in [g for g in ledger.found if g.quantity == "violation"]:
        ledger.found.append(Guarantee("excess", one.bound, one.source, one.assumptions))


@_of.register
def _saddle_point(learner: SaddlePoint, setting: Setting, horizon: int) -> list[Guarantee]:
    ledger = _Ledger(setting, horizon)
    known = setting.constants
    sum_of = "violation" if learner.clipped else "excess"
    reach = {"loss_range": known.loss_range}
    five = "radius loss_lipschitz constraint_lipschitz constraint_range"
    eta, theta = _decay(learner.eta), _decay(learner.theta)
    if isinstance(learner.eta, Constant) and isinstance(learner.mu, Constant) and isinstance(learner.theta, Constant):
        step, same = float(learner.eta.value), float(learner.mu.value)
        if step == same:
            numbers = {"horizon": horizon, "eta": step, "delta": float(learner.theta.value) / step}
            five += " constraint_count"
            source = "Mahdavi et al., Theorem 4"
            bound = bounds.mahdavi_total_violation if learner.clipped else bounds.mahdavi_excess
            ledger.add("regret", bounds.mahdavi_regret, source, five, "constraint_range", **numbers)
            name = "Proposition 4" if learner.clipped else source
            ledger.add(sum_of, bound, name, five, "constraint_range", "loss_range", **numbers, **reach)
    elif theta is not None and _jenatton_dual(learner) and known.constraint_count == 1:
        name = "Proposition 5" if learner.clipped else "Jenatton et al., Theorem 1"
        numbers = {"horizon": horizon, "theta": theta[0], "beta": theta[1]}
        modulus = _modulus(learner.eta, shift=0.0)
        if modulus is not None and modulus <= known.strong_convexity * (1 + 1e-12):
            numbers |= {"strong_convexity": modulus}
            three = "loss_lipschitz constraint_lipschitz constraint_range"
            more = ("strong_convexity", "constraint_range")
            ledger.add("regret", bounds.jenatton_strong_regret, name, three, *more, **numbers)
            ledger.add(sum_of, bounds.jenatton_strong_excess, name, five, *more, "loss_range", **numbers, **reach)
        elif eta is not None and eta[1] == theta[1]:
            numbers |= {"eta": eta[0], "diameter": setting.diameter}
            ledger.add("regret", bounds.jenatton_regret, name, five, "constraint_range", **numbers)
            ledger.add(sum_of, bounds.jenatton_excess, name, five, "constraint_range", "loss_range", **numbers, **reach)
    _excess_from_violation(ledger)
    return ledger.found


@_of.register
def _projected(learner: ProjectedOGD, setting: Setting, horizon: int) -> list[Guarantee]:
    base = ("convex losses", "loss_lipschitz")
    found = [
        Guarantee(quantity, 0.0, "projection on the feasible set", ("projection",))
        for quantity in QUANTITIES if quantity != "regret"
    ]  # fmt: skip
    known = setting.constants
    across = float(learner.feasible.diameter)
    decay, modulus = _decay(learner.eta), _modulus(learner.eta, shift=0.0)
    if known.loss_lipschitz is None:
        return found
    if decay is not None and decay[1] < 1:
        bound = bounds.projected_regret(
            horizon=horizon,
            eta=decay[0],
            beta=decay[1],
            radius=across,
            diameter=across,
            loss_lipschitz=known.loss_lipschitz,
        )
        found.append(Guarantee("regret", bound, "Zinkevich, Theorem 1", (*base, "projection")))
    if modulus is not None and modulus <= known.strong_convexity * (1 + 1e-12):
        bound = bounds.hazan_regret(horizon=horizon, strong_convexity=modulus, loss_lipschitz=known.loss_lipschitz)
        found.append(Guarantee("regret", bound, "Hazan et al., Theorem 1", (*base, "strong_convexity", "projection")))
    return found


@_of.register
def _drift(learner: DriftPlusPenalty, setting: Setting, horizon: int) -> list[Guarantee]:
    ledger = _Ledger(setting, horizon)
    numbers: dict[str, Any] = {
        "horizon": horizon, "penalty": float(learner.penalty), "proximity": float(learner.proximity),
        "diameter": setting.diameter,
    }  # fmt: skip
    five = _FOUR + " constraint_range"
    ledger.add("regret", bounds.drift_plus_penalty_regret, "Yu, Neely & Wei", five, "constraint_range", **numbers)
    reach = {"loss_range": setting.constants.loss_range}
    more = ("constraint_range", "loss_range")
    ledger.add(
        "excess", bounds.drift_plus_penalty_excess, "Yu, Neely & Wei, no Slater point", five, *more, **numbers, **reach
    )
    ledger.add(
        "excess",
        bounds.drift_plus_penalty_excess,
        "Yu, Neely & Wei",
        f"{five} slater",
        *more,
        "slater",
        **numbers,
        **reach,
    )
    return ledger.found


@_of.register
def _doubled(learner: Doubling, setting: Setting, horizon: int) -> list[Guarantee]:
    """Every epoch's bound, summed; the peak is the largest of them."""
    totals: dict[str, list[Guarantee]] = {}
    epochs, begun = 0, 0
    while begun < horizon:
        length = min(2 ** (learner.first + epochs), horizon - begun)
        inner = jax.tree.map(lambda leaf, k=epochs: float(np.asarray(leaf)[k]), learner.epochs)
        here = setting
        if learner.warm and begun:  # it starts wherever the last epoch ended
            far = setting.constants.with_values(radius=setting.diameter)
            here = Setting(far, setting.diameter, setting.fixed)
        for one in guarantees(inner, here, length):
            totals.setdefault(one.quantity, []).append(one)
        begun += length
        epochs += 1
    found = []
    for quantity, parts in totals.items():
        if len(parts) == epochs:  # a bound that one epoch lacks is none
            values = [part.bound for part in parts]
            bound = max(values) if quantity == "peak violation" else sum(values)
            found.append(Guarantee(quantity, bound, f"{parts[-1].source}, doubling", parts[-1].assumptions))
    return found


def _jenatton_dual(learner: SaddlePoint) -> bool:
    """Whether mu_t = 1 / (theta_t (t + 1)), on which the guarantee rests."""
    mu = learner.mu
    return isinstance(mu, Reciprocal) and float(mu.shift) == 1 and mu.of == learner.theta


def _decay(schedule: Schedule) -> tuple[float, float] | None:
    """(scale, beta) of a schedule scale / t^beta."""
    if isinstance(schedule, Constant):
        return float(schedule.value), 0.0
    if isinstance(schedule, (InverseRoot, Inverse, Power)) and float(schedule.shift) == 0:
        beta = (
            0.5
            if isinstance(schedule, InverseRoot)
            else 1.0
            if isinstance(schedule, Inverse)
            else float(schedule.exponent)
        )
        return float(schedule.scale), beta
    return None


def _modulus(schedule: Schedule, shift: float) -> float | None:
    """H of a schedule 1 / (H (t + shift))."""
    if isinstance(schedule, Inverse) and float(schedule.shift) == shift:
        return 1 / float(schedule.scale)
    return None

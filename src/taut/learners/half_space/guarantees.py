"""What theory says about half-space learners: which theorems of docs/theory.md ("Beyond the paper")
apply, as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Array
from ..guarantee import BASE, Assumes, Guarantee, Setting, with_excess
from ..schedules import AdaGradNorm
from ..theorem import OutsideTheorem, tightening_cost
from . import bounds
from .bounds import StepLengths

if TYPE_CHECKING:
    from .method import HalfSpace


UNKNOWN = StepLengths(math.inf, None, None)
"""Stands for the lengths of steps if a constant that they need is not known; no formula gets it."""


@dataclass(frozen=True)
class _Rule:
    """A step rule: its regret, the lengths of its steps, and what they rest on."""

    source: str
    regret: Callable[..., float]
    """A formula of constants."""
    lengths: StepLengths
    needs: tuple[str, ...]
    """The constants that the lengths need."""
    last_step: float
    """The smallest step that counts for a comparator that moves."""
    extra: tuple[str, ...] = ()
    """Assumptions beyond the usual ones."""
    regret_extra: tuple[str, ...] = ()
    """Assumptions of the bound on regret alone."""


@with_excess
def guarantees(learner: HalfSpace, setting: Setting, horizon: int) -> Iterator[Guarantee]:
    """Yield one entry per theorem and quantity."""
    rule = _rule(learner, setting, horizon)
    if isinstance(rule, str):
        yield Guarantee.none("regret", "half-space", rule)
        return
    promised = [
        _regret(learner, setting, horizon, rule),
        *_general(learner, setting, horizon, rule),
    ]
    if setting.announced:
        yield from _announced(promised, float(learner.margin))
        return
    if setting.constraints_fixed and float(learner.margin) == 0:
        promised += [*_error_bound(setting, rule), *_smooth(learner, setting, rule)]
    if float(learner.margin) > 0:
        promised += _margin(learner, setting, rule)
    promised += [*_kept_cuts(learner, setting, horizon), *_all_cuts(learner, setting)]
    yield from promised


def _announced(promised: list[Guarantee], margin: float) -> Iterator[Guarantee]:
    """A1: what needs distances to the comparator only holds if announced constraints are enforced
    before each round."""
    for guarantee in promised:
        if guarantee.bound is None:
            yield guarantee
        elif margin > 0:
            yield Guarantee.none(
                guarantee.quantity,
                guarantee.source,
                "with announced constraints a bound needs margin=0",
            )
        else:
            more = (
                Assumes.ANNOUNCED_TOWARDS,
                *(() if guarantee.quantity == "regret" else (Assumes.ANNOUNCED_HOLD,)),
            )
            rests = (*guarantee.assumptions, *map(str, more))
            yield replace(guarantee, source=f"{guarantee.source} and A1", assumptions=rests)


def _rule(learner: HalfSpace, setting: Setting, horizon: int) -> _Rule | str:
    eta, known = learner.eta, setting.constants
    if isinstance(eta, AdaGradNorm):
        return _adaptive(eta, setting, horizon)
    law = eta.power_law()
    if (
        law is None
        or (law.shift != 0 and law.beta != 1)
        or law.beta > 1
        or law.shift != int(law.shift)
    ):
        return (
            "a step eta / t^beta with beta < 1, 1 / (H (t + shift)) or an adaptive one is "
            f"needed; got {eta!r}"
        )
    slope, shift, lengths = known.loss_lipschitz, int(law.shift), UNKNOWN
    if slope is not None:
        lengths = bounds.power_step_lengths(
            horizon=horizon, eta=law.scale, beta=law.beta, shift=shift, loss_lipschitz=slope
        )
    needs, source = ("loss_lipschitz",), "half-space, H1"
    if law.beta < 1:
        regret = partial(bounds.half_space_regret, horizon=horizon, eta=law.scale, beta=law.beta)
        return _Rule(source, regret, lengths, needs, law.scale / horizon**law.beta)
    modulus = 1 / law.scale
    if why := setting.less_convex_than(modulus):
        return why
    regret = partial(
        bounds.strong_half_space_regret, horizon=horizon, strong_convexity=modulus, shift=shift
    )
    last = law.scale / max(horizon - 1 + shift, 1)
    return _Rule(f"{source} strong", regret, lengths, needs, last, ("strong_convexity",))


def _adaptive(eta: AdaGradNorm, setting: Setting, horizon: int) -> _Rule:
    scale, weight, seen = float(eta.scale), float(eta.start_up), setting.observed
    numbers: dict[str, Any] = {"scale": scale, "start_up": weight}
    formula = bounds.adaptive_half_space_regret
    if seen is not None:
        numbers |= {
            "loss_slope": seen.loss_slope,
            "squared_slopes": seen.squared_slopes,
            "first_squared_slope": seen.first_squared_slope,
        }
        if seen.slopes is None:
            lengths = bounds.adaptive_step_lengths(horizon=horizon, **numbers)
        else:
            lengths = StepLengths.observed(_adaptive_steps(scale, weight, seen.slopes))
        root = (weight * seen.loss_slope**2 + seen.squared_slopes) ** 0.5
        last = scale / root if root > 0 else math.inf  # without gradients there is no regret
        regret = partial(formula, clipped_slopes=seen.clipped_slopes, **numbers)
        return _Rule("half-space, H2 observed", regret, lengths, (), last)

    def before(*, radius: float, loss_lipschitz: float, diameter: float) -> float:
        squares = horizon * loss_lipschitz**2
        return formula(
            **numbers,
            radius=radius,
            diameter=diameter,
            loss_slope=loss_lipschitz,
            squared_slopes=squares,
        )

    longest, slope = scale / (1 + weight) ** 0.5, setting.constants.loss_lipschitz
    last = scale / (slope * (weight + horizon) ** 0.5) if slope else math.inf
    jumps = () if eta.clip is None else (Assumes.NO_JUMPS,)
    steps = StepLengths(longest, None, None)
    return _Rule("half-space, H2", before, steps, (), last, regret_extra=jumps)


def _adaptive_steps(scale: float, weight: float, slopes: Array) -> Array:
    """The length of every step, a_t = scale |q_t| / sqrt(w max_s |q_s|^2 + sum_s |q_s|^2)."""
    squares = slopes**2
    sums = weight * np.maximum.accumulate(squares, axis=1) + np.cumsum(squares, axis=1)
    known = (sums > 0) & np.isfinite(sums)  # a sum that is infinite ends all steps
    return scale * np.where(known, slopes, 0) / np.sqrt(np.where(known, sums, 1))


def _regret(learner: HalfSpace, setting: Setting, horizon: int, rule: _Rule) -> Guarantee:
    """H1 or H2 for a fixed comparator, with H5 if there is a margin; H8 for one that moves: all
    sets that are projected on in round t must contain u_t."""
    margin, moving = float(learner.margin), setting.path_length is not None
    rests = (*BASE, *rule.extra, *rule.regret_extra)
    source = f"{rule.source} and H8" if moving else rule.source
    if moving and margin > 0:
        return Guarantee.none(
            "regret", source, "the comparator need not keep the margin; expected margin=0"
        )
    if moving and learner.memory != 0 and not setting.constraints_fixed:
        why = (
            "a comparator that moves need not satisfy the constraints of earlier rounds that are "
            "kept; expected memory=0"
        )
        return Guarantee.none("regret", source, why)
    # Projections may bring the first decisions closer to another comparator: only the diameter
    # bounds the distance.
    far = moving and isinstance(learner.eta, AdaGradNorm)
    start: Any = {"radius": setting.diameter} if far else {}
    fixed = setting.evaluate("regret", rule.regret, source, ("radius",), rests, **start)
    if fixed.bound is not None and setting.observed is not None:
        fixed = replace(fixed, bound=fixed.bound - setting.observed.correction)
    if moving:
        return replace(setting.along_path(fixed, rule.last_step), source=source, moving=True)
    if margin == 0 or fixed.bound is None:
        return fixed
    known: Any = {"horizon": horizon, "margin": margin, "loss_range": None}
    rests, source = fixed.assumptions, f"{source} and H5"
    cost = setting.evaluate("regret", tightening_cost, source, (), rests, **known)
    return cost if cost.bound is None else replace(cost, bound=fixed.bound + cost.bound)


def _slope(setting: Setting) -> dict[str, Any]:
    """The slope of the constraints that the run observed at its decisions; without a run it is a
    constant that is assumed."""
    if setting.observed is not None and setting.observed.constraint_slope is not None:
        return {"constraint_lipschitz": setting.observed.constraint_slope}
    return {}


def _general(
    learner: HalfSpace, setting: Setting, horizon: int, rule: _Rule
) -> Iterator[Guarantee]:
    """H1: squares, and what follows from them, for constraints that change at will."""
    margin = float(learner.margin)

    def squared(*, radius: float, constraint_lipschitz: float, **known: float) -> float:
        if known.get("slater", margin) < margin:
            raise OutsideTheorem("the margin exceeds the Slater slack")
        return bounds.half_space_squared_violation(
            lengths=rule.lengths,
            diameter=setting.diameter,
            radius=radius,
            constraint_lipschitz=constraint_lipschitz,
        )

    needs = (*rule.needs, *(("slater",) if margin > 0 else ()))
    guarantee = setting.evaluate(
        "squared violation", squared, rule.source, needs, (*BASE, *rule.extra), **_slope(setting)
    )
    square = guarantee.bound
    total, peak = (None, None) if square is None else ((horizon * square) ** 0.5, square**0.5)
    yield guarantee.become("violation", total)
    yield guarantee.become("peak violation", peak)
    yield _of_all_rows(guarantee, setting)


def _of_all_rows(largest: Guarantee, setting: Setting) -> Guarantee:
    """The squares summed over all constraints: m times those of the largest."""
    return setting.evaluate(
        largest.quantity,
        lambda *, constraint_count: constraint_count * _bound_of(largest),
        largest.source,
        (),
        largest.assumptions,
    )


def _bound_of(guarantee: Guarantee) -> float:
    if guarantee.bound is None:
        raise OutsideTheorem(guarantee.reason)
    return guarantee.bound


def _error_bound(setting: Setting, rule: _Rule) -> Iterator[Guarantee]:
    """H3, for fixed constraints with an error bound or a Slater point."""
    kappa, rests = setting.error_bound()
    start, excess = setting.initial_violation, setting.initial_excess or 0.0
    if kappa is None or start is None:
        return
    slope, lengths = _slope(setting), rule.lengths
    steepest = slope.get("constraint_lipschitz", setting.constants.constraint_lipschitz)
    if steepest:
        lengths = lengths.beyond(-excess / steepest)

    def evaluated(quantity: str, formula: Callable[..., float]) -> Guarantee:
        return setting.evaluate(
            quantity,
            (lambda *, constraint_lipschitz, **_: 0.0) if steepest == 0 else formula,
            f"{rule.source.split(',')[0]}, H3",
            rule.needs,
            (*BASE, Assumes.FIXED_CONSTRAINTS, *rule.extra, *rests),
            lengths=lengths,
            error_bound=kappa,
            initial_distance=start / kappa,
            **slope,
        )

    yield evaluated("peak violation", bounds.half_space_distance)
    yield evaluated("violation", bounds.half_space_distance_violation)
    squares = evaluated("squared violation", bounds.half_space_distance_squared)
    yield _of_all_rows(squares, setting)


def _smooth(learner: HalfSpace, setting: Setting, rule: _Rule) -> Iterator[Guarantee]:
    """H4, for one smooth fixed constraint and the joint projection."""
    known, start = setting.constants, setting.initial_violation
    if known.constraint_count != 1 or start is None or known.constraint_smoothness is None:
        return
    source = "half-space, H4 smooth"
    exact = learner.memory is None  # then all projections are joint, and no sweep comes before them
    if not (learner.joint or exact):
        yield Guarantee.none(
            "peak violation", source, "the last projection must be joint: expected joint=True"
        )
        return
    kappa, rests = setting.error_bound()
    if known.constraint_smoothness == 0:
        kappa, rests = None, ()
    evaluate = partial(
        setting.evaluate,
        source=source,
        needs=(*rule.needs, "constraint_count"),
        assumptions=(*BASE, Assumes.FIXED_CONSTRAINTS, *rule.extra, *rests),
        error_bound=kappa,
        initial_violation=start,
        memory=learner.memory != 0 and not exact,
    )
    longest = rule.lengths.longest
    peak = evaluate("peak violation", bounds.smooth_half_space_peak, longest=longest)
    total = evaluate("violation", bounds.smooth_half_space_violation, lengths=rule.lengths)
    yield peak
    yield total
    both = None if peak.bound is None or total.bound is None else peak.bound * total.bound
    yield total.become("squared violation", both)


def _margin(learner: HalfSpace, setting: Setting, rule: _Rule) -> Iterator[Guarantee]:
    """H5: no violation at all."""
    source, start, margin = "half-space, H5 margin", setting.initial_excess, float(learner.margin)
    if not setting.constraints_fixed or start is None:
        yield Guarantee.none("peak violation", source, "the constraints must be fixed")
        return
    longest = rule.lengths.longest

    def smooth(*, slater: float, constraint_smoothness: float, constraint_count: int) -> float:
        if not learner.joint or constraint_count != 1 or margin >= slater:
            raise OutsideTheorem(
                "needs joint=True, one constraint and a margin below the Slater slack"
            )
        peak = bounds.smooth_half_space_peak(
            longest=longest,
            constraint_smoothness=constraint_smoothness,
            error_bound=(slater - margin) / setting.diameter,
            initial_violation=max(start + margin, 0.0),
            memory=learner.memory != 0,
        )
        if peak > margin * (1 + 1e-9):
            raise OutsideTheorem(f"g + margin may reach {peak:g}; the margin is {margin:g}")
        return 0.0

    evaluate = partial(
        setting.evaluate,
        "violation",
        needs=rule.needs,
        assumptions=(*BASE, Assumes.FIXED_CONSTRAINTS, *rule.extra),
    )
    holds = partial(bounds.margin_holds, longest=longest, margin=margin, initial_excess=start)
    zero = [evaluate(holds, source)]
    if setting.constants.constraint_smoothness is not None:
        zero.append(evaluate(smooth, f"{source}, smooth"))
    for guarantee in zero:
        yield guarantee
        yield guarantee.become("peak violation")
        yield guarantee.become("squared violation")


def _kept_cuts(learner: HalfSpace, setting: Setting, horizon: int) -> Iterator[Guarantee]:
    """H6, where all constraints are among M half-spaces and every projection is exact; F1 if cuts
    have lifetimes."""
    number, life = setting.constants.half_spaces, learner.life
    source = "half-space, H6 memory" if life is None else "half-space, F1 lifetimes"
    if number is None or float(learner.margin) > 0:
        return
    memory = number if learner.memory is None else learner.memory
    if memory < number or (learner.memory is not None and learner.joint and number > 1):
        why = f"expected memory of at least {number} and joint=False"
        yield Guarantee.none("violation", source, why)
        return
    formula: Callable[..., float] = bounds.kept_cuts_violation
    if life is not None:
        formula = partial(bounds.lifetimes_violation, horizon=horizon, life=life)
    rests = (*BASE, Assumes.EXACT_PROJECTIONS)
    yield setting.evaluate("violation", formula, source, (), rests, **_slope(setting))


def _all_cuts(learner: HalfSpace, setting: Setting) -> Iterator[Guarantee]:
    """H9, from the path of the decisions, if all cuts are kept."""
    seen = setting.observed
    if learner.memory is not None or float(learner.margin) > 0 or learner.rows != "largest":
        return
    source = "half-space, H9 all cuts"
    if seen is None or seen.path is None:
        why = "its constant is of the dimension; the path of a run that was played gives a number"
        yield Guarantee.none("violation", source, why)
        return
    numbers: Any = {"path": seen.path, **_slope(setting)}
    rests = (*BASE, Assumes.EXACT_PROJECTIONS)
    yield setting.evaluate("violation", bounds.path_violation, source, (), rests, **numbers)

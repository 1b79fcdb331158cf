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
from ..base import BASE, Assumes, Guarantee, Setting
from ..schedules import AdaGradNorm
from ..theorem import OutsideTheorem, error_bound_from_slater, path_cost, tightening_cost
from . import bounds
from .bounds import StepLengths

if TYPE_CHECKING:
    from .method import HalfSpace


@dataclass(frozen=True)
class _Rule:
    """A step rule: its regret, the lengths of its steps, and the constants that both need."""

    source: str
    regret: Callable[..., float]
    regret_needs: tuple[str, ...]
    lengths: Callable[..., StepLengths]
    needs: tuple[str, ...]
    last_step: Callable[..., float]
    """The smallest step that counts for a comparator that moves, as a function of the same
    constants as the regret."""
    extra: tuple[str, ...] = ()
    """Assumptions beyond the usual ones."""
    regret_extra: tuple[str, ...] = ()
    """Assumptions of the bound on regret alone."""

    def less(self, correction: float) -> _Rule:
        """Return the rule with the observed feasibility moves subtracted from its regret."""
        if correction == 0:
            return self
        whole = self.regret
        return replace(self, regret=lambda **known: whole(**known) - correction)


def guarantees(learner: HalfSpace, setting: Setting, horizon: int) -> Iterator[Guarantee]:
    """Yield one entry per theorem and quantity."""
    rule = _rule(learner, setting, horizon)
    if isinstance(rule, str):
        yield Guarantee.none("regret", "half-space", rule)
        return
    rule = rule.less(0.0 if setting.observed is None else setting.observed.correction)
    found = [*_regret(learner, setting, horizon, rule), *_general(learner, setting, horizon, rule)]
    if setting.announced:
        yield from _announced(found, float(learner.margin))
        return
    if setting.constraints_fixed and float(learner.margin) == 0:
        found += [*_error_bound(learner, setting, rule), *_smooth(learner, setting, rule)]
    if float(learner.margin) > 0:
        found += _margin(learner, setting, rule)
    found += [*_kept_cuts(learner, setting, horizon), *_all_cuts(learner, setting)]
    for one in found:
        yield one
        if one.quantity == "violation":
            yield one.become("excess")  # a signed sum is never above the clipped one


def _announced(found: list[Guarantee], margin: float) -> Iterator[Guarantee]:
    """A1: what needs distances to the comparator only holds if announced constraints are enforced
    before each round."""
    for one in found:
        if one.bound is None:
            yield one
        elif margin > 0:
            yield Guarantee.none(
                one.quantity, one.source, "with announced constraints a bound needs margin=0"
            )
        else:
            more = (
                Assumes.ANNOUNCED_TOWARDS,
                *(() if one.quantity == "regret" else (Assumes.ANNOUNCED_HOLD,)),
            )
            rests = (*one.assumptions, *map(str, more))
            made = replace(one, source=f"{one.source} and A1", assumptions=rests)
            yield made
            if made.quantity == "violation":
                yield made.become("excess")


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
    lengths = partial(
        bounds.power_step_lengths,
        horizon=horizon,
        eta=law.scale,
        beta=law.beta,
        shift=int(law.shift),
    )
    if law.beta < 1:
        regret = partial(
            bounds.half_space_regret,
            horizon=horizon,
            eta=law.scale,
            beta=law.beta,
            diameter=setting.diameter,
        )
        needs, last = ("radius", "loss_lipschitz"), law.scale / horizon**law.beta
        return _Rule(
            "half-space, H1", regret, needs, lengths, ("loss_lipschitz",), lambda **_: last
        )
    modulus = 1 / law.scale
    if modulus > known.strong_convexity * (1 + 1e-12):
        return (
            f"the step is 1 / (H (t + shift)) with H = {modulus:g}; the losses are known to have "
            f"{known.strong_convexity:g}"
        )
    regret = partial(
        bounds.strong_half_space_regret,
        horizon=horizon,
        strong_convexity=modulus,
        shift=int(law.shift),
    )
    needs, last = ("radius", "loss_lipschitz"), law.scale / max(horizon - 1 + law.shift, 1)
    return _Rule(
        "half-space, H1 strong",
        regret,
        needs,
        lengths,
        needs[1:],
        lambda **_: last,
        ("strong_convexity",),
    )


def _adaptive(eta: AdaGradNorm, setting: Setting, horizon: int) -> _Rule:
    scale, weight, seen = float(eta.scale), float(eta.start_up), setting.observed
    numbers: dict[str, Any] = {"scale": scale, "start_up": weight}
    if seen is not None:
        numbers |= {
            "loss_slope": seen.loss_slope,
            "squared_slopes": seen.squared_slopes,
            "first_squared_slope": seen.first_squared_slope,
        }
        regret = partial(
            bounds.adaptive_half_space_regret,
            diameter=setting.diameter,
            clipped_slopes=seen.clipped_slopes,
            **numbers,
        )
        lengths = partial(bounds.adaptive_step_lengths, horizon=horizon, **numbers)
        if seen.slopes is not None:
            lengths = partial(StepLengths.observed, _adaptive_steps(scale, weight, seen.slopes))
        root = (weight * seen.loss_slope**2 + seen.squared_slopes) ** 0.5
        last = scale / root if root > 0 else math.inf  # without gradients there is no regret
        return _Rule("half-space, H2 observed", regret, ("radius",), lengths, (), lambda **_: last)

    def before(*, radius: float, loss_lipschitz: float) -> float:
        return bounds.adaptive_half_space_regret(
            **numbers,
            radius=radius,
            diameter=setting.diameter,
            loss_slope=loss_lipschitz,
            squared_slopes=horizon * loss_lipschitz**2,
        )

    longest = scale / (1 + weight) ** 0.5
    return _Rule(
        "half-space, H2",
        before,
        ("radius", "loss_lipschitz"),
        lambda: StepLengths(longest, None, None),
        (),
        lambda *, loss_lipschitz: (
            scale / (loss_lipschitz * (weight + horizon) ** 0.5) if loss_lipschitz else math.inf
        ),
        regret_extra=() if eta.clip is None else (Assumes.NO_JUMPS,),
    )


def _adaptive_steps(scale: float, weight: float, slopes: Array) -> Array:
    """The length of every step, a_t = scale |q_t| / sqrt(w max_s |q_s|^2 + sum_s |q_s|^2)."""
    squares = slopes**2
    sums = weight * np.maximum.accumulate(squares, axis=1) + np.cumsum(squares, axis=1)
    known = (sums > 0) & np.isfinite(sums)  # a sum that is infinite ends all steps
    return scale * np.where(known, slopes, 0) / np.sqrt(np.where(known, sums, 1))


def _regret(learner: HalfSpace, setting: Setting, horizon: int, rule: _Rule) -> Iterator[Guarantee]:
    margin = float(learner.margin)
    rests = (*BASE, *rule.extra, *rule.regret_extra)
    if setting.path_length is not None:
        yield _moving_regret(learner, setting, rule, rests)
        return
    if margin == 0:
        yield setting.evaluate("regret", rule.regret, rule.source, rule.regret_needs, rests)
        return

    def with_margin(*, slater: float, loss_lipschitz: float, **known: float) -> float:
        extra = tightening_cost(
            horizon=horizon,
            margin=margin,
            slater=slater,
            diameter=setting.diameter,
            loss_lipschitz=loss_lipschitz,
        )
        needed = {
            n: v
            for n, v in ({"loss_lipschitz": loss_lipschitz} | known).items()
            if n in rule.regret_needs
        }
        return rule.regret(**needed) + extra

    needs = tuple(dict.fromkeys((*rule.regret_needs, "loss_lipschitz", "slater")))
    yield setting.evaluate("regret", with_margin, f"{rule.source} and H5", needs, rests)


def _moving_regret(
    learner: HalfSpace, setting: Setting, rule: _Rule, rests: tuple[str, ...]
) -> Guarantee:
    """H8: against a comparator that moves. All sets that are projected on in round t must contain
    u_t."""
    source = f"{rule.source} and H8"
    if float(learner.margin) > 0:
        return Guarantee.none(
            "regret", source, "the comparator need not keep the margin; expected margin=0"
        )
    if learner.memory != 0 and not setting.constraints_fixed:
        why = (
            "a comparator that moves need not satisfy the constraints of earlier rounds that are "
            "kept; expected memory=0"
        )
        return Guarantee.none("regret", source, why)

    def along(*, radius: float, **known: float) -> float:
        # Projections may bring the first decisions closer to another comparator: only the diameter
        # bounds the distance.
        start = setting.diameter if isinstance(learner.eta, AdaGradNorm) else radius
        cost = path_cost(
            path_length=float(setting.path_length or 0),
            diameter=setting.diameter,
            last_step=rule.last_step(**known),
        )
        return rule.regret(radius=start, **known) + cost

    return replace(setting.evaluate("regret", along, source, rule.regret_needs, rests), moving=True)


def _slope(setting: Setting) -> tuple[dict[str, float], tuple[str, ...]]:
    """The slope of the constraints: what the run observed at its decisions, or else a constant that
    is assumed."""
    if setting.observed is not None and setting.observed.constraint_slope is not None:
        return {"constraint_lipschitz": setting.observed.constraint_slope}, ()
    return {}, ("constraint_lipschitz",)


def _general(
    learner: HalfSpace, setting: Setting, horizon: int, rule: _Rule
) -> Iterator[Guarantee]:
    """H1: squares, and what follows from them, for constraints that change at will."""
    slope, need_slope = _slope(setting)
    needs = (*rule.needs, "radius", *need_slope)
    rests = (*BASE, *rule.extra)
    if float(learner.margin) > 0:
        needs = (*needs, "slater")

    def squared(**known: float) -> float:
        if known.pop("slater", learner.margin) < learner.margin:
            raise OutsideTheorem("the margin exceeds the Slater slack")
        lengths = rule.lengths(**{n: known.pop(n) for n in rule.needs})
        return bounds.half_space_squared_violation(
            lengths=lengths, diameter=setting.diameter, **slope, **known
        )

    for quantity, value in (
        ("violation", lambda **known: (horizon * squared(**known)) ** 0.5),
        ("peak violation", lambda **known: squared(**known) ** 0.5),
    ):
        yield setting.evaluate(quantity, value, rule.source, needs, rests)
    yield _all(setting, squared, rule.source, needs, rests)


def _all(
    setting: Setting, squared: Callable[..., float], source: str, needs: Any, rests: Any
) -> Guarantee:
    """The squares summed over all constraints: m times those of the largest."""
    return setting.evaluate(
        "squared violation",
        lambda *, constraint_count, **known: constraint_count * squared(**known),
        source,
        (*needs, "constraint_count"),
        rests,
    )


def _error_bound(learner: HalfSpace, setting: Setting, rule: _Rule) -> Iterator[Guarantee]:
    """H3, for fixed constraints with an error bound or a Slater point."""
    kappa, rests = _kappa(setting)
    start, excess = setting.initial_violation, setting.initial_excess or 0.0
    if kappa is None or start is None:
        return
    slope, need_slope = _slope(setting)
    needs = (*rule.needs, *need_slope)
    assumed = (*BASE, Assumes.FIXED_CONSTRAINTS, *rule.extra, *rests)

    def value(formula: Callable[..., float], **known: float) -> float:
        lengths = rule.lengths(**{n: known.pop(n) for n in rule.needs})
        steepest = slope.get("constraint_lipschitz", known.get("constraint_lipschitz", 0.0))
        if steepest == 0:
            return 0.0
        return formula(
            lengths=lengths.beyond(-excess / steepest),
            error_bound=kappa,
            initial_distance=start / kappa,
            **slope,
            **known,
        )

    source = f"{rule.source.split(',')[0]}, H3"
    yield setting.evaluate(
        "peak violation", partial(value, bounds.half_space_distance), source, needs, assumed
    )
    yield setting.evaluate(
        "violation", partial(value, bounds.half_space_distance_violation), source, needs, assumed
    )
    yield _all(setting, partial(value, bounds.half_space_distance_squared), source, needs, assumed)


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
    kappa, rests = _kappa(setting)
    if known.constraint_smoothness == 0:
        kappa, rests = None, ()
    more: dict[str, Any] = {
        "error_bound": kappa,
        "initial_violation": start,
        "memory": learner.memory != 0 and not exact,
    }
    assumed = (*BASE, Assumes.FIXED_CONSTRAINTS, *rule.extra, *rests)
    needs = (*rule.needs, "constraint_smoothness", "constraint_count")

    def peak(*, constraint_smoothness: float, constraint_count: int, **known: float) -> float:
        return bounds.smooth_half_space_peak(
            longest=rule.lengths(**known).longest,
            constraint_smoothness=constraint_smoothness,
            **more,
        )

    def total(*, constraint_smoothness: float, constraint_count: int, **known: float) -> float:
        return bounds.smooth_half_space_violation(
            lengths=rule.lengths(**known), constraint_smoothness=constraint_smoothness, **more
        )

    yield setting.evaluate("peak violation", peak, source, needs, assumed)
    yield setting.evaluate("violation", total, source, needs, assumed)
    yield setting.evaluate(
        "squared violation", lambda **known: peak(**known) * total(**known), source, needs, assumed
    )


def _margin(learner: HalfSpace, setting: Setting, rule: _Rule) -> Iterator[Guarantee]:
    """H5: no violation at all."""
    source, start, margin = "half-space, H5 margin", setting.initial_excess, float(learner.margin)
    if not setting.constraints_fixed or start is None:
        yield Guarantee.none("peak violation", source, "the constraints must be fixed")
        return
    known = setting.constants
    assumed = (*BASE, Assumes.FIXED_CONSTRAINTS, *rule.extra)

    def rough(*, slater: float, constraint_lipschitz: float, **rest: float) -> float:
        return bounds.margin_holds(
            longest=rule.lengths(**rest).longest,
            margin=margin,
            diameter=setting.diameter,
            slater=slater,
            constraint_lipschitz=constraint_lipschitz,
            initial_excess=start,
        )

    def smooth(
        *, slater: float, constraint_smoothness: float, constraint_count: int, **rest: float
    ) -> float:
        if not learner.joint or constraint_count != 1 or margin >= slater:
            raise OutsideTheorem(
                "needs joint=True, one constraint and a margin below the Slater slack"
            )
        peak = bounds.smooth_half_space_peak(
            longest=rule.lengths(**rest).longest,
            constraint_smoothness=constraint_smoothness,
            error_bound=(slater - margin) / setting.diameter,
            initial_violation=max(start + margin, 0.0),
            memory=learner.memory != 0,
        )
        if peak > margin * (1 + 1e-9):
            raise OutsideTheorem(f"g + margin may reach {peak:g}; the margin is {margin:g}")
        return 0.0

    zero = [
        setting.evaluate(
            "violation", rough, source, (*rule.needs, "slater", "constraint_lipschitz"), assumed
        )
    ]
    if known.constraint_smoothness is not None:
        needs = (*rule.needs, "slater", "constraint_smoothness", "constraint_count")
        zero.append(setting.evaluate("violation", smooth, f"{source}, smooth", needs, assumed))
    for one in zero:
        yield one
        yield one.become("peak violation")
        yield one.become("squared violation")


def _kept_cuts(learner: HalfSpace, setting: Setting, horizon: int) -> Iterator[Guarantee]:
    """H6, where all constraints are among M half-spaces and every projection is exact; F1 if cuts
    have lifetimes."""
    number, life = setting.constants.half_spaces, learner.life
    source = "half-space, H6 memory" if life is None else "half-space, F1 lifetimes"
    if number is None or float(learner.margin) > 0:
        return
    kept = number if learner.memory is None else learner.memory
    if kept < number or (learner.memory is not None and learner.joint and number > 1):
        why = f"expected memory of at least {number} and joint=False"
        yield Guarantee.none("violation", source, why)
        return
    slope, needs = _slope(setting)
    formula: Callable[..., float] = bounds.kept_cuts_violation
    if life is not None:
        formula = partial(bounds.lifetimes_violation, horizon=horizon, life=life)
    yield setting.evaluate(
        "violation",
        lambda *, half_spaces, **known: formula(
            half_spaces=half_spaces, diameter=setting.diameter, **known, **slope
        ),
        source,
        (*needs, "half_spaces"),
        (*BASE, Assumes.EXACT_PROJECTIONS),
    )


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
    slope, needs = _slope(setting)
    yield setting.evaluate(
        "violation",
        lambda **known: bounds.path_violation(
            path=seen.path or 0.0, diameter=setting.diameter, **known, **slope
        ),
        source,
        needs,
        (*BASE, Assumes.EXACT_PROJECTIONS),
    )


def _kappa(setting: Setting) -> tuple[float | None, tuple[str, ...]]:
    known = setting.constants
    if known.error_bound is not None:
        return known.error_bound, ("error_bound",)
    if known.slater is not None:
        return error_bound_from_slater(slater=known.slater, distance=setting.diameter), ("slater",)
    return None, ()

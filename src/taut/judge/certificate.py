"""Certificate: what was measured, what theory promises for it, and the assumptions checked, for any run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import arguments
from ..engine import Array
from ..learners import QUANTITIES, Assumes, Guarantee, Learner, Setting
from ..play import metrics
from ..play.chunks import revealed_data
from ..play.run import Run
from ..problem.feasibility import NoFeasibleDecision
from ..problem.problem import Problem
from ..problem.streams import Adversary, Stream, as_stream
from . import assumptions as _assumptions
from . import tables
from .announced import ANNOUNCED_VIOLATION, AnnouncedRun
from .assumptions import GIVEN, Assumption
from .guarantees import (
    SCORED_SLATER,
    Standing,
    against,
    coverage,
    margin_between,
    setting_of,
    standing,
    translated,
    trivial_bounds,
    under_feedback,
)
from .observed import Observations, observe
from .views import ADAPTIVE_REGRET, POLICY_REGRET, RecordedRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .hindsight import Hindsight

__all__ = ["EXCEEDED", "HOLDS", "NOTHING_STANDS", "Certificate", "Row", "certify"]

HOLDS, EXCEEDED, NOTHING_STANDS = "holds", "exceeded", "no guarantee stands"
FORMULA = 1e-9
"""Relative error that the evaluation of a bound may have."""
PLAYED_REGRET = "regret of the played problem"
"""Regret against the best decision of the problem that was played, where its feasible set is smaller than the scored one."""
ONLY_IF_NEEDED = {str(name) for name in (Assumes.FIXED_CONSTRAINTS, Assumes.AFFINE_CONSTRAINTS, Assumes.PROJECTION)}
"""Assumptions that are shown only if a bound rests on them."""


@dataclass(frozen=True)
class Row:
    """One quantity: measured over the seeds, and what theory promises."""

    quantity: str
    mean: float | None
    worst: float | None
    guarantee: Guarantee | None
    refuted_assumptions: tuple[str, ...] = ()
    """Refuted assumptions on which the guarantee rests; it says nothing if there are any."""
    reasons: tuple[str, ...] = ()
    """Why no theorem gives a bound, for a quantity without any."""
    trivial: bool = False
    """Whether the bound holds for every learner, because losses and constraints have a bounded range: it says nothing."""
    rounding: float = 0.0
    """How far rounding can have moved the measured value."""
    half_interval: float = math.inf
    """Half the 95 % confidence interval of the mean over seeds, for bounds on the expectation."""

    @property
    def bound(self) -> float | None:
        """The guarantee's number; `None` if there is no guarantee, or none that its assumptions support."""
        return None if self.guarantee is None or self.refuted_assumptions else self.guarantee.bound

    @property
    def theorem(self) -> str:
        """Where the bound comes from; empty if there is none."""
        return self.guarantee.source if self.guarantee else ""

    @property
    def expected(self) -> bool:
        """Whether the bound is on the mean over seeds and says nothing about a single one."""
        return self.guarantee is not None and self.guarantee.expected

    @property
    def ratio(self) -> float | None:
        """Measured value over the bound: of the worst seed, or of the mean for a bound on the expectation."""
        value = self.mean if self.expected else self.worst
        if self.bound is None or value is None or self.bound < 0:
            return None
        if self.bound == 0:
            return 0.0 if value <= self.rounding else math.inf
        return value / self.bound

    @property
    def holds(self) -> bool | None:
        """Whether every seed is within the bound; `None` if there is none, or if the seeds cannot decide about a mean."""
        if self.bound is None or self.worst is None or self.mean is None:
            return None
        limit = self.bound + FORMULA * abs(self.bound) + self.rounding
        if not self.expected:
            return self.worst <= limit
        if self.mean + self.half_interval <= limit:
            return True
        return False if self.mean - self.half_interval > limit else None


@dataclass(frozen=True, repr=False)
class Certificate:
    """What was measured, what was promised, and on what conditions. Print it to see all of it."""

    learner: str
    horizon: int
    seeds: int
    rows: tuple[Row, ...]
    assumptions: tuple[Assumption, ...]
    comparator: Hindsight | None
    """The best fixed decision in hindsight, against which regret is measured."""
    notes: tuple[str, ...] = ()

    @property
    def refuted(self) -> tuple[Assumption, ...]:
        """The assumptions for which a counterexample was found."""
        return tuple(assumption for assumption in self.assumptions if assumption.refuted)

    @property
    def outcome(self) -> str:
        """One of "holds", "exceeded" and "no guarantee stands".

        A run holds if a bound that says something stands and none is exceeded. Trivial bounds are no support.
        """
        if any(row.holds is False for row in self.rows):
            return EXCEEDED
        return HOLDS if any(row.holds and not row.trivial for row in self.rows) else NOTHING_STANDS

    @property
    def holds(self) -> bool | None:
        """True if bounds stand and none is exceeded, False if one is exceeded, `None` if no guarantee stands."""
        return {HOLDS: True, EXCEEDED: False}.get(self.outcome)

    @property
    def conclusion(self) -> str:
        """The outcome in one sentence."""
        return tables.conclusion(self)

    def plot(self, *, ax: Any = None) -> Axes:
        """Draw the largest measured value of each quantity as a share of its bound, on `ax` or on new Matplotlib axes."""
        from .plot import plot_certificate

        return plot_certificate(self, ax)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-able values."""
        return tables.as_dict(self)

    def __rich_console__(self, console: Any, options: Any) -> Any:
        yield from tables.rich_parts(self)

    def __str__(self) -> str:
        return tables.as_text(self)

    def __repr__(self) -> str:
        size = f"{self.seeds} seed(s), {self.horizon:,} rounds"
        return f"<Certificate: {self.outcome}; {self.learner.split('(')[0]}, {size}>"

    def _repr_html_(self) -> str:
        return tables.as_html(self)


def certify(
    run: Run,
    *,
    problem: Problem | None = None,
    stream: Any = None,
    seeds: int | None = None,
    score: Problem | None = None,
    best: Any = None,
    data: Any = None,
    check: bool = True,
    key: jax.Array | None = None,
) -> Certificate:
    """Compare measured regret and violations of a run with what theory promises for it, and check the assumptions.

    Everything is measured by the problem that is scored, and regret against the best decision of that problem. If another
    problem was played, a transform such as `taut.tightened(problem, rho)`, its bounds are translated; where its feasible set is
    smaller, regret against its own best decision is shown as well.

    For a problem with `previous=True` there are two regrets. Adaptive-adversary regret compares with the best fixed decision
    after the run's own previous decisions; bounds of learners are about it. Policy regret compares with a decision that was
    played all the time; it has a bound if `taut.steady(problem)` was played and scored by the problem.

    Arguments:
        run: of one learner (pick one of a sweep with `run[i]`).
        problem: the problem that was played; needed only for a run that was loaded from a file.
        stream: its data, in the same case; `seeds` as in `taut.simulate`.
        score: the problem that was scored, in the same case; by default the one that was played.
        best: the best decision of the scored problem in hindsight, if it was computed before. With
            `best=taut.hindsight(problem, stream, comparator="per-round")`, or "shifting", regret is measured against a
            comparator that moves, and compared with bounds that depend on the length of its path.
        data: what an adversary revealed, if it is not to be replayed; arrays (seed, round, ...).
        check: whether to check the assumptions. All rounds are played again for it.
        key: random key for the probes.
    """
    arguments.instance("run", run, Run, "the result of taut.simulate(learner, problem, stream)")
    learner = run.learner
    if isinstance(learner, tuple):
        raise TypeError("run: got a sweep of learners; expected one run: pick it with run[i]")
    scored = score or problem or run.problem
    played = problem or run.played or run.problem
    if played is None or scored is None:
        raise ValueError("problem: got None; expected the problem that was played, which a saved run does not hold")
    held = stream if data is None else data
    played, scored = played.for_data(held), scored.for_data(held)
    source = _source(run, played, stream, seeds, data)
    notes = coverage(learner, run.feedback)
    comparator = best_or_note(scored, source, run, notes) if best is None else _checked(best, run)
    count, fixed = run.totals.excess.shape[-1], [comparator]
    memory: RecordedRun | None = None
    name = POLICY_REGRET if scored.previous else regret_name(comparator)
    regrets = {} if comparator is None else {name: metrics.regret(run, comparator)}
    names = (ADAPTIVE_REGRET, POLICY_REGRET) if scored.previous else (name,)
    if (played.previous or scored.previous) and source is not None:
        memory = RecordedRun.of(run, played, scored, source)
        fixed = _own_comparator(run, memory, comparator, regrets, notes) if scored.previous else fixed
        run, played, scored, source = memory.run, memory.played, memory.scored, memory.stream
    announced = None if source is None else AnnouncedRun.of(run, played, scored, source)
    if _moves(comparator) and (memory is not None or announced is not None):
        raise ValueError(
            "best: got a comparator that moves for a problem with previous=True or announced constraints; expected the best "
            "fixed decision"
        )
    count -= 0 if announced is None or announced.count == count else announced.count
    tightened = margin_between(played, scored, count) > 0
    if tightened and source is not None and not _moves(comparator):
        of_played = best_or_note(played, source, run, notes, "the played problem")
        regrets |= {} if of_played is None else {PLAYED_REGRET: metrics.regret(run, of_played.loss)}

    seen: Observations | None = None
    checks: tuple[Assumption, ...] = ()
    if check and source is not None:
        seen = observe(run, played, source, getattr(comparator, "decision", None))
        checks = _checks(run, played, scored, source, seen, key)
        checks += () if announced is None else announced.checks(fixed)
    setting = setting_of(played, run.first, None if seen is None else seen.observed)
    return assembled(run, setting, played, scored, comparator, names, regrets, seen, checks, notes, memory, announced)


def assembled(
    run: Run, setting: Setting, played: Problem, scored: Problem, comparator: Any, names: tuple[str, ...],
    regrets: dict[str, Array], seen: Observations | None, checks: tuple[Assumption, ...], notes: list[str],
    memory: RecordedRun | None = None, announced: AnnouncedRun | None = None, uncovered: str = "",
) -> Certificate:  # fmt: skip
    """The certificate of a run, or of a player in the form of a run, once all has been measured and checked.

    `names` are the rows of regret, which are there even if it could not be measured. `uncovered` says why guarantees do not apply.
    """
    learner, count = run.learner, run.totals.excess.shape[-1]
    count -= 0 if announced is None or announced.count == count else announced.count
    assert isinstance(learner, Learner)
    moves = _moves(comparator)
    if moves:
        length = float(np.max(comparator.path_length))
        setting = replace(setting, path_length=length)
        notes = [
            *notes,
            f"Regret is measured against a {comparator.comparator} comparator, whose path is {length:.6g} long"
            + (" at most." if run.seeds > 1 else "."),
        ]
    refuted = {assumption.name for assumption in checks if assumption.refuted}
    promised = against(under_feedback(learner.guarantees(setting, run.horizon), learner, run.feedback), moves)
    if uncovered:
        promised = tuple(Guarantee.none(quantity, "guarantees", uncovered) for quantity in QUANTITIES)
    about_scored = translated(promised, played, scored, run.horizon, count)
    limits = trivial_bounds(scored.constants, run.horizon, count, refuted)
    sizes = _rounding(run, played, scored, comparator, seen)
    shown: dict[str, Array | None] = {**dict.fromkeys(names), **regrets, **metrics.measured(run)}
    of_row = {PLAYED_REGRET: promised}
    if memory is not None:
        of_row[POLICY_REGRET] = memory.policy_guarantees(promised)
        about_scored = memory.scored_guarantees(promised, about_scored)
    if announced is not None:
        shown[ANNOUNCED_VIOLATION], of_row[ANNOUNCED_VIOLATION] = announced.peak, announced.guarantees()
    rows = _rows(shown, of_row, about_scored, refuted, limits, sizes)
    checks = _that_matter(checks, rows)
    return Certificate(repr(learner), run.horizon, run.seeds, rows, checks, comparator, tuple(notes))


def _own_comparator(
    run: Run, memory: RecordedRun, policy: Any, regrets: dict[str, Array], notes: list[str]
) -> list[Hindsight | None]:
    """Add adaptive-adversary regret; return the decisions from which announced constraints must not lead away."""
    own = best_or_note(memory.scored, memory.stream, run, notes, "the problem, given the run's previous decisions,")
    if own is not None:
        regrets[ADAPTIVE_REGRET] = metrics.regret(run, own)
    return [policy, own] if memory.only_announced else [own]


def _that_matter(checks: tuple[Assumption, ...], rows: tuple[Row, ...]) -> tuple[Assumption, ...]:
    """Leave out special assumptions on which no bound rests, and add those that were not checked."""
    rests = {name for row in rows if row.guarantee for name in row.guarantee.assumptions}
    named = {assumption.name for assumption in checks}
    shown = tuple(a for a in checks if a.name in rests or a.name not in ONLY_IF_NEEDED)
    return shown + tuple(Assumption(name, GIVEN, "not checked") for name in sorted(rests - named))


def _rows(
    shown: dict[str, Array | None],
    of_row: dict[str, tuple[Guarantee, ...]],
    about_scored: tuple[Guarantee, ...],
    refuted: set[str],
    limits: dict[str, float],
    sizes: dict[str, float],
) -> tuple[Row, ...]:
    """One row per measured quantity, with the bounds of `of_row` or else those about the scored problem."""
    rows = []
    for name, values in shown.items():
        quantity = name if name in QUANTITIES else "regret"
        quantity = "peak violation" if name == ANNOUNCED_VIOLATION else quantity
        candidates = of_row.get(name, about_scored)
        limit = None if name in (POLICY_REGRET, ANNOUNCED_VIOLATION) else limits.get(quantity)
        for expected in (False, True):
            chosen = standing((g for g in candidates if g.expected == expected), refuted)[quantity]
            if not expected or chosen.guarantee is not None:
                label = f"{name}, mean over seeds" if expected else name
                rows.append(_row(label, values, chosen, limit, sizes[quantity]))
    return tuple(rows)


def _moves(comparator: Any) -> bool:
    return getattr(comparator, "comparator", "fixed") != "fixed"


def regret_name(comparator: Any) -> str:
    """What a certificate calls regret against this comparator."""
    return f"regret, {comparator.comparator} comparator" if _moves(comparator) else "regret"


def _checked(best: Any, run: Run) -> Any:
    """`best`, if it has one loss per seed."""
    shape = np.shape(getattr(best, "loss", best))
    if shape not in ((), (run.seeds,)):
        raise ValueError(
            f"best: got losses of shape {shape}; expected one per seed, {(run.seeds,)}, for the whole run: "
            "taut.hindsight(problem, stream, seeds=...) without prefixes"
        )
    return best


def _row(quantity: str, values: Array | None, chosen: Standing, limit: float | None, rounding: float) -> Row:
    bound = None if chosen.guarantee is None else chosen.guarantee.bound
    trivial = bound is not None and limit is not None and bound >= limit
    if values is None:
        return Row(quantity, None, None, chosen.guarantee, chosen.refuted, chosen.reasons, trivial)
    half = math.inf
    if len(values) > 1:
        from scipy.special import stdtrit  # the quantile of Student's t distribution; scipy.stats loads slowly

        half = float(stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Row(
        quantity, float(np.mean(values)), float(np.max(values)), chosen.guarantee, chosen.refuted, chosen.reasons,
        trivial, rounding, half,
    )  # fmt: skip


def _source(run: Run, problem: Problem, stream: Any, seeds: int | None, data: Any) -> Stream | None:
    if stream is not None and data is None:
        return as_stream(problem.arrange(stream), horizon=run.horizon, seeds=seeds)
    if data is None and isinstance(run.stream, Adversary):
        data = revealed_data(run)
    # What an adversary revealed can be held to what a model says of its parameters only now.
    return run.stream if data is None else as_stream(problem.arrange(data), seeds=run.seeds)


def best_or_note(
    problem: Problem, source: Stream | None, run: Run, notes: list[str], whose: str = "the problem"
) -> Hindsight | None:
    """The best fixed decision, or `None` with a note that says why there is none."""
    from .hindsight import hindsight

    if source is None:
        notes.append("Regret is missing because this run has no stream. Pass stream=... to taut.certify.")
        return None
    try:
        return hindsight(problem, source, horizon=run.horizon)
    except NoFeasibleDecision as error:
        notes.append(_without_comparator(error, whose))
        return None


def _without_comparator(error: NoFeasibleDecision, whose: str) -> str:
    """Say that no fixed decision is feasible, and which one violates least."""
    shown = np.array2string(np.asarray(error.decision), precision=4, threshold=12)
    seed = "" if error.seed is None else f" of seed {error.seed}"
    return (
        f"Regret is missing because no fixed decision of {whose} is feasible in all rounds{seed}: every one has max g >= "
        f"{error.bound:.4g} in some round. The least-violating decision is x = {shown}, with max g = {error.violation:.4g}. "
        "Decisions that change are other comparators: pass best=taut.hindsight(problem, stream, "
        'comparator="per-round"), or "shifting", to the certificate.'
    )


def _checks(
    run: Run, played: Problem, scored: Problem, source: Stream, seen: Observations, key: jax.Array | None
) -> tuple[Assumption, ...]:
    feasible = getattr(run.learner, "feasible", None)
    found = _assumptions.check(played, source, key, seen, feasible)
    if scored is played:
        return found
    data = None
    if scored.constraints.takes_data:
        data = _assumptions.rounds_of(source, key, seen)
    slater = _assumptions.check_slater(scored, data, SCORED_SLATER)
    return found if slater is None else (*found, slater)


def _rounding(
    run: Run, played: Problem, scored: Problem, comparator: Any, seen: Observations | None
) -> dict[str, float]:
    """How far rounding can have moved each measured quantity: it scales with the numbers that are added up."""
    known, totals, rounds = scored.constants, run.totals, run.horizon
    unit = 64 * float(np.finfo(run.final.dtype).eps)
    reach = float(np.linalg.norm(np.asarray(scored.domain.centre))) + float(scored.domain.radius)
    values = max(float(totals.peak.max()), float(np.abs(totals.excess).max()) / rounds, known.constraint_range or 0.0)
    constraint = values + (known.constraint_lipschitz or 0.0) * reach
    loss = float(np.abs(totals.loss).max()) / rounds + (known.loss_lipschitz or 0.0) * reach
    if seen is not None:
        constraint = max(seen.constraint_size, values) if played is scored else constraint
        loss = max(loss, seen.loss_size)
    gap = 0.0
    if comparator is not None and hasattr(comparator, "gap"):
        gap = float(np.max(np.asarray(comparator.gap) * np.maximum(1, np.abs(np.asarray(comparator.loss)))))
    each, peak = unit * constraint, float(totals.peak.max())
    squares = totals.excess.shape[-1] * rounds * each * (2 * peak + each)
    return {
        "regret": unit * loss * rounds + gap, "violation": rounds * each, "squared violation": squares,
        "peak violation": each, "excess": rounds * each,
    }  # fmt: skip

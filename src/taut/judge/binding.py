"""Whether a problem and data are those of a run: play it again, and compare with what was recorded.

The same program computes the same numbers. Another machine, or a program that is compiled another
way, rounds differently. Rounding errors stay small in most runs. In some they grow, for example
where a decision lies at a kink of the loss. `check_same` therefore plays up to three times, and
again only if there is a difference: with a program that is compiled quickly; with the program that
played the run; and with parameters of the learner that differ by a few units of rounding. Rounding
explains what the last runs differ by. A run that still has its problem, its data and its decisions
is not played at all if losses and constraints at these decisions are those that were recorded.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from ..display import counted
from ..engine import Array
from ..learners import Learner
from ..play.replay import played_again
from ..problem.domains.support import centre_of
from ..problem.evaluation import constraint_evaluation, loss_evaluation
from ..problem.memory import linked, recorded
from ..problem.problem import Problem
from ..problem.streams import Stream
from ..runs.run import RECORDS, Run
from ..runs.sample import other_part, sample_of, sample_of_run
from ..runs.totals import Totals, round_terms

UNITS = (-64, -5, 7, 64)
"""Units of rounding by which parameters of the learner are changed."""
SPREAD = 4.0
"""How much larger a difference may be than those between runs that differ by rounding."""
VALUES = 2**22
"""Constraint values that are compared without playing a run again, at most."""
NAMES = {
    "loss": "the losses",
    "excess": "the constraint values",
    "decisions": "the decisions",
    "multipliers": "the multipliers",
    "weights": "the weights",
    "final": "the final decisions",
}


class Difference(NamedTuple):
    """Where a run that was played again differs from what was recorded."""

    what: str
    here: float
    """The number with the problem and the data in question."""
    recorded: float


def check_same(run: Run, played: Problem, scored: Problem, source: Stream) -> Run:
    """Raise ValueError if problems and data are not those of the run; return the run, or the run as
    it was played again.

    Arguments:
        run: of one learner.
        played: the problem that is said to have been played.
        scored: the problem that is said to have scored it.
        source: the data; for an adversary, what it revealed.
    """
    if source.seeds != run.seeds:
        raise ValueError(
            f"stream: got data of {counted(source.seeds, 'seed')}; expected those of the run, "
            f"which has {run.seeds}"
        )
    tolerance = float(np.sqrt(np.finfo(run.final.dtype).eps))
    few = run.totals.excess.size * run.horizon <= VALUES
    has_path = run.path is not None and run.played_by is run.learner
    at_path = has_path and few and _is_own(run, played, scored, source)
    if at_path and _first_difference(run, _on_path(run, scored, source), tolerance) is None:
        return run
    again, difference = _played(run, played, scored, source, tolerance)
    if difference is not None:
        raise ValueError(
            f"run: {difference.what} are not those of the run: {difference.here:.6g} with this "
            f"problem and these data, {difference.recorded:.6g} in the run; expected the problem, "
            "the data and the learner that were played, unchanged"
        )
    return again


def _played(
    run: Run, played: Problem, scored: Problem, source: Stream, tolerance: float
) -> tuple[Run, Difference | None]:
    """Play the run again, and return what that gives with the first difference that rounding does
    not explain, or None."""
    again, elsewhere = [], None
    remembered = _is_own(run, played, scored, source)
    sample = None if remembered else sample_of_run(run)
    if sample is not None:  # of the domain, and of decisions all over it
        other = other_part(sample_of(played, scored, source), sample, tolerance)
        elsewhere = None if other is None else Difference(*other)
    for quick in (False,) if remembered else (True, False):
        again.append(played_again(run, played, scored, source, quick=quick))
        counts = [either.totals.excess.shape[-1] for either in (again[-1], run)]
        if counts[0] != counts[1]:
            return again[-1], Difference("the numbers of constraints", *counts)
        difference = _first_difference(run, again[-1], tolerance)
        if difference is None or elsewhere is not None:
            return again[-1], difference or elsewhere
    last = again[-1]
    assert isinstance(run.learner, Learner)
    unit = float(np.finfo(run.final.dtype).eps)
    nearby = tuple(_changed(run.learner, 1 + k * unit) for k in UNITS)
    several = played_again(run, played, scored, source, learners=nearby)
    sizes = _sizes(run, played, scored, source)
    spread = _spread([*again, *(several[i] for i in range(len(nearby)))])
    return last, _first_difference(run, last, tolerance, sizes, spread)


def _is_own(run: Run, played: Problem, scored: Problem, source: Stream) -> bool:
    """Whether problems and data are the objects that a run remembers. A run from a file got them
    afterwards."""
    own = run.played is played and run.problem is scored and run.stream is source
    return own and run.sample is None


def _on_path(run: Run, scored: Problem, source: Stream) -> Run:
    """Return the run with the losses, constraint values and totals of the decisions that it has
    kept."""
    assert run.path is not None
    if scored.previous:
        source = linked(scored, source, run.path, run.first)
        scored = recorded(scored)
    data, constraints = source.block(0, run.horizon), scored.scored_constraints
    constraint_data = data if constraints.takes_data else None
    loss = loss_evaluation(scored).values(run.path, data)
    values = constraint_evaluation(scored, constraints).values(run.path, constraint_data)
    terms = round_terms(np, loss, values)
    sums = {name: term.sum(axis=1) for name, term in terms._asdict().items()}
    totals = Totals(**sums, peak=terms.violation.max(axis=1))
    return replace(run, loss=loss, excess=terms.worst_excess, totals=totals)


def _first_difference(
    run: Run,
    replayed: Run,
    tolerance: float,
    sizes: dict[str, float] | None = None,
    spread: dict[str, Array] | None = None,
) -> Difference | None:
    """Return the difference of the earliest round, or None.

    Arguments:
        run: as it was recorded.
        replayed: the same, computed again.
        tolerance: of each part, relative to its largest number.
        sizes: sizes of the numbers from which rounding errors come, where they are larger.
        spread: what runs differ by that differ by rounding, arrays like those of `_parts`.
    """
    differences, again = [], _parts(replayed)
    for name, mine in _parts(run).items():
        size = max(float(np.max(np.abs(mine), initial=0)), (sizes or {}).get(name, 0.0))
        allowed = tolerance * size + SPREAD * (spread or {}).get(name, np.zeros(1))
        off = ~(np.abs(again[name] - mine) <= allowed)
        if not off.any():
            continue
        row = int(np.argmax(off.any(axis=(0, 2))))
        seed, entry = np.unravel_index(int(np.argmax(off[:, row])), off[:, row].shape)
        when = np.inf  # what belongs to the whole run comes last
        if name in RECORDS:
            when = row + 1 if name in ("loss", "excess") else (row + 1) * run.every
        what = NAMES.get(name) or f"the totals of {name[6:].replace('_', ' ')}"
        what += f" of round {when}" if when < np.inf else ""
        what += f" in seed {seed}" if run.seeds > 1 else ""
        pair = again[name][seed, row, entry], mine[seed, row, entry]
        differences.append((when, Difference(what, *map(float, pair))))
    return min(differences, key=lambda each: each[0], default=(0, None))[1]


def _parts(run: Run) -> dict[str, Array]:
    """Return all numbers of a run that are compared, arrays (seed, round or 1, entry)."""
    parts = {}
    for name in (*RECORDS, "final"):
        values = getattr(run, name)
        if values is not None:
            rounds = 1 if name == "final" else values.shape[1]
            parts[name] = np.asarray(values, float).reshape(run.seeds, rounds, -1)
    for field in fields(Totals):
        parts[f"total_{field.name}"] = getattr(run.totals, field.name).reshape(run.seeds, 1, -1)
    return parts


def _sizes(run: Run, played: Problem, scored: Problem, source: Stream) -> dict[str, float]:
    """Return the sizes of the numbers from which rounding errors of each part come: of decisions
    the extent of the domain, of other parts their values all over the domain."""
    reach = float(np.linalg.norm(centre_of(played.domain))) + float(played.domain.radius)
    sample = sample_of(played, scored, source)
    size = {
        name: float(np.max(np.abs(values[np.isfinite(values)]), initial=0))
        for name, values in sample.items()
    }
    loss, excess = size.get("losses", 0.0), size.get("constraint values", 0.0)
    sizes = {"loss": loss, "excess": excess, "decisions": reach, "final": reach}
    for field in fields(Totals):
        each = loss if field.name == "loss" else excess
        each = each**2 if field.name.endswith("squared") else each
        sizes[f"total_{field.name}"] = each if field.name == "peak" else run.horizon * each
    return sizes


def _spread(runs: list[Run]) -> dict[str, Array]:
    """Return what runs differ by up to each round, arrays (seed, round or 1, 1)."""
    parts = [_parts(run) for run in runs]
    spread = {}
    for name in parts[0]:
        values = np.stack([each[name] for each in parts])
        widest = np.ptp(values, axis=0).max(axis=-1, keepdims=True)
        spread[name] = np.maximum.accumulate(widest, axis=1)
    return spread


def _changed(learner: Learner, factor: float) -> Learner:
    """Return the learner with all real parameters multiplied by a factor close to 1."""

    def change(leaf: Any) -> Any:
        return leaf * factor if np.asarray(leaf).dtype.kind == "f" else leaf

    changed: Learner = jax.tree.map(change, learner)
    return changed

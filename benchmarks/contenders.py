"""Compare all implementations on all problems: first their results, which must agree, then their
time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from . import (
    batched,
    cases,
    half_space_scan,
    naive,
    native,
    numba_loops,
    optax_scan,
    ours,
    outside,
    projection,
)
from .cases import Case
from .played import Play, Played, difference, differing
from .timing import Timing, interleaved

AGREE = 1e-9
"""Results of implementations differ by at most this."""
TIES, AFTER_TIES = 0.1, 1e-3
"""The largest share of rounds with half-space in which they differ by more, and by how much.
Rounding decides which cut is stored if two constraints are equally large, and whether a cut on
whose boundary a decision lies counts as active, so that another one is dropped. A few rounds later
the same cuts are stored again, and decisions agree."""
HUNDRED = 100
CVXPY_ROUNDS = 20
FLOOR = 0.02
"""Seconds of a sample."""

Prepare = Callable[[Case, int, int], Play]


def measure(case: Case, repeats: int, hundred: bool) -> dict[str, dict[str, Any]]:
    """Return nanoseconds per round and seed of each implementation on one problem, and the ratio to
    C. The learner is that of the case."""
    clipped = case.method == "clipped-ogd"
    scan = optax_scan.prepare if clipped else half_space_scan.prepare
    rounds = case.rounds
    entries: dict[str, tuple[Prepare, int, int]] = {
        "C": (native.prepare, 1, rounds),
        "C, 10 seeds": (native.prepare, 10, rounds),
        "taut, one stream": (ours.prepare, 1, rounds),
        "taut, 10 seeds": (ours.prepare, 10, rounds),
        "taut, one stream, chunk = horizon": (ours.fitted, 1, rounds),
        "taut, 10 seeds, chunk = horizon": (ours.fitted, 10, rounds),
        "optax in a scan": (scan, 1, rounds),
        "optax in a scan, 10 seeds": (scan, 10, rounds),
    }
    if clipped:
        slow = min(case.slow, rounds)
        entries |= {
            "Numba": (numba_loops.prepare, 1, rounds),
            "NumPy": (naive.prepare, 1, slow),
            "NumPy, 10 seeds in one array": (batched.prepare, 10, slow // 2),
        }
    if hundred:
        entries["taut, 100 seeds"] = (ours.prepare, HUNDRED, rounds)
        entries["NumPy, 100 seeds in one array"] = (batched.prepare, HUNDRED, slow // 4)
    plays: dict[str, Play] = {}
    reference: Played | None = None
    for name, (prepare, seeds, rounds) in entries.items():
        play = prepare(case, seeds, rounds)
        if name == "C, 10 seeds":
            reference = Played(*(np.array(part) for part in play()))
        plays[name] = play
    assert reference is not None
    gaps = {}
    for name, play in plays.items():
        played = play()
        gaps[name] = difference(reference, played)
        share = differing(reference, played, AGREE)
        if not agree(case, gaps[name], share):
            raise SystemExit(
                f"{case.name}, {case.method}: {name} and C differ by {gaps[name]:.3g}, in "
                f"{share:.1%} of the rounds, so they do not do the same work"
            )
    took = interleaved(plays, repeats, FLOOR)
    found = {}
    for name, (_, seeds, played_rounds) in entries.items():
        per = took[name].per(seeds * played_rounds)
        found[name] = {**per._asdict(), "difference": gaps[name]}
    # One stream is compared with one stream, many seeds with many, because C reads ten times the
    # data for ten seeds.
    for name, (_, seeds, _) in entries.items():
        against = found["C"] if seeds == 1 else found["C, 10 seeds"]
        found[name]["ratio"] = found[name]["median"] / against["median"]
    return found


def agree(case: Case, gap: float, share: float) -> bool:
    """Return whether implementations play the same game.

    Arguments:
        case: what is played.
        gap: by how much their results differ.
        share: the share of rounds in which they differ by more than `AGREE`.
    """
    if gap <= AGREE:
        return True
    return case.method == "half-space" and gap <= AFTER_TIES and share <= TIES


def project(case: Case, per_round: float) -> dict[str, Any]:
    """Measure one CVXPY projection per round, on few rounds, because a round takes milliseconds."""
    play = projection.prepare(case, CVXPY_ROUNDS)
    gap = projection.check(case, play())
    if gap > 1e-4:
        raise SystemExit(
            f"{case.name}: the decisions of CVXPY violate the constraints by {gap:.3g}"
        )
    took = interleaved({"CVXPY": play}, 3)["CVXPY"].per(CVXPY_ROUNDS)
    return {**took._asdict(), "difference": gap, "ratio": took.median / per_round}


def elsewhere(per_round: float, install: bool) -> dict[str, dict[str, Any]]:
    """Measure cooper and PyOL on the toy problem, or return the reason why they were skipped."""
    case = cases.toy()
    rounds = 2000
    reference = native.prepare(case, 1, rounds)().loss[0]
    found = {}
    for name, result in outside.measure(case, rounds, install).items():
        if "skipped" in result:
            print(f"{name}: skipped, {result['skipped']}", file=sys.stderr)
            found[name] = result
            continue
        gap = float(np.abs(np.asarray(result.pop("losses")) - reference).max())
        if gap > AGREE:
            raise SystemExit(
                f"toy: {name} and C differ by {gap:.3g}, so they do not do the same work"
            )
        took = Timing(result["ns"], result["low"], result["high"])
        found[name] = {**took._asdict(), "difference": gap, "ratio": took.median / per_round}
    return found

"""Compare all implementations on all problems: first their results, which must agree, then their
time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from . import batched, cases, naive, native, numba_loops, optax_scan, ours, outside, projection
from .cases import Case
from .played import Play, Played, difference
from .timing import Timing, interleaved

AGREE = 1e-9
HUNDRED = 100
CVXPY_ROUNDS = 20

Prepare = Callable[[Case, int, int], Play]


def measure(case: Case, repeats: int, hundred: bool) -> dict[str, dict[str, Any]]:
    """Return nanoseconds per round and seed of each implementation on one problem, and the ratio to
    C."""
    slow = min(case.slow, case.horizon)
    entries: dict[str, tuple[Prepare, int, int]] = {
        "C": (native.prepare, 1, case.horizon),
        "C, 10 seeds": (native.prepare, 10, case.horizon),
        "taut, one stream": (ours.prepare, 1, case.horizon),
        "taut, 10 seeds": (ours.prepare, 10, case.horizon),
        "taut, one stream, chunk = horizon": (ours.fitted, 1, case.horizon),
        "taut, 10 seeds, chunk = horizon": (ours.fitted, 10, case.horizon),
        "Numba": (numba_loops.prepare, 1, case.horizon),
        "optax in a scan": (optax_scan.prepare, 1, case.horizon),
        "optax in a scan, 10 seeds": (optax_scan.prepare, 10, case.horizon),
        "NumPy": (naive.prepare, 1, slow),
        "NumPy, 10 seeds in one array": (batched.prepare, 10, slow // 2),
    }
    if hundred:
        entries["taut, 100 seeds"] = (ours.prepare, HUNDRED, case.horizon)
        entries["NumPy, 100 seeds in one array"] = (batched.prepare, HUNDRED, slow // 4)
    plays: dict[str, Play] = {}
    reference: Played | None = None
    for name, (prepare, seeds, rounds) in entries.items():
        play = prepare(case, seeds, rounds)
        if name == "C, 10 seeds":
            kept = play()
            reference = Played(*(np.array(part) for part in kept))
        plays[name] = play
    assert reference is not None
    gaps = {name: difference(reference, play()) for name, play in plays.items()}
    for name, gap in gaps.items():
        if gap > AGREE:
            raise SystemExit(
                f"{case.name}: {name} and C differ by {gap:.3g}, so they do not do the same work"
            )
    took = interleaved(plays, repeats)
    found = {}
    for name, (_, seeds, rounds) in entries.items():
        per = took[name].per(seeds * rounds)
        found[name] = {**per._asdict(), "difference": gaps[name]}
    # One stream is compared with one stream, many seeds with many, because C reads ten times the
    # data for ten seeds.
    for name, (_, seeds, _) in entries.items():
        against = found["C"] if seeds == 1 else found["C, 10 seeds"]
        found[name]["ratio"] = found[name]["median"] / against["median"]
    return found


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

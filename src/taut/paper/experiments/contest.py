"""A contest: several learners on one problem and stream, over a grid of horizons, into one labelled dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...learners import ClippedOGD, Learner, SaddlePoint
from ...play import metrics
from ...play.simulate import simulate
from ...problem.constants import Constants
from ...problem.problem import Problem

if TYPE_CHECKING:
    import xarray

__all__ = ["QUANTITIES", "Contestant", "contest", "field", "strong_field"]

QUANTITIES = ("regret", "violation", "excess", "squared", "peak", "share")
"""Variables of a contest's dataset: the metrics of `taut.metrics`, and the share of rounds with g > 0."""


@dataclass(frozen=True)
class Contestant:
    """A learner in the figures: how it is named, and how it is made for a horizon."""

    name: str
    label: str
    make: Callable[[Constants, int], Learner]
    anytime: bool
    """Whether one run serves every horizon, because the parameters do not depend on it."""

    def broken(self, make: Callable[[Constants, int], Learner]) -> Contestant:
        """The same name with another learner behind it: for tests that see verdicts change."""
        return replace(self, make=make)


def field() -> tuple[Contestant, ...]:
    """The learners of the paper's figures with the paper's parameters, then the scale-aware rule."""
    found = [Contestant("ogd", "OGD", SaddlePoint.mahdavi, False)]
    for beta, name, text in _BETAS:
        found.append(Contestant(f"a-ogd-{name}", f"A-OGD, $\\beta={text}$", _adaptive(beta), True))
    for rule, prefix, suffix in (("paper", "clipped", ""), ("scale-aware", "scaled", ", scale-aware")):
        for beta, name, text in _BETAS:
            label = f"Clipped-OGD{suffix}, $\\beta={text}$"
            found.append(Contestant(f"{prefix}-{name}", label, _clipped(beta, rule), False))
    return tuple(found)


def strong_field() -> tuple[Contestant, ...]:
    """The same, and the learners for strongly convex losses."""
    found = [Contestant("strong", "Our-strong", lambda c, T: ClippedOGD.strongly_convex(c, rule="paper"), True)]
    found.append(
        Contestant("strong-scaled", "Our-strong, scale-aware", lambda c, T: ClippedOGD.strongly_convex(c), True)
    )
    for beta, name, text in _BETAS:
        label = f"A-OGD strongly convex, $\\beta={text}$"
        found.append(Contestant(f"a-ogd-strong-{name}", label, _adaptive_strong(beta), True))
    return (*field(), *found)


_BETAS = ((0.5, "half", "1/2"), (2 / 3, "two-thirds", "2/3"))


def _adaptive(beta: float) -> Callable[[Constants, int], Learner]:
    return lambda c, T: SaddlePoint.jenatton(c, beta)


def _adaptive_strong(beta: float) -> Callable[[Constants, int], Learner]:
    return lambda c, T: SaddlePoint.jenatton_strongly_convex(c, beta)


def _clipped(beta: float, rule: str) -> Callable[[Constants, int], Learner]:
    return lambda c, T: ClippedOGD.tuned(c, T, beta, rule=rule)


def contest(
    contestants: Sequence[Contestant],
    problem: Problem,
    stream: Any,
    horizons: Sequence[int],
    seeds: int,
    best: np.ndarray[Any, Any],
    done: Callable[[], None] = lambda: None,
) -> xarray.Dataset:
    """Every metric by (contestant, seed, horizon).

    Arguments:
        contestants: the learners.
        problem: the game, its constants known.
        stream: arrays (seed, round, ...).
        horizons: each is a game of its own for learners tuned to it.
        seeds: number of seeds.
        best: loss of the best fixed decision, by (seed, horizon).
        done: called after every contestant, for a progress bar.
    """
    import xarray as xr

    def play(one: Contestant) -> dict[str, np.ndarray[Any, Any]]:
        if one.anytime:
            run = simulate(
                one.make(problem.constants, max(horizons)), problem, stream, horizon=max(horizons), seeds=seeds
            )
            columns = _measure(run, best, list(horizons))
        else:
            parts = []
            for i, horizon in enumerate(horizons):
                run = simulate(one.make(problem.constants, horizon), problem, stream, horizon=horizon, seeds=seeds)
                parts.append(_measure(run, best[:, i : i + 1], [horizon]))
            columns = {name: np.concatenate([part[name] for part in parts], axis=1) for name in QUANTITIES}
        done()
        return columns

    with ThreadPoolExecutor(2) as pool:  # JAX lets go of the interpreter while it computes
        played = list(pool.map(play, contestants))
    dims = ("contestant", "seed", "horizon")
    return xr.Dataset(
        {name: (dims, np.stack([columns[name] for columns in played])) for name in QUANTITIES},
        coords={
            "contestant": [one.name for one in contestants],
            "label": ("contestant", [one.label for one in contestants]),
            "parameters": ("contestant", [repr(one.make(problem.constants, max(horizons))) for one in contestants]),
            "horizon": list(horizons),
            "seed": np.arange(seeds),
        },
    )


def _measure(run: Any, best: np.ndarray[Any, Any], rounds: list[int]) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "regret": metrics.regret(run, best, rounds),
        "violation": metrics.violation(run, rounds),
        "excess": metrics.excess(run, rounds),
        "squared": metrics.squared_violation(run, rounds),
        "peak": metrics.peak_violation(run, rounds),
        "share": metrics.violating_rounds(run, rounds) / np.asarray(rounds),
    }

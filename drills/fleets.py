"""Drills in which a fleet is killed while it saves itself, or a worker that holds a part of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import taut
from drills.children import Tries, in_child
from drills.game import LEARNER, data, leftovers, problem

__all__ = ["fleet"]

MEMBERS, ROUNDS = 200, 300
"""Members of the fleet, and rounds that each plays; it saves itself after each."""


def reports(round: int) -> np.ndarray:
    """The data of all members in a round, which is counted from 1."""
    return data(MEMBERS + ROUNDS)[round : round + MEMBERS]


def reporting(round: int) -> np.ndarray:
    """The members that report a round: in most rounds not all."""
    return np.arange(MEMBERS)[:: 1 + round % 3]


def fleet(folder: Path, tries: Tries, rng: random.Random) -> list[str]:
    """Kill a fleet that saves itself after every round. All that was saved must be in its folder,
    and nothing twice."""
    place, failures = folder / "fleet", []
    began = time.monotonic()
    expected = in_child(history)
    took = time.monotonic() - began

    def play(saved: Callable[[int], None]) -> None:
        live = (
            taut.Fleet.load(place, problem())
            if (place / "fleet.npz").exists()
            else taut.Fleet(LEARNER, problem(), range(MEMBERS))
        )
        for t in range(int(live.rounds().max()), ROUNDS):
            who = reporting(t)
            live.observe(who, reports(t)[who])
            live.skip(np.setdiff1d(np.arange(MEMBERS), who))
            live.save(place)
            saved(t + 1)

    def look() -> tuple[list[int], Any]:
        live = taut.Fleet.load(place, problem())
        return live.rounds().tolist(), live.decisions().tolist()

    for attempt in tries:
        acknowledged: list[int] = []
        in_child(play, kill_after=rng.uniform(0.3, 1.2) * took, heard=acknowledged)
        if not (place / "fleet.npz").exists():
            continue
        rounds, decisions = in_child(look)
        now = rounds[0]
        if set(rounds) != {now}:
            failures.append(f"kill {attempt}: members are in the rounds {sorted(set(rounds))}")
        if acknowledged and now < acknowledged[-1]:
            failures.append(
                f"kill {attempt}: round {acknowledged[-1]} was saved, the folder has round {now}"
            )
        if decisions != expected[now - 1]:
            failures.append(f"kill {attempt}: the decisions of round {now} are others")
        if now >= ROUNDS:
            for path in place.iterdir():
                path.unlink()
            place.rmdir()
    return failures + leftovers(folder, {"fleet"}, most=1)


def history() -> list[Any]:
    """Return the decisions of an uninterrupted fleet, round by round."""
    live, found = taut.Fleet(LEARNER, problem(), range(MEMBERS)), []
    for t in range(1, ROUNDS):
        found.append(live.decisions().tolist())
        who = reporting(t)
        live.observe(who, reports(t)[who])
        live.skip(np.setdiff1d(np.arange(MEMBERS), who))
    return [*found, live.decisions().tolist()]

"""A fleet of 40,000 members with four numbers each: one observation of all against players one by
one, bytes per member, save and load, and the memory of a million members.

Run: python -m benchmarks.fleet [--json] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from . import setting

if __name__ == "__main__" and "child" not in sys.argv:
    setting.one_core()

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

import taut  # noqa: E402

from .memory import peak  # noqa: E402
from .results import report  # noqa: E402

MEMBERS, PLAYERS, MANY = 40_000, 200, 10**6
SIZE = 4
REPEATS, BEFORE = 15, 5
"""Observations of all that are timed, and those before them."""
FASTER, GIGABYTES = 100.0, 4.0
"""How many times faster than players a fleet is at least, and what a million members take at
most."""


def problem() -> taut.Problem:
    """Spend on four channels as long as the budget of the member lasts."""
    return taut.Problem(
        lambda x, z: -z["value"] @ x,
        lambda x, z: z["price"] @ x - z["budget"],
        taut.Box(0.0, 1.0, shape=SIZE),
        taut.Constants(constraint_count=1),
    )


def observed(members: int, seed: int) -> dict[str, Any]:
    """The data of a round."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0, 1, (members, SIZE)) for name in ("value", "price")}


def made(members: int) -> taut.Fleet:
    """A new fleet with the default learner."""
    budgets = np.random.default_rng(1).uniform(0.3, 1.5, members)
    return taut.Fleet("half-space", problem(), range(members), {"budget": budgets})


def measure(
    members: int = MEMBERS, players: int = PLAYERS, many: int = MANY
) -> list[dict[str, Any]]:
    """Return one row per figure."""
    fleet = made(members)
    ours, theirs = _observations(fleet, players)
    bytes_per_member = sum(array[0].nbytes for array in fleet._members.arrays.values())
    with tempfile.TemporaryDirectory() as folder:
        whole = _least(lambda: made_again(fleet).save(folder))
        few = observed(40, 3)
        fleet.save(folder)
        fleet.observe(fleet.ids[:40], few)
        some = _seconds(lambda: fleet.save(folder))
        loaded = _least(lambda: taut.Fleet.load(folder, fleet.problem))
    million = json.loads(setting.start("benchmarks.fleet", "child", str(many)))
    return [
        _row("one observation of a member of a fleet", 1e6 * ours, "us"),
        _row("one observation of a player", 1e6 * theirs, "us"),
        _row("a fleet is faster by", theirs / ours, "times", theirs / ours >= FASTER),
        _row("memory of a member", float(bytes_per_member), "bytes"),
        _row(f"save {members:,} members", 1e3 * whole, "ms"),
        _row("save 40 of them that changed", 1e3 * some, "ms"),
        _row(f"load {members:,} members", 1e3 * loaded, "ms"),
        _row(
            f"{many:,} members, peak memory of the process",
            million["bytes"] / 1e9,
            "GB",
            million["bytes"] < GIGABYTES * 1e9,
        ),
        _row(f"{many:,} members, one observation of a member", 1e6 * million["seconds"], "us"),
        _row(f"{many:,} members, save", million["save"], "s"),
    ]


def _row(figure: str, value: float, unit: str, met: bool = True) -> dict[str, Any]:
    return {"figure": figure, "value": value, "unit": unit, "met": met}


def _observations(fleet: taut.Fleet, players: int) -> tuple[float, float]:
    """Return processor seconds per member of one observation of all, and of one by players. Each is
    the least of several that alternate."""
    single = [taut.Player(fleet.learner, fleet.problem) for _ in range(players)]
    budgets = fleet.parameters()["budget"]
    took: dict[str, list[float]] = {"fleet": [], "players": []}
    for t in range(BEFORE + REPEATS):
        data = observed(len(fleet), t)

        def by_players(data: dict[str, Any] = data) -> None:
            for i, player in enumerate(single):
                player.observe(
                    {"budget": budgets[i], **{name: rows[i] for name, rows in data.items()}}
                )

        took["fleet"].append(_worked(lambda data=data: fleet.observe(None, data)) / len(fleet))
        took["players"].append(_worked(by_players) / players)
    away = np.abs(fleet.decisions()[:players] - [player.decision for player in single]).max()
    assert away < 1e-12, f"members and players differ by {away}"
    return min(took["fleet"][BEFORE:]), min(took["players"][BEFORE:])


def made_again(fleet: taut.Fleet) -> taut.Fleet:
    """The fleet as if it had never been saved."""
    fleet._saved = None
    return fleet


def _worked(call: Callable[[], object]) -> float:
    """Return the processor time of a call on this core: others may use the machine."""
    began = time.process_time()
    call()
    return time.process_time() - began


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _least(call: Callable[[], object]) -> float:
    return min(_seconds(call) for _ in range(3))


def _many(members: int) -> dict[str, float]:
    """Return seconds and memory of a large fleet, which observes three rounds and saves itself."""
    fleet = made(members)
    data = observed(members, 0)
    seconds = min(_worked(lambda: fleet.observe(None, data)) for _ in range(3)) / members
    with tempfile.TemporaryDirectory() as folder:
        save = _seconds(lambda: fleet.save(folder))
    return {"seconds": seconds, "save": save, "bytes": peak()}


def main() -> None:
    """Measure and print the table; exit with 1 if a target is missed."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    words.add_argument("--quick", action="store_true", help="fewer members")
    asked = words.parse_args()
    rows = measure(4000, 50, 10**5) if asked.quick else measure()
    report("fleet", rows, asked.json, "A fleet against players, default learner, four numbers")
    sys.exit(0 if all(row["met"] for row in rows) else 1)


if __name__ == "__main__":
    if "child" in sys.argv:
        print(json.dumps(_many(int(sys.argv[-1]))))
    else:
        main()

"""`python -m benchmarks.traps`: absurd readings, constraints that are gone and thin wedges, before
and after.

Before is the first edition of the default learner: it remembered the longest gradient and every cut
for ever, and ended a round after two sweeps over its cuts. After is the default. Each row shows the
mean loss and the clipped violation of both, and the mean loss of the best decision of each stage,
or of the run without the absurd readings. Absurd rounds do not count in the losses.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.arena.demand import packaged, rescaled
from taut.arena.streams import dispatch
from taut.runs import metrics

from .frontier_editions import FirstEdition

ROUNDS = 2000
TOY = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
CAP = taut.Problem(lambda x, z: -x[0], lambda x, z: x[0] - z, taut.Box(0.0, 1.0, shape=1))
ROW = taut.Problem(
    lambda x, z: z["c"] @ x, lambda x, z: z["a"] @ x - z["b"], taut.Ball(1.0, shape=2)
)
SWITCHED = taut.Problem(
    lambda x, z: -jnp.sum(x), lambda x, z: z * (x - 0.2), taut.Ball(1.0, shape=2)
)
BOXES = taut.Problem(
    lambda x, z: z["c"] @ x,
    lambda x, z: jnp.concatenate([x - z["b"], -x - z["b"]]),
    taut.Box(-1.0, 1.0, shape=4),
)


@dataclass(frozen=True)
class Trap:
    """A game with something that must not be remembered for ever."""

    problem: taut.Problem
    data: Any
    best: Callable[[], float] | None = None
    """The mean loss of the best decisions; by default of the learner on `clean`."""
    clean: Any = None
    """The data without absurd readings."""

    @property
    def counted(self) -> np.ndarray:
        """The rounds that count in losses: those without absurd readings."""
        if self.clean is None:
            return np.ones(len(jax.tree.leaves(self.data)[0]), bool)
        return np.all(np.asarray(self.data == self.clean).reshape(len(self.data), -1), axis=1)


def traps(rounds: int = ROUNDS) -> dict[str, Trap]:
    """Return all traps by name."""
    rng, t = np.random.default_rng(0), np.arange(rounds)
    costs = np.array([1.0, -0.5]) + 0.3 * rng.normal(size=(rounds, 2))
    demand = rescaled(packaged(), dispatch.DEFAULT.mean_demand)[:rounds]
    station = dispatch.problem(most=float(demand.max()))

    def absurd(where: Any, what: Any) -> Trap:
        data = costs.copy()
        data[where] = what
        return Trap(TOY, data, clean=costs)

    high = demand.copy()
    high[rounds // 10] *= 1000
    several = {5: [-1e4, 1e4], rounds // 4: [3e3, 3e3], rounds // 2: [0.0, -1e6]}
    spikes = costs.copy()
    for place, cost in several.items():
        spikes[place] = cost
    capacity = np.where(t < 50, 0.2, 1.0)
    outage = np.where((t >= rounds // 2) & (t < rounds // 2 + 50), 0.2, 1.0)
    daily = np.where(t % 288 < 12, 0.2, 1.0)
    angle = 2 * np.pi * t / rounds
    turning = {
        "c": np.tile([-1.0, 0.0], (rounds, 1)),
        "a": np.stack([np.cos(angle), np.sin(angle)], axis=1),
        "b": np.full(rounds, 0.1),
    }
    ahead = np.where(t < rounds // 2, 1.0, -1.0)
    opposite = {
        "c": np.stack([-ahead, np.zeros(rounds)], axis=1),
        "a": np.stack([ahead, np.zeros(rounds)], axis=1),
        "b": np.full(rounds, -0.5),
    }
    sizes = np.repeat([0.2, 0.5, 0.35, 0.8], -(-rounds // 4))[:rounds]
    drift = -(np.array([1.0, 0.6, -0.4, 0.2]) + 0.5 * rng.normal(size=(rounds, 4)))
    boxes = {"c": drift, "b": sizes}
    return {
        "a cost of 1e4 in round 6": absurd(5, [-1e4, 1e4]),
        "the same halfway": absurd(rounds // 2, [-1e4, 1e4]),
        "three, up to 1e6": Trap(TOY, spikes, clean=costs),
        "three in a row": absurd(slice(5, 8), [-1e4, 1e4]),
        "a cost of 1e200": absurd(5, [-1e200, 1e200]),
        "twenty in a row": absurd(slice(5, 25), [-1e4, 1e4]),
        "the first reading": absurd(0, [-1e4, 1e4]),
        "dispatch, demand x 1000": Trap(station, high, clean=demand),
        "capacity 0.2 for 50 rounds": Trap(CAP, capacity, lambda: -capacity.mean()),
        "outage of 50 rounds, halfway": Trap(CAP, outage, lambda: -outage.mean()),
        "12 rounds of each 288": Trap(CAP, daily, lambda: -daily.mean()),
        "two rows, switched off": Trap(
            SWITCHED, (t < 50).astype(float), lambda: -np.where(t < 50, 0.4, 2**0.5).mean()
        ),
        "a half-plane that turns": Trap(ROW, turning, lambda: _half_plane(turning)),
        "a limit that is reversed": Trap(ROW, opposite, lambda: 0.5),
        "boxes that change": Trap(BOXES, boxes, lambda: _box(boxes)),
        **{f"a wedge of {angle:g}": _wedge(angle, rounds) for angle in (0.1, 0.07, 0.001)},
    }


def _wedge(angle: float, rounds: int) -> Trap:
    """The two sides of a wedge in turn, and a loss that pushes to its apex, the origin."""
    side = np.where(np.arange(rounds) % 2, 1.0, -1.0)
    data = {
        "c": np.tile([1.0, 0.0], (rounds, 1)),
        "a": np.stack([np.full(rounds, -np.sin(angle)), side * np.cos(angle)], axis=1),
        "b": np.zeros(rounds),
    }
    return Trap(ROW, data, lambda: 0.0)


def _half_plane(data: dict[str, np.ndarray]) -> float:
    """The mean of the smallest -x_1 on the unit disc with a.x <= b."""
    normal, b = data["a"], data["b"][:, None]
    along = np.stack([-normal[:, 1], normal[:, 0]], axis=1)
    corners = [b * normal + sign * np.sqrt(1 - b**2) * along for sign in (1, -1)]
    best = np.maximum(corners[0][:, 0], corners[1][:, 0])
    return float(-np.where(normal[:, 0] <= data["b"], 1.0, best).mean())


def _box(data: dict[str, np.ndarray]) -> float:
    """The mean loss of the best decision of each stage."""
    total = sum(
        -size * np.abs(data["c"][data["b"] == size].sum(axis=0)).sum()
        for size in np.unique(data["b"])
    )
    return float(total / len(data["b"]))


def measured(trap: Trap) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Return mean loss and clipped violation before and after, and the mean loss of the best."""
    found = []
    for learner in (FirstEdition.of(trap.problem), taut.learner("half-space", trap.problem)):
        run = taut.simulate(learner, trap.problem, trap.data)
        loss = float(np.asarray(run.loss)[0][trap.counted].mean())
        found.append((loss, float(metrics.measured(run)["violation"][0])))
    if trap.best is not None:
        return found[0], found[1], trap.best()
    run = taut.simulate(trap.problem, trap.clean)
    return found[0], found[1], float(np.asarray(run.loss)[0][trap.counted].mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print("| trap | best | before: loss / violation | after: loss / violation |")
    print("|---|---|---|---|")
    for name, trap in traps(given.rounds).items():
        before, after, best = measured(trap)
        cells = (f"{loss:.4g} / {violation:.3g}" for loss, violation in (before, after))
        print(f"| {name} | {best:.4g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

"""An attack on theorem H6: games whose rows come from a pool of half-spaces.

Run: python -m drills.kept_cuts [--games N] [--seed K] [--bits 32]

Every game has M half-spaces through or near one point of the domain: random ones, nearly parallel
ones, and thin wedges down to an angle of 1e-8. Each round reveals a row of the pool, scaled by a
random number: a random row, or the one that the decision exceeds most. Losses push the decision
outwards. The theorem says that, if all kept cuts held after every round, at most M rounds exceed
their row by more than D / t^2. The comparator is a point of all half-spaces, so no round may lead
away from it by more than the gradient step.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import taut
from taut.learners.schedules import Constant

POOL = 8
"""Half-spaces of a game, at most, and kept cuts."""
APART = 2e-6
"""Two normals of a pool are equal or differ by more than this."""
KINDS = ("random", "touching", "nearly parallel", "wedges")


class Outcome(NamedTuple):
    """What happened in each game."""

    size: Any
    """M."""
    hold: Any
    """Whether all kept cuts held after every round."""
    exceeding: Any
    """Rounds that exceed their row by more than D / t^2 and rounding."""
    share: Any
    """The sum of the distances from the revealed half-spaces over (M + 0.65) D."""
    away: Any
    """The largest |x_{t+1} - u|^2 - |x_t - eta p_t - u|^2, over D^2."""


def domains(size: int) -> dict[str, taut.Domain]:
    """The domains of the drill."""
    return {
        "ball": taut.Ball(1.0, shape=size),
        "box": taut.Box(-1.0, 1.0, shape=size),
        "simplex": taut.Simplex(size + 1),
    }


def pools(domain: taut.Domain, games: int, rounds: int, seed: int, dtype: Any) -> dict[str, Any]:
    """Random games, all numbers of which are data."""
    rng = np.random.default_rng(seed)
    made = [_pool(domain, rng, rounds, KINDS[k % len(KINDS)]) for k in range(games)]
    stacked = {name: np.stack([one[name] for one in made]) for name in made[0]}
    # The point that all half-spaces share has to lie in them as they are represented.
    stacked["offsets"] += 4 * np.finfo(dtype).eps
    return {
        name: array.astype(dtype) if array.dtype.kind == "f" else array
        for name, array in stacked.items()
    }


def _pool(domain: taut.Domain, rng: Any, rounds: int, kind: str) -> dict[str, Any]:
    (d,) = domain.shape
    size = int(rng.integers(1, POOL + 1))
    inside = np.asarray(domain.project(jnp.asarray(rng.normal(size=d))), float)
    centre = np.asarray(domain.centre, float)
    inside = centre + rng.uniform(0, 1) * (inside - centre)
    normals = _units(rng.normal(size=(POOL, d)))
    for k in range(1, size):
        if kind in ("nearly parallel", "wedges") and rng.random() < 0.7:
            sign = 1.0 if kind == "nearly parallel" else -1.0
            least = np.log10(2 * APART) if kind == "nearly parallel" else -8
            moved = normals[rng.integers(k)] + 10 ** rng.uniform(least, -1) * _units(
                rng.normal(size=d)
            )
            moved = sign * _units(moved)
            if np.min(np.linalg.norm(normals[:k] - moved, axis=1)) > APART:
                normals[k] = moved
    slack = np.where(rng.random(POOL) < (0.9 if kind == "random" else 0.2), 0.3, 0.0)
    return {
        "normals": normals,
        "offsets": normals @ inside + slack * rng.random(POOL),
        "size": np.int32(size),
        "inside": inside,
        "eta": np.float64(float(domain.diameter) * 10 ** rng.uniform(-3, 0.5)),
        "which": rng.integers(size, size=rounds).astype(np.int32),
        "adaptive": rng.random(rounds) < rng.random(),
        "scale": 10 ** rng.uniform(-3, 3, size=rounds),
        "towards": rng.integers(size, size=rounds).astype(np.int32),
        "noise": rng.normal(size=(rounds, d)) * rng.choice([0.0, 0.3]),
        "steady": rng.normal(size=d) * rng.choice([0.0, 1.0]),
    }


def _units(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@partial(jax.jit, static_argnums=(0, 2))
def play(domain: taut.Domain, pool: dict[str, Any], sweeps: int | None) -> Outcome:
    """Play games one after the other in one compiled program."""
    problem = taut.Problem(
        lambda x, z: z["c"] @ x, lambda x, z: z["s"] * (z["a"] @ x - z["b"]), domain
    )
    diameter = float(domain.diameter)

    def game(one: dict[str, Any]) -> Outcome:
        learner = taut.HalfSpace(Constant(one["eta"]), diameter, memory=POOL, sweeps=sweeps)
        dtype, u = one["inside"].dtype, one["inside"]
        in_pool = jnp.arange(POOL) < one["size"]
        eps = jnp.finfo(dtype).eps

        def turn(state: Any, now: dict[str, Any]) -> tuple[Any, Any]:
            excess = jnp.where(in_pool, one["normals"] @ state.x - one["offsets"], -jnp.inf)
            j = jnp.where(now["adaptive"], jnp.argmax(excess), now["which"])
            outward = one["normals"][now["towards"]] + one["steady"]
            c = -outward / (1 + jnp.linalg.norm(outward)) + now["noise"]
            row = {"c": c, "a": one["normals"][j], "b": one["offsets"][j], "s": now["scale"]}
            after = learner.step(state, problem.round(row))
            distance = jnp.maximum(excess[j], 0)
            stepped = jnp.sum((state.x - one["eta"] * c - u) ** 2)
            away = jnp.sum((after.x - u) ** 2) - stepped * (1 + 8 * eps)
            late = distance > diameter / state.t.astype(dtype) ** 2 + 1e2 * eps * diameter
            return after, (distance, late, away)

        rounds = {name: one[name] for name in ("which", "adaptive", "scale", "towards", "noise")}
        first = learner.init(jnp.asarray(domain.centre, dtype), 1)
        last, (distances, late, away) = lax.scan(turn, first, rounds)
        share = jnp.sum(distances) / ((one["size"] + 0.65) * diameter)
        return Outcome(one["size"], last.cuts_hold, jnp.sum(late), share, jnp.max(away) / diameter)

    return lax.map(game, pool)


def main() -> int:
    """Play the games; return 1 if one of them contradicts the theorem."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--games", type=int, default=10_000)
    words.add_argument("--rounds", type=int, default=100)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--bits", type=int, default=64, choices=(32, 64))
    asked = words.parse_args()
    jax.config.update("jax_enable_x64", asked.bits == 64)
    dtype, wrong, total = (np.float64 if asked.bits == 64 else np.float32), 0, 0
    cases = [
        (name, d, sweeps, domain)
        for d in (2, 3, 7)
        for name, domain in domains(d).items()
        for sweeps in (2, None)
    ]
    each = -(-asked.games // len(cases))
    for k, (name, d, sweeps, domain) in enumerate(cases):
        pool = pools(domain, each, asked.rounds, asked.seed + k, dtype)
        outcome = Outcome(*map(np.asarray, play(domain, pool, sweeps)))
        bad = outcome.hold & ((outcome.exceeding > outcome.size) | (outcome.share > 1))
        led = outcome.away > 1e3 * np.finfo(dtype).eps
        wrong, total = wrong + int(np.sum(bad | led)), total + each
        print(
            f"{name:8} d = {d}, sweeps {sweeps}: {each} games, cuts did not hold in "
            f"{int(np.sum(~outcome.hold))}, most of the bound {np.max(outcome.share):.2f}, "
            f"bound exceeded in {int(np.sum(bad))}, led away in {int(np.sum(led))} "
            f"(by {max(np.max(outcome.away), 0):.1e} D^2)",
            flush=True,
        )
    print(f"{wrong} of {total} games contradict the theorem")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

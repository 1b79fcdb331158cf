"""Attack the theorems on lifetimes of cuts: python -m drills.lifetimes [--games 10000] [--seed 0]

Every game has a pool of half-spaces with a common point, some of which share a normal. In each
round the adversary reveals one of them: at random, the one that the decision violates most, or one
whose cut has just expired. The drill counts rounds that violate, which F1 bounds, and compares
every life with F2.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.learners.half_space.lifetimes import alive
from taut.learners.schedules import AdaGradNorm

SIZE, NORMALS, OFFSETS, ROUNDS = 2, 4, 2, 160
BATCH = 250
"""Games that are played at a time."""
NEAR = 1e-7
"""A decision that exceeds a row by less than this does not violate it."""
DOMAIN = taut.Ball(1.0, shape=SIZE)
GAME = taut.Problem(lambda x, z: z["cost"] @ x, lambda x, z: z["normal"] @ x - z["offset"], DOMAIN)


class Attack(NamedTuple):
    """What was seen in a number of games."""

    games: int
    violations: float
    """The largest share of F1's number of violating rounds."""
    excess: int
    """The largest of life - (life0 + last - first - doublings), which F2 says is not positive."""
    hold: bool
    """Whether all projections were exact."""
    doublings: int
    """The largest number of doublings of a life."""


def attack(games: int, seed: int = 0, life: int = 2, rounds: int = ROUNDS) -> Attack:
    """Play games against adversaries and compare them with F1 and F2."""
    play = jax.jit(jax.vmap(lambda key: _played(key, life, rounds)))
    parts, left = [], games
    while left > 0:
        count = min(BATCH, left)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), left), count)
        parts.append([np.asarray(part) for part in play(keys)])
        left -= count
    counts, excess, hold, doublings = (np.concatenate(part) for part in zip(*parts, strict=True))
    known = {"diameter": 1.0, "constraint_lipschitz": 1.0, "life": life, "horizon": rounds}
    most = taut.bounds.lifetimes_violation(half_spaces=NORMALS * OFFSETS, **known)
    most = int(most)  # rounds; the rest of the bound is less than one
    return Attack(
        games,
        float(counts.max() / most),
        int(excess.max()),
        bool(hold.all()),
        int(doublings.max()),
    )


def _played(key: Any, life: int, rounds: int) -> tuple[Any, ...]:
    """One game: violating rounds, how far lives exceed F2, whether cuts held, doublings."""
    pool, cost, mode, first = jax.random.split(key, 4)
    normals, offsets = _pool(pool)
    normals, offsets = normals.repeat(OFFSETS, axis=0), offsets.ravel()
    bold, sly = jax.random.uniform(mode, (2,))
    learner = taut.HalfSpace(AdaGradNorm(1.0, 0.0), 2.0, memory=NORMALS, sweeps=None, life=life)
    push = jax.random.normal(cost, (SIZE,))

    def once(carry: Any, t: Any) -> Any:
        state, begun, count = carry
        draws = jax.random.split(jax.random.fold_in(first, t), 4)
        values = normals @ state.x - offsets
        lives = state.cuts.lifetimes
        dead = (lives.life > 0) & ~alive(lives, t)
        apart = jnp.sum((normals[:, :, None] - state.cuts.normals[None]) ** 2, axis=1)
        forgotten = jnp.any((apart < 1e-9) & dead[None], axis=1)
        back = jnp.argmax(jnp.where(forgotten, values, -jnp.inf))
        row = jax.random.randint(draws[0], (), 0, len(offsets))
        row = jnp.where(jax.random.uniform(draws[1]) < bold, jnp.argmax(values), row)
        lurking = (jax.random.uniform(draws[2]) < sly) & jnp.any(forgotten & (values > NEAR))
        row = jnp.where(lurking, back, row)
        noise = 0.3 * jax.random.normal(draws[3], (SIZE,))
        data = {"cost": push + noise, "normal": normals[row], "offset": offsets[row]}
        after = learner.step(state, GAME.round(data))
        begun = jnp.where((begun == 0) & (after.cuts.lifetimes.life > 0), t, begun)
        return (after, begun, count + (values[row] > NEAR)), None

    state = learner.init(DOMAIN.centre, 1)
    start = (state, jnp.zeros(NORMALS, jnp.int32), jnp.zeros((), jnp.int32))
    (state, begun, count), _ = jax.lax.scan(once, start, jnp.arange(1, rounds + 1, dtype=jnp.int32))
    lives = state.cuts.lifetimes
    doublings = jnp.round(jnp.log2(jnp.maximum(lives.life, life) / life)).astype(jnp.int32)
    excess = lives.life - (life + lives.last - begun - doublings)
    excess = jnp.where(lives.life > 0, excess, -rounds)
    return count, jnp.max(excess), state.cuts_hold, jnp.max(doublings)


def _pool(key: Any) -> tuple[Any, Any]:
    """Unit normals, and offsets of each, of half-spaces that share a point."""
    directions, point, room = jax.random.split(key, 3)
    normals = jax.random.normal(directions, (NORMALS, SIZE))
    normals /= jnp.linalg.norm(normals, axis=1, keepdims=True)
    common = 0.4 * jax.random.uniform(point, (SIZE,), minval=-1.0)
    return normals, (normals @ common)[:, None] + 0.3 * jax.random.uniform(room, (NORMALS, OFFSETS))


def main() -> None:
    """Print the result of the attack; exit with 1 if a theorem failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    failed = False
    for life in (1, 2, 8):
        seen = attack(given.games, given.seed, life)
        print(
            f"life {life}: {seen.games:,} games, violating rounds at most {seen.violations:.3f} of "
            f"F1, life beyond F2 at most {seen.excess}, up to {seen.doublings} doublings, "
            f"projections {'exact' if seen.hold else 'NOT exact'}",
            flush=True,
        )
        failed |= seen.violations > 1 or seen.excess > 0 or not seen.hold
    sys.exit(failed)


if __name__ == "__main__":
    main()

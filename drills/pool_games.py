"""Games whose rows come from a pool of half-spaces, for `drills.theorems`.

A pool has up to `rows` half-spaces that share a point of the domain: random ones, ones that pass
through that point, nearly parallel ones, thin wedges down to an angle of 1e-8, and pairs with the
same normal. In every round an adversary reveals a row, scaled by a random number: a random one, the
one that the decision exceeds most, or one whose cut has just expired. It also reveals a linear
cost: at random, one that pushes out of a row, or one that leads away from the shared point. Costs
are up to 10^4 times as long in a few rounds. Games that change have another pool, around another
point, from a random round on. Games with a `radius` have all tangents of a ball for rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import taut
from taut.learners.half_space.lifetimes import alive
from taut.learners.schedules import AdaGradNorm, Constant

APART = 2e-6
"""Two normals of a pool are equal or differ by more than this."""
KINDS = ("random", "touching", "nearly parallel", "wedges", "pairs")
NEAR = 1e-7
"""The adversary takes a decision that exceeds a row by less than this for feasible."""
START_UP = 1.0
LIFE = 2
ROUND_BY_ROUND = ("which", "mode", "scale", "size", "kind", "towards", "noise", "later")

Games = dict[str, Any]
"""Arrays whose first axis is the game; with `ROUND_BY_ROUND`, the second is the round."""


class Played(NamedTuple):
    """What happened in each game."""

    decisions: Any
    """(game, round, entry), one round more than were played."""
    costs: Any
    """(game, round, entry)."""
    normals: Any
    """Of the revealed rows, (game, round, entry)."""
    offsets: Any
    """(game, round)."""
    row: Any
    """The place of the revealed row in the pool, (game, round)."""
    in_force: Any
    """Rows of the pool whose cuts were projected on, (game, round, row); with lifetimes only."""
    hold: Any
    """Whether all kept cuts held after every round, (game,)."""
    correction: Any
    """(game,)"""
    lives: Any
    """Life, last confirmation and first round of each slot, (game, 3, slot); if there are lives."""

    @property
    def distances(self) -> Any:
        """How far decisions were outside the revealed rows, (game, round)."""
        products = np.einsum("gtd,gtd->gt", self.normals, self.decisions[:, :-1])
        return np.maximum(products - self.offsets, 0)


def adaptive(**options: Any) -> Callable[[Any, taut.Domain], taut.HalfSpace]:
    """Return a constructor of learners with adaptive steps."""
    return lambda game, domain: taut.HalfSpace(
        AdaGradNorm(float(domain.radius), START_UP), float(domain.diameter), **options
    )


def fixed(**options: Any) -> Callable[[Any, taut.Domain], taut.HalfSpace]:
    """Return a constructor of learners with the fixed step of the game."""
    return lambda game, domain: taut.HalfSpace(
        Constant(game["eta"]), float(domain.diameter), **options
    )


LEARNERS: dict[str, Callable[[Any, taut.Domain], taut.HalfSpace]] = {
    "no memory": adaptive(memory=0),
    "joint": adaptive(memory=0, joint=True),
    "two sweeps": adaptive(memory=8),
    "exact": adaptive(memory=8, sweeps=None),
    "lifetimes": adaptive(memory=8, life=LIFE),
    "all cuts": adaptive(memory=None),
    "fixed step, two sweeps": fixed(memory=8),
    "fixed step, exact": fixed(memory=8, sweeps=None),
    "fixed step, all cuts": fixed(memory=None),
}


def games_on(
    domain: taut.Domain,
    count: int,
    rounds: int,
    rows: int,
    seed: int,
    dtype: Any,
    changing: bool = False,
    curved: bool = False,
) -> Games:
    """Return random games, all numbers of which are data."""
    rng, (d,) = np.random.default_rng(seed), domain.shape
    kind = np.arange(count) % len(KINDS)
    size = rng.integers(2 if changing else 1, rows + 1, count)
    normals = _normals(rng, kind, rows, d)
    points = np.stack([_inside(rng, domain, count) for _ in range(2)], axis=1)
    # The second half of a pool that changes belongs to the second point, from round `changed` on.
    second = (np.arange(rows) >= (size // 2)[:, None]) & changing
    changed = rng.integers(1, rounds, count) if changing else np.full(count, rounds)
    later = (np.arange(rounds) >= changed[:, None]) & changing
    radius = np.where(rng.random(count) < 0.5, 0.3 * rng.random(count), 0.0) * curved
    loose = np.where(kind == KINDS.index("random"), 0.9, 0.2)[:, None]
    slack = np.where(rng.random((count, rows)) < loose, 0.3, 0.0) * rng.random((count, rows))
    slack = np.where(radius[:, None] > 0, radius[:, None], slack)
    low = np.where(later, (size // 2)[:, None], 0)
    high = np.where(later | (not changing), size[:, None], (size // 2)[:, None])
    mixture = [rng.dirichlet(np.ones(3), count).cumsum(axis=1) for _ in range(2)]
    often = rng.choice([0.0, 0.0, 0.02, 0.2], (count, 1))
    spikes = 10 ** rng.uniform(0, 4, (count, rounds))
    made = {
        "normals": normals.astype(dtype).astype(float),
        "points": points.astype(dtype).astype(float),
        "pool": size.astype(np.int32),
        "second": second,
        "changed": changed.astype(np.int32),
        "radius": radius,
        "eta": float(domain.diameter) * 10 ** rng.uniform(-3, 0.5, count),
        "which": rng.integers(low, high).astype(np.int32),
        "mode": _drawn(rng, mixture[0], rounds),
        "scale": 10 ** rng.uniform(-3, 3, (count, rounds)),
        "size": np.where(rng.random((count, rounds)) < often, spikes, 1.0),
        "kind": _drawn(rng, mixture[1], rounds),
        "towards": rng.integers(low, high).astype(np.int32),
        "noise": rng.normal(size=(count, rounds, d)) * rng.choice([0.1, 1.0], (count, 1, 1)),
        "later": later,
    }
    both = np.einsum("gkd,gpd->gkp", made["normals"], made["points"])
    through = np.where(second, both[..., 1], both[..., 0])
    # The point that half-spaces share has to lie in them as they are represented.
    made["offsets"] = through + slack + 4 * np.finfo(dtype).eps
    return {
        name: array.astype(dtype) if array.dtype.kind == "f" else array
        for name, array in made.items()
    }


def _normals(rng: Any, kind: Any, rows: int, d: int) -> Any:
    """Unit normals of each pool, (game, row, entry)."""
    count = len(kind)
    normals = _units(rng.normal(size=(count, rows, d)))
    parallel, wedges = (kind == KINDS.index(name) for name in ("nearly parallel", "wedges"))
    for k in range(1, rows):
        before = normals[np.arange(count), rng.integers(k, size=count)]
        least = np.where(parallel, np.log10(2 * APART), -8)
        moved = before + 10 ** rng.uniform(least, -1)[:, None] * _units(rng.normal(size=(count, d)))
        moved = np.where(wedges, -1, 1)[:, None] * _units(moved)
        apart = np.linalg.norm(normals[:, :k] - moved[:, None], axis=-1).min(axis=1) > APART
        takes = (parallel | wedges) & (rng.random(count) < 0.7) & apart
        normals[:, k] = np.where(takes[:, None], moved, normals[:, k])
    pairs = kind == KINDS.index("pairs")
    normals[pairs, 1::2] = normals[pairs, : rows - 1 : 2][:, : rows // 2]
    return normals


def _inside(rng: Any, domain: taut.Domain, count: int) -> Any:
    """Random points of a domain."""
    centre = np.asarray(domain.centre, float)
    points = np.asarray(jax.vmap(domain.project)(rng.normal(size=(count, *domain.shape))), float)
    return centre + rng.random((count, 1)) * (points - centre)


def _drawn(rng: Any, cumulated: Any, rounds: int) -> Any:
    """Draw 0, 1 or 2 in every round, with the probabilities of the game."""
    draws = rng.random((len(cumulated), rounds))
    return np.sum(draws[..., None] > cumulated[:, None, :2], axis=-1).astype(np.int32)


def _units(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def play(domain: taut.Domain, learner: str, games: Games) -> Played:
    """Play the games with the learner of this name."""
    return Played(*map(np.asarray, _play(domain, learner, games)))


@partial(jax.jit, static_argnums=(0, 1))
def _play(domain: taut.Domain, name: str, games: Games) -> Played:
    """Play games one after the other in one compiled program."""
    problem = taut.Problem(
        lambda x, z: z["c"] @ x, lambda x, z: z["s"] * (z["a"] @ x - z["b"]), domain
    )
    rounds, rows = games["which"].shape[1], games["offsets"].shape[1]

    def game(one: Games) -> Played:
        learner = LEARNERS[name](one, domain).with_room(rounds)
        dtype, normals, offsets = one["eta"].dtype, one["normals"], one["offsets"]

        def turn(carry: Any, now: Any) -> tuple[Any, Any]:
            state, begun = carry
            present = jnp.where(now["later"], one["second"], ~one["second"])
            present &= jnp.arange(rows) < one["pool"]
            excess = jnp.where(present, normals @ state.x - offsets, -jnp.inf)
            forgotten, in_force = _remembered(state, normals, offsets)
            lurking = jnp.where(forgotten, excess, -jnp.inf)
            j = jnp.where(now["mode"] == 1, jnp.argmax(excess), now["which"])
            sly = (now["mode"] == 2) & (jnp.max(lurking) > NEAR)
            j = jnp.where(sly, jnp.argmax(lurking), j)
            shared = one["points"][now["later"].astype(int)]
            away = state.x - shared
            length = jnp.linalg.norm(away)
            at_x = (one["radius"] > 0) & (now["mode"] > 0) & (length > 0)
            normal = jnp.where(at_x, away / jnp.where(length > 0, length, 1), normals[j])
            offset = jnp.where(at_x, normal @ shared + one["radius"], offsets[j])
            costs = jnp.stack([now["noise"], now["noise"] / 3 - normals[now["towards"]], away])
            cost = now["size"] * costs[now["kind"]]
            row = {"c": cost, "a": normal, "b": offset, "s": now["scale"]}
            after = learner.step(state, problem.round(row))
            if begun is not None:
                begun = jnp.where((begun == 0) & (after.cuts.active > 0), state.t, begun)
            in_force = in_force.at[j].set(True)
            return (after, begun), (state.x, cost, normal, offset, j, in_force)

        first = learner.init(jnp.asarray(domain.centre, dtype), 1)
        begun = None if learner.life is None else jnp.zeros(learner.memory or 0, jnp.int32)
        by_round = {key: one[key] for key in ROUND_BY_ROUND}
        (last, begun), seen = lax.scan(turn, (first, begun), by_round)
        decisions = jnp.concatenate([seen[0], last.x[None]])
        lives = jnp.zeros((3, 0), jnp.int32)
        if learner.life is not None:
            lives = jnp.stack([last.cuts.lifetimes.life, last.cuts.lifetimes.last, begun])
        return Played(decisions, *seen[1:], last.cuts_hold, last.correction, lives)

    return lax.map(game, games)


def _remembered(state: Any, normals: Any, offsets: Any) -> tuple[Any, Any]:
    """Rows of the pool whose cuts have expired, and rows whose cuts are still projected on at the
    end of the round, if no row confirms others."""
    nothing = jnp.zeros(offsets.shape, bool)
    if state.cuts is None or state.cuts.lifetimes is None:
        return nothing, nothing
    lives, near = state.cuts.lifetimes, 1e-9 if offsets.dtype == jnp.float64 else 1e-5
    same = jnp.sum((normals[:, None] - state.cuts.normals[None]) ** 2, axis=2) < 1e-10
    dead = (lives.life > 0) & ~alive(lives, state.t)
    equal = same & (jnp.abs(offsets[:, None] - state.cuts.offsets[None]) < near)
    kept = alive(lives, state.t + 1) & (lives.life > 0)
    return jnp.any(same & dead[None], axis=1), jnp.any(equal & kept[None], axis=1)

"""Attacks on the theorems of docs/theory.md about half-space learners.

Run: python -m drills.theorems [--only H6] [--games N] [--seed K] [--bits 32]

Learners play the games of `drills.pool_games`, and every theorem that covers a learner is compared
with what happened. Each theorem is attacked with at least N games.

H1: no round leads away from a comparator by more than its gradient step.
H2: regret against the best fixed decision, with clipped gradients and observed moves; in the plane.
H6: at most M rounds exceed their row by more than D / t^2, and the sum of (M + 0.65) D.
H9: the path of the decisions bounds the violation; each step almost contracts (*).
F1: the same as H6 with lifetimes, M (1 + n) in the place of M.
F2: no life is longer than the first life and the time for which its row was in force.
F3: regret in random intervals of games that change, and after the change.

H6, H9, F1 and F2 need that all kept cuts held, which the learner says itself (`cuts_hold`). Games
in which it says no are counted apart. The drill fails if a bound is exceeded in any other.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import jax
import numpy as np

import taut
from taut.learners.clipping import Clipping

from .pool_games import LEARNERS, LIFE, START_UP, Games, Played, games_on, play

BATCH = 500
"""Games that are played by one call of a compiled program."""
INTERVALS = 4
"""Intervals of a game that are looked at for F3, besides the rounds after the change."""


@dataclass(frozen=True)
class Attack:
    """A learner, the games that it plays, and the theorems that it is to follow."""

    learner: str
    domain: taut.Domain
    theorems: tuple[str, ...]
    rounds: int = 100
    rows: int = 8
    changing: bool = False
    curved: bool = False

    def __str__(self) -> str:
        kind = f"{type(self.domain).__name__.lower()} {self.domain.shape[0]}"
        return f"{self.learner}, {kind}{', changing' if self.changing else ''}"

    def games(self, count: int, seed: int, dtype: Any) -> Games:
        """Return random games."""
        return games_on(
            self.domain,
            count,
            self.rounds,
            self.rows,
            seed,
            dtype,
            changing=self.changing,
            curved=self.curved,
        )


DISC, SPACE = taut.Ball(1.0, shape=2), taut.Ball(1.0, shape=3)
ALL_CUTS: dict[str, Any] = {"rounds": 40, "rows": 40, "curved": True}
ATTACKS = (
    Attack("no memory", DISC, ("H1", "H2")),
    Attack("joint", DISC, ("H1", "H2")),
    Attack("two sweeps", DISC, ("H1", "H2", "H6")),
    Attack("exact", DISC, ("H1", "H2", "H6")),
    Attack("lifetimes", DISC, ("H1", "H2", "F1", "F2")),
    Attack("lifetimes", DISC, ("F3",), changing=True),
    Attack("all cuts", DISC, ("H1", "H2", "H9"), **ALL_CUTS),
    Attack("fixed step, all cuts", SPACE, ("H1", "H9"), **ALL_CUTS),
    Attack("fixed step, two sweeps", taut.Ball(1.0, shape=7), ("H1", "H6")),
    Attack("fixed step, exact", SPACE, ("H1", "H6")),
    Attack("fixed step, two sweeps", taut.Box(-1.0, 1.0, shape=3), ("H1", "H6")),
    Attack("fixed step, exact", taut.Box(-1.0, 1.0, shape=7), ("H1", "H6")),
    Attack("fixed step, two sweeps", taut.Simplex(8), ("H1", "H6")),
    Attack("fixed step, exact", taut.Simplex(4), ("H1", "H6")),
)


class Verdict(NamedTuple):
    """What a theorem says about each game."""

    share: Any
    """The share of the bound that was taken."""
    exceeded: Any
    """Whether a bound was exceeded by more than rounding."""
    covered: Any = True
    """Whether the assumptions of the theorem hold."""


class Steps(NamedTuple):
    """What the losses of each game were, and the steps with them."""

    factor: Any
    """eta_t times the share of the gradient that was accepted, (game, round)."""
    lengths: Any
    """|p_t|, (game, round)."""
    accepted: Any
    """|q_t|, (game, round)."""
    sums: Any
    """S_t, (game, round)."""


class Seen(NamedTuple):
    """The games of an attack, and what happened in them, in double precision."""

    attack: Attack
    games: Games
    played: Played
    steps: Steps
    eps: float

    @property
    def diameter(self) -> float:
        """D."""
        return float(self.attack.domain.diameter)


def seen(attack: Attack, count: int, seed: int, dtype: Any) -> Seen:
    """Play random games."""
    games = attack.games(count, seed, dtype)
    result = play(attack.domain, attack.learner, games)
    games, played = jax.tree.map(_double, (games, result))
    lengths = np.linalg.norm(played.costs, axis=-1)
    if attack.learner.startswith("fixed"):
        factor = np.broadcast_to(games["eta"][:, None], lengths.shape)
        steps = Steps(factor, lengths, lengths, np.zeros_like(lengths))
    else:
        accepted = Clipping(2.0, count).add(lengths)
        squares = accepted**2
        sums = START_UP * np.maximum.accumulate(squares, axis=1) + np.cumsum(squares, axis=1)
        eta = float(attack.domain.radius) / np.sqrt(np.where(sums > 0, sums, np.inf))
        factor = eta * accepted / np.where(lengths > 0, lengths, 1)
        steps = Steps(factor, lengths, accepted, sums)
    return Seen(attack, games, played, steps, float(np.finfo(dtype).eps))


def _double(array: Any) -> Any:
    return array.astype(float) if array.dtype.kind == "f" else array


# -- The theorems


def no_round_leads_away(seen: Seen) -> Verdict:
    """H1: |x_{t+1} - u| <= |x_t - eta_t q_t - u| for the point u that all rows share."""
    x, u = seen.played.decisions, seen.games["points"][:, :1]
    stepped = x[:, :-1] - seen.steps.factor[..., None] * seen.played.costs - u
    before, after = (np.sum(y**2, axis=-1) for y in (stepped, x[:, 1:] - u))
    away = np.max(after - before * (1 + 8 * seen.eps), axis=1)
    share = np.max(np.sqrt(after / np.maximum(before, seen.eps * seen.diameter**2)), axis=1)
    return Verdict(share, away > 1e3 * seen.eps * seen.diameter**2)


def regret(seen: Seen) -> Verdict:
    """H2: (D^2 / (2 R) + R) sqrt(S_T) + D sum (|p_t| - |q_t|) - sum m_t^2 / (2 eta_t)."""
    (_, lengths, accepted, sums), played = seen.steps, seen.played
    rows = np.arange(seen.attack.rows) < seen.games["pool"][:, None]
    best = least_loss(seen, rows, played.costs.sum(axis=1), _round_row(seen))
    loss = np.einsum("gtd,gtd->g", played.decisions[:, :-1], played.costs)
    bound = 3 * np.sqrt(sums[:, -1]) + 2 * np.sum(lengths - accepted, axis=1)
    return _at_most(seen, loss - best + played.correction, bound, lengths.sum(axis=1))


def kept_cuts(seen: Seen) -> Verdict:
    """H6, for distances: G_g is 1."""
    return _violations(seen, seen.games["pool"].astype(int))


def all_cuts(seen: Seen) -> Verdict:
    """H9: the violation is at most the path, and 0.65 D for what the projections leave; where they
    leave nothing, every pair of rounds satisfies (*)."""
    x, a = seen.played.decisions, seen.steps.factor * seen.steps.lengths
    path = np.linalg.norm(np.diff(x, axis=1), axis=-1).sum(axis=1)
    total = seen.played.distances.sum(axis=1)
    apart = np.linalg.norm(x[:, :, None] - x[:, None], axis=-1)
    later = np.triu(np.ones((seen.attack.rounds, seen.attack.rounds), bool))
    gain = apart[:, 1:, 1:] - apart[:, :-1, 1:] - a[:, :, None]
    grows = np.max(np.where(later, gain, -np.inf), axis=(1, 2)) > 1e6 * seen.eps * seen.diameter
    excess = np.einsum("gsd,gtd->gst", seen.played.normals, x[:, 1:])
    excess = np.where(later, excess - seen.played.offsets[..., None], -np.inf)
    excess = np.where(seen.played.distances[..., None] > 0, excess, -np.inf)
    clean = excess.max(axis=(1, 2)) <= 1e4 * seen.eps * seen.diameter
    bound = path + 0.65 * seen.diameter
    exceeded = (total > bound * (1 + 1e3 * seen.eps)) | (clean & grows)
    return Verdict(total / bound, exceeded, seen.played.hold)


def lifetimes(seen: Seen) -> Verdict:
    """F1."""
    doublings = 0
    while LIFE * (2 ** (doublings + 1) - 1) + doublings + 1 <= seen.attack.rounds - 1:
        doublings += 1
    return _violations(seen, seen.games["pool"].astype(int) * (1 + doublings))


def lives(seen: Seen) -> Verdict:
    """F2, as it is proven: life <= life0 + last - first - (number of doublings)."""
    life, last, first = np.moveaxis(seen.played.lives, 1, 0)
    stored = (life > 0) & (last > 0)
    doublings = np.round(np.log2(np.maximum(life, LIFE) / LIFE))
    most = LIFE + last - first - doublings
    share = np.max(np.where(stored, life / np.where(stored, most, 1), 0), axis=1)
    return Verdict(share, np.any(stored & (life > most), axis=1), seen.played.hold)


def intervals(seen: Seen) -> Verdict:
    """F3: regret in intervals against decisions that satisfy their rows and the cuts that are alive
    in them, and regret after the change against decisions that need not satisfy anything before."""
    rng, played, count = np.random.default_rng(0), seen.played, len(seen.played.hold)
    rounds, (_, lengths, accepted, sums) = seen.attack.rounds, seen.steps
    loss = np.einsum("gtd,gtd->gt", played.decisions[:, :-1], played.costs)
    rounding, results = lengths.sum(axis=1), []
    for _ in range(INTERVALS):
        r, s = np.sort(rng.integers(0, rounds, (2, count)), axis=0)
        inside = (np.arange(rounds) >= r[:, None]) & (np.arange(rounds) <= s[:, None])
        rows = np.any(played.in_force & inside[..., None], axis=1)
        total = np.sum(played.costs * inside[..., None], axis=1)
        now = np.sqrt(sums[np.arange(count), s])
        before = np.where(r > 0, np.sqrt(sums[np.arange(count), np.maximum(r - 1, 0)]), 0)
        bound = 2 * now + now - before + 2 * np.sum((lengths - accepted) * inside, axis=1)
        against = np.sum(loss * inside, axis=1) - least_loss(seen, rows, total)
        results.append(_at_most(seen, against, bound, rounding))
    results.append(_recovery(seen, loss, rounding))
    share, exceeded = (np.stack(each) for each in list(zip(*results, strict=True))[:2])
    return Verdict(share.max(axis=0), exceeded.any(axis=0))


def _recovery(seen: Seen, loss: Any, rounding: Any) -> Verdict:
    """The second part of F3, for pools whose normals do not come back."""
    games, played, steps = seen.games, seen.played, seen.steps
    second = games["second"] & (np.arange(seen.attack.rows) < games["pool"][:, None])
    total = np.sum(played.costs * games["later"][..., None], axis=1)
    against = np.sum(loss * games["later"], axis=1) - least_loss(seen, second, total)
    steepest = np.max(steps.lengths * games["later"], axis=1)
    bound = 3 * np.sqrt(steps.sums[:, -1]) + 2 * np.sum(steps.lengths - steps.accepted, axis=1)
    bound = bound + steepest * seen.diameter * (games["changed"] + LIFE)
    verdict = _at_most(seen, against, bound, rounding)
    apart = np.linalg.norm(games["normals"][:, :, None] - games["normals"][:, None], axis=-1)
    shared = np.any((apart < 1e-6) & ~games["second"][:, :, None] & second[:, None], axis=(1, 2))
    return Verdict(np.where(shared, 0, verdict.share), verdict.exceeded & ~shared)


THEOREMS: dict[str, Callable[[Seen], Verdict]] = {
    "H1": no_round_leads_away,
    "H2": regret,
    "H6": kept_cuts,
    "H9": all_cuts,
    "F1": lifetimes,
    "F2": lives,
    "F3": intervals,
}


def _violations(seen: Seen, most: Any) -> Verdict:
    """At most so many rounds violate by more than D / t^2, and all together by that times D."""
    distances, t = seen.played.distances, np.arange(1, seen.attack.rounds + 1)
    near = max(1e2 * seen.eps, 1e-9) * seen.diameter
    late = np.sum(distances > seen.diameter / t**2 + near, axis=1)
    total = distances.sum(axis=1) / ((most + 0.65) * seen.diameter + near * seen.attack.rounds)
    share = np.maximum(late / most, total)
    return Verdict(share, share > 1, seen.played.hold)


def _at_most(seen: Seen, value: Any, bound: Any, size: Any) -> Verdict:
    """Compare a sum of losses with its bound, up to the rounding of numbers of this size."""
    share = np.where(np.isfinite(value), value, 0) / np.where(bound > 0, bound, 1)
    return Verdict(share, value > bound + 1e3 * seen.eps * size)


def _round_row(seen: Seen) -> Any:
    """The tangents that were revealed of games with a ball instead of a pool; None without them."""
    return seen.games["radius"] if np.any(seen.games["radius"]) else None


def least_loss(seen: Seen, rows: Any, total: Any, radius: Any = None) -> Any:
    """The least total loss of a point of the disc and of some rows of each pool: at a corner, or at
    the end of the disc. For a game with a ball, the least at its centre, its lowest point, and
    those of these points that lie in it. Infinite if no such point is feasible."""
    normals, offsets = seen.games["normals"], seen.games["offsets"]
    length = np.linalg.norm(total, axis=1, keepdims=True)
    down = -total / np.where(length > 0, length, 1)
    shared = seen.games["points"]
    points = [down, shared[:, 0], shared[:, 1]]
    turn = np.stack([-normals[..., 1], normals[..., 0]], axis=-1)
    half = np.sqrt(np.maximum(1 - offsets**2, 0))[..., None]
    for sign in (-1, 1):  # where a line meets the circle
        points += list(np.moveaxis(offsets[..., None] * normals + sign * half * turn, 1, 0))
    for i, j in combinations(range(normals.shape[1] if radius is None else 0), 2):
        points.append(_corner(normals[:, [i, j]], offsets[:, [i, j]]))
    each = np.stack(points, axis=1)
    room = 1e3 * seen.eps
    excess = np.einsum("gkd,gpd->gpk", normals, each) - offsets[:, None]
    excess = np.max(np.where(rows[:, None], excess, -np.inf), axis=2)
    if radius is not None:  # the centre and the lowest point of the ball
        low = shared[:, 0] + radius[:, None] * down
        each = np.concatenate([each, low[:, None]], axis=1)
        excess = np.concatenate([excess, np.zeros((len(low), 1))], axis=1)
        far = np.linalg.norm(each - shared[:, :1], axis=2) - radius[:, None]
        excess = np.where(radius[:, None] > 0, far, excess)
        excess[:, -1] = np.where(radius > 0, excess[:, -1], np.inf)
    feasible = (excess <= room) & (np.linalg.norm(each, axis=2) <= 1 + room)
    return np.where(feasible, np.einsum("gpd,gd->gp", each, total), np.inf).min(axis=1)


def _corner(pair: Any, right: Any) -> Any:
    """Where two lines meet; the origin if they hardly do."""
    det = pair[:, 0, 0] * pair[:, 1, 1] - pair[:, 0, 1] * pair[:, 1, 0]
    det = np.where(np.abs(det) > 1e-12, det, np.inf)
    first = right[:, 0] * pair[:, 1, 1] - right[:, 1] * pair[:, 0, 1]
    second = pair[:, 0, 0] * right[:, 1] - pair[:, 1, 0] * right[:, 0]
    return np.stack([first / det, second / det], axis=1)


# -- The command


class Tally(NamedTuple):
    """The verdicts on a theorem, summed over games."""

    games: int = 0
    uncovered: int = 0
    share: float = 0.0
    exceeded: int = 0

    def add(self, verdict: Verdict) -> Tally:
        """Return the tally with more games."""
        covered = np.broadcast_to(verdict.covered, verdict.share.shape)
        return Tally(
            self.games + len(covered),
            self.uncovered + int(np.sum(~covered)),
            max(self.share, float(np.max(verdict.share, where=covered, initial=0))),
            self.exceeded + int(np.sum(verdict.exceeded & covered)),
        )

    def joined(self, other: Tally) -> Tally:
        """Return the tally of both."""
        games, uncovered, share, exceeded = zip(self, other, strict=True)
        return Tally(sum(games), sum(uncovered), max(share), sum(exceeded))

    def __str__(self) -> str:
        return (
            f"{self.games:,} games, cuts did not hold in {self.uncovered}, at most "
            f"{self.share:.3f} of the bound, exceeded in {self.exceeded}"
        )


def tallies(
    attack: Attack, count: int, seed: int, dtype: Any, batch: int = BATCH
) -> Iterator[tuple[str, Tally]]:
    """Play at least so many games; yield each theorem with its tally."""
    found = {name: Tally() for name in attack.theorems}
    for k in range(-(-count // batch)):
        games = seen(attack, batch, seed + k, dtype)
        for name in attack.theorems:
            found[name] = found[name].add(THEOREMS[name](games))
    yield from found.items()


def main() -> int:
    """Play the games; return 1 if one of them contradicts a theorem."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--only", choices=THEOREMS, help="attack one theorem only")
    words.add_argument("--games", type=int, default=10_000)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--bits", type=int, default=64, choices=(32, 64))
    asked = words.parse_args()
    jax.config.update("jax_enable_x64", asked.bits == 64)
    dtype = np.float64 if asked.bits == 64 else np.float32
    wanted = THEOREMS if asked.only is None else (asked.only,)
    shares = {name: sum(name in attack.theorems for attack in ATTACKS) for name in wanted}
    sums = {name: Tally() for name in wanted}
    for k, attack in enumerate(ATTACKS):
        counts = [-(-asked.games // shares[name]) for name in attack.theorems if name in wanted]
        if not counts:
            continue
        for name, tally in tallies(attack, max(counts), asked.seed + 10_000 * k, dtype):
            if name in wanted:
                print(f"{name} {attack}: {tally}", flush=True)
                sums[name] = sums[name].joined(tally)
    print()
    for name, tally in sums.items():
        print(f"{name}: {tally}")
    return 1 if any(tally.exceeded for tally in sums.values()) else 0


assert all(attack.learner in LEARNERS for attack in ATTACKS)

if __name__ == "__main__":
    sys.exit(main())

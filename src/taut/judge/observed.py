"""What was observed in all rounds of a run: the largest gradients, constraint values and loss
differences, with witnesses.

A run keeps sums only. The rounds are played again in chunks, with flat memory, and every round is
looked at: a single exception among millions of rounds refutes a constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..engine import Array
from ..learners import Observed
from ..learners.clipping import Clipping, clip_of
from ..play.replay import replayed
from ..player.extremes import Extreme
from ..problem.evaluation import loss_evaluation
from ..problem.problem import Problem
from ..problem.sampling import sample_decisions
from ..problem.streams import Stream
from ..runs.run import Run
from .probes import entry, linear

__all__ = ["Extreme", "Observations", "observe"]

REFERENCES = 8
"""Decisions, besides the played one, at which the loss of every round is evaluated: their
differences show its range."""
PLAYED, VIOLATING = 64, 12
"""Decisions that are kept for probes: spread over the rounds, and those with the largest constraint
values."""
FOLLOWED = 100_000
"""Rounds up to which the length of every single step is kept."""
NUMBERS = 2**18
"""Numbers that are computed at a time, at most."""


@dataclass(frozen=True)
class Observations:
    """What was observed in all rounds of a run on the problem that was played."""

    rounds: int
    seeds: int
    loss_lipschitz: Extreme
    """The largest |df_t(x_t)|."""
    constraint_lipschitz: Extreme
    """The largest gradient norm of a constraint at x_t."""
    constraint_range: Extreme
    """The largest |g_i(x_t)|."""
    loss_range: Extreme
    """The largest difference of f_t between two of: x_t, the comparator, the domain's centre, and a
    few other decisions."""
    clipping: Clipping
    """What the learner accepted of the loss gradients: their lengths, their squares, and the
    excess."""
    constraint_slope: float
    """The largest gradient norm at x_t of the largest constraint of the round."""
    loss_size: float
    """The largest |f_t(x_t)| + |df_t(x_t)| |x_t|: the size of the numbers that are added up in a
    loss."""
    constraint_size: float
    """The same for constraints."""
    played: Array
    """Decisions of the run, spread over its rounds."""
    violating: Array
    """Decisions of the run with the largest positive constraint values, largest first."""
    since: int = 1
    """The first round that was looked at."""
    slopes: Array | None = None
    """The accepted |df_t(x_t)|, (seed, round); None if the rounds are more than `FOLLOWED`."""

    @property
    def observed(self) -> Observed:
        """The part that bounds use."""
        seen = self.clipping
        return Observed(
            float(seen.largest.max()),
            float(seen.squares.max()),
            float(seen.first_square.min()),
            self.constraint_slope,
            self.slopes,
            float(seen.excess.max()),
        )


def observe(
    run: Run,
    problem: Problem | None = None,
    stream: Stream | None = None,
    comparator: Array | None = None,
) -> Observations:
    """Play a run again and look at every round.

    Arguments:
        run: of one learner.
        problem: the problem that was played, for a run that was loaded from a file.
        stream: its data, in the same case, or what an adversary revealed.
        comparator: decisions, one per seed, at which losses are compared with those of the played
            decisions.
    """
    problem = problem or run.played
    if problem is None:
        raise ValueError(
            "problem: got None; expected the problem that was played, which a saved run does not "
            "hold"
        )
    references = _references(problem, run.seeds, comparator)
    keep = max(1, run.horizon * run.seeds // PLAYED)
    names = ("loss_lipschitz", "constraint_lipschitz", "constraint_range", "loss_range")
    best: dict[str, Extreme] = {}
    clipping = Clipping(clip_of(run.learner), run.seeds)
    sizes = dict.fromkeys(("constraint_slope", "loss_size", "constraint_size"), 0.0)
    slopes: list[Array] = []
    played, violating, excess, start = [], [np.zeros((0, *problem.domain.shape))], np.zeros(0), 0
    for decisions, data in replayed(run, problem, stream):
        found = _looked_at(problem, decisions, data, references)
        for name in names:
            seed, at = np.unravel_index(int(np.argmax(found[name])), found[name].shape)
            value = float(found[name][seed, at])
            if name not in best or value > best[name].value:
                best[name] = Extreme(
                    value, int(seed), start + int(at) + 1, np.asarray(decisions[seed, at])
                )
        sizes = {name: max(size, float(found[name].max())) for name, size in sizes.items()}
        accepted = clipping.add(found["loss_lipschitz"].astype(float))
        if run.horizon <= FOLLOWED:
            slopes.append(accepted)
        flat = np.asarray(decisions).reshape(-1, *problem.domain.shape)
        played.append(flat[::keep])
        worst = found["excess"].ravel()
        top = np.argsort(-worst)[:VIOLATING]
        order = np.concatenate([excess, worst[top]])
        chosen = np.argsort(-order)[:VIOLATING]
        violating = [np.concatenate([*violating, flat[top]])[chosen]]
        excess = order[chosen]
        start += decisions.shape[1]
    return Observations(
        rounds=run.horizon,
        seeds=run.seeds,
        clipping=clipping,
        played=np.concatenate(played),
        violating=violating[0][excess > 0],
        loss_lipschitz=best["loss_lipschitz"],
        constraint_lipschitz=best["constraint_lipschitz"],
        constraint_range=best["constraint_range"],
        loss_range=best["loss_range"],
        constraint_slope=sizes["constraint_slope"],
        loss_size=sizes["loss_size"],
        constraint_size=sizes["constraint_size"],
        slopes=np.concatenate(slopes, axis=1) if slopes else None,
    )


def _references(problem: Problem, seeds: int, comparator: Array | None) -> Array:
    """Decisions at which the loss of every round is evaluated, (seed, k, *shape)."""
    shared = sample_decisions(problem.domain, np.random.default_rng(0), REFERENCES)
    found = np.broadcast_to(shared, (seeds, *shared.shape))
    if comparator is None or np.shape(comparator) != (seeds, *problem.domain.shape):
        return found
    return np.concatenate([found, np.asarray(comparator, float)[:, None]], axis=1)


def _looked_at(
    problem: Problem, decisions: Array, data: Any, references: Array
) -> dict[str, Array]:
    """All facts of a chunk, arrays (seed, round), computed in blocks of a fixed number of
    rounds."""
    seeds, rounds = decisions.shape[:2]
    x = np.asarray(decisions).reshape(seeds * rounds, *problem.domain.shape)
    z = jax.tree.map(lambda a: np.asarray(a).reshape(seeds * rounds, *np.shape(a)[2:]), data)
    owner, references = np.repeat(np.arange(seeds), rounds), np.asarray(references, x.dtype)
    size = math.prod(problem.domain.shape)
    count = problem.constants.constraint_count or 1
    length = min(len(x), max(16, NUMBERS // (size * (count + references.shape[1]))))
    blocks = list(_blocks(len(x), length))
    parts = []
    for rows in blocks:
        block = references[owner[rows]], x[rows], jax.tree.map(lambda a, rows=rows: a[rows], z)
        parts.append(_facts(problem, *block, len(blocks)))
    found = {name: np.concatenate([part[name] for part in parts])[: len(x)] for name in parts[0]}
    return {name: value.reshape(seeds, rounds) for name, value in found.items()}


def _blocks(count: int, length: int) -> Iterator[Array]:
    """Row numbers in blocks of one length; the last block repeats its last row."""
    for start in range(0, count, length):
        yield np.minimum(np.arange(start, start + length), count - 1)


def _facts(problem: Problem, references: Array, x: Array, z: Any, blocks: int) -> dict[str, Array]:
    """What is observed at decisions (row, *shape) with references (row, k, *shape) and data (row,
    ...); one of several blocks."""
    data = jax.tree.map(lambda a: a[:, None], z)
    loss, slopes, values, rows = (part[:, 0] for part in linear(problem, x[:, None], data, blocks))
    others = loss_evaluation(problem, blocks).values(references, data)
    flat = x.reshape(len(x), -1)
    with np.errstate(all="ignore"):
        steep = np.sqrt(np.sum(rows**2, axis=-1))
        length, slope = np.sqrt(np.sum(flat**2, axis=-1)), np.sqrt(np.sum(slopes**2, axis=-1))
        highest, lowest = np.max(others, axis=-1), np.min(others, axis=-1)
        return {
            "loss_lipschitz": slope,
            "constraint_lipschitz": np.max(steep, axis=-1),
            "constraint_range": np.max(np.abs(values), axis=-1),
            "loss_range": np.maximum(loss, highest) - np.minimum(loss, lowest),
            "excess": np.max(values, axis=-1),
            "constraint_slope": entry(steep, np.argmax(values, axis=-1)),
            "loss_size": np.abs(loss) + slope * length,
            "constraint_size": np.max(np.abs(values) + steep * length[:, None], axis=-1),
        }

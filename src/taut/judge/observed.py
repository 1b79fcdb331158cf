"""What was observed in all rounds of a run: the largest gradients, constraint values and loss differences, with witnesses.

A run keeps sums only. The rounds are played again in chunks, with flat memory, and every round is looked at: a single
exception among millions of rounds refutes a constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..learners import Observed
from ..play.extremes import Extreme
from ..play.replay import replayed
from ..play.run import Run
from ..problem.constraints import Constraints
from ..problem.domains import Domain
from ..problem.interpreter import evaluated, owned_by
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..problem.rounds import FullInformation
from ..problem.sampling import sample_decisions
from ..problem.streams import Stream
from .probes import entry

__all__ = ["Extreme", "Observations", "observe"]

REFERENCES = 8
"""Decisions, besides the played one, at which the loss of every round is evaluated: their differences show its range."""
PLAYED, VIOLATING = 64, 12
"""Decisions that are kept for probes: spread over the rounds, and those with the largest constraint values."""
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
    """The largest difference of f_t between two of: x_t, the comparator, the domain's centre, and a few other decisions."""
    squared_slopes: float
    """The largest over seeds of the sum over rounds of |df_t(x_t)|^2."""
    first_squared_slope: float
    """The smallest over seeds of |df_t(x_t)|^2 in the first round in which it is not zero; 0 if it always is."""
    constraint_slope: float
    """The largest gradient norm at x_t of the largest constraint of the round."""
    loss_size: float
    """The largest |f_t(x_t)| + |df_t(x_t)| |x_t|: the size of the numbers that are added up in a loss."""
    constraint_size: float
    """The same for constraints."""
    played: Array
    """Decisions of the run, spread over its rounds."""
    violating: Array
    """Decisions of the run with the largest positive constraint values, largest first."""
    since: int = 1
    """The first round that was looked at."""

    @property
    def observed(self) -> Observed:
        """The part that bounds use."""
        return Observed(self.loss_lipschitz.value, self.squared_slopes, self.first_squared_slope, self.constraint_slope)


def observe(
    run: Run, problem: Problem | None = None, stream: Stream | None = None, comparator: Array | None = None
) -> Observations:
    """Play a run again and look at every round.

    Arguments:
        run: of one learner.
        problem: the problem that was played, for a run that was loaded from a file.
        stream: its data, in the same case, or what an adversary revealed.
        comparator: decisions, one per seed, at which losses are compared with those of the played decisions.
    """
    problem = problem or run.played
    if problem is None:
        raise ValueError("problem: got None; expected the problem that was played, which a saved run does not hold")
    references = _references(problem, run.seeds, comparator)
    keep = max(1, run.horizon * run.seeds // PLAYED)
    names = ("loss_lipschitz", "constraint_lipschitz", "constraint_range", "loss_range")
    best: dict[str, Extreme] = {}
    sums, first = np.zeros(run.seeds), np.zeros(run.seeds)
    sizes = dict.fromkeys(("constraint_slope", "loss_size", "constraint_size"), 0.0)
    played, violating, excess, start = [], [np.zeros((0, *problem.domain.shape))], np.zeros(0), 0
    for decisions, data in replayed(run, problem, stream):
        found = _looked_at(problem, decisions, data, references)
        for name in names:
            seed, at = np.unravel_index(int(np.argmax(found[name])), found[name].shape)
            value = float(found[name][seed, at])
            if name not in best or value > best[name].value:
                best[name] = Extreme(value, int(seed), start + int(at) + 1, np.asarray(decisions[seed, at]))
        sizes = {name: max(size, float(found[name].max())) for name, size in sizes.items()}
        squares = found["loss_lipschitz"].astype(float) ** 2
        sums += squares.sum(axis=1)
        met = squares[np.arange(run.seeds), np.argmax(squares > 0, axis=1)]
        first = np.where(first > 0, first, met)
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
        squared_slopes=float(sums.max()),
        first_squared_slope=float(first.min()),
        played=np.concatenate(played),
        violating=violating[0][excess > 0],
        loss_lipschitz=best["loss_lipschitz"],
        constraint_lipschitz=best["constraint_lipschitz"],
        constraint_range=best["constraint_range"],
        loss_range=best["loss_range"],
        constraint_slope=sizes["constraint_slope"],
        loss_size=sizes["loss_size"],
        constraint_size=sizes["constraint_size"],
    )


def _references(problem: Problem, seeds: int, comparator: Array | None) -> Array:
    """Decisions at which the loss of every round is evaluated, (seed, k, *shape)."""
    shared = sample_decisions(problem.domain, np.random.default_rng(0), REFERENCES)
    found = np.broadcast_to(shared, (seeds, *shared.shape))
    if comparator is None or np.shape(comparator) != (seeds, *problem.domain.shape):
        return found
    return np.concatenate([found, np.asarray(comparator, float)[:, None]], axis=1)


def _looked_at(problem: Problem, decisions: Array, data: Any, references: Array) -> dict[str, Array]:
    """All facts of a chunk, arrays (seed, round), computed in blocks of a fixed number of rounds."""
    seeds, rounds = decisions.shape[:2]
    x = np.asarray(decisions).reshape(seeds * rounds, *problem.domain.shape)
    z = jax.tree.map(lambda a: np.asarray(a).reshape(seeds * rounds, *np.shape(a)[2:]), data)
    owner, references = np.repeat(np.arange(seeds), rounds), np.asarray(references, x.dtype)
    size = math.prod(problem.domain.shape)
    count = problem.constants.constraint_count or 1
    length = min(len(x), max(16, NUMBERS // (size * (count + references.shape[1]))))
    parts = []
    for rows in _blocks(len(x), length):
        with owned_by(programs_of(problem)):
            block = _observed(
                problem.loss, problem.constraints, problem.domain, references[owner[rows]], x[rows],
                jax.tree.map(lambda a, rows=rows: a[rows], z),
            )  # fmt: skip
        parts.append({name: np.asarray(value) for name, value in block.items()})
    found = {name: np.concatenate([part[name] for part in parts])[: len(x)] for name in parts[0]}
    return {name: value.reshape(seeds, rounds) for name, value in found.items()}


def _blocks(count: int, length: int) -> Iterator[Array]:
    """Row numbers in blocks of one length; the last block repeats its last row."""
    for start in range(0, count, length):
        yield np.minimum(np.arange(start, start + length), count - 1)


@evaluated(static_argnames=("loss",))
def _observed(
    loss: Any, constraints: Constraints, domain: Domain, references: Any, x: Any, z: Any
) -> dict[str, jax.Array]:
    def one(references: jax.Array, x: jax.Array, z: Any) -> dict[str, jax.Array]:
        round = FullInformation(loss, constraints, domain, z)
        value, slope = round.loss(x), round.gradient(x)
        values, pull, _ = round.constraints(x)
        rows = jax.vmap(lambda w: jnp.sqrt(jnp.sum(pull(w) ** 2)))(jnp.eye(values.shape[0], dtype=x.dtype))
        others = jax.vmap(round.loss)(references)
        length, loss_slope = jnp.sqrt(jnp.sum(x**2)), jnp.sqrt(jnp.sum(slope**2))
        return {
            "loss_lipschitz": loss_slope,
            "constraint_lipschitz": jnp.max(rows),
            "constraint_range": jnp.max(jnp.abs(values)),
            "loss_range": jnp.maximum(value, jnp.max(others)) - jnp.minimum(value, jnp.min(others)),
            "excess": jnp.max(values),
            "constraint_slope": entry(rows, jnp.argmax(values)),
            "loss_size": jnp.abs(value) + loss_slope * length,
            "constraint_size": jnp.max(jnp.abs(values) + rows * length),
        }

    return jax.vmap(one)(references, x, z)

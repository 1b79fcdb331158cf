"""Losses, constraints and their gradients at decisions: of all rounds of a run (`observe`), and at
pairs of decisions all over the domain (`probe`).

A run keeps sums only. All its decisions are looked at, in chunks, with flat memory: a single
exception among millions of rounds refutes a constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from ..engine import Array
from ..learners import Observed
from ..learners.clipping import Clipping, clip_of
from ..play.replay import replayed
from ..player.steps import NAMES, Extreme
from ..problem.constraints import Constraints
from ..problem.domains import Domain
from ..problem.domains.support import centre_of
from ..problem.evaluation import Evaluation, constraint_evaluation, loss_evaluation
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..problem.sampling import sample_decisions
from ..problem.streams import Stream
from ..runs.run import Run

REFERENCES = 8
"""Decisions, besides the played one, at which the loss of every round is evaluated: their
differences show its range."""
PLAYED, VIOLATING = 64, 12
"""Decisions that are kept for probes: spread over the rounds, and those with the largest constraint
values."""
FOLLOWED = 100_000
"""Rounds up to which the length of every single step is kept."""
BLOCK = 2**18
"""Numbers that are computed at a time of the rounds of a run, at most."""
ENTRIES = 2**23
"""Entries of constraint gradients that are computed at a time at probes, at most."""
WALK = 200
"""Steps of a walk from outside the domain to the feasible set."""


def _length(vectors: Array) -> Array:
    return np.asarray(np.linalg.norm(vectors, axis=-1))


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
    path: float | None = None
    """The largest over seeds of the sum over rounds of |x_{t+1} - x_t|."""

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
            self.path,
        )


def observe(
    run: Run, problem: Problem, source: Stream, comparator: Array | None = None
) -> Observations:
    """Look at every round of a run, of which decisions that it did not keep are played again.

    Arguments:
        run: of one learner.
        problem: the problem that was played.
        source: its data; for an adversary, what it revealed.
        comparator: decisions, one per seed, at which losses are compared with those of the played
            decisions.
    """
    references = sample_decisions(problem.domain, np.random.default_rng(0), REFERENCES)
    references = np.broadcast_to(references, (run.seeds, *references.shape))
    targets = np.asarray(comparator, float)
    if targets.shape == (run.seeds, *problem.domain.shape):
        references = np.concatenate([references, targets[:, None]], axis=1)
    keep = max(1, run.horizon * run.seeds // PLAYED)
    shape = problem.domain.shape
    largest: dict[str, Any] = {}
    sizes: dict[str, Any] = dict.fromkeys(("constraint_slope", "loss_size", "constraint_size"), 0.0)
    clipping = Clipping(clip_of(run.learner), run.seeds)
    slopes: list[Array] = []
    played: list[Array] = []
    violating, excess = np.zeros((0, *shape)), np.zeros(0)
    path, last, start = np.zeros(run.seeds), None, 0
    chunks: Iterable[tuple[Array, Any]] = replayed(run, problem, source)
    if run.path is not None:  # the decisions of a short run
        chunks = ((run.path, source.block(0, run.horizon)),)
    for decisions, data in chunks:
        values = _looked_at(problem, decisions, data, references)
        for name in NAMES:
            seed, at = np.unravel_index(int(np.argmax(values[name])), values[name].shape)
            value = float(values[name][seed, at])
            if name not in largest or value > largest[name].value:
                where = int(seed), start + int(at) + 1, np.asarray(decisions[seed, at])
                largest[name] = Extreme(value, *where)
        sizes = {name: max(size, float(values[name].max())) for name, size in sizes.items()}
        accepted = clipping.add(values["loss_lipschitz"].astype(float))
        if run.horizon <= FOLLOWED:
            slopes.append(accepted)
        path, last = path + _moves(decisions, last), np.asarray(decisions)[:, -1:]
        flat, worst = np.asarray(decisions).reshape(-1, *shape), values["excess"].ravel()
        played.append(flat[::keep])
        both, excess = np.concatenate([violating, flat]), np.concatenate([excess, worst])
        top = np.argsort(-excess)[:VIOLATING]
        violating, excess = both[top], excess[top]
        start += decisions.shape[1]
    path = path + _moves(run.final.reshape(run.seeds, 1, *shape), last)
    return Observations(
        rounds=run.horizon,
        seeds=run.seeds,
        clipping=clipping,
        played=np.concatenate(played),
        violating=violating[excess > 0],
        slopes=np.concatenate(slopes, axis=1) if slopes else None,
        path=float(path.max()),
        **largest,
        **sizes,
    )


def _moves(decisions: Array, before: Array | None) -> Array:
    """The sum of the distances between decisions (seed, round, ...) and the ones before, by
    seed."""
    together = decisions if before is None else np.concatenate([before, decisions], axis=1)
    steps = np.diff(np.asarray(together, float), axis=1)
    lengths: Array = np.sqrt(np.sum(steps**2, axis=tuple(range(2, steps.ndim)))).sum(axis=1)
    return lengths


def _looked_at(
    problem: Problem, decisions: Array, data: Any, references: Array
) -> dict[str, Array]:
    """All facts of a chunk, arrays (seed, round), computed in blocks of a fixed number of
    rounds."""
    seeds, rounds = decisions.shape[:2]
    count = seeds * rounds
    x = np.asarray(decisions).reshape(count, *problem.domain.shape)
    z = jax.tree.map(lambda a: np.asarray(a).reshape(count, *np.shape(a)[2:]), data)
    owner, references = np.repeat(np.arange(seeds), rounds), np.asarray(references, x.dtype)
    each = math.prod(problem.domain.shape)
    each *= (problem.constants.constraint_count or 1) + references.shape[1]
    length = min(count, max(16, BLOCK // each))
    starts = range(0, count, length)
    parts = []
    for start in starts:
        rows = np.minimum(np.arange(start, start + length), count - 1)  # the last row is repeated
        block = references[owner[rows]], x[rows], jax.tree.map(lambda a, rows=rows: a[rows], z)
        parts.append(_facts(problem, *block, len(starts)))
    return {
        name: np.concatenate([part[name] for part in parts])[:count].reshape(seeds, rounds)
        for name in parts[0]
    }


def _facts(problem: Problem, references: Array, x: Array, z: Any, blocks: int) -> dict[str, Array]:
    """What is observed at decisions (row, *shape) with references (row, k, *shape) and data (row,
    ...); one of several blocks."""
    data = jax.tree.map(lambda a: a[:, None], z)
    loss, slopes, values, rows = (part[:, 0] for part in linear(problem, x[:, None], data, blocks))
    others = loss_evaluation(problem, blocks).values(references, data)
    flat = x.reshape(len(x), -1)
    with np.errstate(all="ignore"):
        steep, slope, length = _length(rows), _length(slopes), _length(flat)
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


class Linear(NamedTuple):
    """Loss and constraints with their gradients at (point, round), decisions as flat vectors.

    The axis `round` of constraints that do not depend on it has length 1.
    """

    loss: Array
    slope: Array
    """(point, round, entry)"""
    values: Array
    """(point, round, constraint)"""
    rows: Array
    """(point, round, constraint, entry)"""


def linear(problem: Problem, x: Array, z: Any, repeats: int = 1) -> Linear:
    """Return losses and constraints at decisions (point, round or 1, *shape) with the data, arrays
    (point or 1, round, ...); see `Evaluation`."""
    constraint_data = z if problem.constraints.takes_data else None
    return Linear(
        *loss_evaluation(problem, repeats).slopes(x, z),
        *constraint_evaluation(problem, repeats=repeats).slopes(x, constraint_data),
    )


def probe(problem: Problem, points: Array, order: Array, data: Any) -> dict[str, Array]:
    """Values, slopes and first-order gaps at (round, point).

    Each point is paired with another one, `points[order]`: gaps are those between the two.
    """
    rounds = len(jax.tree.leaves(data)[0])
    width = rounds
    if problem.constraints.takes_data:
        per_point = jax.tree.map(lambda a: np.asarray(a)[None], data)
        count = constraint_evaluation(problem).count(points[:, None], per_point)
        while width > 1 and width * points.size * count > ENTRIES:
            width = -(-width // 2)
    parts = []
    for start in range(0, rounds, width):
        some = slice(start, start + width)
        rows = jax.tree.map(lambda a, some=some: np.asarray(a)[some], data)
        parts.append(_gaps(problem, points, order, rows))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _gaps(problem: Problem, points: Array, order: Array, data: Any) -> dict[str, Array]:
    here = linear(problem, points[:, None], jax.tree.map(lambda a: a[None], data))
    there = Linear(*(part[order] for part in here))
    x = points.reshape(len(points), 1, -1)
    y = x[order]
    step, lead = y - x, here.loss.shape
    with np.errstate(all="ignore"):
        along = np.sum(here.slope * step, axis=-1)
        rise = np.sum(here.rows * step[..., None, :], axis=-1)
        # f(y) - f(x) - <f'(x), y - x>: never negative for a convex function.
        excess_gap = there.values - here.values - rise
        worst = np.argmin(excess_gap, axis=-1)
        slopes, far = _length(here.rows), _length(x) + _length(y)
        scale = np.abs(here.values) + np.abs(there.values) + np.abs(rise) + slopes * far[..., None]
        steep = _length(here.slope)
        measured = {
            "loss": here.loss,
            "loss_slope": steep,
            "loss_gap": there.loss - here.loss - along,
            "loss_scale": np.abs(here.loss) + np.abs(there.loss) + np.abs(along) + steep * far,
            "excess": here.values,
            "excess_slope": np.max(slopes, axis=-1),
            "excess_reach": np.max(np.abs(here.values), axis=-1),
            "excess_gap": entry(excess_gap, worst),
            "excess_scale": entry(scale, worst),
            "excess_bend": np.max(_length(here.rows - there.rows), axis=-1),
            "length": _length(step),
        }
    return {
        name: np.swapaxes(np.broadcast_to(value, lead + value.shape[2:]), 0, 1)
        for name, value in measured.items()
    }


def values_at(problem: Problem, points: Array, constraints: Constraints | None = None) -> Array:
    """All values of constraints that do not change, (point, constraint)."""
    return constraint_evaluation(problem, constraints).values(np.asarray(points)[:, None])[:, 0]


def largest_values(problem: Problem, points: Array) -> Array:
    """The largest constraint value at each point, of constraints that do not change."""
    return np.asarray(values_at(problem, points).max(axis=1))


def losses_at(problem: Problem, points: Array, data: Any) -> Array:
    """The loss of one round at each point: the i-th point with the i-th row of the data."""
    rows = jax.tree.map(lambda a: np.asarray(a)[:, None], data)
    return loss_evaluation(problem).values(points[:, None], rows)[:, 0].astype(float)


def walk_back(problem: Problem, points: Array) -> tuple[Array, Array, Array]:
    """Whether each walk from far outside to g <= 0 ends outside the domain, whether it ends
    feasible, and where.

    A step goes to the tangent plane of the largest constraint, and a little further, to land
    inside.
    """
    constraints, domain = problem.constraints, problem.domain
    evaluation = constraint_evaluation(problem, constraints, repeats=WALK)
    centre = centre_of(domain).astype(points.dtype).ravel()
    ray = points.reshape(len(points), -1) - centre
    length = np.linalg.norm(ray, axis=1, keepdims=True)
    y = centre + ray * points.dtype.type(3 * float(domain.radius)) / np.where(length > 0, length, 1)
    for _ in range(WALK):
        at = y.reshape(-1, 1, *domain.shape)
        values = evaluation.values(at)[:, 0]
        largest = values.max(axis=1, keepdims=True)
        if not np.any(largest > 0):
            break
        which = values.argmax(axis=1)[:, None]
        slope = evaluation.of_one_entry().slopes(at, (None, which))[1][:, 0]
        with np.errstate(all="ignore"):
            size = np.sum(slope**2, axis=1, keepdims=True)
            move = 1.001 * np.maximum(largest, 0) / np.where(size > 0, size, 1)
            y = (y - move * slope).astype(points.dtype)
    ends = y.reshape(-1, 1, *domain.shape)
    inside = Evaluation(programs_of(problem), _contains, (), (domain,)).values(ends)[:, 0]
    return ~inside, evaluation.values(ends)[:, 0].max(axis=1) <= 0, ends[:, 0]


def _contains(domain: Domain, x: jax.Array, _: None) -> jax.Array:
    return domain.contains(x, 1e-6)


def entry(values: Array, i: Array) -> Array:
    """values[..., i] for an index of each row."""
    return np.take_along_axis(values, i[..., None], axis=-1)[..., 0]

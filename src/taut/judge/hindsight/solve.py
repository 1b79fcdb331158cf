"""The public function `taut.hindsight`: checks arguments, chooses a route and arranges the
results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from ... import arguments
from ...engine import Array, double_precision, require_jax
from ...problem.feasibility import NoFeasibleDecision
from ...problem.problem import Problem
from ...problem.streams import Arrays, Stream, as_stream
from ..views import without_memory
from .exact import solve as exactly
from .first_order import solve_by_first_order
from .result import Found, Hindsight


def hindsight(
    problem: Problem,
    stream: Any,
    *,
    horizon: int | None = None,
    seeds: int | None = None,
    prefixes: Sequence[int] | None = None,
    method: str = "exact",
    tolerance: float = 1e-8,
    key: jax.Array | None = None,
    comparator: str = "fixed",
    breakpoints: Sequence[int] | None = None,
    previous: Any = None,
) -> Hindsight:
    r"""The x in B with g(x) <= 0 (in every round) that minimises sum_t f_t(x), for all seeds and
    prefixes.

    "exact": affine and quadratic losses are recognised, verified round by round and added up into
    one polynomial in a single compiled pass. Other smooth losses take Newton steps with aggregated
    gradient and Hessian, losses with kinks cutting planes. Constraints reach the solver as rows,
    cones or tangents. Every result has multipliers whose bound

        f(x) + lambda g(x) + min_{y in B} <f'(x) + lambda g'(x), y - x>   <=   min f

    is within `tolerance`, relatively; otherwise an error is raised.

    "first-order": accelerated gradient steps on the augmented Lagrangian, with the same kind of
    proof. It needs no Hessian, so it suits decisions of hundreds of numbers or more with losses
    that are not quadratic. For these "exact" tries it first.

    Arguments:
        problem: the problem. Maxima and squares of constraints are unwrapped: the feasible set is
            the same.
        stream: the data, as for `taut.simulate`; an adversary has none.
        horizon: number of rounds; by default all.
        seeds: number of independent streams.
        prefixes: numbers of rounds, each answered for; by default the horizon alone.
        method: "exact" or "first-order".
        tolerance: the largest relative gap to return.
        key: JAX random key for sampled checks; by default `jax.random.key(0)`.
        comparator: what the loss is compared with.
            "fixed" is one decision that is feasible in all rounds.
            "per-round" is the best decision of each round under that round's constraints. Its
            `path_length` says how much it moves. Prefixes give totals of the first rounds.
            "shifting" changes after the rounds in `breakpoints`; between the changes one decision
            is feasible in all rounds.
        breakpoints: for "shifting", the rounds after which the decision changes.
        previous: for a problem with `previous=True`. By default the previous decision is x itself
            in all rounds, also in the first: the loss of a decision that is played all the time,
            against which policy regret is measured. With a run, or with its decisions (seed, round,
            ...), the previous decisions are those of the run: the comparator of adaptive-adversary
            regret, which must be feasible in all rounds after the run's own decisions.

    Raises `NoFeasibleDecision` if no decision satisfies the constraints (of all rounds; of a round
    or segment for comparators that move), `ValueError` for losses or constraints that are seen to
    be unbounded, infinite or not convex, and `RuntimeError` if the gap cannot be certified.

    >>> import jax.numpy as jnp, taut
    >>> toy = taut.Problem(
    ...     lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    ... )
    >>> best = hindsight(toy, np.array([[3.0, 1.0], [2.0, 0.0], [-1.0, -9.0]]), prefixes=[2, 3])
    >>> (best.decision.round(6) + 0.0).tolist(), best.loss.round(6).tolist()
    ([[[-1.0, 0.0], [0.0, 1.0]]], [[-5.0, -8.0]])
    """
    require_jax()
    if not isinstance(problem, Problem):
        raise TypeError(
            f"problem: got {arguments.shown(problem)}; expected taut.Problem(...), then the stream"
        )
    arguments.one_of("method", method, ("exact", "first-order"))
    tolerance = arguments.positive("tolerance", tolerance)
    asked, problem = problem, problem.for_data(stream)
    source = _source(problem.arrange(stream), horizon, seeds)
    problem = problem.whole()
    if problem.previous or previous is not None:
        problem, source = without_memory(problem, source, previous, comparator)
    length = source.horizon if horizon is None else arguments.count("horizon", horizon)
    wanted = None if prefixes is None else _prefixes(prefixes, length)
    ends = tuple(sorted(set(wanted or (length,))))
    changes = _changes(comparator, method, breakpoints, wanted, length)
    with double_precision():
        rng = np.random.default_rng(0 if key is None else np.asarray(jax.random.key_data(key)))
        if method == "first-order":
            found = solve_by_first_order(problem, source, ends, tolerance, rng)
        elif comparator == "fixed":
            found = exactly(problem, source, ends, tolerance, rng)
        else:
            solve = partial(exactly, problem, tolerance=tolerance, rng=rng)
            if comparator == "per-round":
                parts, which = _rounds(source, length, solve)
            else:
                parts, which = _segments(source, (0, *changes, length), solve)
            moving = _moving(comparator, problem, parts, which, wanted)
            return replace(moving, problem=asked)

    def arranged(a: Array, *dims: int) -> Array:
        by_prefix = a.reshape(source.seeds, len(ends), *dims)
        if wanted is None:
            return by_prefix[:, 0]
        return by_prefix[:, [ends.index(one) for one in wanted]]

    return Hindsight(
        decision=arranged(found.decision, *problem.domain.shape),
        loss=arranged(found.loss),
        gap=arranged(found.gap),
        violation=arranged(found.violation),
        multipliers=arranged(found.multipliers, found.multipliers.shape[-1]),
        solver=found.solver,
        prefixes=wanted,
        unit=found.unit,
        problem=asked,
    )


def _changes(comparator: str, method: str, breakpoints: Any, wanted: Any, length: int) -> list[int]:
    """The rounds after which a comparator changes, checked together with the other arguments that
    do not fit each comparator."""
    arguments.one_of("comparator", comparator, ("fixed", "per-round", "shifting"))
    if (comparator == "shifting") != (breakpoints is not None):
        raise ValueError(
            f'breakpoints: got {breakpoints!r} with comparator="{comparator}"; expected rounds for '
            'comparator="shifting", and None for others'
        )
    if comparator != "fixed" and method != "exact":
        raise ValueError(
            f'method: got "{method}" with comparator="{comparator}"; expected method="exact"'
        )
    if comparator != "shifting":
        return []
    if wanted is not None:
        raise ValueError(
            'prefixes: got some with comparator="shifting"; expected horizon=... for each prefix'
        )
    chosen = [
        arguments.count("breakpoints", one)
        for one in np.atleast_1d(np.asarray(breakpoints)).tolist()
    ]
    if chosen != sorted(set(chosen)) or not chosen or chosen[-1] >= length:
        raise ValueError(
            f"breakpoints: got {breakpoints!r}; expected increasing numbers of rounds below "
            f"{length}"
        )
    return chosen


def _source(stream: Any, horizon: int | None, seeds: int | None) -> Stream:
    source = as_stream(stream, horizon=horizon, seeds=seeds)
    if source.reacts:
        raise ValueError(
            "stream: got an adversary, which has no data before it is played against; expected "
            "arrays: record what it reveals to the decisions of a run"
        )
    if horizon is not None and horizon > source.horizon:
        raise ValueError(
            f"horizon: got {horizon}; expected at most the {source.horizon} rounds of the stream"
        )
    return source


def _prefixes(prefixes: Any, horizon: int) -> tuple[int, ...]:
    wanted = tuple(
        arguments.count("prefixes", one) for one in np.atleast_1d(np.asarray(prefixes)).tolist()
    )
    if not wanted or max(wanted) > horizon:
        raise ValueError(
            f"prefixes: got {prefixes!r}; expected numbers of rounds between 1 and {horizon}"
        )
    return wanted


BATCH = 256
"""Rounds whose units are measured together by the per-round comparator."""

Solve = Callable[[Stream, tuple[int, ...]], Found]
"""The best fixed decisions of a stream for prefixes."""


def _rounds(stream: Stream, length: int, solve: Solve) -> tuple[list[Found], Array]:
    """For every round, the decision that minimises its loss under its own constraints, and where it
    is in these results: (seed, round). Equal rounds are solved once."""
    data = jax.tree.map(np.asarray, stream.block(0, length))
    leaves, tree = jax.tree.flatten(data)
    count = stream.seeds * length
    flat = [leaf.reshape(count, *leaf.shape[2:]) for leaf in leaves]
    table = np.concatenate([leaf.reshape(count, -1).astype(float) for leaf in flat], axis=1)
    _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
    parts: list[Found] = []
    for start in range(0, len(first), BATCH):
        chosen = first[start : start + BATCH]
        rounds = jax.tree.unflatten(tree, [leaf[chosen][:, None] for leaf in flat])
        try:
            parts.append(solve(Arrays(rounds, 1, len(chosen), True), (1,)))
        except NoFeasibleDecision as error:
            seed, number = divmod(int(chosen[error.seed or 0]), length)
            error.add_note(f"This is round {number + 1} of seed {seed}, on its own.")
            raise
    return parts, which.reshape(stream.seeds, length)


def _segments(stream: Stream, edges: Sequence[int], solve: Solve) -> tuple[list[Found], Array]:
    """The best fixed decision between every two edges, and where it is in these results: (seed,
    segment)."""
    parts = [solve(_Part(stream, start, stop), (stop - start,)) for start, stop in pairwise(edges)]
    return parts, np.arange(len(parts) * stream.seeds).reshape(len(parts), stream.seeds).T


def _moving(
    comparator: str,
    problem: Problem,
    parts: list[Found],
    which: Array,
    wanted: tuple[int, ...] | None,
) -> Hindsight:
    """The comparator that uses decision `which` of all parts, (seed, round or segment); its totals
    are those of prefixes, if they are `wanted`."""
    decision, part_loss, slack, violation = (
        np.concatenate([getattr(part, name) for part in parts])[which]
        for name in ("decision", "loss", "slack", "violation")
    )
    moves = np.linalg.norm(np.diff(decision, axis=1, prepend=decision[:, :1]), axis=2)
    last = [-1] if wanted is None else [one - 1 for one in wanted]
    loss, path_length = (np.cumsum(a, axis=1)[:, last] for a in (part_loss, moves))
    unit = max(part.unit for part in parts)
    gap = slack.sum(axis=1)[:, None] / np.maximum(unit, np.abs(loss))
    if wanted is None:
        loss, path_length, gap = loss[:, 0], path_length[:, 0], gap[:, 0]
    return Hindsight(
        decision=decision.reshape(*which.shape, *problem.domain.shape),
        loss=loss,
        gap=gap,
        violation=violation,
        multipliers=None,
        solver=f"{comparator}: {which.max() + 1} programs, {parts[0].solver}",
        prefixes=wanted,
        comparator=comparator,
        path_length=path_length,
        unit=unit,
    )


@dataclass(frozen=True)
class _Part(Stream):
    """Rounds start..stop of a stream."""

    whole: Stream
    start: int
    stop: int

    @property
    def horizon(self) -> int:  # type: ignore[override]
        """The number of rounds."""
        return self.stop - self.start

    @property
    def seeds(self) -> int:  # type: ignore[override]
        """As many as the whole stream has."""
        return self.whole.seeds

    def block(self, start: int, length: int) -> Any:
        """A block of the whole stream."""
        return self.whole.block(self.start + start, length)

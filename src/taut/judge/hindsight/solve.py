"""The public function `taut.hindsight`: checks arguments, chooses a route and arranges the
results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from .result import Hindsight


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
    arguments.one_of("comparator", comparator, ("fixed", "per-round", "shifting"))
    if (comparator == "shifting") != (breakpoints is not None):
        raise ValueError(
            f'breakpoints: got {breakpoints!r} with comparator="{comparator}"; expected rounds for '
            'comparator="shifting", and None for others'
        )
    if comparator == "shifting" and prefixes is not None:
        raise ValueError(
            'prefixes: got some with comparator="shifting"; expected horizon=... for each prefix'
        )
    if comparator != "fixed" and method != "exact":
        raise ValueError(
            f'method: got "{method}" with comparator="{comparator}"; expected method="exact"'
        )
    tolerance = arguments.positive("tolerance", tolerance)
    asked = problem
    source = as_stream(problem.arrange(stream), horizon=horizon, seeds=seeds)
    if source.reacts:
        raise ValueError(
            "stream: got an adversary, which has no data before it is played against; expected "
            "arrays: record what it reveals to the decisions of a run"
        )
    problem, source = without_memory(problem, source, previous, comparator)
    length = source.horizon
    wanted = None if prefixes is None else _prefixes(prefixes, length)
    ends = tuple(sorted(set(wanted or (length,))))
    with double_precision():
        rng = np.random.default_rng(0 if key is None else np.asarray(jax.random.key_data(key)))
        if comparator != "fixed":
            if breakpoints is None:
                parts, which = _rounds(problem, source, length, tolerance, rng)
            else:
                edges = (0, *_breakpoints(breakpoints, length), length)
                parts, which = _segments(problem, source, edges, tolerance, rng)
            return replace(_moving(comparator, parts, which, wanted), problem=asked)
        solve = exactly if method == "exact" else solve_by_first_order
        best = solve(problem, source, ends, tolerance, rng)
    # The solvers answer for ascending prefixes; without prefixes there is only one answer.
    at: Any = 0 if wanted is None else [ends.index(prefix) for prefix in wanted]
    return replace(
        best,
        decision=best.decision[:, at],
        loss=best.loss[:, at],
        gap=best.gap[:, at],
        violation=best.violation[:, at],
        multipliers=None if best.multipliers is None else best.multipliers[:, at],
        prefixes=wanted,
        problem=asked,
    )


def _prefixes(prefixes: Any, horizon: int) -> tuple[int, ...]:
    wanted = tuple(
        arguments.count("prefixes", prefix)
        for prefix in np.atleast_1d(np.asarray(prefixes)).tolist()
    )
    if not wanted or max(wanted) > horizon:
        raise ValueError(
            f"prefixes: got {prefixes!r}; expected numbers of rounds between 1 and {horizon}"
        )
    return wanted


BATCH = 256
"""Rounds whose units are measured together by the per-round comparator."""


def _breakpoints(breakpoints: Any, horizon: int) -> list[int]:
    rounds = [
        arguments.count("breakpoints", after)
        for after in np.atleast_1d(np.asarray(breakpoints)).tolist()
    ]
    if rounds != sorted(set(rounds)) or not rounds or rounds[-1] >= horizon:
        raise ValueError(
            f"breakpoints: got {breakpoints!r}; expected increasing numbers of rounds below "
            f"{horizon}"
        )
    return rounds


def _rounds(
    problem: Problem, stream: Stream, length: int, tolerance: float, rng: np.random.Generator
) -> tuple[list[Hindsight], Array]:
    """The decision that minimises each round's loss under its own constraints, and where it is in
    these results: (seed, round). Equal rounds are solved once."""
    data = jax.tree.map(np.asarray, stream.block(0, length))
    leaves, tree = jax.tree.flatten(data)
    count = stream.seeds * length
    flat = [leaf.reshape(count, *leaf.shape[2:]) for leaf in leaves]
    table = np.concatenate([leaf.reshape(count, -1).astype(float) for leaf in flat], axis=1)
    _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
    which = which.reshape(stream.seeds, length)
    parts: list[Hindsight] = []
    for start in range(0, len(first), BATCH):
        chosen = first[start : start + BATCH]
        rounds = jax.tree.unflatten(tree, [leaf[chosen][:, None] for leaf in flat])
        single = Arrays(rounds, 1, len(chosen), True)
        try:
            parts.append(exactly(problem, single, (1,), tolerance, rng))
        except NoFeasibleDecision as error:
            seed, number = divmod(int(chosen[error.seed or 0]), length)
            error.add_note(f"This is round {number + 1} of seed {seed}, on its own.")
            raise
    return parts, which


def _segments(
    problem: Problem,
    stream: Stream,
    edges: Sequence[int],
    tolerance: float,
    rng: np.random.Generator,
) -> tuple[list[Hindsight], Array]:
    """The best fixed decision between every two edges, and where it is in these results: (seed,
    segment)."""
    parts = []
    for start, stop in pairwise(edges):
        segment = Arrays(stream.block(start, stop - start), stop - start, stream.seeds, True)
        parts.append(exactly(problem, segment, (stop - start,), tolerance, rng))
    return parts, np.arange(len(parts) * stream.seeds).reshape(len(parts), stream.seeds).T


def _moving(
    comparator: str, parts: list[Hindsight], which: Array, wanted: tuple[int, ...] | None
) -> Hindsight:
    """The comparator with decision `which` of all parts, (seed, round or segment). Totals are those
    of all of them, or of prefixes if they are `wanted`."""
    decision, part_loss, slack, violation = (
        np.concatenate([getattr(part, name)[:, 0] for part in parts])[which]
        for name in ("decision", "loss", "slack", "violation")
    )
    moves = np.diff(decision, axis=1, prepend=decision[:, :1]).reshape(*which.shape, -1)
    last: Any = -1 if wanted is None else [prefix - 1 for prefix in wanted]
    loss = np.cumsum(part_loss, axis=1)[:, last]
    unit = max(part.unit for part in parts)
    total_slack = slack.sum(axis=1).reshape(-1, *(1,) * (loss.ndim - 1))
    return Hindsight(
        decision=decision,
        loss=loss,
        gap=total_slack / np.maximum(unit, np.abs(loss)),
        violation=violation,
        multipliers=None,
        solver=f"{comparator}: {which.max() + 1} programs, {parts[0].solver}",
        prefixes=wanted,
        comparator=comparator,
        path_length=np.cumsum(np.linalg.norm(moves, axis=2), axis=1)[:, last],
        unit=unit,
    )

"""The public function `taut.hindsight`: checks arguments, chooses a route and arranges the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ... import arguments
from ...engine import Array, double_precision
from ...problem.problem import Problem
from ...problem.streams import Stream, as_stream
from .result import Hindsight

__all__ = ["hindsight"]


def hindsight(
    problem: Problem,
    stream: Any,
    *,
    horizon: int | None = None,
    seeds: int | None = None,
    prefixes: Sequence[int] | None = None,
    method: str = "exact",
    tolerance: float = 1e-8,
    projection: Callable[[jax.Array], jax.Array] | None = None,
    key: jax.Array | None = None,
) -> Hindsight:
    r"""The x in B with g(x) <= 0 (in every round) that minimises sum_t f_t(x), for all seeds and prefixes.

    "exact": affine and quadratic losses are recognised, verified round by round and added up into one polynomial in a
    single compiled pass. Other smooth losses take Newton steps with aggregated gradient and Hessian, losses with kinks
    cutting planes. Constraints reach the solver as rows, cones or tangents. Every result has multipliers whose bound

        f(x) + lambda g(x) + min_{y in B} <f'(x) + lambda g'(x), y - x>   <=   min f

    is within `tolerance`, relatively; otherwise an error is raised.

    "saga": incremental gradients (Defazio, Bach and Lacoste-Julien, 2014) with a projection on the feasible set.

    Arguments:
        problem: the game. Maxima and squares of constraints are unwrapped: the feasible set is the same.
        stream: the data, as for `taut.simulate`; an adversary has none.
        horizon: number of rounds; by default all.
        seeds: number of independent streams.
        prefixes: numbers of rounds, each answered for; by default the horizon alone.
        method: "exact" or "saga".
        tolerance: the largest relative gap to return.
        projection: for "saga", the projection on {x in B : g(x) <= 0} in jax.numpy; by default it is solved for, which
            takes affine and quadratic constraints that do not change.
        key: JAX random key for sampled checks and SAGA's order; by default `jax.random.key(0)`.

    Raises `ValueError` for constraints that no decision satisfies, and for losses or constraints that are seen to be
    unbounded, infinite or not convex; `RuntimeError` if the gap cannot be certified.

    >>> import jax.numpy as jnp, taut
    >>> toy = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
    >>> best = hindsight(toy, np.array([[3.0, 1.0], [2.0, 0.0], [-1.0, -9.0]]), prefixes=[2, 3])
    >>> best.decision.round(6).tolist(), best.loss.round(6).tolist()
    ([[[-1.0, 0.0], [-0.0, 1.0]]], [[-5.0, -8.0]])
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {problem!r}; expected taut.Problem(...)")
    arguments.one_of("method", method, ("exact", "saga"))
    tolerance = arguments.positive("tolerance", tolerance)
    if projection is not None and (method != "saga" or not callable(projection)):
        raise ValueError(f'projection: got {projection!r}, method "{method}"; expected a function, method "saga"')
    source = _source(problem.arrange(stream), horizon, seeds)
    length = source.horizon if horizon is None else arguments.count("horizon", horizon)
    wanted = None if prefixes is None else _prefixes(prefixes, length)
    ends = tuple(sorted(set(wanted or (length,))))
    with double_precision():
        rng = np.random.default_rng(0 if key is None else np.asarray(jax.random.key_data(key)))
        if method == "saga":
            from .saga import solve_by_saga

            found = solve_by_saga(problem, source, ends, tolerance, rng, projection)
        else:
            from .exact import solve

            # A problem may know a route of its own, as models written in CVXPY do.
            own = problem.offline(source, ends, tolerance, rng)
            found = solve(problem, source, ends, tolerance, rng) if own is None else own

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
        multipliers=None if found.multipliers is None else arranged(found.multipliers, found.multipliers.shape[-1]),
        solver=found.solver,
        prefixes=wanted,
    )


def _source(stream: Any, horizon: int | None, seeds: int | None) -> Stream:
    source = as_stream(stream, horizon=horizon, seeds=seeds)
    if source.reacts:
        raise ValueError(
            "stream: got an adversary, which has no data before it is played against; expected arrays: record what it "
            "reveals to the decisions of a run"
        )
    if horizon is not None and horizon > source.horizon:
        raise ValueError(f"horizon: got {horizon}; expected at most the {source.horizon} rounds of the stream")
    return source


def _prefixes(prefixes: Any, horizon: int) -> tuple[int, ...]:
    wanted = tuple(arguments.count("prefixes", one) for one in np.atleast_1d(np.asarray(prefixes)).tolist())
    if not wanted or max(wanted) > horizon:
        raise ValueError(f"prefixes: got {prefixes!r}; expected numbers of rounds between 1 and {horizon}")
    return wanted

r"""SAGA: incremental gradients with a memory, for any smooth loss (Defazio, Bach and
Lacoste-Julien, 2014).

With phi_j the point where round j's gradient was last taken, and the rounds j in random order,
epoch after epoch:

    v   = u - step * (f_j'(u) - f_j'(phi_j) + mean_i f_i'(phi_i))
    u   = projection of v on the feasible set

It converges linearly if the aggregate is strongly convex. After each epoch the gap is bounded as in
`scaling.py`, with the projection on the feasible set in place of the domain's, so no multipliers
are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constraints import Constraints
from ...problem.feasibility import check_feasible
from ...problem.interpreter import evaluated
from ...problem.problem import Problem
from ...problem.streams import Stream
from .convexity import refuse_loss_below_tangent
from .dykstra import Pieces, pieces_of, project
from .result import Found, relative_gap
from .scaling import Scaling, as_double, sample_points
from .structure import fixed_structure, simplified
from .tolerances import ALLOWED_EXCESS, FEASIBLE

__all__ = ["solve_by_saga"]

EPOCHS = 2000
"""The largest number of passes over the rounds."""
FINER = 0.01
"""Linear convergence makes a gap this much below the tolerance cheap,"""
FINER_EPOCHS = 20
"""but no more than this many further epochs are spent on it."""
POWER_STEPS = 8
CURVATURE_POINTS = 3
STRETCHES = (1.0, 10.0, 100.0, 1e3, 1e4)
"""Multiples of the step at which the bound on the gap is evaluated; the best one counts."""
WITNESSES = 4

Projection = Callable[[jax.Array], jax.Array]


def solve_by_saga(
    problem: Problem,
    stream: Stream,
    ends: tuple[int, ...],
    tolerance: float,
    rng: np.random.Generator,
    projection: Projection | None,
) -> Found:
    """The best fixed decisions for all seeds and prefixes (`ends`, ascending)."""
    scaling = Scaling.of(problem.domain)
    constraints = simplified(problem.constraints)
    pieces = None
    if projection is None:
        if constraints.takes_data:
            raise ValueError(
                "projection: got None for constraints that change; expected one on the feasible set"
            )
        check_feasible(problem)
        pieces = pieces_of(fixed_structure(constraints, scaling, rng), scaling)
    elif constraints.takes_data and len(ends) > 1:
        raise ValueError(
            "prefixes: got several with constraints that change; expected one, as the projection "
            "is for one"
        )
    everyone = stream.block(
        0, ends[-1]
    )  # rounds are drawn at random: one seed's are on the device at a time
    found, epochs = [], 0
    for seed in range(stream.seeds):
        data = jax.tree.map(lambda a, s=seed: jnp.asarray(as_double(a[s])), everyone)
        rounds = _Rounds(problem, constraints, scaling, data, projection, pieces)
        points = sample_points(scaling, rng, 1 + max(WITNESSES, CURVATURE_POINTS))
        rounds.check_projection(points)
        u = rounds.projected(points[0])
        for end in ends:
            u, value, gap, took = rounds.run(u, end, points, tolerance, int(rng.integers(2**31)))
            epochs = max(epochs, took)
            found.append(
                (scaling.flat_decision(np.asarray(u)), end * value, gap, rounds.worst(u, end))
            )
    points_, loss, gaps, worst = (np.asarray(column) for column in zip(*found, strict=True))
    return Found(points_, loss, gaps, worst, None, f"saga ({epochs} epochs)")


class _Rounds:
    """The rounds of one seed, on the device, with the operations that SAGA needs."""

    def __init__(
        self,
        problem: Problem,
        constraints: Constraints,
        scaling: Scaling,
        data: Any,
        projection: Projection | None,
        pieces: Pieces | None,
    ) -> None:
        self.loss, self.constraints, self.scaling = problem.loss, constraints, scaling
        self.projection, self.pieces = projection, pieces
        self.data = data

    def projected(self, u: Array) -> jax.Array:
        """The nearest feasible point."""
        return _nearest(self.projection, self.scaling, self.pieces, u)

    def worst(self, u: Any, rounds: int) -> float:
        """The largest constraint value at `u`, over the first rounds."""
        return float(_worst(self.constraints, self.scaling, u, self.data, rounds))

    def check_projection(self, points: Array) -> None:
        """Raise unless the projection returns feasible points at an obtuse angle to all other
        feasible points."""
        image = np.stack([np.asarray(self.projected(2 * one)) for one in points])
        if not np.isfinite(image).all():
            raise ValueError(
                "projection: got a value that is not finite; expected a point of the feasible set"
            )
        rounds = len(jax.tree.leaves(self.data)[0])
        values = [self.worst(one, rounds) for one in image]
        reach = max(1.0, *(abs(self.worst(one, rounds)) for one in points))
        if max(values) > ALLOWED_EXCESS * FEASIBLE * reach:
            raise ValueError(
                f"projection: got a point with max_i g_i = {max(values):.3g}; expected a "
                "projection on the feasible set"
            )
        angle = np.einsum("kd,kld->kl", 2 * points - image, image[None] - image[:, None])
        if angle.max() > 1e-7:
            raise ValueError(
                "projection: got a feasible point that is not the nearest one; expected the "
                "Euclidean projection"
            )

    def run(
        self, u: jax.Array, rounds: int, points: Array, tolerance: float, order: int
    ) -> tuple[jax.Array, float, float, int]:
        """SAGA on the first `rounds` rounds from `u`: point, mean loss, gap and epochs."""
        curvature = float(
            _largest_curvature(
                self.loss, self.scaling, self.data, rounds, points[1 : 1 + CURVATURE_POINTS]
            )
        )
        step = 1 / (3 * curvature) if curvature > 0 else 1.0
        value, table, slope = _table(self.loss, self.scaling, self.data, rounds, u)
        best, reached = np.inf, EPOCHS
        for epoch in range(EPOCHS):
            gap = float(
                relative_gap(float(value), float(value) - self._gap(u, slope, step), rounds)
            )
            if not np.isfinite(gap):
                raise ValueError(
                    "loss: got a value or gradient that is not finite; expected finite numbers"
                )
            reached = min(reached, epoch) if gap <= tolerance else EPOCHS
            if gap <= tolerance * FINER or (gap <= tolerance and epoch >= reached + FINER_EPOCHS):
                self._check_convex(u, float(value), slope, rounds, points[1 : 1 + WITNESSES])
                return u, float(value), float(gap), epoch
            if epoch > 3 and gap > 100 * best:  # the sampled curvature was too small
                step /= 2
            best = min(best, gap)
            u, table = _epoch(
                self.loss,
                self.projection,
                self.scaling,
                self.pieces,
                self.data,
                rounds,
                u,
                table,
                step,
                order + epoch,
            )
            value, _, slope = _table(self.loss, self.scaling, self.data, rounds, u)
        raise RuntimeError(
            f"not certified: after {EPOCHS} epochs of SAGA the certified relative gap is "
            f"{gap:.2g}; expected at most "
            f'{tolerance:.2g}. Use method="exact", which needs no strong convexity'
        )

    def _gap(self, u: jax.Array, slope: jax.Array, step: float) -> float:
        return float(_gap(self.projection, self.scaling, self.pieces, u, slope, step))

    def _check_convex(
        self, u: jax.Array, value: float, slope: jax.Array, rounds: int, witnesses: Array
    ) -> None:
        for witness in witnesses:
            there = float(_table(self.loss, self.scaling, self.data, rounds, witness)[0])
            at, tangent = np.asarray(u)[None], np.asarray(slope)[None]
            refuse_loss_below_tangent(
                np.asarray([value]), tangent, at, witness, np.asarray([there]), [rounds]
            )


@evaluated(static_argnames=("projection",))
def _nearest(
    projection: Projection | None, scaling: Scaling, pieces: Pieces | None, u: Any
) -> jax.Array:
    return _projected(projection, scaling, pieces, jnp.asarray(u))


def _projected(
    projection: Projection | None, scaling: Scaling, pieces: Pieces | None, u: jax.Array
) -> jax.Array:
    if projection is None:
        assert pieces is not None
        return project(pieces, scaling, u)
    return scaling.scaled(projection(scaling.decision(u)))


@evaluated(static_argnames=("projection",))
def _gap(
    projection: Projection | None,
    scaling: Scaling,
    pieces: Pieces | None,
    u: jax.Array,
    slope: jax.Array,
    step: Any,
) -> jax.Array:
    """An upper bound on f(u) - min f, from f(y) >= f(u) + <slope, y - u> and the projection of u -
    s * slope."""
    diameter = jnp.asarray(scaling.domain.diameter) / scaling.radius

    def bound(stretch: jax.Array) -> jax.Array:
        s = stretch * step
        offset = _projected(projection, scaling, pieces, u - s * slope) - u
        return jnp.sqrt(offset @ offset) * diameter / s - slope @ offset

    return jnp.maximum(jnp.min(jax.lax.map(bound, jnp.asarray(STRETCHES))), 0)


@evaluated(static_argnames=("loss",))
def _table(
    loss: Callable[..., Any], scaling: Scaling, data: Any, rounds: Any, u: Any
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The mean loss of the first rounds at `u`, their gradients, one per row, and the mean of
    these."""
    values, slopes = jax.vmap(lambda z: jax.value_and_grad(_one(loss, scaling, z))(u))(data)
    inside = jnp.arange(values.shape[0]) < rounds
    slopes = jnp.where(inside[:, None], slopes, 0)
    return jnp.sum(jnp.where(inside, values, 0)) / rounds, slopes, jnp.sum(slopes, axis=0) / rounds


@evaluated(static_argnames=("loss", "projection"))
def _epoch(
    loss: Callable[..., Any],
    projection: Projection | None,
    scaling: Scaling,
    pieces: Pieces | None,
    data: Any,
    rounds: Any,
    u: jax.Array,
    table: jax.Array,
    step: Any,
    seed: Any,
) -> tuple[jax.Array, jax.Array]:
    """One step for each of the first rounds, in random order: the last point, and the gradients as
    they were taken.

    No round comes twice, so the loop reads the old gradients and writes new ones elsewhere; XLA
    would copy an array that is both read and written.
    """
    last = jnp.arange(table.shape[0]) >= rounds
    order = jnp.argsort(
        jnp.where(last, 2.0, jax.random.uniform(jax.random.key(seed), (table.shape[0],)))
    )

    def body(k: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        u, taken, mean = carry
        j = order[k]
        slope = jax.grad(_one(loss, scaling, jax.tree.map(lambda a: a[j], data)))(u)
        change = slope - table[j]
        moved = _projected(projection, scaling, pieces, u - step * (change + mean))
        return moved, taken.at[k].set(slope), mean + change / rounds

    start = (u, jnp.zeros_like(table), jnp.sum(table, axis=0) / rounds)
    u, taken, _ = jax.lax.fori_loop(0, rounds, body, start)
    return u, jnp.zeros_like(table).at[order].set(taken)


@evaluated(static_argnames=("loss",))
def _largest_curvature(
    loss: Callable[..., Any], scaling: Scaling, data: Any, rounds: Any, points: Any
) -> jax.Array:
    """The largest curvature of any round's loss at sampled points, by power iteration."""

    def curvature(z: Any, u: jax.Array) -> jax.Array:
        def product(direction: jax.Array) -> jax.Array:
            return jax.jvp(jax.grad(_one(loss, scaling, z)), (u,), (direction,))[1]

        def power(_: jax.Array, direction: jax.Array) -> jax.Array:
            product_ = product(direction)
            length = jnp.sqrt(product_ @ product_)
            return product_ / jnp.where(length > 0, length, 1)

        start = jnp.cos(jnp.arange(1.0, u.size + 1))
        direction = jax.lax.fori_loop(0, POWER_STEPS, power, start / jnp.sqrt(start @ start))
        product_ = product(direction)
        return jnp.sqrt(product_ @ product_)

    every = jax.vmap(lambda z: jnp.max(jax.vmap(lambda u: curvature(z, u))(points)))(data)
    return jnp.max(jnp.where(jnp.arange(every.shape[0]) < rounds, every, 0))


@evaluated
def _worst(constraints: Constraints, scaling: Scaling, u: Any, data: Any, rounds: Any) -> jax.Array:
    if not constraints.takes_data:
        return jnp.max(constraints.values(scaling.decision(u), None))
    values = jax.vmap(lambda z: jnp.max(constraints.values(scaling.decision(u), z)))(data)
    return jnp.max(jnp.where(jnp.arange(values.shape[0]) < rounds, values, -jnp.inf))


def _one(loss: Callable[..., Any], scaling: Scaling, z: Any) -> Callable[[jax.Array], jax.Array]:
    return lambda u: jnp.asarray(loss(scaling.decision(u), z), u.dtype)

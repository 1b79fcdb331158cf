"""Values and gradients of a model at many points, and constants by random search: the largest slope
and value over decisions and data that mutation and selection find."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from ..model import Model

from ...engine import Array
from ...jaxpr.in_numpy import in_numpy
from ...problem.domains import Box
from ...problem.sampling import sample_decisions
from ..recourse.inner_minimum import InnerMinimum
from ..translation.attributes import is_symmetric, pattern, spans_of
from ..translation.parameters import Range, draw_parameters

NUMBERS = 1_000_000
"""The largest number of entries of the Jacobians of one batch."""
QUICK: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
"""This function runs a few times only: compiling it well takes longer than it runs."""
LARGEST = 10_000_000
"""Batches that compute more numbers than this are compiled: about a hundred of them are evaluated,
for which NumPy would take longer."""


POOL = 256
"""Decisions and data that are sampled; the search combines these."""
GENERATIONS = 6
"""Rounds of mutation and selection,"""
PARENTS = 24
"""and the number of points kept in each."""
PLACES = 12
"""Points at which second derivatives are computed,"""
DENSE = 60
"""if a decision has at most this many entries."""
CLEARLY = 1e-3
"""A smallest second derivative below this share of the largest may be zero elsewhere."""


class Seen(NamedTuple):
    """Values and gradients of all rows at a batch of points w. Row 0 is the loss, the others are
    the constraints; a point is a flat decision and the flat data."""

    values: Array
    """(point, row)"""
    slopes: Array
    """(point, row, entry of w)"""


LOSS = np.array([0])
Score = Callable[[Seen], Array]


class Probe:
    """Evaluates a model at points w, which are within `middle` plus or minus `half`: small batches
    in NumPy, large ones by a compiled function. It samples such points, and improves the best of
    them."""

    def __init__(self, model: Model, known: Range) -> None:
        self.model, self.known = model, known
        self.size, self.domain = model.size, model.domain
        self.middle = (known.box.low + known.box.high) / 2
        self.half = (known.box.high - known.box.low) / 2
        self.width = self.size + sum(parameter.size for parameter in model.parameters)
        self.costly = InnerMinimum in model.objective.atoms()
        """Whether one evaluation takes so long that few should be made."""
        self.batch = int(np.clip(NUMBERS // (model.count * self.width), 8, 256))
        function = _function(model)
        point = jax.ShapeDtypeStruct((self.width,), jnp.float64)
        program = None if self.costly else in_numpy(jax.make_jaxpr(function)(point), 1)
        points = np.zeros((self.batch, self.width))
        if program is not None and program.work([points]) <= LARGEST:
            self._call: Callable[[Array], Any] = lambda points: program.run([points])
        else:
            options = QUICK if jax.default_backend() == "cpu" else {}
            lowered = jax.jit(jax.vmap(function)).lower(points)
            self._call = lowered.compile(compiler_options=options)
        self.random = np.random.default_rng(0)
        self._generations = 1 if self.costly else GENERATIONS
        self._decisions = sample_decisions(self.domain, self.random, POOL).reshape(POOL, -1)
        self._data = draw_parameters(model.parameters, known, self.random, POOL)
        self.start = np.concatenate(
            [self._decisions, self._data[self.random.permutation(POOL)]], axis=1
        )

    @cached_property
    def seen(self) -> Seen:
        """Values and gradients at the points that the search starts from."""
        return self(self.start)

    def __call__(self, points: Array) -> Seen:
        """Values and gradients at the points (point, entry of w)."""
        short = -len(points) % self.batch
        full = np.concatenate([points, np.repeat(points[-1:], short, axis=0)])
        batches = np.split(full, len(full) // self.batch)
        parts = [
            np.concatenate([np.broadcast_to(a, (self.batch, *a.shape[1:])) for a in part])
            for part in zip(*map(self._call, batches), strict=True)
        ]
        return Seen(*(part[: len(points)] for part in parts))

    def refuse_infinite(self) -> None:
        """Raise if something is not finite in the domain, unless guessed data may be why."""
        if np.any(self.known.guessed):
            return
        finite = np.isfinite(self.seen.values) & np.isfinite(self.seen.slopes).all(axis=2)
        for name, good in (("loss", finite[:, 0]), ("constraints", finite[:, 1:].all(axis=1))):
            if not good.all():
                x = self.start[int(np.argmin(good)), : self.size]
                raise ValueError(
                    f"{name}: got a value or slope that is not finite inside the domain, at "
                    f"{np.round(x, 6).tolist()}; expected finite numbers: a smaller domain, or "
                    "bounds for the parameters"
                )

    def steepest(self, rows: Array) -> float:
        """The largest gradient of these rows that a search finds."""

        def score(seen: Seen) -> Array:
            return np.linalg.norm(seen.slopes[:, rows, : self.size], axis=2).max(axis=1)

        return self._improved(self.start, self.seen, score)

    def largest(self, rows: Array) -> float:
        """The largest absolute value of these rows that a search finds."""
        return self._improved(
            self.start, self.seen, lambda seen: np.abs(seen.values[:, rows]).max(axis=1)
        )

    def range(self) -> float:
        """The largest difference of losses between two decisions for the same data."""
        n, best = self.size, 0.0
        order = np.argsort(_finite(np.linalg.norm(self.seen.slopes[:, 0, :n], axis=1)))[::-1]
        for row in order[: 1 if self.costly else 4]:
            data = np.tile(self.start[row, n:], (POOL, 1))
            points = np.concatenate([self._decisions, data], axis=1)
            seen = self(points)
            most = self._improved(points, seen, lambda seen: seen.values[:, 0], data=False)
            least = self._improved(points, seen, lambda seen: -seen.values[:, 0], data=False)
            best = max(best, most + least)
        return best

    def _improved(self, points: Array, seen: Seen, score: Score, data: bool = True) -> float:
        """The largest score after mutation and selection, without `data` of the decisions alone."""
        scores = _finite(score(seen))
        for _ in range(self._generations):
            order = np.argsort(scores)[::-1][:PARENTS]
            parents, best = points[order], scores[order]
            children = self._children(parents, data)
            points = np.concatenate([parents, children])
            scores = np.concatenate([best, _finite(score(self(children)))])
        return float(scores.max())

    def modulus(self) -> float:
        """The smallest second derivative of the loss that was seen; 0 if it is not clearly
        positive, or has kinks."""
        if self.costly:
            return 0.0
        bends = self._bends(LOSS)
        if bends is None:
            return 0.0
        values = np.linalg.eigvalsh(bends)
        lowest = float(values.min())
        # A little less, for the error of the differences.
        return 0.999 * lowest if lowest > CLEARLY * float(np.abs(values).max()) else 0.0

    def curvature(self, rows: Array) -> float | None:
        """The largest second derivative of these rows that was seen."""
        bends = self._bends(rows)
        return None if bends is None else float(np.abs(np.linalg.eigvalsh(bends)).max())

    def _bends(self, rows: Array) -> Array | None:
        """Second derivatives by differences of slopes in the entries that are free to move."""
        n, centre = self.size, np.ravel(np.asarray(self.domain.centre, float))
        low, high = self.start[:, :n].min(axis=0), self.start[:, :n].max(axis=0)
        free = np.flatnonzero(high > low)
        if not 0 < free.size <= DENSE:
            return None
        bends = []
        points = self.start[:: max(1, len(self.start) // PLACES)]
        # data of ordinary size may all bend a loss that the middle or an end of the range does not
        if self.known.lower.size:
            ends = np.stack([self.middle[n:], self.known.lower, self.known.upper])
            points = np.concatenate(
                [points, np.concatenate([np.tile(points[0, :n], (3, 1)), ends], axis=1)]
            )
        # Steps inwards, because outside of the domain nothing need be defined.
        step = np.where(points[:, free] > centre[free], -1e-5, 1e-5) * (high - low)[free]
        moved = np.repeat(points[:, None, :], free.size, axis=1)
        moved[:, np.arange(free.size), free] += step
        seen = self(np.concatenate([points, moved.reshape(-1, points.shape[1])]))
        slopes = seen.slopes[:, rows, :n]
        here, there = slopes[: len(points)], slopes[len(points) :]
        there = there.reshape(*moved.shape[:2], *slopes.shape[1:])
        for k in range(len(points)):
            bend = np.moveaxis((there[k] - here[k])[:, :, free] / step[k][:, None, None], 0, 1)
            if np.all(np.isfinite(bend)):
                bends.append((bend + np.swapaxes(bend, 1, 2)) / 2)
        return np.stack(bends) if bends else None

    def _children(self, parents: Array, data: bool) -> Array:
        """Mutations: each moves towards another sampled point, or copies some entries from it."""
        n, count = self.size, max(self.batch - len(parents), 8)
        children = parents[self.random.integers(len(parents), size=count)].copy()
        where, when = self.random.integers(POOL, size=(2, count))
        fresh = np.concatenate([self._decisions[where], self._data[when]], axis=1)
        moved = self.random.uniform(size=(count, 1)) * (fresh[:, :n] - children[:, :n])
        if isinstance(self.domain, Box):
            swapped = self.random.uniform(size=(count, n)) < 1.5 / n
            crossed = np.where(swapped, fresh[:, :n], children[:, :n])
            rows = self.random.uniform(size=(count, 1)) < 0.7
            children[:, :n] = np.where(rows, crossed, children[:, :n] + moved)
        else:
            children[:, :n] += moved
        spans = spans_of(self.model.parameters, n)
        for parameter in self.model.parameters if data else ():
            span = spans[parameter.id]
            structured = is_symmetric(parameter) or not pattern(parameter).all()
            share = 0.3 if structured else 1.5 / parameter.size
            swapped = self.random.uniform(size=(count, 1 if structured else parameter.size)) < share
            children[:, span] = np.where(swapped, fresh[:, span], children[:, span])
        return children


def _function(model: Model) -> Callable[[jax.Array], Any]:
    """Loss and constraints in one vector, and their gradients, at one point w."""

    def rows(w: jax.Array) -> jax.Array:
        x = w[: model.size].reshape(model.domain.shape)
        z = model.data_of(w[model.size :])
        loss = jnp.asarray(model.loss(x, z), w.dtype).reshape(1)
        return jnp.concatenate([loss, model.constraints.values(x, z)])

    def seen(w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return rows(w), (jax.jacrev if model.count < w.size else jax.jacfwd)(rows)(w)

    return seen


def _finite(scores: Array) -> Array:
    return np.where(np.isfinite(scores), scores, -np.inf)

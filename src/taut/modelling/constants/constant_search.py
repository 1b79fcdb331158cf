"""Constants by random search: the largest slope and value over decisions and data that mutation and
selection find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...engine import Array
from ...problem.domains import Box, Domain
from ...problem.sampling import sample_decisions
from ..translation.parameters import Range, draw_parameters
from .evaluation import Probe, Seen

__all__ = ["Search"]

Score = Callable[[Seen], Array]

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
"""A smallest second derivative below this share of the largest one counts as zero: it may be zero
elsewhere."""


class Search:
    """Samples points w = (decision, data) of a model and improves the best of them."""

    def __init__(self, probe: Probe, domain: Domain, parameters: list[Any], known: Range) -> None:
        self.probe, self.domain, self.parameters, self.known = probe, domain, parameters, known
        self.random = np.random.default_rng(0)
        self._generations = 1 if probe.costly else GENERATIONS
        self._decisions = sample_decisions(domain, self.random, POOL).reshape(POOL, -1)
        self._data = draw_parameters(parameters, known, self.random, POOL)
        self.start = np.concatenate(
            [self._decisions, self._data[self.random.permutation(POOL)]], axis=1
        )
        self.seen = probe(self.start)

    def _drawn(self, count: int) -> Array:
        where, when = self.random.integers(POOL, size=(2, count))
        return np.concatenate([self._decisions[where], self._data[when]], axis=1)

    def refuse_infinite(self) -> None:
        """Raise if something is not finite inside the domain, unless a guessed parameter may be the
        reason."""
        if np.any(self.known.guessed):
            return
        for name, numbers in (
            ("loss", self.seen.loss),
            ("loss", self.seen.slope),
            ("constraints", self.seen.values),
            ("constraints", self.seen.slopes),
        ):
            bad = ~np.isfinite(numbers.reshape(len(numbers), -1)).all(axis=1)
            if bad.any():
                x = self.start[int(np.argmax(bad)), : self.probe.size]
                raise ValueError(
                    f"{name}: got a value or slope that is not finite inside the domain, at "
                    f"{np.round(x, 6).tolist()}; expected finite numbers: a smaller domain, or "
                    "bounds for the parameters"
                )

    def highest(self, score: Score) -> float:
        """The largest score found."""
        points, scores = self.start, _finite(score(self.seen))
        for _ in range(self._generations):
            order = np.argsort(scores)[::-1][:PARENTS]
            parents, best = points[order], scores[order]
            children = self._children(parents)
            points = np.concatenate([parents, children])
            scores = np.concatenate([best, _finite(score(self.probe(children)))])
        return float(scores.max())

    def range(self) -> float:
        """The largest difference of losses between two decisions for the same data."""
        n, best = self.probe.size, 0.0
        order = np.argsort(_finite(np.linalg.norm(self.seen.slope[:, :n], axis=1)))[::-1]
        decisions = self._decisions
        for row in order[: 1 if self.probe.costly else 4]:
            ends = []
            for sign in (1.0, -1.0):
                points = np.concatenate(
                    [decisions, np.tile(self.start[row, n:], (len(decisions), 1))], axis=1
                )
                scores = _finite(sign * self.probe(points).loss)
                for _ in range(self._generations):
                    parents = points[np.argsort(scores)[::-1][:PARENTS]]
                    points = np.concatenate([parents, self._children(parents, data=False)])
                    scores = _finite(sign * self.probe(points).loss)
                ends.append(float(scores.max()))
            best = max(best, sum(ends))
        return best

    def modulus(self) -> float:
        """The smallest second derivative of the loss that was seen; 0 if it is not clearly
        positive, or has kinks."""
        if self.probe.costly:
            return 0.0
        bends = self._bends(lambda seen: seen.slope[:, None, : self.probe.size])
        if bends is None:
            return 0.0
        values = np.linalg.eigvalsh(bends)
        lowest = float(values.min())
        # A little less, for the error of the differences.
        return 0.999 * lowest if lowest > CLEARLY * float(np.abs(values).max()) else 0.0

    def curvature(self, which: Array) -> float | None:
        """The largest second derivative of the constraints `which` that was seen."""
        bends = self._bends(lambda seen: seen.slopes[:, which, : self.probe.size])
        return None if bends is None else float(np.abs(np.linalg.eigvalsh(bends)).max())

    def _bends(self, slopes: Callable[[Seen], Array]) -> Array | None:
        """Second derivatives by differences of slopes, at a few points, in the entries that are
        free to move."""
        n, centre = self.probe.size, np.ravel(np.asarray(self.domain.centre, float))
        low, high = self.start[:, :n].min(axis=0), self.start[:, :n].max(axis=0)
        free = np.flatnonzero(high > low)
        if not 0 < free.size <= DENSE:
            return None
        bends = []
        points = self.start[:: max(1, len(self.start) // PLACES)]
        # data of ordinary size may all bend a loss that the middle or an end of the range does not
        if self.known.lower.size:
            ends = np.stack([self.known.middle, self.known.lower, self.known.upper])
            points = np.concatenate(
                [points, np.concatenate([np.tile(points[0, :n], (3, 1)), ends], axis=1)]
            )
        # Steps inwards, because outside of the domain nothing need be defined.
        step = np.where(points[:, free] > centre[free], -1e-5, 1e-5) * (high - low)[free]
        moved = np.repeat(points[:, None, :], free.size, axis=1)
        moved[:, np.arange(free.size), free] += step
        seen = slopes(self.probe(np.concatenate([points, moved.reshape(-1, points.shape[1])])))
        here, there = (
            seen[: len(points)],
            seen[len(points) :].reshape(*moved.shape[:2], *seen.shape[1:]),
        )
        for k in range(len(points)):
            bend = np.moveaxis((there[k] - here[k])[:, :, free] / step[k][:, None, None], 0, 1)
            if np.all(np.isfinite(bend)):
                bends.append((bend + np.swapaxes(bend, 1, 2)) / 2)
        return np.stack(bends) if bends else None

    def _children(self, parents: Array, data: bool = True) -> Array:
        """Mutations: each moves towards another sampled point, or copies some entries from it."""
        n, count = self.probe.size, max(self.probe.batch - len(parents), 8)
        children = parents[self.random.integers(len(parents), size=count)].copy()
        fresh = self._drawn(count)
        moved = self.random.uniform(size=(count, 1)) * (fresh[:, :n] - children[:, :n])
        if isinstance(self.domain, Box):
            swapped = self.random.uniform(size=(count, n)) < 1.5 / n
            crossed = np.where(swapped, fresh[:, :n], children[:, :n])
            rows = self.random.uniform(size=(count, 1)) < 0.7
            children[:, :n] = np.where(rows, crossed, children[:, :n] + moved)
        else:
            children[:, :n] += moved
        start = n
        for parameter in self.parameters if data else ():
            span = slice(start, start + parameter.size)
            structured = any(
                parameter.attributes.get(name)
                for name in ("symmetric", "PSD", "NSD", "diag", "sparsity")
            )
            share = 0.3 if structured else 1.5 / parameter.size
            swapped = self.random.uniform(size=(count, 1 if structured else parameter.size)) < share
            children[:, span] = np.where(swapped, fresh[:, span], children[:, span])
            start = span.stop
        return children


def _finite(scores: Array) -> Array:
    return np.where(np.isfinite(scores), scores, -np.inf)

"""Tangents of constraints, and the lower bounds on losses that their multipliers prove.

Tangents are valid everywhere because constraints are convex, so many programs share them as cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from ...engine import Array
from ...problem.streams import Stream
from .program import ProvenMinimiser
from .scaling import ScaledConstraints, as_double
from .tolerances import HUGE, NEGLIGIBLE, NEGLIGIBLE_CURVATURE, NUDGE, USED

FIXED = -1
Key = tuple[int, int]
"""A constraint and the round it is from, or FIXED."""


@dataclass(frozen=True)
class Tangent:
    """g(y) >= value + slope @ (y - u), touching at u; `hessian` is the Hessian there, None if it is
    zero."""

    key: Key
    u: Array
    value: float
    slope: Array
    hessian: Array | None


class Oracle:
    """Evaluates constraints and their tangents, fixed ones and those of any round."""

    def __init__(self, constraints: ScaledConstraints, stream: Stream) -> None:
        self.constraints, self.scaling, self.stream = constraints, constraints.scaling, stream
        self._data: dict[tuple[int, int], Any] = {}

    def values(self, u: Array) -> Array:
        """Values of fixed constraints, (point, constraint)."""
        return self.constraints.values(u)

    def tangents(self, keys: Sequence[Key], points: Array, seeds: Sequence[int]) -> list[Tangent]:
        """The tangent of each keyed constraint at its own point."""
        if not keys:
            return []
        out = self._evaluated(keys, points, seeds)
        missing = ~(np.isfinite(out[0]) & np.isfinite(out[1]).all(axis=1))
        if missing.any():
            noise = np.random.default_rng(0).normal(size=points.shape)
            points = np.where(missing[:, None], (1 - NUDGE) * points + NUDGE * noise, points)
            out = self._evaluated(keys, points, seeds)
            if not (np.isfinite(out[0]).all() and np.isfinite(out[1]).all()):
                raise ValueError(
                    "constraints: got a value or gradient that is not finite inside the domain; "
                    "expected finite numbers"
                )
        return [
            Tangent(
                key,
                u,
                float(value),
                slope,
                hessian if np.isfinite(hessian).all() and np.any(hessian) else None,
            )
            for key, u, value, slope, hessian in zip(keys, points, *out, strict=True)
        ]

    def _evaluated(
        self, keys: Sequence[Key], points: Array, seeds: Sequence[int]
    ) -> tuple[Array, ...]:
        data = None
        if self.constraints.takes_data:
            rows = [self._round(key[1], seed) for key, seed in zip(keys, seeds, strict=True)]
            data = jax.tree.map(lambda *a: np.stack(a), *rows)
        which = np.asarray([key[0] for key in keys])
        return self.constraints.expansions(points, which, data)

    def _round(self, number: int, seed: int) -> Any:
        if (number, seed) not in self._data:
            block = self.stream.block(number, 1)
            self._data[number, seed] = jax.tree.map(lambda a: as_double(a[seed, 0]), block)
        return self._data[number, seed]


@dataclass
class Pool:
    """Tangents as cuts of unit length, each with the time at which it was last used."""

    size: int
    keys: list[Key] = field(default_factory=list)
    slopes: list[Array] = field(default_factory=list)
    offsets: list[float] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    hessians: list[Array | None] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    clock: int = 0
    _known: set[Any] = field(default_factory=set)

    def add(self, tangent: Tangent) -> bool:
        """Keep a tangent, unless it is known already."""
        length = float(np.linalg.norm(tangent.slope))
        offset = float(tangent.slope @ tangent.u) - tangent.value
        if length == 0:
            if tangent.value <= 0:
                return False
            length = 1.0  # 0 @ u <= -value: no point satisfies it, and the solver will say so
        mark = (tangent.key, *np.round(np.append(tangent.slope, offset) / length, 12).tolist())
        if mark in self._known:
            return False
        self._known.add(mark)
        self.keys.append(tangent.key)
        self.slopes.append(tangent.slope / length)
        self.offsets.append(offset / length)
        self.lengths.append(length)
        self.hessians.append(None if tangent.hessian is None else tangent.hessian / length)
        self.used.append(self.clock)
        return True

    def arrays(self) -> tuple[Array, Array]:
        """Cuts and offsets."""
        return np.asarray(self.slopes).reshape(-1, self.size), np.asarray(self.offsets, float)

    def active(self, rounds: int) -> Array | None:
        """Which cuts belong to the first `rounds` rounds; None means all."""
        marks = np.asarray([key[1] < rounds for key in self.keys], bool)
        return None if marks.all() else marks

    def newest(self) -> Array:
        """Which cut is the last one of its constraint and round."""
        last = {key: i for i, key in enumerate(self.keys)}
        return np.asarray([last[key] == i for i, key in enumerate(self.keys)], bool)

    def mark_used(self, multipliers: Array) -> None:
        """Note which cuts have multipliers."""
        for i in np.flatnonzero(multipliers > USED * multipliers.max(initial=0)):
            self.used[i] = self.clock

    def weights(self, multipliers: Array) -> dict[Key, float]:
        """The multipliers summed by constraint, in the constraints' own units."""
        total: dict[Key, float] = {}
        for i in np.flatnonzero(multipliers):
            total[self.keys[i]] = (
                total.get(self.keys[i], 0.0) + float(multipliers[i]) / self.lengths[i]
            )
        return total

    def hessian(self, multipliers: Array) -> Array | None:
        """The weighted curvature of the cuts' constraints, None if it is zero."""
        used = np.flatnonzero(multipliers > NEGLIGIBLE_CURVATURE * multipliers.max(initial=0))
        hessians = [multipliers[i] * one for i in used if (one := self.hessians[i]) is not None]
        return np.sum(np.clip(hessians, -HUGE, HUGE), axis=0) if hessians else None

    def prune(self, limit: int) -> None:
        """Drop the cuts that were used longest ago until `limit` are left."""
        if len(self.keys) <= limit:
            return
        keep = np.sort(np.argsort(np.asarray(self.used), kind="stable")[-limit:])
        for name in ("keys", "slopes", "offsets", "lengths", "hessians", "used"):
            values = getattr(self, name)
            setattr(self, name, [values[i] for i in keep])
        self._known = {
            (key, *np.round(np.append(slope, offset), 12).tolist())
            for key, slope, offset in zip(self.keys, self.slopes, self.offsets, strict=True)
        }


class Proof(NamedTuple):
    """What an element's multipliers prove: minimiser.slope @ y <= minimiser.offset for all feasible
    y."""

    minimiser: ProvenMinimiser
    weights: dict[Key, float]
    """Multipliers of everything but rows, by constraint and round."""


def lower_bounds(
    oracle: Oracle,
    seeds: Sequence[int],
    u: Array,
    value: Array,
    slope: Array,
    proofs: Sequence[Proof],
    enough: Array,
) -> Array:
    r"""Lower bounds on convex functions over the feasible set, from value and gradient at each row
    of `u`.

    For every feasible y, with p @ y <= o proven by multipliers: f(y) >= f(u) + <f'(u), y - u> + (p
    @ y - o), which is affine in y and minimised over the domain. The tangents that p is made of may
    touch elsewhere than at u; if the bound is further than `enough` from the value, new ones that
    touch at u are tried with the same multipliers.
    """

    def bound(planes: Array, offsets: Array) -> Array:
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # multipliers that grow without bound prove nothing
            low = (
                value
                + np.sum(planes * u, axis=1)
                - offsets
                + oracle.scaling.least_change(slope + planes, u)
            )
        return np.where(np.isnan(low), -np.inf, low)

    found = [proof.minimiser for proof in proofs]
    best = bound(np.stack([one.slope for one in found]), np.asarray([one.offset for one in found]))
    if np.all(np.abs(value - best) <= enough):
        return best
    parts = []
    for i, proof in enumerate(proofs):
        least = NEGLIGIBLE * max(proof.weights.values(), default=0.0)
        parts += [(i, key, weight) for key, weight in proof.weights.items() if weight > least]
    if not parts:
        return best
    whose = [i for i, _, _ in parts]
    touching = oracle.tangents([key for _, key, _ in parts], u[whose], [seeds[i] for i in whose])
    planes = np.stack([one.row_slope for one in found])
    offsets = np.asarray([one.row_offset for one in found])
    for (i, _, weight), tangent in zip(parts, touching, strict=True):
        planes[i] += weight * tangent.slope
        offsets[i] += weight * (tangent.slope @ tangent.u - tangent.value)
    return np.maximum(best, bound(planes, offsets))

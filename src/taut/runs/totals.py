"""Totals over rounds: of a chunk inside the compiled loop, or of a live player, and of a finished
run. They have the same entries."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array, default_float, register_dataclass


class Terms(NamedTuple):
    """What one round adds to each sum. The last axis of the second to fourth is the constraint."""

    loss: Any
    excess: Any
    violation: Any
    squared: Any
    worst_excess: Any
    worst_violation: Any
    worst_squared: Any


def round_terms(xp: Any, loss: Any, excess: Any) -> Terms:
    """Return the terms of a round, or of a block of rounds, with functions of `xp`: `numpy` or
    `jax.numpy`."""
    violation = xp.maximum(excess, 0)
    worst = xp.max(excess, axis=-1)
    clipped = xp.maximum(worst, 0)
    return Terms(loss, excess, violation, violation * violation, worst, clipped, clipped * clipped)


class Sum(NamedTuple):
    """A running sum. In 32 bits the rounding error is carried along, so that the sum of 1e7 rounds
    is accurate."""

    value: jax.Array
    error: jax.Array | None

    @classmethod
    def zero(cls, shape: tuple[int, ...], dtype: Any) -> Sum:
        """Return an empty sum."""
        return cls(
            jnp.zeros(shape, dtype), None if dtype.itemsize >= 8 else jnp.zeros(shape, dtype)
        )

    def add(self, term: jax.Array) -> Sum:
        """Return the sum with one more term (Knuth's two-sum if the error is carried along)."""
        total = self.value + term
        if self.error is None:
            return Sum(total, None)
        virtual = total - self.value
        error = self.error + ((self.value - (total - virtual)) + (term - virtual))
        folded = total + error  # otherwise the error would grow until it loses digits itself
        return Sum(folded, error - (folded - total))


class ChunkTotals(NamedTuple):
    """Totals of a chunk: of each constraint, and of the largest constraint of each round, which is
    not a sum of those."""

    loss: Sum
    excess: Sum
    violation: Sum
    squared: Sum
    peak: jax.Array
    worst_excess: Sum
    worst_violation: Sum
    worst_squared: Sum

    @classmethod
    def zero(cls, constraints: int, dtype: Any) -> ChunkTotals:
        """Return the totals of no rounds."""
        wide = jnp.promote_types(dtype, default_float())  # 64 bits where JAX has them
        each, total = Sum.zero((constraints,), wide), Sum.zero((), wide)
        return cls(total, each, each, each, jnp.zeros((constraints,), dtype), total, total, total)

    def add(self, terms: Terms) -> ChunkTotals:
        """Return the totals with one more round. With a single constraint, those of the largest are
        left at zero."""
        single = terms.excess.shape[-1] == 1
        return ChunkTotals(
            self.loss.add(terms.loss),
            self.excess.add(terms.excess),
            self.violation.add(terms.violation),
            self.squared.add(terms.squared),
            jnp.maximum(self.peak, terms.violation),
            self.worst_excess if single else self.worst_excess.add(terms.worst_excess),
            self.worst_violation if single else self.worst_violation.add(terms.worst_violation),
            self.worst_squared if single else self.worst_squared.add(terms.worst_squared),
        )

    def packed(self, xp: Any) -> Any:
        """Return all numbers in one array, whose last axis holds all values, all errors that are
        carried along, and the peaks. `xp` is `numpy` or `jax.numpy`."""
        loss, values, errors = self.loss.value, [], []
        for name, total in self._asdict().items():
            if name != "peak":
                scalar = total.value.ndim == loss.ndim  # without an axis for the constraints
                values.append(total.value[..., None] if scalar else total.value)
                if total.error is not None:
                    errors.append(total.error[..., None] if scalar else total.error)
        return xp.concatenate([*values, *errors, self.peak.astype(loss.dtype)], axis=-1)


@register_dataclass
@dataclass(frozen=True, eq=False)
class Totals:
    """Sums over all rounds, in 64 bits.

    Dims: `seed`, or `learner`, `seed`, or none for those of a player; then `constraint` where it
    says so.
    """

    loss: Array
    excess: Array
    """Signed, by constraint."""
    violation: Array
    """Clipped, by constraint."""
    squared: Array
    """Clipped and squared, by constraint."""
    peak: Array
    """Largest clipped value of any round, by constraint."""
    worst_excess: Array
    """Signed, of the largest constraint of each round. It is not determined by the sums over single
    constraints."""
    worst_violation: Array
    """Clipped, of the largest constraint of each round."""
    worst_squared: Array
    """Clipped and squared, of the largest constraint of each round."""

    @classmethod
    def of_packed(cls, numbers: Array, count: int) -> Totals:
        """Return the totals of `count` constraints from packed ones of a chunk."""
        size = 4 + 3 * count
        numbers = np.asarray(numbers, float)
        sums = numbers[..., :size]
        if numbers.shape[-1] > size + count:
            sums = sums + numbers[..., size : 2 * size]
        # A constraint that is the only one is the largest.
        worst = sums[..., 1:4] if count == 1 else sums[..., -3:]
        return cls(
            loss=sums[..., 0],
            excess=sums[..., 1 : 1 + count],
            violation=sums[..., 1 + count : 1 + 2 * count],
            squared=sums[..., 1 + 2 * count : 1 + 3 * count],
            peak=numbers[..., -count:],
            worst_excess=worst[..., 0],
            worst_violation=worst[..., 1],
            worst_squared=worst[..., 2],
        )

    @classmethod
    def of_chunk(cls, chunk: ChunkTotals) -> Totals:
        """Return the totals of NumPy's arrays."""
        return cls.of_packed(chunk.packed(np), chunk.peak.shape[-1])

    def plus(self, other: Totals) -> Totals:
        """Return the totals of these rounds and of others."""
        sums: Totals = jax.tree.map(np.add, self, other)
        return replace(sums, peak=np.maximum(self.peak, other.peak))

    def finite(self) -> bool:
        """Return whether all totals are finite."""
        return all(np.isfinite(array).all() for array in jax.tree.leaves(self))

    def to_dict(self) -> dict[str, Any]:
        """Return all sums as numbers and lists, which fit into JSON; a sum that is not known is
        `None`."""
        return {entry.name: _json(getattr(self, entry.name).tolist()) for entry in fields(self)}

    def __getitem__(self, index: Any) -> Totals:
        """Select the totals of one learner of a sweep."""
        chosen: Totals = jax.tree.map(itemgetter(index), self)
        return chosen


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(entry) for entry in value]
    return None if np.isnan(value) else value  # JSON has no NaN

"""The largest gradients, constraint values and loss differences that were seen in all rounds, with
their rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..engine import Array
from ..jaxpr.maxima import entry_of_largest
from ..learners.clipping import Clipping
from ..problem.rounds import MeasuredRound, Round

__all__ = ["COLUMNS", "NAMES", "Extreme", "Extremes", "RunningExtremes", "round_extremes"]

NAMES = ("loss_lipschitz", "constraint_lipschitz", "constraint_range", "loss_range")
"""What is compared with the constants of the same names."""
COLUMNS = (*NAMES, "constraint_slope")
BLOCK = 256
"""Rounds that a player buffers before they are looked at."""
ALL_ROWS = 256
"""Entries of a Jacobian up to which the gradients of all constraints are looked at; else that of
the largest constraint."""


@dataclass(frozen=True)
class Extreme:
    """The largest value of something over all rounds (and seeds), and where it occurred."""

    value: float
    seed: int | None
    """None for a player."""
    round: int
    """Counted from 1."""
    decision: Array
    """x_t of that round."""

    @property
    def witness(self) -> dict[str, Any]:
        """Round, seed and decision, for a certificate."""
        seed = {} if self.seed is None else {"seed": self.seed}
        return {"round": self.round, **seed, "x": self.decision}


@dataclass(frozen=True)
class Extremes:
    """What a player has seen since round `since`; entries are None if nothing was seen."""

    since: int
    """The first round that was looked at: 1, or the first one on a changed problem."""
    rounds: int
    loss_lipschitz: Extreme | None
    """The largest |df_t(x_t)|."""
    constraint_lipschitz: Extreme | None
    """The largest gradient norm of a constraint at x_t; of many constraints, only that of the
    largest one is looked at."""
    constraint_range: Extreme | None
    """The largest |g_i(x_t)|."""
    loss_range: Extreme | None
    """The largest |f_t(x_t) - f_t(c)|, c being the centre of the domain."""
    constraint_slope: float
    """The largest gradient norm at x_t of the largest constraint of the round."""
    clipping: Clipping
    """What the learner accepted of the loss gradients."""


def round_extremes(
    round: Round, x: jax.Array, loss: jax.Array, gradient: jax.Array, centre: jax.Array
) -> jax.Array:
    """Return what a round adds, in the order of `COLUMNS`; a value that is not known is NaN."""
    values, pull, _ = round.constraints(x)
    weights = jnp.eye(values.shape[0], dtype=x.dtype)

    def length(row: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(pull(row) ** 2))

    if values.shape[0] == 1:
        largest = slope = length(weights[0])
    elif values.size * x.size <= ALL_ROWS:
        # Row by row: together they are a product of matrices, which no kernel can contain.
        lengths = lax.map(length, weights)
        largest, slope = jnp.max(lengths), jnp.sum(entry_of_largest(values) * lengths)
    else:
        largest = slope = length(entry_of_largest(values))
    away = (
        jnp.full((), jnp.nan, x.dtype)
        if isinstance(round, MeasuredRound)
        else jnp.abs(loss - round.loss(centre))
    )
    return jnp.stack(
        [jnp.sqrt(jnp.sum(gradient**2)), largest, jnp.max(jnp.abs(values)), away, slope]
    ).astype(x.dtype)


class RunningExtremes:
    """The extremes of a live player. Rounds are buffered and looked at in blocks.

    Arguments:
        shape: of a decision.
        first: x_1, flat.
        rows: the number of rounds in a block, at most as many as `decision_of` remembers.
        decision_of: returns the flat decision of a round of the current block.
        clip: how many times as long as the longest before it a loss gradient may be; None if the
            learner clips none.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        first: Array,
        rows: int,
        decision_of: Callable[[int], Array],
        clip: float | None = None,
    ) -> None:
        self._shape, self._decision_of = shape, decision_of
        self._buffer = np.empty((min(rows, BLOCK), len(COLUMNS)))
        self._buffered = self._added = 0
        self.first, self.since = first, 1
        self.changed = 0  # rounds in which another decision was played than the learner's
        size = int(np.prod(shape))
        self._values, self._rounds = np.full(len(COLUMNS), -np.inf), np.zeros(len(COLUMNS), int)
        self._decisions, self._clipping = np.zeros((len(COLUMNS), size)), Clipping(clip, 1)
        self._flushed: tuple[int, Array, Array, Array, Array] | None = (
            None  # rows of the last block that was looked at, and what was known before
        )

    def add(self, row: Array) -> None:
        """Add one more round."""
        self._buffer[self._buffered] = row
        self._buffered += 1
        if self._buffered == len(self._buffer):
            self._add_buffer()

    def begin(self, rounds: int) -> None:
        """Begin after so many rounds of which nothing is known."""
        self.since, self._added = rounds + 1, rounds

    def skip(self) -> None:
        """Add a round of which nothing is known."""
        self.add(np.full(len(COLUMNS), np.nan))

    def add_late(self, row: Array, round: int, decision: Array) -> None:
        """Add what became known of a round that was skipped."""
        self._add_buffer()
        for column, value in enumerate(np.where(np.isfinite(row), row, -np.inf).tolist()):
            if value > self._values[column]:
                self._values[column], self._rounds[column] = value, round
                self._decisions[column] = decision
        if not np.isnan(row[0]):
            self._clipping.add(row[None, :1])

    def take_back(self) -> None:
        """Forget the last round. Only one can be taken back."""
        if not self._buffered:
            assert self._flushed is not None
            self._buffered, self._values, self._rounds, self._decisions, self._clipping.numbers = (
                self._flushed
            )
            self._added -= self._buffered
        self._buffered -= 1
        self._flushed = None

    @property
    def extremes(self) -> Extremes:
        """The extremes of all rounds so far."""
        self._add_buffer()
        found: dict[str, Any] = {}
        for i, name in enumerate(NAMES):
            known = np.isfinite(self._values[i])
            at = int(self._rounds[i]), self._decisions[i].reshape(self._shape).copy()
            found[name] = Extreme(float(self._values[i]), None, *at) if known else None
        slope = float(max(self._values[len(NAMES)], 0.0))
        clipping = Clipping(self._clipping.clip, 1)
        clipping.numbers = self._clipping.numbers
        return Extremes(
            self.since,
            self._added,
            **found,
            constraint_slope=slope,
            clipping=clipping,
        )

    def _add_buffer(self) -> None:
        rows = self._buffer[: self._buffered]
        if not len(rows):
            return
        self._flushed = (
            len(rows),
            self._values.copy(),
            self._rounds.copy(),
            self._decisions.copy(),
            self._clipping.numbers,
        )
        seen = np.where(np.isfinite(rows), rows, -np.inf)
        where = np.argmax(seen, axis=0)
        for column, row in enumerate(where.tolist()):
            if seen[row, column] > self._values[column]:
                number = self._added + row + 1
                self._values[column], self._rounds[column] = seen[row, column], number
                self._decisions[column] = self._decision_of(number)
        known = rows[~np.isnan(rows[:, 0]), 0]  # rounds that were skipped have no gradient
        if len(known):
            self._clipping.add(known[None])
        self._added, self._buffered = self._added + len(rows), 0

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays that `restore` needs."""
        self._add_buffer()
        live = {
            "values": self._values,
            "rounds": self._rounds,
            "decisions": self._decisions,
            "clipping": self._clipping.numbers,
        }
        kept = {
            name: array.copy() for name, array in live.items()
        }  # another thread may observe while a file is written
        about = np.array([self.since, self._added, self.changed])
        return {"about": about, "first": self.first, **kept}

    def restore(self, arrays: dict[str, Array], rounds: int) -> None:
        """Continue from `to_arrays` after so many rounds; ValueError or KeyError if the arrays do
        not fit."""
        since, added, changed = map(int, arrays["about"])
        first = arrays["first"]
        own = {
            "values": self._values,
            "rounds": self._rounds,
            "decisions": self._decisions,
            "clipping": self._clipping.numbers,
        }
        found = {name: arrays[name].copy() for name in own}
        if (
            any(
                found[name].shape != array.shape or found[name].dtype != array.dtype
                for name, array in own.items()
            )
            or np.isnan(found["values"]).any()
            or added != rounds
            or not 1 <= since <= rounds + 1
            or not 0 <= changed <= rounds
            or np.any((found["rounds"] < 0) | (found["rounds"] > rounds))
            or np.any((found["values"] < 0) & (found["values"] > -np.inf))
            or np.any(found["values"] == np.inf)
            or not np.isfinite(found["decisions"]).all()
            or not np.all(found["clipping"] >= 0)
            or first.shape != self._decisions.shape[1:]
            or not np.isfinite(first).all()
        ):
            raise ValueError("the extremes are not those of this player")
        self.since, self._added, self.changed, self.first = since, added, changed, first
        self._values, self._rounds = found["values"], found["rounds"]
        self._decisions, self._clipping.numbers = found["decisions"], found["clipping"]

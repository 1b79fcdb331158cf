"""Batched feedback: a constraint that is a mean over many rows is seen as the mean over a minibatch
of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ... import arguments
from ...jaxpr.maxima import by_index
from ..constraints import Linearisation
from ..rounds import Round, RoundSeen
from .base import Feedback, feedback_dataclass


@feedback_dataclass
class Batched(Feedback):
    """The constraints are means over many rows, and the learner sees the mean over some of them.

    Arguments:
        function: `function(x, row)`, the constraint values that one row contributes, a number or an
            array (m,).
        rows: all rows, arrays with a leading axis; `None` takes the rows of the round's data, each
            array of which then has the rows as its leading axis.
        size: how many rows are drawn in a round, with replacement; `None` takes all of them. Only
            for given rows.
        mask: a function of the round's data that returns one weight per row, 0 for rows that only
            fill up the last, shorter batch. Only for rows of the round's data.

    Values and gradients are unbiased if rows are drawn at random. The problem's own constraints,
    the means over all rows, score the decisions.

    >>> import numpy as np, taut
    >>> taut.Batched(lambda x, row: row @ x - 1, rows=np.ones((100, 3)), size=16)
    Batched(<lambda>, 100 rows, size=16)
    """

    kind: ClassVar[str] = "batched"

    function: Callable[[jax.Array, Any], Any] = field(metadata={"static": True})
    rows: Any = None
    size: int | None = field(default=None, metadata={"static": True})
    mask: Callable[[Any], Any] | None = field(default=None, metadata={"static": True})

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(
                f"function: got {arguments.shown(self.function)}; expected a function of x and a "
                "row"
            )
        if self.mask is not None and not callable(self.mask):
            raise TypeError(
                f"mask: got {arguments.shown(self.mask)}; expected a function of the round's data"
            )
        if self.rows is None:
            if self.size is not None:
                raise ValueError(
                    f"size: got {self.size}; expected it only beside rows=...; a round's data are "
                    "used as they are"
                )
            return
        if self.mask is not None:
            raise ValueError(
                "mask: got a function beside rows=...; expected it only for rows of the round's "
                "data"
            )
        lengths = {len(leaf) for leaf in jax.tree.leaves(self.rows)}
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError(
                f"rows: got arrays of lengths {sorted(lengths)}; expected one length of at least 1"
            )
        if self.size is not None:
            object.__setattr__(self, "size", arguments.count("size", self.size))

    def __repr__(self) -> str:
        parts = [getattr(self.function, "__name__", "a function")]
        if self.rows is not None:
            parts.append(f"{len(jax.tree.leaves(self.rows)[0])} rows")
        parts += [] if self.size is None else [f"size={self.size}"]
        return f"Batched({', '.join(parts)})"

    @property
    def random(self) -> bool:
        """Whether rows are drawn here."""
        return self.size is not None

    @property
    def exact(self) -> bool:
        """Whether all rows are seen in every round."""
        return self.rows is not None and self.size is None

    def seen(self, round: Round, key: jax.Array, t: jax.Array) -> Round:
        """Return the round with the constraints of a batch."""
        rows, weights = self.rows, None
        if rows is None:
            rows = getattr(round, "data", None)
            if rows is None:
                raise TypeError(
                    "feedback: taut.Batched without rows=... needs rounds that are observed by "
                    "their data z"
                )
            weights = None if self.mask is None else self.mask(rows)
        elif self.size is not None:
            count = jax.tree.leaves(rows)[0].shape[0]
            chosen = jax.random.randint(key, (self.size,), 0, count)
            rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], rows)
        return BatchedRound(round, self.function, rows, weights)


class BatchedRound(RoundSeen):
    """A round whose constraints are means over a batch of rows."""

    def __init__(
        self, round: Round, function: Callable[[jax.Array, Any], Any], rows: Any, weights: Any
    ) -> None:
        super().__init__(round)
        self.function, self.rows, self.weights = function, rows, weights

    def _mean(self, x: jax.Array) -> jax.Array:
        values = jax.vmap(lambda row: jnp.ravel(jnp.asarray(self.function(x, row), x.dtype)))(
            self.rows
        )
        if self.weights is None:
            return jnp.mean(values, axis=0)
        weights = jnp.asarray(self.weights, x.dtype)
        return jnp.sum(weights[:, None] * values, axis=0) / jnp.maximum(jnp.sum(weights), 1)

    def constraints(self, x: jax.Array) -> Linearisation:
        """The mean over the batch, with its Jacobian products."""
        mean = by_index(self._mean)
        values, pull = jax.vjp(mean, x)

        def push(direction: jax.Array) -> jax.Array:
            slopes: jax.Array = jax.jvp(mean, (x,), (direction,))[1]
            return slopes

        return Linearisation(values, lambda weights: pull(weights)[0], push)

"""What clipping leaves of the loss gradients of a game, computed from their lengths.

`AdaGradNorm` does the same round by round inside a learner. This is the observer's side of it: a
bound on regret needs the lengths |q_t| of what was accepted, and the excess, the sum of |p_t| -
|q_t| (docs/theory.md, H2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine import Array
from .base import Learner
from .schedules import AdaGradNorm


def clip_of(learner: Any) -> float | None:
    """Return how many times as long as the longest before it a loss gradient may be for this
    learner, or for the learner inside it; None if it clips none. Learners whose step is
    `AdaGradNorm` clip."""
    while isinstance(learner, Learner):
        if isinstance(step := getattr(learner, "eta", None), AdaGradNorm):
            return step.clip
        learner = getattr(learner, "learner", getattr(learner, "epochs", None))
    return None


class Clipping:
    """Sums over the rounds so far, one entry per seed.

    Arguments:
        clip: a gradient is shortened to `clip` times the longest before it; None for no clipping.
        seeds: the number of seeds.

    >>> import numpy as np
    >>> clipping = Clipping(2.0, 1)
    >>> clipping.add(np.array([[1.0, 5.0, 3.0]]))
    array([[1., 2., 3.]])
    >>> clipping.excess, clipping.rounds
    (array([3.]), array([1.]))
    """

    def __init__(self, clip: float | None, seeds: int) -> None:
        self.clip = clip
        self.numbers = np.zeros((5, seeds))

    @property
    def largest(self) -> Array:
        """The largest |q_t|."""
        return self.numbers[0]

    @property
    def squares(self) -> Array:
        """The sum of |q_t|^2."""
        return self.numbers[1]

    @property
    def first_square(self) -> Array:
        """|q_t|^2 in the first round in which it is not zero; 0 if it always is."""
        return self.numbers[2]

    @property
    def excess(self) -> Array:
        """The sum of |p_t| - |q_t|."""
        return self.numbers[3]

    @property
    def rounds(self) -> Array:
        """The number of rounds whose gradient was clipped."""
        return self.numbers[4]

    def add(self, slopes: Array) -> Array:
        """Add rounds with gradients of these lengths |p_t|, (seed, round); return |q_t|."""
        accepted = np.stack(
            [self._accepted(row, start) for row, start in zip(slopes, self.largest, strict=True)]
        )
        cut = slopes > accepted
        lost = np.sum(slopes, axis=1, where=cut) - np.sum(accepted, axis=1, where=cut)
        squares = accepted**2
        met = squares[np.arange(len(squares)), np.argmax(squares > 0, axis=1)]
        self.numbers = np.stack(
            [
                np.maximum(self.largest, accepted.max(axis=1)),
                self.squares + squares.sum(axis=1),
                np.where(self.first_square > 0, self.first_square, met),
                self.excess + lost,
                self.rounds + cut.sum(axis=1),
            ]
        )
        return accepted

    def _accepted(self, slopes: Array, largest: float) -> Array:
        """The lengths after clipping, of one seed; those that are infinite are left out."""
        if self.clip is None:
            return slopes
        lengths, start = np.where(np.isposinf(slopes), 0, slopes), 0
        while True:
            before = np.maximum.accumulate(np.append(largest, lengths[start:]))[:-1]
            long = (lengths[start:] > self.clip * before) & (before > 0)
            if not long.any():
                return lengths
            at = int(np.argmax(long))
            largest = lengths[start + at] = self.clip * before[at]
            start += at + 1

"""Members before their first round, and what all members share: learner, game, compiled steps."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..engine import Array
from ..learners import Learner
from ..learners.protocols import is_random
from ..play import round as rounds
from ..play.packing import as_arrays
from ..play.round import Game
from ..player.layout import Layout
from ..problem.memory import shared_start
from ..problem.problem import Problem
from .blocks import Blocks
from .ids import Id, hash_of
from .steps import Member, new_member

__all__ = ["NewMembers", "member_key"]


class NewMembers:
    """Makes the state of members.

    Arguments:
        learner: the learner.
        problem: the problem.
        first: the first decision.
        counts: the number of constraints that the learner sees, and that of announced ones.
        key: the random key of the fleet.
    """

    def __init__(
        self,
        learner: Learner,
        problem: Problem,
        first: jax.Array,
        counts: tuple[int, int],
        key: jax.Array,
    ) -> None:
        dtype = np.dtype(first.dtype)
        self.learner = as_arrays(learner, dtype)
        self._first, self._key = first, key
        own = 0 if problem.scored_constraints is problem.announced else counts[0]
        self.scored = counts[1] + own
        """The number of constraints that decisions are scored by."""
        self._learned = counts[0]
        self._game = Game.of(problem)
        self._start = shared_start(problem, None, first)
        self._random = is_random(self.learner)
        member = self._member(key if self._random else None)
        self.layout = Layout.of((self._game, self.learner), member, dtype)
        self._row = [np.asarray(each) for each in self.layout.pack(member)]
        fixed = jax.device_put(self.layout.fixed.pack((self._game, self.learner)))
        self.blocks = Blocks(problem, self.learner, self.layout, fixed)

    def _member(self, key: jax.Array | None) -> Member:
        """Return a member before its first round."""
        counts = self._learned, self.scored
        return new_member(
            rounds.init(self.learner, self._game, self._first, counts, key, self._start)
        )

    def rows(self, listed: list[Id]) -> list[Array]:
        """Return the packed state of new members, one row for all unless they draw random
        numbers."""
        if not self._random or not listed:
            return self._row
        words = np.array([hash_of(each) for each in listed], np.uint32)
        size = 1 << (len(listed) - 1).bit_length()
        padded = np.concatenate([words, np.zeros((size - len(words), 2), np.uint32)])

        def row(word: jax.Array) -> Any:
            return self.layout.pack(self._member(member_key(self._key, word)))

        packed = jax.jit(jax.vmap(row))(padded)
        return [np.asarray(each)[: len(listed)] for each in packed]


def member_key(key: jax.Array, words: Any) -> jax.Array:
    """Return the random key of the member whose id has this hash."""
    return jax.random.fold_in(jax.random.fold_in(key, words[0]), words[1])

"""A round that tells which oracles are called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partialmethod
from typing import Any

import jax

from .constraints import Linearisation


class WatchedRound:
    """A round that tells of every question before it is answered.

    Arguments:
        inner: the round.
        asked: called with the name of the oracle and what it is asked about.
    """

    def __init__(self, inner: Any, asked: Callable[[str, jax.Array], None]) -> None:
        self.inner, self.asked = inner, asked

    @property
    def domain(self) -> Any:
        """The domain, whose projection is not noticed if it is called past the round."""
        return self.inner.domain

    @property
    def data(self) -> Any:
        """The data of the round."""
        return self.inner.data

    def _answer(self, name: str, about: jax.Array) -> Any:
        self.asked(name, about)
        return getattr(self.inner, name)(about)

    loss = partialmethod(_answer, "loss")
    gradient = partialmethod(_answer, "gradient")
    project = partialmethod(_answer, "project")
    minimise = partialmethod(_answer, "minimise")

    def constraints(self, x: jax.Array) -> Linearisation:
        """g_t(x) with its Jacobian products."""
        self.asked("values", x)
        values, pull, push = self.inner.constraints(x)

        def pulled(weights: jax.Array) -> jax.Array:
            self.asked("pullback", weights)
            return pull(weights)

        def pushed(direction: jax.Array) -> jax.Array:
            self.asked("pushforward", direction)
            return push(direction)

        return Linearisation(values, pulled, pushed)

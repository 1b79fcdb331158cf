"""Diagnosis: which number of a game was not finite first, and in which round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from ..problem.compatibility import entered
from .loop import Records, Rules

__all__ = ["blame"]

Array = np.ndarray[Any, Any]


def blame(
    rules: Rules, play: Callable[[Rules], tuple[Any, Records]], data: Any, key: Any, start: int, rounds: int
) -> NoReturn:
    """Play a chunk again with everything recorded, and raise for the first number in it that was not finite.

    Arguments:
        rules: of the game.
        play: plays the chunk by other rules and returns the state after it and what they record.
        data: the chunk's, with axes seed and round, or None if an adversary made them.
        key: the adversary's.
        start: rounds before the chunk.
        rounds: rounds of the chunk.
    """
    after, records = play(rules._replace(record=frozenset(("loss", "excess", "decisions")), every=1))
    lead = rules.layout.lead
    losses, excess, decisions = (
        np.moveaxis(np.asarray(a), lead, 0)[:rounds] for a in (records.loss, records.excess, records.decisions)
    )
    if rules.reveal is None:
        revealed = [np.moveaxis(entered("stream", a, losses.dtype), 1, 0) for a in jax.tree.leaves(data)]
    else:
        revealed = [_adversarial(rules, decisions, key, start)]
    following = np.concatenate([decisions[1:], np.asarray(after.x)[None]])  # what each round's slopes led to
    suspects = {"stream": revealed, "loss": [losses], "constraints": [excess], "loss gradient": [following]}
    when = {name: _first_bad(arrays, rounds) for name, arrays in suspects.items()}
    name = min(when, key=lambda n: when[n])
    if when[name] == rounds:
        raise ValueError(
            f"loss: got totals that are not finite by round {start + rounds}; expected losses and squared violations "
            f"whose sums fit {losses.dtype}"
        )
    hint = " as slopes of loss and constraints (jnp.linalg.norm, for one, has none at 0)" if "gradient" in name else ""
    raise ValueError(
        f"{name}: got a value that is not finite in round {start + when[name] + 1}; expected finite numbers{hint}"
    )


def _adversarial(rules: Rules, decisions: Array, key: jax.Array, start: int) -> Array:
    """Whether the data that an adversary made against these decisions were finite, round by round: 0 or NaN."""
    reveal = rules.reveal
    assert reveal is not None

    def one(t: jax.Array, x: jax.Array, key: jax.Array) -> jax.Array:
        z = reveal(t, x, jax.random.fold_in(key, t))
        return sum((jnp.sum(0 * jnp.asarray(a, x.dtype)) for a in jax.tree.leaves(z)), jnp.zeros((), x.dtype))

    asked = jax.vmap(one, (None, 0, 0)) if rules.layout.seeds else one
    asked = jax.vmap(asked, (None, 0, None)) if rules.layout.learners else asked
    rounds = jnp.arange(start + 1, start + 1 + len(decisions), dtype=jnp.int32)
    return np.asarray(jax.vmap(asked, (0, 0, None))(rounds, jnp.asarray(decisions), key))


def _first_bad(arrays: Sequence[Array], rounds: int) -> int:
    """The first row in which one of the arrays is not finite, or the number of rows."""
    bad = np.zeros(rounds, bool)
    for array in arrays:
        bad |= ~np.isfinite(array.reshape(rounds, -1)).all(axis=1)
    return int(np.flatnonzero(bad)[0]) if bad.any() else rounds

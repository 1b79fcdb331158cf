"""The doubling trick: a learner that needs a horizon is restarted with horizons 1, 2, 4, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments, files
from ..engine import Array
from ..problem.rounds import Round
from .base import Learner, learner_dataclass
from .guarantee import QUANTITIES, Guarantee, Setting, smallest
from .protocols import multiplier_of

LONGEST = 31
"""Rounds are counted in 32 bits."""


class Epoch(NamedTuple):
    """What the next round needs: the running learner's state and where in its epoch it is."""

    x: jax.Array
    inner: Any
    epoch: jax.Array
    left: jax.Array
    start: jax.Array


@learner_dataclass
class Doubling(Learner):
    r"""Epochs of 2^k rounds, each played by the learner tuned for the horizon 2^k.

    Guarantee: a bound c T^p of the inner learner becomes c T^p 2^p / (2^p - 1): a factor sqrt(2) /
    (sqrt(2) - 1) for square roots. `epochs` holds the parameters of all epochs in stacked leaves,
    so switching is an index, not a branch.

    Arguments:
        epochs: the inner learner with a leading epoch axis on every leaf; use `Doubling.of`.
        first: k of the first epoch.
        warm: start an epoch at the last decision instead of the first one. It behaves better in
            practice, but the bound then has (2R)^2 for R^2.

    Reference: Cesa-Bianchi & Lugosi, "Prediction, learning, and games", 2006, section 2.3.
    """

    epochs: Learner
    first: int = field(metadata={"static": True})
    warm: bool = field(default=False, metadata={"static": True})

    def __post_init__(self) -> None:
        first = _first(self.first)
        object.__setattr__(self, "first", first)
        arguments.flag("warm", self.warm)
        if not isinstance(self.epochs, Learner):
            raise TypeError(
                f"epochs: got {self.epochs!r}; expected a learner, stacked: use taut.Doubling.of"
            )
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.epochs):
            # Other leaves are tracers, or placeholders that JAX puts in their place.
            if isinstance(leaf, (int, float, np.generic, np.ndarray)) and np.shape(leaf)[:1] != (
                LONGEST - first,
            ):
                raise ValueError(
                    f"epochs: got a learner whose parameter {jax.tree_util.keystr(path)} has "
                    f"shape {np.shape(leaf)}; expected a leading axis of {LONGEST - first} "
                    "epochs: use taut.Doubling.of"
                )

    def __repr__(self) -> str:
        """Show only the first epoch, which has the parameters of an ordinary learner."""
        start = "warm " if self.warm else ""
        rounds = f"for 2^{self.first} rounds, ... 2^{LONGEST - 1}"
        known = all(
            isinstance(leaf, np.ndarray) and leaf.ndim for leaf in jax.tree.leaves(self.epochs)
        )
        inner = jax.tree.map(_first_entry, self.epochs) if known else type(self.epochs).__name__
        return f"{type(self).__name__}({LONGEST - self.first} {start}epochs: {inner} {rounds})"

    @classmethod
    def of(
        cls, make: Callable[[int], Learner], warm: bool = False, first: int | None = None
    ) -> Doubling:
        """The doubling trick around `make(horizon)`.

        Arguments:
            make: for example `lambda horizon: taut.ClippedOGD.tuned(constants, horizon)`.
            warm: see the class.
            first: 2^first rounds in the first epoch; by default the shortest that `make` accepts.

        >>> import taut
        >>> taut.Doubling.of(
        ...     lambda horizon: taut.DriftPlusPenalty(horizon**0.5, float(horizon))
        ... ).first
        0
        """
        if not callable(make):
            raise TypeError(
                f"make: got {make!r}; expected a function of the horizon that returns a learner"
            )
        if first is None:
            first = _shortest(make)
        first = _first(first)
        learners = [make(2**k) for k in range(first, LONGEST)]
        kinds = {jax.tree.structure(learner) for learner in learners}
        if not isinstance(learners[0], Learner):
            raise TypeError(
                f"make: got a function that returns {learners[0]!r}; expected one that returns a "
                "learner"
            )
        if len(kinds) != 1:
            raise TypeError(
                "make: got learners of different kinds for different horizons; expected one kind"
            )
        return cls(jax.tree.map(lambda *leaves: np.asarray(leaves, float), *learners), first, warm)

    def at(self, epoch: jax.Array) -> Learner:
        """Return the learner of one epoch."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[epoch], self.epochs)

    def init(self, x1: jax.Array, count: int) -> Epoch:
        """Return the state in which the first epoch starts at x1."""
        inner = self.at(jnp.asarray(0)).init(x1, count)
        zero = jnp.asarray(0, jnp.int32)
        return Epoch(inner.x, inner, zero, jnp.asarray(2**self.first, jnp.int32), x1)

    def step(self, state: Epoch, round: Round) -> Epoch:
        """Step the inner learner; when its epoch ends, start the next one with a new state."""
        count = round.constraints(state.x).values.shape[0]
        inner = self.at(state.epoch).step(_playing(state), round)
        over = state.left <= 1
        epoch = state.epoch + over.astype(state.epoch.dtype)
        fresh = self.at(epoch).init(inner.x if self.warm else state.start, count)
        inner = jax.tree.map(lambda new, old: jnp.where(over, new, old), fresh, inner)
        length = jnp.left_shift(jnp.asarray(1, jnp.int32), epoch + self.first)
        return Epoch(inner.x, inner, epoch, jnp.where(over, length, state.left - 1), state.start)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the sum of the bounds of all epochs, and their maximum for the peak.

        Each theorem that covers all epochs gives one bound, so that a refuted assumption of one
        does not hide another; the smallest bounds of the epochs give one more.
        """
        parts: dict[tuple[str, str], list[Guarantee]] = {}
        epochs, begun = 0, 0
        while begun < horizon:
            length = min(2 ** (self.first + epochs), horizon - begun)
            inner = jax.tree.map(lambda leaf, k=epochs: float(np.asarray(leaf)[k]), self.epochs)
            here = setting
            if self.warm and begun:  # the epoch starts where the last one ended
                far = setting.constants.with_values(radius=setting.diameter)
                here = replace(
                    setting,
                    constants=far,
                    initial_violation=None,
                    initial_excess=None,
                    observed=None,
                )
            promised = tuple(inner.guarantees(here, length))
            for guarantee in smallest(promised).values():
                parts.setdefault((guarantee.quantity, ""), []).append(guarantee)
            for source in {guarantee.source for guarantee in promised}:
                for guarantee in smallest(g for g in promised if g.source == source).values():
                    parts.setdefault((guarantee.quantity, source), []).append(guarantee)
            begun += length
            epochs += 1
        seen = set()
        for (quantity, _), guarantees in sorted(
            parts.items(), key=lambda part: (QUANTITIES.index(part[0][0]), part[0][1])
        ):
            sources = tuple(guarantee.source for guarantee in guarantees)
            if len(guarantees) < epochs or (quantity, sources) in seen:
                continue  # an epoch has no bound, or the same bounds were added up before
            seen.add((quantity, sources))
            values = [guarantee.bound for guarantee in guarantees if guarantee.bound is not None]
            rests = dict.fromkeys(
                assumption for guarantee in guarantees for assumption in guarantee.assumptions
            )
            yield replace(
                guarantees[-1],
                bound=max(values) if quantity == "peak violation" else sum(values),
                source=f"{guarantees[-1].source}, doubling",
                assumptions=tuple(rests),
                expected=any(guarantee.expected for guarantee in guarantees),
                # The path in an epoch is at most the whole path.
                moving=all(guarantee.moving for guarantee in guarantees),
            )

    def multiplier(self, state: Epoch, round: Round) -> jax.Array:
        """Return the multiplier of the current epoch's learner."""
        return multiplier_of(self.at(state.epoch), _playing(state), round)


def _unpack_epochs(packed: Any) -> Any:
    """Return the stacked learner that a file describes, each epoch built and checked like any other
    learner."""
    lengths = {np.shape(leaf)[0] for leaf in _packed_arrays(packed)}
    if len(lengths) != 1:
        raise ValueError(
            f"file: got epochs with parameters of {sorted(lengths)} entries; expected one number "
            "of epochs"
        )
    learners = [files.unpack(_epoch_of(packed, epoch)) for epoch in range(lengths.pop())]
    return jax.tree.map(lambda *leaves: np.asarray(leaves), *learners)


def _packed_arrays(packed: Any) -> Iterator[Any]:
    if isinstance(packed, dict):
        if "array" in packed:
            yield packed["array"]
        else:
            for entry in packed.values():
                yield from _packed_arrays(entry)


def _epoch_of(packed: Any, epoch: int) -> Any:
    """Return the description of the learner of one epoch."""
    if not isinstance(packed, dict):
        return packed
    if "array" in packed:
        entry = np.asarray(packed["array"], packed["dtype"])[epoch]
        return entry.item() if entry.ndim == 0 else {**packed, "array": entry.tolist()}
    return {name: _epoch_of(entry, epoch) for name, entry in packed.items()}


files.add_field(Doubling, "epochs", _unpack_epochs)


def _playing(state: Epoch) -> Any:
    """The inner state, its decision being the very array that is played: the round is then asked
    about it once."""
    return state.inner._replace(x=state.x)


def _first_entry(leaf: Array) -> Any:
    return leaf[0].item() if leaf.ndim == 1 else leaf[0]


def _first(first: Any) -> int:
    first = arguments.count("first", first, least=0)
    if first >= LONGEST:
        raise ValueError(
            f"first: got {first}; expected at most {LONGEST - 1}, because rounds are counted in "
            "32 bits"
        )
    return first


def _shortest(make: Callable[[int], Learner]) -> int:
    for k in range(LONGEST):
        try:
            make(2**k)
        except arguments.TooSmall as error:
            if error.argument != "horizon":
                raise
        else:
            return k
    raise ValueError(
        "make: got a function that refuses every horizon; expected one that accepts a long one"
    )

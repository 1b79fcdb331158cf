"""Streams: the data of all rounds, whatever they come from, as blocks of (seed, round, ...) arrays.

Three sources look alike to the rest of the library: arrays (also memory-mapped), a function
`chunk(start, length)` for streams longer than memory, and a function `reveal(round, decision,
key)`, an adversary that reacts. An adversary with a state of its own is made by `taut.adversary`.
"""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import arguments
from ..engine import Array


class RoundData(NamedTuple):
    """What loss and constraints of a problem with `previous=True` take besides the decision."""

    data: Any
    """z_t, the round's data."""
    previous: Any
    """x_{t-1}, the decision of the round before."""


def data_of(z: Any) -> Any:
    """Return z_t, whether or not it comes with the previous decision."""
    return z.data if isinstance(z, RoundData) else z


LONGEST = 2**31 - 1
"""Rounds are counted in 32 bits."""


class Stream(ABC):
    """Data of `horizon` rounds for `seeds` independent plays."""

    horizon: int
    seeds: int

    @abstractmethod
    def block(self, start: int, length: int) -> Any:
        """Rounds start..start+length (0-based), as a pytree of NumPy arrays (seed, round, ...)."""

    @property
    def reacts(self) -> bool:
        """Whether data depend on the decision, so that no block exists before play."""
        return False

    @property
    def width(self) -> int:
        """How many numbers the data of one round of one seed are."""
        return sum(math.prod(np.shape(leaf)[2:]) for leaf in jax.tree.leaves(self.block(0, 1)))


@dataclass(frozen=True)
class Arrays(Stream):
    """Data held in arrays, in memory or memory-mapped."""

    data: Any
    horizon: int
    seeds: int
    seed_axis: bool

    def block(self, start: int, length: int) -> Any:
        """A slice; a memory map is read here and nowhere else."""
        rows = (slice(None) if self.seed_axis else None, slice(start, start + length))
        if type(self.data) is np.ndarray:  # the usual case, several times faster
            return arguments.native(self.data[rows])
        return jax.tree.map(lambda a: arguments.native(a[rows]), self.data)


@dataclass(frozen=True)
class Chunks(Stream):
    """Data made on request by the user's `chunk(start, length)`: a pure function, whose rounds do
    not depend on where a chunk begins or ends."""

    function: Callable[[int, int], Any]
    horizon: int
    seeds: int
    seed_axis: bool

    def block(self, start: int, length: int) -> Any:
        """What the function returns, checked for its shape."""
        source = f"stream: chunk({start}, {length}) returned"
        data = jax.tree.map(_as_array, self.function(start, length))
        lead = (self.seeds, length) if self.seed_axis else (length,)
        if not jax.tree.leaves(data):
            raise ValueError(
                f"{source} no array; expected a pytree of arrays with leading axes {lead}"
            )
        for path, leaf in _leaves(data):
            _check_numbers(source, leaf, path)
            if leaf.shape[: len(lead)] != lead:
                raise ValueError(f"{source} shape {leaf.shape}{path}; expected leading axes {lead}")
        return data if self.seed_axis else jax.tree.map(lambda a: a[None], data)


@dataclass(frozen=True)
class Adversary(Stream):
    """An adversary `reveal(round, decision, key) -> z`, compiled together with the loop over the
    rounds. `round` counts from 1.

    With a state it is `reveal(state, round, decision, key) -> state, z`.
    """

    function: Callable[..., Any]
    horizon: int
    seeds: int
    state: Any = None
    """The state before round 1; None for an adversary without one."""

    def block(self, start: int, length: int) -> Any:
        """There is nothing to hand out before the decision is known."""
        raise ValueError(
            "stream: got reveal(round, decision, key), which reacts to decisions; expected data "
            "in arrays"
        )

    @property
    def reacts(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True, eq=False)
class StatefulAdversary:
    """An adversary that remembers, before its horizon is known; see `taut.adversary`."""

    reveal: Callable[..., Any]
    state: Any


def adversary(reveal: Callable[..., Any], state: Any) -> StatefulAdversary:
    """Return an adversary that carries a state from round to round, to be used as a stream.

    Arguments:
        reveal: `reveal(state, round, decision, key) -> state, z`, written in jax.numpy: the state
            after the round, and the round's data. Rounds count from 1.
        state: the state before round 1, a pytree of arrays. Structure, shapes and types never
            change. Each seed has its own.

    Here the adversary is a price that follows the sum of all decisions so far:

    >>> import jax.numpy as jnp, numpy as np, taut
    >>> def reveal(sold, round, decision, key):
    ...     sold = sold + decision.sum()
    ...     return sold, jnp.full(2, 1 - sold)
    >>> market = taut.Problem(
    ...     lambda x, z: z @ x, lambda x: x.sum() - 1, taut.Box(0.0, 1.0, shape=2)
    ... )
    >>> run = taut.simulate(
    ...     taut.ClippedOGD(0.1, 4.0), market, taut.adversary(reveal, np.zeros(())), horizon=3
    ... )
    >>> list(round(loss, 2) for loss in run.loss[0].tolist())
    [0.0, -1.0, -2.64]
    """
    if not callable(reveal) or required_arguments(reveal) != 4:
        raise TypeError(
            f"reveal: got {arguments.shown(reveal)}; expected a function reveal(state, round, "
            "decision, key) that returns the next state and the round's data"
        )
    arrays = jax.tree.map(lambda a: arguments.as_array("state", a), state)
    if not jax.tree.leaves(arrays):
        raise ValueError(
            "state: got no array; expected the state before round 1, a pytree of arrays"
        )
    for path, leaf in _leaves(arrays):
        _check_numbers("state: got", leaf, path)
    return StatefulAdversary(reveal, arrays)


def as_stream(stream: Any, *, horizon: int | None = None, seeds: int | None = None) -> Stream:
    """Whatever the user calls a stream (see `taut.simulate`), checked and cut to the horizon."""
    seeds = None if seeds is None else arguments.count("seeds", seeds)
    horizon = None if horizon is None else arguments.count("horizon", horizon)
    if horizon is not None and horizon > LONGEST:
        raise ValueError(
            f"horizon: got {horizon}; expected at most {LONGEST}, because rounds are counted in "
            "32 bits"
        )
    if isinstance(stream, Stream):
        return _again(stream, horizon, seeds)
    if callable(stream) or isinstance(stream, StatefulAdversary):
        return _function(stream, horizon, seeds)
    if type(stream) is not np.ndarray:
        _refuse_sources(stream)
    return _arrays(stream, horizon, seeds)


def _function(source: Any, horizon: int | None, seeds: int | None) -> Stream:
    """A user's function or stateful adversary, whose number of rounds must be given."""
    if horizon is None:
        kind = "a function" if callable(source) else "an adversary"
        raise ValueError(
            f"horizon is required when stream is {kind}, for example simulate(..., horizon=1000)"
        )
    if isinstance(source, StatefulAdversary):
        return Adversary(source.reveal, horizon, seeds or 1, source.state)
    required = required_arguments(source)
    if required == 3:
        return Adversary(source, horizon, seeds or 1)
    if required == 2:
        return Chunks(source, horizon, seeds or 1, seeds is not None)
    expected = "chunk(start, length) or reveal(round, decision, key)"
    came = f"a function with {required} required arguments"
    if required == 4:
        came += ", as an adversary with a state has"
        expected = "taut.adversary(reveal, state), with the state before round 1"
    raise TypeError(f"stream: got {came}; expected {expected}")


def _refuse_sources(stream: Any) -> None:
    """Refuse what is not data but could lead to data, and say how to get them."""
    if isinstance(stream, (str, PurePath)):
        raise TypeError(
            f"stream: got {str(stream)!r}; expected the data, not their name. Read the file "
            f"first, for example with pandas.read_csv({str(stream)!r})"
        )
    if isinstance(stream, Iterator):
        raise TypeError(
            f"stream: got {arguments.shown(stream)}, which can be read only once; expected "
            "arrays. Use numpy.array(list(stream)), or a function chunk(start, length)"
        )
    if isinstance(stream, np.random.Generator):
        raise TypeError(
            "stream: got a random generator; expected its numbers, for example "
            "rng.uniform(size=(1000, 2))"
        )


def _again(stream: Stream, horizon: int | None, seeds: int | None) -> Stream:
    """A stream that was one already, perhaps shorter."""
    if seeds is not None and seeds != stream.seeds:
        raise ValueError(f"seeds: got {seeds}; expected {stream.seeds}, as the stream has")
    if horizon is None or horizon == stream.horizon:
        return stream
    if horizon > stream.horizon:
        raise ValueError(
            f"horizon: got {horizon}; expected at most the {stream.horizon} rounds of the stream"
        )
    shorter = copy.copy(stream)
    object.__setattr__(shorter, "horizon", horizon)  # streams are frozen
    return shorter


def _arrays(data: Any, horizon: int | None, seeds: int | None) -> Arrays:
    leaves = [("", data)]
    if type(data) is not np.ndarray:
        # A memory map stays one; device arrays become NumPy's once, or each slice of them would be
        # compiled.
        data = jax.tree.map(
            lambda a: a if type(a) in (np.ndarray, np.memmap) else _as_array(a), data
        )
        leaves = _leaves(data)
    if not leaves:
        raise ValueError(
            f"stream: got {arguments.shown(data)}, no array; expected arrays with one row per round"
        )
    axes = ("round",) if seeds is None else ("seed", "round")
    for path, leaf in leaves:
        _check_numbers("stream: got", leaf, path)
        if leaf.ndim < len(axes):
            came = f"a number (shape ()){path}" if leaf.ndim == 0 else f"shape {leaf.shape}{path}"
            raise ValueError(
                f"stream: got {came}; expected an array with the leading axes ({', '.join(axes)})"
            )
        if seeds is not None and leaf.shape[0] != seeds:
            raise ValueError(
                f"stream: got {leaf.shape[0]} seeds in shape {leaf.shape}{path}; expected "
                f"seeds={seeds} of them"
            )
    lengths = {leaf.shape[len(axes) - 1] for _, leaf in leaves}
    if len(lengths) > 1:
        raise ValueError(
            f"stream: got arrays of {sorted(lengths)} rounds; expected one number of rounds"
        )
    (rounds,) = lengths
    if rounds == 0:
        raise ValueError("stream: got 0 rounds; expected at least one")
    if horizon is not None and horizon > rounds:
        raise ValueError(
            f"horizon: got {horizon}; expected at most the {rounds} rounds of the stream"
        )
    return Arrays(data, horizon or rounds, seeds or 1, seeds is not None)


def _as_array(value: Any) -> Array:
    return arguments.as_array("stream", value)


def _check_numbers(what: str, leaf: Array, path: str) -> None:
    if leaf.dtype.kind not in "fiub":
        mend = ". Convert them with .astype(float)" if leaf.dtype.kind in "OUS" else ""
        raise TypeError(f"{what} values of type {leaf.dtype}{path}; expected real numbers{mend}")


def _leaves(data: Any) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(data)[0]
    return [(f" at {jax.tree_util.keystr(path)}" if path else "", leaf) for path, leaf in leaves]


def required_arguments(function: Callable[..., Any]) -> int:
    """How many arguments a user's function must be given, which tells a chunk from an adversary."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(
            "stream: got a function whose signature cannot be read; wrap it in a lambda"
        ) from None
    return sum(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
        for p in parameters
    )

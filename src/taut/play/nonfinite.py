"""Find the first number of a simulation that was not finite, and its round, for the error
message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from ..problem.compatibility import cast_data
from ..problem.programs import Programs
from .compile_key import CompileKey
from .loop import play
from .packing import Packed

__all__ = ["raise_first_nonfinite"]

Array = np.ndarray[Any, Any]


def raise_first_nonfinite(
    programs: Programs, key: CompileKey, arguments: tuple[Packed, Packed, Any, Any, Any], data: Any
) -> NoReturn:
    """Play a chunk again with everything recorded, and raise an error for the first number that was
    not finite.

    Arguments:
        programs: where compiled programs are kept.
        key: what was compiled.
        arguments: the other arguments that `loop.play` had.
        data: the chunk's data, with axes seed and round, or None if an adversary made them.
    """
    start, rounds, _ = (int(number) for number in arguments[-1])
    wanted = (
        ("loss", "excess", "decisions", "data")
        if key.reveal is not None
        else ("loss", "excess", "decisions")
    )
    after, records = play(programs, key._replace(record=frozenset(wanted), every=1), *arguments)
    losses, excess, decisions = (
        np.moveaxis(np.asarray(records[name]), 2, 0)[:rounds]
        for name in ("loss", "excess", "decisions")
    )
    if key.reveal is None:
        revealed = [
            np.moveaxis(cast_data("stream", a, losses.dtype), 1, 0) for a in jax.tree.leaves(data)
        ]
    else:
        revealed = [
            np.moveaxis(np.asarray(a), 2, 0)[:rounds] for a in jax.tree.leaves(records["data"])
        ]
    last = np.asarray(key.state.unpack(after, key.header).x)
    following = np.concatenate(
        [decisions[1:], last[None]]
    )  # the decisions that each round's gradients led to
    suspects = {
        "stream": revealed,
        "loss": [losses],
        "constraints": [excess],
        "loss gradient": [following],
    }
    when = {name: _first_bad(arrays, rounds) for name, arrays in suspects.items()}
    name = min(when, key=lambda n: when[n])
    if when[name] == rounds:
        raise ValueError(
            f"loss: got totals that are not finite by round {start + rounds}; expected losses and "
            f"squared violations whose sums fit {losses.dtype}"
        )
    hint = (
        " as gradients of loss and constraints (jnp.linalg.norm, for example, has none at 0), "
        "and steps whose length floats can represent"
    )
    raise ValueError(
        f"{name}: got a value that is not finite in round {start + when[name] + 1}; expected "
        f"finite numbers{hint if 'gradient' in name else ''}"
    )


def _first_bad(arrays: Sequence[Array], rounds: int) -> int:
    """Return the first row in which one of the arrays is not finite, or the number of rows."""
    bad = np.zeros(rounds, bool)
    for array in arrays:
        bad |= ~np.isfinite(array.reshape(rounds, -1)).all(axis=1)
    return int(np.flatnonzero(bad)[0]) if bad.any() else rounds

"""The losses that regret is measured against, computed once and stored in a cache folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import storage
from ..engine import VERSION, Array
from ..judge.hindsight import hindsight
from .stream import Stream, one_seed


def cache_folder() -> Path:
    """Return the folder of stored comparators: TAUT_ARENA_CACHE, or a folder in the user's
    cache."""
    folder = os.environ.get("TAUT_ARENA_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(folder) if folder else home / "taut" / "arena"


def comparator_loss(
    stream: Stream, data: Any, folder: Path | None = None, shifting: bool = False
) -> Array:
    """Return the comparator's total loss for every seed.

    Arguments:
        stream: the stream.
        data: its data, arrays (seed, round, ...), as `stream.data` returns them.
        folder: where results are stored, by default `cache_folder()`. The name of a file contains a
            checksum of the data.
        shifting: whether to take the comparator that changes its decision, which the stream must
            have.
    """
    leaves = {str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(data))}
    seeds, rounds = leaves["0"].shape[:2]
    text = f"{VERSION} {stream.name} {stream.version} {storage.digest(leaves)}"
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    name = f"{stream.name}-{'shifting-' if shifting else ''}{key}.npz"
    path = (cache_folder() if folder is None else folder) / name
    stored = _stored(path, seeds)
    if stored is not None:
        return stored
    best = stream.shifting if shifting else stream.best
    if best is None:
        loss = np.asarray(hindsight(stream.rows, data, seeds=seeds).loss, float)
    else:
        try:
            loss = np.array([best(one_seed(data, k), rounds) for k in range(seeds)], float)
        except Exception as error:  # whatever a stream raises is raised with its name
            raise RuntimeError(
                f"The comparator of the stream {stream.name!r} failed for {rounds} rounds: {error}"
            ) from error
    storage.write_arrays(path, {"stream": stream.name}, {"loss": loss})
    return loss


def _stored(path: Path, seeds: int) -> Array | None:
    """A stored result; `None` if there is none or it is damaged, in which case it is computed
    again."""
    try:
        loss = storage.read_arrays(path)[1]["loss"]
    except (OSError, ValueError, KeyError):
        return None
    return loss if loss.shape == (seeds,) and np.all(np.isfinite(loss)) else None

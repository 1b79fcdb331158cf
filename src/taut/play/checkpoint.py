"""Checkpoints: after each chunk all that is needed to go on, in a folder, never half written.

A chunk's records are written to a file of their own, then the board, which names the record files that belong to it.
Each write is atomic, so whatever kills the process, the board on disk and its records are whole and of one moment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import files

__all__ = ["Chapters", "digest"]

FORMAT = 2
Array = np.ndarray[Any, Any]


def digest(tree: Any) -> str:
    """A fingerprint of arrays, their types and shapes included."""
    state = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update(array.data)
    return state.hexdigest()


class Chapters:
    """The records of the chunks played so far, in memory and, if there is a folder, on disk with the board.

    Arguments:
        folder: where to write, or None.
        facts: what a checkpoint must have been made by to be gone on with.
        axis: that of the rounds in every record.
    """

    def __init__(self, folder: str | Path | None, facts: Callable[[], Mapping[str, Any]], axis: int) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None and self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"checkpoint: got {self.folder}, a file; expected a folder, which need not exist yet")
        self.facts = {} if folder is None else dict(facts())
        self.axis = axis
        self.parts: list[dict[str, Array]] = []
        self.ends: list[int] = []

    def resume(self, board: Any, block: Callable[[int, int], Any]) -> tuple[Any, int]:
        """Where the last call stopped, or `board` and round 0; `block` gives the data the last chunk must have had."""
        if self.folder is None:
            return board, 0
        for draft in self.folder.glob(".*.part"):  # of a process that was killed while writing
            draft.unlink(missing_ok=True)
        path = self.folder / "board.npz"
        if not path.exists():
            return board, 0
        header, arrays = files.read_arrays(path, "checkpoint")
        self._compare(path, header)
        done, begun = int(header["done"]), int(header["begun"])
        if header["data"] != digest(block(begun, done - begun)):
            self._refuse("stream, in its last rounds")
        self.ends = [int(end) for end in header["ends"]]
        for end in self.ends:
            self.parts.append(files.read_arrays(self.folder / f"records-{end}.npz", "checkpoint")[1])
        return files.like(board, arrays), done

    def add(self, board: Any, records: Mapping[str, Array], data: Any, begun: int, done: int) -> None:
        """Keep the records of rounds begun..done; with a folder, write them and then the board."""
        if records:
            self.parts.append(dict(records))
        if self.folder is None:
            return
        if records:
            files.write_arrays(self.folder / f"records-{done}.npz", {}, records)
            self.ends.append(done)
        header = {
            "format": FORMAT,
            "facts": self.facts,
            "data": digest(data),
            "begun": begun,
            "done": done,
            "ends": self.ends,
        }
        files.write_arrays(self.folder / "board.npz", header, files.flat(board))

    def records(self) -> dict[str, Array]:
        """All chunks joined."""
        if len(self.parts) == 1:
            return self.parts[0]
        names = self.parts[0] if self.parts else {}
        return {name: np.concatenate([part[name] for part in self.parts], axis=self.axis) for name in names}

    def _compare(self, path: Path, header: Mapping[str, Any]) -> None:
        if header.get("format") != FORMAT:
            raise ValueError(f"checkpoint: got {path} in format {header.get('format')!r}; expected format {FORMAT}")
        found = header["facts"]
        names = sorted({*found, *self.facts})
        other = [name for name in names if not files.same(found.get(name), self.facts.get(name))]
        if other:
            self._refuse(", ".join(other))

    def _refuse(self, what: str) -> None:
        raise ValueError(
            f"checkpoint: got {self.folder}, written with another {what}; expected this call's own checkpoint or an "
            "empty folder"
        )

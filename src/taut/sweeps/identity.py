"""The identity of a cell: a checksum of everything that determines its result, which names its
file.

It must be the same in every process and on every day, so it does not use pickles, whose bytes
change. Loss and constraints are described by the program that JAX traces from them, with all
numbers in it (`play/fingerprint`). Functions that make data or measure runs are described by their
code and everything that it reads (`play/description`).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import jax
import numpy as np

from .. import files
from ..engine import VERSION, default_float
from ..play.description import Descriptions
from ..play.fingerprint import digest_of_tree, numerics, parts_of, program_digest
from ..problem.compatibility import first_decision, round_shapes
from ..problem.streams import Adversary, Arrays, Chunks, Stream, as_stream
from .cell import Ready, make_stream

__all__ = ["Identities"]


class Identities:
    """Computes identities, and remembers what cells have in common: problems and recipes."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self._descriptions = Descriptions()

    def of(self, cell: Ready) -> str:
        """Return the identity of a cell, 40 hexadecimal digits."""
        source, description = self._stream(cell)
        first = first_decision(cell.problem, cell.x1)
        describe = self._descriptions
        measured = None
        if cell.measure is not None:  # it may ask for a certificate, which needs the constants
            constants = files.pack(cell.problem.constants)
            measured = [describe.of(cell.measure, "measure"), constants]
        facts = {
            "learner": [files.pack(cell.learner), describe.of_classes(cell.learner, "learner")],
            "problem": self._problem(cell, source, first),
            "stream": description,
            "horizon": cell.horizon,
            "seeds": cell.seeds,
            "x1": describe.of(cell.x1, "x1"),
            "key": describe.of(cell.key, "key"),
            "record": cell.record,
            "every": cell.every,
            "chunk": cell.chunk,
            "feedback": describe.of(cell.feedback, "feedback"),
            "measure": measured,
            "keep": cell.keep,
            "float": str(default_float()),
            "versions": [VERSION, numerics(), jax.__version__],
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:40]

    def _problem(self, cell: Ready, stream: Stream | None, first: jax.Array) -> Any:
        if stream is None:
            return None
        random_key = jax.random.key(0) if stream.reacts else None
        example = round_shapes(stream, first, random_key)
        reacting = (
            (id(stream.function), id(stream.state)) if isinstance(stream, Adversary) else None
        )
        key = (id(cell.problem), id(cell.score), reacting, str(example), first.dtype)

        def describe() -> Any:
            played = cell.problem
            functions, trees = parts_of(played, cell.score, stream, first.dtype)
            return [played.domain.to_dict(), program_digest(functions, trees, first, example)]

        return self._remembered(key, describe, cell.problem, cell.score, stream)

    def _stream(self, cell: Ready) -> tuple[Stream | None, Any]:
        """Return a stream of the same shapes, and what identifies the data. A recipe that fails
        here will fail when played."""
        stream = cell.stream
        if isinstance(stream, Stream):
            return stream, self._remembered((id(stream),), lambda: self._data(stream), stream)
        recipe = self._descriptions.of(stream, "stream")
        key = (json.dumps(recipe), id(cell.problem), cell.horizon, cell.seeds)

        def shapes() -> Stream | None:
            try:
                made = make_stream(stream)
                data = as_stream(cell.problem.arrange(made), horizon=cell.horizon, seeds=cell.seeds)
            except Exception:  # the cell will fail with this error, and the others are played
                return None
            if not isinstance(data, Arrays):
                return data
            return Arrays(jax.tree.map(np.zeros_like, data.block(0, 1)), 1, data.seeds, True)

        return self._remembered(key, shapes, cell.problem), recipe

    def _remembered(self, key: Any, make: Any, *alive: Any) -> Any:
        """Return what `make` returned the first time. The objects whose `id` is in the key are kept
        alive."""
        if key not in self._known:
            self._known[key] = make(), alive
        return self._known[key][0]

    def _data(self, stream: Stream) -> Any:
        """Describe what a stream reveals."""
        if isinstance(stream, Arrays):
            data = stream.block(0, stream.horizon)
            return ["arrays", str(jax.tree.structure(data)), digest_of_tree(data)]
        if isinstance(stream, (Chunks, Adversary)):
            function = self._descriptions.of(stream.function, "stream")
            return [type(stream).__name__.lower(), function]
        return [type(stream).__name__, self._descriptions.of(vars(stream), "stream")]

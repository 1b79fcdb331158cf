"""Checkpoints: after each chunk, all that is needed to continue is written to a folder, in which no file is ever half written.

The records of a chunk are written to a file of their own, then the state, which names the record files that belong to it.
Each write is atomic, so whenever the process is killed, the state on disk and its records are complete and belong together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import files
from ..engine import VERSION
from ..problem.rounds import FullInformation
from .chunks import Simulation

__all__ = ["Checkpoint", "fingerprint"]

FORMAT = 3
STATE = "state.npz"
ROUND_AXIS = 2
Array = np.ndarray[Any, Any]


def fingerprint(simulation: Simulation) -> dict[str, Any]:
    """Identify the call: a checkpoint is resumed only if the fingerprints are equal.

    Functions are identified by their values at a few decisions, which cannot detect every change.
    """
    data = simulation.block(0, min(simulation.key.length, simulation.stream.horizon))
    keys = simulation.random_keys
    return {
        "learner": [files.pack(learner) for learner in simulation.learners],
        "problem (loss, constraints, domain)": [
            simulation.problem.domain.to_dict(),
            _function_values(simulation, data),
        ],
        "stream": _digest(data),
        "horizon": simulation.stream.horizon,
        "number of seeds": simulation.stream.seeds,
        "x1": _digest(simulation.first),
        "key": None if keys is None else _digest(jax.random.key_data(keys)),
        "record": sorted(simulation.key.record),
        "every": simulation.every,
        "chunk": simulation.key.length,
        "version of taut or jax": [VERSION, jax.__version__],
    }


def _digest(tree: Any) -> str:
    """Return a hash of arrays, with their types and shapes."""
    state = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update(array.data)
    return state.hexdigest()


def _function_values(simulation: Simulation, data: Any) -> str:
    problem, key = simulation.problem, simulation.key
    score = simulation.score or problem
    random_key = jax.random.key(0)
    sampled = [problem.domain.sample(k) for k in jax.random.split(random_key)]
    points = jnp.stack([jnp.asarray(x, simulation.first.dtype) for x in (simulation.first, *sampled)])
    z = None if data is None else jax.tree.map(lambda a: a[0, 0], data)
    functions = (key.loss, key.scored_loss, key.reveal)
    problems = (problem.constraints, score.constraints, problem.domain)
    return _digest(simulation.programs.call(_probe, problems, points, z, random_key, static=(functions,)))


def _probe(functions: tuple[Any, Any, Any], problems: Any, points: jax.Array, data: Any, key: jax.Array) -> Any:
    """Return values and gradients of the played problem, and values of the scored one, at a few decisions."""
    loss, scored_loss, reveal = functions
    constraints, scored_constraints, domain = problems

    def probe(x: jax.Array) -> Any:
        z = data if reveal is None else reveal(jnp.asarray(1, jnp.int32), x, key)
        played = FullInformation(loss, constraints, domain, z)
        scored = FullInformation(scored_loss, scored_constraints, domain, z)
        values, pull, _ = played.constraints(x)
        return played.loss(x), played.gradient(x), pull(values), values, scored.loss(x), scored.constraints(x).values

    return jax.vmap(probe)(points)


class Checkpoint:
    """The records of the chunks played so far, in memory and, if there is a folder, on disk together with the state.

    Arguments:
        folder: where to write, or None.
        simulation: what is played.
    """

    def __init__(self, folder: str | Path | None, simulation: Simulation) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None and self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"checkpoint: got {self.folder}, a file; expected a folder, which need not exist yet")
        self.simulation = simulation
        self.fingerprint = {} if folder is None else fingerprint(simulation)
        self.parts: list[dict[str, Array]] = []
        self.ends: list[int] = []

    def resume(self) -> tuple[Any, int]:
        """Return the carry and the number of rounds with which the last call stopped, or those before round 1."""
        carry = self.simulation.begin()
        if self.folder is None:
            return carry, 0
        for draft in self.folder.glob(".*.part"):  # of a process that was killed while writing
            draft.unlink(missing_ok=True)
        path = self.folder / STATE
        if not path.exists():
            return carry, 0
        header, arrays = files.read_arrays(path, "checkpoint")
        self._compare(path, header)
        done, begun = int(header["done"]), int(header["begun"])
        if header["data"] != _digest(self.simulation.block(begun, done - begun)):
            self._refuse("stream, in its last rounds")
        self.ends = [int(end) for end in header["ends"]]
        for end in self.ends:
            self.parts.append(files.read_arrays(self.folder / f"records-{end}.npz", "checkpoint")[1])
        return files.like(carry, arrays), done

    def add(self, carry: Any, records: Mapping[str, Array], data: Any, begun: int, done: int) -> None:
        """Keep the records of rounds begun..done; with a folder, write them and then the state."""
        if records:
            self.parts.append(dict(records))
        if self.folder is None:
            return
        if records:
            files.write_arrays(self.folder / f"records-{done}.npz", {}, records)
            self.ends.append(done)
        header = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "data": _digest(data),
            "begun": begun,
            "done": done,
            "ends": self.ends,
        }
        files.write_arrays(self.folder / STATE, header, files.flat(carry))

    def records(self) -> dict[str, Array]:
        """Return the records of all chunks."""
        if len(self.parts) == 1:
            return self.parts[0]
        names = self.parts[0] if self.parts else {}
        return {name: np.concatenate([part[name] for part in self.parts], axis=ROUND_AXIS) for name in names}

    def _compare(self, path: Path, header: Mapping[str, Any]) -> None:
        if header.get("format") != FORMAT:
            raise ValueError(f"checkpoint: got {path} in format {header.get('format')!r}; expected format {FORMAT}")
        found = header["fingerprint"]
        names = sorted({*found, *self.fingerprint})
        other = [name for name in names if not files.same(found.get(name), self.fingerprint.get(name))]
        if other:
            self._refuse(", ".join(other))

    def _refuse(self, what: str) -> None:
        raise ValueError(
            f"The checkpoint in {self.folder} belongs to a call with a different {what}. Use another folder, or delete "
            "this one to start again."
        )

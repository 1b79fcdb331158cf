"""Checkpoints: after each chunk, all that is needed to continue is written to a folder, in which no
file is ever half written.

The records of a chunk are written to a file of their own, then the state. Each write is atomic, so
whenever the process is killed, the state on disk and its records are complete and belong together.
That they do is checked: every file names its run and its rounds, a record file contains the
checksum of the one before it, and the state that of the last one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import jax

from .. import arguments, files, storage
from ..engine import VERSION, Array
from ..identity import Descriptions, digest_of_tree, numerics, problem_digest
from ..learners.protocols import Grows
from ..problem.streams import Arrays
from .loop import ROUND_AXIS, KeptRecords
from .simulation import Simulation

FORMAT = 6
STATE = "state.npz"


class Checkpoint:
    """The records of the chunks played so far, in memory and on disk together with the state.

    Use it as a context: while it is open, no other process or thread can open the same folder.
    """

    def __init__(self, folder: str | Path, simulation: Simulation) -> None:
        self.folder = arguments.path("checkpoint", folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"checkpoint: got {self.folder}, a file; expected a folder, which need not exist "
                "yet"
            )
        if any(
            isinstance(learner, Grows) and learner.with_room(1) is not learner
            for learner in simulation.learners
        ):
            raise ValueError(
                "checkpoint: got a folder and a learner that keeps all cuts (memory=None), whose "
                "state grows; expected a number of kept cuts, or checkpoint=None"
            )
        self.simulation = simulation
        self.fingerprint = fingerprint(simulation)
        self.played = KeptRecords(simulation.shape, simulation.stream.horizon)
        self.ends: list[int] = []
        self.run = secrets.token_hex(16)
        self.data = ""
        """Checksum of the data of all rounds so far."""
        self.last = ""
        """Checksum of the last record file."""

    @contextlib.contextmanager
    def open(self) -> Iterator[Checkpoint]:
        """Lock the folder, which is created if it does not exist."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(
                error.errno, f"checkpoint: {self.folder} cannot be created: {error.strerror}"
            ) from error
        with storage.lock_folder(self.folder, "checkpoint"):
            yield self

    def resume(self) -> tuple[Any, int]:
        """Return the carry and the number of rounds with which the last call stopped; None and 0
        if there was none."""
        path = self.folder / STATE
        if not path.exists():
            return None, 0
        header, arrays = storage.read_arrays(path, "checkpoint")
        self._compare(path, header)
        try:
            done, self.run = int(header["done"]), str(header["run"])
            self.ends = [int(end) for end in header["ends"]]
            last = self.ends[-1:] if self.simulation.shape.record else [done]
            if not 0 < done <= self.simulation.stream.horizon or last != [done]:
                raise ValueError("the numbers of rounds do not fit")
            carry = files.like(self.simulation.begin(), arrays)
            self._read_records(header["last"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"checkpoint: got {path}, damaged or foreign ({error}); expected a file that taut "
                "wrote"
            ) from error
        length = self.simulation.shape.length
        for start in range(0, done, length):
            self._add_data(self.simulation.block(start, min(length, done - start)))
        if header["data"] != self.data:
            self._refuse(f"stream, in its first {done} rounds")
        return carry, done

    def _read_records(self, last: str) -> None:
        """Read the records of all chunks, and check that the files belong to this run and to each
        other."""
        begun = 0
        for end in self.ends:
            path = self.folder / f"records-{end}.npz"
            header, arrays = storage.read_arrays(path, "checkpoint")
            expected = {"run": self.run, "begun": begun, "done": end, "previous": self.last}
            if {name: header.get(name) for name in expected} != expected:
                raise ValueError(f"{path.name} belongs to another run or to other rounds")
            rows = {
                name: self.simulation.shape.rows(name, end - begun)
                for name in self.simulation.shape.record
            }
            if {name: array.shape[ROUND_AXIS] for name, array in arrays.items()} != rows:
                raise ValueError(f"{path.name} holds other records")
            self.played.add(arrays, begun, end)
            self.last, begun = storage.digest_of_file(path), end
        if self.last != last:
            raise ValueError("the last file of records is not the one that belongs to it")

    def _add_data(self, data: Any) -> None:
        self.data = hashlib.sha256(f"{self.data}{digest_of_tree(data)}".encode()).hexdigest()

    def add(
        self, carry: Any, records: Mapping[str, Array], data: Any, begun: int, done: int
    ) -> None:
        """Keep the records of rounds begun..done, write them and then the state."""
        self.played.add(records, begun, done)
        if records:
            path = self.folder / f"records-{done}.npz"
            storage.write_arrays(
                path,
                {"run": self.run, "begun": begun, "done": done, "previous": self.last},
                records,
                follow=False,
            )
            self.ends.append(done)
            self.last = storage.digest_of_file(path)
        self._add_data(data)
        header = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "run": self.run,
            "data": self.data,
            "done": done,
            "ends": self.ends,
            "last": self.last,
        }
        storage.write_arrays(self.folder / STATE, header, files.flat(carry), follow=False)

    def records(self) -> dict[str, Array]:
        """Return the records of all chunks."""
        return self.played.records

    def _compare(self, path: Path, header: Mapping[str, Any]) -> None:
        if header.get("format") != FORMAT:
            raise ValueError(
                f"checkpoint: got {path} in format {header.get('format')!r}; expected format "
                f"{FORMAT}, that of this version"
            )
        stored = header.get("fingerprint")
        stored = stored if isinstance(stored, dict) else {}
        names = sorted({*stored, *self.fingerprint})
        other = [
            name for name in names if not files.same(stored.get(name), self.fingerprint.get(name))
        ]
        if other:
            self._refuse(", ".join(other))

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(
            f"The checkpoint in {self.folder} belongs to a call with a different {what}. Use "
            "another folder, or delete this one to start again."
        )


def fingerprint(simulation: Simulation) -> dict[str, Any]:
    """Describe a call: two calls with equal descriptions compute the same, up to what the
    description cannot contain.

    Loss and constraints are described by the program that JAX traces from them, with all numbers in
    it; a learner and a feedback by their fields, and their own classes by all that they reach. Not
    noticed are changes of Python functions that a program calls back (`jax.pure_callback`), and
    whatever a function reads when it is not being traced. The data of the stream are compared chunk
    by chunk when a checkpoint is resumed.
    """
    keys, describe = simulation.random_keys, Descriptions()
    problem, stream, first = simulation.problem, simulation.stream, simulation.first
    return {
        "learner": [
            [files.pack(learner), _checksum(describe.of_classes(learner, "learner"))]
            for learner in simulation.learners
        ],
        "problem (loss, constraints, domain)": [
            problem.domain.to_dict(),
            problem_digest(problem, simulation.score, stream, first, simulation.example),
        ],
        "feedback": _checksum(describe.of(simulation.feedback, "feedback")),
        **_of_advice(simulation, describe),
        "stream (shapes and types)": str(simulation.example),
        "horizon": stream.horizon,
        "number of seeds": stream.seeds,
        "x1": digest_of_tree(first),
        "start": digest_of_tree(problem.start),
        "key": None if keys is None else digest_of_tree(jax.random.key_data(keys)),
        "record": sorted(simulation.shape.record),
        "every": simulation.every,
        "chunk": simulation.shape.length,
        "version of taut or jax": [VERSION, numerics(), jax.__version__],
    }


def _of_advice(simulation: Simulation, describe: Descriptions) -> dict[str, Any]:
    """Return what tells advice from other advice; nothing without advice."""
    of_rounds = {"advice": simulation.advice, "forecast": simulation.forecast}
    return {
        name: digest_of_tree(value.data)
        if isinstance(value, Arrays)
        else _checksum(describe.of(value, name))
        for name, value in of_rounds.items()
        if value is not None
    }


def _checksum(description: Any) -> str:
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()

"""What `taut run` notes beside a run: the names of problem and data, and their checksums.

Nothing in the note is trusted. It names a Python file, but the file is run only if the user passes
it, or confirms it: it must lie in the working folder and be the one that `taut run` was given.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import typer

LARGEST = 2**16
"""Bytes of a note, at most."""


@dataclass(frozen=True)
class Origin:
    """The note beside a run. All fields are empty if there is none."""

    problem: str = ""
    """The file and the name in it, as in problem.py:game, seen from the folder of `taut run`."""
    problem_sha256: str = ""
    data: str = ""
    data_sha256: str = ""
    seeds: int | None = None

    def data_file(self, run: Path, data: Path | None) -> Path:
        """Return the file with the data: the one that is given, or the noted one if it has not
        changed."""
        if data is not None:
            return data
        path = Path(self.data)
        if not self.data or not path.is_file():
            noted = f"the file {self.data} is not there" if self.data else "its data are not noted"
            raise ValueError(f"--data: got none, and {noted}; expected the data of {run}")
        if _digest(path) != self.data_sha256:
            raise ValueError(
                f"--data: {path} has changed since the run; expected the same data, or --data "
                "with the right file"
            )
        return path

    def problem_file(self, run: Path, problem: str | None, yes: bool) -> str:
        """Return the file and the name of the problem: what is given, or what is noted if the user
        agrees to run that file.

        Arguments:
            run: the file of the run.
            problem: what the user passed as --problem.
            yes: whether the user agreed beforehand.
        """
        if problem is not None:
            return problem
        example = self.problem or "problem.py:game"
        mend = f"expected the problem that was played: add --problem {example}"
        if not self._unchanged():
            noted = (
                f"{self.problem} is not in this folder, or has changed since the run"
                if self.problem
                else "the problem of the run is not noted"
            )
            raise ValueError(f"--problem: got none, and {noted}; {mend}")
        if not yes and not asks():
            raise ValueError(
                f"--problem: got none; {mend}, which runs that file, or --yes to run it because "
                "it is the one that taut run was given"
            )
        question = f"{run} was made with {self.problem}, which is unchanged. Run this file?"
        if not yes and not typer.confirm(question):
            raise ValueError(f"--problem: got none; {mend}")
        return self.problem

    def _unchanged(self) -> bool:
        """Return whether the noted problem lies in the working folder and has the noted
        checksum."""
        file, _, _ = self.problem.rpartition(":")
        path, folder = Path(file).resolve(), Path.cwd().resolve()
        inside = bool(file) and path.is_relative_to(folder) and path.is_file()
        return inside and _digest(path) == self.problem_sha256


def asks() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin.isatty()


def write(run: Path, problem: str, data: Path, seeds: int | None) -> None:
    """Write the note of a run, atomically."""
    from ..storage import write_atomically

    file, _, name = problem.rpartition(":")
    path, folder = Path(file).resolve(), Path.cwd().resolve()
    shown = path.relative_to(folder) if path.is_relative_to(folder) else path
    note = Origin(f"{shown}:{name}", _digest(path), str(data.resolve()), _digest(data), seeds)
    write_atomically(_beside(run), json.dumps(asdict(note)).encode())


def read(run: Path) -> Origin:
    """Return the note of a run; an empty one if there is none."""
    path = _beside(run)
    if not path.is_file():
        return Origin()
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    try:
        entries = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{path}: got no JSON ({error}); expected what taut run wrote") from error
    names = [field.name for field in fields(Origin)]
    if (
        type(entries) is not dict
        or sorted(entries) != sorted(names)
        or type(entries["seeds"]) not in (int, type(None))
        or not all(
            type(entries[name]) is str and entries[name].isprintable()
            for name in names
            if name != "seeds"
        )
    ):
        raise ValueError(f"{path}: got other entries; expected what taut run wrote")
    return Origin(**entries)


def _beside(run: Path) -> Path:
    return run.with_name(run.name + ".origin.json")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

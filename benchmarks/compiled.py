"""The compiled chunk of a simulation: to call it by itself, and as text, to count the operations of
a round."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np

import taut
import taut.play.simulation
from taut.play.buffers import aligned
from taut.play.compile import Executable

GIVEN = ("parameter", "get-tuple-element", "constant", "tuple", "bitcast")
MARK = "xla_cpu_small_call"
"""The attribute of a call that XLA compiles into one kernel."""


class Chunk(NamedTuple):
    """A compiled chunk, and what it is called with."""

    executable: Executable
    arguments: tuple[Any, ...]

    def play(self) -> None:
        """Play the rounds of the chunk and wait for them."""
        jax.block_until_ready(self.executable(*self.arguments))

    @property
    def rounds(self) -> int:
        """How many rounds are played."""
        _, _, _, span, _ = self.arguments
        return int(span.rounds)

    @property
    def program(self) -> Any:
        """The program that XLA compiled."""
        return self.executable.program

    @property
    def text(self) -> str:
        """XLA's text of the program."""
        return str(self.program.as_text())


class _Taken(Exception):
    pass


def chunk_of(learner: Any, problem: Any, stream: Any, **options: Any) -> Chunk:
    """Return the first chunk that `taut.simulate` would play, compiled and not yet played."""
    make = taut.play.simulation.compiled

    def spy(*arguments: Any, **keywords: Any) -> Any:
        executable = make(*arguments, **keywords)
        raise _Taken(executable, (*arguments[3], executable.blank))

    with mock.patch.object(taut.play.simulation, "compiled", spy):
        try:
            taut.simulate(learner, problem, stream, **options)
        except _Taken as taken:
            executable, arguments = taken.args
            return Chunk(executable, jax.tree.map(_owned, arguments))
    raise AssertionError("taut.simulate did not compile a chunk")


def _owned(array: Any) -> Any:
    """Return a copy of an array where XLA reads it in place: simulations share their memory."""
    if not isinstance(array, np.ndarray):
        return array
    copied = aligned(array.shape, array.dtype)
    copied[...] = array
    return copied


def program_of(learner: Any, problem: Any, stream: Any, **options: Any) -> Any:
    """Return the compiled chunk that `taut.simulate` would run, without running it."""
    return chunk_of(learner, problem, stream, **options).program


def text_of(learner: Any, problem: Any, stream: Any, **options: Any) -> str:
    """Return XLA's text of the chunk that `taut.simulate` would run, without running it."""
    return chunk_of(learner, problem, stream, **options).text


def parsed(text: str) -> Any:
    """Return the body of the loop over rounds, the fused computations that it calls, and the entry
    of the program."""
    parts = _parts(text)
    inner = [body for body in bodies(text) if not re.search(r" (while|call)\(", body)]
    body = max(inner, key=len)
    called = [parts[name] for name in re.findall(r"calls=%([\w.\-]+)", body)]
    entry = next(part for part in parts.values() if part.startswith("ENTRY"))
    return SimpleNamespace(body=body, called=called, entry=entry, all="\n".join([body, *called]))


def bodies(text: str) -> list[str]:
    """Return the bodies of all loops, those of loops inside a round too."""
    parts = _parts(text)
    return [parts[name] for name in re.findall(r" while\(.*body=%([\w.\-]+)", text)]


def operations(body: str) -> list[str]:
    """Return the names of the operations that one round executes."""
    names = re.findall(r"^\s+(?:ROOT )?%[\w.\-]+ = (?:\(.*?\)|\S+) ([\w\-]+)\(", body, re.M)
    return [name for name in names if name not in GIVEN]


def _parts(text: str) -> dict[str, str]:
    """Return the computations of a program by their names."""
    text = re.sub(r", metadata=\{[^}]*\}", "", text)
    return {
        _name(part): part
        for part in re.split(r"\n(?=%|ENTRY)", text)
        if part.startswith(("%", "ENTRY"))
    }


def _name(part: str) -> str:
    found = re.match(r"(?:ENTRY )?%([\w.\-]+)", part)
    assert found is not None
    return found.group(1)

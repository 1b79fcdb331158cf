"""The compiled code of a simulation as text, to count the operations and the passes over memory per
round."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import taut.play.chunks

import taut
import taut.play.loop

GIVEN = ("parameter", "get-tuple-element", "constant", "tuple", "bitcast")


class _Taken(Exception):
    pass


def text_of(learner: Any, problem: Any, stream: Any, **options: Any) -> str:
    """Return XLA's text of the chunk that `taut.simulate` would run, without running it."""

    def spy(programs: Any, key: Any, *arguments: Any) -> Any:
        raise _Taken(
            taut.play.loop.with_program(programs, key, lambda p: p.lower(*arguments))
            .compile()
            .as_text()
        )

    original = taut.play.chunks.play
    taut.play.chunks.play = spy
    try:
        taut.simulate(learner, problem, stream, **options)
    except _Taken as taken:
        return str(taken.args[0])
    finally:
        taut.play.chunks.play = original
    raise AssertionError("taut.simulate did not call the compiled chunk")


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


def passes(body: str, size: int) -> int:
    """Count the operations that read or write at least as many numbers as all decisions have,
    without the records."""
    count = 0
    for line in body.splitlines():
        found = re.match(r"\s+(?:ROOT )?%[\w.\-]+ = (\S+) (?:fusion|copy)\(([^)]*)\)", line)
        if found and "dynamic-update-slice" not in line:
            result, operands = found.groups()
            shapes = [
                result,
                *(_shape_of(body, name) for name in re.findall(r"%([\w.\-]+)", operands)),
            ]
            count += any(size <= _numbers(shape) < 1000 * size for shape in shapes)
    return count


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


def _shape_of(body: str, name: str) -> str:
    found = re.search(rf"%{re.escape(name)} = (\S+) ", body)
    return found.group(1) if found else ""


def _numbers(shape: str) -> int:
    found = re.match(r"\w+\[([\d,]*)\]", shape)
    return math.prod(int(n) for n in found.group(1).split(",") if n) if found else 0

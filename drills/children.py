"""Child processes that are killed, and the tries that a drill has for it."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Tries", "in_child"]

HANGS = 300.0
"""Seconds after which a child that should end by itself counts as hanging. It is killed, and the
drill ends with an error."""


class Tries:
    """The tries of a drill: at most so many, and none begins after so many seconds.

    Arguments:
        most: the number of tries.
        seconds: the time.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.made, self.seconds = most, 0, seconds
        self._end = time.monotonic() + seconds

    def part(self, share: int) -> Tries:
        """Return fewer tries in the same time, for a drill whose tries take long: one of `share`,
        but one at least."""
        self.most = max(1, self.most // share)
        return self

    def left(self) -> bool:
        """Whether another try may begin. The first always may."""
        return self.made < self.most and (self.made == 0 or time.monotonic() < self._end)

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers of the tries, from 1."""
        while self.left():
            self.made += 1
            yield self.made


def in_child(
    function: Callable[..., Any],
    kill_after: float | None = None,
    heard: list[int] | None = None,
    works: float = 0.0,
) -> Any:
    """Call a function in a child process and return its result, or kill the process after a while
    and return None.

    With `heard`, the function gets a function that reports a number; numbers reported before the
    kill are in the list. `works` is the number of seconds that the function is allowed to work in
    any case.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            if heard is None:
                result = function()
                if kill_after is None:  # else nobody reads it
                    with os.fdopen(writing, "wb") as pipe:
                        pickle.dump(result, pipe)
            else:
                function(lambda number: os.write(writing, f"{number}\n".encode()))
        except BaseException as error:
            print(f"child: {type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(writing)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    content = _read(reading, child, works + HANGS)
    _, status = os.waitpid(child, 0)
    if heard is not None:
        heard.extend(int(line) for line in content.split(b"\n")[:-1])
    if kill_after is not None:
        return None
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("a child process failed")
    return pickle.loads(content)


def _read(reading: int, child: int, patience: float) -> bytes:
    """Return what a child writes until it ends. One that hangs is killed."""
    content, end = bytearray(), time.monotonic() + patience
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            more = pipe.read(1 << 16)
            if not more:
                return bytes(content)
            content += more
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise RuntimeError(f"a child process hung: it did not end within {patience:.0f} s")

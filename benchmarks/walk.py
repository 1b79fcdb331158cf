"""How much code a reader walks through: files and functions of taut that a call enters.

Run with `python -m benchmarks.walk [--json]`. Every case runs in a new process. Python's profiler
reports each function that is entered. Functions of `src/taut` are counted once by file and
qualified name, in all threads; so are comprehensions (before Python 3.12, which has no functions
for them) and the bodies of modules and classes that are imported on the way. "Named" leaves out
comprehensions, generator expressions and lambdas, which a reader meets inside a function that is
counted already; the aims are for all of them. A call across files is one from a function of taut to
a function of taut in another file; what lies between, such as JAX, is skipped. Pairs of functions
are counted once.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from . import setting
from .results import report

PACKAGE = str(setting.ROOT / "src" / "taut")
AIMS = {
    "taut.simulate": (20, 140),
    "run.certificate()": (45, 400),
    "taut.Player and all observe": (20, 90),
    "a later observe": (None, 12),
    "taut.hindsight": (25, 180),
    "taut.from_cvxpy, 3 variables": (40, 300),
}
"""Files and functions, at most."""

Function = tuple[str, str]
"""A file and a qualified name."""


class Walk:
    """The functions of a package that are entered while the walk is watched.

    Arguments:
        package: the folder of the package.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.functions: set[Function] = set()
        self.crossings: set[tuple[Function, Function]] = set()

    def counts(self) -> dict[str, int]:
        """The numbers of files, functions, and calls across files."""
        return {
            "files": len({file for file, _ in self.functions}),
            "functions": len(self.functions),
            "named": sum(not name.endswith(">") for _, name in self.functions),
            "calls across files": len(self.crossings),
        }

    @contextmanager
    def watched(self) -> Iterator[Walk]:
        """Count what is entered inside."""
        threading.setprofile(self._entered)
        sys.setprofile(self._entered)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def __or__(self, other: Walk) -> Walk:
        joint = Walk(self.package)
        joint.functions = self.functions | other.functions
        joint.crossings = self.crossings | other.crossings
        return joint

    def _entered(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not self._counts(frame):
            return
        function = _function(frame)
        self.functions.add(function)
        caller = frame.f_back
        while caller is not None and not self._counts(caller):
            caller = caller.f_back
        if caller is not None and _function(caller)[0] != function[0]:
            self.crossings.add((_function(caller), function))

    def _counts(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(self.package)


def _function(frame: FrameType) -> Function:
    return frame.f_code.co_filename, frame.f_code.co_qualname


def main() -> None:
    """Walk through all cases and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    rows = [
        row(name, counts)
        for case in CASES
        for name, counts in json.loads(setting.start("benchmarks.walk", "walk", case)).items()
    ]
    report("walk", rows, asked.json, "What a call enters in src/taut, in a new process")


def row(name: str, counts: dict[str, int]) -> dict[str, Any]:
    """Counts beside the aim."""
    files, functions = AIMS.get(name, (None, None))
    met: Any = ""
    if functions is not None:
        met = (files is None or counts["files"] <= files) and counts["functions"] <= functions
    aim = {"files, at most": files or "", "functions, at most": functions or ""}
    return {"call": name, **counts, **aim, "met": met}


def _load(package: Any) -> None:
    """Load all public names: each is loaded when it is first used, and imports are no calls."""
    for name in package.__all__:
        getattr(package, name)


def _example() -> tuple[Any, Any]:
    """README's problem and costs."""
    import jax.numpy as jnp
    import numpy as np

    import taut

    _load(taut)
    problem = taut.Problem(
        lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    )
    return problem, np.random.default_rng(0).uniform(size=(10, 5_000, 2))


def _simulate() -> dict[str, Walk]:
    import taut

    problem, costs = _example()
    with Walk(PACKAGE).watched() as simulated:
        run = taut.simulate(problem, costs, seeds=10)
    with Walk(PACKAGE).watched() as certified:
        run.certificate()
    return {"taut.simulate": simulated, "run.certificate()": certified}


def _player() -> dict[str, Walk]:
    import taut

    problem, costs = _example()
    with Walk(PACKAGE).watched() as created:
        player = taut.Player(problem)
    with Walk(PACKAGE).watched() as first:
        player.observe(costs[0, 0])
    player.observe(costs[0, 1])
    with Walk(PACKAGE).watched() as later:
        player.observe(costs[0, 2])
    return {
        "taut.Player": created,
        "the first observe": first,
        "a later observe": later,
        "taut.Player and all observe": created | first | later,
    }


def _hindsight() -> dict[str, Walk]:
    import taut

    problem, costs = _example()
    with Walk(PACKAGE).watched() as solved:
        taut.hindsight(problem, costs, seeds=10)
    return {"taut.hindsight": solved}


def _from_cvxpy() -> dict[str, Walk]:
    import cvxpy as cp

    import taut

    power, battery = cp.Variable(3, name="power", nonneg=True), cp.Variable(name="battery")
    reserve = cp.Variable(name="reserve", nonneg=True)
    demand = cp.Parameter(name="demand", bounds=[1, 4])
    price = cp.Parameter(3, name="price", bounds=[0, 1])
    cost = price @ power + cp.square(cp.sum(power) + battery - demand) + 0.1 * reserve
    limits = [power <= 2, cp.abs(battery) <= 1, reserve <= 1, cp.norm(power) <= 3 - reserve]
    _load(taut)
    with Walk(PACKAGE).watched() as translated:
        taut.from_cvxpy(cost, limits)
    return {"taut.from_cvxpy, 3 variables": translated}


CASES: dict[str, Callable[[], dict[str, Walk]]] = {
    "simulate": _simulate,
    "player": _player,
    "hindsight": _hindsight,
    "from_cvxpy": _from_cvxpy,
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["walk"]:
        print(json.dumps({name: walk.counts() for name, walk in CASES[sys.argv[2]]().items()}))
    else:
        main()

"""The file of a player: an npz archive with a JSON header, as `taut.storage` writes it.

The header holds learner, domain, feedback and the types of the data; the arrays are those of the
learner's state, the totals, the history and the extremes, each under the name of its part.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import arguments, files
from ..engine import VERSION, Array
from ..learners import Learner
from ..problem.feedback import Feedback, as_feedback
from ..problem.problem import Problem

__all__ = [
    "FORMAT",
    "as_arrays",
    "as_parts",
    "check_size",
    "header",
    "read",
    "saved_feedback",
    "saved_names",
]

FORMAT = 3
READABLE = (1, 2, FORMAT)
PARTS = ("state", "totals", "history", "extremes")


def header(
    learner: Any,
    problem: Problem,
    feedback: Feedback | None,
    counts: tuple[int, int],
    dtype: Any,
    data: Any,
    names: tuple[str, ...] | None,
) -> dict[str, Any]:
    """Return the header of a file.

    Arguments:
        learner: the learner.
        problem: the problem, of which the domain is stored.
        feedback: the feedback, or None.
        counts: the number of constraints that the learner sees, and that of announced constraints.
        dtype: the float type of all computations.
        data: the description of the data of earlier rounds.
        names: the names of the constraints, or None.
    """
    found = {
        "what": "player",
        "format": FORMAT,
        "version": VERSION,
        "learner": files.pack(learner),
        "domain": problem.domain.to_dict(),
        "count": counts[0],
        **({} if problem.announced is None else {"announced_count": counts[1]}),
        "dtype": str(dtype),
        "data": data,
    }
    if feedback is not None:
        found["feedback"] = files.pack(feedback)
    if names is not None:
        found["constraint_names"] = list(names)
    return found


def saved_names(saved: Mapping[str, Any], count: int) -> tuple[str, ...] | None:
    """Return the names of the constraints in a header; None if it has none."""
    names = saved.get("constraint_names")
    if names is None:
        return None
    if not isinstance(names, list) or [type(name) for name in names] != [str] * count:
        raise ValueError(f"constraint_names is not a list of {count} texts")
    return tuple(names)


def as_arrays(parts: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Return the arrays of all parts under one name each."""
    return {
        f"{part}/{name}": array
        for part, entries in parts.items()
        for name, array in entries.items()
    }


def as_parts(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """Return the arrays of a file by part."""
    parts: dict[str, dict[str, Array]] = {part: {} for part in PARTS}
    for name, array in arrays.items():
        part, _, entry = name.partition("/")
        parts["totals" if part == "ledger" else part][entry] = (
            array  # in format 1 the totals were called ledger
        )
    return parts


def read(
    path: str | Path, problem: Problem, learner: Any = None
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read a file and check that its header is one of a player for this problem, and by this
    learner if one is given."""
    saved, arrays = files.read_arrays(arguments.path("path", path))
    if (
        saved.get("what") != "player"
        or saved.get("format") not in READABLE
        or type(saved["format"]) is not int
    ):
        came = f"{saved.get('what')!r} in format {saved.get('format')!r}"
        raise ValueError(
            f"path: got {path}, with {came}; expected 'player' in format "
            f"{' or '.join(map(str, READABLE))}"
        )
    try:
        files.refuse_newer(saved.get("version"))
        wanted = {"learner": dict, "domain": dict, "count": int, "dtype": str}
        for name, kind in wanted.items():
            if type(saved.get(name)) is not kind:
                raise ValueError(f"{name} is {saved.get(name)!r}")
        by, dtype = files.unpack(saved["learner"]), np.dtype(saved["dtype"])
        if not isinstance(by, Learner):
            raise ValueError(f"learner is {saved['learner']!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"path: got {path}, damaged ({error}); expected a player that taut saved"
        ) from error
    if learner is not None and not files.same(files.pack(learner), saved["learner"]):
        raise ValueError(
            f"learner: got {learner!r}, but {path} is by {by!r}; expected the learner that saved it"
        )
    if not files.same(problem.domain.to_dict(), saved["domain"]):
        raise ValueError(
            f"problem: got the domain {problem.domain!r}; expected that in {path}: "
            f"{saved['domain']}"
        )
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(
            f'path: got {path} in {dtype}; expected jax.config.update("jax_enable_x64", True) '
            "before it"
        )
    return saved, arrays


def check_size(
    learner: Any,
    problem: Problem,
    saved: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Array]],
) -> None:
    """Raise ValueError if the learner of a file has another state than the file, before any memory
    is taken for it.

    A small file could otherwise name a learner with a memory of 10^9 rounds, or 10^9 constraints.
    """
    count, announced = saved["count"], saved.get("announced_count", 0)
    if type(announced) is not int or min(count, announced) < 0:
        raise ValueError(f"count is {count} and announced_count is {announced}")
    stored = sum(array.size for entries in parts.values() for array in entries.values())
    if count + announced > stored:
        raise ValueError(f"it has {count + announced} constraints, but {stored} numbers")
    if any(array.dtype.kind == "f" and np.isnan(array).any() for array in parts["state"].values()):
        raise ValueError("the state contains NaN")
    x1 = jax.ShapeDtypeStruct(problem.domain.shape, np.dtype(saved["dtype"]))
    needed = sum(
        leaf.size for leaf in jax.tree.leaves(jax.eval_shape(lambda x: learner.init(x, count), x1))
    )
    if needed > stored:
        raise ValueError(f"its learner has a state of {needed} numbers, but it contains {stored}")


def saved_feedback(path: str | Path, packed: Any, given: Feedback | None) -> Feedback | None:
    """Return the feedback of a file, or the given one if it is the same."""
    try:
        found = as_feedback(files.unpack(packed))
    except (KeyError, TypeError, ValueError) as error:
        if given is None or not files.same(
            files.pack(given), packed
        ):  # a function of the user is not in the file
            raise ValueError(
                f"path: got {path}, damaged ({error}); expected a player that taut saved"
            ) from error
        return given
    if given is None:
        return found
    if not files.same(files.pack(given), packed):
        raise ValueError(
            f"feedback: got {given!r}, but {path} is by {found!r}; expected the same feedback"
        )
    return given

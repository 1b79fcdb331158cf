"""The file of a player: an npz archive with a JSON header, as `taut.storage` writes it.

The header holds learner, domain, feedback and the types of the data; the arrays are those of the
learner's state, the totals, the history, the extremes, the rounds that are missing, the fingerprint
of the problem and the last data of a guard, each under the name of its part.
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
    "check_domain",
    "check_size",
    "header",
    "opened",
    "read",
    "saved_feedback",
    "saved_names",
    "saved_texts",
]

FORMAT = 4
"""The only format that is read."""
PARTS = ("state", "totals", "history", "extremes", "missing", "problem", "last")


def header(
    learner: Any,
    problem: Problem,
    feedback: Feedback | None,
    counts: tuple[int, int],
    dtype: Any,
    data: Any,
    names: tuple[str, ...] | None,
    tag: dict[str, Any],
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
        tag: the version tag of the problem.
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
        "problem": tag,
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


def saved_texts(texts: Any) -> tuple[str, ...]:
    """Return sentences of a header."""
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"migration is {texts!r}")
    return tuple(texts)


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
        parts[part][entry] = array
    return parts


def opened(source: str | Path | bytes) -> tuple[dict[str, Any], dict[str, Array], str]:
    """Read a file, or the bytes of one. Returns header, arrays, and how errors call the source."""
    if isinstance(source, bytes):
        shown = f"{len(source)} bytes"
        return *files.arrays_from_bytes(source, "content", shown), f"content: got {shown}"
    return *files.read_arrays(arguments.path("path", source)), f"path: got {source}"


def read(
    source: str | Path | bytes, learner: Any = None
) -> tuple[dict[str, Any], dict[str, Array], str]:
    """Read a file, or the bytes of one, and check that its header is one of a player, and by this
    learner if one is given. Returns what `opened` does."""
    saved, arrays, came = opened(source)
    what, number = saved.get("what"), saved.get("format")
    if what != "player" or type(number) is not int or number != FORMAT:
        raise ValueError(
            f"{came}, with {what!r} in format {number!r}; expected 'player' in format {FORMAT}"
        )
    try:
        files.refuse_newer(saved.get("version"))
        wanted = {"learner": dict, "domain": dict, "count": int, "dtype": str, "problem": dict}
        for name, kind in wanted.items():
            if type(saved.get(name)) is not kind:
                raise ValueError(f"{name} is {saved.get(name)!r}")
        by, dtype = files.unpack(saved["learner"]), np.dtype(saved["dtype"])
        if not isinstance(by, Learner):
            raise ValueError(f"learner is {saved['learner']!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{came}, damaged ({error}); expected a player that taut saved") from error
    if learner is not None and not files.same(files.pack(learner), saved["learner"]):
        raise ValueError(
            f"learner: got {learner!r}, but {came.partition('got ')[2]} is by {by!r}; expected the "
            "learner that saved it"
        )
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(
            f'{came} in {dtype}; expected jax.config.update("jax_enable_x64", True) before it'
        )
    return saved, arrays, came


def check_domain(problem: Problem, saved: Mapping[str, Any]) -> str:
    """Say how the domain of a problem differs from that in a header; empty if it is the same."""
    if files.same(problem.domain.to_dict(), saved["domain"]):
        return ""
    return (
        f"problem: got the domain {problem.domain!r}; expected that in the file: {saved['domain']}"
    )


def check_size(
    learner: Any,
    shape: tuple[int, ...],
    saved: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Array]],
) -> None:
    """Raise ValueError if the learner of a file has another state than the file, before any memory
    is taken for it; `shape` is that of a decision.

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
    x1 = jax.ShapeDtypeStruct(shape, np.dtype(saved["dtype"]))
    needed = sum(
        leaf.size for leaf in jax.tree.leaves(jax.eval_shape(lambda x: learner.init(x, count), x1))
    )
    if needed > stored:
        raise ValueError(f"its learner has a state of {needed} numbers, but it contains {stored}")


def saved_feedback(came: str, packed: Any, given: Feedback | None) -> Feedback | None:
    """Return the feedback of a file, or the given one if it is the same."""
    try:
        found = as_feedback(files.unpack(packed))
    except (KeyError, TypeError, ValueError) as error:
        if given is None or not files.same(
            files.pack(given), packed
        ):  # a function of the user is not in the file
            raise ValueError(
                f"{came}, damaged ({error}); expected a player that taut saved"
            ) from error
        return given
    if given is None:
        return found
    if not files.same(files.pack(given), packed):
        raise ValueError(
            f"feedback: got {given!r}, but {came.partition('got ')[2]} is by {found!r}; expected "
            "the same feedback"
        )
    return given

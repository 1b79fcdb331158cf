"""The data of rounds: what players observe must be like what they observed first, in structure,
shapes and types, and have the expected numbers of constraints."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np

from .. import arguments
from ..engine import Array
from ..play.announced import check_announced_count, traced_count
from ..problem.compatibility import cast_data, count_constraints
from ..problem.problem import Problem
from .guards import Refused

LeafType = tuple[tuple[int, ...], np.dtype[Any]]


class DataTypes:
    """What the data of earlier rounds are like."""

    def __init__(self, problem: Problem, dtype: np.dtype[Any], counts: tuple[int, int]) -> None:
        self._problem, self._dtype, self.counts = problem, dtype, counts
        self.known = False
        """Whether structure, shapes and types are known."""
        # Structure of the data, then shape and type per leaf.
        self._types: tuple[Any, list[LeafType]] | None = None
        # The same in a file, with a text for a structure that JSON has no values for.
        self._saved: tuple[str, list[LeafType]] | None = None
        # The same if the data are one array, which is played as it is.
        self._array: LeafType | None = None

    @property
    def example(self) -> Any:
        """Zeros in the form of the data that were accepted."""
        assert self._types is not None
        structure, types = self._types
        return jax.tree.unflatten(structure, [np.zeros(*each) for each in types])

    @property
    def skeleton(self) -> Any:
        """Structure, shapes and types of dicts, tuples and lists of arrays in values for JSON. None
        before the first round, and for other data."""
        return skeleton(self.example) if self.known else None

    def described(self) -> Any:
        """Describe the data of earlier rounds in values for JSON: their skeleton, or for data of
        other classes a text and the shapes and types of all leaves. None before the first round."""
        plain, saved = self.skeleton, self._saved
        if self._types is not None:
            saved = str(self._types[0]), self._types[1]
        if plain is not None or saved is None:
            return plain
        return [saved[0], [[list(shape), str(dtype)] for shape, dtype in saved[1]]]

    def cast(self, z: Any) -> Any:
        """Return data in the types of earlier rounds, or raise an error if they do not fit."""
        leaves, structure = jax.tree.flatten(z)
        arrays, came = [], []
        for leaf in leaves:
            arrays.append(cast_data("z", leaf, self._dtype))
            came.append(arrays[-1].shape)
        if self._types is not None:
            expected, types = self._types
        elif self._saved is not None:
            if str(structure) != self._saved[0]:
                raise ValueError(
                    f"z: got data of structure {structure}; expected {self._saved[0]}, as before"
                )
            expected, types = structure, self._saved[1]
        else:
            data = jax.tree.unflatten(structure, arrays)
            self._check_first(data)
            return data
        shapes = [shape for shape, _ in types]
        if structure != expected or came != shapes:
            raise ValueError(
                f"z: got data of shape {jax.tree.unflatten(structure, came)}; expected "
                f"{jax.tree.unflatten(expected, shapes)}, as before"
            )
        for i, (_, dtype) in enumerate(types):
            if arrays[i].dtype.kind == "f" and dtype.kind != "f":
                raise TypeError(
                    f"z: got values of type {arrays[i].dtype}; expected {dtype}, as before"
                )
            arrays[i] = arrays[i].astype(dtype, copy=False)
        return jax.tree.unflatten(structure, arrays)

    def _check_first(self, data: Any) -> None:
        """Refuse first data with which there are other numbers of constraints."""
        problem, x = self._problem, np.zeros(self._problem.domain.shape, self._dtype)
        count = count_constraints(problem, x, problem.given(data, x), "z")
        if count != self.counts[0]:
            raise ValueError(
                f"z: got data with which constraints(x, z) returns {count} values; expected "
                f"{self.counts[0]}"
            )
        if problem.announced is not None:
            check_announced_count(problem, x, data, self.counts[1])

    def quick_cast(self, z: Any) -> Array | None:
        """Cast an array that is like those of earlier rounds; None for anything else, which `cast`
        takes or refuses."""
        if type(z) is not np.ndarray or self._array is None:
            return None
        shape, dtype = self._array
        if z.shape != shape:
            return None
        if z.dtype == dtype:
            return z
        if z.dtype != np.float64 or dtype.kind != "f":
            return None
        with np.errstate(over="ignore"):  # infinite values are refused later, with their round
            return z.astype(dtype)

    def remember(self, z: Any) -> None:
        """Remember what data are like that were accepted."""
        if not self.known:
            leaves, structure = jax.tree.flatten(z)
            types = []
            for leaf in leaves:
                types.append((leaf.shape, leaf.dtype))
            self._types, self.known = (structure, types), True
            # Models written in CVXPY arrange data before they are cast.
            plain = type(self._problem).arrange is Problem.arrange
            if plain and jax.tree_util.treedef_is_leaf(structure):
                self._array = types[0]

    def forget(self) -> None:
        """Forget the data of the only round, which was taken back."""
        self._types, self._array, self.known = None, None, False

    def restore(self, header: Mapping[str, Any]) -> None:
        """Continue from what `described` put into the header of a file. Raises ValueError if it is
        something else."""
        plain, text = data_in(header), header.get("data")
        if plain is not None:
            self.remember(example_of(plain))
        elif isinstance(text, list):
            structure, leaves = text
            types = [(tuple(map(int, shape)), np.dtype(dtype)) for shape, dtype in leaves]
            if type(structure) is not str or any(
                dtype.kind not in "fiub" or min(shape, default=0) < 0 for shape, dtype in types
            ):
                raise ValueError(f"its data are {text!r}")
            self._saved = structure, types


def data_in(header: Mapping[str, Any]) -> Any:
    """Return the skeleton of the data of rounds in the header of a file, if they have one. Older
    files have it in the description of the problem, beside a text for all kinds of data."""
    if isinstance(header.get("data"), list):
        return header["problem"].get("data")
    return header.get("data")


def constraint_count(
    problem: Problem, asked: int | None, owner: str, data: Any = None, announced: bool = False
) -> int:
    """Return the number of constraints that a learner sees, or of announced ones.

    Arguments:
        problem: the problem.
        asked: the number according to the user, needed only if it depends on data.
        owner: what the user makes: "Player" or "Fleet".
        data: what is known of the data of all rounds, as shapes.
        announced: whether to count announced constraints.
    """
    name = "announced_count" if announced else "count"
    constraints = problem.announced if announced else problem.constraints
    known = problem.announced_count if announced else problem.constants.constraint_count
    if known is None:
        known = 0 if constraints is None else traced_count(problem, constraints, data)
    if asked is None:
        if known is None:
            raise ValueError(
                f"{name}: got None; expected the number of constraints, which depends on the "
                f"round's data: {owner}(..., {name}=m)"
            )
        return known
    if constraints is None:
        raise ValueError(
            f"announced_count: got {asked}; expected None for a problem without announced "
            "constraints"
        )
    count = arguments.count(name, asked)
    if known is not None and known != count:
        raise ValueError(f"{name}: got {count}; expected {known}, as the problem has")
    return count


def checked_measurements(
    gradient: Any,
    excess: Any,
    jacobian: Any,
    loss: Any,
    *,
    count: int,
    shape: tuple[int, ...],
    dtype: Any,
) -> list[Array]:
    """Return loss, gradient, excess and Jacobian of `count` constraints at a decision of this
    shape."""
    wanted = {
        "gradient": (gradient, shape),
        "excess": (excess, (count,)),
        "jacobian": (jacobian, (count, *shape)),
    }
    numbers = [np.asarray(np.nan if loss is None else arguments.real("loss", loss), dtype)]
    for name, (value, expected) in wanted.items():
        if value is None:
            raise TypeError(
                f"{name}: got None; expected an array of shape {expected} beside the other "
                "measurements"
            )
        array = arguments.finite(name, value)
        if count == 1 and array.shape == expected[1:] and name != "gradient":
            array = array[None]
        if array.shape != expected:
            raise ValueError(f"{name}: got shape {array.shape}; expected {expected}")
        numbers.append(array.astype(dtype))
    return numbers


def check_round(asked: Any, expected: int, pending: Collection[int]) -> None:
    """Refuse the number of a round that is not the next one.

    `pending` are the rounds that were skipped and may still come.
    """
    round = arguments.count("round", asked)
    if round == expected:
        return
    why = "which is not the next"
    if round < expected:
        why = "which is over"
    if round in pending:
        why = f"which was skipped (call player.observe_late({round}, z) for it)"
    raise Refused(f"round: got {round}, {why}; expected {expected}", came=round, expected=expected)


def skeleton(tree: Any) -> Any:
    """Describe data in values for JSON: dicts, tuples and lists of [shape, type].

    Returns None for data that contain anything else.
    """
    if isinstance(tree, np.ndarray):
        return {"leaf": [list(tree.shape), str(tree.dtype)]}
    if type(tree) in (tuple, list):
        parts = [skeleton(part) for part in tree]
        return None if None in parts else {type(tree).__name__: parts}
    if type(tree) is dict and all(isinstance(name, str) for name in tree):
        named = {name: skeleton(part) for name, part in tree.items()}
        return None if None in named.values() else {"dict": named}
    return None


def example_of(described: Any, rng: np.random.Generator | None = None) -> Any:
    """Return random data of the described structure; ValueError if it is no description."""
    rng = np.random.default_rng(0) if rng is None else rng
    if not isinstance(described, dict) or len(described) != 1:
        raise ValueError(f"its data are {described!r}")
    kind, parts = next(iter(described.items()))
    if kind == "leaf":
        shape, dtype = tuple(map(int, parts[0])), np.dtype(parts[1])
        negative = min(shape, default=0) < 0
        if negative or dtype.kind not in "fiub" or np.prod(shape, dtype=float) > 2**24:
            raise ValueError(f"its data are {described!r}")
        if dtype.kind == "f":
            return rng.normal(size=shape).astype(dtype)
        return rng.integers(0, 2, size=shape).astype(dtype)
    if kind == "dict":
        return {name: example_of(part, rng) for name, part in parts.items()}
    if kind in ("tuple", "list"):
        made = [example_of(part, rng) for part in parts]
        return tuple(made) if kind == "tuple" else made
    raise ValueError(f"its data are {described!r}")

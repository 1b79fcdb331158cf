"""Structure, shapes and types of the data that a player observes: those of later rounds must be
those of the first."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..engine import Array
from ..problem.compatibility import cast_data
from .tag import skeleton

__all__ = ["DataTypes"]

LeafType = tuple[tuple[int, ...], np.dtype[Any]]


class DataTypes:
    """What is known of the data of earlier rounds.

    Arguments:
        dtype: the float type of the player's computations.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._known: tuple[Any, list[LeafType]] | None = (
            None  # structure of the data, then shape and type per leaf
        )
        self._saved: tuple[str, list[LeafType]] | None = None  # the same as read from a file
        self._array: LeafType | None = None  # the same if the data are one array
        self.structure: Any = None
        """The same in values for JSON, if the data are dicts, tuples or lists of arrays."""
        self.known = False
        """Whether the data of a round were accepted in this process."""

    def cast(self, z: Any) -> tuple[Any, bool]:
        """Cast data to the types of earlier rounds, or raise an error if they do not fit.

        Returns the data, and whether they are the first.
        """
        leaves, structure = jax.tree.flatten(z)
        arrays = [cast_data("z", leaf, self._dtype) for leaf in leaves]
        if self._known is None and self._saved is not None:
            if str(structure) != self._saved[0]:
                raise ValueError(
                    f"z: got data of structure {structure}; expected {self._saved[0]}, as before"
                )
            self._known = structure, self._saved[1]
        if self._known is None:
            return jax.tree.unflatten(structure, arrays), True
        expected, types = self._known
        shapes = [shape for shape, _ in types]
        if structure != expected or [array.shape for array in arrays] != shapes:
            came = jax.tree.unflatten(structure, [array.shape for array in arrays])
            raise ValueError(
                f"z: got data of shape {came}; expected {jax.tree.unflatten(expected, shapes)}, "
                "as before"
            )
        for array, (_, dtype) in zip(arrays, types, strict=True):
            if array.dtype.kind == "f" and dtype.kind != "f":
                raise TypeError(f"z: got values of type {array.dtype}; expected {dtype}, as before")
        alike = [
            array.astype(dtype, copy=False) for array, (_, dtype) in zip(arrays, types, strict=True)
        ]
        return jax.tree.unflatten(structure, alike), False

    def quick_cast(self, z: Any) -> Array | None:
        """Cast an array that is like those of earlier rounds; None for anything else, which `cast`
        takes or refuses."""
        if type(z) is not np.ndarray or self._array is None:
            return None
        shape, dtype = self._array
        if z.shape != shape or (
            z.dtype != dtype and not (z.dtype == np.float64 and dtype.kind == "f")
        ):
            return None
        with np.errstate(over="ignore"):  # infinite values are refused later, with their round
            return z.astype(dtype, copy=False)

    def remember(self, z: Any) -> None:
        """Remember the data of the first round that was accepted."""
        if self._known is None:
            leaves, structure = jax.tree.flatten(z)
            self._known = structure, [(leaf.shape, leaf.dtype) for leaf in leaves]
            self.known, self.structure = True, skeleton(z)
            self._array = self._known[1][0] if jax.tree_util.treedef_is_leaf(structure) else None

    def forget(self) -> None:
        """Forget the data of the only round, which was taken back."""
        self._known = self._saved = self._array = self.structure = None
        self.known = False

    def described(self) -> Any:
        """Describe the data of earlier rounds for a file; None before the first."""
        known = self._saved if self._known is None else (str(self._known[0]), self._known[1])
        return (
            None
            if known is None
            else [known[0], [[list(shape), str(dtype)] for shape, dtype in known[1]]]
        )

    def restore(self, described: Any, skeleton: Any = None) -> None:
        """Continue from what `described` and `structure` returned. Raises ValueError if it is
        something else."""
        if described is None:
            return
        self.structure = skeleton
        structure, types = described
        found = [(tuple(map(int, shape)), np.dtype(dtype)) for shape, dtype in types]
        if type(structure) is not str or any(
            dtype.kind not in "fiub" or min(shape, default=0) < 0 for shape, dtype in found
        ):
            raise ValueError(f"its data are {described!r}")
        self._saved = structure, found

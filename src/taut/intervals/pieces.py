"""Affine pieces: values as maxima, or minima, of affine functions of the decision.

Enclosures in a space with `pieces=True` have them. Sums of maxima have all sums of their pieces. A
value of which they are not known, such as a product of two values that depend on the decision,
raises `Unknown`: the function then counts as not piecewise affine, even if it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ..engine import Array

MOST = 256
"""Pieces of an entry, at most."""
ROOM = 4_000_000
"""Numbers in an array of pieces, at most."""


class Unknown(Exception):
    """No bound can be derived; the message says why."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """An array whose entries are maxima or minima of affine functions of the flat decision."""

    functions: Array
    """(*shape, piece, entry of the decision and one more): slopes, and the offset last."""
    sign: int
    """1 for maxima, -1 for minima, 0 for a single affine function."""

    def __post_init__(self) -> None:
        _check_room(self.count, self.functions.size)

    @classmethod
    def of_numbers(cls, numbers: Array, size: int) -> Pieces:
        """Numbers that do not depend on the decision, which has so many entries."""
        functions = np.zeros((*numbers.shape, 1, size + 1))
        functions[..., 0, -1] = numbers
        return cls(functions, 0)

    @property
    def count(self) -> int:
        """The number of pieces of each entry."""
        return int(self.functions.shape[-2])

    @property
    def rows(self) -> Array:
        """All affine functions, (function, entry of the decision and one more)."""
        return self.functions.reshape(-1, self.functions.shape[-1])

    def moved(self, function: Callable[[Array], Array]) -> Pieces:
        """The entries at other places: a function of arrays whose first axes are those of the
        value."""
        return Pieces(function(self.functions), self.sign)

    def summed(self, function: Callable[[Array], Array]) -> Pieces:
        """The same for sums of entries, which have many pieces unless each entry has only one."""
        if self.sign:
            raise Unknown("sums of maxima")
        return self.moved(function)

    def __neg__(self) -> Pieces:
        return Pieces(-self.functions, -self.sign)

    def __add__(self, other: Pieces) -> Pieces:
        count = self.count * other.count
        _check_room(count, count * self.functions[..., 0, :].size)
        sums = self.functions[..., :, None, :] + other.functions[..., None, :, :]
        functions = sums.reshape(*sums.shape[:-3], count, sums.shape[-1])
        return Pieces(functions, _sign(self, other))

    def times(self, factor: Array, own: str, other: str, out: str) -> Pieces:
        """The products with known numbers, `np.einsum(f"{own},{other}->{out}", value, factor)`."""
        sign = self.sign
        if sign and np.any(factor < 0):
            if np.any(factor > 0):
                raise Unknown("factors of both signs")
            sign = -sign
        summed = "".join(letter for letter in own if letter not in out)
        if not summed:
            return Pieces(np.einsum(f"{own}zZ,{other}->{out}zZ", self.functions, factor), sign)
        lengths = dict(zip(f"{own}zZ{other}", self.functions.shape + factor.shape, strict=True))
        _check_room(self.count, math.prod(lengths.values()))
        products = np.einsum(f"{own}zZ,{other}->{out}{summed}zZ", self.functions, factor)
        shape = [lengths[letter] for letter in f"{out}zZ"]
        return Pieces(products.reshape(*shape[:-2], -1, *shape[-2:]), sign).total()

    def total(self) -> Pieces:
        """The sum over the last axis."""
        if not self.sign:
            return Pieces(self.functions.sum(axis=-3), 0)
        length = self.functions.shape[-3]
        if length == 0 or self.count**length > MOST:
            raise Unknown("the affine pieces are too many")
        return reduce(
            Pieces.__add__, (Pieces(self.functions[..., j, :, :], self.sign) for j in range(length))
        )

    def largest(self) -> Pieces:
        """The largest entry of the last axis."""
        *shape, length, count, width = self.functions.shape
        return _maximum(self.functions.reshape(*shape, length * count, width), self.sign)

    def size(self) -> Pieces:
        """The absolute values."""
        if self.sign:
            raise Unknown("the absolute value of a maximum")
        return _maximum(np.concatenate([self.functions, -self.functions], axis=-2), 0)


def joined(*parts: Pieces) -> Pieces:
    """All entries of several flat values, one after another."""
    most = max(part.count for part in parts)
    return Pieces(np.concatenate([_repeated(part, most) for part in parts]), _sign(*parts))


def larger(*parts: Pieces) -> Pieces:
    """The largest of several values, entry by entry."""
    shape = np.broadcast_shapes(*(part.functions.shape[:-2] for part in parts))
    wide = [np.broadcast_to(part.functions, (*shape, *part.functions.shape[-2:])) for part in parts]
    return _maximum(np.concatenate(wide, axis=-2), _sign(*parts))


def chosen(which: Array, no: Pieces, yes: Pieces) -> Pieces:
    """`yes` where `which` is true and `no` elsewhere."""
    most = max(no.count, yes.count)
    functions = np.where(which[..., None, None], _repeated(yes, most), _repeated(no, most))
    return Pieces(functions, _sign(no, yes))


def _maximum(functions: Array, sign: int) -> Pieces:
    """The maxima of maxima of this sign."""
    if sign < 0:
        raise Unknown("a maximum and a minimum are combined")
    return Pieces(functions, int(functions.shape[-2] > 1))


def _repeated(pieces: Pieces, count: int) -> Array:
    """The same maxima with more pieces: the last one again and again."""
    return pieces.functions[..., np.minimum(np.arange(count), pieces.count - 1), :]


def _sign(*of: Pieces) -> int:
    signs = {pieces.sign for pieces in of} - {0}
    if len(signs) > 1:
        raise Unknown("a maximum and a minimum are combined")
    return signs.pop() if signs else 0


def _check_room(count: int, numbers: int) -> None:
    if count > MOST or numbers > ROOM:
        raise Unknown("the affine pieces are too many")

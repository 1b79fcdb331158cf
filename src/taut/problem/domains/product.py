"""Products: several decisions at once, each in a domain of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import arguments, files
from ...extras import optional
from .base import Domain, domain_from_dict, norm, shape_of


def _checked(parts: Sequence[Any]) -> tuple[Domain, ...]:
    for i, part in enumerate(parts):
        if not isinstance(part, Domain):
            raise TypeError(f"parts: got {part!r} at index {i}; expected a Domain")
    return tuple(parts)


@dataclass(frozen=True, init=False, eq=False)
class Product(Domain, leaves=("parts",)):
    """The product of domains: a decision joins the flat decisions of the parts, in order."""

    parts: tuple[Domain, ...]
    shape: tuple[int, ...]

    def __init__(self, *parts: Domain) -> None:
        if not parts:
            raise TypeError("parts: got none; expected at least one Domain")
        size = sum(math.prod(part.shape) for part in _checked(parts))
        self._set(parts=parts, shape=(size,))

    @property
    def pieces(self) -> tuple[tuple[Domain, Any], ...]:
        """Each part with the slice of its entries."""
        ends = np.cumsum([math.prod(part.shape) for part in self.parts]).tolist()
        return tuple(zip(self.parts, map(slice, [0, *ends[:-1]], ends), strict=True))

    def project(self, x: jax.Array) -> jax.Array:
        """Each part on its own domain."""
        pieces = self.split(self._decision(x))
        return self.join(
            [part.project(piece) for part, piece in zip(self.parts, pieces, strict=True)]
        )

    def scaled(self, factor: float) -> Domain:
        """Every part times `factor`."""
        return type(self)(*(part.scaled(factor) for part in self.parts))

    def split(self, x: Any) -> tuple[Any, ...]:
        """The parts of the decision `x`, each in its own shape."""
        flat = x.reshape(-1)
        return tuple(flat[places].reshape(part.shape) for part, places in self.pieces)

    def join(self, parts: Sequence[Any]) -> jax.Array:
        """The decision whose parts are `parts`."""
        if len(parts) != len(self.parts):
            raise ValueError(f"parts: got {len(parts)}; expected {len(self.parts)}")
        pieces = [part._decision(x) for part, x in zip(self.parts, parts, strict=True)]
        return jnp.concatenate([piece.ravel() for piece in pieces])

    @property
    def centre(self) -> jax.Array:
        """The parts' centres."""
        return self.join([part.centre for part in self.parts])

    @property
    def radius(self) -> Any:
        """The root of the sum of the parts' squared radii."""
        return norm([part.radius for part in self.parts])

    @property
    def diameter(self) -> Any:
        """The root of the sum of the parts' squared diameters."""
        return norm([part.diameter for part in self.parts])

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether each part is in its own domain."""
        pieces = zip(self.parts, self.split(self._decision(x)), strict=True)
        return jnp.all(jnp.stack([part.contains(piece, tolerance) for part, piece in pieces]))

    def sample(self, key: jax.Array) -> jax.Array:
        """Independent parts."""
        keys = jax.random.split(key, len(self.parts))
        return self.join([part.sample(keys[i]) for i, part in enumerate(self.parts)])

    def linear_minimiser(self, direction: jax.Array) -> jax.Array:
        """Each part's own minimiser."""
        direction = self._decision(direction, "direction")
        pieces = zip(self.parts, self.split(direction), strict=True)
        return self.join([part.linear_minimiser(piece) for part, piece in pieces])

    def to_cvxpy(self, x: Any) -> list[Any]:
        """The parts' constraints on their entries of `x`."""
        cp = optional("cvxpy")

        flat = cp.vec(x, order="C")
        return [
            constraint
            for part, places in self.pieces
            for constraint in part.to_cvxpy(cp.reshape(flat[places], part.shape, order="C"))
        ]

    def to_dict(self) -> dict[str, Any]:
        """The parts' descriptions."""
        parts = [part.to_dict() for part in self.parts]
        return {"kind": files.class_name(type(self)), "parts": parts}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The domain that `to_dict` described."""
        return cls(*map(domain_from_dict, description["parts"]))


@dataclass(frozen=True, init=False, eq=False)
class Blocks(Product, leaves=("parts",), static=("places",)):
    """A product of domains: the entries of a decision at `places[k]`, counted in row order, form a
    point of `parts[k]`.

    >>> import numpy as np
    >>> from taut.problem.domains import Simplex
    >>> columns = Blocks(
    ...     [Simplex(2), Simplex(2)], [[0, 2], [1, 3]], shape=(2, 2)
    ... )  # every column of a matrix
    >>> columns.project(np.array([[1.0, 3.0], [1.0, 0.0]])).tolist()
    [[0.5, 1.0], [0.5, 0.0]]
    """

    places: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]

    def __init__(
        self,
        parts: Sequence[Domain],
        places: Sequence[Sequence[int]],
        shape: int | Sequence[int] | None = None,
    ) -> None:
        if not isinstance(parts, Sequence):
            raise TypeError(f"parts: got {arguments.shown(parts)}; expected a list of domains")
        where = tuple(tuple(int(i) for i in np.ravel(indices)) for indices in places)
        sizes = [math.prod(part.shape) for part in _checked(parts)]
        if not sizes or [len(indices) for indices in where] != sizes:
            raise ValueError(
                f"places: got {list(map(len, where))} entries for the parts; expected {sizes}"
            )
        if sorted(i for indices in where for i in indices) != list(range(sum(sizes))):
            raise ValueError(
                f"places: got {list(map(list, where))}; expected every place from 0 to "
                f"{sum(sizes) - 1} once"
            )
        wanted = (sum(sizes),) if shape is None else shape_of(shape)
        if math.prod(wanted) != sum(sizes):
            raise ValueError(f"shape: got {wanted}; expected {sum(sizes)} entries")
        self._set(parts=tuple(parts), places=where, shape=wanted)

    @property
    def pieces(self) -> tuple[tuple[Domain, Any], ...]:
        """Each part with the places of its entries."""
        return tuple(zip(self.parts, map(np.asarray, self.places), strict=True))

    def join(self, parts: Sequence[Any]) -> jax.Array:
        """The decision whose parts are `parts`."""
        return super().join(parts)[np.argsort(np.concatenate(self.places))].reshape(self.shape)

    def project(self, x: jax.Array) -> jax.Array:
        """Each part on its own domain. Parts of the same kind and shape are projected together."""
        pieces = self.split(self._decision(x))
        projected: list[Any] = [None] * len(pieces)
        for alike in _alike(self.parts):
            if len(alike) == 1:
                projected[alike[0]] = self.parts[alike[0]].project(pieces[alike[0]])
                continue
            domains = jax.tree.map(
                lambda *leaves: jnp.stack(list(map(jnp.asarray, leaves))),
                *(self.parts[i] for i in alike),
            )
            rows = jax.vmap(lambda domain, piece: domain.project(piece))(
                domains, jnp.stack([pieces[i] for i in alike])
            )
            for k, i in enumerate(alike):
                projected[i] = rows[k]
        return self.join(projected)

    def scaled(self, factor: float) -> Domain:
        """Every part times `factor`."""
        return type(self)([part.scaled(factor) for part in self.parts], self.places, self.shape)

    def to_dict(self) -> dict[str, Any]:
        """The parts' descriptions and places."""
        places = [list(indices) for indices in self.places]
        return super().to_dict() | {"places": places, "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The domain that `to_dict` described."""
        parts = list(map(domain_from_dict, description["parts"]))
        return cls(parts, description["places"], description["shape"])


def _alike(parts: tuple[Domain, ...]) -> list[list[int]]:
    """The indices of parts, grouped by structure and by the shapes of their numbers."""
    groups: dict[Any, list[int]] = {}
    for i, part in enumerate(parts):
        leaves, structure = jax.tree.flatten(part)
        groups.setdefault((structure, tuple(map(np.shape, leaves))), []).append(i)
    return list(groups.values())

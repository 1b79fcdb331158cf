"""Symmetric matrices whose eigenvalues lie in a simple set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import files
from ...extras import optional
from .balls import Ball, L1Ball
from .base import Domain, domain_from_dict, working
from .box import Box
from .simplex import Simplex


@dataclass(frozen=True, init=False, eq=False)
class Spectral(Domain, leaves=("eigenvalues",)):
    """The symmetric matrices whose eigenvalues form a point of the domain `eigenvalues`.

    `Spectral(Simplex(3))` holds the positive semidefinite 3x3 matrices with trace 1,
    `Spectral(Box(0, 2, shape=3))` those with eigenvalues between 0 and 2, and `Spectral(L1Ball(1.0,
    shape=3))` the symmetric ones with nuclear norm at most 1. The domain of the eigenvalues must
    not depend on their order.

    >>> import numpy as np
    >>> Spectral(Simplex(2)).project(np.array([[0.0, 3.0], [3.0, 0.0]])).round(12).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    eigenvalues: Domain
    shape: tuple[int, ...]

    def __init__(self, eigenvalues: Domain) -> None:
        kinds = (Ball, Box, L1Ball, Simplex)
        if type(eigenvalues) not in kinds or len(eigenvalues.shape) != 1:
            names = ", ".join(kind.__name__ for kind in kinds)
            raise TypeError(
                f"eigenvalues: got {eigenvalues!r}; expected one of {names}, of vectors"
            )
        for leaf in map(np.ravel, jax.tree.leaves(eigenvalues)):
            if np.any(leaf != leaf[0]):
                raise ValueError(
                    f"eigenvalues: got {eigenvalues!r}; expected the same numbers for every "
                    "entry, because eigenvalues have no order of their own"
                )
        self._set(eigenvalues=eigenvalues, shape=eigenvalues.shape * 2)

    @property
    def centre(self) -> jax.Array:
        """A multiple of the unit matrix."""
        return jnp.diag(jnp.asarray(self.eigenvalues.centre))

    @property
    def radius(self) -> Any:
        """That of the eigenvalues."""
        return self.eigenvalues.radius

    @property
    def diameter(self) -> Any:
        """That of the eigenvalues: two matrices are farthest with the same eigenvectors."""
        return self.eigenvalues.diameter

    def project(self, x: jax.Array) -> jax.Array:
        """The symmetric part with its eigenvalues projected."""
        x = self._decision(x)
        values, vectors = _decomposed(x.astype(working(x)), jnp)
        return ((vectors * self.eigenvalues.project(values)[None]) @ vectors.T).astype(x.dtype)

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether the matrix is symmetric and its eigenvalues are in their domain."""
        x = self._decision(x)
        wide = x.astype(working(x))
        values, _ = _decomposed(jnp.where(jnp.isfinite(wide), wide, 0), jnp)
        slack = self._slack(
            x, self.radius + jnp.max(jnp.abs(jnp.asarray(self.eigenvalues.centre))), tolerance
        )
        symmetric = jnp.max(jnp.abs(wide - wide.T)) <= 2 * slack
        return (
            symmetric
            & jnp.all(jnp.isfinite(wide))
            & self.eigenvalues.contains(values.astype(x.dtype), tolerance)
        )

    def sample(self, key: jax.Array) -> jax.Array:
        """Eigenvalues drawn from their domain with eigenvectors in random directions."""
        own, other = jax.random.split(key)
        vectors, _ = jnp.linalg.qr(jax.random.normal(other, self.shape))
        return (vectors * self.eigenvalues.sample(own)[None]) @ vectors.T

    def scaled(self, factor: float) -> Domain:
        """The eigenvalues' domain times `factor`."""
        return type(self)(self.eigenvalues.scaled(factor))

    def _minimisers(self, directions: Any, xp: Any) -> Any:
        """The direction's eigenvectors with the best eigenvalues for its own ones."""
        n = self.shape[0]
        values, vectors = _decomposed(directions.reshape(-1, n, n), xp)
        best = self.eigenvalues._minimisers(values, xp)
        matrices = (vectors * best[:, None, :]) @ xp.swapaxes(vectors, 1, 2)
        return matrices.reshape(directions.shape)

    def to_cvxpy(self, x: Any) -> list[Any]:
        """Symmetry, and semidefinite constraints or a norm."""
        cp = optional("cvxpy")

        inner, unit = self.eigenvalues, np.eye(self.shape[0])
        half, symmetry = (x + x.T) / 2, [x == x.T]
        if isinstance(inner, Simplex):
            return [*symmetry, half >> 0, cp.trace(x) == inner.total]
        if isinstance(inner, Box):
            low, high = float(np.ravel(inner.lower)[0]), float(np.ravel(inner.upper)[0])
            return [*symmetry, half - low * unit >> 0, high * unit - half >> 0]
        assert isinstance(inner, (Ball, L1Ball))
        offset = x - float(np.ravel(inner.middle)[0]) * unit
        if isinstance(inner, Ball):
            return [*symmetry, cp.norm(offset, "fro") <= inner.radius]
        return [*symmetry, cp.normNuc(offset) <= inner.radius]

    def to_dict(self) -> dict[str, Any]:
        """The eigenvalues' domain."""
        return {"kind": files.class_name(type(self)), "eigenvalues": self.eigenvalues.to_dict()}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The domain that `to_dict` described."""
        return cls(domain_from_dict(description["eigenvalues"]))


def _decomposed(x: Any, xp: Any) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of the symmetric part of each matrix."""
    return xp.linalg.eigh((x + xp.swapaxes(x, -1, -2)) / 2)

"""How the state of a player, or of a member of a fleet, lies in few arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..play.packing import Packing

__all__ = ["Layout"]


class Layout(NamedTuple):
    """How a state is packed, and what its steps are compiled for. Hashable."""

    fixed: Packing
    """Of what stays the same: game, learner, and what else the steps need."""
    state: Packing
    """Of the state, with the numbers of random keys in the place of the keys."""
    keys: tuple[tuple[int, str], ...]
    """For each random key, its number among the leaves of the state and its kind."""
    header: int
    """Entries of the first array before the packed state."""

    @classmethod
    def of(cls, fixed: Any, state: Any, floating: np.dtype[Any], header: int = 0) -> Layout:
        """Return the layout for trees like these."""
        keys = tuple(
            (i, str(jax.random.key_impl(leaf)))
            for i, leaf in enumerate(jax.tree.leaves(state))
            if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)
        )
        plain = _without_keys(keys, state)
        return cls(Packing.of(fixed, floating), Packing.of(plain, floating), keys, header)

    def pack(self, state: Any, header: jax.Array | None = None) -> tuple[jax.Array, ...]:
        """Return the packed state behind its header."""
        return self.state.pack_traced(_without_keys(self.keys, state), header)

    def unpack(self, arrays: Any) -> Any:
        """Return the state of packed arrays."""
        state = self.state.unpack(tuple(arrays), self.header)
        if not self.keys:
            return state
        leaves, structure = jax.tree.flatten(state)
        for i, kind in self.keys:
            leaves[i] = jax.random.wrap_key_data(leaves[i].astype(jnp.uint32), impl=kind)
        return jax.tree.unflatten(structure, leaves)


def _without_keys(keys: tuple[tuple[int, str], ...], state: Any) -> Any:
    leaves, structure = jax.tree.flatten(state)
    for i, _ in keys:
        leaves[i] = jax.random.key_data(leaves[i])
    return jax.tree.unflatten(structure, leaves)

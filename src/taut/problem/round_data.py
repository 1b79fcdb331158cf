"""The data of a round together with the decision of the round before it."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["RoundData", "data_of"]


class RoundData(NamedTuple):
    """What loss and constraints of a problem with `previous=True` are given besides the
    decision."""

    data: Any
    """z_t, the round's data."""
    previous: Any
    """x_{t-1}, the decision of the round before."""


def data_of(z: Any) -> Any:
    """Return z_t, whether or not it comes with the previous decision."""
    return z.data if isinstance(z, RoundData) else z

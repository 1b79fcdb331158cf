"""taut's step in the conventions of other libraries.

Read `half_space_transform` first, a gradient transformation for optax, then `linear_model`, an
estimator for scikit-learn. Both need `pip install "taut[adapters]"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .half_space_transform import half_space
    from .linear_model import ConstrainedRegressor

__all__ = ["ConstrainedRegressor", "half_space"]


def __getattr__(name: str) -> object:
    """Import an adapter, and its library, when it is first used."""
    if name == "half_space":
        from .half_space_transform import half_space

        return half_space
    if name == "ConstrainedRegressor":
        from .linear_model import ConstrainedRegressor

        return ConstrainedRegressor
    raise AttributeError(f"module 'taut.adapters' has no attribute {name!r}")

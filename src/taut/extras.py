"""Optional packages: which extra of taut installs each of them."""

from __future__ import annotations

import importlib
from typing import Any

EXTRAS = {
    "cvxpy": ("cvxpy", "models written in CVXPY, and programs that taut states with it"),
    "pandas": ("files", "tables"),
    "xarray": ("files", "labelled results and run files"),
    "h5py": ("files", "run files"),
    "h5netcdf": ("files", "run files"),
    "optax": ("adapters", "taut.adapters.half_space"),
    "sklearn": ("adapters", "taut.adapters.ConstrainedRegressor"),
}
"""For each package its extra, and what needs it."""


def optional(name: str) -> Any:
    """Return an optional package; without it, the error says which extra to install.

    >>> optional("pandas").__name__
    'pandas'
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != name:
            raise  # the package is there, and lacks one of its own
        extra, purpose = EXTRAS[name]
        raise ModuleNotFoundError(
            f"the package {name} is not installed, and taut needs it for {purpose}. Install it "
            f'with: pip install "taut[{extra}]"',
            name=name,
        ) from None

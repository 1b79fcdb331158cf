"""taut makes decisions one round at a time and keeps your limits.

Define a problem once (loss, constraints, domain). Run any learner on it, in a compiled simulation
or live, one round at a time. A certificate compares regret and all kinds of violation with the
bounds that theory gives.

The names are declared in `taut.public`. They are loaded, with JAX, when one of them is first used,
so that `taut --help` takes no time. Type checkers read `__init__.pyi`.
"""

import importlib as _importlib
import importlib.util as _util
import logging as _logging

_logging.getLogger("taut").addHandler(_logging.NullHandler())  # silent until configured


def __dir__() -> list[str]:
    return sorted(_importlib.import_module("taut.public").__all__)


def __getattr__(name: str) -> object:
    """Load a module of taut, or the public names when one of them is first used."""
    if name.startswith("__") and name not in ("__all__", "__version__"):
        raise AttributeError(f"module 'taut' has no attribute {name!r}")
    if _util.find_spec(f"taut.{name}") is not None:
        return _importlib.import_module(f"taut.{name}")
    public = _importlib.import_module("taut.public")
    if name not in ("__all__", *public.__all__):
        raise AttributeError(f"module 'taut' has no attribute {name!r}")
    value = globals()[name] = getattr(public, name)
    return value

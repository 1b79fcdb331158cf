"""taut makes decisions one round at a time and keeps your limits.

Define a problem once (loss, constraints, domain). Run any learner on it, in a compiled simulation
or live, one round at a time. A certificate compares regret and all kinds of violation with the
bounds that theory gives.

The names are declared once, in `__init__.pyi`, which type checkers read. Each is loaded, with what
it needs of JAX and CVXPY, when it is first used, so that `taut --help` takes no time.
"""

import ast as _ast
import importlib as _importlib
import importlib.util as _util
import logging as _logging
from pathlib import Path as _Path

_logging.getLogger("taut").addHandler(_logging.NullHandler())  # silent until configured
_STUB = _ast.parse(_Path(__file__).with_suffix(".pyi").read_text("utf-8"))
_DECLARED = {
    entry.asname or entry.name: (f"taut.{statement.module}", entry.name)
    for statement in _STUB.body
    if isinstance(statement, _ast.ImportFrom)
    for entry in statement.names
}
"""Every public name with the module that has it and what it is called there."""
_DECLARED["__version__"] = "taut.engine", "VERSION"
__all__ = list(_DECLARED)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    """Load a module of taut, or a public name, when it is first used."""
    if not name.startswith("__") and _util.find_spec(f"taut.{name}") is not None:
        return _importlib.import_module(f"taut.{name}")
    if name not in _DECLARED:
        raise AttributeError(f"module 'taut' has no attribute {name!r}")
    module, attribute = _DECLARED[name]
    value = globals()[name] = getattr(_importlib.import_module(module), attribute)
    return value

"""Print which heavy libraries `import taut` loads."""

import sys

import taut  # noqa: F401

print(", ".join(name for name in ("cvxpy", "matplotlib") if name in sys.modules) or "none")

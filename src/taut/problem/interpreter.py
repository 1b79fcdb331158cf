"""Names that `taut.intervals` uses."""

from ..jaxpr.walk import CALLS, bodies

__all__ = ["CALLS", "bodies"]

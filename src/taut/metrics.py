"""The public name of the metrics: `taut.metrics`. The functions are in `taut.runs.metrics`."""

from .runs.metrics import *  # noqa: F403
from .runs.metrics import __all__  # noqa: F401

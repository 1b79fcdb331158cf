"""The public name of the metrics: `taut.metrics`. The functions are in `taut.play.metrics`."""

from .play.metrics import *  # noqa: F403
from .play.metrics import __all__  # noqa: F401

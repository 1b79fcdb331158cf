"""The public name of the bounds: `taut.bounds`. The formulas are in `taut.learners.bounds`."""

from .learners.bounds import *  # noqa: F403
from .learners.bounds import __all__  # noqa: F401

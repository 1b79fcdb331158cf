"""Standard streams and the contest of all learners on them.

Read `stream` first (what a stream is), then `registry` (`STREAMS` has every stream by name), `streams` (one file per stream) and
`comparators` (the losses that regret is measured against). `contest` simulates several learners on one problem and stream; the
reproduction of the paper (`taut.paper`) uses it.
"""

from .registry import STREAMS
from .stream import Missing, Stream

__all__ = ["STREAMS", "Missing", "Stream"]

"""Standard streams and the contest of all learners on them.

`STREAMS` has every stream by name; `stream` says what a stream is, and each file in `streams` defines some. `comparators` has the
losses that regret is measured against. `contest` simulates several learners on one problem and stream; the reproduction of
the paper (`taut.paper`) uses it.
"""

from .registry import STREAMS
from .stream import Missing, Stream

__all__ = ["STREAMS", "Missing", "Stream"]

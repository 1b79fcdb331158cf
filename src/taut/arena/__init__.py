"""Standard streams and the contest of all learners on them.

Read `stream` first (what a stream is), then `registry` (`STREAMS` has every stream by name),
`streams` (one file per stream) and `comparators` (the losses that regret is measured against). The
contest: `entries` (which learners play on which stream), `run` (plays them and checks their
bounds), `results` (the files), `score` (scores, ranks, Pareto fronts) and `report`.
"""

from .registry import STREAMS
from .results import Result
from .run import Played, play
from .stream import Missing, Stream

__all__ = ["STREAMS", "Missing", "Played", "Result", "Stream", "play"]

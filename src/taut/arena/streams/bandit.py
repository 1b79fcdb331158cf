"""Values only: the toy and the adaptive pool, of which learners see losses and constraints at the
points that they play."""

from __future__ import annotations

from dataclasses import replace

from ...problem.feedback.bandit import Bandit
from ..stream import Stream
from . import pool, toy

__all__ = ["STREAMS"]


def _values_only(stream: Stream, source: str) -> Stream:
    """The stream without gradients."""
    return replace(
        stream,
        name=f"bandit-{stream.name.partition('-')[0]}",
        title=f"{stream.title}; only values at one or two points are seen",
        setting="values only",
        feedback=Bandit(),
        source=source,
        known=dict(stream.known)
        | {"feedback": "values at the one or two points that a learner plays"},
    )


STREAMS = (
    _values_only(toy.STREAMS[0], "the toy of Yuan & Lamperski, NeurIPS 2018, without gradients"),
    _values_only(pool.STREAMS[0], "half-spaces that come back, without gradients"),
)

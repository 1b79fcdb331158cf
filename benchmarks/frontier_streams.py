"""The streams of the arena on which the default learner's parameters were chosen, and exponents
that a prototype had on them."""

from __future__ import annotations

from typing import Any

import taut
from taut.arena import STREAMS as ALL, Stream
from taut.arena.comparators import comparator_loss
from taut.arena.streams import half_spaces

NAMES = (
    "toy",
    "toy-strong",
    "doubly-stochastic",
    "polytope",
    "pool-random",
    "pool-adaptive",
    "dispatch",
    "dispatch-box",
)
STREAMS = {name: ALL[name] for name in NAMES} | {
    "pool-random-d10": half_spaces.drawn_rows("pool-random-d10", 10, False)
}
PUBLISHED = {
    "toy": {
        "half-space-anytime": "0.50",
        "clipped-ogd": "0.50",
        "surrogate": "0.51",
        "surrogate-anytime": "0.50",
        "no-slater": "1.0",
        "block-frank-wolfe": "0.93",
    },
    "polytope": {"half-space": "K=64x3: below 0", "clipped-ogd": "0.50"},
    "pool-random-d10": {"half-space": "K=8: -0.08", "clipped-ogd": "0.57"},
    "pool-random": {"half-space": "K=32: 0.54"},
    "pool-adaptive": {"half-space": "K=8: 0.51"},
}
"""Exponents of the clipped violation that a prototype had, by stream and learner."""


def simulate(stream: Stream, learner: Any, rounds: int, seeds: int = 3) -> taut.Run:
    """Play a learner, or a method by its name."""
    count = stream.seeds_of(seeds)
    return taut.simulate(
        learner, stream.problem, stream.data(count, rounds), seeds=count, record=()
    )


def best(stream: Stream, run: taut.Run) -> Any:
    """The total loss of the comparator, by seed."""
    return comparator_loss(stream, stream.data(run.seeds, run.horizon))

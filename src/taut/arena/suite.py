"""The frozen suite "arena 1": which streams it has, in which version, and with which seeds.

Results of a suite are comparable for ever: a stream that changes gets another version, and does not
belong to the suite any more. A new suite is a new dictionary here.
"""

from __future__ import annotations

import hashlib
from typing import Any

import jax
import numpy as np

from .. import storage
from .stream import Stream

NAME = "arena 1"
PUBLIC = "public"
"""The name of the set of seeds 0 to 9, which everybody knows."""
SEEDS = 10
"""The number of seeds of every set."""
STREAM_VERSIONS = {
    "toy": 1,
    "toy-strong": 1,
    "doubly-stochastic": 1,
    "polytope": 1,
    "polytope-thin": 1,
    "polytope-flat": 1,
    "pool-adaptive": 1,
    "pool-random": 1,
    "nested-boxes": 1,
    "nested-spheres": 1,
    "drifting-fast": 1,
    "drifting-slow": 1,
    "switching": 1,
    "ad-clicks": 1,
    "ad-pacing": 1,
    "ad-pacing-jump": 1,
    "bandit-pool": 1,
    "bandit-toy": 1,
    "dispatch": 1,
    "dispatch-box": 1,
    "dispatch-britain": 1,
    "dispatch-victoria": 1,
    "dispatch-chronics": 1,
    "fair-batches": 1,
    "fair-classification": 1,
    "fair-diabetes": 1,
    "gradual-slater-0.1": 2,
    "gradual-slater-0.3": 2,
    "gradual-slater-0.5": 2,
    "gradual-slater-0.7": 2,
    "high-dimension": 1,
    "noisy-ball": 1,
    "noisy-polytope": 1,
    "noisy-toy": 1,
    "microgrid": 1,
    "portfolio": 1,
    "portfolio-sp500": 1,
    "portfolio-djia": 1,
    "portfolio-msci": 1,
    "portfolio-nyse-n": 1,
    "portfolio-nyse-o": 1,
    "portfolio-tse": 1,
    "box-in-ball": 1,
    "online-regression": 1,
    "three-rows": 1,
}
"""The streams of the suite with their versions."""


def in_suite(stream: Stream) -> bool:
    """Return whether a stream belongs to the suite in its present version."""
    return STREAM_VERSIONS.get(stream.name) == stream.version


def seeds_of(chosen: str, count: int = SEEDS) -> tuple[int, ...]:
    """Return the seeds of a set: "public" has 0, 1, 2, ...; any other name has seeds that follow
    from the name.

    Nobody can tune a method on the seeds of a release before its name is known.

    >>> seeds_of("public", 3)
    (0, 1, 2)
    >>> seeds_of("0.1.0", 2) == seeds_of("0.1.0")[:2] != seeds_of("0.2.0", 2)
    True
    """
    if chosen == PUBLIC:
        return tuple(range(count))
    texts = (f"{NAME} / {chosen} / {k}" for k in range(count))
    numbers = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) for text in texts)
    return tuple(SEEDS + number % (2**31 - SEEDS) for number in numbers)


def checksum(data: Any) -> str:
    """Return a checksum of data, arrays (seed, round, ...). Numbers are rounded to nine decimals
    first, because machines may differ in the last digits."""
    leaves = {}
    for i, leaf in enumerate(jax.tree.leaves(data)):
        values = np.asarray(leaf)
        leaves[str(i)] = (
            np.round(values.astype(float), 9) + 0.0
            if values.dtype.kind == "f"
            else (values.astype(np.int64))
        )
    return storage.digest(leaves)

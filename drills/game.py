"""The small game that the drills play, and what they compare."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np

import taut

__all__ = ["HORIZON", "LEARNER", "RECORD", "data", "leftovers", "problem", "simulated", "summary"]

HORIZON, CHUNK = 1500, 5
LEARNER = taut.ClippedOGD(0.3, 5.0)
RECORD = ("loss", "excess", "decisions", "multipliers")


def problem() -> taut.Problem:
    """A small problem."""
    return taut.Problem(
        lambda x, z: 0.5 * jnp.sum((x - z) ** 2),
        lambda x: jnp.sum(jnp.abs(x)) - 1,
        taut.Ball(1.5, shape=2),
    )


def data(rounds: int) -> np.ndarray:
    """Points around the feasible set."""
    return np.random.default_rng(0).normal(size=(rounds, 2))


def simulated(checkpoint: Path | None) -> taut.Run:
    """Simulate in many small chunks."""
    return taut.simulate(
        LEARNER, problem(), data(HORIZON), record=RECORD, chunk=CHUNK, checkpoint=checkpoint
    )


def summary(run: taut.Run) -> str:
    """Return all numbers of a run as text."""
    arrays = [getattr(run, name) for name in (*RECORD, "final")] + list(vars(run.totals).values())
    return taut.storage.digest({str(i): np.asarray(array) for i, array in enumerate(arrays)})


def leftovers(folder: Path, wanted: set[str], most: int) -> list[str]:
    """Report files that should not be there: at most the draft of the last process that was
    killed."""
    found = sorted(file.name for file in folder.iterdir() if file.name not in wanted)
    return [] if len(found) <= most else [f"files were left over: {found}"]

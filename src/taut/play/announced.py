"""Announced constraints: they are known, and enforced, before a decision is played."""

from __future__ import annotations

from typing import Any

import jax

from ..engine import default_float
from ..learners import Advised, Learner
from ..learners.protocols import Announced
from ..problem.feedback import Feedback
from ..problem.problem import Problem
from ..problem.streams import Stream
from ..problem.tracing import UnusableOutput, traced


def check_announced(
    learners: tuple[Learner, ...],
    problem: Problem,
    stream: Stream | None = None,
    feedback: Feedback | None = None,
) -> None:
    """Refuse learners that do not look at announced constraints, feedback, and data that cannot be
    announced."""
    if problem.announced is None:
        return
    if feedback is not None:
        raise ValueError(
            f"feedback: got {feedback!r} for a problem with announced constraints; expected full "
            "information, for which alone it is proven what enforcing them does"
        )
    for learner in learners:
        own = learner.learner if isinstance(learner, Advised) else learner
        if not isinstance(own, Announced):
            raise TypeError(
                f"learner: {type(own).__name__} fixes its decision before it sees announced "
                "constraints; expected a learner that enforces them, such as half-space, or a "
                "problem in which they are ordinary constraints"
            )
    if stream is not None and stream.reacts and announced_needs_data(problem):
        raise ValueError(
            "announced: got constraints that depend on the round's data, which an adversary "
            "reveals after the decision; expected constraints of the decision and the previous "
            "one only"
        )


def announced_needs_data(problem: Problem) -> bool:
    """Return whether the announced constraints look at the round's data: they do if they cannot be
    traced without any."""
    return traced_count(problem, problem.announced, None) is None


def traced_count(problem: Problem, constraints: Any, data: Any) -> int | None:
    """Return how many values constraints have with these data; None if they need others."""
    x = jax.ShapeDtypeStruct(problem.domain.shape, default_float())
    try:
        values = jax.eval_shape(lambda x, z: constraints.values(x, problem.given(z, x)), x, data)
    except UnusableOutput:
        raise
    except Exception:  # whatever a user's function raises when its data are missing
        return None
    return int(values.shape[0])


def check_announced_count(problem: Problem, decision: Any, data: Any, expected: int) -> None:
    """Refuse data with which the number of announced constraints is another one."""
    if problem.announced is None:
        return
    revealed = problem.given(data, decision)
    count = traced(
        "announced(x, z)", "announced", "z", problem.announced.values, decision, revealed
    ).shape[0]
    if count != expected:
        raise ValueError(
            f"z: got data with which announced(x, z) returns {count} values; expected {expected}"
        )

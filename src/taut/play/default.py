"""The learner that plays where none is named: it depends on what is seen of a round."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from ..learners import Learner
from ..learners.registry import DEFAULT, LEARNERS
from ..problem.feedback import Feedback, Noisy

if TYPE_CHECKING:
    from ..problem.problem import Problem

__all__ = ["ROUNDS", "default_learner"]

LOG = logging.getLogger(__name__)
ROUNDS = 10_000
"""The horizon of an averaged learner where the number of rounds is not known."""


def default_learner(
    problem: Problem, feedback: Feedback | None, stream: Any = None, horizon: int | None = None
) -> Learner | str:
    """Return the learner for a game in which none was named, or its name.

    It is `half-space`, unless constraint values or their gradients are observed with errors: kept
    cuts of noisy values exclude the best decision. Then it is an averaged learner, the one for the
    rows that are proven or stated: affine, smooth with a Slater point, or any convex ones. Averages
    need constraints that are the same in every round.

    Arguments:
        problem: the problem.
        feedback: what is seen of a round; `None` for full information.
        stream: the data, if they are known; constants are proven from them.
        horizon: the number of rounds, if it is known.
    """
    if (
        not isinstance(feedback, Noisy)
        or (feedback.values is None and feedback.gradients is None)
        or problem.constraints.takes_data
    ):
        return DEFAULT
    constants = problem.facts(stream, horizon=horizon).strengthened(problem.constants)
    name, smoothness = "averaged-blocks", constants.constraint_smoothness
    if smoothness == 0:
        name = "averaged"
    elif smoothness is not None and constants.slater is not None:
        name = "averaged-smooth"
    slope = 0.0 if feedback.gradients is None else feedback.gradients.sigma
    value = 0.0 if feedback.values is None else feedback.values.sigma
    options: dict[str, Any] = {}
    if value is not None and slope is not None:
        # The errors of the linear model at any other decision of the domain.
        options["sigma"] = math.hypot(value, slope * float(problem.domain.diameter))
    if slope:
        options["gradient_sigma"] = slope
    rounds = ROUNDS if horizon is None else horizon
    known = {key: one for key, one in options.items() if key in LEARNERS[name].options}
    LOG.warning(
        "constraints are observed with errors, so the learner is %s for %d rounds instead of %s",
        name,
        rounds,
        DEFAULT,
    )
    return LEARNERS[name].build(problem.with_constants(constants), rounds, **known)

"""Whether the data of a run depend on its decisions.

Theorems on expectations hold for data that were fixed before the run, or drawn independently of the
decisions. An adversary can react to what a learner drew, and then they say nothing.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..engine import first_key
from ..jaxpr.walk import evaluate
from ..learners import Assumes
from ..problem.compatibility import adversary_state
from ..problem.streams import Adversary
from ..runs.run import Run
from .assumptions import REFUTED, VERIFIED, Assumption

__all__ = ["check_reaction", "reacts_to_decisions"]

_DECISION = object()
"""What depends on the decision."""


def check_reaction(run: Run, remembers: bool) -> tuple[Assumption, ...]:
    """Return what is known of the assumptions about where the data come from; nothing if the run
    does not say.

    Arguments:
        run: of one learner.
        remembers: whether loss or constraints depend on the previous decision, which is part of the
            round's data then.
    """
    if remembers:
        return _refuted("loss or constraints depend on the previous decision")
    if run.stream is None:
        return (
            _refuted("the data came from an adversary, which sees decisions") if run.reacts else ()
        )
    if isinstance(run.stream, Adversary):
        if reacts_to_decisions(run.stream, run.first):
            return _refuted("the adversary reacts to the decisions")
        why = "what the adversary reveals does not depend on the decisions"
    else:
        why = "the data were given before the run"
    return (Assumption(str(Assumes.OBLIVIOUS), VERIFIED, why),)


def _refuted(why: str) -> tuple[Assumption, ...]:
    names = Assumes.OBLIVIOUS, Assumes.STOCHASTIC
    return tuple(Assumption(str(name), REFUTED, why, {}) for name in names)


def reacts_to_decisions(stream: Adversary, first: Any) -> bool:
    """Return whether what an adversary reveals, or its state, can depend on the decision.

    The function is traced, and the decision followed through its operations.
    """
    state = adversary_state(stream, jnp.result_type(first))
    given = () if stream.state is None else (state,)
    rest = (jnp.asarray(1, jnp.int32), jnp.asarray(first), first_key())
    traced = jax.make_jaxpr(stream.function)(*given, *rest)
    inputs: list[Any] = [None] * len(traced.jaxpr.invars)
    inputs[len(jax.tree.leaves(given)) + 1] = _DECISION

    def follow(equation: Any, operands: list[Any]) -> list[Any]:
        depends = any(operand is _DECISION for operand in operands)
        return [_DECISION if depends else None for _ in equation.outvars]

    return any(result is _DECISION for result in evaluate(traced, inputs, follow))

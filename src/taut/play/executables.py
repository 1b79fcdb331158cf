"""Compiled programs of one player or fleet, each compiled when it is first called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from ..learners import Learner
from ..problem.problem import Problem
from ..problem.programs import programs_of
from .compile import Executable, compiled, facts_of

__all__ = ["Executables"]


class Executables:
    """Calls compiled steps with data whose structure, shapes and types may change.

    Arguments:
        problem: what is played; it owns the compiled functions.
        learner: as it is played.
        layout: how arrays are packed, which the steps get with each call.
    """

    def __init__(self, problem: Problem, learner: Learner, layout: Any) -> None:
        self._problem, self._layout = problem, layout
        self._facts = facts_of(learner, problem.domain, seeds=1)
        self._compiled: dict[Any, Executable] = {}

    def call(
        self,
        function: Callable[..., Any],
        step: Callable[..., Any],
        passed: tuple[Any, ...],
        given: Any,
        **options: Any,
    ) -> Any:
        """Return `function((step, layout), rewrite, *passed)`, compiled.

        `given` are those of the arguments that are not always alike. The options are those of
        `compiled`.
        """
        leaves, structure = jax.tree.flatten(given)
        key = (step, structure, *((leaf.shape, leaf.dtype) for leaf in leaves))
        executable = self._compiled.get(key)
        if executable is None:
            programs, static = programs_of(self._problem), (step, self._layout)
            executable = compiled(programs, function, static, self._facts, passed, **options)
            self._compiled[key] = executable
        return executable(*passed)

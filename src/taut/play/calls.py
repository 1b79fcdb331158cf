"""Calls that repeat an earlier one, perhaps with other data of the same shape: what was checked and
laid out is used again.

Checks and layout depend on objects that do not change (learner, problem, options) and on shapes and
types of the data, never on the numbers in them. For one round they take several times longer than
the round itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any, NamedTuple

import jax
import numpy as np

from ..learners import Learner
from ..learners.registry import LEARNERS
from ..problem.problem import Problem
from ..problem.programs import Recent, programs_of
from ..problem.streams import Arrays
from .chunks import Simulation
from .layout import Layout

__all__ = ["Call"]

SMALL = 1024
"""A first decision of at most so many numbers is compared by value."""


class Prepared(NamedTuple):
    """What an earlier call prepared, without its data. Problems are weak references, because they
    own this memory."""

    problem: weakref.ref[Problem]
    score: weakref.ref[Problem] | None
    named: tuple[Any, ...]
    """Objects that the key names by their identity, which no other object can have while they are
    kept here."""
    learners: tuple[Learner, ...]
    swept: bool
    every: int
    first: jax.Array
    layout: Layout


class Call(NamedTuple):
    """The arguments of a call of `taut.simulate` that an equal call could repeat."""

    memory: Recent
    key: Hashable
    named: tuple[Any, ...]
    problem: Problem
    score: Problem | None
    stream: Any
    feedback: Any

    @classmethod
    def of(
        cls,
        learner: Any,
        problem: Any,
        stream: Any,
        x1: Any,
        record: Any,
        score: Any,
        feedback: Any,
        *others: Hashable,
    ) -> Call | None:
        """Return the call, or None if an equal one cannot be recognised quickly; `others` are
        compared by value."""
        if (
            type(problem) is not Problem
            or problem.previous
            or not (score is None or type(score) is Problem)
        ):
            return None  # models written in CVXPY arrange their data
        learners = tuple(learner) if isinstance(learner, (list, tuple)) else (learner,)
        named = (
            *(LEARNERS.get(one) if isinstance(one, str) else one for one in learners),
            feedback,
        )
        shapes, start = _shapes(stream), _start(x1)
        if shapes is None or start is None or not isinstance(record, (tuple, str)):
            return None
        options = (
            type(learner),
            start,
            record,
            others,
            tuple(map(type, others)),  # because 1 == True
            jax.config.read("jax_enable_x64"),
        )
        key = (tuple(map(id, named)), id(problem), id(score), shapes, options)
        try:
            hash(key)
        except TypeError:
            return None
        return cls(programs_of(problem).calls, key, named, problem, score, stream, feedback)

    def again(self) -> Simulation | None:
        """Return the simulation if an equal call was prepared before."""
        found: Prepared | None = self.memory.find(self.key)
        if found is None or found.problem() is not self.problem:
            return None
        if self.score is not None and (found.score is None or found.score() is not self.score):
            return None
        shapes = found.layout.stream
        data = np.asarray(self.stream) if isinstance(self.stream, jax.Array) else self.stream
        if type(data) is not np.ndarray:
            data = jax.tree.map(np.asarray, data)
        arrays = Arrays(data, *shapes)
        return Simulation(
            learners=found.learners,
            swept=found.swept,
            problem=self.problem,
            score=self.score,
            feedback=self.feedback,
            stream=arrays,
            every=found.every,
            first=found.first,
            random_keys=None,
            layout=found.layout.for_data(arrays),
        )

    def keep(self, simulation: Simulation) -> None:
        """Remember how the call was prepared, unless it draws random numbers or its objects can
        change."""
        stream, layout = simulation.stream, simulation.layout
        if (
            simulation.random_keys is not None
            or not isinstance(stream, Arrays)
            or not _is_constant(layout.kept)
        ):
            return
        self.memory.keep(
            self.key,
            Prepared(
                weakref.ref(self.problem),
                None if self.score is None else weakref.ref(self.score),
                self.named,
                simulation.learners,
                simulation.swept,
                simulation.every,
                simulation.first,
                layout,
            ),
        )


def _shapes(stream: Any) -> Hashable | None:
    """Return the structure of the data and shapes and types of its arrays; None for anything else
    than arrays."""
    if type(stream) is np.ndarray or isinstance(stream, jax.Array):
        return stream.shape, stream.dtype
    if not isinstance(stream, (dict, tuple)):
        return None
    leaves, structure = jax.tree.flatten(stream)
    if not all(type(leaf) is np.ndarray or isinstance(leaf, jax.Array) for leaf in leaves):
        return None
    return structure, *((leaf.shape, leaf.dtype) for leaf in leaves)


def _start(x1: Any) -> Hashable | None:
    """Return the numbers of a given first decision; None if they are too many or not in an
    array."""
    if x1 is None:
        return ()
    if type(x1) is not np.ndarray or x1.size > SMALL:
        return None
    return x1.shape, x1.dtype, x1.tobytes()


def _is_constant(tree: Any) -> bool:
    """Return whether no number of learners, constraints and domains can be changed in place."""
    arrays = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, np.ndarray))
    return not any(array.flags.writeable or not array.flags.owndata for array in arrays)

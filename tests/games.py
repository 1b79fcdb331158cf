"""How the registry's methods meet the zoo: which pairs are played, and the runs that all tests share.

Games are compiled once for each pair and kept; their number of rounds, levels and parameters are traced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.engine import register_dataclass
from taut.learners import Card
from zoo import ROUNDS, SEEDS, STRONG, TOY, ZOO, Case

CHUNK = 128
"""Every horizon up to this one is the same compiled game."""
RECORD = ("decisions", "multipliers")


@contextmanager
def quick_compilation() -> Iterator[None]:
    """Compile without most optimisations: twice as fast, for tests that compile many games to play few rounds."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


def broken(kind: type) -> Any:
    """A frozen dataclass and pytree like its parent: what a class with one wrong method needs to be played."""
    return register_dataclass(dataclasses.dataclass(frozen=True)(kind))


def applies(method: Card, case: Case) -> bool:
    """Whether a method can play a case, from what its registry entry says of it."""
    strong = case.problem.constants.strong_convexity > 0
    projects = method.needs_feasible
    return (method.losses == "convex" or strong) and (not projects or case.feasible is not None)


@cache
def game(method: Card, problem: taut.Problem) -> taut.Problem:
    """The problem as the method plays it: aggregated if it takes one constraint only."""
    return taut.max_of(problem) if method.aggregated else problem


def tuned(method: Card, case: Case, horizon: int = ROUNDS) -> taut.Learner:
    """The method, tuned for the case."""
    return method.build(game(method, case.problem), horizon, feasible=case.feasible)


@cache
def stream(case: Case) -> Any:
    """The shared stream, made once; nobody may write to it."""
    data = case.stream()
    for leaf in jax.tree.leaves(data):
        leaf.flags.writeable = False
    return data


@cache
def played(method: Card, case: Case) -> taut.Run:
    """The shared run of a method on a case: all seeds at once."""
    return play(method, case)


@cache
def reacted(method: Card, case: Case) -> tuple[taut.Run, Any]:
    """The run of a method against the case's adversary, and what the adversary revealed."""
    problem, key = game(method, case.problem), jax.random.key(5)
    run = taut.simulate(
        tuned(method, case), problem, case.reveal, horizon=ROUNDS, seeds=SEEDS, key=key, chunk=CHUNK, record=RECORD
    )
    return run, case.replay(run.decisions, key)


@jax.jit
def _values(constraints: Any, decisions: jax.Array, data: Any) -> jax.Array:
    return jax.vmap(jax.vmap(constraints.values))(decisions, data)


def values(case: Case, decisions: np.ndarray, data: Any) -> np.ndarray:
    """g_i(x_t), with axes (seed, round, constraint)."""
    return np.asarray(_values(case.problem.constraints, jnp.asarray(decisions), data))


def violation(case: Case, decisions: np.ndarray, data: Any) -> np.ndarray:
    """Sum over rounds of the largest [g_i(x_t)]_+, for each seed."""
    return np.maximum(values(case, decisions, data).max(axis=-1), 0).sum(axis=-1)


def play(method: Card, case: Case, learner: Any = None, data: Any = None, by: float = 0.0) -> taut.Run:
    """The shared compiled game with another learner, other data or other constraint levels."""
    learner = tuned(method, case) if learner is None else learner
    data = stream(case) if data is None else data
    problem = game(method, case.lowered(by))
    return taut.simulate(learner, problem, data, seeds=SEEDS, chunk=CHUNK, record=RECORD)


PAIRS = tuple((method, case) for method in taut.LEARNERS.values() for case in ZOO if applies(method, case))
"""Every method with every case that it can play."""


def pair_id(value: Any) -> str:
    """How a method or a case is called in test names."""
    return value.name if isinstance(value, (Card, Case)) else str(value)


def home(method: Card) -> Case:
    """The case where a method is looked at closely."""
    return TOY if method.losses == "convex" else STRONG

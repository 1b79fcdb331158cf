"""Runs of methods on problems with known answers. Programs are compiled once per pair and shared by
all checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..learners import LEARNERS, Card, Learner
from ..play.simulate import simulate
from ..problem.problem import Problem
from ..problem.transforms import max_of
from ..runs.run import Run
from .problems import ROUNDS, SEEDS, STRONG, TOY, KnownProblem

CHUNK = 128
"""All horizons up to this one share a compiled program."""
RECORD = ("decisions", "multipliers")


@contextmanager
def quick_compilation(quick: bool = True) -> Iterator[None]:
    """Compile without most optimisations: twice as fast, for checks that compile many programs and
    play few rounds. With `quick=False`, compile as users do, for checks of what XLA makes of a
    program."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", quick)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


def applies(card: Card, known: KnownProblem) -> bool:
    """Whether a method can play a problem, judged by its card alone."""
    problem = known.problem
    return (
        (card.losses == "convex" or problem.constants.strong_convexity > 0)
        and (not card.needs_feasible or known.feasible is not None)
        and (not card.fixed_constraints or not problem.constraints.takes_data)
        and all(getattr(problem.constants, name) is not None for name in card.needs)
    )


@cache
def as_played(card: Card, problem: Problem) -> Problem:
    """The problem as the method plays it: with one aggregated constraint if it takes only one."""
    return max_of(problem) if card.aggregated else problem


def tuned(card: Card, known: KnownProblem, horizon: int = ROUNDS) -> Learner:
    """The method, built for a problem."""
    return card.build(as_played(card, known.problem), horizon, feasible=known.feasible)


@cache
def shared_stream(known: KnownProblem) -> Any:
    """The stream that all checks share, made once and write-protected."""
    data = known.stream()
    for leaf in jax.tree.leaves(data):
        leaf.flags.writeable = False
    return data


@cache
def shared_run(card: Card, known: KnownProblem) -> Run:
    """The run of a method on the shared stream, all seeds at once."""
    return play(card, known)


@cache
def adversarial_run(card: Card, known: KnownProblem) -> tuple[Run, Any]:
    """The run of a method against the problem's adversary, and the data that the adversary
    revealed."""
    problem, key = as_played(card, known.problem), jax.random.key(5)
    run = simulate(
        tuned(card, known),
        problem,
        known.reveal,
        horizon=ROUNDS,
        seeds=SEEDS,
        key=key,
        chunk=CHUNK,
        record=RECORD,
    )
    assert run.decisions is not None
    return run, known.replay(run.decisions, key)


@cache
def hostile_stream(known: KnownProblem) -> Any:
    """What the problem's adversary revealed against Clipped-OGD, as arrays."""
    return adversarial_run(LEARNERS["clipped-ogd"], known)[1]


@jax.jit
def _values(constraints: Any, decisions: jax.Array, data: Any) -> jax.Array:
    return jax.vmap(jax.vmap(constraints.values))(decisions, data)


def known_values(known: KnownProblem, decisions: Array, data: Any) -> Array:
    """g_i(x_t), with axes (seed, round, constraint)."""
    return np.asarray(_values(known.problem.constraints, jnp.asarray(decisions), data))


def known_violation(known: KnownProblem, decisions: Any, data: Any) -> Array:
    """The sum over rounds of the largest [g_i(x_t)]_+, for each seed."""
    return np.maximum(known_values(known, decisions, data).max(axis=-1), 0).sum(axis=-1)


def play(
    card: Card, known: KnownProblem, learner: Any = None, data: Any = None, by: float = 0.0
) -> Run:
    """Play the shared program with another learner, other data, or constraints g - by."""
    learner = tuned(card, known) if learner is None else learner
    data = shared_stream(known) if data is None else data
    problem = as_played(card, known.lowered(by))
    return simulate(learner, problem, data, seeds=SEEDS, chunk=CHUNK, record=RECORD)


def name_of(value: Any) -> str:
    """What a card, a problem or a check is called in test names."""
    return str(getattr(value, "name", None) or getattr(value, "__name__", None) or value)


def home(card: Card) -> KnownProblem:
    """The problem on which a method is checked most closely."""
    return TOY if card.losses == "convex" else STRONG


def require(condition: Any, sentence: str) -> None:
    """Raise an AssertionError with `sentence` unless the condition holds."""
    if not condition:
        raise AssertionError(sentence)


def require_equal(a: Any, b: Any, sentence: str) -> None:
    """Require that two arrays are equal to the last bit."""
    require(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True), sentence)


def require_close(a: Any, b: Any, sentence: str, atol: float = 1e-12) -> None:
    """Require that two arrays agree up to a tolerance."""
    a, b = np.asarray(a), np.asarray(b)
    require(
        a.shape == b.shape and np.allclose(a, b, rtol=0, atol=atol),
        f"{sentence} (largest difference "
        f"{np.max(np.abs(a - b), initial=0.0) if a.shape == b.shape else 'of shapes'})",
    )


def decisions_of(run: Run) -> Array:
    """Return the decisions of a run that recorded them."""
    assert run.decisions is not None
    return run.decisions

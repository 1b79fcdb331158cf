"""What a simulation computes, as checksums: of the program that JAX traces from a problem, of the
arrays of a tree, and of the source files of taut."""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import VERSION
from ..jax_internals import Literal
from ..jaxpr.walk import bodies
from ..problem.compatibility import adversary_state
from ..problem.problem import Problem
from ..problem.rounds import FullInformation
from ..problem.streams import Adversary, RoundData, Stream
from ..storage import digest

ADDRESS = re.compile(r"0x[0-9a-f]+")
NUMERICS = ("identity", "jaxpr", "learners", "play", "problem", "runs")
"""Folders of the source files that determine what a simulation computes."""


def digest_of_tree(tree: Any) -> str:
    """Return a checksum of the arrays of a tree, with their types and shapes."""
    return digest({f"{i:06}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))})


@functools.cache
def numerics(package: Path = Path(__file__).parents[1]) -> str:
    """Return a checksum of the source files that determine what taut computes.

    It changes with every change of them, unlike the version, so that results of other code are not
    taken for results of this code.
    """
    sources = [path for folder in NUMERICS for path in (package / folder).rglob("*.py")]
    state = hashlib.sha256(VERSION.encode())
    for path in sorted(sources):
        state.update(f"{path.relative_to(package).as_posix()}\0".encode())
        state.update(hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()[:16]


def problem_digest(
    problem: Problem, score: Problem | None, stream: Stream, first: jax.Array, example: Any
) -> str:
    """Return a checksum of the traced program of a round and of all numbers in it. Nothing is
    compiled.

    Arguments:
        problem: the problem that is played.
        score: another problem that scores the decisions.
        stream: the data, or an adversary, which is part of the program.
        first: a decision.
        example: shapes and types of one round's data; not used with an adversary.
    """
    scored = score or problem
    trees = (
        problem.constraints,
        scored.scored_constraints,
        problem.domain,
        adversary_state(stream, first.dtype),
        problem.announced,
        [game.start for game in (problem, scored) if game.start is not None],
    )
    leaves, structure = jax.tree.flatten(trees)
    reveal = stream.function if isinstance(stream, Adversary) else None
    ones = jax.tree.map(lambda a: jnp.ones(a.shape, a.dtype), example)
    z = None if reveal is not None else ones

    def probe(leaves: list[Any], points: jax.Array, data: Any, key: jax.Array) -> Any:
        numbers = jax.tree.unflatten(structure, leaves)
        return _probe(problem, scored, reveal, numbers, points, data, key)

    program = _traced(probe, leaves, first[None], z, jax.random.key(0))
    return f"{program} {digest_of_tree(leaves)}"


def _traced(function: Any, *arguments: Any) -> str:
    """Return a checksum of the program that JAX traces from a function, and of all numbers in it.

    The text of a program shows long arrays only in part.
    """
    program = jax.make_jaxpr(function)(*arguments)
    text = hashlib.sha256(ADDRESS.sub("", str(program)).encode()).hexdigest()
    return f"{text} {digest_of_tree(_numbers(program))}"


def _numbers(program: Any) -> list[Any]:
    """Return all numbers in a traced program, also in the programs inside it."""
    numbers = list(program.consts)
    for equation in program.jaxpr.eqns:
        numbers += [operand.val for operand in equation.invars if isinstance(operand, Literal)]
        numbers += [part for part in equation.params.values() if isinstance(part, np.ndarray)]
        for inner in bodies(equation):
            numbers += _numbers(inner)
    return numbers


def _probe(
    problem: Problem,
    scored: Problem,
    reveal: Any,
    numbers: Any,
    points: jax.Array,
    data: Any,
    key: jax.Array,
) -> Any:
    """Return values and gradients of the played problem, and values of the scored one, at a few
    decisions."""
    constraints, scored_constraints, domain, state, announced, _ = numbers
    before = points[0]

    def probe(x: jax.Array) -> Any:
        z, t = data, jnp.asarray(1, jnp.int32)
        if reveal is not None:
            z = reveal(t, x, key) if state is None else reveal(state, t, x, key)[1]
        mine, theirs = (
            FullInformation(game.loss, rows, domain, _given(z, before, game.previous))
            for game, rows in ((problem, constraints), (scored, scored_constraints))
        )
        values, pull, _ = mine.constraints(x)
        enforced = None
        if announced is not None:
            enforced = announced.values(x, _given(data, before, problem.previous))
        results = (
            mine.loss(x),
            mine.gradient(x),
            pull(values),
            values,
            theirs.loss(x),
            theirs.constraints(x).values,
        )
        return results, enforced

    return jax.vmap(probe)(points)


def _given(z: Any, before: jax.Array, previous: bool) -> Any:
    return RoundData(z, before) if previous else z

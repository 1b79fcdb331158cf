"""The fingerprint of a simulation: identifies the call, so that a checkpoint of another call is not
resumed."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import files
from ..engine import VERSION
from ..jax_internals import Literal
from ..jaxpr.walk import bodies
from ..problem.compatibility import adversary_state
from ..problem.problem import Problem
from ..problem.rounds import FullInformation
from ..problem.streams import Adversary, Arrays, RoundData, Stream
from ..storage import digest
from .description import Descriptions
from .simulation import Simulation

__all__ = [
    "Functions",
    "digest_of_tree",
    "fingerprint",
    "numerics",
    "parts_of",
    "program_digest",
]

ADDRESS = re.compile(r"0x[0-9a-f]+")
NUMERICS = ("jaxpr", "learners", "play", "problem", "runs")
"""Folders of the source files that determine what a simulation computes."""


def fingerprint(simulation: Simulation) -> dict[str, Any]:
    """Describe a call: two calls with equal descriptions compute the same, up to what the
    description cannot contain.

    Loss and constraints are described by the program that JAX traces from them, with all numbers in
    it; a learner and a feedback by their fields, and their own classes by all that they reach. Not
    noticed are changes of Python functions that a program calls back (`jax.pure_callback`), and
    whatever a function reads when it is not being traced. The data of the stream are compared chunk
    by chunk when a checkpoint is resumed.
    """
    keys, describe = simulation.random_keys, Descriptions()
    problem, stream, first = simulation.problem, simulation.stream, simulation.first
    functions, trees = parts_of(problem, simulation.score, stream, first.dtype)
    return {
        "learner": [
            [files.pack(learner), _checksum(describe.of_classes(learner, "learner"))]
            for learner in simulation.learners
        ],
        "problem (loss, constraints, domain)": [
            problem.domain.to_dict(),
            program_digest(functions, trees, first, simulation.example),
        ],
        "feedback": _checksum(describe.of(simulation.feedback, "feedback")),
        **_of_advice(simulation, describe),
        "stream (shapes and types)": str(simulation.example),
        "horizon": simulation.stream.horizon,
        "number of seeds": simulation.stream.seeds,
        "x1": digest_of_tree(simulation.first),
        **(
            {}
            if simulation.problem.start is None
            else {"start": digest_of_tree(simulation.problem.start)}
        ),
        "key": None if keys is None else digest_of_tree(jax.random.key_data(keys)),
        "record": sorted(simulation.shape.record),
        "every": simulation.every,
        "chunk": simulation.shape.length,
        "version of taut or jax": [VERSION, numerics(), jax.__version__],
    }


def _of_advice(simulation: Simulation, describe: Descriptions) -> dict[str, Any]:
    """Return what tells advice from other advice; nothing without advice."""
    given = {"advice": simulation.advice, "forecast": simulation.forecast}
    return {
        name: digest_of_tree(value.data)
        if isinstance(value, Arrays)
        else _checksum(describe.of(value, name))
        for name, value in given.items()
        if value is not None
    }


def _checksum(description: Any) -> str:
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()


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


class Functions(NamedTuple):
    """The functions of a simulation, which are compiled into its program."""

    loss: Any
    scored_loss: Any
    reveal: Any
    """An adversary or None."""
    previous: tuple[bool, bool]
    """Whether the problem that is played, and the one that scores, depend on the previous
    decision."""


def parts_of(
    problem: Problem, score: Problem | None, stream: Stream, dtype: Any
) -> tuple[Functions, Any]:
    """Return the functions of a simulation, and the trees that hold its numbers: constraints,
    domain, start, adversary."""
    scored = score or problem
    reveal = stream.function if isinstance(stream, Adversary) else None
    functions = Functions(problem.loss, scored.loss, reveal, (problem.previous, scored.previous))
    starts = [one.start for one in (problem, scored) if one.start is not None]
    state = adversary_state(stream, dtype)
    trees = (
        problem.constraints,
        scored.scored_constraints,
        problem.domain,
        state,
        problem.announced,
        starts,
    )
    return functions, trees


def program_digest(functions: Functions, trees: Any, first: jax.Array, example: Any) -> str:
    """Return a checksum of the traced program of a round and of all numbers in it. Nothing is
    compiled.

    Arguments:
        functions: the functions, as `parts_of` returns them.
        trees: the trees with numbers, likewise.
        first: a decision.
        example: shapes and types of one round's data; not used with an adversary.
    """
    leaves, structure = jax.tree.flatten(trees)
    z = (
        None
        if functions.reveal is not None
        else jax.tree.map(lambda a: jnp.ones(a.shape, a.dtype), example)
    )

    def probe(leaves: list[Any], *rest: Any) -> Any:
        return _probe(functions, jax.tree.unflatten(structure, leaves), *rest)

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
    functions: Functions, problems: Any, points: jax.Array, data: Any, key: jax.Array
) -> Any:
    """Return values and gradients of the played problem, and values of the scored one, at a few
    decisions."""
    loss, scored_loss, reveal, previous = functions
    constraints, scored_constraints, domain, state, announced, _ = problems

    def probe(x: jax.Array) -> Any:
        z, first = data, jnp.asarray(1, jnp.int32)
        if reveal is not None:
            z = reveal(first, x, key) if state is None else reveal(state, first, x, key)[1]
        before = points[0]
        played = FullInformation(loss, constraints, domain, _given(z, before, previous[0]))
        scored = FullInformation(
            scored_loss, scored_constraints, domain, _given(z, before, previous[1])
        )
        values, pull, _ = played.constraints(x)
        enforced = None
        if announced is not None:
            enforced = announced.values(x, _given(data, before, previous[0]))
        results = (
            played.loss(x),
            played.gradient(x),
            pull(values),
            values,
            scored.loss(x),
            scored.constraints(x).values,
        )
        return results, enforced

    return jax.vmap(probe)(points)


def _given(z: Any, before: jax.Array, previous: bool) -> Any:
    return RoundData(z, before) if previous else z

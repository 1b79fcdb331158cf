"""The fingerprint of a simulation: identifies the call, so that a checkpoint of another call is not
resumed."""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import files
from ..engine import VERSION
from ..jax_internals import ClosedJaxpr, Jaxpr, Literal
from ..problem.compatibility import adversary_state
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..problem.round_data import RoundData
from ..problem.rounds import FullInformation
from ..problem.streams import Adversary, Stream
from ..storage import digest
from .simulation import Simulation
from .with_feedback import through

__all__ = ["Functions", "digest_of_tree", "fingerprint", "parts_of", "program_digest"]

ADDRESS = re.compile(r"0x[0-9a-f]+")


def fingerprint(simulation: Simulation) -> dict[str, Any]:
    """Describe a call: two calls with equal descriptions compute the same, up to what the
    description cannot contain.

    Functions are described by the program that JAX traces, with its constants, and by values at a
    few decisions. Not noticed are changes of Python functions that the program calls back
    (`jax.pure_callback`), and whatever a function reads when it is not being traced. The data of
    the stream are compared chunk by chunk when a checkpoint is resumed.
    """
    keys = simulation.random_keys
    return {
        "learner": [files.pack(learner) for learner in simulation.learners],
        "problem (loss, constraints, domain)": [
            simulation.problem.domain.to_dict(),
            *_functions(simulation),
        ],
        "feedback": _feedback(simulation),
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
        "version of taut or jax": [VERSION, jax.__version__],
    }


def digest_of_tree(tree: Any) -> str:
    """Return a checksum of the arrays of a tree, with their types and shapes."""
    return digest({f"{i:06}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))})


def _feedback(simulation: Simulation) -> str | None:
    """Return a checksum of the traced step of a learner that sees rounds through feedback, with all
    its numbers."""
    feedback = simulation.feedback
    if feedback is None:
        return None
    problem, first, count = simulation.problem, simulation.first, simulation.shape.counts[0]
    learner = through(simulation.learners[0], feedback)
    z = jax.tree.map(lambda a: jnp.ones(a.shape, a.dtype), simulation.example)
    z = problem.given(z, first)

    def step(x: jax.Array, z: Any) -> Any:
        return learner.step(
            learner.init(x, count),
            FullInformation(problem.loss, problem.constraints, problem.domain, z),
        )

    program = jax.make_jaxpr(step)(first, z)
    text = hashlib.sha256(ADDRESS.sub("", str(program)).encode()).hexdigest()
    return f"{text} {digest_of_tree(_numbers(program))} {digest_of_tree(feedback)}"


def _functions(simulation: Simulation) -> tuple[str, str]:
    """Return checksums of the traced program of a round, and of its values at a few decisions."""
    problem = simulation.problem
    random_key = jax.random.key(0)
    sampled = [problem.domain.sample(k) for k in jax.random.split(random_key)]
    points = jnp.stack(
        [jnp.asarray(x, simulation.first.dtype) for x in (simulation.first, *sampled)]
    )
    z = (
        None
        if simulation.stream.reacts
        else jax.tree.map(lambda a: jnp.ones(a.shape, a.dtype), simulation.example)
    )
    functions, problems = parts_of(
        problem, simulation.score, simulation.stream, simulation.first.dtype
    )
    leaves, structure = jax.tree.flatten(problems)
    traced = jax.make_jaxpr(
        lambda leaves, *rest: _probe(functions, jax.tree.unflatten(structure, leaves), *rest)
    )
    program = traced(leaves, points, z, random_key)
    text = hashlib.sha256(ADDRESS.sub("", str(program)).encode()).hexdigest()
    values = programs_of(simulation.problem).call(
        _probe, problems, points, z, random_key, static=(functions,)
    )
    return f"{text} {digest_of_tree(program.consts)} {digest_of_tree(leaves)}", digest_of_tree(
        values
    )


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
    traced = jax.make_jaxpr(
        lambda leaves, *rest: _probe(functions, jax.tree.unflatten(structure, leaves), *rest)
    )
    program = traced(leaves, first[None], z, jax.random.key(0))
    text = hashlib.sha256(ADDRESS.sub("", str(program)).encode()).hexdigest()
    return f"{text} {digest_of_tree(_numbers(program))} {digest_of_tree(leaves)}"


def _numbers(program: Any) -> list[Any]:
    """Return all numbers in a traced program, also in the programs inside it. Its text shows long
    arrays only in part."""
    if isinstance(program, (list, tuple)):
        return [number for entry in program for number in _numbers(entry)]
    if isinstance(program, ClosedJaxpr):
        return [*program.consts, *_numbers(program.jaxpr)]
    if not isinstance(program, Jaxpr):
        return []
    found = []
    for equation in program.eqns:
        found += [operand.val for operand in equation.invars if isinstance(operand, Literal)]
        for parameter in equation.params.values():
            found += [parameter] if isinstance(parameter, np.ndarray) else _numbers(parameter)
    return found


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

"""The version tag of a problem: names, shapes, and values of loss and constraints at a few
decisions.

A file of a player cannot hold functions. It holds the values that they have at fixed decisions and
data, so that another loss, another capacity or swapped names are noticed when it is loaded. Values
do not depend on how a function is written, nor on versions of JAX.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from ..engine import Array
from ..problem.domains.support import centre_of, project_rows
from ..problem.evaluation import constraint_evaluation, loss_evaluation
from ..problem.problem import Problem

PROBES = 6
"""Decisions at which loss and constraints are evaluated, each with data of its own."""
NAMES = ("coordinate_names", "constraint_names")


def tag_of(problem: Problem, names: tuple[str, ...] | None, structure: Any) -> dict[str, Any]:
    """Return the part of a tag that fits into JSON.

    Arguments:
        problem: the problem.
        names: the names of its constraints, which may have come with data.
        structure: what `skeleton` returned for the data; None if there were none.
    """
    coordinates = problem.coordinate_names
    return {
        "shape": list(problem.domain.shape),
        "coordinate_names": None if coordinates is None else list(coordinates),
        "constraint_names": None if names is None else list(names),
        "previous": problem.previous,
        "data": structure,
    }


def skeleton(tree: Any) -> Any:
    """Describe data in values for JSON: dicts, tuples and lists of [shape, type].

    Returns None for data that contain anything else.
    """
    if isinstance(tree, np.ndarray):
        return {"leaf": [list(tree.shape), str(tree.dtype)]}
    if type(tree) in (tuple, list):
        parts = [skeleton(part) for part in tree]
        return None if None in parts else {type(tree).__name__: parts}
    if type(tree) is dict and all(isinstance(name, str) for name in tree):
        named = {name: skeleton(part) for name, part in tree.items()}
        return None if None in named.values() else {"dict": named}
    return None


def filled(described: Any, leaves: list[Array]) -> Any:
    """Return data of the described structure, with leaves in the order of `jax.tree.leaves`."""
    example = _example(described, np.random.default_rng(0))
    expected, structure = jax.tree.flatten(example)
    shapes = [(leaf.shape, leaf.dtype) for leaf in leaves]
    if shapes != [(leaf.shape, leaf.dtype) for leaf in expected]:
        raise ValueError("its last data have other shapes or types")
    return jax.tree.unflatten(structure, leaves)


def example_rows(described: Any) -> Any:
    """Return data of the described structure, one row of them."""
    return jax.tree.map(lambda leaf: leaf[None], _example(described, np.random.default_rng(0)))


def _example(described: Any, rng: np.random.Generator) -> Any:
    """Return data of the described structure; ValueError if it is no description."""
    if not isinstance(described, dict) or len(described) != 1:
        raise ValueError(f"its data are {described!r}")
    kind, parts = next(iter(described.items()))
    if kind == "leaf":
        shape, dtype = tuple(map(int, parts[0])), np.dtype(parts[1])
        if min(shape, default=0) < 0 or np.prod(shape, dtype=float) > 2**24:
            raise ValueError(f"its data are {described!r}")
        if dtype.kind == "f":
            return rng.normal(size=shape).astype(dtype)
        return rng.integers(0, 2, size=shape).astype(dtype)
    if kind == "dict":
        return {name: _example(part, rng) for name, part in parts.items()}
    if kind in ("tuple", "list"):
        made = [_example(part, rng) for part in parts]
        return tuple(made) if kind == "tuple" else made
    raise ValueError(f"its data are {described!r}")


def fingerprint(
    problem: Problem, structure: Any, dtype: Any, points: Array | None = None
) -> dict[str, Array]:
    """Return a few decisions with the values of loss and constraints there, by name.

    Arguments:
        problem: the problem.
        structure: what `skeleton` returned for the data. Without it, only constraints that take no
            data are evaluated.
        dtype: the float type of the player.
        points: the decisions of another fingerprint; by default some of the domain.
    """
    scored = problem.scored_constraints
    if structure is None and (scored.takes_data or problem.previous):
        return {}
    rng, shape = np.random.default_rng(0), problem.domain.shape
    if points is None:
        centre = centre_of(problem.domain).ravel()
        reach = float(problem.domain.radius) / max(1, centre.size) ** 0.5
        away = rng.uniform(-1, 1, (PROBES, centre.size)) * reach
        points = project_rows(problem.domain, centre + away).astype(dtype)
    x = points.reshape(-1, 1, *shape)
    if structure is None:
        return {"points": points, "excess": _excess(problem, x, None)}
    rng = np.random.default_rng(1)
    rows = [_example(structure, rng) for _ in points]
    z = jax.tree.map(lambda *each: np.stack(each)[:, None], *rows)
    given = problem.given(z, np.roll(x, 1, axis=0))
    loss = loss_evaluation(problem).values(x, given)[:, 0]
    return {"points": points, "loss": loss.astype(float), "excess": _excess(problem, x, given)}


def _excess(problem: Problem, x: Array, given: Any) -> Array:
    scored = problem.scored_constraints
    data = given if scored.takes_data else None
    return constraint_evaluation(problem, scored).values(x, data)[:, 0].astype(float)


class Differences(NamedTuple):
    """What differs between a problem and the tag of a file; empty if nothing does."""

    names: tuple[str, ...] = ()
    """Sentences about names."""
    shape: str = ""
    loss: str = ""
    constraints: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """All sentences."""
        return tuple(
            text for text in (*self.names, self.shape, self.loss, self.constraints) if text
        )


def differences(
    problem: Problem,
    names: tuple[str, ...] | None,
    tag: Mapping[str, Any],
    saved: Mapping[str, Array],
    dtype: Any,
) -> Differences:
    """Compare a problem with the tag and the fingerprint of a file; ValueError if the tag is
    damaged.

    Arguments:
        problem: the problem.
        names: the names of its constraints; None if they are not known.
        tag: what `tag_of` returned.
        saved: what `fingerprint` returned.
        dtype: the float type of the player.
    """
    texts = []
    for what, own in zip(NAMES, (problem.coordinate_names, names), strict=True):
        other = tag.get(what)
        if other is not None and own is not None and list(own) != list(other):
            texts.append(f"{what}: got {list(own)}; expected {list(other)}, as in the file")
    shape = tuple(tag.get("shape", ()))
    if shape != problem.domain.shape:
        text = f"problem: got decisions of shape {problem.domain.shape}; expected {shape}"
        return Differences(tuple(texts), text)
    return Differences(tuple(texts), "", *_other_values(problem, tag, saved, dtype))


def _other_values(
    problem: Problem, tag: Mapping[str, Any], saved: Mapping[str, Array], dtype: Any
) -> tuple[str, str]:
    """Say whether loss and constraints have other values than the fingerprint of a file."""
    if not saved:
        return "", ""
    points = saved["points"]
    if points.ndim != 2 or points.shape[1] != np.prod(problem.domain.shape, dtype=int):
        raise ValueError("its fingerprint has other decisions")
    try:
        here = fingerprint(problem, tag.get("data"), dtype, points.astype(dtype))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        # The user's functions take other data than the player observed.
        return f"loss: got one that raised {error!r} with data like those in the file", ""
    room = max(1e-6, 1e3 * float(np.finfo(dtype).eps))
    texts = []
    for name in ("loss", "excess"):
        one, other = here.get(name), saved.get(name)
        if one is None or other is None:
            texts.append("")
        elif one.shape != other.shape:
            texts.append(f"got values of shape {one.shape[1:]}; expected {other.shape[1:]}")
        elif not _close(one, other, room):
            with np.errstate(invalid="ignore"):
                far = np.abs(one - other)
            place = np.unravel_index(int(np.nanargmax(np.nan_to_num(far, nan=-1))), one.shape)
            texts.append(
                f"got a function with the value {one[place]:.6g} at a decision where it was "
                f"{other[place]:.6g} when the file was written"
            )
        else:
            texts.append("")
    loss, constraints = texts
    return (loss and f"loss: {loss}"), (constraints and f"constraints: {constraints}")


def _close(one: Array, other: Array, room: float) -> bool:
    """Return whether two arrays are the same up to rounding of their largest entries."""
    finite = np.abs(other[np.isfinite(other)])
    return np.allclose(one, other, rtol=room, atol=room * finite.max(initial=0), equal_nan=True)

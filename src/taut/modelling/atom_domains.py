"""Checks that every atom is defined on the whole domain, because a decision can be any point of the domain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from cvxpy.atoms.atom import Atom

from ..engine import Array
from ..problem.domains.support import least_change, linear_minimisers
from ..problem.sampling import sample_decisions
from .evaluation import Probe
from .inequalities import excesses_of
from .parameters import Range, draw_parameters

if TYPE_CHECKING:
    from .model import Model

__all__ = ["atom_domains", "check_atoms"]


SLACK = 1e-9
"""A point outside of an atom's domain by less than this, relatively, is there by rounding."""
NEAR = (0.0, 1e-12, 1e-6)
"""Steps from a point on the boundary towards the centre at which slopes are compared."""
GROWTH = 1.5
"""A slope that grows by this factor between the last two is taken to be infinite on the boundary."""
SAMPLES = 16
"""Decisions, and data, at which conditions that are not affine are evaluated."""


def atom_domains(parts: list[Any]) -> list[tuple[Any, Any]]:
    """All pairs (atom, constraint) such that the atom is finite only where the constraint holds, without attributes."""
    found, seen = [], set()
    for part in parts:
        for atom in _atoms(part):
            for constraint in atom._domain():
                if (str(atom), str(constraint)) not in seen and constraint.variables():
                    seen.add((str(atom), str(constraint)))
                    found.append((atom, constraint))
    return found


def _atoms(part: Any) -> Iterator[Any]:
    if isinstance(part, Atom):
        yield part
    for arg in part.args:
        yield from _atoms(arg)


def check_atoms(model: Model, atoms: list[tuple[Any, Any]], probe: Probe, known: Range) -> None:
    """Raise if an atom is undefined, infinite or infinitely steep somewhere in the domain.

    Affine conditions, which are nearly all, are decided exactly; others are evaluated at samples. Parameters are sampled.
    """
    random = np.random.default_rng(0)
    decisions = sample_decisions(model.domain, random, SAMPLES).reshape(SAMPLES, -1)
    for atom, constraint in atoms:
        changing = bool(model.changing(constraint))
        if changing and np.any(known.guessed):
            raise ValueError(
                f"parameters: got some without bounds; expected bounds for all of {model.keys.names}, because "
                f"{atom} is defined only where {constraint}"
            )
        rounds = draw_parameters(model.parameters, known, random, SAMPLES if changing else 1)
        flat = model.flat_copy()
        rows = [flat.of(one.expression) for one in excesses_of(constraint)]
        for data in rounds:
            flat.assign(model.data_of(data))
            for row in rows:
                worst, where = _worst(row, flat.variable, model.domain, decisions)
                _refuse_outside(atom, constraint, worst, where, model)
                edge = where[worst >= -SLACK * (1 + np.abs(worst).max())]
                if len(edge):
                    _refuse_steep(atom, np.unique(edge, axis=0), data, probe, model)


def _worst(row: Any, variable: Any, domain: Any, decisions: Array) -> tuple[Array, Array]:
    """The largest value of each entry of an affine row over the domain and its decision; otherwise values at samples."""
    if not row.is_affine():
        values = []
        for x in decisions:
            variable.value = x
            values.append(float(np.max(row.value)))
        return np.asarray(values), decisions
    variable.value = decisions[0]
    slope = row.grad[variable]
    slopes = np.asarray(slope.toarray() if hasattr(slope, "toarray") else slope, float).reshape(variable.size, -1)
    value = np.ravel(np.asarray(row.value, float), order="F") - decisions[0] @ slopes
    origin = np.zeros_like(slopes.T)
    return value - least_change(domain, -slopes.T, origin), linear_minimisers(domain, -slopes.T)


def _refuse_outside(atom: Any, constraint: Any, worst: Array, where: Array, model: Model) -> None:
    i = int(np.argmax(worst))
    if not worst[i] <= SLACK * (1 + np.abs(where[i]).max()):
        raise ValueError(
            f"domain: got one that contains {_at(where[i], model)}, where {atom} is not defined; expected a domain on "
            f"which {constraint} everywhere, because a decision can be any point of it"
        )


def _refuse_steep(atom: Any, edge: Array, data: Array, probe: Probe, model: Model) -> None:
    centre = np.ravel(np.asarray(model.domain.centre, float))
    near = np.concatenate([edge + step * (centre - edge) for step in NEAR])
    seen = probe(np.concatenate([near, np.tile(data, (len(near), 1))], axis=1))
    steep = np.maximum(np.linalg.norm(seen.slope[:, : probe.size], axis=1), _rows(seen.slopes, probe.size))
    steep = steep.reshape(len(NEAR), -1)
    value = (np.abs(seen.loss) + np.abs(seen.values).sum(axis=1)).reshape(len(NEAR), -1)
    for what, bad in (
        ("infinite", ~np.isfinite(value[0])),
        ("infinitely steep", ~(steep[1] <= GROWTH * steep[2])),
    ):
        if bad.any():
            raise ValueError(
                f"domain: got one that contains {_at(edge[int(np.argmax(bad))], model)}, where {atom} is {what}; expected "
                "a domain that keeps a distance from there"
            )


def _rows(slopes: Array, size: int) -> Array:
    return np.linalg.norm(slopes[:, :, :size], axis=2).max(axis=1)


def _at(x: Array, model: Model) -> str:
    shown = model.present(np.round(x, 6).reshape(model.domain.shape))
    parts = shown.items() if isinstance(shown, dict) else [(model.variables[0].name(), shown)]
    return ", ".join(f"{name} = {np.array2string(np.asarray(value), threshold=8)}" for name, value in parts)

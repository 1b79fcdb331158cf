"""Checks that every atom is defined on the whole domain, because a decision can be any point of the
domain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from cvxpy.atoms.atom import Atom
from cvxpy.constraints.nonpos import Inequality, NonNeg
from cvxpy.constraints.psd import PSD
from cvxpy.constraints.zero import Equality, Zero

from ...engine import Array
from ...intervals.of_cvxpy import Expressions
from ...intervals.pieces import Unknown
from ...problem.domains.support import least_change, linear_minimisers
from ...problem.sampling import sample_decisions
from ..constants.enclosures import enclosures
from ..constants.search import Probe
from ..recourse.joint_recourse import Condition
from ..translation.attributes import dense, is_symmetric, whole
from ..translation.inequalities import excesses_of
from ..translation.parameters import draw_parameters

if TYPE_CHECKING:
    from ..model import Model


SLACK = 1e-9
"""A point outside of an atom's domain by less than this, relatively, is there by rounding."""
NEAR = (0.0, 1e-12, 1e-6)
"""Steps from a point on the boundary towards the centre at which slopes are compared."""
GROWTH = 1.5
"""A slope that grows by this factor between the last two is infinite on the boundary."""
SAMPLES = 16
"""Decisions, and data, from which the worst ones are looked for,"""
TURNS = 6
"""in at most this many steps,"""
FEW = 200
"""if there are at most this many entries of data."""


def atom_domains(parts: list[Any], conditions: Sequence[Condition] = ()) -> list[tuple[Any, Any]]:
    """All pairs (atom, constraint) such that the atom is finite only where the constraint holds,
    without attributes.

    The conditions under which variables can be chosen after the data follow.
    """
    pairs: dict[tuple[str, str], tuple[Any, Any]] = {}
    queue = parts[::-1]
    while queue:
        node = queue.pop()
        queue += node.args[::-1]
        for constraint in node._domain() if isinstance(node, Atom) else ():
            if not _by_rules(node, constraint) and constraint.variables():
                pairs.setdefault((str(node), str(constraint)), (node, constraint))
    return [*pairs.values(), *((condition, condition.constraint) for condition in conditions)]


def _by_rules(atom: Any, constraint: Any) -> bool:
    """Whether CVXPY's rules prove the condition, and the atom is finite with finite slopes wherever
    it holds.

    Raises for a matrix of data that need not be semidefinite.
    """
    kind = type(atom).__name__
    if isinstance(constraint, (Equality, Zero)):
        return bool(atom.args[0].is_symmetric())
    if kind in ("Power", "PowerApprox") and isinstance(constraint, (Inequality, NonNeg)):
        return bool(atom.args[0].is_nonneg()) and float(atom.p.value) > 1
    if isinstance(constraint, PSD) and not constraint.variables() and constraint.parameters():
        if constraint.args[0].is_psd():
            return True
        names = ", ".join(parameter.name() for parameter in constraint.parameters())
        raise ValueError(
            f"parameter {names}: got admissible data that are not positive semidefinite, for "
            f"which {atom} is not defined; expected PSD=True"
        )
    return False


def check_atoms(probe: Probe, atoms: list[tuple[Any, Any]]) -> list[str]:
    """Raise if an atom is undefined, infinite or infinitely steep somewhere in the domain; return
    notes on what is unknown.

    Conditions that interval arithmetic proves are done with. Otherwise the worst decision is
    computed for affine conditions, and looked for by ascent for convex ones; the worst data are
    looked for at corners of their range. What is neither proven nor refuted is noted.
    """
    notes: list[str] = []
    if not atoms:
        return notes
    model, known, random = probe.model, probe.known, np.random.default_rng(0)
    decisions = sample_decisions(model.domain, random, SAMPLES).reshape(SAMPLES, -1)
    bounds = enclosures(model, known.box)
    for atom, constraint in atoms:
        without_bounds = model.guessed([constraint], known)
        if without_bounds:
            raise ValueError(
                f"parameters: got {', '.join(without_bounds)} without bounds; expected bounds, "
                f"because {atom} is defined only where {constraint}"
            )
        highest = _highest(bounds, constraint)
        if highest < 0 or (isinstance(atom, Condition) and highest <= SLACK):
            continue
        if isinstance(atom, Condition) and not constraint.variables():
            raise ValueError(
                f"recourse: got {atom.names}, for which there is no best choice for some "
                f"admissible data of {', '.join(p.name() for p in constraint.parameters())}: "
                f"{atom.why}. Expected narrower bounds"
            )
        count = SAMPLES if model.changing(constraint) else 1
        rounds = draw_parameters(model.parameters, known, random, count)
        exact = _refuse_witness(probe, atom, constraint, decisions, rounds)
        if not exact and highest > SLACK:
            notes.append(
                f"{atom}: no decision and data were found for which it is not defined, but "
                "interval arithmetic does not exclude them"
            )
    return notes


def _refuse_witness(
    probe: Probe,
    atom: Any,
    constraint: Any,
    decisions: Array,
    rounds: Array,
) -> bool:
    """Raise for a decision and data at which the atom is undefined, infinite or infinitely steep.
    Return whether there certainly are none."""
    model = probe.model
    changing, flat = model.changing(constraint), model.flat_copy()
    rows = [flat.of(excess.expression) for excess in excesses_of(constraint)]
    for start in rounds:
        data = start
        for row in rows:
            for _ in range(TURNS if changing else 1):
                flat.assign(model.data_of(data))
                worst, where = _worst(row, flat.variable, model.domain, decisions)
                shown = f" for the admissible data {_data_at(data, model)}" if changing else ""
                _refuse_outside(atom, constraint, worst, where, model, shown)
                edge = where[worst >= -SLACK * (1 + np.abs(worst).max())]
                if len(edge):
                    _refuse_steep(atom, np.unique(edge, axis=0), data, probe, shown)
                before = data
                data = _worst_data(row, flat, where[int(np.argmax(worst))], data, probe)
                if np.array_equal(before, data):
                    break
    return not changing and all(row.is_affine() for row in rows)


def _highest(bounds: Expressions, constraint: Any) -> float:
    """An upper bound on the condition, which must not exceed zero."""
    try:
        return max(
            float(np.max(bounds.of(excess.expression).high)) for excess in excesses_of(constraint)
        )
    except Unknown:
        return np.inf


def _worst_data(row: Any, flat: Any, x: Array, data: Array, probe: Probe) -> Array:
    """The data that are worst at the decision x. Conditions are affine in data: a corner."""
    model, known = probe.model, probe.known
    flat.variable.value = x
    if len(data) > FEW or any(
        is_symmetric(parameter) or np.any(whole(parameter)) for parameter in model.parameters
    ):
        return data
    flat.assign(model.data_of(data))
    values = np.ravel(np.asarray(row.value, float))
    k, worst = int(np.argmax(values)), data.copy()
    for i in np.flatnonzero(known.upper > known.lower):
        moved = data.copy()
        below = data[i] < probe.middle[probe.size + i]
        moved[i] = known.upper[i] if below else known.lower[i]
        flat.assign(model.data_of(moved))
        if np.ravel(np.asarray(row.value, float))[k] > values[k]:
            worst[i] = moved[i]
    return worst


def _ascended(row: Any, variable: Any, domain: Any, x: Array) -> tuple[float, Array]:
    """The largest value that steps to the maximum of a convex row's tangent reach, and where."""
    best, place = -np.inf, x
    for _ in range(TURNS):
        variable.value = x
        value = float(np.max(row.value))
        if not value > best:
            break
        best, place = value, x
        slope = row.grad[variable]
        if slope is None:
            break
        k = int(np.argmax(np.ravel(np.asarray(row.value, float), order="F")))
        slopes = dense(slope).reshape(variable.size, -1)
        x = linear_minimisers(domain, -slopes[:, k][None])[0]
    return best, place


def _worst(row: Any, variable: Any, domain: Any, decisions: Array) -> tuple[Array, Array]:
    """The largest value of each entry over the domain and where, exact for affine rows."""
    if not row.is_affine():
        ascents = [_ascended(row, variable, domain, x) for x in decisions]
        return np.asarray([value for value, _ in ascents]), np.stack([x for _, x in ascents])
    variable.value = decisions[0]
    slopes = dense(row.grad[variable]).reshape(variable.size, -1)
    value = np.ravel(np.asarray(row.value, float), order="F") - decisions[0] @ slopes
    origin = np.zeros_like(slopes.T)
    return value - least_change(domain, -slopes.T, origin), linear_minimisers(domain, -slopes.T)


def _refuse_outside(
    atom: Any, constraint: Any, worst: Array, where: Array, model: Model, shown: str
) -> None:
    i = int(np.argmax(worst))
    if worst[i] <= SLACK * (1 + np.abs(where[i]).max()):
        return
    if isinstance(atom, Condition):
        raise ValueError(
            f"recourse: got {atom.names}, for which there is no best choice at "
            f"{_at(where[i], model)}{shown}: {atom.why}. Expected a choice for every decision "
            "of the domain and all admissible data; add a slack variable with a cost, or "
            "narrower bounds"
        )
    raise ValueError(
        f"domain: got one that contains {_at(where[i], model)}, where {atom} is not "
        f"defined{shown}; expected a domain on which {constraint} everywhere, because a "
        "decision can be any point of it"
        + (", or narrower bounds of the parameters" if shown else "")
    )


def _refuse_steep(atom: Any, edge: Array, data: Array, probe: Probe, shown: str) -> None:
    n, centre = probe.size, np.ravel(np.asarray(probe.domain.centre, float))
    near = np.concatenate([edge + step * (centre - edge) for step in NEAR])
    seen = probe(np.concatenate([near, np.tile(data, (len(near), 1))], axis=1))
    steep = np.linalg.norm(seen.slopes[:, :, :n], axis=2).max(axis=1).reshape(len(NEAR), -1)
    value = np.abs(seen.values).sum(axis=1).reshape(len(NEAR), -1)
    for what, bad in (
        ("infinite", ~np.isfinite(value[0])),
        ("infinitely steep", ~(steep[1] <= GROWTH * steep[2])),
    ):
        if bad.any():
            place = _at(edge[int(np.argmax(bad))], probe.model)
            raise ValueError(
                f"domain: got one that contains {place}, where {atom} is {what}{shown}; "
                "expected a domain that keeps a distance from there"
            )


def _data_at(data: Array, model: Model) -> str:
    names = [parameter.name() for parameter in model.parameters]
    return _listed(zip(names, model.data_of(np.round(data, 6)), strict=True))


def _at(x: Array, model: Model) -> str:
    shown = model.present(np.round(x, 6).reshape(model.domain.shape))
    return _listed(
        shown.items() if isinstance(shown, dict) else [(model.variables[0].name(), shown)]
    )


def _listed(parts: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(
        f"{name} = {np.array2string(np.asarray(value), threshold=8)}" for name, value in parts
    )

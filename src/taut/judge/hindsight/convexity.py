"""The one place where losses and constraints that are not convex are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...engine import Array
from .scaling import Scaling
from .tolerances import BELOW_TANGENT, CONCAVE, CONCAVE_SLOPE, LOSS_BELOW_TANGENT

__all__ = [
    "refuse_concave_constraints",
    "refuse_concave_loss",
    "refuse_constraints_below_tangents",
    "refuse_loss_below_tangent",
]


def refuse_concave_loss(hessian: Array, slope: Array, scaling: Scaling, rounds: int) -> None:
    """Raise if the Hessian of a mean loss, scaled, has a negative eigenvalue."""
    values = np.linalg.eigvalsh(hessian)
    size = max(abs(values[-1]), abs(values[0]))
    if values[0] < -CONCAVE * size - CONCAVE_SLOPE * float(np.abs(slope).max()):
        curvature = values[0] * float(scaling.loss_unit) / float(scaling.radius) ** 2
        raise ValueError(
            f"loss: got losses whose sum over {rounds} rounds is not convex: its mean has the "
            f"curvature {curvature:.3g} in some direction; expected a convex sum"
        )


def refuse_loss_below_tangent(
    value: Array,
    slope: Array,
    u: Array,
    witness: Array,
    there: Array,
    rounds: Sequence[int],
    scaling: Scaling,
) -> None:
    """Raise if mean losses, with value and slope at `u`, are smaller at `witness` than their
    tangents allow."""
    plane = value + np.sum(slope * (witness - u), axis=1)
    size = np.abs(value) + np.abs(plane) + np.linalg.norm(slope, axis=1)
    below = plane - there
    if np.any(below > LOSS_BELOW_TANGENT * size):
        e = int(np.argmax(below - LOSS_BELOW_TANGENT * size))
        depth = below[e] * float(scaling.loss_unit)
        raise ValueError(
            f"loss: got losses whose sum over {rounds[e]} rounds is not convex: its mean lies "
            f"{depth:.3g} below its tangent at the solution; expected a convex sum"
        )


def refuse_concave_constraints(
    which: Array, hessians: Array, sizes: Array, scaling: Scaling
) -> None:
    """Raise if the Hessian of a quadratic constraint has an eigenvalue below minus CONCAVE times
    its size."""
    if not len(hessians):
        return
    least = np.linalg.eigvalsh(hessians)[:, 0]
    bad = np.flatnonzero(least < -CONCAVE * sizes)
    if bad.size:
        i = which[bad[0]]
        curvature = least[bad[0]] * scaling.unit_of(i) / float(scaling.radius) ** 2
        raise ValueError(
            f"constraints: got a function that is not convex: constraint {i} is quadratic with the "
            f"curvature {curvature:.3g}; expected convex constraints"
        )


def refuse_constraints_below_tangents(
    u: Array, values: Array, slopes: Array, scaling: Scaling
) -> None:
    """Raise if a constraint lies below one of its tangents: g(y) >= g(x) + <gradient g(x), y - x>
    for convex g."""
    planes = values[:, None, :] + np.einsum("kmd,kld->klm", slopes, u[None, :, :] - u[:, None, :])
    below = planes - values[None, :, :]
    allowed = BELOW_TANGENT * (
        1 + np.abs(values).max(axis=0) + np.linalg.norm(slopes, axis=2).max(axis=0)
    )
    if np.any(below > allowed):
        x, y, i = np.unravel_index(int(np.argmax(below / allowed)), below.shape)
        depth = below[x, y, i] * scaling.unit_of(int(i))
        raise ValueError(
            f"constraints: got a function that is not convex: constraint {i} lies {depth:.3g} "
            "below its own tangent inside the domain; expected convex constraints"
        )

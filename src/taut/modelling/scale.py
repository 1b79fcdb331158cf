"""Constants of a model: exact for affine and quadratic parts, else estimated and marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..constants import Constants
from ..domains import Box
from ..estimation import estimate
from ..streams import as_stream
from .constraints import limits

if TYPE_CHECKING:
    from .model import Model

__all__ = ["model_constants", "parameter_samples"]

SAMPLES = 48
CORNERS = 12
"""Up to this many entries the largest gradient of a quadratic over a box is found exactly, at a corner."""


def model_constants(model: Model, rows: list[Any]) -> Constants:
    """What the user gave, then what is exact, then what sampling tells."""
    known = model.constants
    exact = {}
    if not model.constraints.takes_data:
        exact = _exact_constraints(model, rows)
        known = known.merged(Constants().with_values(exact=True, **exact))
    data = parameter_samples(model)
    stream = as_stream(data) if data else as_stream(np.zeros(1))
    sampled = estimate(model, stream, jax.random.key(0), 256)
    if all(row.is_affine() for row in rows) and "constraint_smoothness" not in exact:
        known = known.merged(Constants().with_values(exact=True, constraint_smoothness=0.0))
    return known.merged(sampled)


def parameter_samples(model: Model) -> tuple[np.ndarray[Any, Any], ...]:
    """Values of the per-round parameters to probe with: within their bounds where they state some.

    A parameter without bounds is taken to be as large as decisions can get in sum: a guess, so that whatever rests on it
    is marked as estimated and checked against the real stream by every certificate.
    """
    reach = _reach(model)
    draws = np.random.default_rng(0)
    found = []
    for parameter in model.parameters:
        lower, upper = limits(parameter)
        low = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2 * reach, -reach))
        high = np.where(np.isfinite(upper), upper, np.where(np.isfinite(lower), lower + reach, reach))
        mix = draws.uniform(size=(SAMPLES, *parameter.shape))
        mix[: SAMPLES // 3] = np.round(mix[: SAMPLES // 3])  # corners: extremes are attained there
        values = low + mix * (high - low)
        if parameter.attributes["PSD"] or parameter.attributes["symmetric"]:
            values = (values + np.swapaxes(values, -1, -2)) / 2
        if parameter.attributes["PSD"]:
            values = values @ np.swapaxes(values, -1, -2) / max(reach, 1.0)
        found.append(values)
    return tuple(found)


def _reach(model: Model) -> float:
    centre, radius = np.asarray(model.domain.centre), float(model.domain.radius)
    if isinstance(model.domain, Box):
        return float(np.sum(np.maximum(np.abs(model.domain.lower), np.abs(model.domain.upper))))
    return float(np.sum(np.abs(centre)) + radius * np.sqrt(centre.size))


def _exact_constraints(model: Model, rows: list[Any]) -> dict[str, Any]:
    """Lipschitz constant, range and smoothness, if every constraint is affine or quadratic."""
    if not all(row.is_affine() or row.is_quadratic() for row in rows):
        return {}

    def flat(x: jax.Array) -> jax.Array:
        return model.constraints.values(x.reshape(model.domain.shape), None)

    size = int(np.prod(model.domain.shape))
    if size > 200:
        return {}
    centre = jnp.ravel(model.domain.centre)
    value = np.asarray(flat(centre))
    slope = np.asarray(jax.jacobian(flat)(centre))
    bend = np.asarray(jax.hessian(flat)(centre))
    radius = float(model.domain.radius)
    norms = np.linalg.norm(slope, axis=1)
    spread = np.abs(np.linalg.eigvalsh(bend)).max(axis=1)
    if isinstance(model.domain, Box):
        half = (np.ravel(model.domain.upper) - np.ravel(model.domain.lower)) / 2
        reach = np.abs(slope) @ half + 0.5 * np.abs(bend).sum(axis=2) @ half * half.max()
        if not np.any(bend):
            return _entries(norms, np.abs(value) + np.abs(slope) @ half, spread)
        if size <= CORNERS:
            corners = np.array(np.meshgrid(*[(-h, h) for h in half])).reshape(size, -1).T
            moved = slope[:, None, :] + np.einsum("mij,cj->mci", bend, corners)
            return _entries(np.linalg.norm(moved, axis=2).max(axis=1), np.abs(value) + _rise(slope, bend, half), spread)
        return _entries(norms + spread * radius, np.abs(value) + reach, spread)
    return _entries(norms + spread * radius, np.abs(value) + norms * radius + 0.5 * spread * radius**2, spread)


def _rise(slope: Any, bend: Any, half: Any) -> Any:
    return np.abs(slope) @ half + 0.5 * np.einsum("mij,i,j->m", np.abs(bend), half, half)


def _entries(norms: Any, reach: Any, spread: Any) -> dict[str, float]:
    return {
        "constraint_lipschitz": float(np.max(norms)),
        "constraint_range": float(np.max(reach)),
        "constraint_smoothness": float(np.max(spread)),
    }

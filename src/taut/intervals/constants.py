"""Constants of functions from their enclosures: Lipschitz constants, ranges and curvature."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..jax_internals import bind
from ..jaxpr.walk import evaluate
from .enclosure import Enclosure, Space, outward
from .matrices import eigenvalues
from .of_jaxpr import PLAIN, enclose, is_log_add_exp
from .pieces import Unknown

CLOSE = 1.05
"""A bound that is at most this many times a value that is attained is not improved."""
PIECES = 48
"""The number of boxes that are looked at to improve a bound."""
ENTRIES = 12
"""A box with more entries, of decision and data together, is not divided."""


def lipschitz(enclosure: Enclosure) -> float:
    """The largest norm of the gradient of any entry, in a space with gradients."""
    if not enclosure.space.gradients:
        raise ValueError("space: got one without gradients; expected Space(..., gradients=True)")
    steep = float(np.max(outward(enclosure).steep, initial=0))
    if not np.isfinite(steep):
        raise Unknown("slopes are not limited")
    return steep


def size(enclosure: Enclosure) -> float:
    """The largest absolute value of any entry."""
    return float(np.max(outward(enclosure.sharp).value.size, initial=0))


def variation(enclosure: Enclosure) -> float:
    """The largest difference of an entry's values at two decisions, for the same data."""
    wide, space = outward(enclosure.sharp), enclosure.space
    bounds = [wide.high - wide.low, wide.steep * space.diameter]
    if wide.moves and wide.slopes is not None and space.gradients:
        rows = wide.slopes.map(lambda part: part.reshape(-1, space.size))
        moved = rows.size @ (space.high - space.low)
        bounds += [
            part.reshape(wide.shape) for part in (moved, space.reach(rows) + space.reach(-rows))
        ]
    return float(np.max(np.fmin.reduce(bounds), initial=0))


def curvature(
    function: Callable[..., Any], space: Space, low: Any = None, high: Any = None
) -> tuple[float, float]:
    """Bounds on all eigenvalues of the second derivative of `function(x, z)`, a number.

    The lower one, if it is above 0, is a modulus of strong convexity, and the larger absolute value
    a constant of smoothness. The gradient must have slopes: functions with kinks raise `Unknown`.
    So do functions that may jump, because JAX's derivative of a jump is 0.
    """

    def value(x: jax.Array, z: Any) -> jax.Array:
        program = jax.make_jaxpr(function)(x, z)
        operands = [x, *jax.tree.leaves(z)]
        (result,) = evaluate(program, operands, _with_softplus, PLAIN)
        return result

    def gradient(x: jax.Array, z: Any) -> jax.Array:
        return jnp.ravel(jax.grad(value)(x, z))

    if not np.all(np.isfinite(enclose(value, space, low, high).steep)):
        raise Unknown("slopes are not limited")
    slopes = enclose(gradient, space, low, high).gradient
    if slopes is None or not space.gradients:
        raise Unknown("second derivatives are not limited")
    values = eigenvalues(slopes)
    return float(values.low[0]), float(values.high[-1])


@jax.custom_jvp
def _softplus(x: jax.Array) -> jax.Array:
    return jnp.logaddexp(x, 0.0)


_softplus.defjvps(lambda tangent, value, x: tangent * jax.nn.sigmoid(x))


def _with_softplus(equation: Any, operands: list[Any]) -> list[Any]:
    """The results of an equation. `jnp.logaddexp` gets a derivative that has good bounds itself."""
    if not is_log_add_exp(equation):
        return bind(equation, operands)
    x, y = operands
    return [y + _softplus(x - y)]


class Edges(NamedTuple):
    """Decisions and data, both flat, between bounds."""

    low: Array
    high: Array
    size: int
    """The number of entries of a decision."""


def least_upper(
    bound: Callable[[Edges], float], box: Edges, attained: float, data_only: bool = False
) -> float:
    """The bound over a box, improved by dividing the box where that is cheap; at least the attained
    value.

    With `data_only` the range of the data is divided and that of the decisions is not, for bounds
    on differences between two decisions.
    """
    first = bound(box)
    widths = box.high - box.low
    moving = np.flatnonzero(widths > 0)
    moving = moving[moving >= box.size] if data_only else moving
    if not 0 < len(moving) <= ENTRIES or first <= CLOSE * attained:
        return max(first, attained)
    queue: list[tuple[float, int, Array, Array]] = [(-first, 0, box.low, box.high)]
    for made in range(1, PIECES, 2):
        top, _, low, high = queue[0]
        if -top <= CLOSE * attained:
            break
        heapq.heappop(queue)
        split = moving[int(np.argmax(((high - low) / np.where(widths > 0, widths, 1))[moving]))]
        middle = (low[split] + high[split]) / 2
        for k in range(2):
            lower, upper = low.copy(), high.copy()
            (upper if k == 0 else lower)[split] = middle
            # A part of the box cannot have a larger bound than all of it.
            part = min(bound(Edges(lower, upper, box.size)), -top)
            heapq.heappush(queue, (-part, made + k, lower, upper))
    return max(-queue[0][0], attained)

"""Parameters that change with the round: which ones, the range of their values, and values to probe
with.

`taut.previous(x)` is such a parameter: its data are x_{t-1}, which taut fills in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np

from ...engine import Array
from ...intervals.constants import Edges
from ...problem.domains import Domain
from ...problem.domains.support import bounding_box
from .attributes import is_symmetric, limits, pattern, spans_of, whole
from .reading import named

if TYPE_CHECKING:
    from .statement import Statement


def previous(variable: Any) -> Any:
    """Return the decision of the round before in place of a CVXPY variable: a parameter that needs
    no data.

    The same variable always gives the same parameter. Loss and constraints must be convex in the
    variable when the previous decision is replaced by the variable itself, because a fixed decision
    is its own previous one.

    >>> import cvxpy as cp, numpy as np, taut
    >>> x, c = cp.Variable(2, name="x", bounds=[0, 1]), cp.Parameter(2, name="c", bounds=[-1, 1])
    >>> loss = c @ x + 0.1 * cp.norm1(x - taut.previous(x))
    >>> problem = taut.from_cvxpy(loss, [cp.sum(x) <= 1, x - taut.previous(x) <= 0.2])
    >>> problem.previous, len(problem.model.parameters)
    (True, 2)
    """
    if not isinstance(variable, cp.Variable):
        raise TypeError(f"variable: got {type(variable).__name__}; expected a cvxpy.Variable")
    known = getattr(variable, "_taut_previous", None)
    if known is None:
        low, high = (np.asarray(edge, float).reshape(variable.shape) for edge in limits(variable))
        bounded = bool(np.all(np.isfinite(low)) and np.all(np.isfinite(high)))
        known = cp.Parameter(
            variable.shape,
            name=f"previous({variable.name()})",
            **({"bounds": [low, high]} if bounded else {}),
        )
        known._taut_variable = variable
        variable._taut_previous = known
    return known


def is_previous(parameter: Any) -> bool:
    """Return whether a parameter stands for the previous decision."""
    return getattr(parameter, "_taut_variable", None) is not None


def refuse_foreign(parameters: list[Any], variables: list[Any]) -> None:
    """Raise for the previous value of a variable that is not in the model."""
    for parameter in filter(is_previous, parameters):
        if not any(parameter._taut_variable is variable for variable in variables):
            name = parameter._taut_variable.name()
            raise ValueError(
                f"previous({name}): got a variable that the model does not contain; expected one "
                "that it does"
            )


def chosen_parameters(parameters: list[Any], chosen: Any, values: Mapping[int, Any]) -> list[Any]:
    """The parameters that change with the round: the chosen ones, or those without a value."""
    if chosen is None:
        return [parameter for parameter in parameters if values[parameter.id] is None]
    listed = named("per_round", chosen, parameters, "parameters")
    picked = [
        parameter
        for parameter in parameters
        if is_previous(parameter) or any(parameter is other for other in listed)
    ]
    for parameter in parameters:
        if not any(parameter is other for other in picked) and values[parameter.id] is None:
            raise ValueError(
                f"parameter {parameter.name()}: got no value; expected one, or the parameter in "
                "per_round"
            )
    return picked


class Range(NamedTuple):
    """The values that all per-round parameters take, as one flat vector."""

    lower: Array
    upper: Array
    guessed: Array
    """Entries without stated bounds, whose bounds are a guess."""
    box: Edges
    """The smallest box around decisions and parameters."""


def parameter_range(statement: Statement, domain: Domain) -> Range:
    """The range of the parameters that change with the round, by their attributes.

    A previous decision is in the domain. Another parameter without bounds is taken to be as large
    as decisions can get in sum: a guess, so that whatever rests on it is marked as estimated, and
    checked against the real stream by every certificate.
    """
    low, high = bounding_box(domain)
    reach = float(np.sum(np.maximum(np.abs(low), np.abs(high)))) or 1.0
    parts = [(np.zeros(0), np.zeros(0), np.zeros(0, bool))]
    for parameter in statement.parameters:
        lower, upper = (np.ravel(edge) for edge in limits(parameter))
        if is_previous(parameter):
            span = statement.spans[parameter._taut_variable.id]
            lower, upper = np.maximum(lower, low[span]), np.minimum(upper, high[span])
        below, above = np.isfinite(lower), np.isfinite(upper)
        parts.append(
            (
                np.where(below, lower, np.where(above, upper - reach, -reach)),
                np.where(above, upper, np.where(below, lower + reach, reach)),
                ~(below & above),
            )
        )
    least, most, guessed = (np.concatenate(edges) for edges in zip(*parts, strict=True))
    box = Edges(np.append(low, least), np.append(high, most), statement.size)
    return Range(least, most, guessed, box)


def guess_notes(parameters: list[Any], known: Range, estimated: frozenset[str]) -> list[str]:
    """Notes on the range that was assumed for parameters without bounds, if it matters."""
    notes, spans = [], spans_of(parameters)
    for parameter in parameters if estimated else ():
        span = spans[parameter.id]
        if np.any(known.guessed[span]):
            low, high = known.lower[span].min(), known.upper[span].max()
            notes.append(
                f"{parameter.name()}: no bounds are stated; the constants "
                f"({', '.join(sorted(estimated))}) assume values between {low:.4g} and "
                f"{high:.4g}, a guess from the size of decisions; state bounds=[low, high], or "
                "use problem.estimate_constants(stream, key)"
            )
    return notes


def draw_parameters(
    parameters: list[Any], known: Range, random: np.random.Generator, count: int
) -> Array:
    """Admissible values (count, size): the middle, corners, and some between."""
    mix = random.uniform(size=(count, len(known.lower)))
    mix[1::2] = np.round(mix[1::2])  # extremes are attained at corners
    mix[:1] = 0.5
    values = known.lower + mix * (known.upper - known.lower)
    spans = spans_of(parameters)
    for parameter in parameters:
        attributes, own = parameter.attributes, values[:, spans[parameter.id]]
        part = own.reshape(count, *parameter.shape)
        part = np.where(whole(parameter), np.round(part), part) * pattern(parameter)
        if is_symmetric(parameter):
            part = (part + np.swapaxes(part, -1, -2)) / 2
        if attributes["PSD"] or attributes["NSD"]:
            largest = np.abs(part).max(axis=(-1, -2), keepdims=True)
            size = np.sqrt(largest * parameter.shape[-1])
            square = part @ part / np.where(size > 0, size, 1) ** 2 * largest
            part = square if attributes["PSD"] else -square
        own[:] = part.reshape(count, -1)
    return values

"""Enclosures of functions of the eigenvalues or singular values of one matrix.

A symmetric matrix whose entries are within `room` of those of `middle` has eigenvalues within the
spectral norm of `room` of those of `middle` (Weyl); so have singular values of any matrix.
"""

from __future__ import annotations

import numpy as np

from .arithmetic import both, last, reduced, spectral
from .curves import Curve
from .enclosure import Enclosure, Interval
from .pieces import Unknown

SPARE = 1e-13
"""Computed eigenvalues are this exact, relative to the largest."""
ANY = Interval(np.asarray(-np.inf), np.asarray(np.inf))


def eigenvalues(matrix: Interval) -> Interval:
    """Bounds on the eigenvalues of symmetric matrices, in ascending order."""
    low, high = ((edge + edge.T) / 2 for edge in (matrix.low, matrix.high))
    values, reach = np.linalg.eigvalsh((low + high) / 2), np.linalg.norm((high - low) / 2, 2)
    room = reach + SPARE * np.abs(values).max()
    return Interval(values - room, values + room)


def _positive(u: Enclosure, known: Interval) -> Interval:
    values = eigenvalues(u.value).within(known)
    if values.low[0] <= 0:
        raise Unknown("a matrix that may not be definite has no bound")
    return values


def _reduced(u: Enclosure, values: Interval, centre: Interval, slopes: Interval) -> Enclosure:
    """A sum of functions of eigenvalues, with bounds on each of them and on its derivative.

    The gradient in the matrix has the derivatives as eigenvalues: their root of squares is its
    norm, and no entry exceeds the largest of them in absolute value.
    """
    flat, size = last(u, None), slopes.size
    edge = np.full(flat.shape, size.max())
    norm = np.linalg.norm(size) * spectral(flat)
    return reduced(values.map(np.sum), centre.map(np.sum), norm, (flat, Interval(-edge, edge)))


def singular(u: Enclosure, count: int | None = None) -> Enclosure:
    """The sum of the largest singular values, or of all of them."""
    count = min(u.shape) if count is None else count

    def value(a: Interval) -> Interval:
        numbers = np.linalg.svd((a.low + a.high) / 2, compute_uv=False)[:count]
        reach = np.linalg.norm((a.high - a.low) / 2, 2) + SPARE * numbers[0]
        return Interval(np.maximum(numbers - reach, 0), numbers + reach)

    return _reduced(u, *both(value, u), Interval.of(np.ones(count)))


def largest_eigenvalues(u: Enclosure, count: float, known: Interval = ANY) -> Enclosure:
    """The sum of the largest eigenvalues; the last one has a weight, if `count` is a fraction."""
    weights = Interval.of(np.clip(count - np.arange(len(u.low))[::-1], 0, 1))
    values = eigenvalues(u.value).within(known)
    return _reduced(u, values * weights, eigenvalues(u.centre) * weights, weights)


def summed(curve: Curve, u: Enclosure, known: Interval = ANY) -> Enclosure:
    """The sum of a function of the eigenvalues of a definite matrix."""
    values = _positive(u, known)
    image = curve.image(values)
    return _reduced(u, image, image, curve.slopes(values, values))


def matrix_fraction(u: Enclosure, matrix: Enclosure) -> Enclosure:
    """trace(u' P^-1 u), whose gradients are 2 P^-1 u and -P^-1 u u' P^-1."""
    values = _positive(matrix, ANY)
    least, most = values.low[0], values.high[-1]
    small, large = (np.sum(edge**2) for edge in (u.value.least_size, u.value.size))
    value, terms, norm = Interval(small / most, large / least), [], np.zeros(())
    for operand, steep in ((u, 2 * np.sqrt(large) / least), (matrix, large / least**2)):
        flat = last(operand, None)
        edge = np.full(flat.shape, steep)
        terms.append((flat, Interval(-edge, edge)))
        norm = norm + steep * spectral(flat)
    return reduced(value, value, norm, *terms)

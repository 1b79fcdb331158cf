"""Random functions: values, differences between decisions and gradients stay within enclosures.

Values come from JAX and CVXPY. Decisions include corners and points at which functions have kinks
or entries are equal.
"""

from __future__ import annotations

import functools

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_expressions
import random_programs

import taut
from taut.intervals.constants import Edges
from taut.intervals.enclosure import Space
from taut.intervals.of_jaxpr import enclose
from taut.intervals.pieces import Unknown
from taut.modelling.constants.enclosures import enclosures
from taut.problem.sampling import sample_decisions

TIES = (-1, -0.5, 0, 0.2, 0.25, 0.5, 1, 2)


def domains(random):
    low = random.choice([-1, -0.5, 0, 0.25], 3)
    yield taut.Box(low, low + random.choice([0.5, 1, 2], 3))
    yield taut.Ball(float(random.choice([0.5, 1.0, 2.0])), shape=3)
    yield taut.Simplex(3)
    yield taut.L1Ball(1.5, shape=3)


def decisions(domain, random, count=20):
    inside = sample_decisions(domain, random, count)
    kinks = [jnp.asarray(random.choice(TIES, 3)) for _ in range(count)]
    return np.concatenate([inside, [np.asarray(domain.project(x)) for x in kinks]])


def data(random, count):
    """Smallest and largest data, and data between them."""
    z = random.choice([-1, 0, 0.5], 3) * 1.0
    k = random.integers(-3, 4, 3)
    low, high = {"z": z, "k": k}, {"z": z + random.choice([0, 0.5, 1]), "k": k}
    if random.integers(2):
        high["k"] = k + random.integers(0, 3, 3)
    share = np.round(random.uniform(size=(count, 3)), int(random.integers(3)))
    between = {
        "z": low["z"] + share * (high["z"] - low["z"]),
        "k": random.integers(low["k"], high["k"] + 1, (count, 3)),
    }
    return low, high, between


def inside(numbers, interval, room):
    """Whether all numbers that are finite are in an interval."""
    finite = np.isfinite(numbers)
    below, above = numbers < interval.low - room, numbers > interval.high + room
    return not np.any((below | above) & finite)


def changes(slopes, steps):
    """All <s, step> with slopes s, as intervals: (pair, entry)."""
    ends = [edge * steps[:, None, :] for edge in (slopes.low, slopes.high)]
    return type(slopes)(np.minimum(*ends).sum(-1), np.maximum(*ends).sum(-1))


def check(bounds, x, values, room):
    """Check values at decisions x, and their differences, for the same data."""
    values = values.reshape(len(x), -1)
    flat = bounds.value.map(np.ravel)
    assert inside(values, flat, room)
    if bounds.slopes is None:
        return
    slopes = bounds.gradient.map(lambda part: part.reshape(-1, x.shape[1]))
    if bounds.space.gradients:
        steps, differences = x - x[::-1], values - values[::-1]
        assert np.all(
            np.abs(differences)
            <= np.ravel(bounds.steep) * np.linalg.norm(steps, axis=1)[:, None] + room
        )
    else:
        steps, differences = x[1:] - x[0], values[1:] - values[0]
    assert inside(differences, changes(slopes, steps), 2 * room)


def room_of(values, share):
    return share * (1 + np.abs(np.where(np.isfinite(values), values, 0)).max())


@pytest.mark.parametrize("seed", range(32))
def test_random_functions_in_jax(seed):
    random = np.random.default_rng(seed)
    function, names = random_programs.program(random)
    single = seed % 8 == 7
    if single:
        function = functools.partial(random_programs.in_single_precision, function)
    share = 1e-4 if single else 1e-9
    domain = list(domains(random))[seed % 4]
    x = decisions(domain, random)
    low, high, between = data(random, len(x))
    first = jax.tree.map(lambda part: jnp.asarray(part[0]), between)

    @jax.jit
    def computed(x, many, centre):
        values = jax.vmap(function)(x, many)
        same = jax.vmap(lambda y: function(y, first))(jnp.concatenate([centre[None], x]))
        return values, same, jax.vmap(jax.jacrev(function))(x, many)

    for gradients in (False, True):
        space = Space.of(domain, gradients=gradients)
        values, same, jacobians = map(np.asarray, computed(x, between, jnp.asarray(space.centre)))
        try:
            bounds = enclose(function, space, low, high)
        except Unknown:
            continue
        assert inside(values, bounds.value, room_of(values, share)), names
        points = np.concatenate([space.centre[None], x])
        check(bounds, points, same, room_of(same, share))
        if gradients and bounds.slopes is not None and "stop" not in names:
            room = 100 * room_of(jacobians, share)
            assert inside(jacobians, bounds.slopes, room), names
            norms = np.linalg.norm(np.nan_to_num(jacobians, posinf=0, neginf=0), axis=-1)
            assert np.all(norms <= bounds.steep + room), names


def test_most_random_functions_have_bounds_and_slopes():
    bounded = sloped = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        function, _ = random_programs.program(random)
        low, high, _ = data(random, 1)
        try:
            bounds = enclose(function, Space.of(taut.Ball(1.0, shape=3)), low, high)
        except Unknown:
            continue
        bounded, sloped = bounded + 1, sloped + (bounds.gradient is not None)
    assert bounded >= 50
    assert sloped >= 40


class Leaves:
    """The part of a model that enclosures ask for."""

    def __init__(self, variable, parameter, domain):
        self.parameters, self.spans = [parameter], {variable.id: slice(0, 3)}
        self.domain = domain


@pytest.mark.parametrize("seed", range(24))
def test_random_expressions_in_cvxpy(seed):
    random = np.random.default_rng(seed)
    x, p = cp.Variable(3), cp.Parameter(3)
    domain = list(domains(random))[seed % 4]
    points = decisions(domain, random, 10)
    p_low = random.choice([-1, 0, 0.5], 3) * 1.0
    p_high = p_low + random.choice([0, 0.5, 1])
    low, high = (np.asarray(edge, float) for edge in (Space.of(domain).low, Space.of(domain).high))
    box = Edges(np.append(low, p_low), np.append(high, p_high), 3)
    for _ in range(12):
        expression = random_expressions.expression(random, x, p)
        try:
            bounds = enclosures(Leaves(x, p, domain), box).of(expression)
        except Unknown:
            continue
        assert bounds.shape == expression.shape
        p.value = p_low + np.round(random.uniform(size=3), 1) * (p_high - p_low)
        values = []
        for point in points:
            x.value = point
            values.append(np.asarray(expression.value, float))
        values = np.stack(values)
        assert np.all(np.isfinite(values)), str(expression)
        check(bounds, points, values, room_of(values, 1e-9))

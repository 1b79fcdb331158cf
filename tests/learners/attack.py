"""Random search for instances on which a learner exceeds its own bound: losses, constraints and
comparator all move.

The domain is the unit ball or a square, the first decision its centre. Losses are c_t.x with |c_t|
<= 1, or |x - c_t|^2 / 2; c_t may depend on the decision x_t. Constraints are a_t.x <= a_t.x* +
slack with |a_t| <= 1, so that the comparator x* is feasible in every round. Every member of a
population climbs by itself: a change is kept if the measured value comes nearer to the bound.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import taut

BALL, SQUARE = taut.Ball(1.0, shape=2), taut.Box(-1.0, 1.0, shape=2)


def linear(x, z):
    return z["c"] @ x


def quadratic(x, z):
    return jnp.sum((x - z["c"]) ** 2) / 2


def rows(x, z):
    return z["a"] @ x - z["b"]


def constants(count=1, strong=False, domain=BALL, slack=0.0):
    reach = 2 * float(domain.radius)
    return taut.Constants(
        radius=float(domain.radius),
        loss_lipschitz=1 + float(domain.radius) if strong else 1.0,
        constraint_lipschitz=1.0,
        constraint_range=reach,
        strong_convexity=float(strong),
        constraint_count=count,
        constraint_smoothness=0.0,
        slater=slack or None,
    )


def _shrunk(v):
    return v / jnp.maximum(1.0, jnp.sqrt(jnp.sum(v**2, axis=-1, keepdims=True)))


def _decoded(raw, fixed, slack, domain):
    star = domain.project(raw["star"])
    a, loose = _shrunk(raw["a"]), jnp.maximum(raw["slack"], 0)
    if fixed:
        a, loose = (jnp.broadcast_to(one[:1], one.shape) for one in (a, loose))
    if slack:  # the comparator itself is a Slater point
        loose = loose + slack
    return star, {"c": raw["c"], "react": raw["react"], "a": a, "b": a @ star + loose}


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _measured(learner, strong, fixed, slack, square, raw):
    domain = SQUARE if square else BALL
    problem = taut.Problem(
        quadratic if strong else linear, rows, domain, constants(raw["a"].shape[2], strong)
    )

    def one(raw):
        star, data = _decoded(raw, fixed, slack, domain)

        def step(state, z):
            z = {**z, "c": _shrunk(z["c"] + z["react"] * state.x)}
            round = problem.round(z)
            here = round.loss(state.x) - round.loss(star), round.constraints(state.x).values
            return learner.step(state, round), here

        first = learner.init(domain.centre, raw["a"].shape[1])
        gaps, values = jax.lax.scan(step, first, data)[1]
        clipped = jnp.maximum(values, 0)
        return {
            "regret": jnp.sum(gaps),
            "violation": jnp.sum(jnp.max(clipped, axis=1)),
            "squared violation": jnp.sum(clipped**2),
            "peak violation": jnp.max(clipped),
            "excess": jnp.max(jnp.sum(values, axis=0)),
        }

    return jax.vmap(one)(raw)


def ratios(
    learner,
    rounds,
    count=1,
    *,
    strong=False,
    fixed=False,
    slack=0.0,
    square=False,
    generations=40,
    population=48,
    seed=0,
    path_length=None,
):
    """The largest measured value over bound that the search finds, for every quantity with a bound
    that is not an expectation."""
    domain = SQUARE if square else BALL
    setting = taut.Setting(
        constants(count, strong, domain, slack),
        float(domain.diameter),
        constraints_fixed=fixed,
        initial_violation=0.0,
        constraints_affine=fixed,
        path_length=path_length,
    )
    limits = {}
    for one in learner.guarantees(setting, rounds):
        if one.bound is not None and not one.expected:
            limits[one.quantity] = min(one.bound, limits.get(one.quantity, np.inf))
    rng = np.random.default_rng(seed)
    shapes = {
        "c": (rounds, 2),
        "a": (rounds, count, 2),
        "slack": (rounds, count),
        "star": (2,),
        "react": (rounds,),
    }
    found = {}
    for quantity, limit in limits.items():
        raw = {name: rng.normal(size=(population, *shape)) for name, shape in shapes.items()}
        raw["react"] = raw["react"] + rng.choice([0.0, 5.0, 50.0], size=(population, 1))
        best = np.full(population, -np.inf)
        for generation in range(generations):
            width = 0.5 * 0.93**generation
            tried = (
                raw
                if generation == 0
                else {
                    name: value
                    + width * rng.normal(size=value.shape) * (rng.uniform(size=value.shape) < 0.3)
                    for name, value in raw.items()
                }
            )
            score = (
                np.asarray(_measured(learner, strong, fixed, slack, square, tried)[quantity])
                / limit
            )
            better = score > best
            best = np.where(better, score, best)
            raw = {
                n: np.where(better.reshape(-1, *[1] * (v.ndim - 1)), tried[n], v)
                for n, v in raw.items()
            }
        found[quantity] = float(best.max())
    return found


def check(found, least=None):
    """No ratio above one; and where `least` says so, the search came that near, so that it had
    something to find."""
    assert found
    for quantity, ratio in found.items():
        assert ratio <= 1 + 1e-9, (quantity, ratio)
    for quantity, floor in (least or {}).items():
        assert found[quantity] >= floor, (quantity, found[quantity])

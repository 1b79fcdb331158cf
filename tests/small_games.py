"""A small strongly convex game that every learner can play, and the same game as a plain NumPy
loop."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import taut

ROUNDS = 60
ALL = ("loss", "excess", "decisions", "multipliers")
RADIUS = 1.5
BALL = taut.Ball(RADIUS, shape=2)
FEASIBLE = taut.L1Ball(1.0, shape=2)


def distance(x, z):
    return 0.5 * jnp.sum((x - z) ** 2)


def outside_diamond(x):
    return jnp.sum(jnp.abs(x)) - 1


def sides(x):
    """The diamond again, side by side: four constraints."""
    return jnp.stack([x[0] + x[1], x[0] - x[1], x[1] - x[0], -x[0] - x[1]]) - 1


CONSTANTS = taut.Constants(
    radius=RADIUS,
    loss_lipschitz=RADIUS + 2,
    constraint_lipschitz=2**0.5,
    constraint_range=RADIUS * 2**0.5,
    strong_convexity=1.0,
    slater=1.0,
)
GAME = taut.Problem(distance, outside_diamond, BALL, CONSTANTS)
FOUR = taut.Problem(distance, sides, BALL, CONSTANTS)


WIDE = taut.Problem(distance, outside_diamond, taut.Ball(RADIUS, shape=600), CONSTANTS)
"""A round of this game is so long that JAX plays chunks in a thread of its own, and goes on."""


@jax.custom_jvp
def steep(u, broken):
    """u, with an infinite slope where `broken` is 1."""
    return u


@steep.defjvp
def _slope(primals, tangents):
    u, broken = primals
    return u, jnp.where(broken == 1, jnp.inf, 1.0) * tangents[0]


def targets(seeds=None, rounds=ROUNDS, seed=0):
    """Points of norm at most 2, most of them outside the diamond."""
    rng = np.random.default_rng(seed)
    shape = (rounds, 2) if seeds is None else (seeds, rounds, 2)
    points = rng.normal(size=shape)
    return 2 * points / np.maximum(1.0, np.linalg.norm(points, axis=-1, keepdims=True) / 1.5) / 1.5


def learner(name, rounds=ROUNDS):
    card = taut.LEARNERS[name]
    unknown = {
        constant: 1.0 for constant in card.needs if getattr(GAME.constants, constant) is None
    }
    known = (
        GAME if card.name in ("one-point", "two-point") else GAME.constants.with_values(**unknown)
    )
    return card.build(known, rounds, feasible=FEASIBLE)


def clipped_by_hand(z, eta, sigma, x=(0.0, 0.0)):
    """Clipped-OGD on GAME in plain NumPy: decisions, losses, excesses, and the decision that would
    come next."""
    x = np.array(x)
    decisions, losses, excesses = [], [], []
    for point in z:
        excess = np.abs(x).sum() - 1
        decisions.append(x)
        losses.append(0.5 * np.sum((x - point) ** 2))
        excesses.append(excess)
        x = x - eta * (x - point) - max(excess, 0) / sigma * np.sign(x)
        x = x / max(1.0, np.linalg.norm(x) / RADIUS)
    return np.array(decisions), np.array(losses), np.array(excesses), x


def arrays_of(run):
    kept = {name: getattr(run, name) for name in (*ALL, "final", "first")}
    return {**kept, **{f"total {name}": value for name, value in vars(run.totals).items()}}


def assert_bit_equal(a, b):
    left, right = arrays_of(a), arrays_of(b)
    for name in left:
        if left[name] is None:
            assert right[name] is None, name
        else:
            assert left[name].dtype == right[name].dtype, name
            assert left[name].shape == right[name].shape, name
            assert left[name].tobytes() == right[name].tobytes(), name


def points_of(domain, count):
    """Points all over a domain, many of them on its boundary; the first two, where constraints tie,
    on its axes."""
    generator, centre = np.random.default_rng(0), np.asarray(domain.centre)
    offsets = generator.normal(size=(count, centre.size))
    offsets *= (
        generator.uniform(0, 1.6, size=(count, 1))
        * float(domain.radius)
        / np.linalg.norm(offsets, axis=1)[:, None]
    )
    if isinstance(domain, taut.Ball):
        offsets /= np.maximum(np.linalg.norm(offsets, axis=1) / float(domain.radius), 1)[:, None]
    offsets[:2] = 0
    offsets[1, 0] = float(domain.radius) / 2
    points = centre + offsets.reshape(count, *centre.shape)
    return np.clip(points, domain.lower, domain.upper) if isinstance(domain, taut.Box) else points

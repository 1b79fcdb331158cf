"""Games in plain NumPy for the tests of the bounds: each row of a batch is a run with its own
adversary and steps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

ADVERSARIES = (
    "random",
    "flip every 7 rounds",
    "push outward",
    "punish where it stands",
    "turn at half time",
)


@dataclass
class Game:
    """max(A x + b) <= 0, or each row of it, on the ball of radius R around 0, where every run
    starts; |df| <= 1."""

    normals: np.ndarray
    offsets: np.ndarray
    radius: float
    joint: bool = False  # one constraint, the maximum
    varying: bool = False  # one constraint a round, drawn at random

    @property
    def m(self):
        return 1 if self.joint or self.varying else len(self.normals)

    @property
    def slope(self):
        return float(np.linalg.norm(self.normals, axis=1).max())

    @property
    def reach(self):  # the largest |g| on the ball
        return float(
            np.max(np.abs(self.offsets) + self.radius * np.linalg.norm(self.normals, axis=1))
        )

    @property
    def vertices(self):
        points = []
        for pair in combinations(range(len(self.normals)), 2):
            a = self.normals[list(pair)]
            if abs(np.linalg.det(a)) > 1e-9:
                x = np.linalg.solve(a, -self.offsets[list(pair)])
                if np.all(self.normals @ x + self.offsets <= 1e-9):
                    points.append(x)
        assert points
        assert max(np.linalg.norm(p) for p in points) <= self.radius + 1e-12
        return np.array(points)

    def constraints(self, x, rng):
        """Values (rows, m) and Jacobians (rows, m, d)."""
        values = x @ self.normals.T + self.offsets
        jacobian = np.broadcast_to(self.normals, (len(x), *self.normals.shape))
        if self.m == len(self.normals):
            return values, jacobian
        which = (
            rng.integers(len(self.normals), size=len(x)) if self.varying else values.argmax(axis=1)
        )
        rows = np.arange(len(x))
        return values[rows, which][:, None], jacobian[rows, which][:, None]

    def project(self, x):
        norm = np.sqrt((x**2).sum(axis=1, keepdims=True))
        return x * np.minimum(1, self.radius / np.maximum(norm, 1e-300))

    def distance(self, points):
        """Distance of each point to the feasible polygon, edge by edge."""
        corners = self.vertices
        corners = corners[np.argsort(np.arctan2(*(corners - corners.mean(axis=0)).T))]
        found = []
        for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            along = np.clip((points - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
            found.append(np.linalg.norm(points - a - along[..., None] * (b - a), axis=-1))
        inside = np.all(points @ self.normals.T + self.offsets <= 0, axis=-1)
        return np.where(inside, 0.0, np.min(found, axis=0))

    def constants(self, *extra):
        known = {
            "radius": self.radius,
            "loss_lipschitz": 1.0,
            "constraint_lipschitz": self.slope,
            "constraint_count": self.m,
            "constraint_range": self.reach,
            "loss_range": 2 * self.radius,
        }
        return {k: known[k] for k in ("radius", "loss_lipschitz", "constraint_lipschitz", *extra)}


SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
CORNERS = np.array(
    [[-1.0, 0.0], [0.0, -1.0], [2.0, 1.0], [-1.0, 1.0]]
)  # a quadrilateral without the centre
SHIFTS = np.array([0.2, -0.3, -1.5, -0.6])


def games():
    """The l1 ball as one constraint and as four, a polyhedron that does not hold the start, and it
    a row a round."""
    return {
        "l1": Game(SIGNS, -np.ones(4), 1.0, joint=True),
        "l1 rows": Game(SIGNS, -np.ones(4), 1.0),
        "polyhedron": Game(CORNERS, SHIFTS, 2.5),
        "varying": Game(CORNERS, SHIFTS, 2.5, varying=True),
    }


def gradients(kinds, x, values, jacobian, turn, rng):
    """The adversaries' linear losses, which may answer the decision just played; `kinds` are
    indices."""
    drawn = rng.uniform(size=x.shape) * [1.2, 1.0]
    rows = np.arange(len(x))
    options = np.stack(
        [
            drawn,
            np.broadcast_to([0.6, 0.8], x.shape) * turn[0],
            -jacobian[rows, values.argmax(axis=1)],
            x + np.where(np.abs(x).sum(axis=1, keepdims=True) < 1e-12, [1.0, 0.0], 0.0),
            np.broadcast_to([0.8, 0.6], x.shape) * turn[1],
        ]
    )
    chosen = options[kinds, rows]
    return chosen / np.sqrt((chosen**2).sum(axis=1, keepdims=True))


@dataclass
class Played:
    """What a batch of runs leaves behind, by row and round."""

    x: np.ndarray  # rows, rounds, d
    g: np.ndarray  # rows, rounds, m
    loss: np.ndarray  # rows, rounds
    sums: np.ndarray  # rows, rounds, d: running sums of the (linear) losses
    dual: np.ndarray  # rows, m: the last multiplier or queue
    dual_peak: np.ndarray
    game: Game

    def regret(self, t=None):
        t = self.loss.shape[1] if t is None else t
        best = (self.sums[:, t - 1] @ self.game.vertices.T).min(axis=1)
        return self.loss[:, :t].sum(axis=1) - best

    @property
    def v(self):
        return np.maximum(self.g, 0)


def play(game, update, rows, horizon, seed=0):
    """Run `update(x, dual, gradient, values, jacobian, t) -> (x before projection, dual(x_next))`
    on every row."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(rows) % len(ADVERSARIES)
    x, dual = np.zeros((rows, 2)), np.zeros((rows, game.m))
    out = Played(
        np.zeros((rows, horizon, 2)),
        np.zeros((rows, horizon, game.m)),
        np.zeros((rows, horizon)),
        np.zeros((rows, horizon, 2)),
        dual,
        np.zeros(rows),
        game,
    )
    for t in range(1, horizon + 1):
        values, jacobian = game.constraints(x, rng)
        turn = (1 if (t // 7) % 2 else -1, 1 if t <= horizon // 2 else -1)
        c = gradients(kinds, x, values, jacobian, turn, rng)
        out.x[:, t - 1], out.g[:, t - 1], out.sums[:, t - 1] = x, values, c
        out.loss[:, t - 1] = (c * x).sum(axis=1)
        step, next_dual = update(x, dual, c, values, jacobian, t)
        x = game.project(x - step)
        dual = next_dual(x)
        out.dual_peak = np.maximum(out.dual_peak, (dual**2).sum(axis=1))
    out.dual, out.dual_peak, out.sums = dual, np.sqrt(out.dual_peak), out.sums.cumsum(axis=1)
    return out


def pull(weights, jacobian):
    return np.einsum("bm,bmd->bd", weights, jacobian)


def clipped_ogd(eta, sigma):
    """x - eta_t c - (1/sigma) sum_i [g_i]_+ dg_i; eta is a function of t, eta(t) and sigma have one
    entry a row."""

    def update(x, dual, c, values, jacobian, t):
        step = eta(t)[:, None] * c + pull(np.maximum(values, 0) / sigma[:, None], jacobian)
        return step, lambda _: dual

    return update


def saddle_point(eta, mu, theta, clipped=False):
    def update(x, dual, c, values, jacobian, t):
        weights = np.where(values > 0, dual, 0) if clipped else dual
        values = np.maximum(values, 0) if clipped else values
        ascent = np.maximum(dual + mu(t) * (values - theta(t) * dual), 0)
        return eta(t) * (c + pull(weights, jacobian)), lambda _: ascent

    return update


def drift_plus_penalty(penalty, proximity):
    def update(x, dual, c, values, jacobian, t):
        step = (penalty * c + pull(dual, jacobian)) / (2 * proximity)
        return step, lambda y: np.maximum(
            dual + values + np.einsum("bmd,bd->bm", jacobian, y - x), 0
        )

    return update


def project_l1(y):
    """The nearest point of the unit l1 ball, one point at a time."""
    if np.abs(y).sum() <= 1:
        return y
    u = np.sort(np.abs(y))[::-1]
    level = (np.cumsum(u) - 1) / np.arange(1, len(u) + 1)
    shift = level[np.nonzero(u > level)[0][-1]]
    return np.sign(y) * np.maximum(np.abs(y) - shift, 0)

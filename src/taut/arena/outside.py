"""Baselines outside of our methods: plain NumPy loops and solvers, scored from their decisions.

Each returns decisions, which are measured as those of a submission. The NumPy versions of published
methods are written from the formulas of their papers and share no code with `taut.learners`. They
show whether results depend on our implementation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine import Array
from .stream import Stream, one_seed
from .streams import dispatch, microgrid
from .streams.ad_pacing import RATE, prices
from .streams.half_spaces import half_spaces

ROUNDS = 1024
"""The longest horizon of a baseline that solves a program in every round."""
SOLVES = 16
"""How often the linear program of budgets is solved again."""


@dataclass(frozen=True)
class Outside:
    """A baseline that is no learner of taut."""

    name: str
    title: str
    reference: str
    cost: str
    streams: tuple[str, ...]
    """The streams that it plays."""
    play: Callable[[Stream, Any, int], Array]
    """(stream, data (seed, round, ...), rounds) -> decisions (seed, round, ...)"""
    longest: int | None = None
    anytime: bool = False
    """Whether decisions do not depend on the number of rounds, so that those of the longest horizon
    are played once."""
    regret: str = "no bound"
    violation: str = "no bound"

    def plays(self, stream: Stream, rounds: int) -> bool:
        """Return whether the baseline plays a stream for a number of rounds."""
        return stream.name in self.streams and rounds <= (self.longest or rounds)


def _polytope(stream: Stream) -> tuple[Array, Array, float]:
    """Normals and levels of the 64 half-spaces, and half of the side of the box."""
    slack = {"polytope": 0.1, "polytope-thin": 0.01, "polytope-flat": 0.0}[stream.name]
    return (*half_spaces(10, 64, slack), 1 / math.sqrt(10))


def _clipped_ogd(stream: Stream, data: Array, rounds: int) -> Array:
    """Algorithm 1 of Yuan & Lamperski with beta = alpha = 1/2, for the largest row of a polytope:

    x_{t+1} = P( x_t - eta (c_t + lambda_t a_i) ), lambda_t = [g(x_t)]_+ / (sigma eta)
    """
    normals, levels, side = _polytope(stream)
    eta, sigma = 1 / (math.sqrt(2) * math.sqrt(rounds)), 2.0
    x = np.zeros((len(data), 10))
    played = np.empty((len(data), rounds, 10))
    for t in range(rounds):
        played[:, t] = x
        values = x @ normals.T - levels
        row = np.argmax(values, axis=1)
        multiplier = np.maximum(np.max(values, axis=1), 0) / (sigma * eta)
        x = np.clip(x - eta * (data[:, t] + multiplier[:, None] * normals[row]), -side, side)
    return played


def _surrogate(stream: Stream, data: Array, rounds: int) -> Array:
    """The regularised Lyapunov function of Sinha & Vaze with Phi(q) = exp(q / (2 sqrt(T))) - 1 and
    V = 1 / (4 sqrt(T)), for the largest row of a polytope, with AdaGrad steps."""
    normals, levels, side = _polytope(stream)
    root, across = math.sqrt(rounds), 2.0
    scale, weight = 1 / (2 * across), 1 / (4 * root)
    x, queue, squares = np.zeros((len(data), 10)), np.zeros(len(data)), np.zeros(len(data))
    played = np.empty((len(data), rounds, 10))
    for t in range(rounds):
        played[:, t] = x
        values = x @ normals.T - levels
        row, worst = np.argmax(values, axis=1), np.max(values, axis=1)
        queue = queue + scale * np.maximum(worst, 0)
        price = np.exp(queue / (2 * root)) / (2 * root)
        push = weight * scale * data[:, t]
        push = push + np.where(worst > 0, price * scale, 0)[:, None] * normals[row]
        squares = squares + np.sum(push**2, axis=1)
        x = np.clip(x - across * push / np.sqrt(2 * squares)[:, None], -side, side)
    return played


def _last_round(stream: Stream, data: Any, rounds: int) -> Array:
    """The best decision for the data of the round before, found by a solver; the centre of the
    domain first."""
    from ..judge.hindsight import hindsight

    seeds = len(data if isinstance(data, np.ndarray) else next(iter(data.values())))
    best = hindsight(stream.rows, data, seeds=seeds, comparator="per-round")
    decisions = np.asarray(best.decision)
    first = np.broadcast_to(np.asarray(stream.rows.domain.centre), decisions[:, :1].shape)
    return np.concatenate([first, decisions[:, :-1]], axis=1)


def _dispatched(stream: Stream, z: Any) -> Array:
    """The best decision for the data of each round of an energy stream, (round, 3)."""
    if stream.name == "microgrid":
        return microgrid.best(z)[0]
    return dispatch.best_dispatch(z["demand"] if isinstance(z, dict) else z)[0]


def _persistence(stream: Stream, data: Any, rounds: int) -> Array:
    """A controller that dispatches for the data of the round before; the centre of the domain
    first."""
    first = np.asarray(stream.rows.domain.centre)[None]
    seeds = len(data if isinstance(data, np.ndarray) else next(iter(data.values())))
    return np.stack(
        [np.concatenate([first, _dispatched(stream, one_seed(data, k))[:-1]]) for k in range(seeds)]
    )


def _forecast(stream: Stream, data: Any, rounds: int) -> Array:
    """A controller that dispatches for the recorded forecast of the round."""
    return np.stack([dispatch.best_dispatch(forecast)[0] for forecast in data["forecast"]])


def _advised(stream: Stream, data: Any, rounds: int) -> Array:
    """The half-space learner with the controller as its adviser (`taut.Advised`)."""
    from ..learners import LEARNERS
    from ..learners.advised import Advised
    from ..play.simulate import simulate

    controller = _forecast if stream.name == "dispatch-chronics" else _persistence
    advice = controller(stream, data, rounds)
    learner = Advised(LEARNERS["half-space"].build(stream.rows))
    run = simulate(learner, stream.rows, data, seeds=len(advice), advice=advice, record="decisions")
    return np.asarray(run.decisions)


def _resolved(stream: Stream, data: Any, rounds: int) -> Array:
    """Prices of the linear program over all requests so far, with the remaining budget over the
    remaining rounds, solved again 16 times; budgets are never exceeded."""
    played = [
        _resolved_once(data["reward"][k], data["use"][k], rounds)
        for k in range(len(data["reward"]))
    ]
    return np.stack(played)


def _resolved_once(reward: Array, use: Array, rounds: int) -> Array:
    budgets, campaigns = use.shape[1:]
    every = max(1, rounds // SOLVES)
    left, price = np.full(budgets, RATE * rounds), np.zeros(budgets)
    played = np.zeros((rounds, campaigns + 1))
    for t in range(rounds):
        if t and t % every == 0:
            budget = left * t / (rounds - t)  # as much per round as is left
            price = prices(reward[:t], use[:t], budget, tolerance=1e-3)[1]
        margin = reward[t] - price @ use[t]
        choice = int(np.argmax(margin))
        serve = margin[choice] > 0 and np.all(use[t][:, choice] <= left)
        played[t, choice + 1 if serve else 0] = 1.0
        left = left - use[t][:, choice] if serve else left
    return played


_ENERGY = (
    "dispatch",
    "dispatch-box",
    "dispatch-britain",
    "dispatch-victoria",
    "dispatch-chronics",
    "microgrid",
)
_POLYTOPES = ("polytope", "polytope-thin", "polytope-flat")
OUTSIDE = {
    baseline.name: baseline
    for baseline in (
        Outside(
            "numpy-clipped-ogd",
            "Clipped-OGD, plain NumPy",
            "Yuan & Lamperski, NeurIPS 2018, Algorithm 1, from its formulas",
            "1 projection, m constraint values",
            _POLYTOPES,
            _clipped_ogd,
        ),
        Outside(
            "numpy-surrogate",
            "Lyapunov surrogate, plain NumPy",
            "Sinha & Vaze, NeurIPS 2024, from its formulas, with V = 1 / (4 sqrt(T))",
            "1 projection, m constraint values",
            _POLYTOPES,
            _surrogate,
        ),
        Outside(
            "last-round-program",
            "Last round's program",
            "the certainty-equivalent controller: solve with the last data as forecast (Clarabel)",
            "1 convex program",
            (*_POLYTOPES, "toy", "switching", "nested-boxes"),
            _last_round,
            longest=ROUNDS,
            anytime=True,
        ),
        Outside(
            "persistence",
            "Controller: last data as forecast",
            "the certainty-equivalent controller: the best dispatch for the data of the round "
            "before",
            "1 convex program",
            _ENERGY,
            _persistence,
            anytime=True,
        ),
        Outside(
            "forecast-program",
            "Controller: recorded forecast",
            "the best dispatch for the forecast that RTE recorded",
            "1 convex program",
            ("dispatch-chronics",),
            _forecast,
            anytime=True,
        ),
        Outside(
            "half-space-advised",
            "Half-space, advised by the controller",
            "docs/theory.md, C1 to C3: the half-space learner with the controller as adviser, by "
            "AdaHedge",
            "2 projections, 3 loss values, m constraint values, 2 vector-Jacobian products, 1 "
            "convex program of the controller",
            _ENERGY,
            _advised,
            anytime=True,
            regret="O(sqrt T) (C2)",
            violation="no bound besides cuts that are kept (C3)",
        ),
        Outside(
            "budget-program",
            "Linear program solved again",
            "after Sun, Gao, Vitercik & Ye, arXiv 2412.09594: prices of a linear program that is "
            "solved again",
            f"1 linear program per T / {SOLVES} rounds",
            ("ad-pacing", "ad-pacing-jump", "ad-clicks"),
            _resolved,
            longest=2 * ROUNDS,
        ),
    )
}
"""The baselines by name."""

"""Parameters that minimise the guarantee: a minimum indeed, below both published rules, and better
on a run."""

import functools
import math

import numpy as np
import pytest

from bound_games import clipped_ogd, games, play
from taut import bounds
from taut.problem.constants import Constants

CHOICES = [
    (
        Constants(radius=1.0, loss_lipschitz=1.0, constraint_lipschitz=2**0.5, constraint_count=1),
        2000,
        1.0,
    ),
    (
        Constants(
            radius=7.0,
            loss_lipschitz=40.0,
            constraint_lipschitz=0.3,
            constraint_count=12,
            loss_range=9.0,
        ),
        500,
        30.0,
    ),
    (
        Constants(radius=0.1, loss_lipschitz=2.0, constraint_lipschitz=5.0, constraint_count=3),
        20_000,
        1e-3,
    ),
]


@pytest.mark.parametrize("distance", [None, 0.0, 0.05])
@pytest.mark.parametrize(("known", "horizon", "weight"), CHOICES)
def test_optimal_parameters_minimise_and_beat_both_rules(known, horizon, weight, distance):
    if distance is not None:
        known = known.with_values(error_bound=0.9 * known.constraint_lipschitz)
    objective = functools.partial(
        bounds.clipped_objective,
        constants=known,
        horizon=horizon,
        weight=weight,
        initial_distance=distance,
    )
    best = bounds.optimal_parameters(known, horizon, weight, initial_distance=distance)
    least = objective(eta=best.eta, sigma=best.sigma)
    threshold = known.constraint_count * known.constraint_lipschitz**2 / 2
    rng = np.random.default_rng(4)
    local = np.exp(rng.normal(size=(100, 2)) * 0.05)
    far = np.exp(rng.uniform(-8, 8, size=(300, 2)))
    for a, b in np.concatenate([local, far]):
        sigma = best.sigma * b
        if sigma > threshold * 1.0001:
            assert objective(eta=best.eta * a, sigma=sigma) >= least * (1 - 1e-9)
    assert (
        objective(eta=best.eta * 1.3, sigma=best.sigma) > least * 1.003
    )  # a minimum, not a plateau
    root = math.sqrt((known.constraint_count + 1) * horizon)
    g = max(known.loss_lipschitz, known.constraint_lipschitz)
    scale = objective(
        eta=known.radius / (known.loss_lipschitz * root),
        sigma=(known.constraint_count + 1) * known.constraint_lipschitz**2,
    )
    paper = objective(
        eta=1 / (g * root * math.sqrt(known.radius)), sigma=(known.constraint_count + 1) * g**2
    )
    assert least < 0.97 * min(scale, paper)


def test_optimal_parameters_pay_off_on_a_run():
    """The l1 toy pushed outward, violation ten times as dear as loss: measured cost, not only the
    bound."""
    game, horizon, weight = games()["l1 rows"], 1500, 10.0
    known = Constants(
        radius=1.0,
        loss_lipschitz=1.0,
        constraint_lipschitz=2**0.5,
        constraint_count=4,
        error_bound=1.0,
    )
    best = bounds.optimal_parameters(known, horizon, weight, initial_distance=0.0)
    eta = np.repeat([best.eta, 1 / math.sqrt(5 * horizon), 1 / math.sqrt(10 * horizon)], 5)
    sigma = np.repeat(
        [best.sigma, 10.0, 10.0], 5
    )  # bound-optimal, scale-aware, paper (G = sqrt(2))
    runs = play(game, clipped_ogd(lambda t: eta, sigma), 15, horizon)
    cost = (runs.regret() + weight * runs.v.max(axis=2).sum(axis=1)).reshape(3, 5)[
        :, [0, 2]
    ]  # random, outward
    assert np.all(cost[0] < 0.6 * cost[1:].min(axis=0))
    value = bounds.clipped_objective(
        eta=best.eta,
        sigma=best.sigma,
        constants=known,
        horizon=horizon,
        weight=weight,
        initial_distance=0.0,
    )
    assert cost[0].max() <= value


def test_parameters_need_their_constants():
    with pytest.raises(ValueError, match="radius"):
        bounds.optimal_parameters(Constants(loss_lipschitz=1.0), 10, 1.0)
    with pytest.raises(ValueError, match="weight: got 0"):
        bounds.optimal_parameters(CHOICES[0][0], 10, 0.0)

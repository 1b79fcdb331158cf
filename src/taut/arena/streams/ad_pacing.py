"""Advertising budgets: every request is seen first and goes to one of five campaigns or to none."""

from __future__ import annotations

import csv
import io
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...learners.guarantee import Assumes
from ...problem.constants import Constants
from ...problem.domains import Simplex
from ...problem.problem import Problem
from ..stream import Stream

BUDGETS, CAMPAIGNS, RATE = 3, 5, 0.2


def problem() -> Problem:
    """Return minus the reward on the simplex of "nothing" and five campaigns; three budgets of 0.2
    per round."""
    known = Constants(
        loss_lipschitz=np.sqrt(CAMPAIGNS),
        constraint_lipschitz=np.sqrt(CAMPAIGNS),
        loss_range=1.0,
        constraint_range=1 - RATE,
        constraint_smoothness=0.0,
        slater=RATE,
        constraint_count=BUDGETS,
    )
    return Problem(_loss, _excess, Simplex(CAMPAIGNS + 1), known)


def _loss(x: jax.Array, z: Any) -> jax.Array:
    return -z["reward"] @ x[1:]


def _excess(x: jax.Array, z: Any) -> jax.Array:
    return z["use"] @ x[1:] - jnp.asarray(RATE, x.dtype)


def _draw(jump: bool, seed: int, rounds: int) -> Any:
    """Rewards and consumption in [0, 1]; with a jump, the second half has other campaigns in demand
    and uses more."""
    need = np.random.default_rng([9, seed]).uniform(0.2, 0.8, size=(BUDGETS, CAMPAIGNS))
    reward = np.linspace(0.4, 1.0, CAMPAIGNS) * np.random.default_rng([14, seed]).random(
        (rounds, CAMPAIGNS)
    )
    varied = np.random.default_rng([15, seed]).uniform(0.5, 1.5, size=(rounds, BUDGETS, CAMPAIGNS))
    use = np.minimum(need * varied, 1.0)
    if jump:
        late = slice(rounds // 2, None)
        reward[late] = reward[late, ::-1]
        use[late] = np.minimum(1.5 * use[late], 1.0)
    return {"reward": reward, "use": use}


def offline(z: Any, rounds: int) -> float:
    """Minus the value of the offline linear program: the best allocation with all requests known,
    within the budgets."""
    return -prices(z["reward"], z["use"], np.full(BUDGETS, RATE * rounds))[0]


def prices(
    reward: Array, use: Array, budget: Array, tolerance: float = 1e-9
) -> tuple[float, Array]:
    """Return the value of the linear program that allocates requests within budgets, and the prices
    of the budgets.

    The dual has one price per budget, minimise budget.mu + sum_t max(0, max_j reward_tj -
    mu.use_tj) over mu >= 0, and is solved by cutting planes until the relative gap is below the
    tolerance.
    """
    from scipy.optimize import linprog

    count = use.shape[1]
    # A price above the largest total reward over its budget is never needed.
    most = reward.max() * len(reward) / np.maximum(budget, 1e-300)
    cuts: list[Array] = []
    levels: list[float] = []
    price, best, chosen = np.zeros(count), np.inf, np.zeros(count)
    for _ in range(500):
        margin = reward - np.einsum("tkj,k->tj", use, price)
        choice = np.argmax(margin, axis=1)
        gain = np.take_along_axis(margin, choice[:, None], axis=1)[:, 0]
        served = gain > 0
        value = float(budget @ price + gain[served].sum())
        if value < best:
            best, chosen = value, price
        slope = budget - use[np.flatnonzero(served), :, choice[served]].sum(axis=0)
        cuts.append(np.append(slope, -1.0))
        levels.append(float(slope @ price - value))
        solution = linprog(
            np.append(np.zeros(count), 1.0),
            A_ub=np.stack(cuts),
            b_ub=np.array(levels),
            bounds=[*((0, high) for high in most), (0, None)],
            method="highs",
        )
        price = solution.x[:count]
        if best - solution.fun <= tolerance * max(1.0, best):
            return best, chosen
    raise RuntimeError(
        f"the offline program did not converge: the gap is {best - solution.fun:.3g}"
    )


@cache
def _clicks() -> Any:
    """Impressions of the Open Bandit Dataset in their order. The reward of a campaign (items with
    the same number modulo 5) is the click rate of the visitor's segment for it, smoothed and
    rescaled; an impression uses the budget of its position."""
    from ..packages import file_of

    parts = [
        file_of("obp", f"obp/dataset/obd/{policy}/all/all.csv").decode()
        for policy in ("random", "bts")
    ]
    logs = [list(csv.DictReader(io.StringIO(part))) for part in parts]
    segments = {
        name: i
        for i, name in enumerate(sorted({row["user_feature_1"] for log in logs for row in log}))
    }
    clicks, shown = np.zeros((len(segments), CAMPAIGNS)), np.zeros((len(segments), CAMPAIGNS))
    for row in (row for log in logs for row in log):
        at = segments[row["user_feature_1"]], int(row["item_id"]) % CAMPAIGNS
        clicks[at] += float(row["click"])
        shown[at] += 1
    rate = (clicks + 1) / (shown + shown.sum() / clicks.sum())
    first = logs[0]
    where = np.array([segments[row["user_feature_1"]] for row in first])
    position = np.array([int(row["position"]) - 1 for row in first])
    price = np.linspace(1.0, 0.6, CAMPAIGNS)
    return {
        "reward": (rate / rate.max())[where],
        "use": np.eye(BUDGETS)[position][:, :, None] * price,
    }


_STOCHASTIC = frozenset({str(Assumes.STOCHASTIC)})


def stream(name: str, title: str, draw: Any, source: str, **facts: Any) -> Stream:
    """Return a stream of requests with these data."""
    return Stream(
        name,
        title,
        problem,
        draw,
        source,
        best=offline,
        request_first=True,
        scored="excess",
        comparator="the offline linear program, which knows all requests",
        **{"setting": "requests"} | facts,
        family="requests",
    )


_SOURCE = "Balseiro, Lu & Mirrokni, Operations Research 2023: online allocation with budgets"
_KNOWN = {"Slater gap": "0.2", "smoothness": "affine"}

STREAMS = (
    stream(
        "ad-pacing",
        "requests for five campaigns, three budgets, independent and identically distributed",
        partial(_draw, False),
        _SOURCE,
        known=_KNOWN | {"noise": "independent requests"},
    ),
    stream(
        "ad-pacing-jump",
        "the same with a jump in traffic after half of the rounds",
        partial(_draw, True),
        _SOURCE,
        known=_KNOWN,
        refuted=_STOCHASTIC,
        cumulative=False,
    ),
    stream(
        "ad-clicks",
        "impressions of a fashion shop for five campaigns, a budget for each of three positions",
        lambda seed, rounds: {name: values[:rounds] for name, values in _clicks().items()},
        "Saito et al., Open Bandit Dataset, NeurIPS 2021 (data sets), the sample that is "
        "packaged with obp",
        known=_KNOWN,
        setting="real data",
        refuted=_STOCHASTIC,
        seeds=1,
        longest=10_000,
        requires="obp",
    ),
)

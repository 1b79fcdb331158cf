"""A microgrid: a building buys power, runs a generator or sheds load, under an hourly emission cap
with the recorded carbon intensity of the grid."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constants import Constants
from ...problem.domains import Box
from ...problem.problem import Problem
from ..packages import csv_of
from ..stream import Stream
from .dispatch import best_of_each_round

PACKAGE = "pymgrid"
COST, SLOPE = np.array([0.1, 0.2, 0.2]), np.array([0.3, 0.5, 2.0])
"""Of bought power, of the generator and of load that is shed."""
LIMIT, BALANCE = np.array([1.0, 0.6, 1.0]), 4.0
"""Power in units of the largest load of the building."""
GENERATOR, CAP = 0.15, 0.12
"""Emissions of the generator and the cap, kg of CO2 per kWh of the largest load."""
BUILDINGS = (
    ("FullServiceRestaurantNew2004_v1.3_7.1_6A_USA_MN_MINNEAPOLIS", "Minneapolis_726580TYA"),
    ("HospitalNew2004_7.1_5.0_3C_USA_CA_SAN_FRANCISCO", "SanFrancisco_724940TYA"),
    ("LargeHotelNew2004_v1.3_7.1_4A_USA_MD_BALTIMORE", "NewYork_744860TYA"),
    ("LargeOfficeNew2004_v1.3_7.1_5A_USA_IL_CHICAGO-OHARE", "Raleigh_723060TYA"),
    ("PrimarySchoolNew2004_v1.3_7.1_2A_USA_TX_HOUSTON", "Houston_722430TYA"),
)
"""Loads and the solar radiation that goes with each."""
GRIDS = ("caiso", "duke")
SOLAR = 0.4
"""The largest power of the panels, in units of the largest load."""
HOURS = 8759


@cache
def _column(path: str) -> Array:
    return csv_of(PACKAGE, f"pymgrid/data/{path}.csv", skip=1)[:HOURS, 0]


def _draw(seed: int, rounds: int) -> Any:
    """The load less solar power, and the carbon intensity: five buildings on two grids."""
    building, sun = BUILDINGS[seed % len(BUILDINGS)]
    load, light = _column(f"load/RefBldg{building}"), _column(f"pv/{sun}")
    net = load / load.max() - SOLAR * light / light.max()
    intensity = _column(f"co2/co2_{GRIDS[seed // len(BUILDINGS)]}")
    return {
        "net": np.maximum(net, 0.0)[:rounds],
        "intensity": intensity[:rounds],
    }


@cache
def problem() -> Problem:
    """Return sum_i c_i x_i^2 / 2 + s_i x_i + 2 (sum x - n_t)^2 with e_t x_1 + 0.15 x_2 <= 0.12."""
    dirtiest = max(float(_column(f"co2/co2_{grid}").max()) for grid in GRIDS)
    curvature = np.diag(COST) + BALANCE * np.ones((3, 3))
    reach = float(np.linalg.norm(LIMIT))
    steepest = max(
        float(np.linalg.norm((COST * corner + SLOPE) + BALANCE * (corner.sum() - net)))
        for corner in LIMIT * np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T
        for net in (0.0, 1.0)
    )
    known = Constants(
        loss_lipschitz=steepest,
        loss_range=steepest * reach,
        strong_convexity=float(np.linalg.eigvalsh(curvature)[0]) * (1 - 1e-9),
        constraint_lipschitz=float(np.hypot(dirtiest, GENERATOR)),
        constraint_range=max(CAP, dirtiest + GENERATOR * LIMIT[1] - CAP),
        slater=CAP,
        constraint_smoothness=0.0,
        constraint_count=1,
    )
    return Problem(_loss, _emission, Box(np.zeros(3), LIMIT), known, domain_binds=True)


def _loss(x: jax.Array, z: Any) -> jax.Array:
    return jnp.sum(0.5 * COST * x * x + SLOPE * x) + BALANCE / 2 * (jnp.sum(x) - z["net"]) ** 2


def _emission(x: jax.Array, z: Any) -> jax.Array:
    return z["intensity"] * x[0] + GENERATOR * x[1] - CAP


def best(z: Any) -> tuple[Array, Array]:
    """Return the best decision of each round, and its loss."""
    net = np.asarray(z["net"])
    linear = np.zeros((len(net), 3))
    linear[:, 0], linear[:, 1] = z["intensity"], GENERATOR
    outputs = best_of_each_round(
        COST, SLOPE, LIMIT, net, BALANCE, linear, np.zeros_like(linear), CAP
    )
    rest = outputs.sum(axis=1) - net
    losses = (0.5 * COST * outputs**2 + SLOPE * outputs).sum(axis=1) + BALANCE / 2 * rest**2
    return outputs, losses


def _best_each(z: Any, rounds: int) -> float:
    return float(best({name: values[:rounds] for name, values in z.items()})[1].sum())


STREAMS = (
    Stream(
        "microgrid",
        "a building with solar panels buys power, generates or sheds, hourly emission cap",
        problem,
        _draw,
        "loads, radiation and carbon intensity (CAISO, Duke) packaged with pymgrid (Henri et al. "
        "2020); costs and cap are ours",
        "real data",
        shifting=_best_each,
        shifts="the best decision of each round",
        known={
            "Slater gap": "0.12",
            "smoothness": "affine",
            "strong convexity": f"{COST.min():g}",
        },
        longest=HOURS,
        seeds=10,
        requires=PACKAGE,
        data_licence="LGPL-3.0",
        family="microgrid",
    ),
)

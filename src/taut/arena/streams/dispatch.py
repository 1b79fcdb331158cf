"""Economic dispatch: three generators serve the demand of California's grid under an emission
cap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constants import Constants
from ...problem.domains import Ball, Box
from ...problem.problem import Problem
from ...problem.transforms import max_of
from .. import demand as _demand
from ..stream import Stream

__all__ = [
    "BALANCE",
    "CAP",
    "COST",
    "DAY",
    "EMISSION",
    "LIMIT",
    "SLOPE",
    "STREAMS",
    "Choice",
    "problem",
]

COST, SLOPE = np.array([0.2, 0.12, 0.14]), np.array([1.5, 1.0, 0.6])
EMISSION, CAP = np.array([0.26, 0.38, 0.37]), 100.0
LIMIT, BALANCE = np.array([20.0, 15.0, 18.0]), 0.5
DAY = 288


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


@cache
def _demand_series() -> Array:
    return _demand.rescaled(_demand.packaged(), DEFAULT.mean_demand)


def _rounds(seed: int, rounds: int) -> Array:
    return _demand_series()[:rounds]


def _real(domain: str) -> Problem:
    return problem(Choice(domain=domain), float(_demand_series().max()), aggregated=False)


def _stream(name: str, domain: str, title: str) -> Stream:
    return Stream(
        name,
        title,
        partial(_real, domain),
        _rounds,
        "Yuan & Lamperski, NeurIPS 2018, figure 3, with the load of California ISO, 2018-04-24 "
        "to 2018-05-03",
        "real data",
        known={"smoothness": "0.76", "strong convexity": "0.12"},
        longest=2880,
        seeds=1,
        data_licence="Apache-2.0, bundled with its provenance",
        family="dispatch",
    )


STREAMS = (
    _stream(
        "dispatch",
        "ball",
        "five-minute demand, emission cap and limits of three generators as constraints",
    ),
    _stream(
        "dispatch-box",
        "box",
        "five-minute demand, the emission cap as a constraint, limits as the domain",
    ),
)

"""Economic dispatch: three generators serve the demand under an emission cap (Fig. 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ...arena.contest import Contestant, described
from ...judge.hindsight import hindsight
from ...play.simulate import simulate
from ...problem.constants import SYMBOLS, Constants
from ...problem.domains import Ball, Box
from ...problem.problem import Problem
from ...problem.transforms import max_of
from ..contestants import for_convex_losses
from . import demand as _demand

if TYPE_CHECKING:
    import xarray

    from ...modelling.model import Model

__all__ = ["CHOICES", "Choice", "model", "play", "problem"]

COST, SLOPE = np.array([0.2, 0.12, 0.14]), np.array([1.5, 1.0, 0.6])
EMISSION, CAP = np.array([0.26, 0.38, 0.37]), 100.0
LIMIT, BALANCE = np.array([20.0, 15.0, 18.0]), 0.5
DAY = 288


@dataclass(frozen=True)
class Choice:
    """A choice of what the paper does not specify."""

    mean_demand: float = 33.0
    """The demand is rescaled to this mean. With 26 the emission cap is never active, with 33 it is."""
    emission_slope: float = 0.0
    """e_i, the same for all generators. The paper does not list these coefficients."""
    domain: str = "ball"
    """ "ball": the domain is a ball of radius ||x_max|| around x_1 = 0 and the limits are constraints, as in the paper.
    "box": the domain is the box of the limits, x_1 is its centre, and only the emission cap is a constraint."""

    @property
    def label(self) -> str:
        """A short text for tables."""
        return f"mean demand {self.mean_demand:g}, e = {self.emission_slope:g}, {self.domain}"


CHOICES = (Choice(), Choice(40.0), Choice(30.0), Choice(emission_slope=0.2), Choice(domain="box"))


def problem(choice: Choice = CHOICES[0], most: float = 50.0, aggregated: bool = True) -> Problem:
    """Return the problem: minimise sum_i c_i(x_i) + 0.5 (sum x - d_t)^2 subject to sum E_i(x_i) <= 100, 0 <= x <= x_max.

    `most` is the largest demand; the Lipschitz constant of the loss depends on it. With `aggregated`, the constraints are
    replaced by their maximum.
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
        constraint_range=max(high, CAP + (slope_norm * reach if not box else 0), reach + float(LIMIT.max())),
        strong_convexity=float(np.linalg.eigvalsh(curvature)[0]),
        constraint_smoothness=2 * float(EMISSION.max()),
    )
    instance = Problem(_loss, _excess(slope, box), domain, constants, domain_binds=box)
    return max_of(instance) if aggregated and not box else instance


def model(choice: Choice = CHOICES[0], most: float = 50.0) -> Model:
    """Return the same problem, written in CVXPY."""
    import cvxpy as cp

    from ...modelling.model import from_cvxpy

    x, demand = cp.Variable(3, name="x"), cp.Parameter(name="demand", bounds=[0, most])
    cost = cp.sum(cp.multiply(COST / 2, x**2) + cp.multiply(SLOPE, x)) + BALANCE * cp.square(cp.sum(x) - demand)
    limits = [] if choice.domain == "box" else [x <= LIMIT, x >= 0]
    cap = cp.sum(cp.multiply(EMISSION, x**2) + choice.emission_slope * x) <= CAP
    known = problem(choice, most, aggregated=False)
    return from_cvxpy(cost, [cap, *limits], known.domain, known.constants, domain_binds=known.domain_binds)


def _loss(x: jax.Array, demand: jax.Array) -> jax.Array:
    return jnp.sum(0.5 * COST * x * x + SLOPE * x) + BALANCE * (jnp.sum(x) - demand) ** 2


@cache
def _excess(slope: float, cap_only: bool) -> Callable[[jax.Array], jax.Array]:
    """Return the constraints for a slope. They are cached, so that equal choices share one function and its compiled code."""

    def emissions(x: jax.Array) -> jax.Array:
        return jnp.sum(EMISSION * x * x + slope * x) - CAP

    def all_limits(x: jax.Array) -> jax.Array:
        return jnp.concatenate([emissions(x)[None], x - LIMIT, -x])

    return emissions if cap_only else all_limits


def play(
    choice: Choice, series: _demand.Demand | None = None,
    contestants: Sequence[Contestant] | None = None, done: Callable[[], None] = lambda: None,
) -> xarray.Dataset:  # fmt: skip
    """Simulate all learners over the ten days and return cost and largest excess per round."""
    import xarray as xr

    contestants = for_convex_losses() if contestants is None else contestants
    series = _demand.packaged() if series is None else series
    d = _demand.rescaled(series, choice.mean_demand)
    instance = problem(choice, float(d.max()))
    best = hindsight(instance, d)
    runs = []
    for one in contestants:
        runs.append(simulate(one.make(instance.constants, len(d)), instance, d))
        done()
    data = xr.Dataset(
        {
            "cost": (("contestant", "round"), np.stack([run.loss[0] for run in runs if run.loss is not None])),
            "excess": (("contestant", "round"), np.stack([run.excess[0] for run in runs if run.excess is not None])),
            "best_cost": (("round",), _cost_of(best.decision[0], d)),
            "best": (("generator",), best.decision[0]),
            "demand": (("round",), d),
            "demand_mw": (("round",), series.values),
            "hours": (("round",), np.asarray(series.elapsed, float)),
        },
        coords={
            "contestant": [one.name for one in contestants],
            "label": ("contestant", [one.label for one in contestants]),
            "parameters": ("contestant", [described(one.make(instance.constants, len(d))) for one in contestants]),
            "round": np.arange(1, len(d) + 1),
        },
        attrs={
            "choice": choice.label,
            "source": series.source,
            "repairs": "; ".join(series.repairs),
            "mean_demand": choice.mean_demand,
            "constants": ", ".join(
                f"{SYMBOLS[n]} = {v:.4g}" for n in SYMBOLS if (v := getattr(instance.constants, n)) is not None
            ),
        },
    )
    return data


def _cost_of(x: np.ndarray[Any, Any], d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(np.sum(0.5 * COST * x * x + SLOPE * x) + BALANCE * (np.sum(x) - d) ** 2)

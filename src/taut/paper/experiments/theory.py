"""The theorems compared with measurements: growth with the horizon for several values of beta, and
the bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ... import bounds
from ...arena.streams.toy import costs as toy_costs, problem as toy_problem
from ...engine import Array
from ...judge.facts.ranges import trivial_limits
from ...judge.guarantees import translated
from ...judge.hindsight import hindsight
from ...judge.rates import fit
from ...learners import LEARNERS, QUANTITIES, ClippedOGD, Learner, Setting
from ...learners.guarantee import smallest
from ...problem.constants import Constants
from ...problem.domains import Ball
from ...problem.feasibility import find_feasible
from ...problem.problem import Problem
from ...problem.transforms import log_sum_exp, squared
from ...runs import metrics
from ...sweeps import Cell, Sweep, sweep

if TYPE_CHECKING:
    import xarray


CHOICES = (None,)
"""The paper specifies all that these experiments need."""
BETAS = (1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4)
ANGLE = 0.1
"""How far the costs of the worst case are turned, in radians."""
NAMES = {
    "regret": "regret",
    "violation": "violation",
    "squared": "squared violation",
    "peak": "peak violation",
    "excess": "excess",
}
"""Names of the variables in the dataset, and the quantities they hold."""
RANDOM, WORST = "random", "worst-case"
"""The costs of the paper, and those of `worst_case_costs`."""
_FIRST, _REMARK = "Theorem 1, Propositions 2 and 3", "remark after Proposition 5"
KINDS = {
    "theorem-1": ("clipped-ogd", "Clipped-OGD, toy", _FIRST, RANDOM),
    "paper-step": ("clipped-ogd-paper", "Clipped-OGD, the paper's step", _FIRST, RANDOM),
    "worst-case": ("clipped-ogd-paper", "Clipped-OGD, the paper's step, worst case", _FIRST, WORST),
    "proposition-5": ("a-ogd-clipped", "A-OGD clipped, toy", "Proposition 5", RANDOM),
    "clipped-worst-5": ("a-ogd-clipped", "A-OGD clipped, worst case", "Proposition 5", WORST),
    "squares-5": ("a-ogd", "A-OGD, squared constraint", _REMARK, RANDOM),
    "lemma-1": ("clipped-ogd", "Clipped-OGD, smooth constraint", "Lemma 1", RANDOM),
    "theorem-2": ("clipped-ogd-strong", "Our-strong, strongly convex toy", "Theorem 2", RANDOM),
    "theorem-2-inside": ("clipped-ogd-strong", "Our-strong, optimum inside", "Theorem 2", RANDOM),
    "proposition-4": ("ogd-clipped", "OGD clipped, toy", "Proposition 4", RANDOM),
    "clipped-worst-4": ("ogd-clipped", "OGD clipped, worst case", "Proposition 4", WORST),
    "squares-4": ("ogd", "OGD, squared constraint", _REMARK, RANDOM),
}
"""Kinds of cases: the method, the label, the result that is tested, and the costs."""


@dataclass(frozen=True)
class Case:
    """One result of the paper, tested on one family of problems."""

    name: str
    label: str
    result: str
    beta: float
    family: Callable[[int], Problem]
    """The problem that is played, as a function of the horizon."""
    scored: Problem
    """The problem whose loss and constraints are recorded, the same for all horizons."""
    make: Callable[..., Learner]
    allowed: dict[str, float]
    """The growth exponents that the result allows, by quantity, logarithms apart."""
    stream: str = RANDOM


def cases() -> tuple[Case, ...]:
    """Return the cases of Theorem 1 with Propositions 2 and 3, Theorem 2, Propositions 4 and 5 with
    the remark on squared constraints, Lemma 1, Proposition 1."""
    plain, smooth, corners = toy_problem(), smooth_toy(), toy_by_corners()
    strong, inside, squares = strongly_convex_toy(), strongly_convex_toy(0.5), squared(plain)
    listed: list[Case] = []

    def add(
        kind: str, problem: Problem, allowed: dict[str, float], beta: float | None = None
    ) -> None:
        method, label, result, stream = KINDS[kind]
        options: dict[str, Any] = {} if beta is None else {"beta": beta}
        listed.append(
            Case(
                kind if beta is None else f"{kind}-{beta:.3g}",
                label,
                result,
                np.nan if beta is None else beta,
                lambda T: problem,
                plain if problem is squares else problem,
                partial(LEARNERS[method].build, **options),
                allowed,
                stream,
            )
        )

    for beta in BETAS:
        trade, half = max(beta, 1 - beta), 1 - beta / 2
        first = _powers(trade, half, 1 - beta, 0.0)
        # The squared violation is at most its range times the violation.
        fifth = _powers(trade, half, half, 0.0)
        for kind in ("theorem-1", "paper-step", "worst-case"):
            add(kind, plain, first, beta)
        for kind in ("proposition-5", "clipped-worst-5"):
            add(kind, plain, fifth, beta)
        add("squares-5", squares, fifth, beta)
        add("lemma-1", smooth, _powers(trade, half, 1 - beta, -beta / 3), beta)
    second, fourth = _powers(0.0, 0.5, 0.0, 0.0), _powers(0.5, 0.75, 0.75, 0.0)
    add("theorem-2", strong, second)
    add("theorem-2-inside", inside, second)
    add("proposition-4", plain, fourth)
    add("clipped-worst-4", plain, fourth)
    add("squares-4", squares, fourth)
    aggregated = Case(
        "proposition-1",
        "Clipped-OGD, log-sum-exp",
        "Proposition 1, temperature T^(1/6)",
        0.5,
        lambda T: log_sum_exp(corners, largest_temperature(corners, T)),
        corners,
        LEARNERS["clipped-ogd"].build,
        _powers(0.5, 0.75, 0.5, -1 / 6),
    )
    return (*listed, aggregated)


def _powers(regret: float, violation: float, squared: float, peak: float) -> dict[str, float]:
    return dict(zip(QUANTITIES, (regret, violation, squared, peak, violation), strict=True))


def strongly_convex_toy(pull: float = 1.5) -> Problem:
    """Return the toy problem with losses 0.5 ||x + pull c_t||^2, for which H = 1 and G_f = R +
    pull.

    With a pull of 0.5 the optimum is in the interior of the feasible set.
    """
    slope = 1 + pull
    constants = Constants(
        loss_lipschitz=slope,
        loss_range=0.5 * slope**2,
        constraint_lipschitz=2**0.5,
        constraint_range=1.0,
        strong_convexity=1.0,
    )

    def loss(x: jax.Array, c: jax.Array) -> jax.Array:
        e = x + pull * c
        return 0.5 * jnp.vdot(e, e)

    return Problem(loss, lambda x: jnp.abs(x[0]) + jnp.abs(x[1]) - 1, Ball(1.0, shape=2), constants)


def smooth_toy() -> Problem:
    """Return a problem with one smooth constraint, for Lemma 1: linear losses, (||x||^2 - 1) / 2 <=
    0, ball of radius 3/2."""
    constants = Constants(
        loss_lipschitz=1.0,
        constraint_lipschitz=1.5,
        constraint_range=0.625,
        constraint_smoothness=1.0,
        slater=0.5,
    )
    return Problem(
        lambda x, c: jnp.vdot(c, x),
        lambda x: 0.5 * (jnp.vdot(x, x) - 1),
        Ball(1.5, shape=2),
        constants,
    )


def toy_by_corners() -> Problem:
    """Return the toy problem with its constraint written as four smooth ones, +-x_1 +- x_2 <= 1,
    for aggregation."""
    signs = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    constants = Constants(
        loss_lipschitz=1.0,
        constraint_lipschitz=2**0.5,
        constraint_range=1 + 2**0.5,
        constraint_smoothness=0.0,
        slater=1.0,
    )
    return Problem(
        lambda x, c: jnp.vdot(c, x), lambda x: signs @ x - 1, Ball(1.0, shape=2), constants
    )


def largest_temperature(problem: Problem, horizon: int) -> float:
    """Return the largest temperature for which Lemma 1 covers Clipped-OGD on the log-sum-exp of the
    constraints.

    The lemma needs (L + tau G_g^2) level <= sigma, where the level is its bound on the violation of
    a round. With the step of Theorem 1 the level falls like T^(-1/6), so tau grows like T^(1/6),
    and ln(m) / tau, the distance of the aggregate from the maximum, falls as slowly.
    """
    known = log_sum_exp(
        problem, 1.0
    ).constants  # radius, slopes and m = 1 do not depend on the temperature
    learner = ClippedOGD.tuned(known, horizon)
    sigma, eta = float(learner.sigma), float(jax.tree.leaves(learner.eta)[0])
    radius, loss, slope = known.need("radius", "loss_lipschitz", "constraint_lipschitz")
    level = bounds.smooth_peak_violation(
        eta=eta,
        sigma=sigma,
        radius=radius,
        loss_lipschitz=loss,
        constraint_lipschitz=slope,
        constraint_smoothness=0.0,
    )
    smoothness = problem.constants.constraint_smoothness or 0.0
    return (sigma / level - smoothness) / slope**2 * (1 - 1e-12)


def worst_case_costs(seeds: int, rounds: int) -> Array:
    """Return costs for which both terms of the regret bound, R^2 / (2 eta) and eta T, are reached
    up to constants.

    In the first part costs alternate between (1, 0) and (-1, 0): a learner with step eta is on the
    wrong side in every second round and loses about eta / 2 per round against the decision 0. In
    the second part the cost is the same in every round: the learner needs 1 / eta rounds to reach
    the vertex (-1, 0), where a cost that is turned by a small angle pushes it out of the feasible
    set. The parts have different lengths for different seeds.
    """
    costs = np.zeros((seeds, rounds, 2))
    for seed in range(seeds):
        first = 2 * int(rounds * (0.4 + 0.2 * seed / max(1, seeds - 1)) / 2)
        costs[seed, :first, 0] = 1.0
        costs[seed, 1:first:2, 0] = -1.0
        costs[seed, first:] = np.cos(ANGLE), np.sin(ANGLE)
    return costs


def play(
    horizons: Sequence[int], seeds: int, chosen: Sequence[Case] | None = None
) -> xarray.Dataset:
    """Return measured values by (case, seed, horizon), bounds by (case, horizon) and growth
    exponents by case."""
    import xarray as xr

    chosen = cases() if chosen is None else chosen
    c = toy_costs(seeds, max(horizons))
    random = [case for case in chosen if case.stream == RANDOM]
    best = {
        (id(instance), RANDOM): hindsight(instance, c, seeds=seeds, prefixes=list(horizons)).loss
        for instance in _distinct(random)
    }
    for instance in _distinct([case for case in chosen if case.stream == WORST]):
        losses = [
            hindsight(instance, worst_case_costs(seeds, T), seeds=seeds).loss for T in horizons
        ]
        best[id(instance), WORST] = np.stack(losses, axis=-1)

    cells = {(i, T): _cell(i, case, T, c, seeds) for i, case in enumerate(chosen) for T in horizons}
    played = sweep(cells.values(), progress=False).check()
    outcomes = [
        [
            _outcome(case, cells[i, T], played, best[id(case.scored), case.stream][:, k])
            for k, T in enumerate(horizons)
        ]
        for i, case in enumerate(chosen)
    ]
    data = xr.Dataset(
        coords={
            "case": [case.name for case in chosen],
            "label": ("case", [case.label for case in chosen]),
            "result": ("case", [case.result for case in chosen]),
            "beta": ("case", [case.beta for case in chosen]),
            "horizon": list(horizons),
            "seed": np.arange(seeds),
        }
    )
    for name, quantity in NAMES.items():
        values = [np.stack([o.measured[quantity] for o in row], axis=-1) for row in outcomes]
        bounds = [[o.bounds.get(quantity, np.nan) for o in row] for row in outcomes]
        trivial = [[o.trivial.get(quantity, np.inf) for o in row] for row in outcomes]
        data[name] = (("case", "seed", "horizon"), np.stack(values))
        data[f"bound_{name}"] = (("case", "horizon"), bounds)
        data[f"trivial_{name}"] = (("case", "horizon"), trivial)
        rates = [
            fit(quantity, horizons, column, case.allowed.get(quantity))
            for case, column in zip(chosen, values, strict=True)
        ]
        data[f"measured_{name}"] = (("case",), [rate.exponent for rate in rates])
        data[f"low_{name}"] = (("case",), [rate.low for rate in rates])
        data[f"high_{name}"] = (("case",), [rate.high for rate in rates])
        data[f"theory_{name}"] = (("case",), np.asarray([rate.theory for rate in rates], float))
    # Proposition 1 as printed has no temperature. The smallest value of its aggregate shows whether
    # it leaves a feasible decision.
    data["literal_log_sum_exp"] = ((), find_feasible(log_sum_exp(toy_by_corners(), 1.0))[1])
    return data


def _cell(number: int, case: Case, horizon: int, random: Array, seeds: int) -> Cell:
    """Return the simulation of one case for one horizon."""
    instance = case.family(horizon)
    return Cell(
        case.make(instance.constants, horizon),
        instance,
        random if case.stream == RANDOM else worst_case_costs(seeds, horizon),
        horizon=horizon,
        seeds=seeds,
        score=None if instance is case.scored else case.scored,
        name=f"{number} / {horizon}",
    )


class Outcome(NamedTuple):
    """What a case measured for one horizon, by quantity and seed, with the bounds of the paper and
    those that hold for every learner."""

    measured: dict[str, Array]
    bounds: dict[str, float]
    trivial: dict[str, float]


def _outcome(case: Case, cell: Cell, played: Sweep, best: Array) -> Outcome:
    """Return what a simulation measured, against the loss of the best decision by seed."""
    run, instance = played[str(cell.name)], cell.problem
    measured = metrics.measured(run, best)
    limits = trivial_limits(case.scored, run.horizon, run.stream)
    regret = limits.of_regret(run.totals.loss, measured["regret"])
    trivial = limits.by_quantity | ({} if regret is None else {"regret": regret})
    # Sharper bounds that use an error bound or a Slater point are not those of the paper.
    constants = instance.constants.with_values(error_bound=None, slater=None)
    values = np.asarray(instance.constraints.values(instance.domain.centre, None))
    excess = float(np.maximum(values, 0).max())
    setting = Setting(constants, float(instance.domain.diameter), initial_violation=excess)
    assert isinstance(cell.learner, Learner)
    guarantees = translated(
        cell.learner.guarantees(setting, run.horizon),
        instance,
        case.scored,
        run.horizon,
        run.totals.excess.shape[-1],
    )
    bounds = {g.quantity: g.bound for g in smallest(guarantees).values() if g.bound is not None}
    return Outcome(measured, bounds, trivial)


def _distinct(chosen: Sequence[Case]) -> list[Problem]:
    return list({id(case.scored): case.scored for case in chosen}.values())

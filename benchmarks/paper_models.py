"""The three problems of the paper, written in CVXPY."""

from __future__ import annotations

import cvxpy as cp

import taut
from taut.arena.streams import dispatch, doubly_stochastic, toy
from taut.modelling.model import Model

__all__ = ["dispatch_model", "doubly_stochastic_model", "toy_model"]


def toy_model() -> Model:
    """Return the toy problem."""
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c")
    known = toy.problem()
    return taut.from_cvxpy(c @ x, [cp.norm1(x) <= 1], known.domain, known.constants)


def doubly_stochastic_model(size: int = 10) -> Model:
    """Return the approximation by doubly stochastic matrices; the data of a round are the matrix
    Y_t itself."""
    known = doubly_stochastic.problem(doubly_stochastic.Choice(size), aggregated=False)
    x = cp.Variable((size, size), name="x")
    y = cp.Parameter((size, size), name="y", bounds=[0, 1])
    sums = [cp.sum(x, axis=1) == 1, cp.sum(x, axis=0) == 1, x >= 0]
    return taut.from_cvxpy(0.5 * cp.sum_squares(x - y), sums, known.domain, known.constants)


def dispatch_model(most: float = 50.0) -> Model:
    """Return economic dispatch with demands up to `most`."""
    x, demand = cp.Variable(3, name="x"), cp.Parameter(name="demand", bounds=[0, most])
    cost = cp.sum(cp.multiply(dispatch.COST / 2, x**2) + cp.multiply(dispatch.SLOPE, x))
    cost += dispatch.BALANCE * cp.square(cp.sum(x) - demand)
    cap = cp.sum(cp.multiply(dispatch.EMISSION, x**2)) <= dispatch.CAP
    known = dispatch.problem(most=most, aggregated=False)
    limits = [cap, x <= dispatch.LIMIT, x >= 0]
    return taut.from_cvxpy(
        cost, limits, known.domain, known.constants, domain_binds=known.domain_binds
    )

"""Portfolios: minus the log return, a cap on the variance, and a cap on the turnover from an
index."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...extras import optional
from ...problem.constants import Constants
from ...problem.domains import Simplex
from ...problem.problem import Problem
from ..stream import Stream
from .newton import smooth_best

VARIANCE, TURNOVER, QUARTER = 1.2, 0.3, 60
LOWEST, HIGHEST = 0.8, 1.25
"""Daily price relatives are cut off at these values."""


SIZE = 20
"""The stocks of the synthetic market."""


@cache
def synthetic() -> Array:
    """Return the covariance of the returns in a market with three factors."""
    rng = np.random.default_rng([12, SIZE])
    factors = rng.normal(size=(SIZE, 3)) * 0.007
    return np.asarray(factors @ factors.T + np.diag(rng.uniform(0.006, 0.02, size=SIZE) ** 2))


def problem(market: Callable[[], Array]) -> Problem:
    """Return -log(r_t.x) on the simplex; x'Sx at most 1.2 times that of equal weights; |x -
    index_t|_1 / 2 at most 0.3.

    Both constraints are divided by their limits.
    """
    covariance = market()
    d = len(covariance)
    limit = VARIANCE * covariance.mean()  # the variance of equal weights is the mean of all entries

    def excess(x: jax.Array, z: Any) -> jax.Array:
        variance = x @ jnp.asarray(covariance / limit, x.dtype) @ x - 1
        turnover = jnp.sum(jnp.abs(x - z["index"])) / (2 * TURNOVER) - 1
        return jnp.stack([variance, turnover])

    slopes = 2 * np.linalg.norm(covariance, axis=1).max() / limit, np.sqrt(d) / (2 * TURNOVER)
    known = Constants(
        loss_lipschitz=np.sqrt(d) * (HIGHEST - 1) / LOWEST,
        loss_range=float(np.log(HIGHEST / LOWEST)),
        constraint_lipschitz=float(max(slopes)),
        constraint_count=2,
        constraint_range=float(max(covariance.max() / limit - 1, 1 / TURNOVER - 1, 1.0)),
    )
    return Problem(_loss, excess, Simplex(d), known)


def _loss(x: jax.Array, z: Any) -> jax.Array:
    return -jnp.log1p(
        (z["relative"] - 1) @ x
    )  # weights sum to 1, so this is -log(relative.x), with shorter gradients


def _with_index(relatives: Array) -> Any:
    """The day's price relatives and the weights of the index before that day, which are equal at
    the start of a quarter."""
    days, d = relatives.shape
    padded = np.ones((-(-days // QUARTER) * QUARTER, d))
    padded[:days] = relatives
    growth = np.cumprod(padded.reshape(-1, QUARTER, d), axis=1)
    before = np.concatenate([np.ones_like(growth[:, :1]), growth[:, :-1]], axis=1).reshape(-1, d)[
        :days
    ]
    return {"relative": relatives, "index": before / before.sum(axis=1, keepdims=True)}


def _draw(seed: int, rounds: int) -> Any:
    rng = np.random.default_rng([13, seed])
    trend = np.linspace(-2e-4, 1e-3, SIZE)
    half = np.linalg.cholesky(synthetic())
    relatives = 1 + trend + rng.normal(size=(rounds, SIZE)) @ half.T
    return _with_index(np.clip(relatives, LOWEST, HIGHEST))


@cache
def _sp500() -> Array:
    """Daily price relatives of twenty stocks of the S&P 500, (day, stock)."""
    from ..packages import file_of

    lines = file_of("skfolio", "skfolio/datasets/data/sp500_dataset.csv.gz").decode().split()[1:]
    prices = np.array([line.split(",")[1:] for line in lines], float)
    return np.asarray(np.clip(prices[1:] / prices[:-1], LOWEST, HIGHEST))


@cache
def _classic(name: str) -> Array:
    """Daily price relatives of a market on which portfolio methods are compared, (day, stock)."""
    from ..packages import csv_of

    values = csv_of(CLASSICS, f"universal/data/{name}.csv", skip=1)  # prices; 1 on the day before
    prices = np.vstack([np.ones((1, values.shape[1])), values])
    return np.asarray(np.clip(prices[1:] / prices[:-1], LOWEST, HIGHEST))


CLASSICS = "universal-portfolios"


@cache
def _covariance(relatives: Callable[[], Array]) -> Array:
    return np.cov(relatives(), rowvar=False)


def _history(relatives: Callable[[], Array], seed: int, rounds: int) -> Any:
    return _with_index(relatives()[:rounds])


def _best(market: Callable[[], Array], z: Any, rounds: int) -> float:
    """The best weights under both caps. Days on which the turnover from the index is too large are
    added until there are none."""
    cp = optional("cvxpy")

    covariance = market()
    half = np.linalg.cholesky(covariance / (VARIANCE * covariance.mean())).T
    relatives, index = z["relative"] - 1, z["index"]
    x, days = index.mean(axis=0), [0]

    def oracle(x: Array) -> tuple[float, Array, Array]:
        growth = 1 + relatives @ x
        scaled = relatives / growth[:, None]
        return -float(np.log(growth).sum()), -scaled.sum(axis=0), scaled.T @ scaled

    def mandate(x: Any) -> list[Any]:
        moved = np.ones((len(days), 1)) @ cp.reshape(x, (1, len(index[0])), order="C") - index[days]
        return [
            x >= 0,
            cp.sum(x) == 1,
            cp.sum_squares(half @ x) <= 1,
            cp.norm(moved, 1, axis=1) <= 2 * TURNOVER,
        ]

    for _ in range(100):
        x, value = smooth_best(oracle, mandate, x)
        turnover = np.abs(x - index).sum(axis=1) / 2
        worst = np.argsort(-turnover)[:5]
        if turnover[worst[0]] <= TURNOVER + 1e-7:
            return value
        days += [int(day) for day in worst if turnover[day] > TURNOVER]
        x = index.mean(axis=0)
    raise RuntimeError(f"the comparator still violates the turnover cap on day {worst[0]}")


_KNOWN = {"smoothness": "none: the turnover has kinks", "noise": "in the losses: daily returns"}


def recorded(
    name: str, title: str, relatives: Callable[[], Array], days: int, source: str, requires: str
) -> Stream:
    """Return the stream of a market whose price relatives come with a package."""
    market = partial(_covariance, relatives)
    return Stream(
        name,
        title,
        partial(problem, market),
        partial(_history, relatives),
        source,
        "real data",
        best=partial(_best, market),
        known=_KNOWN,
        seeds=1,
        longest=days,
        requires=requires,
        family="portfolio",
    )


def _of_the_field(name: str, stocks: int, days: int, years: str) -> Stream:
    return recorded(
        f"portfolio-{name.replace('_', '-')}",
        f"the same for {stocks} assets, {name.upper().replace('_', '-')}, {years}",
        partial(_classic, name),
        days,
        "daily price relatives that are packaged with universal-portfolios, cut off at "
        f"{LOWEST:g} and {HIGHEST:g}; the usual benchmark of portfolio methods",
        CLASSICS,
    )


STREAMS = (
    Stream(
        "portfolio",
        f"minus the log return of {SIZE} stocks, caps on variance and turnover",
        partial(problem, synthetic),
        _draw,
        "a market with three factors",
        "changing constraints",
        best=partial(_best, synthetic),
        known=_KNOWN,
        family="portfolio",
    ),
    recorded(
        "portfolio-sp500",
        "the same for twenty stocks of the S&P 500, 1990 to 2022",
        _sp500,
        8312,
        "daily prices that are packaged with skfolio",
        "skfolio",
    ),
    _of_the_field("nyse_o", 36, 5651, "1962 to 1984"),
    _of_the_field("nyse_n", 23, 6431, "1985 to 2010"),
    _of_the_field("djia", 30, 507, "2001 to 2003"),
    _of_the_field("msci", 24, 1043, "2006 to 2010"),
    _of_the_field("tse", 88, 1259, "1994 to 1998"),
)

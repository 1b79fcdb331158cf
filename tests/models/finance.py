"""Portfolios and bets."""

import cvxpy as cp
import numpy as np
from statement import accepted

import taut

FACTOR = np.array(
    [[0.5, 0.1, -0.2, 0.0], [0.0, 0.4, 0.1, 0.1], [0.2, 0.0, 0.3, -0.1], [0.0, 0.1, 0.0, 0.2]]
)
SCENARIOS = np.array([[1.2, 0.9, 1.0], [0.8, 1.3, 1.0], [1.1, 1.1, 1.0], [0.7, 0.8, 1.0]])


@accepted(domain="Simplex")
def markowitz(m):
    """Return against variance, fully invested, long only. CVXPY, examples: portfolio
    optimization."""
    w, r = m.variable("w", 4, nonneg=True), m.data("r", 4, -1, 1)
    return -r @ w + cp.quad_form(w, FACTOR @ FACTOR.T), [cp.sum(w) == 1]


@accepted
def factor_model(m):
    """Covariance as factors plus own risk, with a leverage limit. CVXPY, examples: portfolio
    optimization, factor model."""
    w, r = m.variable("w", 4), m.data("r", 4, -1, 1)
    f = np.array([[0.6, 0.2, -0.3, 0.1], [0.1, -0.4, 0.5, 0.3]]) @ w
    risk = cp.quad_form(f, np.array([[0.5, 0.1], [0.1, 0.3]])) + cp.sum_squares(
        cp.multiply(np.sqrt([0.1, 0.2, 0.1, 0.3]), w)
    )
    return cp.Problem(cp.Maximize(r @ w - 0.5 * risk), [cp.sum(w) == 1, cp.norm(w, 1) <= 2])


def _covariance(random):
    half = random.uniform(-0.5, 0.5, (3, 3))
    return half @ half.T


@accepted(domain="Simplex", estimated=("loss_lipschitz", "loss_range"))
def changing_covariance(m):
    """The covariance matrix is data of the round. CVXPY, tutorial: quad_form with a PSD parameter
    (not DPP)."""
    w, risk = m.variable("w", 3), m.data("S", (3, 3), draw=_covariance, PSD=True)
    return cp.quad_form(w, risk), [cp.sum(w) == 1, w >= 0]


@accepted(options={"domain": taut.Simplex(3)})
def kelly(m):
    """Bets with the largest growth of wealth. CVXPY, examples: Kelly gambling."""
    b, r = m.variable("b", 3), m.data("r", 3, 0.5, 2)
    return cp.Problem(cp.Maximize(cp.log(r @ b)), [b[0] <= 0.5])


@accepted(domain="Simplex")
def risk_constrained_kelly(m):
    """Growth with a bound on the risk of drawdown. Busseti, Ryu and Boyd, 2016; in CVXPY's form
    with log_sum_exp."""
    b, r = m.variable("b", 3), m.data("r", 3, 0.6, 1.6)
    drawdown = cp.log_sum_exp(np.log([0.2, 0.3, 0.3, 0.2]) - 2.0 * cp.log(SCENARIOS @ b))
    return -cp.log(r @ b), [b >= 0, cp.sum(b) == 1, drawdown <= 0]


@accepted
def conditional_value_at_risk(m):
    """Expected shortfall with its level as a variable. Rockafellar and Uryasev, 2000;
    cvxportfolio's WorstCaseRisk family."""
    w, level = m.variable("w", 3, nonneg=True), m.variable("level", bounds=[-0.5, 0.5])
    r = m.data("r", 3, -0.4, 0.5)
    return level + cp.pos(-r @ w - level) / 0.1, [cp.sum(w) == 1, w <= 0.6]


@accepted
def wasserstein_portfolio(m):
    """Worst mean and shortfall over a Wasserstein ball. Mohajerin Esfahani and Kuhn, 2018, section
    7.1; cvxRiskOpt, examples."""
    w, level, slope = (
        m.variable("w", 3, nonneg=True),
        m.variable("level", bounds=[-1, 1]),
        m.variable("slope", bounds=[0, 15]),
    )
    r = m.data("r", 3, -0.4, 0.5)
    pieces = [(-1.0, 2.0), (-1.0 - 2 / 0.2, 2 * (1 - 1 / 0.2))]
    worst = cp.maximum(*(a * (r @ w) + b * level for a, b in pieces))
    return 0.05 * slope + worst, [cp.sum(w) == 1, [cp.norm_inf(a * w) <= slope for a, _ in pieces]]


@accepted
def holding_and_trading_costs(m):
    """Linear and 3/2-power costs of trades from given holdings. cvxportfolio:
    StocksTransactionCost, HoldingCost."""
    w = m.variable("w", 3, bounds=[-0.5, 1.0])
    held, r = m.data("held", 3, -0.5, 1), m.data("r", 3, -0.1, 0.1)
    trade = cp.abs(w - held)
    cost = 0.01 * cp.sum(trade) + 0.05 * cp.sum(cp.power(trade, 1.5)) + 0.02 * cp.sum(cp.neg(w))
    return -r @ w + cost, [cp.sum(w) == 1, cp.norm(FACTOR[:3, :3] @ w) <= 0.3]


@accepted
def turnover_against_the_round_before(m):
    """Costs and a limit of the trade from the last decision. cvxportfolio: TurnoverLimit."""
    w = m.variable("w", 3, bounds=[0, 1])
    r = m.data("r", 3, -0.2, 0.2)
    trade = w - m.previous(w)
    return -r @ w + 0.05 * cp.norm1(trade), [cp.sum(w) <= 1, cp.norm1(trade) <= 0.5]


@accepted(domain="Simplex")
def entropic_risk(m):
    """Exponential utility over the scenarios of a round. CVXPY, examples: entropic portfolio."""
    w, r = m.variable("w", 3), m.data("R", (4, 3), -0.5, 0.5)
    return cp.log_sum_exp(-3.0 * (r @ w)) / 3.0, [w >= 0, cp.sum(w) == 1]


def _outer(random):
    weights = random.uniform(0, 1, 3)
    return np.outer(weights, weights)


@accepted(domain="Spectral", estimated=("loss_lipschitz", "loss_range"))
def worst_case_variance(m):
    """The covariance matrix under which a portfolio is riskiest. CVXPY, examples: worst-case risk
    analysis."""
    sigma = m.variable("Sigma", (3, 3), PSD=True)
    w = m.data("W", (3, 3), draw=_outer, PSD=True)
    return cp.Problem(
        cp.Maximize(cp.trace(w @ sigma)),
        [cp.trace(sigma) <= 1, cp.abs(sigma[0, 1]) <= 0.1, sigma[0, 2] >= 0],
    )

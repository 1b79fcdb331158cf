"""Three rounds of every method, worked by hand from its formula.

The game: decisions in the square |x_i| <= 3/4 from x_1 = (0, 0); loss <c_t, x>, so df = c_t; one constraint
g(x) = x_1 + x_2 - 1/2, so dg = (1, 1). A table row reads: the three c_t; then x_2, x_3, x_4; then lambda_1 .. lambda_4.
Constants are chosen so that the tuned parameters are simple; each is at least what the game really has.
"""

from math import sqrt

import numpy as np
import pytest

import games
import taut
from taut import Constants

DOMAIN = taut.Box(-0.75, 0.75, shape=2)
SQUARE = taut.L1Ball(0.5, shape=2)  # inside g <= 0
R2, R3 = sqrt(2), sqrt(3)


def loss(x, c):
    return c @ x


def excess(x):
    return x[0] + x[1] - 0.5


PROBLEM = taut.Problem(loss, excess, DOMAIN)


def known(radius, loss_lipschitz, **others):
    return Constants(
        radius=radius, loss_lipschitz=loss_lipschitz, constraint_lipschitz=R2, constraint_count=1, **others
    )


GOLDEN = {
    # sigma = 2 G_g^2 / (2 (1 - 1/2)) = 4; eta = R / (G_f sqrt(2) sqrt(T)) = 2 / (sqrt(2) sqrt(2) sqrt(4)) = 1/2.
    "clipped-ogd": (
        known(2.0, R2), 4, [(-1, -0.5), (-1, 0), (0.5, 1)],
        # g(x_1) = -0.5 is no violation:        x_2 = 0 - 1/2 c_1
        # g(x_2) = 0.25, 0.25/4 = 0.0625:       x_3 = (0.5 + 0.5 - 0.0625, 0.25 - 0.0625), its first entry cut at 0.75
        # g(x_3) = 0.4375, 0.4375/4 = 0.109375: x_4 = (0.75 - 0.25 - 0.109375, 0.1875 - 0.5 - 0.109375), g(x_4) < 0
        [(0.5, 0.25), (0.75, 0.1875), (0.390625, -0.421875)],
        # [g]_+ / (4 * 1/2)
        [0, 0.125, 0.21875, 0],
    ),
    # G = max(2, sqrt(2)) = 2 serves both: sigma = 2 * 4 = 8, eta = 1 / (T^(1/2) G sqrt(2 R)) = 1 / (1 * 2 * 2) = 1/4.
    "clipped-ogd-paper": (
        known(2.0, 2.0), 1, [(-1, -0.5), (-1, 0), (0.5, 1)],
        # g = -0.5, -0.125, 0.125: only the third round has a feasibility step, 0.125/8 = 0.015625
        # x_4 = (0.5 - 0.125 - 0.015625, 0.125 - 0.25 - 0.015625), g(x_4) < 0
        [(0.25, 0.125), (0.5, 0.125), (0.359375, -0.140625)],
        # 0.125 / (8 * 1/4)
        [0, 0, 0.0625, 0],
    ),
    # H = 1: eta_t = 1/(t+1) = 1/2, 1/3, 1/4; sigma = 2 G_g^2 = 4, whatever G_f is.
    "clipped-ogd-strong": (
        known(2.0, 2.0, strong_convexity=1.0), 4, [(-1, -0.5), (-1, 0), (0.5, 1)],
        # g(x_2) = 0.25:   x_3 = (0.5 + 1/3 - 0.0625, 0.25 - 0.0625) = (0.77.. cut at 0.75, 0.1875)
        # g(x_3) = 0.4375: x_4 = (0.75 - 0.125 - 0.109375, 0.1875 - 0.25 - 0.109375), g(x_4) = -0.15625
        [(0.5, 0.25), (0.75, 0.1875), (0.515625, -0.171875)],
        # 0.25 / (4/3), 0.4375 / (4/4)
        [0, 0.1875, 0.4375, 0],
    ),
    # eta_t = R / (G_f sqrt(2 t)) = 1 / (2 sqrt(t)), sigma = 4.
    "clipped-ogd-anytime": (
        known(1.0, R2), 4, [(-1, -0.5), (-1, 0), (0.5, 1)],
        # x_3 = (0.5 + 1/(2 sqrt 2) - 0.0625, 0.1875) = (0.79.. cut at 0.75, 0.1875)
        # x_4 = (0.75 - 1/(4 sqrt 3) - 0.109375, 0.1875 - 1/(2 sqrt 3) - 0.109375)
        [(0.5, 0.25), (0.75, 0.1875), (0.640625 - 0.25 / R3, 0.078125 - 0.5 / R3)],
        # 0.25 / (4/(2 sqrt 2)), 0.4375 / (4/(2 sqrt 3))
        [0, 0.125 * R2, 0.21875 * R3, 0],
    ),
    # Horizons 1, 2, 4: eta = 2 / (sqrt(2) sqrt(2) 2^(k/2)) = 1, 1/sqrt(2), 1/2; rounds 1 | 2 3 | 4 5 6 7.
    "clipped-ogd-doubling": (
        known(2.0, R2), 4, [(-1, -0.5), (-1, 0), (0.5, 1)],
        # round 1 ends its epoch: x_2 = (0, 0); round 2: x_3 = 0 + (1, 0)/sqrt(2); round 3 ends its epoch: x_4 = (0, 0)
        [(0, 0), (1 / R2, 0), (0, 0)],
        # g(x_3) = 1/sqrt(2) - 1/2, over 4 / sqrt(2)
        [0, 0, (1 / R2 - 0.5) * R2 / 4, 0],
    ),
    # a = R sqrt(2 G^2 + 2 D^2) = 2 sqrt(4 + 12) = 8, eta = R^2 / (a sqrt(T)) = 4 / (8 * 3) = 1/6;
    # delta = (1 - sqrt(1 - 8 eta^2 4)) / (4 eta^2) = (1 - 1/3) * 9 = 6, theta = delta eta = 1.
    "ogd": (
        known(2.0, R2, constraint_range=sqrt(6)), 9, [(-3, -3), (3, 3), (0.5, 1)],
        # g = -0.5:                x_2 = 0 + 3/6,   lambda_2 = [0 + (-0.5 - 0)/6]_+ = 0
        # g = 0.5:                 x_3 = 0.5 - 3/6, lambda_3 = 0 + (0.5 - 0)/6 = 1/12
        # g = -0.5, pull 1/12:     x_4 = -(c_3 + 1/12)/6,  lambda_4 = [1/12 + (-0.5 - 1/12)/6]_+ = [-1/72]_+ = 0
        [(0.5, 0.5), (0, 0), (-7 / 72, -13 / 72)],
        [0, 0, 1 / 12, 0],
    ),
    "ogd-clipped": (
        known(2.0, R2, constraint_range=sqrt(6)), 9, [(-3, -3), (3, 3), (0.5, 1)],
        # as above, but in round 3 g < 0: no pull, and the multiplier only decays: 1/12 + (0 - 1/12)/6 = 5/72
        [(0.5, 0.5), (0, 0), (-1 / 12, -1 / 6)],
        [0, 0, 1 / 12, 5 / 72],
    ),
    # R/G = 1/2, 6 R G = 6: eta_t = 1/(2 sqrt t), theta_t = 6/sqrt t, mu_t = 1/(theta_t (t+1)) = sqrt(t) / (6 (t+1)).
    "a-ogd": (
        known(R2 / 2, 1.0), 4, [(-1, -1), (R2, R2), (0.5, 1)],
        # x_2 = 1/2; lambda_2 = [0 - 0.5 mu_1]_+ = 0
        # x_3 = 0.5 - sqrt(2)/(2 sqrt(2)) = 0; lambda_3 = 0.5 mu_2 = 0.5 sqrt(2)/18 = sqrt(2)/36
        # x_4 = -(c_3 + sqrt(2)/36)/(2 sqrt 3); lambda_4 = [sqrt(2)/36 (1 - 1/4) - 0.5 sqrt(3)/24]_+ = [0.029 - 0.036]_+
        [(0.5, 0.5), (0, 0), (-(0.5 + R2 / 36) / (2 * R3), -(1 + R2 / 36) / (2 * R3))],
        [0, 0, R2 / 36, 0],
    ),
    "a-ogd-clipped": (
        known(R2 / 2, 1.0), 4, [(-1, -1), (R2, R2), (0.5, 1)],
        # in round 3 g < 0: no pull; mu_t theta_t = 1/(t+1), so the multiplier keeps 3/4 of itself
        [(0.5, 0.5), (0, 0), (-0.25 / R3, -0.5 / R3)],
        [0, 0, R2 / 36, R2 / 48],
    ),
    # H = 2, G^2 = 2: eta_t = 1/(2t) = 1/2, 1/4, 1/6; theta_t = 6/sqrt t, mu_t as above.
    "a-ogd-strong": (
        known(2.0, 1.0, strong_convexity=2.0), 4, [(-1, -1), (2, 2), (0.5, 1)],
        [(0.5, 0.5), (0, 0), (-(0.5 + R2 / 36) / 6, -(1 + R2 / 36) / 6)],
        [0, 0, R2 / 36, 0],
    ),
    "a-ogd-strong-clipped": (
        known(2.0, 1.0, strong_convexity=2.0), 4, [(-1, -1), (2, 2), (0.5, 1)],
        [(0.5, 0.5), (0, 0), (-1 / 12, -1 / 6)],
        [0, 0, R2 / 36, R2 / 48],
    ),
    # S: |x_1| + |x_2| <= 1/2, of diameter 1. eta_t = 1 / (G_f sqrt t) = 1/(2 sqrt t).
    "projected-ogd": (
        known(2.0, 2.0), 4, [(-1, -0.5), (1, 0), (0.5, 1)],
        # (0.5, 0.25) lies 0.25 outside: each entry loses 0.125; the next two stay inside
        # x_3 = (0.375 - 1/(2 sqrt 2), 0.125); x_4 = x_3 - (0.25, 0.5)/sqrt(3)
        [(0.375, 0.125), (0.375 - 0.5 / R2, 0.125), (0.375 - 0.5 / R2 - 0.25 / R3, 0.125 - 0.5 / R3)],
        [0, 0, 0, 0],
    ),
    # H = 2: eta_t = 1/2, 1/4, 1/6.
    "projected-ogd-strong": (
        known(2.0, 2.0, strong_convexity=2.0), 4, [(-1, -0.5), (1, 0), (0.5, 1)],
        [(0.375, 0.125), (0.125, 0.125), (0.125 - 0.5 / 6, 0.125 - 1 / 6)],
        [0, 0, 0, 0],
    ),
    # V = sqrt(4) = 2, alpha = 4: x - (2 c + Q (1, 1)) / 8.
    "drift-plus-penalty": (
        known(2.0, 2.0), 4, [(-2, -2), (-1, 0), (0.5, 1)],
        # x_2 = 4/8;                                       Q_2 = [0 - 0.5 + (0.5 + 0.5)]_+ = 0.5
        # x_3 = (0.5 + 1.5/8, 0.5 - 0.5/8);                Q_3 = 0.5 + 0.5 + (0.1875 - 0.0625) = 1.125
        # x_4 = (0.6875 - 2.125/8, 0.4375 - 3.125/8);      Q_4 = 1.125 + 0.625 - (0.265625 + 0.390625) = 1.09375
        [(0.5, 0.5), (0.6875, 0.4375), (0.421875, 0.046875)],
        # Q / V
        [0, 0.25, 0.5625, 0.546875],
    ),
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _quick():
    with games.quick_compilation():
        yield


def test_every_method_has_golden_rounds():
    assert set(GOLDEN) == set(taut.LEARNERS)


@pytest.mark.parametrize("name", taut.LEARNERS)
def test_three_rounds_worked_by_hand(name):
    constants, horizon, costs, decisions, multipliers = GOLDEN[name]
    learner = taut.LEARNERS[name].build(constants, horizon, feasible=SQUARE)
    data = np.array([*costs, (0, 0)], float)  # a fourth round shows x_4 and lambda_4
    run = taut.simulate(learner, PROBLEM, data, chunk=4, record=("loss", "excess", "decisions", "multipliers"))
    expected = np.array([(0, 0), *decisions], float)
    np.testing.assert_allclose(run.decisions[0], expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(run.multipliers[0, :, 0], multipliers, rtol=0, atol=1e-15)
    # The referee scores x_t against round t, before anybody steps.
    np.testing.assert_allclose(run.loss[0], np.sum(data * expected, axis=1), rtol=0, atol=1e-15)
    np.testing.assert_allclose(run.excess[0], expected.sum(axis=1) - 0.5, rtol=0, atol=1e-15)

"""Models without a meaning as a game: not convex, not bounded, not defined everywhere, or with two
meanings."""

import cvxpy as cp
import numpy as np
from cvxpy.transforms.indicator import indicator
from statement import refused


@refused("CVXPY's rules do not prove convexity")
def root_of_squares(m):
    """Convex, but not by the rules. CVXPY, tutorial: disciplined convex programming."""
    x = m.variable("x", 2)
    return cp.sqrt(cp.sum_squares(x)), [x <= 1, x >= 0]


@refused("concave")
def risk_seeking(m):
    """Variance is made large. A sign error that is easily made."""
    w = m.variable("w", 3, nonneg=True)
    return cp.Problem(cp.Minimize(-cp.sum_squares(w)), [cp.sum(w) == 1])


@refused("do not prove convexity")
def unsigned_weight(m):
    """A weight that may be negative. CVXPY, tutorial: parameters have a sign."""
    x, weight = m.variable("x", 2, bounds=[0, 1]), m.data("weight", (), -1, 1)
    return weight * cp.sum_squares(x), [cp.sum(x) <= 1]


@refused("do not prove convexity")
def indefinite_form(m):
    """A quadratic form with a symmetric matrix of unknown sign. CVXPY, tutorial: quad_form."""
    x = m.variable("x", 2, bounds=[-1, 1])
    return cp.quad_form(x, m.data("P", (2, 2), symmetric=True)), []


@refused("The following constraints are not DCP")
def minimal_distance(m):
    """Points that keep a distance from one another. Collision avoidance: the outside of a ball."""
    x = m.variable("x", 2)
    return cp.sum_squares(x - 1), [cp.norm(x) >= 1, cp.norm(x) <= 2]


@refused("The following constraints are not DCP")
def curved_equation(m):
    """Power flow with its quadratic equation. AC power flow before any relaxation."""
    v = m.variable("v", 2, bounds=[0.9, 1.1])
    return cp.sum(v), [cp.square(v[0]) - v[1] == 0.1]


@refused("got boolean=True")
def unit_commitment(m):
    """Units that are on or off. Padhy, 2004; the relaxation is accepted."""
    on, demand = m.variable("on", 3, boolean=True), m.data("demand", (), 0, 3)
    return cp.sum(on) + cp.abs(demand - cp.sum(on)), []


@refused("got integer=True")
def whole_lots(m):
    """Shares in whole lots. CVXPY, examples: mixed-integer quadratic program."""
    x, r = m.variable("x", 2, integer=True), m.data("r", 2, -1, 1)
    return -r @ x, [x >= 0, x <= 5]


@refused("unbounded feasible set: a ray in the direction")
def unbounded_least_squares(m):
    """Nonnegative least squares as in CVXPYgen's quick start: nothing bounds the decision."""
    a, b = m.data("A", (3, 2), -1, 1), m.data("b", 3, -1, 1)
    x = m.variable("x", 2)
    return cp.Problem(cp.Minimize(cp.sum_squares(a @ x - b)), [x >= 0])


@refused("unbounded feasible set")
def budget_of_the_round_only(m):
    """Only constraints with data bound the decision: what is known before the round does not."""
    x, budget = m.variable("x", 2, nonneg=True), m.data("budget", (), 1, 2)
    return -cp.sum(x), [cp.sum(x) <= budget]


@refused(r"log\(.*\) is infinite")
def kelly_with_ruin(m):
    """Bets that can lose everything. CVXPY, examples: Kelly gambling, with returns from -1 on."""
    b, r = m.variable("b", 3), m.data("r", 3, -1, 1)
    return -cp.log(1 + r @ b), [cp.sum(b) == 1, b >= 0]


@refused("where log.* is not defined")
def barrier_with_a_corner(m):
    """Defined on the feasible set, but not at the corners of the box around it."""
    q, c = m.variable("q", 2), m.data("c", 2, -1, 1)
    return c @ q - cp.log(100 - cp.square(cp.sum(q))), [cp.norm(q, 4) <= 6]


@refused("infinitely steep")
def entropy_at_zero(m):
    """Entropy on the whole simplex: its slope is infinite where an entry vanishes. CVXPY, examples:
    maximum entropy."""
    p, c = m.variable("p", 3, nonneg=True), m.data("c", 3, -1, 1)
    return c @ p - cp.sum(cp.entr(p)), [cp.sum(p) == 1]


@refused("infinitely steep")
def root_utility_at_zero(m):
    """Square roots as utility without a lower bound. Network utility maximisation."""
    x, w = m.variable("x", 2, bounds=[0, 1]), m.data("w", 2, 0, 1, nonneg=True)
    return -w @ cp.sqrt(x), [cp.sum(x) <= 1]


@refused("is infinite")
def delay_at_capacity(m):
    """Delay of a queue up to its capacity. Bertsekas and Gallager, section 5.4."""
    f, demand = m.variable("f", bounds=[0, 1]), m.data("demand", (), 0, 1)
    return cp.inv_pos(1 - f) + cp.pos(demand - f), []


@refused("got no feasible decision")
def contradiction(m):
    """Budget and floors that exclude each other."""
    x = m.variable("x", 2)
    return cp.sum_squares(x), [x >= 1, cp.sum(x) <= 1]


@refused("decided before the data of a round are known, or chosen afterwards")
def ambiguous_epigraph(m):
    """An epigraph variable with bounds of its own: a reserve, or a way to write an absolute
    value."""
    t, z, c = (
        m.variable("t", bounds=[0, 5]),
        m.variable("z", bounds=[-1, 1]),
        m.data("c", (), -1, 1),
    )
    return t, [t >= c * z, t >= -c * z]


@refused("indicator.*pass the set as constraints")
def indicator_loss(m):
    """A set as part of the loss. CVXPY, transforms: indicator."""
    z, c = m.variable("z", bounds=[-1, 1]), m.data("c", (), -1, 1)
    return c * z + indicator([z <= 0.5]), []


@refused("do not prove convexity")
def quasiconvex(m):
    """Quasiconvex programs are solved by bisection, which has no gradient. CVXPY, examples:
    DQCP."""
    x = m.variable("x", bounds=[-1, 1])
    return cp.ceil(x), []


@refused("do not prove convexity")
def geometric_program(m):
    """Log-log convex, not convex. CVXPY, examples: maximizing the volume of a box (DGP)."""
    x = m.variable("x", 3, pos=True)
    return 1 / cp.prod(x), [x <= 2, cp.sum(x) <= 4]


@refused("got FiniteSet")
def finite_set(m):
    """A variable with two values. CVXPY, transforms: FiniteSet."""
    x, c = m.variable("x", 2, bounds=[0, 1]), m.data("c", 2, -1, 1)
    return c @ x, [cp.FiniteSet(x[0], np.array([0.0, 1.0]))]


@refused("got quantum_rel_entr")
def quantum_entropy(m):
    """An atom without a translation is named. CVXPY, atoms: quantum_rel_entr."""
    x = m.variable("X", (2, 2), PSD=True)
    return cp.quantum_rel_entr(x, np.eye(2)), [cp.trace(x) == 1]


@refused("not defined")
def fraction_of_an_indefinite_matrix(m):
    """A matrix fraction whose matrix may be indefinite. CVXPY, atoms: matrix_frac."""
    x = m.variable("x", 2, bounds=[1, 2])
    return cp.matrix_frac(x, m.data("P", (2, 2), symmetric=True)), [cp.sum(x) <= 3]

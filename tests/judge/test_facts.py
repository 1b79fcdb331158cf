"""Facts: what is proven of a problem agrees with what is computed in other ways, and attacks do not
make it prove what is false."""

import itertools
import sys
from dataclasses import replace
from math import sqrt

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.intervals.enclosure import Space
from taut.intervals.of_jaxpr import enclose
from taut.intervals.pieces import Unknown
from taut.judge.assumptions import PROVEN, VERIFIED
from taut.judge.facts.polyhedra import hoffman, vertices
from taut.judge.facts.ranges import program_of
from taut.learners import Assumes

BOX = taut.Box(-1.0, 1.0, shape=2)
BALL = taut.Ball(1.0, shape=2)
COSTS = np.random.default_rng(0).uniform(size=(40, 2))
A = np.random.default_rng(1).normal(size=(5, 3))


def linear(x, c):
    return c @ x


def toy(x):
    return jnp.abs(x).sum() - 1


def problem(constraints, domain=BOX, **more):
    return taut.Problem(linear, constraints, domain, **more)


# -- Pieces

PROGRAMS = {
    "affine": (lambda x: A @ x - 0.3, 1),
    "abs": (lambda x: jnp.abs(x).sum() - 1, 8),
    "weighted abs": (lambda x: jnp.asarray([1.0, 2.0, 0.5]) @ jnp.abs(x) - 1, 8),
    "largest": (lambda x: jnp.max(A @ x) - 0.2, 5),
    "maximum": (lambda x: jnp.maximum(x[0], 2 * x[1]) + jnp.maximum(x[2], 0) - 0.4, 4),
    "norm": (lambda x: jnp.linalg.norm(x, jnp.inf) - 0.5, 7),
    "negated minimum": (lambda x: -jnp.min(A @ x) - 2, 5),
    "running sums": (lambda x: jnp.cumsum(x) - 0.4, 1),
    "several": (lambda x: jnp.concatenate([A @ x - 0.3, jnp.abs(x) - 0.5, x[None, 1] * 0 - 1]), 2),
    "reversed, taken": (lambda x: x[::-1][jnp.array([0, 2])] - x[1] / 4, 1),
    "of data": (lambda x: jnp.where(jnp.arange(3) > 0, jnp.abs(x), x) - 0.3, 2),
    "rectified": (lambda x: jax.nn.relu(x).sum() - 1, None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_maximum_of_the_pieces_is_the_program(name):
    program, count = PROGRAMS[name]
    space = Space.of(taut.Ball(2.0, shape=3), pieces=True)
    if count is None:  # it has a derivative of its own
        with pytest.raises(Unknown):
            program_of(lambda x, z: program(x), space, None)
        return
    pieces = enclose(lambda x, z: program(x), space).pieces
    assert pieces.sign >= 0
    assert pieces.count == count
    for x in np.random.default_rng(2).normal(size=(20, 3)):
        values = np.max(pieces.functions[..., :-1] @ x + pieces.functions[..., -1], axis=-1)
        np.testing.assert_allclose(values, program(jnp.asarray(x, float)), atol=2e-6)


def test_half_spaces_are_counted():
    assert problem(toy, BALL).facts().half_spaces.value == 4
    x, c = cp.Variable(2), cp.Parameter(2)
    rows = [cp.norm1(x) <= 1, cp.max(x) <= 0.6, x[0] + x[1] <= 0.9]
    assert taut.from_cvxpy(c @ x, rows, domain=BOX).facts().half_spaces.value == 7
    # The same row twice, and a multiple of it.
    twice = problem(lambda x: jnp.stack([x[0] - 0.5, 2 * x[0] - 1, x[1] - 0.5]))
    assert twice.facts().half_spaces.value == 2


def test_gradients_reveal_the_counted_half_spaces_also_at_kinks():
    """Decisions with zeros and equal entries, where JAX's own derivatives are means of slopes."""
    program = lambda x: jnp.maximum(jnp.abs(x).sum(), 2 * jnp.maximum(x[0], x[1])) - 1  # noqa: E731
    game = problem(program, BALL)
    counted = game.facts().half_spaces.value
    points = jnp.asarray(list(itertools.product((-0.5, 0.0, 0.5), repeat=2)))
    both = jax.vmap(lambda x: game.constraints.linearise(x, None).pullback(jnp.ones(1)))
    revealed = np.unique(np.round(np.asarray(both(points)), 9), axis=0)
    assert len(revealed) == counted == 6


@pytest.mark.parametrize(("angle", "counted"), [(0.0, 2), (1e-7, None), (1e-5, 2)])
def test_rows_that_are_nearly_parallel_are_not_counted(angle, counted):
    """They would share a slot of the memory, and only one of them would be kept. Rows with the same
    normal may share it: the tighter one implies the other."""
    game = problem(lambda x: jnp.stack([x[0] - 0.5, x[0] + angle * x[1] - 0.4]), BALL)
    fact = game.facts().half_spaces
    assert (fact and fact.value) == counted


def test_half_spaces_of_changing_rows_are_those_of_the_run():
    rng = np.random.default_rng(3)
    which = rng.integers(0, 5, size=60)
    data = {"c": rng.normal(size=(60, 2)), "a": A[which, :2], "s": rng.uniform(1, 2, size=60)}
    game = taut.Problem(
        lambda x, z: z["c"] @ x, lambda x, z: z["s"] * (z["a"] @ x - 0.3), taut.Ball(1.0, shape=2)
    )
    facts = game.facts(data)
    assert facts.half_spaces.value == len(set(which)) == 5
    assert facts.slater.value >= 0.3 * data["s"].min() * (1 - 1e-4)  # that of the centre
    assert game.facts().half_spaces is None


# -- Error bounds


def nearest(x, rows, ends):
    """The distance of x from {rows x + ends <= 0}, by CVXPY."""
    y = cp.Variable(len(x))
    plan = cp.Problem(cp.Minimize(cp.norm(y - x)), [rows @ y + ends <= 0])
    plan.solve(solver=cp.CLARABEL)
    return plan.value


@pytest.mark.parametrize("seed", range(4))
def test_an_error_bound_of_a_polyhedron_holds_and_is_attained(seed):
    rng = np.random.default_rng(seed)
    rows, ends = rng.normal(size=(4, 2)), -rng.uniform(0.2, 0.7, size=4)
    sides, levels = np.concatenate([np.eye(2), -np.eye(2)]), np.ones(4)
    kappa = hoffman(rows, ends, sides, levels, -np.ones(2), np.ones(2))
    every, all_ends = np.concatenate([rows, sides]), np.concatenate([ends, -levels])
    ratios = []
    for x in rng.uniform(-1, 1, size=(60, 2)):
        excess = np.max(rows @ x + ends)
        if excess > 1e-3:
            ratios.append(excess / nearest(x, every, all_ends))
    assert min(ratios) >= kappa * (1 - 1e-5)
    assert min(ratios) <= 2.5 * kappa  # it is not just any small number


def test_the_error_bound_of_the_l1_ball():
    corners = np.array(list(itertools.product([1.0, -1.0], repeat=2)))
    nothing = np.zeros((0, 2)), np.zeros(0)
    found = hoffman(corners, -np.ones(4), *nothing, -np.ones(2), np.ones(2))
    assert found == pytest.approx(1.0)
    # In the unit ball no decision is nearest to a corner: only faces count.
    facts = problem(toy, BALL).facts()
    assert facts.error_bound.value == pytest.approx(np.sqrt(2))
    assert facts.error_bound.kind == PROVEN
    points = np.random.default_rng(4).normal(size=(40, 2))
    for x in points / np.maximum(1, np.linalg.norm(points, axis=1, keepdims=True)):
        excess = np.abs(x).sum() - 1
        assert max(excess, 0) >= facts.error_bound.value * nearest(x, corners, -np.ones(4)) - 1e-6
    for radius in (1.0 + 1e-6, 1.3):  # in a larger one they count
        wider = problem(toy, taut.Ball(radius, shape=2)).facts()
        assert wider.error_bound.value == pytest.approx(1.0)


def test_a_domain_that_is_a_constraint_itself_counts_for_the_error_bound():
    """With x1 >= 0, the set {x2 + 0.05 x1 <= 0} and the box meet in a sharp corner."""
    game = problem(lambda x: x[1] - 20 * x[0] - 19, BOX, domain_binds=True)
    kappa = game.facts().error_bound.value
    for x in ([-1.0, 1.0], [-0.99, 1.0], [-1.0, 0.5]):
        excess = x[1] - 20 * x[0] - 19
        rows = np.concatenate([[[-20.0, 1.0]], np.eye(2), -np.eye(2)])
        distance = nearest(np.array(x), rows, np.array([-19.0, -1, -1, -1, -1]))
        assert max(excess, 0) >= kappa * distance * (1 - 1e-6)
    ball = problem(lambda x: x[0] - 0.99, BALL, domain_binds=True).facts()
    assert "Hoffman" not in ball.error_bound.source  # of the ball no rows are known


CUT = {
    "ball": (BALL, lambda x: x[0] + 0.5, [-0.2, 0.979], lambda y: [cp.norm(y) <= 1, y[0] <= -0.5]),
    "simplex": (
        taut.Simplex(shape=3),
        lambda x: x[0] - 0.8,
        [1.0, 0.0, 0.0],
        lambda y: [y >= 0, cp.sum(y) == 1, y[0] <= 0.8],
    ),
}


@pytest.mark.parametrize("name", CUT)
def test_the_edge_of_a_domain_that_cuts_the_feasible_set_counts(name):
    """The nearest feasible decision is one of the domain, farther away than the polyhedron."""
    domain, constraint, x, feasible = CUT[name]
    kappa = problem(constraint, domain).facts().error_bound.value
    y = cp.Variable(len(x))
    plan = cp.Problem(cp.Minimize(cp.norm(y - np.array(x))), feasible(y))
    plan.solve(solver=cp.CLARABEL)
    assert float(constraint(jnp.asarray(x))) >= kappa * plan.value * (1 - 1e-6)


def test_vertices_of_polyhedra():
    square = np.concatenate([np.eye(2), -np.eye(2)])
    assert len(vertices(square, -np.ones(4))) == 4
    assert vertices(square[:3], -np.ones(3)) is None  # without an end
    assert vertices(square, np.array([-1.0, -1, 2, 2])) is None  # empty
    slab = np.array([[1.0, 1.0], [-1.0, -1.0], [2.0, 2.0]])
    assert vertices(slab, -np.ones(3)) is None
    line = vertices(np.array([[2.0], [-1.0]]), np.array([-1.0, -3.0]))
    np.testing.assert_allclose(np.sort(line.ravel()), [-3.0, 0.5])


def test_an_error_bound_from_a_slater_point_names_convexity_unless_it_is_proven():
    bent = problem(lambda x: jnp.minimum(0.01, x[0] - 0.5)).facts()
    assert bent.error_bound.source.endswith("if the constraints are convex")
    assert bent.convex_constraints is None
    for honest in (lambda x: jnp.sum(x**2) - 0.5, lambda x: x[0] - 0.5):
        assert "convex" not in problem(honest).facts().error_bound.source
    x, c = cp.Variable(2), cp.Parameter(2)
    model = taut.from_cvxpy(c @ x, [cp.norm(x) + cp.max(x) <= 0.6], domain=BOX)
    assert "convex" not in model.facts().error_bound.source


# -- A Slater point, Lipschitz constants, curvature


def test_a_slater_point_is_verified_where_it_is_claimed():
    game = problem(lambda x: jnp.stack([jnp.sum((x - 0.6) ** 2) - 0.3, x[0] - 0.4]), BOX)
    facts = game.facts()
    assert facts.slater.kind == VERIFIED  # the centre is not feasible
    values = game.constraints.values(jnp.asarray(facts.slater_point), None)
    assert float(values.max()) <= -facts.slater.value
    assert problem(lambda x: jnp.sum(x**2), BOX).facts().slater is None
    assert problem(lambda x: jnp.sum(x**2) + 1e-6, BOX).facts().slater is None


def test_constants_of_losses_are_those_of_the_data():
    game = taut.Problem(lambda x, z: 0.5 * jnp.sum((x - z) ** 2), toy, BOX)
    facts = game.facts(COSTS)
    far = np.array(list(itertools.product([-1, 1], repeat=2)))[None] - COSTS[:, None]
    assert facts.loss_lipschitz.value == pytest.approx(np.linalg.norm(far, axis=2).max(), rel=1e-6)
    assert facts.strong_convexity.value == pytest.approx(1.0)
    assert facts.convex_losses is not None
    assert game.facts().loss_lipschitz is None


def test_functions_that_are_constant_give_no_constant():
    game = problem(lambda x: 0 * x[0] - 1, BALL, domain_binds=True)
    assert game.facts().constraint_lipschitz.value == 0
    assert game.facts().strengthened(game.constants).constraint_lipschitz is None
    assert taut.simulate(game, COSTS).certificate().holds


def test_a_stated_constant_that_is_stronger_stays():
    game = problem(toy, BALL, constants=taut.Constants(error_bound=1.5, constraint_lipschitz=9.0))
    known = game.facts().strengthened(game.constants)
    assert known.error_bound == 1.5
    assert known.constraint_lipschitz == pytest.approx(np.sqrt(2))
    sampled = game.with_constants(game.constants.with_values(loss_lipschitz=0.1, estimated=True))
    assert sampled.facts(COSTS).strengthened(sampled.constants).loss_lipschitz > 1


# -- Certificates


def test_the_first_example_has_no_trivial_bound_without_any_constant():
    costs = np.random.default_rng(0).uniform(size=(2, 1_500, 2))
    run = taut.simulate(problem(toy, BALL), costs, seeds=2)
    certificate = run.certificate()
    rows = {row.quantity: row for row in certificate.rows}
    for quantity in ("regret", "violation", "peak violation"):
        assert rows[quantity].holds
        assert not rows[quantity].trivial
    status = {one.name: one.status for one in certificate.assumptions}
    for name in ("error_bound", "convex losses", "convex constraints"):
        assert status[name] == PROVEN
    assert status["slater"] == VERIFIED


def pool(rounds=400):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(5, 2))
    data = {"c": rng.normal(size=(rounds, 2)), "a": rows[rng.integers(0, 5, size=rounds)]}
    return data, lambda x, z: z["a"] @ x - 0.3 * jnp.linalg.norm(z["a"])


def test_rows_that_come_back_have_a_bound_that_does_not_grow():
    data, rows = pool()
    game = taut.Problem(lambda x, z: z["c"] @ x, rows, BALL)
    learner = taut.learner("half-space", game, sweeps=None, life=None)
    row = {r.quantity: r for r in taut.simulate(learner, game, data).certificate().rows}
    slope = np.linalg.norm(data["a"], axis=1).max()
    assert row["violation"].bound == pytest.approx(5.645 * slope * 2, rel=1e-3)
    assert row["violation"].theorem == "half-space, H6 memory"
    assert row["violation"].holds
    for stated, status in ((5, PROVEN), (7, PROVEN), (4, "refuted")):
        known = game.with_constants(taut.Constants(half_spaces=stated))
        certificate = taut.simulate(learner, known, data).certificate()
        found = {one.name: one.status for one in certificate.assumptions}
        assert found["half_spaces"] == status


@pytest.mark.parametrize("hold", [True, False])
def test_a_bound_for_rows_that_come_back_needs_exact_projections(hold, monkeypatch):
    """The two rows meet at so small an angle that 10,000 sweeps would not do."""
    wedge = taut.Problem(
        lambda x, z: z * x[0],
        lambda x: jnp.stack([x[1] - 3e-3 * x[0], -x[1] - 3e-3 * x[0]]),
        BALL,
        domain_binds=True,
    )
    run = taut.simulate(taut.HalfSpace(0.5, 2.0, memory=8), wedge, np.ones(300))
    assert run.cuts_hold.tolist() == [True]
    again = replace(run, cuts_hold=np.array([hold]))
    monkeypatch.setattr(sys.modules[taut.certify.__module__], "check_same", lambda *_: again)
    certificate = run.certificate()
    row = {r.quantity: r for r in certificate.rows}["violation"]
    assert ("H6" in row.theorem and row.bound is not None) == hold
    if hold:
        assert row.bound == pytest.approx((2 + 0.645) * sqrt(1 + 9e-6) * 2, rel=1e-3)
        told = {one.name: one.status for one in certificate.assumptions}
        assert told[str(Assumes.EXACT_PROJECTIONS)] == VERIFIED


# -- Attacks: none of them may produce a fact that is false


@jax.custom_jvp
def identity(x):
    return x


@identity.defjvp
def _identity_jvp(primals, tangents):
    return primals[0], 100 * tangents[0]


def by_loop(x):
    return jax.lax.fori_loop(0, 3, lambda k, y: y * x[0], x[1]) - 0.5


def by_scan(x):
    return jax.lax.scan(lambda y, k: (y * x[0], None), x[1], jnp.arange(2))[0] - 0.5


ATTACKS = {
    "product of entries": lambda x: x[0] * x[1] - 0.1,
    "choice by the decision": lambda x: jnp.where(x[0] > 0, x[0], 3 * x[1]) - 0.5,
    "loop": by_loop,
    "scan": by_scan,
    "rounded": lambda x: jnp.round(2 * x).sum() - 1.5,
    "integers": lambda x: (10 * x).astype(int).astype(float).sum() - 5,
    "custom derivative": lambda x: identity(x).sum() - 0.5,
    "stopped gradient": lambda x: x.sum() - 0.99 * jax.lax.stop_gradient(x).sum() - 0.1,
    "absolute value of a square": lambda x: jnp.abs(x**2 - 0.5).sum() - 0.4,
    "running products": lambda x: jnp.cumprod(x + 1)[-1] - 1.5,
    "minimum": lambda x: jnp.min(x) - 0.2,
    "maximum minus maximum": lambda x: jnp.max(x) - jnp.maximum(x[0], 0) - 0.2,
    "absolute value of a maximum": lambda x: jnp.abs(jnp.maximum(x[0], x[1])) - 0.5,
    "division": lambda x: x[0] / (x[1] + 3) - 0.2,
    "sorted": lambda x: jnp.sort(x)[0] - 0.3,
    "clipped": lambda x: jnp.clip(x, -0.2, 0.2).sum() - 0.3,
    "place by the decision": lambda x: x[jnp.argmax(x)] * 1.0 - x[jnp.argmin(x)] - 0.5,
    "random": lambda x: jax.random.normal(jax.random.key(0), (2,)) @ x - 0.5 + x[0] * x[1],
    "complex": lambda x: jnp.real((x[0] + 1j * x[1]) ** 2) - 0.5,
    "tiny": lambda x: 1e-30 * (x[0] * x[1]) - 1e-31,
    "huge": lambda x: 1e30 * (x[0] * x[1] - 0.1),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_produces_a_false_fact(name):
    game = taut.Problem(linear, ATTACKS[name], BOX)
    facts = game.facts(COSTS)
    check_facts(game, facts)
    assert facts.half_spaces is None
    assert facts.convex_constraints is None
    if name in ("custom derivative", "stopped gradient", "choice by the decision", "rounded"):
        assert facts.constraint_lipschitz is None


JUMPS = {
    "floor": lambda x: jnp.floor(3 * x).sum(),
    "rounded": lambda x: jnp.round(3 * x).sum(),
    "sign": lambda x: jnp.sign(x - 0.2).sum(),
    "integers": lambda x: (3 * x).astype(int).sum(),
    "comparison": lambda x: -3.0 * (x > 0.2).sum(),
    "choice": lambda x: jnp.where(x[0] > 0.5, 0.0, 1.0),
}


@pytest.mark.parametrize("name", JUMPS)
def test_a_jump_is_not_taken_for_its_derivative(name):
    """JAX's derivative of a jump is 0, so that the second derivative is that of the square."""

    def bent(x):
        return jnp.sum(x**2) + JUMPS[name](x) - 2

    facts = taut.Problem(lambda x, c: bent(x - c), bent, BOX).facts(COSTS)
    for field in ("losses", "constraints"):
        assert getattr(facts, f"convex_{field}") is None
    assert facts.strong_convexity is facts.constraint_smoothness is None
    assert facts.loss_lipschitz is facts.constraint_lipschitz is None


def check_facts(game, facts, data=None):
    """Compare every fact about constraints with values and gradients at many decisions."""
    points = jnp.asarray(np.random.default_rng(7).uniform(-1, 1, size=(300, 2)))

    def values(x):
        return game.constraints.values(x, data)

    found = np.asarray(jax.vmap(values)(points), float)
    slopes = np.linalg.norm(np.asarray(jax.vmap(jax.jacrev(values))(points), float), axis=2)
    room = 1 + 1e-5
    if facts.constraint_lipschitz is not None:
        assert slopes.max() <= facts.constraint_lipschitz.value * room
    if facts.constraint_range is not None:
        assert np.abs(found).max() <= facts.constraint_range.value * room
    if facts.slater is not None:
        there = np.asarray(values(jnp.asarray(facts.slater_point)))
        assert there.max() <= -facts.slater.value * (1 - 1e-6)
    if facts.convex_constraints is not None:
        middle = np.asarray(jax.vmap(values)((points[1:] + points[:-1]) / 2), float)
        assert np.all(middle <= (found[1:] + found[:-1]) / 2 + 1e-5 * np.abs(found).max())


TRUE = {
    "float32": lambda x: jnp.float32(0.1) * jnp.abs(x).sum() - jnp.float32(0.05),
    "tiny": lambda x: 1e-20 * (jnp.abs(x).sum() - 1),
    "huge": lambda x: 1e20 * (jnp.abs(x).sum() - 1),
    "smooth": lambda x: jnp.sum(x**2) - 0.5,
    "norm": lambda x: jnp.linalg.norm(x + 2) - 2.5,
    "logarithm": lambda x: jnp.logaddexp(x[0], x[1]) - 1.1,
}


@pytest.mark.parametrize("name", TRUE)
def test_facts_of_honest_programs_agree_with_samples(name):
    game = taut.Problem(linear, TRUE[name], BOX)
    facts = game.facts()
    check_facts(game, facts)
    assert facts.constraint_lipschitz is not None
    assert facts.slater is not None


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_scale_of_constraints_and_losses_does_not_matter(scale):
    def bent(x, c):
        return c @ x + 0.1 * jnp.sum(x**2)

    def rows(x):
        return jnp.stack([toy(x), jnp.logaddexp(x[0], x[1]) - 1])

    def square(x):
        return jnp.sum(x**2) - 0.5

    for constraint in (toy, rows, square):
        plain = taut.Problem(bent, constraint, BALL).facts(COSTS)
        scaled = taut.Problem(
            lambda x, c: scale * bent(x, c), lambda x, g=constraint: scale * g(x), BALL
        ).facts(COSTS)
        assert scaled.half_spaces == plain.half_spaces
        for name, fact in plain.to_dict().items():
            if name.startswith(("loss_", "strong", "constraint_", "error")) or name == "slater":
                expected = scale * fact["value"]
                assert getattr(scaled, name).value == pytest.approx(expected, rel=1e-5)


def test_data_are_not_taken_for_fixed_numbers():
    """Factors that are negative in one round turn a maximum into a minimum."""
    game = taut.Problem(linear, lambda x, c: c[0] * jnp.abs(x).sum() - 1, BOX)
    assert game.facts(COSTS).convex_constraints is not None
    signed = COSTS.copy()
    signed[17, 0] = -0.2
    assert game.facts(signed).convex_constraints is None
    negated = taut.Problem(linear, lambda x, c: -c[0] * -jnp.abs(x).sum() - 1, BOX)
    assert negated.facts(COSTS).convex_constraints is not None
    assert negated.facts(signed).convex_constraints is None
    whole = np.random.default_rng(0).integers(-3, 4, size=(30, 2))
    counted = taut.Problem(linear, lambda x, k: (k & 1) @ x - 0.5, BOX).facts(whole)
    odd = {tuple(row & 1) for row in whole} - {(0, 0)}
    assert counted.half_spaces.value == len(odd)


def test_nothing_is_proven_of_data_that_react():
    def adversary(key, x, t):
        return jnp.sign(x)

    game = problem(toy, BALL)
    facts = game.facts(adversary, horizon=5)
    assert facts.loss_lipschitz is None
    assert facts.convex_losses is None
    assert facts.half_spaces.value == 4


def test_facts_print_themselves_and_become_a_dict():
    facts = problem(toy, BALL).facts(COSTS)
    assert "M = 4, proven" in str(facts)
    assert "verified exactly: max g <= -" in str(facts)
    assert facts.to_dict()["half_spaces"]["value"] == 4


def test_facts_refuse_data_that_do_not_fit():
    game = problem(toy, BALL)
    with pytest.raises(ValueError, match="seeds="):
        game.facts(np.stack([COSTS, COSTS]))
    assert game.facts(np.stack([COSTS, COSTS]), seeds=2).loss_lipschitz is not None
    with pytest.raises(ValueError, match=r"^stream: loss\(x, z\) raised TypeError"):
        game.facts(np.ones((5, 3)))


def test_facts_of_functions_of_the_previous_decision_wait_for_a_run():
    def moving(x, c, previous):
        return c @ x + jnp.abs(x - previous).sum()

    facts = taut.Problem(moving, toy, BALL, previous=True).facts(COSTS)
    assert facts.loss_lipschitz is None
    assert facts.half_spaces.value == 4


def test_running_maxima_have_no_pieces_because_their_gradients_at_ties_are_means():
    facts = problem(lambda x: jax.lax.cummax(x) - 0.5).facts(COSTS)
    assert facts.half_spaces is None
    assert facts.constraint_lipschitz.kind == PROVEN


def test_a_piece_that_is_not_finite_is_no_piece():
    steep = problem(lambda x: jnp.maximum(x.sum() - 1, -jnp.inf * (x[1] + 5)))
    facts = steep.facts(COSTS)
    assert facts.half_spaces is None
    assert facts.error_bound is None


@pytest.mark.parametrize(
    "parts",
    [lambda x: jnp.split(x, 1), lambda x: jnp.unstack(x[None]), lambda x: jnp.array_split(x, 1)],
    ids=["split", "unstack", "array_split"],
)
def test_an_array_in_one_part_is_that_array(parts):
    facts = problem(lambda x: parts(x)[0] - 0.5).facts(COSTS)
    assert facts.half_spaces.value == 2
    assert facts.constraint_lipschitz.value == pytest.approx(1)

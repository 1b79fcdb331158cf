"""The half-space family: conformance, golden rounds, recursions, special cases, and the
counterexamples behind its rules."""

from math import ceil, sqrt

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from learners import half_space_reference as reference
from learners.harness import check_formula, conforms
from taut.judge.guarantees import setting_of
from taut.learners.half_space import method as half_space
from taut.learners.half_space.cuts import LinearModels
from taut.learners.half_space.joint_projection import project_jointly
from taut.learners.half_space.method import CARDS, HalfSpace
from taut.learners.schedules import AdaGradNorm, Constant, Inverse, InverseRoot
from taut.testing import parametrize_with_checks


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


# -- Golden rounds: three rounds of three moving half-planes on the unit disc, from (0.5, 0)
# ---------------------------

COSTS = np.array([(-1.0, 0.0), (0.0, -1.0), (-0.6, -0.8)])
ROWS, LEVELS = np.array([(1.0, 0.0), (0.6, 0.8), (0.8, 0.6)]), np.array([0.25, 0.10, 0.20])


def linear(x, z):
    return z["c"] @ x


def strong(x, z):
    return jnp.sum((x + z["c"]) ** 2) / 2


def row(x, z):
    return z["a"] @ x - z["b"]


DISC = taut.Problem(linear, row, taut.Ball(1.0, shape=2), taut.Constants(constraint_count=1))
STRONG_DISC = taut.Problem(strong, row, taut.Ball(1.0, shape=2), taut.Constants(constraint_count=1))
GOLDEN = {
    "anytime": (
        HalfSpace(InverseRoot(2.0), 2.0),
        (-0.458822509939, 0.469116882454),
        (-0.424341897604, 0.899122530138),
    ),
    "horizon": (HalfSpace(0.5, 2.0), (-0.02, 0.14), (0.0016, 0.3312)),
    "strong": (HalfSpace(Inverse(1.0), 2.0), (-0.1, 0.2), (0.016, 0.312)),
    "margin": (HalfSpace(0.1, 2.0, 0.05), (0.11, -0.02), (0.1524, 0.0468)),
    "adaptive": (
        HalfSpace(AdaGradNorm(1.0, 10.0), 2.0),
        (0.081435935394, 0.063923048454),
        (0.112039057001, 0.183947923999),
    ),
    "adaptive, memory": (
        HalfSpace(AdaGradNorm(1.0, 10.0), 2.0, memory=2, sweeps=1),
        (0.081435935394, 0.063923048454),
        (0.043409992961, 0.092442505279),
    ),
    "horizon, memory": (
        HalfSpace(0.5, 2.0, memory=2, sweeps=2, joint=True),
        (-0.02, 0.14),
        (-0.097952, 0.198464),
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_rounds(name):
    learner, third, fourth = GOLDEN[name]
    player = taut.Player(
        learner, STRONG_DISC if name == "strong" else DISC, x1=np.array([0.5, 0.0])
    )
    second = (0.2, 0.0) if name == "margin" else (0.25, 0.0)
    for t, expected in enumerate((second, third, fourth)):
        player.observe({"c": COSTS[t], "a": ROWS[t], "b": LEVELS[t]})
        np.testing.assert_allclose(player.decision, expected, rtol=0, atol=1e-12)


# -- Recursions in plain NumPy
# -----------------------------------------------------------------------------------------


def recursion(eta, **options):
    """The family's formula on a world of `harness`: the largest constraint of every round, memory
    16 and 2 sweeps."""

    def decisions(w, data):
        def reveal(c):
            def answer(x):
                values, rows = w.g(x)
                i = int(np.argmax(values))
                return w.df(x, c), values[i], rows[i]

            return answer

        across = 4.0 if w.name == "polyhedron" else 2.0
        chosen = {
            key: value(w, len(data)) if callable(value) else value for key, value in options.items()
        }
        memory = reference.Memory(chosen.pop("memory", half_space.MEMORY))
        rule = eta(w, len(data), across)
        found, _ = reference.play(
            w.x1, map(reveal, data), rule, w.project, across, memory, half_space.SWEEPS, **chosen
        )
        return list(found)

    return decisions


def zero_violation(w, horizon):
    """rho = min(e/2, sqrt(D G_g e / (2 (1-q) T))), eta = (1-q) rho / (G_f G_g), kappa = e / (2
    D)."""
    slater, across = (0.4375, 4.0) if w.name == "polyhedron" else (1.0, 2.0)
    gain = 1 - sqrt(1 - (slater / (2 * across * w.Gg)) ** 2)
    rho = min(slater / 2, sqrt(across * w.Gg * slater / (2 * gain * horizon)))
    return gain * rho / (w.Gf * w.Gg), rho


FORMULAS = {
    "half-space": recursion(lambda w, T, D: reference.Steps(w.R, half_space.START_UP)),
    "half-space-horizon": recursion(lambda w, T, D: lambda t, p: w.R / (w.Gf * sqrt(T))),
    "half-space-anytime": recursion(lambda w, T, D: lambda t, p: w.R / (w.Gf * sqrt(t))),
    "half-space-strong": recursion(
        lambda w, T, D: lambda t, p: 1 / (w.H * (t + ceil(w.Gf / (w.H * D)) - 1))
    ),
    "half-space-margin": recursion(
        lambda w, T, D: lambda t, p: zero_violation(w, T)[0],
        margin=lambda w, T: zero_violation(w, T)[1],
        memory=0,
    ),
}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_learner_follows_its_formula(name):
    check_formula(name, FORMULAS[name])


# -- Special cases
# -----------------------------------------------------------------------------------------------------


def pool(seed=0, rounds=300, d=4, rows=6, scale=(1.0, 1.0)):
    """Linear losses, and in every round one of a few half-spaces that share a point."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(rows, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b = a @ rng.uniform(-0.2, 0.2, size=d) + 0.05
    c = rng.normal(size=(rounds, d)) + 0.4
    i = rng.integers(rows, size=rounds)
    return {
        "c": scale[0] * c / np.linalg.norm(c, axis=1, keepdims=True),
        "a": scale[1] * a[i],
        "b": scale[1] * b[i],
    }


BOX = taut.Problem(linear, row, taut.Box(-0.5, 0.5, shape=4), taut.Constants(constraint_count=1))


def decisions(learner, problem=BOX, data=None, **options):
    run = taut.simulate(
        learner,
        problem,
        pool() if data is None else data,
        record=("decisions",),
        chunk=300,
        **options,
    )
    return run.decisions[0]


def test_default_needs_a_domain_and_nothing_else():
    bare = taut.Problem(linear, row, taut.Simplex(4))
    made = taut.learner("half-space", bare)
    assert made.eta == AdaGradNorm(float(bare.domain.radius), half_space.START_UP)
    assert (made.memory, made.sweeps, made.diameter) == (
        half_space.MEMORY,
        half_space.SWEEPS,
        bare.domain.diameter,
    )
    with pytest.raises(ValueError, match="domain: got None"):
        taut.learner("half-space")


def test_special_cases_are_equal():
    plain = decisions(HalfSpace(0.05, 2.0))
    np.testing.assert_array_equal(decisions(HalfSpace(0.05, 2.0, 0.0, rows="all")), plain)
    np.testing.assert_array_equal(decisions(HalfSpace(Constant(0.05), 3.0, margin=0.0)), plain)
    assert np.abs(decisions(HalfSpace(0.05, 2.0, 0.01)) - plain).max() > 1e-3
    assert np.abs(decisions(HalfSpace(0.05, 2.0, memory=8)) - plain).max() > 1e-3
    free = taut.Problem(linear, row, taut.Ball(1e3, shape=4), taut.Constants(constraint_count=1))
    apart, joint = (decisions(HalfSpace(0.05, 2e3, joint=flag), free) for flag in (False, True))
    np.testing.assert_allclose(joint, apart, rtol=0, atol=1e-12)  # a domain that is never reached


def test_rows_all_at_once_meet_every_row():
    a = np.array([[1.0, 0.2], [0.3, 1.0], [-1.0, 0.5]])

    def every(x):
        return jnp.asarray(a) @ x - 0.1

    game = taut.Problem(lambda x, c: c @ x, every, taut.Ball(1.0, shape=2))
    costs = np.random.default_rng(1).normal(size=(200, 2))
    for memory in (0, 4):
        run = taut.simulate(
            HalfSpace(0.1, 2.0, memory=memory, sweeps=None, rows="all"), game, costs
        )
        assert np.all(run.excess[0] <= 2.0 * 1.2 / np.arange(1, 201) ** 2)  # within |a| D / t^2
    largest = taut.simulate(HalfSpace(0.1, 2.0), game, costs)
    assert largest.excess.max() > 0.05


@pytest.mark.parametrize("rows", ["largest", "all"])
@pytest.mark.parametrize("joint", [False, True])
def test_scaling_losses_or_constraints_changes_nothing(joint, rows):
    learner = HalfSpace(AdaGradNorm(1.0, 100.0), 2.0, memory=4, sweeps=4, joint=joint, rows=rows)
    base = decisions(learner)
    exact = decisions(learner, data=pool(scale=(2.0**10, 2.0**-10)))  # powers of two round nothing
    np.testing.assert_array_equal(exact, base)
    np.testing.assert_allclose(
        decisions(learner, data=pool(scale=(1e3, 1e-3))), base, rtol=0, atol=1e-12
    )
    clipped = taut.ClippedOGD(0.05, 2.0)
    assert np.abs(decisions(clipped, data=pool(scale=(1e3, 1e-3))) - decisions(clipped)).max() > 0.1


def test_no_step_before_the_first_gradient_and_no_cut_without_a_slope():
    learner = HalfSpace(AdaGradNorm(1.0, 100.0), 2.0, memory=2)
    data = pool(rounds=6)
    data["c"][:3] = 0.0
    data["a"][:] = 0.0
    data["b"][:] = 0.5
    path = decisions(learner, data=data)
    np.testing.assert_array_equal(path[:4], np.zeros((4, 4)))
    assert np.all(np.isfinite(path))
    np.testing.assert_allclose(np.linalg.norm(path[4]), 1 / sqrt(101), rtol=1e-12)


def test_strong_steps_start_no_longer_than_the_domain_is_wide():
    known = taut.Constants(radius=1.0, loss_lipschitz=50.0, strong_convexity=0.1)
    made = taut.learner("half-space-strong", known)
    assert made.eta == Inverse(10.0, 249.0)  # 1 / (0.1 * 250) = D / G_f
    assert float(made.eta(jnp.asarray(1), float)) * 50.0 == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda: HalfSpace(0.0, 1.0), ("eta: got 0",)),
        (lambda: HalfSpace(0.1, -1.0), ("diameter: got -1",)),
        (lambda: HalfSpace(0.1, 1.0, -0.5), ("margin: got -0.5",)),
        (lambda: HalfSpace(0.1, 1.0, memory=-1), ("memory: got -1",)),
        (lambda: HalfSpace(0.1, 1.0, sweeps=0), ("sweeps: got 0",)),
        (lambda: HalfSpace(0.1, 1.0, rows="some"), ("rows: got 'some'", "'largest', 'all'")),
        (lambda: AdaGradNorm(1.0, -1.0), ("start_up: got -1",)),
        (
            lambda: taut.learner(
                "half-space-margin", taut.Constants(radius=1.0, loss_lipschitz=1.0), horizon=9
            ),
            ("slater",),
        ),
    ],
)
def test_errors_name_the_argument(call, texts):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        call()
    for text in texts:
        assert text in str(raised.value)


def test_memory_is_for_exact_values_and_fixed_comparators():
    assert all(card.feedback == ("full",) for card in CARDS)


# -- Counterexamples: each rule of the memory, and the game in which its alternative fails
# -----------------------------


def against(rule, learner, start, data, eta):
    """Clipped violation of the learner, and of the NumPy recursion with a wrong rule."""
    run = taut.simulate(learner, DISC, data, x1=np.array(start))

    def reveal(t):
        return lambda x: (data["c"][t], data["a"][t] @ x - data["b"][t], data["a"][t])

    def project(y):
        return y / max(1.0, np.linalg.norm(y))

    rounds = [reveal(t) for t in range(len(data["b"]))]
    _, values = reference.play(np.array(start), rounds, lambda t, p: eta, project, 2.0, rule)
    return run.totals.violation[0, 0], np.maximum(values, 0).sum()


@pytest.mark.parametrize(("rounds", "right", "wrong"), [(2**8, 0.05, 6.4), (2**12, 0.0125, 25.6)])
def test_a_violated_row_is_stored_even_if_it_does_not_bind_after_the_step(rounds, right, wrong):
    a = 2 / sqrt(rounds)
    even = (
        np.arange(rounds) % 2 == 0
    )  # push out while the other row is shown, push back while this one is
    data = {
        "c": np.where(even[:, None], [-1.0, 0.0], [1.0, 0.0]),
        "a": np.where(even[:, None], [0.0, 1.0], [1.0, 0.0]),
        "b": np.zeros(rounds),
    }
    learner = HalfSpace(a, 2.0, memory=2)
    mine, active = against(
        reference.Memory(2, "active at y"), learner, [-0.6 * a, -0.1 * a], data, a
    )
    assert mine == pytest.approx(right, rel=1e-9)
    assert active == pytest.approx(wrong, rel=1e-9)


@pytest.mark.parametrize(("rounds", "wrong"), [(2**8, 7.9), (2**12, 32.0)])
def test_the_tighter_of_two_parallel_cuts_stays(rounds, wrong):
    a = 2 / sqrt(rounds)
    data = {
        "c": np.tile([-1.0, 0.0], (rounds, 1)),
        "a": np.tile([1.0, 0.0], (rounds, 1)),
        "b": np.where(np.arange(rounds) % 2 == 0, 0.0, a / 2),
    }
    mine, over = against(
        reference.Memory(2, parallel="overwrite"), HalfSpace(a, 2.0, memory=2), [0.0, 0.0], data, a
    )
    assert mine <= 1e-12
    assert over == pytest.approx(wrong, rel=0.02)


def test_repeats_of_one_row_take_one_slot():
    data = pool(rounds=40, rows=3)
    state = _state_after(HalfSpace(0.3, 2.0, memory=8), data)
    assert int(np.sum(np.linalg.norm(state.cuts.normals, axis=1) > 0)) <= 3


def _state_after(learner, data):
    state = learner.init(jnp.zeros(4), 1)
    step = jax.jit(lambda state, z: learner.step(state, BOX.round(z)))
    for t in range(len(data["b"])):
        state = step(state, {key: jnp.asarray(value[t]) for key, value in data.items()})
    return state


def test_the_most_violated_row_comes_first():
    """Rows that fan through the comparator turn the decision by 90 degrees in many short moves, in
    any other order."""
    angles = np.linspace(np.pi / 2, 0, 400)
    fan = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    game = taut.Problem(
        lambda x, z: 0.0 * z * x[0], lambda x: jnp.asarray(fan) @ x, taut.Ball(1.0, shape=2)
    )
    player = taut.Player(HalfSpace(0.1, 2.0, sweeps=1, rows="all"), game, x1=np.array([0.9, 0.0]))
    player.observe(np.array(1.0))
    assert np.linalg.norm(player.decision) <= 1e-12
    x = np.array([0.9, 0.0])
    for normal in fan:
        x = x - max(normal @ x, 0.0) * normal
    assert np.linalg.norm(x) > 0.89


@pytest.mark.parametrize("rounds", [2**8, 2**12])
def test_the_last_projection_is_joint(rounds):
    """On a box, projecting on the half-space and then on the box leaves a violation that grows like
    sqrt T."""
    b, a = 0.8, 2 / sqrt(rounds)

    def tilted(x):
        return x[0] * np.sin(b) + x[1] * np.cos(b)

    game = taut.Problem(lambda x, c: c @ x, tilted, taut.Box([0.0, -9.0], [9.0, 9.0]))
    push = np.tile([0.0, -1.0], (rounds, 1))
    violation = {
        joint: taut.simulate(
            HalfSpace(a, 20.0, joint=joint), game, push, x1=np.zeros(2)
        ).totals.violation[0, 0]
        for joint in (False, True)
    }
    assert violation[False] == pytest.approx(2 * sqrt(rounds) * np.sin(b) * np.tan(b), rel=0.05)
    assert violation[True] <= 1e-12


# -- Projections
# -------------------------------------------------------------------------------------------------------

DOMAINS = {
    "ball": taut.Ball(1.0, shape=5),
    "ball elsewhere": taut.Ball(2.0, centre=0.3 * np.arange(5)),
    "box": taut.Box(-1.0, 0.4 * np.arange(1, 6), shape=5),
    "simplex": taut.Simplex(5),
    "l1 ball": taut.L1Ball(1.5, shape=5),
    "product": taut.Product(taut.Ball(1.0, shape=2), taut.Box(0.0, 1.0, shape=1), taut.Simplex(2)),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_joint_projection_against_a_solver(name):
    domain, rng = DOMAINS[name], np.random.default_rng(3)
    solve = jax.jit(lambda y, a, o: project_jointly(domain.project, y, a, lambda u: a @ u - o))
    for k in range(8):
        a = rng.normal(size=5)
        a /= np.linalg.norm(a)
        o = a @ np.asarray(domain.sample(jax.random.key(k)))
        y = np.asarray(domain.centre) + rng.normal(size=5) * 10 ** rng.uniform(-1, 0.5)
        found = np.asarray(solve(y, a, o))
        x = cp.Variable(5)
        cp.Problem(cp.Minimize(cp.sum_squares(x - y)), [*domain.to_cvxpy(x), a @ x <= o]).solve(
            solver="CLARABEL"
        )
        np.testing.assert_allclose(found, x.value, rtol=0, atol=2e-4)
        assert bool(domain.contains(found))
        assert a @ found <= o + 1e-14


def test_joint_projection_ends_where_no_number_is_left_between():
    """An excess that jumps over 0, as rounding makes it, has no root."""
    points = []

    def project(y):
        points.append(y)
        return y

    with jax.disable_jit():
        found = project_jointly(
            project,
            jnp.asarray([0.9]),
            jnp.asarray([1.0]),
            lambda u: u[0] - 0.3 + jnp.where(u[0] > 0.3, 1e-12, -1e-12),
        )
    assert float(found[0]) == pytest.approx(0.3, abs=1e-15)
    assert len(points) < 40


@pytest.mark.parametrize("name", DOMAINS)
def test_sweeps_end_in_all_kept_cuts_and_come_closer_to_every_comparator(name):
    domain, rng = DOMAINS[name], np.random.default_rng(4)
    star = np.asarray(domain.sample(jax.random.key(1)))
    game = taut.Problem(linear, row, domain, taut.Constants(constraint_count=1))
    learner = taut.learner("half-space", game, memory=6, sweeps=None, start_up=0.0)
    a = rng.normal(size=(6, 5))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b = a @ star + 0.02
    step = jax.jit(lambda state, z: learner.step(state, game.round(z)))
    state = learner.init(domain.centre, 1)
    for t in range(24):
        z = {
            "c": jnp.asarray(rng.normal(size=5)),
            "a": jnp.asarray(a[t % 6]),
            "b": jnp.asarray(b[t % 6]),
        }
        eta, _ = learner.eta.with_gradient(state.slopes, z["c"])
        y, after = np.asarray(state.x - eta * z["c"]), step(state, z)
        assert np.linalg.norm(after.x - star) <= np.linalg.norm(y - star) + 1e-12
        kept = after.cuts.normals @ after.x - after.cuts.offsets
        assert np.max(kept) <= float(domain.diameter) / (t + 2) ** 2 + 1e-12
        assert bool(domain.contains(after.x))
        state = after


def test_a_constraint_without_slope_is_not_the_most_violated_half_space():
    models = LinearModels(
        jnp.zeros(2),
        jnp.asarray([[0.0, 0.0], [0.6, 0.8], [1.0, 0.0]]),
        jnp.asarray([0.0, -0.5, -0.7]),
    )
    current = models.most_violated()
    assert current.place.tolist() == [False, True, False]
    assert (current.normal.tolist(), float(current.distance)) == ([0.6, 0.8], -0.5)


@pytest.mark.parametrize(("margin", "multiplier"), [(0.0, 1.75), (0.1, 2.0)])
def test_multiplier_by_hand(margin, multiplier):
    """(g + margin - eta s.p) / (eta |s|^2) = (0.5 + margin + 0.1 * 2) / (0.1 * 4) for g = 2 x_1 -
    0.5 at (0.5, 0) and p = (-1, 0)."""
    problem = taut.Problem(lambda x, z: z @ x, lambda x: 2 * x[0] - 0.5, taut.Ball(1.0, shape=2))
    learner = HalfSpace(Constant(0.1), diameter=2.0, margin=margin)
    run = taut.simulate(
        learner, problem, np.array([[-1.0, 0.0]]), x1=[0.5, 0.0], record=("multipliers",)
    )
    assert run.multipliers.ravel() == pytest.approx([multiplier], rel=1e-12)


def test_error_bound_of_a_slater_gap_is_that_gap_over_the_diameter():
    setting = setting_of(
        taut.Problem(
            lambda x, z: z @ x,
            lambda x: x[0] - 0.5,
            taut.Ball(1.0, shape=2),
            taut.Constants(slater=0.5),
        )
    )
    assert setting.error_bound() == (0.25, ("slater",))


def test_a_margin_for_steps_without_memory_is_too_small_with_memory():
    known = taut.Constants(
        radius=1.0,
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
        constraint_smoothness=1.0,
        constraint_count=1,
        slater=0.5,
    )
    setting = taut.Setting(known, 2.0, True, 0.0, -0.5)

    def proven(memory):
        learner = HalfSpace(Constant(0.05), 2.0, margin=0.002, memory=memory, joint=True)
        return [
            one.bound for one in learner.guarantees(setting, 1000) if one.quantity == "violation"
        ]

    assert 0.0 in proven(memory=0)  # the peak of g + margin is 0.0013
    assert 0.0 not in proven(memory=4)  # 0.0024

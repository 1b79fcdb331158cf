"""Lyapunov surrogates: conformance, three rounds, recursions in NumPy, special cases, bounds under
attack."""

import dataclasses
from math import e, exp, log, sqrt

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from learners import attack, three_rounds
from learners.harness import broken, check_formula, conforms
from taut.learners import OptimisticSurrogate, QuadraticPotential, StrongSurrogate, Surrogate
from taut.learners.surrogate import CARDS, ExponentialPotential, largest_exponent
from taut.testing import parametrize_with_checks, problems
from taut.testing.playing import quick_compilation

K = three_rounds.CONSTANTS


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


# -- Three rounds
# ------------------------------------------------------------------------------------------------------


def test_three_rounds_of_the_exponential_potential():
    learner = Surrogate.tuned(K, three_rounds.HORIZON, c=1.0)
    found = three_rounds.states(learner)
    expected = [(1, 0), (0.428287314012, 0.903642615560), (0.395077333594, 0.918647865333)]
    three_rounds.check(found.x, expected)
    three_rounds.check(found.queue, [0.0625, 0.1875, 0.358703855136])
    slopes = learner.potential.slope(jnp.asarray(found.queue), jnp.arange(1, 4))
    three_rounds.check(slopes, [0.125980387151, 0.127964289575, 0.130732299773])


def test_three_rounds_of_the_quadratic_potential():
    learner = Surrogate.anytime(K, penalty=1.0)
    found = three_rounds.states(learner)
    expected = [(1, 0), (0.653955548168, 0.756532974179), (0.568642696625, 0.822584636117)]
    three_rounds.check(found.x, expected)
    three_rounds.check(found.queue, [0.0625, 0.1875, 0.381771055760])
    slopes = learner.potential.slope(jnp.asarray(found.queue), jnp.arange(1, 4))
    three_rounds.check(slopes, [0.125, 0.265165042945, 0.440831243624])


def test_three_rounds_of_the_strongly_convex_form():
    learner = StrongSurrogate.tuned(K, three_rounds.HORIZON)
    assert learner.penalty == pytest.approx(30.18070977791825, rel=1e-14)
    found = three_rounds.states(learner, three_rounds.STRONG)
    expected = [
        (0.983433126534, 0),
        (0.477003989281, 0.480383234686),
        (0.496622238856, 0.570886840958),
    ]
    three_rounds.check(found.x, expected)
    three_rounds.check(found.queue, [0.25, 0.740059875920, 1.209893008157])


def test_three_rounds_of_the_optimistic_form():
    found = three_rounds.states(OptimisticSurrogate.tuned(K, three_rounds.HORIZON, c=1.0))
    expected = [(1, 0), (0.145056061772, 0.989423437636), (0.465721902612, 0.884931132590)]
    three_rounds.check(found.x, expected)
    three_rounds.check(found.queue, [0.0625, 0.1875, 0.314924728000])


# -- The formulas in plain NumPy
# ---------------------------------------------------------------------------------------


def largest(w, x):
    values, rows = w.g(x)
    active = values == values.max()
    return values.max(), rows[active].mean(axis=0)


def surrogate(w, data, penalty, slope):
    across = 2 * w.R
    x, queue, squares, out = w.x1, 0.0, 0.0, []
    for t, c in enumerate(data, 1):
        out.append(x)
        v, s = largest(w, x)
        queue += max(v, 0) / (2 * w.Gg * across)
        h = penalty * w.df(x, c) / (2 * w.Gf * across)
        if v > 0:
            h = h + slope(queue, t) * s / (2 * w.Gg * across)
        squares += h @ h
        x = w.project(x - across * h / sqrt(2 * squares))
    return out


def exponential(w, data):
    root = sqrt(len(data))
    return surrogate(w, data, 0.25 / root, lambda q, t: exp(q / (2 * root)) / (2 * root))


def quadratic(w, data):
    return surrogate(w, data, 0.25, lambda q, t: 2 * q / sqrt(t))


def strong(w, data):
    penalty = 8 * w.Gg**2 * log(e * len(data)) / w.H
    x, queue, out = w.x1, 0.0, []
    for t, c in enumerate(data, 1):
        out.append(x)
        v, s = largest(w, x)
        queue += max(v, 0)
        x = w.project(
            x - (penalty * w.df(x, c) + (2 * queue * s if v > 0 else 0)) / (penalty * w.H * t)
        )
    return out


def optimistic(w, data):
    across, root = 2 * w.R, sqrt(len(data))
    x = base = w.x1
    queue, errors, before, out = 0.0, 0.0, np.zeros_like(x), []
    for c in data:
        out.append(x)
        v, s = largest(w, x)
        queue += max(v, 0) / (2 * w.Gg * across)
        h = (0.25 / root) * w.df(x, c) / (2 * w.Gf * across)
        if v > 0:
            h = h + exp(queue / (2 * root)) / (2 * root) * s / (2 * w.Gg * across)
        errors += (h - before) @ (h - before)
        eta = across / sqrt(2 * errors)
        base = w.project(base - eta * h)
        x, before = w.project(base - eta * h), h
    return out


FORMULAS = {
    "surrogate": exponential,
    "surrogate-anytime": quadratic,
    "surrogate-strong": strong,
    "surrogate-optimistic": optimistic,
}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_learner_follows_its_formula(name):
    check_formula(name, FORMULAS[name])


# -- Special cases
# -----------------------------------------------------------------------------------------------------


def test_several_constraints_are_played_as_their_maximum():
    known = problems.POLYHEDRON
    learner, data = taut.LEARNERS["surrogate"].build(known.problem, 60), known.stream(1, 60)[0]
    with quick_compilation():
        runs = [
            taut.simulate(learner, problem, data, chunk=60, record=("decisions",))
            for problem in (known.problem, taut.max_of(known.problem))
        ]
    np.testing.assert_allclose(runs[0].decisions, runs[1].decisions, rtol=0, atol=1e-13)


def test_no_step_while_all_gradients_are_zero():
    def flat(x, z):
        return 0 * z @ x

    problem = taut.Problem(flat, lambda x: x[0] - 2, three_rounds.BALL, K)
    for learner in (Surrogate.tuned(K, 9), Surrogate.anytime(K), OptimisticSurrogate.tuned(K, 9)):
        state = learner.init(jnp.array([0.5, 0.0]), 1)
        for _ in range(3):
            state = learner.step(state, problem.round(jnp.ones(2)))
        np.testing.assert_array_equal(state.x, [0.5, 0.0])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_huge_violation_does_not_overflow(dtype):
    potential = ExponentialPotential(1.0)
    slope = potential.slope(jnp.asarray(1e30, dtype), jnp.asarray(1))
    assert slope.dtype == dtype
    assert jnp.isfinite(slope**2)
    assert largest_exponent(jnp.float64) > 170
    gain = 1e6  # a violation that the declared constants exclude
    problem = taut.Problem(three_rounds.linear, lambda x: gain * (x[0] + 0.5), three_rounds.BALL, K)
    learner = Surrogate.tuned(K, 16)
    state = learner.init(jnp.array([0.5, 0.0], dtype), 1)
    for _ in range(20):
        state = learner.step(state, problem.round({"c": jnp.array([-1.0, 0.0], dtype)}))
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in state)
    assert float(state.x[0]) < 0  # it has understood


def test_scales_are_those_of_loss_and_constraint_apart():
    known = K.with_values(loss_lipschitz=10.0, constraint_lipschitz=0.1)
    learner = Surrogate.tuned(known, 100)
    assert (learner.loss_scale, learner.constraint_scale) == (1 / 40, 1 / 0.4)
    assert Surrogate.tuned(
        known, 100, domain=taut.Box(-1.0, 1.0, shape=8)
    ).diameter == pytest.approx(2 * sqrt(8))


# -- Guarantees
# --------------------------------------------------------------------------------------------------------

SETTING = taut.Setting(K.with_values(loss_range=2.0), 2.0)


def found(learner, horizon, setting=SETTING):
    return {one.quantity: one for one in learner.guarantees(setting, horizon)}


def test_tuned_bounds_are_the_published_ones_sharpened():
    horizon, c = 400, 0.25
    root, V = sqrt(horizon), 0.25 / sqrt(400)
    bound = found(Surrogate.tuned(K, horizon, c=c), horizon)
    assert bound["regret"].bound == pytest.approx(2 * 2 * (root / sqrt(2) + 1 / (2 * sqrt(2) * V)))
    share = (1 + V * root / sqrt(2) + V * horizon / 2) / (1 - 1 / (2 * sqrt(2)))
    assert bound["violation"].bound == pytest.approx(4 * 2 * root * log(share))
    assert bound["excess"].bound == bound["violation"].bound
    # Not above the bounds that they sharpen.
    assert bound["regret"].bound <= 2 * 2 * root * (1 + 1 / (2 * c))
    assert bound["violation"].bound <= 4 * 2 * root * log(2 + 2 * c + c * root)
    bound = found(Surrogate.anytime(K, penalty=1.0), horizon)
    assert bound["regret"].bound == pytest.approx(4 * root * (1 / sqrt(2) + (1 + log(horizon)) / 2))
    c2 = sqrt(horizon * (1 + log(horizon)) / 2)
    queue = c2 + sqrt(c2**2 + horizon / sqrt(2) + horizon**1.5 / 2)
    assert bound["violation"].bound == pytest.approx(4 * queue)


def test_strong_bounds_are_at_most_the_published_ones():
    horizon = 1000
    learner, logarithm = StrongSurrogate.tuned(K, horizon), log(e * horizon)
    bound = found(learner, horizon)
    assert bound["regret"].bound == pytest.approx(2 / 3 * logarithm)
    assert bound["violation"].bound <= sqrt(2 * learner.penalty * (logarithm + 2 * horizon))
    # The closed form is the best split.
    a, u, gain = logarithm / 2, 0.25, 2.0 * horizon
    splits = np.geomspace(0.5, 1e4, 20_000)
    least = np.sqrt(learner.penalty * ((1 + splits) * a + gain) / (1 - (1 + 1 / splits) * u)).min()
    assert bound["violation"].bound == pytest.approx(least, rel=1e-6)


def test_outside_the_theorem_there_is_a_reason():
    fast = dataclasses.replace(Surrogate.tuned(K, 100), potential=ExponentialPotential(1.0))
    bound = found(fast, 100)
    assert bound["regret"].bound is None
    assert "rate: got 1; expected at most" in bound["regret"].reason
    largest = float(bound["regret"].reason.split("at most ")[1].split()[0])
    for rate, proven in (
        (0.999 * largest, True),
        (1.001 * largest, False),
    ):  # the reason names the right limit
        near = dataclasses.replace(fast, potential=ExponentialPotential(rate))
        assert (found(near, 100)["regret"].bound is not None) is proven
    assert "rate" in bound["violation"].reason
    longer = found(Surrogate.tuned(K, 100), 1000)  # the parameters are for 100 rounds
    assert "rate" in longer["violation"].reason
    assert found(Surrogate.anytime(K), 10**6)["violation"].bound > 0  # for every horizon
    small = found(StrongSurrogate(1.0, 1.0), 100)
    assert "penalty: got 1" in small["regret"].reason
    steep = found(StrongSurrogate(1e3, 2.0), 100)
    assert "H = 2" in steep["regret"].reason
    hints = found(OptimisticSurrogate.tuned(K, 100), 100)
    assert all(one.bound is None and "not specified" in one.reason for one in hints.values())
    unknown = taut.Setting(taut.Constants(radius=1.0), 2.0)
    assert "constraint_lipschitz" in found(Surrogate.tuned(K, 9), 9, unknown)["regret"].reason


@pytest.mark.parametrize("count", [1, 2])
def test_bounds_hold_under_attack(count):
    known = attack.constants(count)
    attack.check(attack.ratios(Surrogate.tuned(known, 24), 24, count), {"regret": 0.15})
    attack.check(attack.ratios(Surrogate.tuned(known, 24, c=4.0), 24, count), {"regret": 0.35})
    attack.check(attack.ratios(Surrogate.anytime(known, penalty=1.0), 24, count), {"regret": 0.1})
    # Parameters that are not tuned: scales and lengths of steps that do not fit the problem.
    odd = Surrogate(0.7, ExponentialPotential(0.05), 0.6, 0.1, 1.0)
    attack.check(attack.ratios(odd, 24, count), {"regret": 0.3})
    odd = Surrogate(0.7, QuadraticPotential(), 0.1, 0.6, 5.0)
    attack.check(attack.ratios(odd, 24, count))


def test_strong_bounds_hold_under_attack():
    known = attack.constants(strong=True)
    attack.check(attack.ratios(StrongSurrogate.tuned(known, 24), 24, strong=True), {"regret": 0.2})
    least = 2.2 * (1 + log(24))  # just above what the theorem needs
    attack.check(attack.ratios(StrongSurrogate(least, 1.0), 24, strong=True))


def test_the_attack_finds_a_learner_that_breaks_its_bound():
    @broken
    class Forgetful(Surrogate):
        """Forgets the gradients of all rounds but the last."""

        def step(self, state, round):
            return super().step(state._replace(squares=0 * state.squares), round)

    learner = Surrogate.tuned(attack.constants(), 24, c=4.0)
    wrong = Forgetful(**{f.name: getattr(learner, f.name) for f in dataclasses.fields(learner)})
    assert attack.ratios(wrong, 24)["regret"] > 1.1


def test_multiplier_is_in_units_of_the_loss():
    """w b_g / (V b_f) = 0.5 (2 Q) / (3 * 0.25) with Q = 0.5 * 0.4 for the potential Q^2."""
    learner = Surrogate(
        penalty=3.0,
        potential=QuadraticPotential(),
        loss_scale=0.25,
        constraint_scale=0.5,
        diameter=2.0,
    )
    problem = taut.Problem(lambda x, z: z @ x, lambda x: x[0] - 0.1, taut.Ball(1.0, shape=2))
    run = taut.simulate(learner, problem, np.ones((1, 2)), x1=[0.5, 0.0], record=("multipliers",))
    assert run.multipliers.ravel() == pytest.approx([0.5 * (2 * 0.2) / 0.75], rel=1e-12)
    strong = taut.simulate(
        StrongSurrogate(3.0, 0.5), problem, np.ones((1, 2)), x1=[0.5, 0.0], record=("multipliers",)
    )
    assert strong.multipliers.ravel() == pytest.approx([2 * 0.4 / 3.0], rel=1e-12)  # 2 Q / V

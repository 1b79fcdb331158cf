"""Blocked Frank-Wolfe steps: conformance, the recursion in NumPy, the gap, bounds under attack."""

from math import ceil, sqrt

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from learners import three_rounds
from learners.harness import World, broken, conforms, long_run, long_stream
from taut import bounds
from taut.learners import BlockFrankWolfe
from taut.learners.block_frank_wolfe import CARDS, _frank_wolfe
from taut.testing import parametrize_with_checks, problems
from taut.testing.playing import shared_run, shared_stream

K = three_rounds.CONSTANTS


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


def frank_wolfe(x, y, minimise, steps):
    """The iterate of smallest gap among the start and `steps` iterates, with exact line search."""
    z, found = x, []
    for _ in range(steps + 1):
        v = minimise(z - y)
        gap = (z - y) @ (z - v)
        found.append((gap, z))
        length = min(max(gap / max((z - v) @ (z - v), 1e-300), 0.0), 1.0)
        z = z + length * (v - z)
    return min(found, key=lambda pair: pair[0])


def formula(w, data):
    horizon = len(data)
    block = round(sqrt(horizon))
    eta = 2 * w.R / (w.Gf * sqrt(horizon * block))

    def minimise(direction):
        length = np.linalg.norm(direction)
        return w.x1 - w.R * direction / length if length > 0 else w.x1

    x, y, out = w.x1, w.x1, []
    for t, c in enumerate(data, 1):
        out.append(x)
        values, rows = w.g(x)
        v, s = values.max(), rows[values == values.max()].mean(axis=0)
        y = y - eta * w.df(x, c) - max(v, 0) * s / (2 * w.Gg**2 * block)
        if t % block == 0:
            x = y = frank_wolfe(x, y, minimise, block)[1]
    return out


def test_learner_follows_its_formula():
    """On a ball the last iterates differ by the root of the rounding error of their gaps, hence the
    tolerance."""
    card = CARDS[0]
    found = long_run(card).decisions[3]
    np.testing.assert_allclose(
        found, formula(World(problems.TOY), long_stream(problems.TOY)[3]), rtol=0, atol=1e-6
    )
    assert np.ptp(found[-500:], axis=0).max() > 0
    found = shared_run(card, problems.POLYHEDRON).decisions[1]
    expected = formula(World(problems.POLYHEDRON), shared_stream(problems.POLYHEDRON)[1])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_decisions_are_held_for_a_block_and_no_projection_is_asked_for():
    run = taut.simulate(
        BlockFrankWolfe(0.3, 0.5, 4),
        problems.TOY.problem,
        problems.TOY.stream(1, 21)[0],
        chunk=21,
        record=("decisions",),
    )
    changed = np.flatnonzero(np.any(np.diff(run.decisions[0], axis=0) != 0, axis=1)) + 2
    np.testing.assert_array_equal(changed, [5, 9, 13, 17, 21])


@pytest.mark.parametrize(
    "domain",
    [
        taut.Ball(1.0, shape=3),
        taut.Box(-1.0, [1.0, 0.5, 2.0]),
        taut.Simplex(3),
        taut.L1Ball(1.0, shape=3),
    ],
    ids=lambda d: type(d).__name__,
)
def test_the_iterate_of_smallest_gap_is_within_its_bound(domain):
    problem = taut.Problem(lambda x, c: c @ x, lambda x: x[0] - 9, domain)
    rng, worst = np.random.default_rng(0), 0.0
    search = jax.jit(lambda x, y, calls: _frank_wolfe(problem.round(jnp.zeros(3)), x, y, calls))
    for block in (2, 3, 5, 9, 17):
        limit = bounds.frank_wolfe_gap(block=block, diameter=float(domain.diameter))
        for _ in range(10):
            x = np.asarray(domain.project(jnp.asarray(rng.normal(size=3) * 3)))
            y = rng.normal(size=3) * rng.choice([0.3, 1, 3])
            gap, best = frank_wolfe(
                x, y, lambda d: np.asarray(domain.linear_minimiser(jnp.asarray(d))), block
            )
            np.testing.assert_allclose(search(x, y, block + 1), best, atol=1e-6)
            worst = max(worst, gap / limit)
    assert 0.001 < worst <= 1
    np.testing.assert_array_equal(search(x, y, 0), x)


# -- Guarantees
# --------------------------------------------------------------------------------------------------------

SETTING = taut.Setting(K, 2.0)


def found(learner, horizon, setting=SETTING):
    return {one.quantity: one for one in learner.guarantees(setting, horizon)}


@pytest.mark.parametrize("horizon", [4, 64, 10_000])
def test_perfect_squares_have_the_simple_bounds(horizon):
    bound = found(BlockFrankWolfe.tuned(K, horizon), horizon)
    quarter = horizon**0.25
    assert bound["regret"].bound <= 8.25 * 2 * quarter**3
    assert bound["squared violation"].bound <= 2 * 4 * sqrt(horizon) * (16.5 + 2 * quarter)
    assert bound["violation"].bound == pytest.approx(
        sqrt(horizon * bound["squared violation"].bound)
    )
    assert bound["excess"].bound == bound["violation"].bound
    assert bound["peak violation"].bound == pytest.approx(sqrt(bound["squared violation"].bound))


def test_any_horizon_and_block_have_a_bound_which_counts_the_last_block():
    """A last block that is cut short costs as much as a whole one."""
    learner = BlockFrankWolfe(0.1, 0.5, 8)
    terms = [found(learner, horizon)["regret"].bound for horizon in (16, 17, 24, 25)]
    assert terms[0] < terms[1] == terms[2] < terms[3]
    each = 0.1 * 8**2 + 6.75 * 4 / 10 / 0.1
    assert terms[1] - terms[0] == pytest.approx(each)
    for horizon in (2, 3, 10, 1000, 12345):
        learner = BlockFrankWolfe.tuned(K, horizon)
        assert found(learner, horizon)["regret"].bound <= 16 * 2 * horizon**0.75
        assert ceil(horizon / learner.block) * learner.block >= horizon


def test_several_constraints_count_in_the_squared_violation():
    several = taut.Setting(K.with_values(constraint_count=5), 2.0)
    one, many = (found(BlockFrankWolfe.tuned(K, 100), 100, s) for s in (SETTING, several))
    assert many["squared violation"].bound == pytest.approx(5 * one["squared violation"].bound)
    assert many["violation"].bound == one["violation"].bound


def test_outside_the_theorem_there_is_a_reason():
    long = found(BlockFrankWolfe(0.1, 1.5, 4), 100)
    assert "feasibility: got 1.5" in long["regret"].reason
    edge = found(BlockFrankWolfe(0.1, 1.0, 4), 100)  # regret is still covered, the violation is not
    assert edge["regret"].bound > 0
    assert "less than 1 / G_g^2" in edge["squared violation"].reason
    with pytest.raises(taut.learners.OutsideTheorem, match="block: got 1"):
        bounds.frank_wolfe_gap(block=1, diameter=2.0)
    with pytest.raises(ValueError, match="block"):
        BlockFrankWolfe(0.1, 0.5, 1)


def check_blocks(learner, known, data):
    """Recover the target of every block from the decisions, and check the gap and the inequality
    that the proof adds up."""
    problem, block = known.problem, int(learner.block)
    constants, domain = problem.constants, problem.domain
    eta, c = float(learner.eta), float(learner.feasibility)
    run = taut.simulate(learner, problem, data, chunk=len(data), record=("decisions",))
    decisions, star = run.decisions[0], known.best(data)[0]
    limit = bounds.frank_wolfe_gap(block=block, diameter=float(domain.diameter))
    worst, left, right = 0.0, 0.0, float(domain.radius) ** 2
    for start in range(0, len(data) - block, block):
        x, after = decisions[start], decisions[start + block]
        pushes, squares, pulls = [], [], []
        for z in data[start : start + block]:
            round = problem.round(jnp.asarray(z))
            values, pull, _ = round.constraints(jnp.asarray(x))
            largest = jnp.argmax(values)
            pushes.append(np.asarray(round.gradient(jnp.asarray(x))))
            squares.append(max(float(values[largest]), 0) ** 2)
            pulls.append(
                max(float(values[largest]), 0)
                * np.asarray(pull(jax.nn.one_hot(largest, len(values))))
            )
        total = np.sum(pushes, axis=0)
        y = x - eta * total - c * np.mean(pulls, axis=0)
        vertex = np.asarray(domain.linear_minimiser(jnp.asarray(after - y)))
        gap = np.sum((after - y) * (after - vertex))
        worst = max(worst, gap / limit)
        left += 2 * eta * np.sum(total * (x - star))
        left += 2 * c * (1 - c * constants.constraint_lipschitz**2) * np.mean(squares)
        right += 2 * (eta * constants.loss_lipschitz * block) ** 2 + 2 * limit
    assert worst <= 1, f"gap {worst} times its bound"
    assert left <= right
    return worst


@pytest.mark.parametrize(
    "known", [problems.TOY, problems.POLYHEDRON, problems.MATRIX], ids=lambda known: known.name
)
def test_every_block_ends_within_the_gap_that_the_proof_needs(known):
    """The bounds are below the largest possible values from about 5,000 rounds on, so it is their
    proof that is checked."""
    data = known.stream(1, 60)[0]
    worst = [
        check_blocks(
            BlockFrankWolfe(eta, 0.4 / known.problem.constants.constraint_lipschitz**2, 4),
            known,
            data,
        )
        for eta in (0.02, 0.3, 3.0)
    ]
    assert max(worst) > (0.005 if known is problems.MATRIX else 1e-12)


def test_a_block_that_ends_elsewhere_is_found():
    @broken
    class Jumping(BlockFrankWolfe):
        """Ends a block at the vertex that its last gradient favours least."""

        def step(self, state, round):
            after = super().step(state, round)
            ends = state.t % self.block == 0
            vertex = round.minimise(-round.gradient(state.x))
            return after._replace(
                x=jnp.where(ends, vertex, after.x), target=jnp.where(ends, vertex, after.target)
            )

    with pytest.raises(AssertionError, match="gap"):
        check_blocks(Jumping(3.0, 0.2, 4), problems.TOY, problems.TOY.stream(1, 60)[0])

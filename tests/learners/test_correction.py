"""Feasibility moves that are observed are subtracted from the bound on regret (H1, H2)."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.learners.schedules import AdaGradNorm, InverseRoot
from taut.runs.run import least_sum

GAME = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
COSTS = np.array([1.0, -0.5]) + 0.6 * np.random.default_rng(0).normal(size=(60, 2))
COSTS[20] *= 1e3  # clipped


def onto_ball(y):
    return y / max(1.0, np.linalg.norm(y))


def by_hand(run, steps, exact=False):
    """The correction from the decisions of a run, in plain Python."""
    decisions = np.concatenate([run.decisions[0], run.final])
    total = 0.0
    for x, after, (eta, move) in zip(decisions[:-1], decisions[1:], steps, strict=True):
        y = x - move
        normal = np.where(x == 0, 1, np.sign(x)) / np.sqrt(2)
        excess = max(normal @ y - 1 / np.sqrt(2), 0.0)
        if exact:
            moves = np.sum((y - onto_ball(y)) ** 2) + np.sum((after - onto_ball(y)) ** 2) / 2
        else:
            there = y - excess * normal
            moves = excess**2 + np.sum((there - onto_ball(there)) ** 2)
        total += moves / (2 * eta)
    return total


def adaptive_steps():
    """eta_t and eta_t q_t with a start-up of 1 and gradients that are clipped at twice the longest
    before."""
    longest = total = 0.0
    for p in COSTS:
        length = np.linalg.norm(p)
        share = 2 * longest / length if 0 < 2 * longest < length else 1.0
        longest, total = max(longest, share * length), total + (share * length) ** 2
        eta = 1 / np.sqrt(longest**2 + total)
        yield eta, eta * share * p


def inverse_roots():
    return ((0.3 / np.sqrt(t), 0.3 / np.sqrt(t) * p) for t, p in enumerate(COSTS, start=1))


@pytest.mark.parametrize(
    ("eta", "steps", "options"),
    [
        (AdaGradNorm(1.0, 1.0), adaptive_steps, {"memory": 4}),
        (InverseRoot(0.3), inverse_roots, {"memory": 0}),
        (InverseRoot(0.3), inverse_roots, {"memory": 4, "sweeps": None}),
    ],
)
def test_the_correction_is_that_of_a_loop_in_plain_python(eta, steps, options):
    learner = taut.HalfSpace(eta, 2.0, **options)
    run = taut.simulate(learner, GAME, COSTS, record=("decisions",))
    expected = by_hand(run, steps(), exact="sweeps" in options)
    assert expected > 0.1
    np.testing.assert_allclose(run.correction, expected, rtol=1e-9)


def test_certificates_of_runs_and_players_subtract_it(tmp_path):
    learner = taut.HalfSpace(AdaGradNorm(1.0, 1.0), 2.0, memory=4)
    run = taut.simulate(learner, GAME, COSTS)
    player = taut.Player(learner, GAME)
    for cost in COSTS[:40]:
        player.observe(cost)
    player.save(tmp_path / "player.npz")
    player = taut.Player.load(tmp_path / "player.npz", GAME)
    for cost in COSTS[40:]:
        player.observe(cost)
    *_, (last, _) = adaptive_steps()
    lengths = np.linalg.norm(COSTS, axis=1)
    accepted = np.array([np.linalg.norm(move) / eta for eta, move in adaptive_steps()])
    first = lengths[0]
    whole = 3 / last - 1.5 * np.sqrt(2) * first - first + 2 * np.sum(lengths - accepted)
    for certificate in (run.certificate(), player.certificate(stream=COSTS)):
        (row,) = (row for row in certificate.rows if row.quantity == "regret")
        assert row.bound == pytest.approx(whole - run.correction[0], rel=1e-9)
        assert row.worst <= row.bound
        assert any(f"take {run.correction[0]:.6g} off" in note for note in certificate.notes)


def test_rounding_is_taken_off_sums():
    assert least_sum(np.array([2.0, 1.0], np.float32), 2**20) == pytest.approx(1 - 2**-3)
    assert least_sum(np.array([1.0], np.float32), 2**30) == 0.0

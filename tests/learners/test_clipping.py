"""Gradients that are clipped: absurd readings do not freeze the adaptive step, and the bound stays
valid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.arena.demand import packaged, rescaled
from taut.judge.guarantees import setting_of
from taut.learners.clipping import Clipping, clip_of
from taut.learners.half_space.method import HalfSpaceState
from taut.learners.schedules import AdaGradNorm
from taut.paper.experiments import dispatch
from taut.play.passes import check_for_kernel

TOY = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
ROUNDS = 240
CLEAN = np.array([1.0, -0.5]) + 0.3 * np.random.default_rng(0).normal(size=(ROUNDS, 2))
ABSURD = np.array([-1e4, 1e4])


def with_absurd(start, stop, cost=ABSURD):
    costs = CLEAN.copy()
    costs[start:stop] = cost
    return costs


def played(costs, clip=2.0, learner=None):
    learner = learner or taut.learner("half-space", TOY, clip=clip)
    return taut.simulate(learner, TOY, costs, record=("loss", "excess", "decisions"))


def regret_of(certificate):
    (row,) = (row for row in certificate.rows if row.quantity == "regret")
    return row


@pytest.fixture(scope="module")
def clean():
    return played(CLEAN)


def rounds_by_hand(gradients, weight=100.0, clip=2.0):
    """The steps eta_t q_t and the sums, in plain Python."""
    longest = total = cut = 0.0
    moves = []
    for p in gradients:
        length = np.linalg.norm(p)
        share = clip * longest / length if 0 < clip * longest < length else 1.0
        longest, total = max(longest, share * length), total + (share * length) ** 2
        cut += (1 - share) * length
        moves.append(share * np.asarray(p) / np.sqrt(weight * longest**2 + total))
    return np.array(moves), longest, total, cut


def test_steps_and_sums_are_those_of_a_loop_in_plain_python():
    gradients = with_absurd(5, 7)[:40]
    moves, longest, total, cut = rounds_by_hand(gradients)
    step, slopes = AdaGradNorm(1.0, 100.0), AdaGradNorm.begin(float)
    for gradient, move in zip(gradients, moves, strict=True):
        eta, slopes = step.with_gradient(slopes, jnp.asarray(gradient))
        np.testing.assert_allclose(eta * gradient, move, rtol=1e-12)
    np.testing.assert_allclose([slopes.largest, slopes.total], [longest**2, total], rtol=1e-12)
    seen, lengths = Clipping(2.0, 1), np.linalg.norm(gradients, axis=1)[None]
    for start in range(0, 40, 7):  # blocks of a replay
        seen.add(lengths[:, start : start + 7])
    expected = [longest, total, lengths[0, 0] ** 2, cut, 2]
    np.testing.assert_allclose(seen.numbers[:, 0], expected, rtol=1e-12)


def test_losses_times_a_constant_change_no_decision(clean):
    run = played(with_absurd(5, 6))
    for factor in (2.0**-40, 2.0**40):
        again = played(factor * with_absurd(5, 6))
        np.testing.assert_array_equal(again.decisions, run.decisions)


def test_one_absurd_reading_does_not_freeze_the_learner(clean):
    run, frozen = played(with_absurd(5, 6)), played(with_absurd(5, 6), clip=None)
    apart = np.linalg.norm(run.decisions[0] - clean.decisions[0], axis=1)
    assert apart[205] <= 0.05
    assert np.linalg.norm(frozen.decisions[0, 205] - clean.decisions[0, 205]) > 0.5
    # Round by round, the absurd one apart, the losses come to within 5 % of the clean ones.
    late = slice(206, None)
    assert run.loss[0, late].sum() <= 0.95 * clean.loss[0, late].sum()


def test_clean_runs_are_those_without_clipping(clean):
    np.testing.assert_array_equal(played(CLEAN, clip=None).decisions, clean.decisions)


def test_a_number_whose_square_overflows_is_left_out_and_said(clean):
    run = played(with_absurd(5, 6, 1e200 * np.sign(ABSURD)))
    assert np.linalg.norm(run.decisions[0, 205] - clean.decisions[0, 205]) <= 0.05
    with np.errstate(over="ignore"):
        certificate = run.certificate()
    assert regret_of(certificate).guarantee is None
    assert any("left out" in note for note in certificate.notes)


def test_an_absurd_first_reading_sets_the_scale_until_it_is_repeated_no_more():
    """The first gradient is the only scale there is. What can be promised is the bound."""
    run = played(with_absurd(0, 1))
    assert np.linalg.norm(run.decisions[0, 205] - run.decisions[0, 1]) < 0.05
    row = regret_of(run.certificate())
    assert row.worst <= row.guarantee.bound


def test_twenty_absurd_readings_in_a_row_double_the_scale_each_until_it_is_theirs():
    run = played(with_absurd(5, 25))
    certificate = run.certificate()
    lengths = np.linalg.norm(with_absurd(5, 25), axis=1)
    _, longest, total, cut = rounds_by_hand(with_absurd(5, 25))
    assert longest == pytest.approx(lengths.max())
    row, (note, _) = regret_of(certificate), certificate.notes
    # H2 by hand with D = 2, R = 1: D^2 / 2 + R, less what the first round is known to save.
    first = lengths[0]
    by_hand = 3 * np.sqrt(100 * longest**2 + total) - 1.5 * np.sqrt(101) * first - 10 * first
    by_hand += 2 * cut - run.correction[0]
    assert row.guarantee.bound == pytest.approx(by_hand, rel=1e-9)
    assert row.worst <= row.guarantee.bound
    limit = taut.bounds.clipped_slopes_limit(loss_lipschitz=longest, first_slope=lengths[0])
    assert cut <= limit
    # From lengths of about 1 to 14,142: the gradient of the 14th round is not twice the accepted.
    assert 2**13 < longest / lengths[:5].max() < 2**14
    assert "In 13 rounds the loss gradient was more than 2 times" in note
    assert f"adds {2 * cut:.6g} to the bound" in note


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_holds_with_spikes_chosen_at_random(seed):
    rng = np.random.default_rng(seed)
    costs = CLEAN * np.where(rng.random((ROUNDS, 1)) < 0.1, 10 ** rng.uniform(0, 4, (ROUNDS, 1)), 1)
    costs *= rng.choice([-1, 1], (ROUNDS, 1))
    row = regret_of(played(costs).certificate())
    assert row.worst <= row.guarantee.bound


def test_an_infinite_gradient_is_an_error_of_the_round_and_shows_in_a_learner_alone():
    costs = with_absurd(5, 6, np.array([np.inf, 0.0]))
    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 6"):
        played(costs)
    learner = taut.learner("half-space", TOY)
    state = learner.init(jnp.zeros(2), 1)
    infinite = jnp.asarray([jnp.inf, 0.0])
    after = learner.step(state, TOY.round(infinite))
    assert isinstance(after, HalfSpaceState)
    assert not np.isfinite(after.x).all()  # what plays it, reports it
    assert jax.tree.leaves(after.slopes) == [0.0, 0.0]


def test_a_player_says_in_its_certificate_what_clipping_adds(tmp_path):
    player = taut.Player(taut.learner("half-space", TOY), TOY)
    costs = with_absurd(5, 6)[:30]
    for cost in costs[:20]:
        player.observe(cost)
    player.save(tmp_path / "player.npz")
    player = taut.Player.load(tmp_path / "player.npz", TOY)
    for cost in costs[20:]:
        player.observe(cost)
    certificate = player.certificate(stream=costs)
    *_, cut = rounds_by_hand(costs)
    assert any(f"adds {2 * cut:.6g} to the bound on regret" in note for note in certificate.notes)
    row = regret_of(certificate)
    assert 2 * cut <= row.guarantee.bound
    assert row.worst <= row.guarantee.bound


def test_the_bound_before_a_run_assumes_that_nothing_is_clipped():
    def assumed(clip):
        learner = taut.learner("half-space", TOY, clip=clip)
        setting = setting_of(TOY.with_constants(taut.Constants(loss_lipschitz=2.0)))
        (regret,) = (g for g in learner.guarantees(setting, 100) if g.quantity == "regret")
        return regret.assumptions

    assert "gradients that are not clipped" in assumed(2.0)
    assert "gradients that are not clipped" not in assumed(None)


def test_dispatch_recovers_from_a_demand_of_a_thousand_times():
    demand = rescaled(packaged(), 33.0)[:ROUNDS]
    absurd = demand.copy()
    absurd[20] *= 1000
    problem = dispatch.problem(dispatch.CHOICES[0], float(demand.max()))
    decisions = [
        taut.simulate(problem, data, record=("decisions",)).decisions[0, 220]
        for data in (demand, absurd)
    ]
    assert np.linalg.norm(decisions[1] - decisions[0]) <= 0.05 * np.linalg.norm(decisions[0])


@pytest.mark.parametrize("clip", [1.0, 0.5, -2.0, np.inf, np.nan, "2"])
def test_a_clip_that_is_none_is_refused(clip):
    with pytest.raises((TypeError, ValueError), match="clip: got"):
        AdaGradNorm(1.0, 1.0, clip)


@taut.learner_dataclass
class WithAnotherClip(taut.ClippedOGD):
    """A learner of somebody else, whose option `clip` has another meaning."""

    clip: float = 0.5


def test_another_learners_option_clip_is_not_that_of_the_adaptive_step():
    assert clip_of(WithAnotherClip(eta=0.1, sigma=4.0)) is None
    own = taut.learner("half-space", TOY)
    assert clip_of(own) == clip_of(taut.Advised(own)) == 2.0
    assert clip_of(taut.learner("half-space", TOY, clip=None)) is None


@pytest.mark.parametrize("count", [1, 3])
def test_the_round_of_the_default_fits_into_one_kernel(count):
    """In pieces, a round takes ten times as long. No comparison of computed floats may forbid it."""
    problem = taut.Problem(
        lambda x, z: z @ x,
        lambda x: jnp.sum(x) - jnp.arange(1.0, count + 1),
        taut.Box(0.0, 1.0, shape=4),
    )
    method = taut.learner("half-space", problem)
    state = taut.init(method, problem)
    program = jax.make_jaxpr(lambda state, z: taut.step(method, problem, state, z))
    check_for_kernel(program(state, jnp.ones(4)))

<<<<<<< HEAD
"""What was observed in all rounds, against the same numbers in plain NumPy."""
=======
"""What a run observed is what its decisions say, for arrays and adversaries; and the default learner needs no constants."""
>>>>>>> ea5cfd8 (Compute what a run observed, certify half-space learners without constants, and play the half-space learner by default)

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge import observed
from taut.judge.observed import observe
<<<<<<< HEAD
from taut.testing import problems
from taut.testing.playing import shared_stream

LEARNER = taut.ClippedOGD(0.3, 8.0)


def by_hand(decisions, data):
    """Gradient norms of <c, x>, and g = |x|_1 - 1, whose slope is (+-1, +-1)."""
    slopes = np.linalg.norm(data, axis=-1)
    excess = np.abs(decisions).sum(axis=-1) - 1
    return slopes, np.full(slopes.shape, 2**0.5), excess


@pytest.mark.parametrize("recorded", [False, True])
def test_largest_values_sums_and_witnesses(recorded, monkeypatch):
    monkeypatch.setattr(observed, "NUMBERS", 1000)  # several blocks, the last one incomplete
    known = problems.TOY
    data = known.stream(3, 700) * np.random.default_rng(1).uniform(0.2, 1, (3, 700, 1))
    full = taut.simulate(LEARNER, known.problem, data, seeds=3, record=("decisions",))
    run = full if recorded else taut.simulate(LEARNER, known.problem, data, seeds=3, record=())
    found = observe(run)
    slopes, rows, excess = by_hand(full.decisions, data)
    for extreme, values in (
        (found.loss_lipschitz, slopes),
        (found.constraint_lipschitz, rows),
        (found.constraint_range, np.abs(excess)),
    ):
        assert extreme.value == pytest.approx(values.max(), rel=1e-12)
        at = extreme.seed, extreme.round - 1
        assert values[at] == pytest.approx(values.max(), rel=1e-12)
        np.testing.assert_allclose(extreme.decision, full.decisions[at], atol=1e-14)
    assert found.squared_slopes == pytest.approx((slopes**2).sum(axis=1).max(), rel=1e-12)
    assert found.first_squared_slope == pytest.approx((slopes[:, 0] ** 2).min(), rel=1e-12)
    assert found.observed.loss_slope == found.loss_lipschitz.value
    top = np.sort(excess.ravel())[::-1][: len(found.violating)]
    np.testing.assert_allclose(np.abs(found.violating).sum(axis=1) - 1, top[top > 0], atol=1e-12)


def test_the_loss_range_contains_the_comparator():
    known = problems.TOY
    data = shared_stream(known)
    run = taut.simulate(LEARNER, known.problem, data, seeds=3, record=("decisions",))
    best = np.tile([-0.6, 0.3], (3, 1))
    values = np.stack([(data * run.decisions).sum(axis=-1), (data * best[:, None]).sum(axis=-1)])
    assert observe(run, comparator=best).loss_range.value >= np.ptp(values, axis=0).max() - 1e-12


def test_a_round_without_a_gradient_is_not_the_first_one_that_counts():
    known = problems.TOY
    data = known.stream(1, 40)
    data[0, :3] = 0
    run = taut.simulate(LEARNER, known.problem, data, seeds=1)
    assert observe(run).first_squared_slope == pytest.approx(float((data[0, 3] ** 2).sum()))


def test_what_an_adversary_reveals_is_observed():
    known = problems.TOY

    def reveal(t, x, key):
        return jnp.where(t == 57, 3.0, 1.0) * jnp.where(x >= 0, 1.0, -1.0)

    run = taut.simulate(LEARNER, known.problem, reveal, horizon=100, seeds=2)
    extreme = observe(run).loss_lipschitz
    assert (extreme.round, extreme.value) == (57, pytest.approx(3 * 2**0.5))


def test_a_run_from_a_file_needs_its_problem(tmp_path):
    known = problems.TOY
    run = taut.simulate(LEARNER, known.problem, shared_stream(known), seeds=3)
    run.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match="problem: got None"):
        observe(taut.Run.load(tmp_path / "run.nc"))
=======
from taut.learners.registry import as_learner
from taut.problem.streams import as_stream


def excess(x, z):
    return z["a"] @ x - z["b"]


PROBLEM = taut.Problem(lambda x, z: jnp.sum((x - z["c"]) ** 2), excess, taut.Box(-1.0, 1.0, shape=2))


def data(seeds=3, rounds=50):
    rng = np.random.default_rng(2)
    c, a = rng.normal(size=(seeds, rounds, 2)), rng.normal(size=(seeds, rounds, 4, 2))
    c[0, 0] = 0.0  # at the first decision, the centre, this loss has no slope
    return {"c": c, "a": a, "b": rng.uniform(0.1, 0.5, size=(seeds, rounds, 4))}


@pytest.mark.parametrize("chunk", [4096, 7])
def test_observed_is_what_the_decisions_say(monkeypatch, chunk):
    monkeypatch.setattr(observed, "ROUNDS", chunk)
    z = data()
    run = taut.simulate("half-space", PROBLEM, z, seeds=3, record=("decisions",))
    seen = observe(run, PROBLEM, run.stream)
    slopes = np.sum((2 * (run.decisions - z["c"])) ** 2, axis=-1)
    values = np.einsum("stij,stj->sti", z["a"], run.decisions) - z["b"]
    rows = np.take_along_axis(z["a"], values.argmax(axis=-1)[..., None, None], axis=2)[..., 0, :]
    assert seen.loss_slope == pytest.approx(np.sqrt(slopes.max()), rel=1e-12)
    assert seen.squared_slopes == pytest.approx(slopes.sum(axis=1).max(), rel=1e-12)
    assert seen.first_squared_slope == pytest.approx(min(slopes[0, 1], slopes[1, 0], slopes[2, 0]), rel=1e-12)
    assert seen.constraint_slope == pytest.approx(np.linalg.norm(rows, axis=-1).max(), rel=1e-12)


def test_a_certificate_without_constants_has_a_bound_on_regret_and_violation():
    run = taut.simulate(PROBLEM, data(), seeds=3)
    card = run.certificate()
    by = {line.quantity: line for line in card.lines}
    for quantity in ("regret", "violation"):
        assert by[quantity].guarantee.source == "half-space, H2 observed"
        assert by[quantity].holds
        assert "loss_lipschitz" not in by[quantity].guarantee.assumptions
    seen = observe(run, PROBLEM, run.stream)
    root, across = (100 * seen.loss_slope**2 + seen.squared_slopes) ** 0.5, float(PROBLEM.domain.diameter)
    assert by["regret"].bound <= 1.5 * across * root


def test_an_adversary_is_observed_too():
    def reveal(t, x, key):
        return {"c": -2 * jnp.sign(x + 0.1), "a": jnp.eye(2)[jnp.asarray([0, 1, 0, 1])], "b": jnp.full(4, 0.3)}

    run = taut.simulate(PROBLEM, reveal, horizon=40)
    assert observe(run, PROBLEM, run.stream) is None  # its data must be revealed first
    assert run.certificate(check=False).lines[0].holds


def test_the_learner_can_be_left_out_or_named():
    z = {name: value[0] for name, value in data().items()}
    named = taut.simulate("half-space", PROBLEM, z)
    for run in (
        taut.simulate(PROBLEM, z),
        taut.simulate(PROBLEM, stream=z),
        taut.simulate(problem=PROBLEM, stream=z),
        taut.simulate(as_learner("half-space", PROBLEM, None), PROBLEM, z),
    ):
        np.testing.assert_array_equal(run.final, named.final)
    player, other = taut.Player(PROBLEM, count=4), taut.Player("half-space", PROBLEM, count=4)
    player.observe({name: value[0] for name, value in z.items()})
    other.observe({name: value[0] for name, value in z.items()})
    np.testing.assert_array_equal(player.decision, other.decision)
    tuned = PROBLEM.with_constants(taut.Constants(loss_lipschitz=9.0, constraint_lipschitz=3.0, constraint_count=4))
    run = taut.simulate("clipped-ogd", tuned, z)
    assert run.learner == taut.ClippedOGD.tuned(tuned.constants, horizon=50)  # tuned to the stream's length
    with pytest.raises(ValueError, match="horizon: got None"):
        taut.Player("clipped-ogd", tuned)
    with pytest.raises(TypeError, match="expected a learner before the problem"):
        taut.simulate(PROBLEM, PROBLEM, z)
    with pytest.raises(ValueError, match="learner: got 'best'"):
        taut.simulate("best", PROBLEM, z)


def test_rates_take_the_default_learner_too():
    disc = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
    costs = as_stream(np.random.default_rng(0).normal(size=(2, 200, 2)), seeds=2)
    left_out, named = taut.rates((disc, costs), [50, 200]), taut.rates("half-space", (disc, costs), [50, 200])
    np.testing.assert_array_equal(left_out.values["violation"], named.values["violation"])
    with pytest.raises(TypeError, match=r"rates\(family, horizons\)"):
        taut.rates((disc, costs))
>>>>>>> ea5cfd8 (Compute what a run observed, certify half-space learners without constants, and play the half-space learner by default)

"""Certificates: bounds hold on every run of the zoo, and every planted falsehood is refuted with a witness."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.assumptions import PROBED, REFUTED, VERIFIED

TOY = {"loss_lipschitz": 1.0, "constraint_lipschitz": 2**0.5, "constraint_range": 1.0}


def linear(x, c):
    return c @ x


def diamond(x):
    return jnp.abs(x).sum() - 1


def toy(constraints=diamond, domain=None, loss=linear, **constants):
    return taut.Problem(
        loss,
        constraints,
        domain or taut.Ball(1.0, shape=2),
        taut.Constants(**{**TOY, **constants}),
    )


def costs(rounds=200):
    c = np.random.default_rng(3).normal(size=(2, rounds, 2))
    return c / np.linalg.norm(c, axis=-1, keepdims=True)


def certified(problem, learner=None, **options):
    learner = learner or taut.ClippedOGD(eta=0.05, sigma=4.0)
    run = taut.simulate(learner, problem, costs(), seeds=2, record=("decisions",))
    return run.certificate(**options)


def status(certificate):
    return {one.name: one.status for one in certificate.assumptions}


class Best:
    """The zoo's own answer in place of the solver's."""

    solver, gap = "closed form", np.zeros(1)

    def __init__(self, loss):
        self.loss = loss


def test_a_sound_problem_is_not_refuted_and_hindsight_is_certified():
    certificate = certified(toy(slater=1.0, error_bound=1.0))
    assert not certificate.refuted
    found = status(certificate)
    assert found["radius"] == found["centre feasible"] == found["slater"] == VERIFIED
    assert found["convex losses"] == found["convex constraints"] == found["error_bound"] == PROBED
    assert certificate.best.gap.max() < 1e-8
    c = costs()
    assert np.allclose(certificate.best.loss, -np.abs(c.sum(axis=1)).max(axis=1))


def test_a_non_convex_constraint_is_refuted_at_a_pair_that_shows_it():
    def dented(x):
        return jnp.sum(x**2) - 0.5 - 2 * jnp.exp(-20 * jnp.sum((x - jnp.array([0.6, 0.0])) ** 2))

    problem = toy(dented, constraint_lipschitz=20.0, constraint_range=4.0)
    certificate = certified(problem, best=Best(np.zeros(2)))
    one = next(a for a in certificate.assumptions if a.name == "convex constraints")
    assert one.status == REFUTED
    x, y = jnp.asarray(one.witness["x"]), jnp.asarray(one.witness["y"])
    values, _, push = problem.constraints.linearise(x, None)
    assert float(problem.constraints.values(y, None)[0]) < float(values[0] + push(y - x)[0]) - 1e-6
    assert all(line.bound is None for line in certificate.lines if line.guarantee is not None)
    assert "convex constraints" in str(certificate)


def test_a_non_convex_loss_is_refuted():
    problem = toy(loss=lambda x, c: jnp.sin(5 * c @ x), loss_lipschitz=5.0)
    assert status(certified(problem, best=Best(np.zeros(2))))["convex losses"] == REFUTED


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("loss_lipschitz", 0.5), ("constraint_lipschitz", 1.0), ("constraint_range", 0.9), ("loss_range", 0.1)],
)
def test_an_underestimated_constant_is_refuted_and_voids_what_rests_on_it(name, wrong):
    learner = taut.ClippedOGD(eta=0.05, sigma=4.0)
    certificate = certified(toy(**{name: wrong}), learner)
    one = next(a for a in certificate.assumptions if a.name == name)
    assert one.status == REFUTED
    assert taut.Ball(1.0, shape=2).contains(jnp.asarray(one.witness["x"]), 1e-6)
    for line in certificate.lines:
        if line.guarantee is not None and name in line.guarantee.assumptions:
            assert line.bound is None
            assert name in line.void


def test_a_domain_that_cuts_the_feasible_set_is_refuted():
    certificate = certified(toy(domain=taut.Ball(0.4, shape=2)))
    one = next(a for a in certificate.assumptions if a.name == "domain")
    assert one.status == REFUTED
    x = np.asarray(one.witness["x"])
    assert np.abs(x).sum() <= 1 + 1e-9
    assert np.linalg.norm(x) > 0.4


def test_a_radius_below_the_domain_s_is_refuted():
    assert status(certified(toy(radius=0.7)))["radius"] == REFUTED


def test_overstated_strong_convexity_smoothness_and_error_bound_are_refuted():
    def bowl(x, c):
        return 0.5 * jnp.sum((x - c) ** 2)

    strong = {"loss_lipschitz": 2.0, "loss_range": 2.0}
    assert status(certified(toy(loss=bowl, strong_convexity=1.0, **strong)))["strong_convexity"] == PROBED
    assert status(certified(toy(loss=bowl, strong_convexity=1.2, **strong)))["strong_convexity"] == REFUTED
    assert status(certified(toy(constraint_smoothness=1.0)))["constraint_smoothness"] == REFUTED
    assert status(certified(toy(error_bound=1.6)))["error_bound"] == REFUTED


def test_an_infeasible_centre_is_said_to_be_one():
    problem = toy(lambda x: 0.5 - x[0], constraint_lipschitz=1.0, constraint_range=1.5)
    assert status(certified(problem))["centre feasible"] == REFUTED


def test_an_adversary_is_replayed_for_regret():
    problem = toy()

    def reveal(t, x, key):
        return jnp.where(x >= 0, 1.0, -1.0) / 2**0.5

    run = taut.simulate(taut.ClippedOGD(eta=0.05, sigma=4.0), problem, reveal, horizon=150, seeds=2)
    from taut.play.chunks import revealed_data

    data = revealed_data(run)
    again = taut.simulate(run.learner, problem, data, seeds=2)
    np.testing.assert_allclose(again.loss, run.loss, atol=1e-14)
    certificate = run.certificate()
    assert certificate.holds
    line = next(line for line in certificate.lines if line.quantity == "regret")
    assert line.worst == pytest.approx(float(np.max(run.loss.sum(axis=1) + np.abs(data.sum(axis=1)).max(axis=1))))


def test_a_certificate_is_a_table_and_a_dict():
    certificate = certified(toy(), best=Best(np.zeros(2)))
    facts = json.loads(json.dumps(certificate.to_dict()))
    assert facts["lines"][0]["quantity"] == "regret"
    text = str(certificate)
    assert "worst / bound" in text
    assert "probed, not refuted" in text


def test_a_bound_that_is_exceeded_is_shown_as_such():
    problem = toy()
    run = taut.simulate(taut.ClippedOGD(eta=0.05, sigma=4.0), problem, costs(), seeds=2)
    impossible = run.certificate(best=Best(np.full(2, -1e9)), check=False)
    assert not impossible.holds
    assert "EXCEEDED" in str(impossible)


def test_a_loaded_run_needs_its_problem_and_stream(tmp_path):
    problem = toy()
    run = taut.simulate(taut.ClippedOGD(eta=0.05, sigma=4.0), problem, costs(), seeds=2)
    run.save(tmp_path / "run.nc")
    loaded = taut.Run.load(tmp_path / "run.nc")
    with pytest.raises(ValueError, match="problem: got None"):
        loaded.certificate()
    again = loaded.certificate(problem=problem, stream=costs(), seeds=2)
    assert again.to_dict() == run.certificate().to_dict()


def test_a_sweep_must_be_picked_from():
    run = taut.simulate([taut.ClippedOGD(0.05, 4.0), taut.ClippedOGD(0.1, 4.0)], toy(), costs(), seeds=2)
    with pytest.raises(TypeError, match=r"run\[i\]"):
        run.certificate()
    assert run[1].certificate(check=False).holds

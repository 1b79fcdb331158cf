"""Trivial bounds: what every learner satisfies is proven, as tight as it is cheap to prove, and
never sampled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.certificate import sentences
from taut.judge.facts import ranges
from taut.judge.facts.ranges import trivial_limits
from taut.judge.rows import Measured, _rows
from taut.learners import Guarantee
from taut.problem.streams import as_stream

RNG = np.random.default_rng(0)
COSTS = RNG.uniform(size=(2, 40, 2))


def linear(x, c):
    return c @ x


def diamond(x):
    return jnp.abs(x).sum() - 1


def stream(data=COSTS, seeds=2):
    return as_stream(data, seeds=seeds)


def test_limits_of_readme_s_example_are_exact_without_any_constant():
    problem = taut.Problem(linear, diamond, taut.Ball(1.0, shape=2))
    limits, largest = trivial_limits(problem, 40, stream()), 2**0.5 - 1
    norms = np.linalg.norm(COSTS, axis=-1).sum(axis=1)
    assert limits.by_quantity == pytest.approx(
        {
            "regret": 2 * norms.max(),
            "violation": 40 * largest,
            "squared violation": 40 * largest**2,
            "peak violation": largest,
            "excess": 40 * largest,
        }
    )
    np.testing.assert_allclose(limits.largest_loss, norms)
    # The comparator's loss makes the limit on regret sharper: no learner loses more than the
    # largest loss of each round.
    loss, regret = np.array([3.0, 5.0]), np.array([1.0, 2.0])
    assert limits.of_regret(loss, regret) == pytest.approx(np.max(norms - (loss - regret)))
    assert limits.of_regret(loss, None) == pytest.approx(2 * norms.max())


def test_constraints_that_change_are_limited_round_by_round(monkeypatch):
    rows, caps = RNG.normal(size=(1, 40, 3, 2)), RNG.uniform(0.5, 3, size=(1, 40, 3))
    problem = taut.Problem(
        linear_in_rows, lambda x, z: z["rows"] @ x - z["caps"], taut.Ball(1.0, shape=2)
    )
    data = stream({"rows": rows, "caps": caps}, seeds=1)
    high = (
        np.linalg.norm(rows[0], axis=-1) - caps[0]
    )  # the largest value of an affine function over the unit ball
    clipped = np.maximum(high, 0)
    exact = {
        "violation": clipped.max(axis=1).sum(),
        "squared violation": (clipped**2).sum(),
        "peak violation": clipped.max(),
        "excess": high.sum(axis=0).max(),
    }
    found = trivial_limits(problem, 40, data).by_quantity
    assert {name: found[name] for name in exact} == pytest.approx(exact)
    # If that is too much work, several rounds share a bound, which holds for all data between their
    # extremes.
    monkeypatch.setattr(ranges, "LIMITS", 300)
    coarse = trivial_limits(problem, 40, data).by_quantity
    assert all(found[name] < coarse[name] < 40 * 10 for name in exact)


def linear_in_rows(x, z):
    return jnp.sum(z["rows"] @ x)


def test_convex_constraints_are_largest_at_vertices():
    def bowl(x):
        return jnp.log(jnp.sum(jnp.exp(x)))  # the slopes of its parts say little

    for domain, corner in [
        (taut.Box(-np.ones(2), np.ones(2)), [1.0, 1]),
        (taut.L1Ball(1.0, shape=2), [1.0, 0]),
        (taut.Simplex(2), [1.0, 0]),
    ]:
        largest = float(bowl(jnp.asarray(corner)))
        found = trivial_limits(taut.Problem(linear, bowl, domain), 10)
        assert found.by_quantity["peak violation"] == pytest.approx(largest)
        bent = trivial_limits(
            taut.Problem(linear, bowl, domain), 10, refuted={"convex constraints"}
        )
        assert bent.by_quantity["peak violation"] >= largest


def test_only_constants_that_prove_something_are_used():
    def hidden(x):
        return jax.lax.fori_loop(0, 2, lambda _, y: y, jnp.sum(x))  # an operation without a bound

    def limits(refuted=(), estimated=frozenset(), **constants):
        known = taut.Constants(**constants, estimated=estimated)
        return trivial_limits(
            taut.Problem(linear, hidden, taut.Ball(1.0, shape=2), known), 10, refuted=refuted
        )

    unknown = limits()
    assert unknown.by_quantity == {}
    assert unknown.reasons["constraints"] == "the operation scan has no bound"
    assert limits(constraint_range=1.5).by_quantity["violation"] == 15.0
    assert limits(constraint_range=1.5).by_quantity["squared violation"] == 22.5
    assert limits(constraint_lipschitz=2.0).by_quantity["peak violation"] == pytest.approx(
        2.0
    )  # g(0) + G_g R
    assert limits(loss_range=2.0).by_quantity["regret"] == 20.0
    for name in ("constraint_range", "constraint_lipschitz", "loss_range"):
        assert (
            limits(**{name: 2.0}, refuted={name, "constraint_range", "loss_range"}).by_quantity
            == {}
        )
        assert limits(**{name: 2.0}, estimated={name}).by_quantity == {}, "a sample proves nothing"


def test_a_certificate_says_what_every_learner_satisfies_or_that_it_does_not_know():
    problem = taut.Problem(linear, lambda x, c: diamond(x), taut.Ball(1.0, shape=2))
    run = taut.simulate(problem, COSTS[:, :30], seeds=2)
    certificate = run.certificate()
    violation = next(row for row in certificate.rows if row.quantity == "violation")
    assert violation.limit == pytest.approx(30 * (2**0.5 - 1))
    assert violation.bound > violation.limit
    assert violation.trivial
    said = f"half-space, F1 lifetimes gives {violation.bound:.3g}, and no method can exceed 12.4."
    assert any(said in sentence for sentence in sentences(certificate))
    assert certificate.to_dict()["rows"][1]["limit"] == violation.limit
    for bound, trivially in [(16.0, False), (16.5, True), (17.0, True)]:
        promise = Guarantee("violation", bound, "a theorem")
        measured = Measured("violation", "violation", np.ones(2), (promise,), 16.5)
        assert [row.trivial for row in _rows(measured, set(), 0.0)] == [trivially]
    hidden = taut.Problem(
        linear,
        lambda x: jax.lax.fori_loop(0, 1, lambda _, y: y, diamond(x)),
        taut.Ball(1.0, shape=2),
    )
    learner = taut.ClippedOGD(eta=0.05, sigma=4.0)
    estimated = {"constraint_lipschitz", "constraint_range"}
    known = taut.Constants(
        loss_lipschitz=1.5, constraint_lipschitz=1.5, constraint_range=2.5, estimated=estimated
    )
    hidden = hidden.with_constants(known)
    (note,) = taut.simulate(learner, hidden, COSTS, seeds=2).certificate(check=False).notes
    assert note.startswith("Whether the bound on violations is trivial is not known")
    assert "the operation scan has no bound" in note


def test_squared_violations_of_fixed_constraints_are_added_up():
    problem = taut.Problem(linear, lambda x: x - jnp.array([0.5, 0.8]), taut.Ball(1.0, shape=2))
    found = trivial_limits(problem, 10, stream()).by_quantity["squared violation"]
    assert found == pytest.approx(10 * (0.5**2 + 0.2**2))

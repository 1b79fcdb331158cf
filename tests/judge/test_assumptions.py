"""Every constant that a bound uses is among its assumptions, every false value is refuted, and
every round is looked at."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.engine import _enable_x64
from taut.judge import assumptions
from taut.judge.assumptions import (
    PROBED,
    PROVEN,
    REFUTED,
    VERIFIED,
    _convex,
    _Probes,
    check,
    check_slater,
)
from taut.judge.guarantees import setting_of, standing
from taut.judge.observed import observe, probe, walk_back
from taut.learners import Observed
from taut.problem import evaluation
from taut.problem.constants import SYMBOLS
from taut.problem.sampling import sample_decisions
from taut.testing import problems
from taut.testing.playing import applies, as_played, shared_run, shared_stream, tuned

FALSE = {
    "radius": 0.3,
    "loss_lipschitz": 0.5,
    "constraint_lipschitz": 0.5,
    "loss_range": 0.2,
    "constraint_range": 0.3,
    "strong_convexity": 1.5,
    "constraint_smoothness": 0.3,
    "slater": 2.0,
    "error_bound": 2.0,
}
"""A factor that makes a true value false."""
KNOWN = (problems.TOY, problems.STRONG, problems.MATRIX, problems.MOVING)
PAIRS = [
    (name, known) for name, card in taut.LEARNERS.items() for known in KNOWN if applies(card, known)
]


def with_constant(problem, name, factor):
    value = getattr(problem.constants, name) * factor
    return problem.with_constants(problem.constants.with_values(**{name: value}))


def by_theorem(learner, setting, horizon):
    return {(g.quantity, g.source): g for g in learner.guarantees(setting, horizon)}


@pytest.mark.parametrize(("name", "known"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_every_constant_that_changes_a_bound_is_among_its_assumptions(name, known):
    card = taut.LEARNERS[name]
    problem, learner = as_played(card, known.problem), tuned(card, known)
    horizon = problems.ROUNDS
    setting = setting_of(problem, observed=Observed(0.5, 20.0, 0.1, 0.4))
    true = by_theorem(learner, setting, horizon)
    for constant in FALSE:
        value = getattr(problem.constants, constant)
        if value is None or (constant == "strong_convexity" and value == 0):
            continue
        for factor in (0.9, 1.1):
            wrong = setting.constants.with_values(**{constant: value * factor})
            changed = by_theorem(learner, dataclasses.replace(setting, constants=wrong), horizon)
            for which, guarantee in true.items():
                other = changed.get(which)
                if guarantee.bound is None or not math.isfinite(guarantee.bound):
                    continue
                if (
                    other is None
                    or other.bound is None
                    or not math.isclose(other.bound, guarantee.bound, rel_tol=1e-9)
                ):
                    assert constant in guarantee.assumptions, (which, constant)


@pytest.mark.parametrize("constant", FALSE)
@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_a_false_value_is_refuted_and_voids_every_bound_that_uses_it(known, constant):
    value = getattr(known.problem.constants, constant)
    if value is None or value == 0:
        pytest.skip("this problem states no such constant, so there is no value to make false")
    card = taut.LEARNERS["clipped-ogd"]
    run = shared_run(card, known)
    problem = with_constant(known.problem, constant, FALSE[constant])
    source = run.stream
    found = check(problem, source, jax.random.key(0), observe(run, problem, source))
    refuted = {assumption.name for assumption in found if assumption.refuted}
    assert constant in refuted
    true = check(known.problem, source, jax.random.key(0), observe(run, run.problem, run.stream))
    assert not {assumption.name for assumption in true if assumption.refuted} & set(SYMBOLS)
    for name, other in PAIRS:
        if other is known:
            learner = tuned(taut.LEARNERS[name], known)
            promised = list(learner.guarantees(setting_of(problem, observed=None), run.horizon))
            for chosen in standing(promised, refuted).values():
                if chosen.guarantee is not None and constant in chosen.guarantee.assumptions:
                    assert constant in chosen.refuted


def test_one_exceptional_round_refutes_a_constant_and_is_the_witness():
    known = problems.TOY
    data = known.stream(2, 2000).copy()
    data[1, 1234] *= 300
    run = taut.simulate(taut.ClippedOGD(0.05, 4.0), known.problem, data, seeds=2)
    certificate = run.certificate()
    facts = {assumption.name: assumption for assumption in certificate.assumptions}
    for name in ("loss_lipschitz", "loss_range"):
        assert facts[name].status == REFUTED
        assert (facts[name].witness["round"], facts[name].witness["seed"]) == (1235, 1)
    assert "but 300 in round 1235 of seed 1" in facts["loss_lipschitz"].detail
    assert "round 1235 of seed 1" in str(certificate)
    assert facts["constraint_lipschitz"].status == PROVEN
    assert "G_g = 1.41421" in facts["constraint_lipschitz"].detail
    regret = next(row for row in certificate.rows if row.quantity == "regret")
    assert regret.bound is None
    assert set(regret.refuted_assumptions) >= {"loss_lipschitz"}


def test_an_error_bound_is_probed_at_decisions_that_were_played(monkeypatch):
    monkeypatch.setattr(assumptions, "SAMPLES", 2)  # both are feasible
    card, known = taut.LEARNERS["clipped-ogd"], problems.TOY
    run = shared_run(card, known)
    seen = observe(run, run.problem, run.stream)
    assert len(seen.violating)
    (found,) = [
        assumption
        for assumption in check(known.problem, run.stream, jax.random.key(0), seen)
        if assumption.name == "error_bound"
    ]
    assert found.status == PROBED
    assert f"at {len(seen.violating)} infeasible decisions" in found.detail


def test_slater_points_are_found_or_refuted_with_the_room_there_is():
    problem = problems.TOY.problem
    assert check_slater(problem).status == VERIFIED
    refuted = check_slater(with_constant(problem, "slater", 1.5))
    assert refuted.status == REFUTED
    assert refuted.witness["room"] == pytest.approx(1.0, abs=1e-5)
    moving, data = problems.MOVING.problem, shared_stream(problems.MOVING)
    rounds = jax.tree.map(lambda a: a[0, :16], data)
    assert check_slater(moving, rounds).status == PROBED
    assert check_slater(with_constant(moving, "slater", 30.0), rounds).status == REFUTED


@pytest.mark.parametrize(("feasible", "status"), [(1.0, PROBED), (1.1, REFUTED), (0.8, REFUTED)])
def test_the_set_of_a_projection_is_compared_with_the_constraints(feasible, status):
    known = problems.TOY
    run = taut.simulate(
        taut.ProjectedOGD(0.05, taut.L1Ball(feasible, shape=2)),
        known.problem,
        shared_stream(known),
        seeds=3,
    )
    facts = {assumption.name: assumption for assumption in run.certificate().assumptions}
    assert facts["projection"].status == status
    if status == REFUTED:
        excess = np.abs(facts["projection"].witness["x"]).sum() - 1
        assert excess > 0 if feasible > 1 else excess <= 0


@pytest.mark.parametrize(("bump", "status"), [(0.0, PROBED), (-1e-3, REFUTED)])
def test_rounding_in_32_bits_is_no_lack_of_convexity(bump, status):
    """On the boundary |x|_1 - 1 is 0 up to rounding: numbers of size 1 cancel in the first-order
    inequality."""
    rng = np.random.default_rng(0)
    with _enable_x64(False):
        problem = taut.Problem(
            lambda x, z: x @ z,
            lambda x: jnp.abs(x).sum() - 1 + bump * (x @ x),
            taut.Ball(1.0, shape=2),
        )
        edge = rng.uniform(size=(400, 1))
        points = np.concatenate([-edge, edge - 1], axis=1).astype(np.float32)
        order = rng.permutation(400)
        found = probe(problem, points, order, np.zeros((1, 2), np.float32))
        assert found["excess_gap"].min() < 0
        probes = _Probes(problem, None, points, None, None, None)
        vars(probes).update(order=order, values=found)
        judged = _convex(probes, "constraints", "excess", None)
    assert judged.status == status, judged.detail


@pytest.mark.parametrize("known", [problems.MATRIX, problems.MOVING], ids=lambda known: known.name)
def test_probes_in_numpy_and_by_jax_agree(known, monkeypatch):
    problem, rng = known.problem, np.random.default_rng(0)
    points = sample_decisions(problem.domain, rng, 9)
    data = jax.tree.map(lambda a: np.asarray(a)[0, :4], shared_stream(known))
    order = rng.permutation(9)
    walks = not problem.constraints.takes_data
    here, walked = probe(problem, points, order, data), walk_back(problem, points) if walks else ()
    monkeypatch.setattr(evaluation, "LARGEST", -1)
    there, again = probe(problem, points, order, data), walk_back(problem, points) if walks else ()
    assert here.keys() == there.keys()
    for name, value in here.items():
        assert value.shape == there[name].shape
        np.testing.assert_allclose(value, there[name], rtol=1e-9, atol=1e-12, err_msg=name)
    for one, other in zip(walked, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_what_is_proven_is_not_probed(monkeypatch):
    problem = taut.Problem(
        lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    )
    run = taut.simulate(problem, np.random.default_rng(0).uniform(size=(50, 2)))
    monkeypatch.setattr(assumptions, "probe", None)
    status = {one.name: one.status for one in run.certificate().assumptions}
    assert status["convex losses"] == status["convex constraints"] == PROVEN
    assert status["loss_lipschitz"] == status["loss_range"] == PROVEN

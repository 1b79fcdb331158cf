"""Certificates: bounds hold on every run of the zoo, and every planted falsehood is refuted with a
witness."""

import functools
import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.assumptions import PROVEN, REFUTED, VERIFIED

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
    assert found["convex losses"] == found["convex constraints"] == found["error_bound"] == PROVEN
    assert certificate.comparator.gap.max() < 1e-8
    c = costs()
    assert np.allclose(certificate.comparator.loss, -np.abs(c.sum(axis=1)).max(axis=1))


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
    assert all(line.bound is None for line in certificate.rows if line.guarantee is not None)
    assert "convex constraints" in str(certificate)


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_a_non_convex_loss_is_refuted(scale):
    problem = toy(loss=lambda x, c: scale * jnp.sin(5 * c @ x), loss_lipschitz=5 * scale)
    assert status(certified(problem, best=Best(np.zeros(2))))["convex losses"] == REFUTED


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("loss_lipschitz", 0.5),
        ("constraint_lipschitz", 1.0),
        ("constraint_range", 0.9),
        ("loss_range", 0.1),
    ],
)
def test_an_underestimated_constant_is_refuted_and_voids_what_rests_on_it(name, wrong):
    learner = taut.ClippedOGD(eta=0.05, sigma=4.0)
    certificate = certified(toy(**{name: wrong}), learner)
    one = next(a for a in certificate.assumptions if a.name == name)
    assert one.status == REFUTED
    assert taut.Ball(1.0, shape=2).contains(jnp.asarray(one.witness["x"]), 1e-6)
    for line in certificate.rows:
        if line.guarantee is not None and name in line.guarantee.assumptions:
            assert line.bound is None
            assert name in line.refuted_assumptions


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
    assert (
        status(certified(toy(loss=bowl, strong_convexity=1.0, **strong)))["strong_convexity"]
        == PROVEN
    )
    assert (
        status(certified(toy(loss=bowl, strong_convexity=1.2, **strong)))["strong_convexity"]
        == REFUTED
    )
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
    from taut.play.replay import revealed_data

    data = revealed_data(run)
    again = taut.simulate(run.learner, problem, data, seeds=2)
    np.testing.assert_allclose(again.loss, run.loss, atol=1e-14)
    certificate = run.certificate()
    assert certificate.holds
    line = next(line for line in certificate.rows if line.quantity == "regret")
    assert line.worst == pytest.approx(
        float(np.max(run.loss.sum(axis=1) + np.abs(data.sum(axis=1)).max(axis=1)))
    )


def test_a_certificate_is_a_table_and_a_dict():
    certificate = certified(toy(), best=Best(np.zeros(2)))
    facts = json.loads(json.dumps(certificate.to_dict()))
    assert facts["rows"][0]["quantity"] == "regret"
    text = str(certificate)
    assert "share" in text
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


def test_a_comparator_may_be_given_by_its_losses_alone():
    run = taut.simulate(taut.ClippedOGD(eta=0.05, sigma=4.0), toy(), costs(), seeds=2)
    best = taut.hindsight(toy(), costs(), seeds=2)
    alone, full = run.certificate(best=best.loss), run.certificate(best=best)
    assert alone.rows[0].worst == full.rows[0].worst
    assert alone.comparator is None
    assert alone.to_dict()["rows"] == full.to_dict()["rows"]


def test_a_sweep_must_be_picked_from():
    run = taut.simulate(
        [taut.ClippedOGD(0.05, 4.0), taut.ClippedOGD(0.1, 4.0)], toy(), costs(), seeds=2
    )
    with pytest.raises(TypeError, match=r"run\[i\]"):
        run.certificate()
    assert run[1].certificate(check=False).holds


# -- Three outcomes, trivial bounds, what is scored, and false alarms
# ---------------------------------------------------


def row(certificate, quantity):
    return next(row for row in certificate.rows if row.quantity == quantity)


def test_a_transform_that_was_played_is_translated_to_what_is_scored():
    problem = toy()
    run = taut.simulate(
        taut.ClippedOGD(0.05, 8.0), taut.squared(problem), costs(), seeds=2, score=problem
    )
    certificate = run.certificate()
    assert certificate.outcome == "holds"
    assert row(certificate, "violation").theorem.endswith("translated")
    squares = taut.squared(problem)
    setting = taut.judge.guarantees.setting_of(squares, facts=squares.facts(costs(), seeds=2))
    played = run.learner.guarantees(setting, run.horizon)
    of_squares = next(g.bound for g in played if g.quantity == "violation")
    assert row(certificate, "violation").bound == pytest.approx((run.horizon * of_squares) ** 0.5)


def test_regret_is_measured_against_the_best_decision_of_the_problem_that_is_scored():
    problem = toy(slater=1.0)
    data = np.tile([0.6, 0.8], (300, 1))
    run = taut.simulate(
        taut.ClippedOGD(0.05, 8.0), taut.tightened(problem, 0.2), data, score=problem
    )
    certificate = run.certificate()
    loss = float(run.totals.loss[0])
    assert row(certificate, "regret").worst == pytest.approx(loss + 0.8 * 300)  # the vertex (0, -1)
    assert row(certificate, "regret of the played problem").worst == pytest.approx(
        loss + 0.8 * 0.8 * 300
    )  # (0, -0.8)
    assert row(certificate, "regret of the played problem").theorem == "Theorem 1"
    assert "cost of the margin" in row(certificate, "regret").theorem
    assert certificate.holds
    np.testing.assert_allclose(certificate.comparator.decision, [[0, -1]], atol=1e-6)
    assert [r.quantity for r in certificate.rows[:2]] == ["regret", "regret of the played problem"]


def test_a_refuted_radius_voids_the_bounds_that_use_it():
    certificate = certified(toy(radius=0.1))
    regret = row(certificate, "regret")
    assert regret.bound is None
    assert regret.refuted_assumptions == ("radius",)
    assert "No bound on regret, because radius is refuted." in str(certificate)
    for one in certificate.rows[1:]:  # the error bound does not need the radius
        assert one.holds
        assert "radius" not in one.guarantee.assumptions


def test_a_refuted_sharp_bound_is_replaced_by_a_weaker_one():
    sharp, weak = certified(toy(error_bound=1.0)), certified(toy(error_bound=1.6))
    assert row(sharp, "violation").theorem == "error bound"
    assert row(weak, "violation").theorem == "Propositions 2 and 3"
    assert weak.holds
    assert {assumption.name for assumption in weak.refuted} == {"error_bound"}


def test_without_any_bound_nothing_stands():
    problem = taut.Problem(linear, diamond, taut.Ball(1.0, shape=2))
    certificate = certified(problem, check=False)
    assert (certificate.outcome, certificate.holds) == ("no guarantee stands", None)
    assert certificate.conclusion.startswith(
        "No guarantee stands: no bound on regret and squared violation: Theorem 1"
    )
    (reason,) = row(certificate, "regret").reasons
    assert reason == "Theorem 1: loss_lipschitz (G_f), constraint_lipschitz (G_g) is not known"
    assert "Theorem 1: loss_lipschitz" in " ".join(str(certificate).split())


def test_a_bound_that_every_learner_satisfies_is_called_trivial_and_is_no_support():
    learner = taut.ClippedOGD(
        eta=1e-6, sigma=4.0
    )  # regret bound 5e5, but 200 rounds cannot lose more than 400
    certificate = certified(toy(loss_range=2.0), learner)
    regret = row(certificate, "regret")
    assert regret.trivial
    assert regret.holds
    said = " ".join(str(certificate).split())
    assert "No useful bound on regret: Theorem 1 gives 500,000, and no method can exceed" in said
    alone = taut.judge.certificate.Certificate("", 200, 2, (regret,), (), None)
    assert alone.outcome == "no guarantee stands"
    assert alone.conclusion.startswith("No guarantee stands: no useful bound on regret: Theorem 1")


def test_the_printed_certificate_begins_with_the_verdict_and_fits_the_terminal(monkeypatch):
    for columns, problem in ((80, toy()), (60, toy(radius=0.1))):
        monkeypatch.setenv("COLUMNS", str(columns))
        certificate = certified(problem)
        text = str(certificate)
        assert " ".join(text.split()).startswith(" ".join(certificate.verdict.split()))
        assert certificate.verdict.startswith("clipped-ogd, 2 seeds x 200 rounds. Holds: ")
        assert certificate.verdict.endswith(certificate.conclusion)
        assert certificate.to_dict()["verdict"] == certificate.verdict
        for part in (text, certificate.text(details=True)):
            assert max(map(len, part.splitlines())) <= columns
        details = certificate.text(details=True)
        assert "ClippedOGD(eta" in details
        assert "ClippedOGD(eta" not in text
        assert details.count("\n") > text.count("\n")


def test_a_void_certificate_says_once_why():
    problem = toy(lambda x: jnp.abs(x).sum() - 1 - 0.6 * jnp.sum(x**2), error_bound=0.1)
    certificate = certified(problem, best=Best(np.zeros(2)))
    assert certificate.outcome == "no guarantee stands"
    said = " ".join(str(certificate).split())
    assert said.count("because") == 1
    assert "convex constraints" in certificate.conclusion


def test_rounding_is_printed_as_0():
    from taut.judge.certificate import Row, cells

    promise = taut.Guarantee("violation", 2.0, "a theorem")
    tiny = Row("violation", 3e-16, 6e-16, promise, noise=1e-14)
    assert cells(tiny) == ("clipped violation", "0", "0", "2", "0", "a theorem")
    assert cells(replace(tiny, worst=0.5))[2:5] == ("0.5", "2", "0.25")


def test_a_certificate_becomes_latex():
    page = certified(toy()).to_latex()
    assert page.startswith("\\begin{table}")
    assert page.count(r" \\") == 1 + 5
    assert "clipped-ogd, 2 seeds x 200 rounds. Holds: regret" in page


def test_no_fixed_decision_is_feasible_in_all_rounds():
    problem = taut.Problem(
        lambda x, z: z["c"] @ x,
        lambda x, z: x[0] - z["level"],
        taut.Box(-1.0, 1.0, shape=2),
        taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=1.0, constraint_count=1),
    )
    level = np.where(np.arange(200) % 2 == 0, -1.5, 0.5)
    run = taut.simulate(taut.ClippedOGD(0.05, 4.0), problem, {"c": costs()[0], "level": level})
    certificate = run.certificate()
    assert row(certificate, "regret").worst is None
    assert row(certificate, "violation").worst > 0
    (note,) = certificate.notes
    assert "no fixed decision of the problem is feasible in all rounds" in note
    assert "least-violating decision is x = [-1." in note
    assert "max g = 0.5" in note
    assert 'comparator="per-round"' in note
    # Theorems compare with a decision that is feasible in all rounds, so that their bounds on
    # violations say nothing either.
    assert certificate.outcome == "no guarantee stands"
    (refuted,) = certificate.refuted
    assert refuted.name == "a decision that is feasible in all rounds"
    assert refuted.detail == "every decision of the problem has max g >= 0.5 in some round"
    assert row(certificate, "violation").refuted_assumptions == (refuted.name,)
    moving = taut.hindsight(
        problem, {"c": costs()[0], "level": np.maximum(level, -1)}, comparator="per-round"
    )
    assert status(run.certificate(best=moving))[refuted.name] == "given"


def test_violations_are_shown_without_regret_where_hindsight_misses_its_tolerance(monkeypatch):
    demanding = functools.partial(taut.hindsight, tolerance=1e-30)
    monkeypatch.setattr("taut.judge.certify.hindsight", demanding)
    monkeypatch.setattr("taut.judge.compare.hindsight", demanding)
    problem, learner = toy(loss=lambda x, c: jnp.exp(c @ x)), taut.ClippedOGD(0.05, 4.0)
    certificate = taut.simulate(learner, problem, costs(6), seeds=2).certificate(check=False)
    assert row(certificate, "regret").mean is None
    assert row(certificate, "violation").mean is not None
    assert certificate.comparator is None
    (note,) = (note for note in certificate.notes if note.startswith("Regret is missing"))
    assert "of the problem was proven to be the best: not certified: after" in note
    several = taut.compare({"a": learner, "b": learner}, problem, costs(6), seeds=2)
    assert several.notes[0].startswith("Regret is missing because no decision was proven")


def test_a_feasible_set_without_interior_leaves_regret_out():
    flat = toy(lambda x: x @ x)  # zero is the only feasible decision
    run = taut.simulate(taut.ClippedOGD(0.05, 4.0), flat, costs(20), seeds=2)
    certificate = run.certificate(check=False)
    assert row(certificate, "regret").mean is None
    assert any("without interior" in note for note in certificate.notes)


def test_certificates_take_comparators_that_move():
    problem, data = toy(), np.repeat(np.array([[[1.0, 0.0], [-1.0, 0.0]]]), 100, axis=1)
    run = taut.simulate(taut.ClippedOGD(0.05, 4.0), problem, data, seeds=1)
    moving = taut.hindsight(problem, data, seeds=1, comparator="shifting", breakpoints=[100])
    certificate = run.certificate(best=moving)
    first = certificate.rows[0]
    assert first.quantity == "regret, shifting comparator"
    assert first.worst == pytest.approx(float(run.totals.loss[0]) + 200)
    fixed = row(run.certificate(), "regret")
    assert first.bound == pytest.approx(fixed.bound + 2 * 2 / 0.05)  # D P / eta
    assert "path is 2 long" in certificate.notes[0]
    assert certificate.outcome == "holds"
    other = taut.simulate(
        taut.learner("ogd", problem, horizon=200), problem, data, seeds=1
    ).certificate(best=moving)
    assert other.rows[0].bound is None
    assert "fixed decision" in other.rows[0].reasons[0]
    prefixes = taut.hindsight(problem, data, seeds=1, prefixes=[10, 200])
    with pytest.raises(ValueError, match="best: got losses of shape"):
        run.certificate(best=prefixes)


def test_rounding_is_no_violation_of_a_bound_of_zero():
    size = 1e5
    problem = taut.Problem(
        linear,
        lambda x: jnp.abs(x).sum() - size,
        taut.Box(-size, size, shape=40),
        taut.Constants(loss_lipschitz=8.0, constraint_lipschitz=40**0.5),
    )
    data = np.random.default_rng(0).normal(size=(60, 40))
    data *= 7 / np.linalg.norm(data, axis=1, keepdims=True)
    run = taut.simulate(taut.ProjectedOGD(size, taut.L1Ball(size, shape=40)), problem, data)
    peak = row(run.certificate(best=Best(np.full(1, -1e30))), "peak violation")
    assert peak.bound == 0
    assert 0 < peak.worst < 1e-9 * size
    assert peak.holds
    assert not taut.judge.certificate.Row(
        "peak violation", 1e-3, 1e-3, peak.guarantee, rounding=peak.rounding
    ).holds


@pytest.mark.parametrize("horizon", [1, 2])
def test_a_single_round_raises_no_alarm(horizon):
    problem, best = toy(error_bound=1.0), None
    for sigma in (2.0, 2.0 * (1 + 1e-13), 2.0 + 1e-9, 2.5):  # sigma = m G_g^2 and beside it
        run = taut.simulate(
            taut.ClippedOGD(eta=0.05, sigma=sigma), problem, costs()[:, :horizon], seeds=2
        )
        certificate = run.certificate(best=best)
        best = certificate.comparator
        assert certificate.holds is not False


@taut.learner_dataclass
class Hopeful(taut.Learner):
    """Stays where it is, and promises something about the mean of its violation."""

    promise: float

    def init(self, x1, count):
        from taut.learners.base import State, first_round

        return State(x1, first_round())

    def step(self, state, round):
        return state

    def guarantees(self, setting, horizon):
        from taut.learners import Guarantee

        yield Guarantee("violation", self.promise, "hope", (), "", expected=True)


@pytest.mark.parametrize(("promise", "holds"), [(30.0, True), (20.0, None), (5.0, False)])
def test_a_bound_on_the_expectation_is_compared_with_the_mean_and_its_interval(promise, holds):
    problem = taut.Problem(
        linear,
        lambda x, c: c[0] - x[0],
        taut.Ball(1.0, shape=2),
        taut.Constants(constraint_count=1),
    )
    data = np.zeros((6, 10, 2))
    data[..., 0] = np.array([1.0, 1.4, 1.8, 2.2, 2.6, 3.0])[
        :, None
    ]  # violations 10, 14, ..., 30: mean 20, worst 30
    run = taut.simulate(Hopeful(promise), problem, data, seeds=6)
    certificate = run.certificate(best=Best(np.zeros(6)), check=False)
    found = row(certificate, "violation, mean over seeds")
    assert found.mean == pytest.approx(20)
    assert found.worst == pytest.approx(30)
    assert found.holds is holds
    assert "\u00b1" in str(certificate)
    single = taut.simulate(Hopeful(promise), problem, data[:1], seeds=1).certificate(
        check=False, best=Best(np.zeros(1))
    )
    assert row(single, "violation, mean over seeds").holds is None
    assert single.outcome == "no guarantee stands"


def test_a_certificate_prints_short_in_a_console_and_as_html_in_a_notebook():
    certificate = certified(toy(), best=Best(np.zeros(2)))
    assert repr(certificate) == "<Certificate: holds; ClippedOGD, 2 seeds, 200 rounds>"
    page = certificate._repr_html_()
    assert page.count("<tr>") == 1 + len(certificate.rows) + 1 + len(certificate.assumptions)
    assert "Holds: regret" in page
    from xml.etree import ElementTree

    ElementTree.fromstring(f"<div>{page}</div>")

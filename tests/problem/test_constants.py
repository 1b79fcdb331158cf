"""Constants: checked, completed from the domain, sampled where unknown; and every entry says where
it comes from."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut import Constants, files
from taut.problem.sampling import sample_decisions
from taut.testing import playing, problems

POSITIVE = ("radius", "slater", "error_bound")
NOT_NEGATIVE = (
    "loss_lipschitz",
    "constraint_lipschitz",
    "loss_range",
    "constraint_range",
    "strong_convexity",
    "constraint_smoothness",
    "gap",
)


@pytest.fixture(autouse=True, scope="module")
def _quick():
    with playing.quick_compilation():
        yield


# -- The value object
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*POSITIVE, *NOT_NEGATIVE])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1", True])
def test_bad_entries_are_refused_by_name(name, value):
    with pytest.raises((ValueError, TypeError), match=rf"{name}: got .*; expected"):
        Constants(**{name: value})


def test_zero_is_refused_where_it_makes_no_sense():
    for name in POSITIVE:
        with pytest.raises(ValueError, match=f"{name}: got 0; expected a positive number"):
            Constants(**{name: 0.0})
    for name in NOT_NEGATIVE:
        assert getattr(Constants(**{name: 0}), name) == 0.0


@pytest.mark.parametrize("value", [0, -3, 1.5, "two", True])
def test_number_of_constraints_is_a_count(value):
    with pytest.raises(
        (ValueError, TypeError), match=r"constraint_count: got .*; expected a whole number"
    ):
        Constants(constraint_count=value)


def test_is_a_value():
    a = Constants(radius=1, slater=0.5).with_values(estimated=True, loss_range=2.0)
    assert a == Constants(
        radius=1.0, slater=0.5, loss_range=2.0, estimated=frozenset({"loss_range"})
    )
    assert files.unpack(files.pack(a)) == a
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.radius = 2.0
    assert repr(a) == "Constants(radius=1, loss_range=2 (estimated), slater=0.5)"


def test_need_names_everything_that_is_missing():
    known = Constants(radius=1.0, strong_convexity=0.0, loss_lipschitz=0.0)
    assert known.need("radius", "loss_lipschitz") == (1.0, 0.0)  # 0 is known
    with pytest.raises(
        ValueError,
        match=r"constants: slater \(epsilon\), strong_convexity \(H\) unknown; expected .*estimate",
    ):
        known.need("radius", "slater", "strong_convexity")


def test_marks_follow_the_values():
    known = Constants(radius=1.0, loss_range=3.0)
    assert [known.source(n) for n in ("radius", "slater")] == ["given", "unknown"]
    sampled = known.with_values(estimated=True, slater=0.1, loss_range=2.0)
    assert [sampled.source(n) for n in ("radius", "slater", "loss_range")] == [
        "given",
        "estimated",
        "estimated",
    ]
    derived = sampled.with_values(exact=True, slater=0.2)
    assert derived.source("slater") == "exact"
    typed = derived.with_values(slater=0.3, loss_range=4.0)
    assert [typed.source(n) for n in ("slater", "loss_range")] == ["given", "given"]


def test_merging_fills_gaps_and_takes_marks_along():
    mine = Constants(radius=1.0, loss_range=3.0, gap=0.1)
    theirs = Constants(
        radius=9.0,
        slater=0.5,
        strong_convexity=2.0,
        gap=0.3,
        estimated=frozenset({"radius", "slater"}),
    )
    both = mine.merged(theirs)
    assert (both.radius, both.source("radius")) == (1.0, "given")
    assert (both.slater, both.source("slater")) == (0.5, "estimated")
    assert both.strong_convexity == 2.0  # 0 means not known to be more than convex
    assert both.gap == 0.3
    assert both.constraint_count is None
    assert mine.merged(Constants()) == mine


# -- What follows from the problem
# -------------------------------------------------------------------------------------


def test_problem_adds_what_its_domain_and_constraints_tell():
    rows = taut.Problem(
        problems.linear_loss, problems.rows_excess, problems.POLYHEDRON.problem.domain
    )
    assert (rows.constants.radius, rows.constants.source("radius")) == (2.0, "exact")
    assert (rows.constants.constraint_count, rows.constants.source("constraint_count")) == (
        6,
        "exact",
    )
    assert [rows.constants.source(n) for n in ("constraint_range", "loss_range")] == [
        "unknown",
        "unknown",
    ]
    given = Constants(constraint_lipschitz=2.0, loss_lipschitz=3.0)
    known = rows.with_constants(given).constants
    # |g| <= |g(centre)| + G_g R, and losses span G_f times the diameter.
    reach = np.abs(problems.ROWS @ problems.CENTRE - problems.LEVELS).max() + 2.0 * 2.0
    assert (known.constraint_range, known.source("constraint_range")) == (
        pytest.approx(reach),
        "given",
    )
    assert (known.loss_range, known.source("loss_range")) == (12.0, "given")


def test_what_follows_from_an_estimate_is_an_estimate():
    guessed = Constants().with_values(estimated=True, loss_lipschitz=1.0, constraint_lipschitz=1.5)
    known = taut.Problem(
        problems.linear_loss, problems.l1_excess, taut.Ball(1.0, shape=2), guessed
    ).constants
    assert [known.source(n) for n in ("loss_range", "constraint_range")] == [
        "estimated",
        "estimated",
    ]
    soft = taut.tightened(
        taut.max_of(
            taut.Problem(problems.linear_loss, problems.l1_excess, taut.Ball(1.0, shape=2), guessed)
        ),
        0.1,
    )
    assert soft.constants.source("constraint_range") == "estimated"
    assert soft.constants.source("constraint_lipschitz") == "estimated"


def test_a_wrong_number_of_constraints_is_refused():
    with pytest.raises(ValueError, match=r"constraint_count=2, but .* returns 1 value. Correct it"):
        taut.Problem(
            problems.linear_loss,
            problems.l1_excess,
            taut.Ball(1.0, shape=2),
            Constants(constraint_count=2),
        )


# -- Sampling
# ----------------------------------------------------------------------------------------------------------

BOUNDS = ("loss_lipschitz", "constraint_lipschitz", "loss_range", "constraint_range")


def bare(case):
    """The case as a user would have it who knows nothing of its constants."""
    return taut.Problem(case.problem.loss, case.problem.constraints, case.problem.domain)


@cache
def estimated(case):
    return bare(case).estimate_constants(case.stream(2, 60), jax.random.key(0), seeds=2)


@pytest.mark.parametrize("case", problems.PROBLEMS, ids=playing.name_of)
def test_estimates_are_marked_below_the_truth_and_close_to_it(case):
    found, truth = estimated(case), case.problem.constants
    for name in BOUNDS:
        assert found.source(name) == "estimated"
        assert (
            0.75 * getattr(truth, name)
            <= getattr(found, name)
            <= getattr(truth, name) * (1 + 1e-12)
        )
    assert (found.constraint_count, found.source("constraint_count")) == (
        truth.constraint_count,
        "exact",
    )
    assert (found.radius, found.source("radius")) == (pytest.approx(truth.radius), "exact")
    assert found.error_bound is None
    assert found.strong_convexity == pytest.approx(truth.strong_convexity, abs=1e-9)


@pytest.mark.parametrize("case", problems.PROBLEMS, ids=playing.name_of)
def test_sampled_margin_and_smoothness(case):
    found, truth = estimated(case), case.problem.constants
    if truth.slater is None:
        assert found.slater is None
    else:
        assert found.source("slater") == "estimated"
        assert 0.5 * truth.slater <= found.slater
    if case in (problems.TOY, problems.STRONG):
        assert found.constraint_smoothness is None  # flat almost everywhere, but kinked
    else:
        assert found.source("constraint_smoothness") == "estimated"
        assert found.constraint_smoothness == pytest.approx(truth.constraint_smoothness, abs=1e-9)


def test_given_entries_are_never_sampled_over():
    problem = bare(problems.TOY).with_constants(Constants(loss_lipschitz=7.0, slater=0.125))
    found = problem.estimate_constants(problems.TOY.stream(1, 30)[0], jax.random.key(0), samples=64)
    assert (found.loss_lipschitz, found.source("loss_lipschitz")) == (7.0, "given")
    assert (found.slater, found.source("slater")) == (0.125, "given")
    assert (found.loss_range, found.source("loss_range")) == (
        14.0,
        "given",
    )  # G_f, which is given, times the diameter
    assert found.source("constraint_lipschitz") == "estimated"
    assert problem.constants.constraint_lipschitz is None  # the problem itself is left alone


def test_estimates_depend_on_the_key_alone():
    problem, stream = bare(problems.MATRIX), problems.MATRIX.stream(1, 30)[0]
    first, again = (
        problem.estimate_constants(stream, jax.random.key(1), samples=64) for _ in range(2)
    )
    assert first == again
    decisions = [sample_decisions(problem.domain, jax.random.key(k), 8) for k in (1, 1, 2)]
    np.testing.assert_array_equal(decisions[0], decisions[1])
    assert not np.array_equal(decisions[0], decisions[2])


def test_an_adversary_is_sampled_too():
    problem = bare(problems.MOVING)
    found = problem.estimate_constants(
        problems.MOVING.reveal, jax.random.key(0), horizon=50, samples=128
    )
    assert found.constraint_count == 4
    assert found.loss_lipschitz == pytest.approx(1.0)
    assert found.constraint_lipschitz == pytest.approx(1.0)


def test_estimated_constants_can_tune_every_method():
    """Sampling fills all that the constructors need, apart from the smoothness that a maximum does
    not have."""
    problem = taut.max_of(bare(problems.STRONG))
    found = problem.estimate_constants(problems.STRONG.stream(2, 60), jax.random.key(0), seeds=2)
    assert found.constraint_smoothness is None
    for method in taut.LEARNERS.values():
        if "constraint_smoothness" not in method.needs:
            known = problem.with_constants(found)
            assert isinstance(
                method.build(known, 100, feasible=problems.STRONG.feasible), taut.Learner
            )


def test_numbers_that_are_not_finite_are_named():
    problem = taut.Problem(
        lambda x, c: jnp.log(x[0]) + c @ x, problems.l1_excess, taut.Ball(1.0, shape=2)
    )
    with pytest.raises(ValueError, match="loss: got a value that is not finite inside the domain"):
        problem.estimate_constants(problems.TOY.stream(1, 5)[0], jax.random.key(0), samples=32)


def test_large_decisions_are_not_asked_for_matrices():
    wide = taut.Problem(
        lambda x, c: c * jnp.sum(x**2) / 2, lambda x: jnp.sum(x) - 1, taut.Ball(1.0, shape=300)
    )
    found = wide.estimate_constants(np.ones(3), jax.random.key(0), samples=16)
    assert found.loss_lipschitz == pytest.approx(1.0)
    assert found.constraint_lipschitz == pytest.approx(300**0.5)
    assert (found.strong_convexity, found.constraint_smoothness) == (0.0, None)

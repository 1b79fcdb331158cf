"""Bad input: each mistake gets an error that names the argument, what came and what was
expected."""

import decimal
import fractions
import re
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import (
    BALL,
    CONSTANTS,
    FEASIBLE,
    GAME,
    ROUNDS,
    distance,
    outside_diamond,
    steep,
    targets,
)
from taut.engine import register_dataclass
from taut.learners import Learner, State, schedules
from taut.learners.block_frank_wolfe import BlockFrankWolfe
from taut.learners.step_experts import StepExperts

CLIPPED = taut.ClippedOGD(0.3, 5.0)
HALF_SPACE = taut.HalfSpace(0.3, 3.0)
CHUNK = 16
COMPLETE = CONSTANTS.with_values(constraint_count=1)
NOISY: dict[str, Any] = {"feedback": taut.Noisy(values=0.1), "unproven": True}


def rbg():
    return jax.random.key(0, impl="rbg")


def simulate(learner=CLIPPED, problem=GAME, stream=None, **options):
    return taut.simulate(
        learner, problem, targets() if stream is None else stream, chunk=CHUNK, **options
    )


def assert_refused(error, name, came, expected, call):
    """`call` must raise an error that names the argument, what came and what is expected, in this
    order if it says so."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    before, said, after = message.partition("expected")
    if said:
        assert message.startswith(f"{name}: "), message
        assert came in before, message
        assert expected in after, message
    else:
        assert all(part in message for part in (name, came, expected)), message


def stacked(steps, dampings):
    """Clipped-OGD with so many entries in its two parameters, as the epochs of a doubling learner
    have them."""
    return jax.tree.unflatten(jax.tree.structure(CLIPPED), [np.ones(steps), np.ones(dampings)])


def cases(table):
    """Rows (label, error, name, came, expected, call) as pytest parameters."""
    return pytest.mark.parametrize(
        ("error", "name", "came", "expected", "call"),
        [row[1:] for row in table],
        ids=[row[0] for row in table],
    )


# Numbers that are not finite: in data, loss, constraints and slopes, wherever they first appear.


def spoilt(round, value, seeds=None):
    z = targets(seeds=seeds)
    z[..., round - 1, 1] = value
    return z


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("round", [1, CHUNK, CHUNK + 1, ROUNDS])
def test_data_that_are_not_finite(value, round):
    where = f"not finite in round {round}"
    assert_refused(
        ValueError, "stream", where, "finite", lambda: simulate(stream=spoilt(round, value))
    )


def test_data_that_are_not_finite_in_one_seed_of_a_sweep():
    z = targets(seeds=3)
    z[2, 40, 0] = np.nan
    learners = [taut.ClippedOGD(eta, 5.0) for eta in (0.1, 0.2)]
    assert_refused(
        ValueError, "stream", "round 41", "finite", lambda: simulate(learners, stream=z, seeds=3)
    )


def test_data_that_are_not_finite_although_the_loss_does_not_see_them():
    problem = taut.Problem(lambda x, z: x[0] * z[0], outside_diamond, BALL)
    assert_refused(
        ValueError,
        "stream",
        "round 5",
        "finite",
        lambda: simulate(problem=problem, stream=spoilt(5, np.nan)),
    )


def test_data_after_the_horizon_are_not_looked_at():
    assert simulate(stream=spoilt(20, np.nan), horizon=19).horizon == 19


def test_data_that_do_not_fit_into_32_bits():
    z, x1 = targets(), np.zeros(2, np.float32)
    z[6, 0] = 1e39
    assert_refused(
        ValueError, "stream", "not finite in round 7", "finite", lambda: simulate(stream=z, x1=x1)
    )


def breaking_in(round):
    """Data that tell the round and the one in which the game is to break."""
    return np.stack([np.arange(1.0, ROUNDS + 1), np.full(ROUNDS, round)], axis=1)


BOX = taut.Box(-1.0, 1.0, shape=2)
BREAKS = {
    "loss": taut.Problem(lambda x, z: jnp.where(z[0] == z[1], jnp.inf, x[0]), outside_diamond, BOX),
    "constraints": taut.Problem(
        distance, lambda x, z: jnp.where(z[0] == z[1], jnp.nan, x[0] - 1), BOX
    ),
    "loss gradient": taut.Problem(
        lambda x, z: steep(x[0], (z[0] == z[1]).astype(x.dtype)), outside_diamond, BOX
    ),  # the box clips the step
}


@pytest.mark.parametrize("name", list(BREAKS))
@pytest.mark.parametrize("round", [1, 30, ROUNDS])
def test_a_game_that_breaks(name, round):
    assert_refused(
        ValueError,
        name,
        f"not finite in round {round}",
        "finite numbers",
        lambda: simulate(problem=BREAKS[name], stream=breaking_in(round)),
    )


def test_a_constraint_slope_that_is_infinite_although_a_box_clips_the_step():
    box = taut.Box(0.0, 1.0, shape=2)
    problem = taut.Problem(distance, lambda x: 0.1 - jnp.sum(jnp.sqrt(x)), box)
    stream = np.full((ROUNDS, 2), 0.5)
    assert_refused(
        ValueError,
        "loss gradient",
        "not finite in round 1",
        "gradients of loss and constraints",
        lambda: simulate(problem=problem, stream=stream, x1=[0.0, 0.0]),
    )


def test_the_norm_that_has_no_slope_at_zero():
    problem = taut.Problem(lambda x, z: jnp.linalg.norm(x), outside_diamond, BALL)
    assert_refused(
        ValueError,
        "loss gradient",
        "round 1",
        "jnp.linalg.norm, for example, has none at 0",
        lambda: simulate(problem=problem),
    )


def test_constraints_that_are_not_finite_anywhere():
    fixed = taut.Problem(distance, lambda x: jnp.log(x[0] - 10), BALL)
    assert_refused(
        ValueError,
        "constraints",
        "not finite in round 1",
        "finite",
        lambda: simulate(problem=fixed),
    )


@pytest.mark.parametrize(("seeds", "swept"), [(None, False), (2, True)])
def test_an_adversary_whose_data_are_not_finite(seeds, swept):
    def reveal(t, x, key):
        return jnp.where(t == 21, jnp.nan, x)

    learner = [CLIPPED, CLIPPED] if swept else CLIPPED
    assert_refused(
        ValueError,
        "stream",
        "not finite in round 21",
        "finite",
        lambda: simulate(learner, stream=reveal, horizon=ROUNDS, seeds=seeds),
    )


def test_totals_of_single_precision_do_not_overflow():
    problem = taut.Problem(lambda x, z: 3e38 * z[1] + 0 * x[0], outside_diamond, BALL)
    run = simulate(problem=problem, stream=breaking_in(1.0), x1=np.zeros(2, np.float32))
    assert run.loss.dtype == np.float32
    np.testing.assert_allclose(run.totals.loss, run.loss.sum(axis=1, dtype=float), rtol=1e-6)
    assert run.totals.loss.max() > np.finfo(np.float32).max


# Streams.


def chunks(make):
    return lambda: simulate(stream=make, horizon=ROUNDS)


@cases(
    [
        (
            "no rounds",
            ValueError,
            "stream",
            "0 rounds",
            "at least one",
            lambda: simulate(stream=np.zeros((0, 2))),
        ),
        (
            "no rounds, seeds",
            ValueError,
            "stream",
            "0 rounds",
            "at least one",
            lambda: simulate(stream=np.zeros((3, 0, 2)), seeds=3),
        ),
        (
            "nothing",
            ValueError,
            "stream",
            "no array",
            "arrays with one row per round",
            lambda: simulate(stream={}),
        ),
        ("a number", ValueError, "stream", "shape ()", "(round)", lambda: simulate(stream=1.0)),
        (
            "no seed axis",
            ValueError,
            "stream",
            "shape (60,)",
            "(seed, round)",
            lambda: simulate(stream=np.zeros(60), seeds=60),
        ),
        (
            "other number of seeds",
            ValueError,
            "stream",
            "3 seeds",
            "seeds=4",
            lambda: simulate(stream=targets(seeds=3), seeds=4),
        ),
        (
            "other number of rounds",
            ValueError,
            "stream",
            "[5, 6] rounds",
            "one number of rounds",
            lambda: simulate(stream=(np.zeros(5), np.zeros(6))),
        ),
        (
            "strings",
            TypeError,
            "stream",
            "type <U1",
            "real numbers",
            lambda: simulate(stream=np.array(["a", "b"])),
        ),
        (
            "objects",
            TypeError,
            "stream",
            "type object at ['a']",
            "real numbers",
            lambda: simulate(stream={"a": np.array([None, 1])}),
        ),
        (
            "complex",
            TypeError,
            "stream",
            "complex128",
            "real numbers",
            lambda: simulate(stream=np.array([1j])),
        ),
        (
            "dates",
            TypeError,
            "stream",
            "datetime64",
            "real numbers",
            lambda: simulate(stream=np.array(["2018-04-24"], "datetime64[D]")),
        ),
        (
            "too wide for the loss",
            ValueError,
            "stream",
            "data z of shape (3,)",
            "x of shape (2,)",
            lambda: simulate(stream=np.zeros((5, 3))),
        ),
        (
            "seeds not announced",
            ValueError,
            "loss",
            "shape (60,)",
            "seeds=",
            lambda: simulate(
                problem=taut.Problem(lambda x, c: c @ x, outside_diamond, BALL),
                stream=targets(seeds=3),
            ),
        ),
        (
            "no arguments",
            TypeError,
            "stream",
            "0 required arguments",
            "chunk(start, length)",
            lambda: simulate(stream=lambda: 0, horizon=5),
        ),
        (
            "four arguments",
            TypeError,
            "stream",
            "4 required arguments",
            "taut.adversary(reveal, state)",
            lambda: simulate(stream=lambda a, b, c, d: 0, horizon=5),
        ),
        (
            "short chunk",
            ValueError,
            "stream",
            "shape (15, 2)",
            "(16,)",
            chunks(lambda start, length: np.zeros((max(1, length - 1), 2))),
        ),
        (
            "chunk of strings",
            TypeError,
            "stream",
            "type <U1",
            "real numbers",
            chunks(lambda start, length: np.full(length, "a")),
        ),
        (
            "empty chunk",
            ValueError,
            "stream",
            "no array",
            "leading axes (1,)",
            chunks(lambda start, length: ()),
        ),
        (
            "chunk that grows",
            ValueError,
            "stream",
            "[3] for a round after round 16",
            "float64[2]",
            chunks(lambda start, length: np.zeros((length, 2 if start < 16 else 3))),
        ),
        (
            "chunk of another type",
            ValueError,
            "stream",
            "int64[2]",
            "float64[2]",
            chunks(lambda start, length: np.zeros((length, 2), float if start < 16 else int)),
        ),
        (
            "chunk of another structure",
            ValueError,
            "stream",
            "for a round after round 16",
            "float64[2]",
            chunks(
                lambda start, length: (
                    np.zeros((length, 2)) if start < 16 else [np.zeros((length, 2))]
                )
            ),
        ),
        (
            "chunk without seeds",
            ValueError,
            "stream",
            "shape (1, 2)",
            "(2, 1)",
            lambda: simulate(
                stream=lambda start, length: np.zeros((length, 2)), horizon=5, seeds=2
            ),
        ),
        (
            "failing adversary",
            ValueError,
            "stream",
            "reveal(round, decision, key) raised AttributeError",
            "decision of shape (2,)",
            lambda: simulate(stream=lambda t, x, key: x.no_such_thing, horizon=5),
        ),
        (
            "adversary of a wrong shape",
            ValueError,
            "stream",
            "shape (3,)",
            "loss(x, z) raised",
            lambda: simulate(stream=lambda t, x, key: jnp.zeros(3), horizon=5),
        ),
    ]
)
def test_streams(error, name, came, expected, call):
    assert_refused(error, name, came, expected, call)


def test_whole_numbers_beyond_32_bits():
    which = np.array([1, 2**31])
    problem = taut.Problem(lambda x, z: x[0] * z, outside_diamond, BALL)
    with jax.enable_x64(False):
        assert_refused(
            ValueError,
            "stream",
            "whole numbers beyond int32",
            "jax_enable_x64",
            lambda: simulate(problem=problem, stream=which),
        )


# Arguments of simulate.


@register_dataclass
@dataclass(frozen=True)
class Shaped(Learner):
    weights: Any

    def init(self, x1, count):
        return State(x1, jnp.asarray(1, jnp.int32))

    def step(self, state, round):
        return state


@dataclass(frozen=True)
class Unregistered(Shaped):
    pass


MIXED = [CLIPPED, taut.DriftPlusPenalty(1.0, 1.0)]
SCHEDULES = [CLIPPED, taut.ClippedOGD(schedules.InverseRoot(0.1), 5.0)]


@cases(
    [
        ("horizon 0", ValueError, "horizon", "0", "at least 1", lambda: simulate(horizon=0)),
        (
            "horizon 0 of a stream",
            ValueError,
            "horizon",
            "0",
            "at least 1",
            lambda: simulate(stream=simulate().stream, horizon=0),
        ),
        (
            "negative horizon",
            ValueError,
            "horizon",
            "-5",
            "at least 1",
            lambda: simulate(horizon=-5),
        ),
        (
            "fractional horizon",
            TypeError,
            "horizon",
            "2.5",
            "whole number",
            lambda: simulate(horizon=2.5),
        ),
        (
            "horizon too long",
            ValueError,
            "horizon",
            "61",
            "at most the 60 rounds",
            lambda: simulate(horizon=61),
        ),
        (
            "horizon too long for a stream",
            ValueError,
            "horizon",
            "61",
            "at most the 60 rounds",
            lambda: simulate(stream=simulate().stream, horizon=61),
        ),
        (
            "horizon beyond counting",
            ValueError,
            "horizon",
            "2147483648",
            "32 bits",
            lambda: simulate(stream=lambda start, length: np.zeros((length, 2)), horizon=2**31),
        ),
        (
            "function without horizon",
            ValueError,
            "horizon",
            "stream is a function",
            "horizon=1000",
            lambda: simulate(stream=lambda start, length: np.zeros((length, 2))),
        ),
        ("no seeds", ValueError, "seeds", "0", "at least 1", lambda: simulate(seeds=0)),
        ("negative seeds", ValueError, "seeds", "-3", "at least 1", lambda: simulate(seeds=-3)),
        (
            "fractional seeds",
            TypeError,
            "seeds",
            "1.5",
            "whole number",
            lambda: simulate(seeds=1.5),
        ),
        ("seeds as text", TypeError, "seeds", "'2'", "whole number", lambda: simulate(seeds="2")),
        (
            "seeds as truth",
            TypeError,
            "seeds",
            "True",
            "whole number",
            lambda: simulate(seeds=True),
        ),
        (
            "seeds of a stream",
            ValueError,
            "seeds",
            "2",
            "1, as the stream has",
            lambda: simulate(stream=simulate().stream, seeds=2),
        ),
        ("every 0", ValueError, "every", "0", "at least 1", lambda: simulate(every=0)),
        (
            "chunk 0",
            ValueError,
            "chunk",
            "0",
            "at least 1",
            lambda: taut.simulate(CLIPPED, GAME, targets(), chunk=0),
        ),
        (
            "record",
            ValueError,
            "record",
            "'regret'",
            "'loss', 'excess'",
            lambda: simulate(record=("loss", "regret")),
        ),
        ("key", TypeError, "key", "42", "jax.random.key", lambda: simulate(key=42)),
        (
            "key kind",
            ValueError,
            "key",
            "'rbg'",
            "threefry2x32",
            lambda: simulate(key=rbg(), **NOISY),
        ),
        (
            "key kind live",
            ValueError,
            "key",
            "'rbg'",
            "threefry2x32",
            lambda: taut.Player(CLIPPED, GAME, key=rbg(), **NOISY),
        ),
        (
            "keys",
            TypeError,
            "key",
            "Array((2,)",
            "one key",
            lambda: simulate(key=jax.random.split(jax.random.key(0))),
        ),
        (
            "no problem",
            TypeError,
            "problem",
            "distance",
            "taut.Problem",
            lambda: simulate(problem=distance),
        ),
        (
            "no score",
            TypeError,
            "score",
            "distance",
            "taut.Problem",
            lambda: simulate(score=distance),
        ),
        (
            "score of another shape",
            ValueError,
            "score",
            "shape (3,)",
            "(2,)",
            lambda: simulate(
                score=taut.Problem(distance, outside_diamond, taut.Ball(1.0, shape=3))
            ),
        ),
        (
            "x1 of another shape",
            ValueError,
            "x1",
            "shape (3,)",
            "(2,)",
            lambda: simulate(x1=np.zeros(3)),
        ),
        (
            "x1 not finite",
            ValueError,
            "x1",
            "nan at index (1,)",
            "finite",
            lambda: simulate(x1=[0.0, np.nan]),
        ),
        ("x1 outside", ValueError, "x1", "[3. 0.]", "inside", lambda: simulate(x1=[3.0, 0.0])),
        ("x1 as text", TypeError, "x1", "<U", "real numbers", lambda: simulate(x1=["a", "b"])),
        ("no learner", TypeError, "learner", "3", "taut learner", lambda: simulate(3)),
        (
            "no such name",
            ValueError,
            "learner",
            "'clipped'",
            "clipped-ogd",
            lambda: simulate("clipped"),
        ),
        (
            "a class",
            TypeError,
            "learner",
            "ClippedOGD",
            "taut learner",
            lambda: simulate(taut.ClippedOGD),
        ),
        ("no learners", TypeError, "learner", "[]", "taut learner", lambda: simulate([])),
        (
            "mixed learners",
            TypeError,
            "learner",
            "got ClippedOGD and DriftPlusPenalty",
            "taut.sweep",
            lambda: simulate(MIXED),
        ),
        (
            "mixed schedules",
            TypeError,
            "learner",
            "2 different structures of ClippedOGD",
            "schedules",
            lambda: simulate(SCHEDULES),
        ),
        (
            "mixed shapes",
            TypeError,
            "learner",
            "2 different structures of Shaped",
            "same shapes",
            lambda: simulate([Shaped(np.zeros(2)), Shaped(np.zeros(3))]),
        ),
        (
            "no pytree",
            TypeError,
            "Unregistered",
            "not registered",
            "@taut.learner_dataclass",
            lambda: simulate(Unregistered(1.0)),
        ),
    ]
)
def test_arguments_of_simulate(error, name, came, expected, call):
    assert_refused(error, name, came, expected, call)


# Problems.


def infeasible():
    return taut.Problem(distance, lambda x: jnp.sum(x**2) + 0.25, BALL)


def played_with(loss=distance, constraints=outside_diamond):
    return lambda: simulate(problem=taut.Problem(loss, constraints, BALL))


@cases(
    [
        (
            "loss",
            TypeError,
            "loss",
            "1.0",
            "function",
            lambda: taut.Problem(1.0, outside_diamond, BALL),
        ),
        (
            "constraints",
            TypeError,
            "constraints",
            "None",
            "function",
            lambda: taut.Problem(distance, None, BALL),
        ),
        (
            "constraints of three",
            TypeError,
            "constraints",
            "3 required arguments",
            "one (x) or two (x, z)",
            lambda: taut.Problem(distance, lambda x, y, z: x, BALL),
        ),
        (
            "domain",
            TypeError,
            "domain",
            "1.0",
            "taut domain",
            lambda: taut.Problem(distance, outside_diamond, 1.0),
        ),
        (
            "constants",
            TypeError,
            "constants",
            "{}",
            "taut.Constants",
            lambda: taut.Problem(distance, outside_diamond, BALL, {}),
        ),
        (
            "vector loss",
            ValueError,
            "loss",
            "shape (2,)",
            "scalar",
            played_with(loss=lambda x, z: x - z),
        ),
        (
            "complex loss",
            TypeError,
            "loss",
            "complex128",
            "real number",
            played_with(loss=lambda x, z: 1j * x[0]),
        ),
        (
            "loss of truth",
            TypeError,
            "loss",
            "bool",
            "real number",
            played_with(loss=lambda x, z: x[0] > 0),
        ),
        (
            "no constraint",
            ValueError,
            "constraints",
            "no number",
            "scalar or a vector",
            played_with(constraints=lambda x: []),
        ),
        (
            "infeasible",
            ValueError,
            "constraints",
            "max_i g_i(x) >= 0.25",
            "g(x) <= 0",
            lambda: simulate(problem=infeasible()),
        ),
        (
            "infeasible live",
            ValueError,
            "constraints",
            "max_i g_i(x) >= 0.25",
            "g(x) <= 0",
            lambda: taut.Player(CLIPPED, infeasible()).observe(np.zeros(2)),
        ),
        (
            "contradiction",
            ValueError,
            "constraints",
            "max_i g_i(x) >= 0.05",
            "g(x) <= 0",
            played_with(constraints=lambda x: jnp.stack([x[0] - 0.5, 0.6 - x[0]])),
        ),
        (
            "tiny units",
            ValueError,
            "constraints",
            "max_i g_i(x) >= 2.5e-10",
            "g(x) <= 0",
            played_with(constraints=lambda x: 1e-9 * (jnp.sum(x**2) + 0.25)),
        ),
    ]
)
def test_problems(error, name, came, expected, call):
    assert_refused(error, name, came, expected, call)


@pytest.mark.parametrize(
    "constraints",
    [
        lambda x: jnp.sum((x - 0.3) ** 2),  # one feasible decision
        lambda x: jnp.stack([x[0] - 0.5, 0.5 - x[0]]),  # an equality
        lambda x: 1e9 * (jnp.max(jnp.abs(x - 0.3)) - 1e-3),  # large units
        lambda x: jnp.linalg.norm(x) - 0.5,  # no slope at the centre
    ],
    ids=["point", "equality", "large units", "kink"],
)
def test_problems_that_are_barely_feasible_are_played(constraints):
    taut.problem.feasibility.check_feasible(taut.Problem(distance, constraints, BALL))


# Parameters of learners.

NOT_POSITIVE = [0, -1.0, float("nan"), float("inf"), np.array(-2.0), "a", None, True]
POSITIVE_FIELDS = {
    "ClippedOGD eta": ("eta", lambda value: taut.ClippedOGD(value, 1.0)),
    "ClippedOGD sigma": ("sigma", lambda value: taut.ClippedOGD(1.0, value)),
    "SaddlePoint eta": ("eta", lambda value: taut.SaddlePoint(value, 1.0, 1.0)),
    "SaddlePoint mu": ("mu", lambda value: taut.SaddlePoint(1.0, value, 1.0)),
    "SaddlePoint theta": ("theta", lambda value: taut.SaddlePoint(1.0, 1.0, value)),
    "ProjectedOGD eta": ("eta", lambda value: taut.ProjectedOGD(value, FEASIBLE)),
    "DriftPlusPenalty penalty": ("penalty", lambda value: taut.DriftPlusPenalty(value, 1.0)),
    "DriftPlusPenalty proximity": ("proximity", lambda value: taut.DriftPlusPenalty(1.0, value)),
    "Constant value": ("value", schedules.Constant),
    "InverseRoot scale": ("scale", schedules.InverseRoot),
    "Inverse scale": ("scale", schedules.Inverse),
    "Power scale": ("scale", schedules.Power),
}


@pytest.mark.parametrize("value", NOT_POSITIVE, ids=repr)
@pytest.mark.parametrize("field", list(POSITIVE_FIELDS))
def test_parameters_that_are_not_positive(field, value):
    name, make = POSITIVE_FIELDS[field]
    with pytest.raises((ValueError, TypeError)) as caught:
        make(value)
    message = str(caught.value)
    assert re.match(rf"{name}: got .*; expected a (positive|finite real) number", message), message


# Tuned constructors.

TUNED = {
    "ClippedOGD.tuned": taut.ClippedOGD.tuned,
    "SaddlePoint.mahdavi": taut.SaddlePoint.mahdavi,
    "DriftPlusPenalty.tuned": taut.DriftPlusPenalty.tuned,
    "ProjectedOGD.zinkevich": lambda constants, horizon: taut.ProjectedOGD.zinkevich(
        constants, FEASIBLE, horizon
    ),
}
WITH_BETA = {
    "ClippedOGD.tuned": lambda beta: taut.ClippedOGD.tuned(COMPLETE, 100, beta=beta),
    "SaddlePoint.jenatton": lambda beta: taut.SaddlePoint.jenatton(COMPLETE, beta=beta),
    "SaddlePoint.jenatton_strongly_convex": lambda beta: taut.SaddlePoint.jenatton_strongly_convex(
        COMPLETE, beta
    ),
}


@pytest.mark.parametrize("constructor", list(TUNED))
@pytest.mark.parametrize("horizon", [0, -1, 2.5, "10", True])
def test_horizons_to_tune_for(constructor, horizon):
    error = ValueError if horizon in (0, -1) and horizon is not True else TypeError
    assert_refused(
        error,
        "horizon",
        str(horizon),
        "whole number of at least 1",
        lambda: TUNED[constructor](COMPLETE, horizon),
    )


@pytest.mark.parametrize("constructor", list(WITH_BETA))
@pytest.mark.parametrize("beta", [0, 1, -0.5, 1.5, float("nan"), float("inf"), "a", None])
def test_beta_outside_zero_to_one(constructor, beta):
    error = TypeError if beta in ("a", None) else ValueError
    expected = (
        "strictly between 0 and 1"
        if isinstance(beta, (int, float)) and abs(beta) < 2
        else "finite real number"
    )
    assert_refused(error, "beta", str(beta), expected, lambda: WITH_BETA[constructor](beta))


SHIFTED = {
    "inverse root": lambda shift: schedules.InverseRoot(0.1, shift),
    "inverse": lambda shift: schedules.Inverse(0.1, shift),
    "power": lambda shift: schedules.Power(0.1, shift, 0.7),
    "power, short": lambda shift: schedules.power(0.1, 0.7, shift),
    "reciprocal": lambda shift: schedules.Reciprocal(schedules.Constant(0.1), shift),
}


@pytest.mark.parametrize("schedule", list(SHIFTED))
@pytest.mark.parametrize(
    ("shift", "error", "came", "expected"),
    [
        (-1, ValueError, "-1", "above -1"),
        (-2.5, ValueError, "-2.5", "above -1"),
        (np.array([0.0, 1.0]), TypeError, "an array of shape (2,)", "above -1"),
        (fractions.Fraction(1, 3), TypeError, "Fraction(1, 3)", "above -1: float(shift) is one"),
        (float("nan"), ValueError, "nan", "finite real number"),
        ("1", TypeError, "'1'", "above -1"),
        (None, TypeError, "None", "above -1"),
        ([1.0], TypeError, "[1.0]", "above -1"),
        (True, TypeError, "True", "above -1"),
        (abs, TypeError, "abs", "above -1"),
        (1j, TypeError, "1j", "finite real number"),
    ],
)
def test_shifts_that_leave_no_round(schedule, shift, error, came, expected):
    assert_refused(error, "shift", came, expected, lambda: SHIFTED[schedule](shift))


@pytest.mark.parametrize("schedule", list(SHIFTED))
def test_shifts_above_minus_one_are_fine(schedule):
    for shift in (-0.5, 0, 3, np.float32(2.0), np.array(1.0)):
        assert SHIFTED[schedule](shift).shift is shift


@cases(
    [
        (
            "endless exponent",
            ValueError,
            "exponent",
            "inf",
            "finite real number",
            lambda: schedules.Power(0.1, exponent=float("inf")),
        ),
        (
            "no exponent",
            TypeError,
            "exponent",
            "None",
            "finite real number",
            lambda: schedules.Power(0.1, exponent=None),
        ),
        (
            "exponent in words",
            TypeError,
            "exponent",
            "'half'",
            "finite real",
            lambda: schedules.power(0.1, "half"),
        ),
        (
            "complex exponent",
            TypeError,
            "exponent",
            "1j",
            "finite real",
            lambda: schedules.Power(0.1, 0.0, np.array(1j)),
        ),
        (
            "scale beside an exponent",
            ValueError,
            "scale",
            "-1",
            "positive",
            lambda: schedules.Power(-1),
        ),
        (
            "reciprocal of nothing",
            TypeError,
            "of",
            "None",
            "positive number or a schedule",
            lambda: schedules.Reciprocal(None),
        ),
        (
            "reciprocal of zero",
            ValueError,
            "of",
            "0",
            "positive number",
            lambda: schedules.Reciprocal(0.0),
        ),
        (
            "reciprocal of a function",
            TypeError,
            "of",
            "abs",
            "a schedule",
            lambda: schedules.Reciprocal(abs),
        ),
        (
            "step by a function",
            TypeError,
            "eta",
            "abs",
            "a schedule",
            lambda: taut.ClippedOGD(abs, 5.0),
        ),
        (
            "schedule for a number",
            TypeError,
            "sigma",
            "Constant",
            "positive number",
            lambda: taut.ClippedOGD(0.1, schedules.Constant(5.0)),
        ),
        (
            "JAX's numbers",
            ValueError,
            "eta",
            "-1",
            "positive",
            lambda: taut.ClippedOGD(jnp.asarray(-1.0), 5.0),
        ),
    ]
)
def test_schedules(error, name, came, expected, call):
    assert_refused(error, name, came, expected, call)


def without(*names):
    """The constants without H and some others."""
    known = {
        "radius",
        "loss_lipschitz",
        "constraint_lipschitz",
        "constraint_range",
        "constraint_count",
    }
    return taut.Constants(**{name: getattr(COMPLETE, name) for name in known - {*names}})


FLAT = COMPLETE.with_values(constraint_lipschitz=0.0)
STILL = COMPLETE.with_values(loss_lipschitz=0.0)
MANY = COMPLETE.with_values(constraint_count=2)


@cases(
    [
        (
            "alpha",
            ValueError,
            "alpha",
            "1",
            "between 0 and 1",
            lambda: taut.ClippedOGD.tuned(COMPLETE, 9, alpha=1),
        ),
        (
            "alpha, anytime",
            ValueError,
            "alpha",
            "0",
            "strictly between 0 and 1",
            lambda: taut.ClippedOGD.anytime(COMPLETE, alpha=0),
        ),
        (
            "rule",
            ValueError,
            "rule",
            "'best'",
            "'scale-aware', 'paper'",
            lambda: taut.ClippedOGD.tuned(COMPLETE, 9, rule="best"),
        ),
        (
            "rule, strong",
            ValueError,
            "rule",
            "'bound-optimal'",
            "'scale-aware', 'paper'",
            lambda: taut.ClippedOGD.strongly_convex(COMPLETE, rule="bound-optimal"),
        ),
        (
            "weight",
            ValueError,
            "weight",
            "-1",
            "positive",
            lambda: taut.ClippedOGD.tuned(COMPLETE, 9, rule="bound-optimal", weight=-1),
        ),
        (
            "flat constraints",
            ValueError,
            "constraint_lipschitz",
            "0",
            "positive",
            lambda: taut.ClippedOGD.tuned(FLAT, 9),
        ),
        (
            "flat, strong",
            ValueError,
            "constraint_lipschitz",
            "0",
            "positive",
            lambda: taut.ClippedOGD.strongly_convex(FLAT),
        ),
        (
            "flat, anytime",
            ValueError,
            "constraint_lipschitz",
            "0",
            "positive",
            lambda: taut.ClippedOGD.anytime(FLAT),
        ),
        (
            "still losses",
            ValueError,
            "loss_lipschitz",
            "0",
            "positive",
            lambda: taut.ClippedOGD.tuned(STILL, 9),
        ),
        (
            "still, anytime",
            ValueError,
            "loss_lipschitz",
            "0",
            "positive",
            lambda: taut.ClippedOGD.anytime(STILL),
        ),
        (
            "still, projected",
            ValueError,
            "loss_lipschitz",
            "0",
            "positive",
            lambda: taut.ProjectedOGD.zinkevich(STILL, FEASIBLE),
        ),
        (
            "unknown radius",
            ValueError,
            "constants",
            "radius (R) unknown",
            "taut.Constants",
            lambda: taut.ClippedOGD.tuned(without("radius"), 9),
        ),
        (
            "unknown slopes",
            ValueError,
            "constants",
            "(G_f), constraint_lipschitz (G_g) unknown",
            "estimate_",
            lambda: taut.SaddlePoint.mahdavi(without("loss_lipschitz", "constraint_lipschitz"), 9),
        ),
        (
            "not strongly convex",
            ValueError,
            "constants",
            "strong_convexity (H) unknown",
            "taut.Constants",
            lambda: taut.ClippedOGD.strongly_convex(without()),
        ),
        (
            "not strongly convex, saddle point",
            ValueError,
            "constants",
            "strong_convexity (H) unknown",
            "taut.Constants",
            lambda: taut.SaddlePoint.jenatton_strongly_convex(without()),
        ),
        (
            "not strongly convex, projected",
            ValueError,
            "constants",
            "strong_convexity (H) unknown",
            "taut.Constants",
            lambda: taut.ProjectedOGD.strongly_convex(without(), FEASIBLE),
        ),
        (
            "several constraints",
            ValueError,
            "constraint_count",
            "2",
            "1, because",
            lambda: taut.SaddlePoint.jenatton(MANY),
        ),
        (
            "short horizon",
            ValueError,
            "horizon",
            "1",
            "at least",
            lambda: taut.SaddlePoint.mahdavi(COMPLETE, 1),
        ),
        (
            "feasible set",
            TypeError,
            "feasible",
            "'diamond'",
            "taut domain",
            lambda: taut.ProjectedOGD.zinkevich(COMPLETE, "diamond"),
        ),
        (
            "registry without feasible set",
            ValueError,
            "feasible",
            "None",
            "domain",
            lambda: taut.LEARNERS["projected-ogd"].build(COMPLETE, 9, feasible=None),
        ),
        (
            "doubling nothing",
            TypeError,
            "make",
            "3",
            "function of the horizon",
            lambda: taut.Doubling.of(3),
        ),
        (
            "doubling from below",
            ValueError,
            "first",
            "-1",
            "at least 0",
            lambda: taut.Doubling.of(lambda h: CLIPPED, first=-1),
        ),
        (
            "doubling two kinds",
            TypeError,
            "make",
            "different kinds",
            "one kind",
            lambda: taut.Doubling.of(lambda horizon: MIXED[horizon > 8]),
        ),
        (
            "doubling from beyond",
            ValueError,
            "first",
            "31",
            "at most 30",
            lambda: taut.Doubling.of(lambda h: CLIPPED, first=31),
        ),
        (
            "doubling no learner",
            TypeError,
            "make",
            "0.5",
            "returns a learner",
            lambda: taut.Doubling.of(lambda h: 0.5),
        ),
        (
            "epochs of nothing",
            TypeError,
            "epochs",
            "None",
            "taut.Doubling.of",
            lambda: taut.Doubling(None, 0),
        ),
        (
            "epochs of a number",
            TypeError,
            "epochs",
            "0.1",
            "a learner, stacked",
            lambda: taut.Doubling(0.1, 0),
        ),
        (
            "epochs not stacked",
            ValueError,
            "epochs",
            ".eta.value has shape ()",
            "31 epochs",
            lambda: taut.Doubling(CLIPPED, 0),
        ),
        (
            "too few epochs",
            ValueError,
            "epochs",
            ".sigma has shape (30,)",
            "leading axis of 31 epochs",
            lambda: taut.Doubling(stacked(31, 30), 0),
        ),
        (
            "epochs from below",
            ValueError,
            "first",
            "-2",
            "at least 0",
            lambda: taut.Doubling(stacked(31, 31), -2),
        ),
        (
            "one step per coordinate",
            TypeError,
            "eta",
            "an array of shape (2,)",
            "one for all coordinates",
            lambda: taut.ClippedOGD(np.array([0.1, 0.9]), 4.0),
        ),
        (
            "a damping per constraint",
            TypeError,
            "sigma",
            "an array of shape (1,)",
            "a positive number",
            lambda: taut.ClippedOGD(0.1, jnp.array([4.0])),
        ),
        (
            "a fraction as a step",
            TypeError,
            "eta",
            "Fraction(1, 3)",
            "float(eta) is one",
            lambda: taut.ClippedOGD(fractions.Fraction(1, 3), 4.0),
        ),
        (
            "a decimal as a parameter",
            TypeError,
            "sigma",
            "Decimal('4')",
            "float(sigma) is one",
            lambda: taut.ClippedOGD(0.1, decimal.Decimal(4)),
        ),
        (
            "a truth value as a step",
            TypeError,
            "eta",
            "True",
            "a schedule",
            lambda: taut.ClippedOGD(np.bool_(True), 4.0),
        ),
        (
            "a random key as a step",
            TypeError,
            "eta",
            "Array",
            "a schedule",
            lambda: taut.ClippedOGD(jax.random.key(0), 4.0),
        ),
        (
            "an answer in words",
            TypeError,
            "clipped",
            "'no'",
            "True or False",
            lambda: taut.SaddlePoint(0.1, 0.1, 0.1, clipped="no"),
        ),
        (
            "jointly",
            TypeError,
            "joint",
            "'no'",
            "True or False",
            lambda: taut.HalfSpace(0.1, 2.0, joint="no"),
        ),
        (
            "jointly, tuned",
            TypeError,
            "joint",
            "1",
            "True or False",
            lambda: taut.HalfSpace.adaptive(taut.Ball(1.0, shape=2), joint=1),
        ),
        (
            "warm",
            TypeError,
            "warm",
            "'no'",
            "True or False",
            lambda: taut.Doubling.of(lambda T: taut.ClippedOGD(1 / T, 4.0), warm="no"),
        ),
        (
            "cuts",
            TypeError,
            "cuts",
            "'no'",
            "True or False",
            lambda: StepExperts(0.1, 0.1, 1.0, cuts="no"),
        ),
        (
            "a margin below zero",
            ValueError,
            "margin",
            "-1",
            "not negative",
            lambda: taut.HalfSpace(0.1, 2.0, margin=np.float64(-1.0)),
        ),
        (
            "half a block",
            TypeError,
            "block",
            "2.5",
            "whole number",
            lambda: BlockFrankWolfe(0.1, 0.1, 2.5),
        ),
        (
            "no constants",
            TypeError,
            "constants",
            "None",
            "taut.Constants",
            lambda: taut.ClippedOGD.tuned(None, 100),
        ),
        (
            "constants below zero",
            ValueError,
            "loss_lipschitz",
            "-1",
            "not negative",
            lambda: taut.Constants(loss_lipschitz=-1),
        ),
        ("no radius", ValueError, "radius", "0", "positive", lambda: taut.Constants(radius=0)),
        (
            "no constraints",
            ValueError,
            "constraint_count",
            "0",
            "at least 1",
            lambda: taut.Constants(constraint_count=0),
        ),
    ]
)
def test_constructors(error, name, came, expected, call):
    assert_refused(error, name, came, expected, call)


@pytest.mark.parametrize(
    "name", [name for name, method in taut.LEARNERS.items() if method.needs_horizon]
)
def test_registered_methods_refuse_a_horizon_of_zero(name):
    assert_refused(
        ValueError,
        "horizon",
        "0",
        "at least 1",
        lambda: taut.LEARNERS[name].build(GAME, 0, feasible=FEASIBLE),
    )


# Estimates.


@cases(
    [
        (
            "samples",
            ValueError,
            "samples",
            "0",
            "at least 1",
            lambda: GAME.estimate_constants(targets(), jax.random.key(0), samples=0),
        ),
        (
            "stream",
            ValueError,
            "stream",
            "shape (3,)",
            "loss(x, z) raised",
            lambda: GAME.estimate_constants(np.zeros((5, 3)), jax.random.key(0), samples=4),
        ),
        (
            "data",
            ValueError,
            "stream",
            "not finite",
            "finite",
            lambda: GAME.estimate_constants(np.full((5, 2), np.nan), jax.random.key(0), samples=4),
        ),
    ]
)
def test_estimates(error, name, came, expected, call):
    assert_refused(error, name, came, expected, call)


MASKED = np.ma.masked_array(np.zeros((5, 2)), mask=np.eye(5, 2, dtype=bool))


@cases(
    [
        (
            "masked stream",
            TypeError,
            "stream",
            "masked array",
            ".filled(value)",
            lambda: simulate(stream=MASKED),
        ),
        (
            "masked chunk",
            TypeError,
            "stream",
            "masked array",
            ".filled(value)",
            lambda: simulate(
                stream=lambda start, length: MASKED[start : start + length], horizon=5
            ),
        ),
        (
            "masked x1",
            TypeError,
            "x1",
            "masked array",
            ".filled(value)",
            lambda: simulate(x1=MASKED[0]),
        ),
        (
            "masked observation",
            TypeError,
            "z",
            "masked array",
            ".filled(value)",
            lambda: taut.Player(CLIPPED, GAME).observe(MASKED[0]),
        ),
        (
            "masked gradient",
            TypeError,
            "gradient",
            "masked array",
            ".filled(value)",
            lambda: taut.Player(CLIPPED, GAME).observe(
                gradient=MASKED[0], excess=0.0, jacobian=np.zeros(2)
            ),
        ),
        (
            "complex constraints",
            TypeError,
            "constraints",
            "complex values",
            "real numbers",
            lambda: taut.Problem(distance, lambda x: x + 1j, BALL),
        ),
        (
            "complex announced constraints",
            TypeError,
            "announced",
            "complex values",
            "real numbers",
            lambda: taut.Problem(distance, None, BALL, announced=lambda x: x + 1j),
        ),
        (
            "complex announced constraints in a simulation",
            TypeError,
            "announced",
            "complex values",
            "real numbers",
            lambda: simulate(
                HALF_SPACE, taut.Problem(distance, None, BALL, announced=lambda x, z: x + 1j * z)
            ),
        ),
        (
            "complex announced constraints of a player",
            TypeError,
            "announced",
            "complex values",
            "real numbers",
            lambda: taut.Player(
                HALF_SPACE, taut.Problem(distance, None, BALL, announced=lambda x, z: x + 1j)
            ),
        ),
        (
            "complex announced data of a player",
            TypeError,
            "announced",
            "complex values",
            "real numbers",
            lambda: taut.Player(
                HALF_SPACE,
                taut.Problem(distance, None, BALL, announced=lambda x, z: x + 1j * z),
                announced_count=2,
            ).announce(np.zeros(2)),
        ),
        (
            "ragged x1",
            TypeError,
            "x1",
            "not an array",
            "real numbers",
            lambda: simulate(x1=[[1.0], [1.0, 2.0]]),
        ),
        ("no record", TypeError, "record", "None", "'loss'", lambda: simulate(record=None)),
        (
            "no problem to take the maximum of",
            TypeError,
            "problem",
            "3",
            "taut.Problem",
            lambda: taut.max_of(3),
        ),
        (
            "no problem to tighten",
            TypeError,
            "problem",
            "None",
            "taut.Problem",
            lambda: taut.tightened(None, 0.1),
        ),
        (
            "marks that are no names",
            ValueError,
            "estimated",
            "'radii'",
            "radius",
            lambda: taut.Constants(estimated={"radii"}),
        ),
        (
            "marks that are text",
            ValueError,
            "estimated",
            "'radius'",
            "radius",
            lambda: taut.Constants(estimated="radius"),
        ),
        (
            "marks that are a flag",
            ValueError,
            "exact",
            "True",
            "radius",
            lambda: taut.Constants(exact=True),
        ),
    ]
)
def test_what_was_wrong_in_silence(error, name, came, expected, call):
    assert_refused(error, name, came, expected, call)


def test_masks_without_a_masked_entry_are_ignored():
    plain = simulate(stream=targets())
    np.testing.assert_array_equal(simulate(stream=np.ma.masked_array(targets())).loss, plain.loss)


def test_data_beyond_the_range_of_squares_are_no_silent_zero():
    """A float32 simulation with data of 1e38 ended with decisions of 0 and a loss of 0."""
    problem = taut.Problem(lambda x, z: jnp.sum(x * z), outside_diamond, BALL)
    with pytest.raises(ValueError, match="not finite in round"):
        taut.simulate(
            CLIPPED, problem, np.full((3, 2), 3e38, np.float32), x1=np.zeros(2, np.float32)
        )

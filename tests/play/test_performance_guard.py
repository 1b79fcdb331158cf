"""What makes games fast must stay: not timed, but read from the compiled code of the reference
problems."""

from __future__ import annotations

import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.compiled import operations, parsed, text_of

import taut
import taut.play.loop
from taut.engine import OPTION

D = 10


def toy():
    known = taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=2**0.5, constraint_range=1.0)
    problem = taut.Problem(
        lambda x, c: c @ x, lambda x: jnp.sum(jnp.abs(x)) - 1, taut.Ball(1.0, shape=2), known
    )
    return problem, (2,)


def doubly_stochastic():
    def constraints(x):
        rows, columns = jnp.sum(x, 1) - 1, jnp.sum(x, 0) - 1
        return rows, -rows, columns, -columns, -x

    known = taut.Constants(loss_lipschitz=2 * D**0.5, constraint_lipschitz=D**0.5)
    problem = taut.Problem(
        lambda x, y: 0.5 * jnp.sum((x - y) ** 2),
        constraints,
        taut.Ball(D**0.5, shape=(D, D)),
        known,
    )
    return taut.max_of(problem), (D, D)


def dispatch():
    a, b = np.array([0.2, 0.12, 0.14]), np.array([1.5, 1.0, 0.6])
    emission, limit = np.array([0.26, 0.38, 0.37]), np.array([20.0, 15.0, 18.0])
    problem = taut.Problem(
        lambda x, demand: jnp.sum((0.5 * a * x + b) * x) + 0.5 * (jnp.sum(x) - demand) ** 2,
        lambda x: (jnp.sum(emission * x * x) - 100, -x, x - limit),
        taut.Ball(30.0, shape=3),
        taut.Constants(loss_lipschitz=100.0, constraint_lipschitz=23.0),
    )
    return taut.max_of(problem), ()


def logistic():
    known = taut.Constants(loss_lipschitz=2.0, constraint_lipschitz=1.0, constraint_range=10.0)
    problem = taut.Problem(
        lambda x, z: jnp.logaddexp(0.0, -jnp.vdot(z, x)),
        lambda x: jnp.sqrt(1e-16 + jnp.sum(x * x, axis=-1)) - 0.5,
        taut.Ball(4.0, shape=(20, 5)),
        known,
    )
    return problem, (20, 5)


GAMES = {
    "toy": toy,
    "doubly stochastic": doubly_stochastic,
    "dispatch": dispatch,
    "logistic": logistic,
}
# Operations of a round when this was written, plus two: a few more are no harm, many more are a
# lost fusion.
LIMITS = {
    ("toy", 1): 19,
    ("toy", 10): 20,
    ("doubly stochastic", 1): 26,
    ("doubly stochastic", 10): 27,
    ("dispatch", 1): 22,
    ("dispatch", 10): 25,
    ("logistic", 1): 25,
    ("logistic", 10): 26,
}


@pytest.fixture(scope="module")
def compiled():
    """Game and number of seeds -> the compiled chunk, as XLA's text, taken where simulate calls
    it."""
    texts = {}

    def get(name, seeds):
        if (name, seeds) not in texts:
            problem, shape = GAMES[name]()
            texts[name, seeds] = _text_of(problem, np.ones((seeds, 3, *shape)))
        return texts[name, seeds]

    return get


def _text_of(problem, data):
    seeds = len(data)
    batch = {"seeds": seeds} if seeds > 1 else {}
    return text_of(
        taut.ClippedOGD(eta=0.01, sigma=50.0), problem, data if seeds > 1 else data[0], **batch
    )


every_game = pytest.mark.parametrize(("name", "seeds"), LIMITS)


@every_game
def test_few_operations_a_round(compiled, name, seeds):
    found = operations(parsed(compiled(name, seeds)).body)
    assert len(found) > 5  # or the text is not read well
    assert len(found) <= LIMITS[name, seeds], found


@every_game
def test_a_round_is_compiled_into_one_function(compiled, name, seeds):
    parts = parsed(compiled(name, seeds))
    assert " while(" not in parts.entry  # it would be dispatched operation by operation
    assert "xla_cpu_small_call" in parts.entry
    assert not {"custom-call", "call", "conditional", "infeed", "outfeed"} & set(
        operations(parts.body)
    )


@every_game
def test_reductions_become_vector_instructions(compiled, name, seeds):
    text = parsed(compiled(name, seeds)).all
    assert "reduce(" in text
    assert "reduce-window" not in text  # XLA's rewriting of long sums
    assert not re.search(r"reduce\(.*dimensions=\{\d+,", text)  # over several axes at once


@pytest.mark.parametrize("seeds", [1, 10])
@pytest.mark.parametrize("name", ["doubly stochastic", "dispatch"])
def test_constraints_are_not_joined_nor_their_maximum_differentiated(compiled, name, seeds):
    text = parsed(compiled(name, seeds)).all
    for slow in ("gather(", "scatter(", "sort(", "pad("):
        assert slow not in text
    filled = name == "dispatch" and seeds == 10  # the data of two seeds played in vain: see below
    assert text.count("concatenate(") <= 2 * filled


@pytest.mark.parametrize("seeds", [1, 10])
def test_loss_and_constraints_are_evaluated_once(compiled, seeds):
    toy_text, logistic_text = parsed(compiled("toy", seeds)), parsed(compiled("logistic", seeds))
    assert len(re.findall(r" abs\(", toy_text.all)) == 1
    assert len(re.findall(r" log-plus-one\(", logistic_text.all)) == 1
    assert (
        len(re.findall(r" exponential\(", logistic_text.all)) == 2
    )  # one for the loss, one for its slope


def test_the_step_before_the_projection_is_computed_once():
    """Its length is summed from the step itself, not from the round's data once more (XLA's habit
    if there is a centre)."""
    problem, shape = dispatch()
    centred = taut.Problem(
        problem.loss,
        problem.constraints,
        taut.Ball(30.0, centre=[1.0, 1.0, 1.0]),
        problem.constants,
    )
    for part in parsed(_text_of(centred, np.ones((10, 3, *shape)))).called:
        assert not ("reduce(" in part and "dynamic-slice(" in part and "subtract(" in part), part


@every_game
def test_no_round_copies_decisions_or_records(compiled, name, seeds):
    """XLA's usual rules copy the decision in every round, because its old and new values seem to be
    in use at once."""
    copied = re.findall(r"= f64\[([\d,]*)\]\S* copy\(", parsed(compiled(name, seeds)).body)
    assert all(
        np.prod([int(n) for n in shape.split(",") if n]) <= 20 * seeds for shape in copied
    ), copied


def test_records_are_written_where_they_stay(compiled):
    body = parsed(compiled("toy", 10))
    assert body.all.count("dynamic-update-slice(") == 2  # loss and excess
    assert "transpose" not in compiled("toy", 10)


def test_one_compilation_for_all_horizons_parameters_and_data():
    problem, shape = toy()
    data = np.random.default_rng(0).normal(size=(4, 50, *shape))
    taut.simulate(taut.ClippedOGD(eta=0.1, sigma=4.0), problem, data, seeds=4)
    before = taut.play.loop.count_compiled()
    assert before > 0
    for eta, horizon in ((0.2, 50), (0.1, 30), (0.3, 7)):
        taut.simulate(
            taut.ClippedOGD(eta=eta, sigma=5.0), problem, data[:, ::-1], seeds=4, horizon=horizon
        )
    assert taut.play.loop.count_compiled() == before


def test_small_decisions_fill_vector_registers(compiled):
    assert (
        "f64[12,3]" in parsed(compiled("dispatch", 10)).body
    )  # 30 numbers leave a rest, 36 do not
    for name, unchanged in (
        ("toy", "f64[10,2]"),
        ("doubly stochastic", "f64[10,10,10]"),
        ("logistic", "f64[10,20,5]"),
    ):
        assert unchanged in parsed(compiled(name, 10)).body


def test_seeds_that_do_not_fit_the_cache_are_played_one_after_the_other():
    known = taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=1.0)
    large = taut.play.loop.SIDE_BY_SIDE
    problem = taut.Problem(
        lambda x, c: c @ x, lambda x: x[0] - 1, taut.Ball(1.0, shape=large), known
    )
    body = parsed(_text_of(problem, np.ones((3, 2, large)))).body
    assert f"f64[{large}]" in body
    assert f"f64[3,{large}]" not in body


def test_the_setting_is_made():
    assert OPTION in os.environ["XLA_FLAGS"]
    assert jax.default_backend() == "cpu"

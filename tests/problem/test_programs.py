"""Compiled programs live and die with the problem that owns them."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.problem import programs
from taut.problem.programs import Programs, programs_of

LEARNER = taut.ClippedOGD(eta=0.1, sigma=4.0)


@pytest.fixture(autouse=True)
def search_new_objects_only():
    """A collection would look through all programs that other tests have compiled."""
    gc.freeze()
    yield
    gc.unfreeze()


class Data:
    def __init__(self):
        self.shift = np.zeros(2)


def new_problem(data):
    return taut.Problem(
        lambda x, z: jnp.sum((x - z - data.shift) ** 2),
        lambda x: jnp.abs(x).sum() - 1 - data.shift[0],
        taut.Ball(1.0, shape=2),
    )


def simulate(problem, data):
    taut.simulate(LEARNER, problem, np.ones((5, 2)))


def checkpoint(problem, data, folder):
    taut.simulate(LEARNER, problem, np.ones((5, 2)), checkpoint=folder)


def adversary(problem, data):
    taut.simulate(LEARNER, problem, lambda t, x, key: x + data.shift, horizon=5)


def failing(problem, data):
    with pytest.raises(ValueError, match="stream"):
        taut.simulate(LEARNER, problem, np.full((5, 2), np.nan))


def live(problem, data):
    player = taut.Player(LEARNER, problem)
    player.observe(np.ones(2))
    player.observe(gradient=np.ones(2), excess=0.1, jacobian=np.ones(2))


def transformed(problem, data):
    taut.simulate(
        LEARNER, taut.max_of(taut.tightened(problem, 0.1)), np.ones((5, 2)), score=problem
    )


def estimated(problem, data):
    import jax

    problem.estimate_constants(np.ones((5, 2)), jax.random.key(0), samples=4)


@pytest.mark.parametrize(
    "use", [simulate, adversary, failing, live, transformed, estimated, checkpoint]
)
def test_a_problem_and_its_data_are_collected_after_use(use, tmp_path):
    data = Data()
    problem = new_problem(data)
    use(problem, data, *([tmp_path] if use is checkpoint else []))
    alive = [
        weakref.ref(one) for one in (data, problem, problem.loss, problem.constraints.function)
    ]
    del problem, data
    gc.collect()
    assert [one() for one in alive] == [None] * 4


def test_a_loss_that_refers_to_its_problem_is_collected_too():
    data = Data()
    problem = new_problem(data)
    data.problem = problem
    simulate(problem, data)
    alive = weakref.ref(data)
    del problem, data
    gc.collect()
    assert alive() is None


def test_problems_with_the_same_functions_share_their_programs():
    def loss(x, z):
        return jnp.sum((x - z) ** 2)

    def constraint(x):
        return jnp.sum(x) - 1

    one, other = (
        taut.Problem(loss, constraint, taut.Ball(radius, shape=2)) for radius in (1.0, 2.0)
    )
    assert programs_of(one) is programs_of(other)
    assert programs_of(taut.max_of(one)) is programs_of(one)
    assert programs_of(one) is not programs_of(
        taut.Problem(loss, lambda x: jnp.sum(x) - 1, taut.Ball(1.0, shape=2))
    )
    count = len(programs._shared)
    del one, other
    gc.collect()
    assert len(programs._shared) < count


def test_programs_are_bounded_and_the_oldest_goes_first(monkeypatch):
    monkeypatch.setattr(programs, "LIMIT", 3)
    kept = Programs()
    for key in "abac":
        kept.get(key, lambda key=key: key.upper())
    kept.get("d", lambda: "D")
    assert kept.values() == ("A", "C", "D")
    assert kept.get("a", lambda: "new") == "A"
    assert kept.get("b", lambda: "new") == "new"


def test_compiled_functions_of_all_problems_together_are_bounded(monkeypatch):
    first, second = Programs(), Programs()
    for owner, name in ((first, "a"), (second, "b"), (first, "c"), (first, "a")):
        owner.get(name, object, compiles=True)
    monkeypatch.setattr(programs, "TOTAL", 3)  # those of other tests are older
    second.get("d", object, compiles=True)
    assert [list(owner.used) for owner in (first, second)] == [["a", "c"], ["d"]]
    assert (len(first.values()), len(second.values())) == (2, 1)
    kept = first.get("a", object, compiles=True)
    assert first.get("a", object, compiles=True) is kept
    monkeypatch.setattr(programs, "LIMIT", 1)
    first.get("e", object, compiles=True)
    assert list(first.used) == ["e"]  # a dropped function is not counted


@pytest.mark.long
@pytest.mark.parametrize(("use", "problems"), [("simulate", 40), ("player", 30)])
def test_memory_stays_flat_over_new_problems(use, problems):
    """In a process of its own; `make drill` plays 500."""
    words = [sys.executable, "-m", "drills.memory", "--use", use, "--problems", str(problems)]
    done = subprocess.run(
        words, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

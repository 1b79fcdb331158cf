"""Seeds and learners side by side: groups equal single runs, programs are never mixed up, totals
keep their digits."""

import itertools

import jax
import numpy as np
import pytest

import taut
from taut.learners.schedules import Constant, Inverse, InverseRoot, Power, Reciprocal
from taut.play import loop
from taut.play.compile import count_compiled
from taut.problem import programs
from taut.problem.transforms import LogSumExp, Max, Squared, Tightened
from taut.testing import problems
from taut.testing.playing import quick_compilation


@pytest.fixture(autouse=True, scope="module")
def _quick():
    with quick_compilation():
        yield


@pytest.mark.parametrize(("seeds", "learners"), [(120, None), (127, None), (60, 3)])
def test_plays_that_are_split_into_groups_equal_single_ones(seeds, learners):
    """More numbers than are played side by side: groups of seeds, seeds one by one, learners one by
    one."""
    assert seeds * (learners or 1) * 9 > loop.SIDE_BY_SIDE
    case, data = problems.DOUBLY, problems.DOUBLY.stream(seeds, 6)
    swept = [taut.ClippedOGD(0.1 * k, 40.0) for k in range(1, (learners or 1) + 1)]
    sizes = {"chunk": 6, "record": ("decisions",)}
    run = taut.simulate(swept if learners else swept[0], case.problem, data, seeds=seeds, **sizes)
    for learner in {0, len(swept) - 1}:
        for seed in (0, seeds // 2 - 1, seeds // 2, seeds - 1):
            single = taut.simulate(swept[learner], case.problem, data[seed], **sizes)
            many = run[learner] if learners else run
            np.testing.assert_allclose(
                many.decisions[seed], single.decisions[0], rtol=0, atol=1e-13
            )
            np.testing.assert_allclose(
                many.totals.violation[seed], single.totals.violation[0], rtol=0, atol=1e-13
            )


def test_seeds_of_large_decisions_equal_single_ones(tmp_path, capsys):
    """They are too large to be played side by side."""
    size, seeds, rounds = loop.SIDE_BY_SIDE // 2 + 8, 3, 5
    data = np.random.default_rng(0).normal(size=(seeds, rounds + 3, size))
    problem = taut.Problem(lambda x, z: z @ x, lambda x: x[0] - 0.5, taut.Ball(1.0, shape=size))
    learners = [taut.ClippedOGD(eta, 4.0) for eta in (0.1, 0.2)]
    options = {
        "horizon": rounds,
        "record": ("loss", "excess", "decisions", "multipliers"),
        "every": 2,
        "chunk": 4,
    }
    for learner in (learners[0], learners):
        run = taut.simulate(learner, problem, data, seeds=seeds, progress=True, **options)
        assert (run.seeds, run.stream.seeds) == (seeds, seeds)
        axis = int(run.swept)
        for seed in range(seeds):
            alone = taut.simulate(learner, problem, data[seed], **options)
            for name in (*options["record"], "final"):
                many, single = getattr(run, name), getattr(alone, name)
                np.testing.assert_allclose(
                    np.take(many, seed, axis), np.take(single, 0, axis), rtol=1e-13, atol=1e-13
                )
            np.testing.assert_allclose(
                np.take(run.totals.loss, seed, axis), np.take(alone.totals.loss, 0, axis)
            )
        kept = taut.simulate(
            learner, problem, data, seeds=seeds, checkpoint=tmp_path / str(run.swept), **options
        )
        np.testing.assert_array_equal(kept.loss, run.loss)
    assert "5/5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seeds", "learners", "rooms"), [(6, 1, (1, 15)), (4, 4, (5, 40)), (1, 4, (10,))]
)
def test_any_size_of_the_groups_gives_the_same_plays(seeds, learners, rooms, monkeypatch):
    data = np.random.default_rng(1).normal(size=(seeds, 20, 5))
    methods = [taut.ClippedOGD(eta=0.1 * (i + 1), sigma=4.0) for i in range(learners)]

    def play(room):
        monkeypatch.setattr(loop, "SIDE_BY_SIDE", room)
        problem = taut.Problem(
            lambda x, c: c @ x, lambda x: x - 0.3, taut.Ball(1.0, shape=5)
        )  # new, so compiled anew
        return taut.simulate(methods, problem, data, seeds=seeds, record=("loss", "decisions"))

    wanted = play(10**6)
    for room in rooms:
        run = play(room)
        for name in ("loss", "decisions"):
            np.testing.assert_allclose(
                getattr(run, name), getattr(wanted, name), rtol=1e-12, atol=1e-12
            )
        np.testing.assert_allclose(
            run.totals.squared, wanted.totals.squared, rtol=1e-12, atol=1e-12
        )


def test_no_program_can_be_taken_for_that_of_another_class():
    """Compiled programs are found by tree structure: those of two classes must differ even where
    their fields agree."""
    stated = problems.TOY.problem.constraints
    transforms = [
        Max(stated),
        Squared(stated),
        LogSumExp(stated, 2.0),
        Tightened(stated, 2.0),
    ]
    steps = [Constant(1.0), InverseRoot(1.0), Inverse(1.0), Power(1.0), Reciprocal(Constant(1.0))]
    learners = [
        taut.DriftPlusPenalty(1.0, 1.0),
        taut.ClippedOGD(1.0, 1.0),
        taut.ProjectedOGD(1.0, problems.TOY.feasible),
    ]
    learners += [taut.ClippedOGD(step, 1.0) for step in steps[1:]]
    for kinds in (transforms, steps, learners):
        structures = [jax.tree.structure(kind) for kind in kinds]
        assert all(a != b for a, b in itertools.combinations(structures, 2))
        assert structures == [
            jax.tree.structure(jax.tree.map(lambda leaf: 2 * leaf, kind)) for kind in kinds
        ]


def test_the_counter_of_compilations_counts():
    before = count_compiled()
    taut.simulate(
        taut.ClippedOGD(0.1, 4.0), problems.TOY.problem, problems.TOY.stream(5, 3), seeds=5, chunk=3
    )
    assert count_compiled() == before + 1


def test_the_counter_of_compilations_counts_dropped_programs_too(monkeypatch):
    monkeypatch.setattr(programs, "TOTAL", 1)  # each program takes the place of the one before
    before = count_compiled()
    for seeds in (6, 7):
        taut.simulate(
            taut.ClippedOGD(0.1, 4.0),
            problems.TOY.problem,
            problems.TOY.stream(seeds, 3),
            seeds=seeds,
            chunk=3,
        )
    assert count_compiled() == before + 2


def test_float32_totals_keep_their_digits_over_many_rounds():
    """A sum of 2^20 terms in 32 bits loses its fourth digit unless the rounding is carried
    along."""
    rounds = 2**20
    still = taut.ClippedOGD(1e-12, 1e12)  # stays where it is
    x1 = np.array([0.61, 0.43], np.float32)  # outside the square, inside the disc
    c = np.array([0.1, 0.3], np.float32)
    run = taut.simulate(
        still,
        problems.TOY.problem,
        lambda start, length: np.broadcast_to(c, (length, 2)),
        horizon=rounds,
        x1=x1,
        record=(),
    )
    term = np.float32(c @ x1)
    excess = np.float32(np.abs(x1).sum() - np.float32(1))
    naive = np.cumsum(np.full(rounds, term, np.float32), dtype=np.float32)[-1]
    assert abs(naive / (rounds * float(term)) - 1) > 1e-4  # the check has something to catch
    assert run.totals.loss[0] == pytest.approx(rounds * float(term), rel=1e-6)
    assert run.totals.violation[0, 0] == pytest.approx(rounds * float(excess), rel=1e-6)
    assert run.totals.squared[0, 0] == pytest.approx(rounds * float(excess) ** 2, rel=1e-6)

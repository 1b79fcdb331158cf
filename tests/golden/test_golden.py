"""Every learner, alone and with several seeds, gives the numbers of the golden file, in code that
XLA optimises.

The file has the numbers of each seed played alone. After a change that is meant, write the cases
that it concerns again (python -m tests.golden.write --only TEXT) and say in the commit which.
"""

import os

import jax
from tests.golden import games, stored_numbers

import taut
from subprocesses import ROOT, run_optimised

CACHE = os.environ.get("TAUT_TEST_CACHE") or ROOT / ".xla_cache"


def test_every_seed_gives_the_numbers_of_the_same_seed_alone():
    """Every tenth learner; `make drill` plays all."""
    output = run_optimised(
        "-m", "tests.golden.check", "--part", "1/20", "--cache", str(CACHE), check=False
    )
    assert output.endswith(", 0 seeds differ\n"), output


def test_the_file_has_all_cases_and_is_small():
    assert set(stored_numbers.read()) == {str(case) for case in games.stored_cases()}
    assert stored_numbers.FILE.stat().st_size < 700_000


def test_every_learner_meets_every_mode_number_of_seeds_and_float_type():
    for name in taut.LEARNERS:
        mine = [(case, seeds) for case, seeds in games.tested_games() if case.learner == name]
        assert {seeds for _, seeds in mine} == set(games.SEED_COUNTS)
        assert {case.dtype for case, _ in mine} == set(games.TYPES)
        assert {case.mode for case, _ in mine} == set(games.modes_of(name))
    modes = {case.mode for case, _ in games.tested_games()}
    assert modes == set(games.MODES)


def test_a_number_that_is_off_is_noticed():
    """One number at a time, of a seed with all numbers and of one with three."""
    case = games.Case("clipped-ogd", "toy", "plain", "float64")
    stored = stored_numbers.read()[str(case)]
    assert stored_numbers.differences(case, 4, stored) == []
    for seed, place in [(0, 0), (1, 2), (2, -1), (3, 1)]:
        changed = jax.tree.map(float, stored.seeds)
        changed[seed][place] += 1e-10
        (sentence,) = stored_numbers.differences(case, 4, stored._replace(seeds=changed))
        assert f"seed {seed} of 4 differs from the same seed alone" in sentence

"""Passes change the speed of simulations and no number."""

import os
from pathlib import Path

import numpy as np
import pytest

import taut
from small_games import GAME, targets
from subprocesses import ROOT, run_optimised
from taut.play.passes import PASSES, RoundFacts, suitable

CACHE = os.environ.get("TAUT_TEST_CACHE") or ROOT / ".xla_cache"
FACTS = RoundFacts(taut.HalfSpace, True, 2, 1, taut.Ball, "cpu", "0.10.2")


def test_every_learner_plays_the_same_with_and_without_passes():
    script = Path(__file__).parent / "passes_agree.py"
    output = run_optimised(str(script), str(CACHE))
    assert output.endswith(", 0 differ []\n"), output
    assert int(output.split()[0]) >= len(taut.LEARNERS) - 3


def test_passes_are_switched_off_by_name_and_in_the_environment(monkeypatch):
    assert suitable(FACTS) == PASSES
    with taut.engine.passes():
        assert suitable(FACTS) == ()
        with taut.engine.passes("kernel"):
            assert [each.name for each in suitable(FACTS)] == ["kernel"]
    assert suitable(FACTS) == PASSES
    for given, chosen in (("none", frozenset()), ("kernel, options", {"kernel", "options"})):
        monkeypatch.setenv("TAUT_PASSES", given)
        assert taut.engine._passes_of_environment() == chosen
    monkeypatch.delenv("TAUT_PASSES")
    assert taut.engine._passes_of_environment() is None


@pytest.mark.parametrize("jax", ["0.9.0", "0.12.1"])
def test_other_versions_of_jax_get_only_what_does_not_depend_on_xla(jax):
    assert [each.name for each in suitable(FACTS._replace(jax=jax))] == ["reductions"]
    assert suitable(FACTS._replace(backend="gpu")) == ()


def test_programs_with_and_without_passes_are_kept_apart():
    learner = taut.HalfSpace(eta=0.1, diameter=2.0)
    data = targets(rounds=6)
    with_passes = taut.simulate(learner, GAME, data)
    with taut.engine.passes():
        without = taut.simulate(learner, GAME, data)
    np.testing.assert_allclose(without.loss, with_passes.loss, rtol=1e-12, atol=1e-13)

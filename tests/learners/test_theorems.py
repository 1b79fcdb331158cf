"""Theorems of docs/theory.md against adversaries: a short version of `python -m drills.theorems`."""

from dataclasses import replace

import numpy as np
import pytest
from drills.theorems import DISC, THEOREMS, Attack, Tally, seen

import taut

FIXED = ("H1", "H6")
ATTACKS = [
    (Attack("two sweeps", DISC, ("H1", "H2", "H6"), rounds=40), np.float64),
    (Attack("two sweeps", DISC, ("H1", "H2", "H6"), rounds=40), np.float32),
    (Attack("fixed step, exact", taut.Box(-1.0, 1.0, shape=2), FIXED, rounds=40), np.float64),
    (Attack("fixed step, two sweeps", taut.Simplex(3), FIXED, rounds=40), np.float64),
    (Attack("lifetimes", DISC, ("H1", "H2", "F1", "F2"), rounds=80), np.float64),
    (Attack("lifetimes", DISC, ("F3",), rounds=80, changing=True), np.float64),
    (Attack("all cuts", DISC, ("H1", "H2", "H9"), rounds=24, rows=24, curved=True), np.float64),
]
LEAST = {"H1": 0.5, "H2": 0.2, "H6": 0.2, "H9": 0.1, "F1": 0.2, "F2": 0.9, "F3": 0.3}
"""The share of each bound that games reach, so that they are attacks."""


def tallied(name, games):
    return Tally().add(THEOREMS[name](games))


@pytest.mark.parametrize(
    ("attack", "dtype"), ATTACKS, ids=[f"{one}, {dtype.__name__}" for one, dtype in ATTACKS]
)
def test_no_adversary_exceeds_a_bound(attack, dtype):
    games = seen(attack, 200, 7, dtype)
    for name in attack.theorems:
        tally = tallied(name, games)
        assert tally.exceeded == 0, name
        assert tally.uncovered <= 10
        assert tally.share > LEAST[name], name


def test_a_learner_that_keeps_cuts_for_ever_does_not_recover():
    attack = replace(ATTACKS[0][0], changing=True)
    assert tallied("F3", seen(attack, 200, 7, np.float64)).exceeded > 0


def test_wrong_claims_are_found_out():
    attack, _ = ATTACKS[0]
    games = seen(attack, 200, 7, np.float64)
    larger = games.played._replace(correction=10 * games.played.correction)
    assert tallied("H2", games._replace(played=larger)).exceeded > 0
    few = games.games | {"pool": np.ones_like(games.games["pool"])}
    assert tallied("H6", games._replace(games=few)).exceeded > 0
    back = games.played._replace(decisions=games.played.decisions[:, ::-1])
    assert tallied("H1", games._replace(played=back)).exceeded > 0

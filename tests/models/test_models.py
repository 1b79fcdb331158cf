"""Every model of the suite: accepted or refused as it should be, and if accepted, equal to what
CVXPY says of it.

All checks of a model are made before its test fails, so that the message lists everything that is
wrong with it. Functions are evaluated in NumPy by `taut.jaxpr.in_numpy`, because compiling
them would take longer than evaluating them.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from checks import CHECKS, Played
from statement import ALL, Game

import taut

FIELDS = (
    "finance",
    "regression",
    "energy",
    "networks",
    "control",
    "matrices",
    "uncertainty",
    "two_stages",
    "refused",
)
for field in FIELDS:
    import_module(field)
ACCEPTED = [case for case in ALL if not case.refused]
REFUSED = [case for case in ALL if case.refused]
LONG = 30_000

pytestmark = pytest.mark.usefixtures("compile_quickly")


def marked(case):
    marks = [pytest.mark.xfail(strict=True, reason=case.defect)] if case.defect else []
    return pytest.param(case, marks=marks, id=case.name)


@pytest.mark.parametrize("case", [marked(case) for case in ACCEPTED])
def test_an_accepted_model_is_what_cvxpy_says(case):
    played = Played(case)
    assert [f"{check.__name__}: {fault}" for check in CHECKS for fault in check(played)] == []


@pytest.mark.parametrize("case", [marked(case) for case in REFUSED])
def test_a_refused_model_is_refused_with_the_reason(case):
    stated = case.model(Game())
    with pytest.raises((ValueError, TypeError), match=case.refused):
        taut.from_cvxpy(*(stated if isinstance(stated, tuple) else (stated,)), **case.options)


def test_clipped_ogd_violates_little_in_a_long_compiled_game():
    """Its mean violation decreases as one over the root of the horizon; after 120 rounds this model
    is one of the worst."""
    played = Played(next(case for case in ACCEPTED if case.name == "relaxed_commitment"))
    problem = played.problem
    run = taut.simulate(
        taut.ClippedOGD.tuned(problem.constants, LONG),
        problem,
        played.stream(LONG),
        record=("excess",),
    )
    assert 0 < np.maximum(run.excess, 0).mean() <= 0.01 * problem.constants.constraint_range
    certificate = run.certificate()
    assert {one.name for one in certificate.refuted} <= {"centre feasible"}, str(certificate)
    assert certificate.holds, str(certificate)


def test_the_suite_is_as_large_as_the_documentation_says():
    assert len(ACCEPTED) >= 60
    assert len(REFUSED) >= 20
    assert len({case.name for case in ALL}) == len(ALL)
    assert all(case.model.__doc__ for case in ALL)  # with the source

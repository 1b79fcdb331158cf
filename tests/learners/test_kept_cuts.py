"""Theorem H6 against pools of half-spaces: a short version of `python -m drills.kept_cuts`."""

import numpy as np
import pytest
from drills.kept_cuts import Outcome, domains, play, pools

CASES = [("ball", 2, np.float64), ("box", None, np.float64), ("simplex", None, np.float64)]


@pytest.mark.parametrize(("name", "sweeps", "dtype"), [*CASES, ("ball", 2, np.float32)])
def test_rows_of_a_pool_are_exceeded_once_each(name, sweeps, dtype):
    domain = domains(2)[name]
    pool = pools(domain, 50, 40, 7, dtype)
    outcome = Outcome(*map(np.asarray, play(domain, pool, sweeps)))
    assert np.mean(outcome.hold) >= 0.95
    assert np.all((outcome.exceeding <= outcome.size)[outcome.hold])
    assert np.all(outcome.share[outcome.hold] <= 1)
    assert np.max(outcome.share) > 0.03  # the games do exceed rows that are new
    assert np.max(outcome.away) <= 1e3 * np.finfo(dtype).eps

"""The same call of hindsight returns the same bits, however often it is repeated."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.problem.evaluation import Evaluation

CALLS = 25
RNG = np.random.default_rng(0)
SMALL = RNG.normal(size=(40, 3))
WIDE = RNG.normal(size=(20_000, 50))
"""So many numbers that their derivatives are compiled."""


def problem(loss, constraints, size):
    return taut.Problem(loss, constraints, taut.Ball(1.0, shape=size))


KINDS = {
    "affine": (lambda x, z: z @ x, lambda x: jnp.abs(x).sum() - 0.5, SMALL),
    "quadratic": (lambda x, z: (z @ x - 1) ** 2, lambda x: (x @ x - 0.5, x[0] - 0.1), SMALL),
    "smooth": (lambda x, z: jnp.logaddexp(0.0, z @ x), lambda x, z: z @ x - 0.9, SMALL),
    "kinked": (lambda x, z: jnp.abs(z @ x - 0.3), lambda x: x @ x - 0.4, SMALL),
    "sorted": (lambda x, z: z @ x, lambda x: jnp.sort(x)[-2:].sum() - 0.5, SMALL),
    "wide, affine": (lambda x, z: z @ x, lambda x: x.sum() - 0.5, WIDE),
    "wide, quadratic": (lambda x, z: (z @ x - 1) ** 2, lambda x: x.sum() - 0.5, WIDE),
}


@pytest.mark.parametrize("name", KINDS)
def test_repeated_calls_return_the_same_bits(name, monkeypatch):
    loss, constraints, data = KINDS[name]
    compiled = []
    real = Evaluation._compiled

    def noted(self, *arguments, **options):
        compiled.append(arguments[0])
        return real(self, *arguments, **options)

    monkeypatch.setattr(Evaluation, "_compiled", noted)
    stated = problem(loss, constraints, data.shape[1])
    found = [taut.hindsight(stated, data) for _ in range(CALLS)]
    assert bool(compiled) == (data is WIDE or name == "sorted")
    again = problem(loss, constraints, data.shape[1])  # nothing is traced or compiled yet
    found.append(taut.hindsight(again, data))
    for one in found[1:]:
        for field in ("decision", "loss", "gap", "violation", "multipliers"):
            assert getattr(one, field).tobytes() == getattr(found[0], field).tobytes(), field
        assert one.solver == found[0].solver

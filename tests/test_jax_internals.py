"""What is not stable in JAX sits in one module, and everything works without it."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import ALL, targets
from taut import jax_internals

SOURCES = sorted((Path(taut.__file__).parent).rglob("*.py"))


def test_no_other_module_uses_internals_of_jax():
    unstable = re.compile(r"jax\._src|jax\.extend|jax\.core\b|jax\.interpreters|get_bind_params")
    users = [path.name for path in SOURCES if unstable.search(path.read_text())]
    assert users == ["jax_internals.py"]


def new_problem():
    """A new problem, so that its program is compiled anew: several axes, an inner product, a
    maximum of two uses."""

    def loss(x, z):
        return jnp.sum((x - z) ** 2) + jnp.vdot(x, z)

    return taut.Problem(
        loss, lambda x: (jnp.sum(x, axis=1) - 0.3, jnp.max(x) - 0.5), taut.Ball(1.5, shape=(2, 3))
    )


def played():
    problem, z = new_problem(), np.random.default_rng(0).normal(size=(2, 40, 2, 3))
    learner = taut.ClippedOGD(0.1, 5.0)
    player = taut.Player(learner, problem)
    for point in z[0]:
        player.observe(point)
    return taut.simulate(learner, problem, z, seeds=2, record=ALL), player.decision


@pytest.fixture(scope="module")
def wanted():
    return played()


@pytest.mark.filterwarnings("ignore:jax.core.get_opaque_trace_state:DeprecationWarning")
@pytest.mark.parametrize("way", ["forced", "no state of traces"])
def test_the_fall_backs_compute_the_same(way, wanted, monkeypatch):
    if way == "forced":
        monkeypatch.setattr(jax_internals, "_forced", True)
    else:
        from jax._src import core

        monkeypatch.delattr(core, "get_opaque_trace_state")
    found, again = played()
    for name in (*ALL, "final"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(wanted[0], name), rtol=1e-11, atol=1e-12, err_msg=name
        )
    np.testing.assert_allclose(again, wanted[1], rtol=1e-11)


def test_the_fall_back_is_really_taken(monkeypatch):
    monkeypatch.setattr(jax_internals, "_forced", True)
    assert jax_internals.trace_state() != jax_internals.trace_state()


def test_a_users_error_is_not_taken_for_one_of_jax():
    problem = taut.Problem(
        lambda x, z: x @ z, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    )
    with pytest.raises(ValueError, match="loss"):
        taut.simulate(taut.ClippedOGD(0.1, 5.0), problem, targets(rounds=5)[:, :1])

"""Passes change the speed of simulations and no number."""

import os
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import GAME, targets
from subprocesses import ROOT, run_optimised
from taut.play.passes import PASSES, REDUCTIONS, suitable

CACHE = os.environ.get("TAUT_TEST_CACHE") or ROOT / ".xla_cache"


def test_learners_play_the_same_with_and_without_passes():
    """The default, the method of the paper and four others; `make drill` plays all."""
    script = Path(__file__).parent / "passes_agree.py"
    output = run_optimised(str(script), str(CACHE))
    assert output.endswith(", 0 differ []\n"), output
    assert int(output.split()[0]) == 2 * (1 + len(PASSES)) + 4


def test_passes_are_switched_off_by_name_and_in_the_environment(monkeypatch):
    monkeypatch.setattr(jax, "__version__", "0.10.2")
    assert suitable(2) == PASSES
    with taut.engine.passes():
        assert suitable(2) == ()
        with taut.engine.passes("kernel"):
            assert [each.name for each in suitable(2)] == ["kernel"]
    assert suitable(2) == PASSES
    for given, chosen in (("none", frozenset()), ("kernel, options", {"kernel", "options"})):
        monkeypatch.setenv("TAUT_PASSES", given)
        assert taut.engine._passes_of_environment() == chosen
    monkeypatch.delenv("TAUT_PASSES")
    assert taut.engine._passes_of_environment() is None


@pytest.mark.parametrize("version", ["0.9.0", "0.12.1"])
def test_other_versions_of_jax_get_only_what_does_not_depend_on_xla(version, monkeypatch):
    monkeypatch.setattr(jax, "__version__", version)
    assert [each.name for each in suitable(2)] == ["reductions"]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert suitable(2) == ()


def test_programs_with_and_without_passes_are_kept_apart():
    learner = taut.HalfSpace(eta=0.1, diameter=2.0)
    data = targets(rounds=6)
    with_passes = taut.simulate(learner, GAME, data)
    with taut.engine.passes():
        without = taut.simulate(learner, GAME, data)
    np.testing.assert_allclose(without.loss, with_passes.loss, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("left", "right", "options", "rewritten"),
    [
        (np.ones(5), np.ones(5), {}, True),
        (np.ones(5, "float32"), np.ones(5, "float32"), {}, True),
        (np.ones(5, "float16"), np.ones(5, "float16"), {}, False),
        (np.ones(5, "int8"), np.ones(5, "int8"), {"preferred_element_type": "int32"}, False),
        (
            np.ones(5, "float32"),
            np.ones(5, "float32"),
            {"preferred_element_type": "float64"},
            False,
        ),
        (np.ones((5, 5)), np.ones(5), {}, False),
    ],
)
def test_inner_products_become_sums_where_all_numbers_have_one_type(
    left, right, options, rewritten
):
    def body(x, y):
        return jnp.dot(x, y, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = str(jax.make_jaxpr(REDUCTIONS.of_round(body))(left, right))
    assert ("dot_general" not in text) == rewritten
    played = REDUCTIONS.of_round(body)(left, right)
    assert played.dtype == body(left, right).dtype
    np.testing.assert_allclose(played, body(left, right))

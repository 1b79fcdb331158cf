"""The check of seeds side by side passes for our learners, in optimised code, and refuses what is
wrong with several seeds only."""

import jax.numpy as jnp
import pytest

import taut
from subprocesses import run_optimised
from taut.play import passes
from taut.testing import side_by_side

PASSES_IN_32_BITS = """
import jax, taut
from taut.testing import side_by_side
games = side_by_side.GAMES
assert {game.form for game in games} == set(side_by_side.FORMS)
assert {game.size for game in games} == set(side_by_side.SIZES) == {1, 2, 3, 9, 130}
assert {game.seeds for game in games} == set(side_by_side.SEEDS) == {2, 3, 4, 8, 10}
assert {game.dtype for game in games} == set(side_by_side.TYPES)
assert len(side_by_side.ALL_GAMES) == 350
assert not jax.config.read("jax_enable_x64")
taut.testing.check_learner("clipped-ogd", taut.testing.PROBLEMS[:1])
print("passed")
"""


def shifted(a):
    return a * 1.0001 if jnp.issubdtype(a.dtype, jnp.floating) else a


SMALL = [side_by_side.Game("one jnp.max", 2, 8, "float64")]


def rounding(program):
    """A pass that is wrong by a little with the seeds of the game."""

    def rounded(*leaves):
        results = program(*leaves)
        several = any(leaf.shape[:2] == (1, SMALL[0].seeds) for leaf in leaves)
        return [shifted(a) for a in results] if several else results

    return rounded


def test_learners_pass_all_checks_also_where_jax_has_its_default_of_32_bits():
    assert run_optimised("-c", PASSES_IN_32_BITS) == "passed\n"


@pytest.mark.parametrize("game", SMALL, ids=str)
def test_a_pass_that_is_wrong_with_several_seeds_is_refused(game, monkeypatch):
    card = taut.LEARNERS["clipped-ogd"]
    monkeypatch.setattr(
        passes,
        "PASSES",
        (*passes.PASSES, passes.Pass("rounds", of_program=rounding, any_version=True)),
    )
    with pytest.raises(AssertionError, match="side by side must equal the same seeds alone"):
        side_by_side.check_games(card, [game])
    monkeypatch.undo()
    side_by_side.check_games(card, [game])

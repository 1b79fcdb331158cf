"""The check that seeds and learners that are played side by side equal those that are played alone.

In one compiled program XLA may compute a number twice, with different rounding. A learner that
compares such numbers for equality, as in `values == max(values)`, then takes wrong decisions with
several seeds, and right ones with a single seed. Whether it happens depends on how the constraints
are written, on the size of a decision, on the number of seeds and on the float type, so the check
varies all of them.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..display import counted
from ..engine import Array, passes
from ..learners import Card, Learner
from ..play.simulate import simulate
from ..problem.constants import Constants
from ..problem.domains import Ball, Box
from ..problem.problem import Problem
from ..problem.transforms import max_of
from .playing import decisions_of, quick_compilation, require_close
from .problems import KnownProblem

ROUNDS = 30
LEARNERS = 3
"""The number of learners that are played in one call."""
TOLERANCE = {"float64": 1e-7, "float32": 1e-3}
"""Seeds that are wrong are off by more than this, and rounding by less."""


class Game(NamedTuple):
    """One way to write three kinds of constraints, and how it is played."""

    form: str
    """A key of `FORMS`."""
    size: int
    """The number of entries of a decision."""
    seeds: int
    dtype: str

    def __str__(self) -> str:
        return (
            f"constraints written as {self.form}, decisions of {counted(self.size, 'number')} "
            f"in {self.dtype}, {counted(self.seeds, 'seed')}"
        )


def _loss(x: jax.Array, z: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum((x - z) ** 2)


def _square(x: jax.Array) -> jax.Array:
    return jnp.sum(x * x) - 0.4


def _entries(x: jax.Array) -> jax.Array:
    return x - 0.5


def _weighted(x: jax.Array) -> jax.Array:
    weights = np.cos(np.arange(1, 1 + x.size))
    return jnp.asarray(weights / np.linalg.norm(weights), x.dtype) @ x - 0.02


def _array(x: jax.Array) -> jax.Array:
    return jnp.array([_square(x), _entries(x)[0], _weighted(x)])


def _concatenated(x: jax.Array) -> jax.Array:
    return jnp.concatenate([_square(x)[None], _entries(x), _weighted(x)[None]])


FORMS: dict[str, Callable[[jax.Array], Any]] = {
    "jnp.array": _array,
    "jnp.concatenate": _concatenated,
    "jnp.stack": lambda x: jnp.stack([_square(x), _entries(x)[0], _weighted(x)]),
    "a tuple": lambda x: (_square(x), _entries(x), _weighted(x)),
    "a dict": lambda x: {"square": _square(x), "each": _entries(x), "sum": _weighted(x)},
    "one jnp.max": lambda x: jnp.max(_concatenated(x)),
    "taut.max_of": _concatenated,
}
SIZES = (1, 2, 3, 9, 130)
SEEDS = (2, 3, 4, 8, 10)
TYPES = ("float64", "float32")
GAMES = (
    Game("jnp.array", 1, 10, "float64"),
    Game("jnp.concatenate", 3, 4, "float64"),
    Game("jnp.stack", 130, 2, "float32"),
    Game("a tuple", 9, 3, "float64"),
    Game("a dict", 2, 8, "float32"),
    Game("one jnp.max", 2, 8, "float64"),
    Game("taut.max_of", 3, 10, "float64"),
)
"""The games of the check: every form, size, number of seeds and float type."""
ALL_GAMES = tuple(itertools.starmap(Game, itertools.product(FORMS, SIZES, SEEDS, TYPES)))
"""All combinations."""


def _played(card: Card, game: Game, scale: float = 1.0) -> Problem:
    """The problem of a game, as the method plays it; `scale` multiplies the stated slope of the
    loss, from which learners take their parameters."""
    slope = 2 * game.size**0.5
    stated = Problem(
        _loss,
        FORMS[game.form],
        Box(-1.0, 1.0, shape=game.size),
        Constants(
            loss_lipschitz=scale * slope,
            constraint_lipschitz=slope,
            loss_range=2.0 * game.size,
            constraint_range=1.5 + game.size,
            constraint_smoothness=None if game.form == "one jnp.max" else 2.0,
            strong_convexity=1.0,
            slater=0.02,
            error_bound=0.02,
        ),
    )
    return max_of(stated) if card.aggregated or game.form == "taut.max_of" else stated


def check_seeds_side_by_side(card: Card, problems: Sequence[KnownProblem]) -> None:
    """Seeds that are played side by side, and learners in one call, equal those played alone, in
    code that XLA optimises, however the constraints are written."""
    check_games(card, GAMES)


def check_games(card: Card, games: Iterable[Game]) -> None:
    """Play each game side by side and alone, and the first one with several learners in a call."""
    made_for_problem = bool(inspect.signature(card.make).parameters)
    several = True
    for game in games:
        if not made_for_problem and game.size != 2:
            continue  # its parameters can have the size of a decision
        learners = _learners(card, game)
        if not learners:
            continue
        _check_game(learners if several else learners[:1], _played(card, game), game)
        several = False  # once is enough: it takes as long as the rest of a game


def _learners(card: Card, game: Game) -> list[Learner]:
    """The method with several parameters; none if the game lacks a constant that it needs."""
    stated = [_played(card, game, scale) for scale in range(1, 1 + LEARNERS)]
    if any(getattr(stated[0].constants, name) is None for name in card.needs):
        return []
    feasible = Ball(0.02, shape=game.size)
    made = [card.build(problem, ROUNDS, feasible=feasible) for problem in stated]
    structure: Any = jax.tree.structure(made[0])
    return [learner for learner in made if structure == jax.tree.structure(learner)]


def _check_game(learners: Sequence[Learner], problem: Problem, game: Game) -> None:
    generator = np.random.default_rng([game.size, game.seeds])
    data = generator.uniform(-0.7, 1.0, size=(game.seeds, ROUNDS, game.size))
    keys = jax.random.split(jax.random.key(0), game.seeds)
    start = np.asarray(problem.domain.centre, game.dtype)
    options: dict[str, Any] = {"x1": start, "record": ("decisions",)}

    def alone(learner: Learner) -> Array:
        """The decisions of every seed, in the plainest program that plays it."""
        with quick_compilation(), passes():
            runs = [
                simulate(learner, problem, data[seed], key=keys[seed], **options)
                for seed in range(game.seeds)
            ]
        return np.stack([decisions_of(run)[0] for run in runs])

    with quick_compilation(False):
        run = simulate(learners[0], problem, data, seeds=game.seeds, **options)
    _require_same(
        decisions_of(run), alone(learners[0]), game, "seeds that are played side by side must equal"
    )
    if len(learners) == 1:
        return
    with quick_compilation(False):
        run = simulate(list(learners), problem, data, seeds=game.seeds, **options)
    for k, learner in enumerate(learners):
        what = f"each of {len(learners)} learners in one call must equal"
        _require_same(decisions_of(run)[k], alone(learner), game, what)


def _require_same(side_by_side: Array, alone: Array, game: Game, what: str) -> None:
    require_close(
        side_by_side,
        alone,
        f"{what} the same seeds alone ({game}): find the largest constraint by its place "
        "(jnp.argmax), never by comparing floats for equality",
        atol=TOLERANCE[game.dtype],
    )

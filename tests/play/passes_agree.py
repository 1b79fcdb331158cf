"""Play learners with all passes, with each alone, and with none:
python -m passes_agree CACHE [all]

The flags of the tests switch XLA's optimisations off, so this runs in a process of its own.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.play.passes import PASSES

ROUNDS, SEEDS = 25, (1, 3, 10)
ALL = tuple(each.name for each in PASSES)
EVERY_PASS = ("half-space", "clipped-ogd")
"""Learners that also play with each pass alone."""
OTHERS = ("drift-plus-penalty", "recoo", "surrogate", "surrogate-optimistic")
"""Learners that play with all passes and with none, unless all learners are asked for. Together
with the above they have one, three and ten seeds and both float types."""


def constraints(x: Any) -> Any:
    return {"rows": jnp.array([jnp.sum(x * x) - 0.4, x[0] - 0.3]), "largest": jnp.max(x) - 0.35}


KNOWN = taut.Constants(
    loss_lipschitz=4.0, constraint_lipschitz=2.0, constraint_range=2.0, loss_range=6.0, slater=0.3
)
GAMES = [
    taut.Problem(
        lambda x, z: 0.5 * jnp.sum((x - z) ** 2), constraints, taut.Box(-1.0, 1.0, shape=3), KNOWN
    ),
    taut.Problem(
        lambda x, z: z @ x,
        lambda x: jnp.sum(jnp.abs(x)) - 0.8,
        taut.Ball(1.0, shape=3),
        taut.Constants(
            loss_lipschitz=3.0,
            constraint_lipschitz=2.0,
            constraint_range=1.0,
            loss_range=6.0,
            slater=0.8,
        ),
    ),
]


def decisions(learner: Any, problem: Any, data: Any, x1: Any, passes: tuple[str, ...]) -> Any:
    with taut.engine.passes(*passes):
        run = taut.simulate(learner, problem, data, seeds=len(data), x1=x1, record=("decisions",))
    return np.concatenate([run.decisions.ravel(), run.totals.loss, run.totals.worst_violation])


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    if len(sys.argv) > 1:
        taut.engine.cache(sys.argv[1])
    played, wrong = 0, []
    every = "all" in sys.argv[2:]
    for number, name in enumerate(taut.LEARNERS):
        if not every and name not in (*EVERY_PASS, *OTHERS):
            continue
        for problem in GAMES:
            try:
                learner = taut.learner(name, problem, horizon=ROUNDS)
            except (TypeError, ValueError):
                continue  # the card says that the method does not apply
            seeds, single = SEEDS[number % 3], number % 4 == 3
            data = np.random.default_rng(number).uniform(-1, 1, (seeds, ROUNDS, 3))
            x1 = np.zeros(3, np.float32 if single else np.float64)
            plain = decisions(learner, problem, data, x1, ())
            others = [ALL, *((each,) for each in ALL if name in EVERY_PASS)]
            for passes in others:
                played += 1
                difference = np.abs(decisions(learner, problem, data, x1, passes) - plain).max()
                if not difference <= (1e-4 if single else 1e-12 * (1 + np.abs(plain).max())):
                    wrong.append(f"{name}, {seeds} seeds, {passes}: {difference:.2g}")
            break
    print(f"{played} games, {len(wrong)} differ {wrong}")


if __name__ == "__main__":
    main()

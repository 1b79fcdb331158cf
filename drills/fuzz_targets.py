"""What the fuzzer calls: the public functions and classes of taut, each with valid arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np

import taut
from drills.fuzz_live import live
from taut.arena import Result
from taut.arena.run import play as arena_play

__all__ = ["CLIPPED", "PROBLEM", "targets"]

Targets = dict[str, tuple[Callable[..., Any], dict[str, Any]]]


def loss(x: Any, z: Any) -> Any:
    """A loss."""
    return 0.5 * jnp.sum((x - z) ** 2)


def constraint(x: Any) -> Any:
    """A constraint."""
    return jnp.sum(jnp.abs(x)) - 1


KNOWN = taut.Constants(
    radius=1.5, loss_lipschitz=3.5, constraint_lipschitz=1.5, constraint_range=2.2
)
PROBLEM = taut.Problem(loss, constraint, taut.Ball(1.5, shape=2), KNOWN)
CLIPPED = taut.ClippedOGD(0.3, 5.0)
Z = np.random.default_rng(0).normal(size=(5, 2))


def observe(**arguments: Any) -> None:
    """Show one round to a new player."""
    taut.Player(CLIPPED, PROBLEM).observe(**arguments)


def tuned(name: str) -> Callable[..., Any]:
    """Return the constructor of a learner."""
    learner, _, method = name.partition(".")
    return getattr(getattr(taut, learner), method)


def metric(name: str) -> Callable[..., Any]:
    """Return a metric of a small run."""
    run = taut.simulate(CLIPPED, PROBLEM, Z)
    return lambda **arguments: getattr(taut.metrics, name)(run, **arguments)


def targets() -> Targets:
    """Return functions with valid arguments."""
    return {
        **basic(),
        **live(CLIPPED, PROBLEM),
        **domains(),
        **learners(),
        **feedback(),
        **judged(),
        **models(),
    }


def basic() -> Targets:
    """Problems, constants, transforms, simulations and players."""
    found: Targets = {
        "Ball": (taut.Ball, {"radius": 1.0, "centre": [0.0, 1.0], "shape": 2}),
        "L1Ball": (taut.L1Ball, {"radius": 1.0, "centre": None, "shape": (2,)}),
        "Box": (taut.Box, {"lower": [0.0, 0.0], "upper": [1.0, 2.0]}),
        "Simplex": (taut.Simplex, {"dimension": 3, "total": 1.0}),
        "Constants": (
            taut.Constants,
            {
                "radius": 1.0,
                "loss_lipschitz": 1.0,
                "constraint_lipschitz": 1.0,
                "constraint_count": 2,
                "slater": 0.1,
                "estimated": frozenset(),
                "gap": 0.0,
            },
        ),
        "Problem": (
            taut.Problem,
            {
                "loss": loss,
                "constraints": constraint,
                "domain": taut.Ball(1.5, shape=2),
                "constants": KNOWN,
                "domain_binds": False,
            },
        ),
        "simulate": (
            taut.simulate,
            {
                "learner": CLIPPED,
                "problem": PROBLEM,
                "stream": Z,
                "horizon": 5,
                "seeds": None,
                "key": None,
                "x1": None,
                "record": ("loss",),
                "every": 1,
                "score": None,
                "chunk": None,
            },
        ),
        "Player": (
            taut.Player,
            {"learner": CLIPPED, "problem": PROBLEM, "x1": None, "count": None},
        ),
        "observe": (observe, {"z": np.zeros(2)}),
        "observe measurements": (
            observe,
            {
                "gradient": np.zeros(2),
                "excess": 0.0,
                "jacobian": np.zeros(2),
                "loss": 1.0,
            },
        ),
        "max_of": (taut.max_of, {"problem": PROBLEM}),
        "squared": (taut.squared, {"problem": PROBLEM}),
        "tightened": (taut.tightened, {"problem": PROBLEM, "rho": 0.1}),
        "log_sum_exp": (taut.log_sum_exp, {"problem": PROBLEM, "temperature": 10.0}),
        "ClippedOGD": (taut.ClippedOGD, {"eta": 0.1, "sigma": 4.0}),
        "ProjectedOGD": (taut.ProjectedOGD, {"eta": 0.1, "feasible": taut.Ball(1.0, shape=2)}),
        "estimate_constants": (
            PROBLEM.estimate_constants,
            {
                "stream": Z,
                "key": jax.random.key(0),
                "horizon": 5,
                "seeds": None,
                "samples": 4,
            },
        ),
    }
    for name in ("ClippedOGD.tuned", "SaddlePoint.mahdavi", "DriftPlusPenalty.tuned"):
        if hasattr(getattr(taut, name.split(".")[0]), name.split(".")[1]):
            found[name] = (
                tuned(name),
                {"constants": KNOWN.with_values(constraint_count=1), "horizon": 100},
            )
    for name in (
        "loss",
        "violation",
        "excess",
        "squared_violation",
        "peak_violation",
        "violating_rounds",
    ):
        found[f"metrics.{name}"] = (metric(name), {"rounds": [2, 3]})
    return found


def domains() -> Targets:
    """The domains that are not in `basic`."""
    ball = taut.Ball(1.0, shape=2)
    return {
        "AffineBox": (
            taut.AffineBox,
            {"rows": [[1.0, 1.0]], "values": [1.0], "lower": 0.0, "upper": 1.0, "shape": None},
        ),
        "Blocks": (taut.Blocks, {"parts": [ball], "places": [[0, 1]], "shape": None}),
        "Spectral": (taut.Spectral, {"eigenvalues": taut.Simplex(2)}),
        "Product": (lambda part: taut.Product(ball, part), {"part": taut.Box([0.0], [1.0])}),
    }


def learners() -> Targets:
    """Learners, and how they are built by name."""
    steps = taut.learners.schedules.Constant(0.1)
    around = {
        "learner": CLIPPED,
        "delta": 0.1,
        "penalty": 1.0,
        "inner_radius": 0.5,
        "centre": np.zeros(2),
    }
    return {
        "learner": (
            taut.learner,
            {"name": "clipped-ogd", "problem": PROBLEM, "horizon": 100, "feasible": None},
        ),
        "SaddlePoint": (
            taut.SaddlePoint,
            {"eta": steps, "mu": steps, "theta": steps, "clipped": True},
        ),
        "DriftPlusPenalty": (taut.DriftPlusPenalty, {"penalty": 1.0, "proximity": 1.0}),
        "Doubling.of": (
            taut.Doubling.of,
            {"make": lambda horizon: CLIPPED, "first": 2, "warm": False},
        ),
        "HalfSpace": (
            taut.HalfSpace,
            {
                "eta": 0.1,
                "diameter": 3.0,
                "margin": 0.0,
                "memory": 1,
                "sweeps": 2,
                "joint": False,
                "rows": "largest",
            },
        ),
        "Averaged": (
            taut.Averaged,
            {
                "learner": CLIPPED,
                "horizon": 100,
                "sigma": 0.1,
                "gradient_sigma": 0.0,
                "smoothness": None,
                "block": 1,
            },
        ),
        "DelayTolerant": (taut.DelayTolerant, {"learner": CLIPPED, "delay": 2}),
        "TwoPoint": (taut.TwoPoint, around),
        "OnePoint": (taut.OnePoint, around),
        "recommend": (
            taut.recommend,
            {
                "problem": PROBLEM,
                "horizon": 100,
                "per_round": False,
                "weight": 1.0,
                "feasible": None,
            },
        ),
    }


def feedback() -> Targets:
    """Feedback, adversaries, problems with a memory, and sweeps."""

    def reveal(state: Any, round: Any, decision: Any, key: Any) -> Any:
        return state, -decision

    def seen(feedback: Any) -> None:
        taut.simulate(CLIPPED, PROBLEM, Z, feedback=feedback, unproven=True)

    moving = taut.Problem(
        lambda x, z, before: loss(x, z) + jnp.sum((x - before) ** 2),
        constraint,
        taut.Ball(1.5, shape=2),
        previous=True,
    )
    cell = taut.Cell(CLIPPED, PROBLEM, Z)
    return {
        "Noisy": (
            taut.Noisy,
            {
                "values": 0.1,
                "gradients": 0.1,
                "loss": None,
                "loss_gradients": None,
                "distribution": "normal",
            },
        ),
        "Bandit": (taut.Bandit, {"points": 2}),
        "Delayed": (taut.Delayed, {"rounds": 2, "longest": None}),
        "Batched": (
            taut.Batched,
            {"function": lambda x, z: x, "rows": None, "size": None, "mask": None},
        ),
        "feedback": (seen, {"feedback": taut.Delayed(1)}),
        "player with feedback": (
            taut.Player,
            {
                "learner": CLIPPED,
                "problem": PROBLEM,
                "feedback": taut.Delayed(1),
                "unproven": True,
                "key": None,
            },
        ),
        "adversary": (taut.adversary, {"reveal": reveal, "state": np.zeros(2)}),
        "Problem with memory": (
            taut.Problem,
            {
                "loss": lambda x, z, before: loss(x, z),
                "constraints": constraint,
                "domain": taut.Ball(1.5, shape=2),
                "previous": True,
                "start": np.zeros(2),
                "announced": lambda x, z, before: jnp.sum(x - before) - 1,
            },
        ),
        "steady": (taut.steady, {"problem": moving}),
        "rescaled": (taut.rescaled, {"problem": PROBLEM}),
        "Cell": (
            taut.Cell,
            {
                "learner": CLIPPED,
                "problem": PROBLEM,
                "stream": Z,
                "horizon": 5,
                "seeds": None,
                "name": "a",
                "tags": {},
                "score": None,
                "x1": None,
                "record": (),
                "every": 1,
                "measure": None,
            },
        ),
        "sweep": (
            taut.sweep,
            {"cells": [cell], "executor": 1, "retry": False, "timeout": None, "progress": False},
        ),
        "sweep of a cell": (
            lambda **given: taut.sweep([taut.Cell(CLIPPED, PROBLEM, **given)], 1),
            {
                "stream": Z,
                "horizon": 5,
                "seeds": None,
                "x1": None,
                "key": None,
                "record": (),
                "every": 1,
            },
        ),
    }


def judged() -> Targets:
    """Hindsight, certificates, comparisons and the arena."""
    run = taut.simulate(CLIPPED, PROBLEM, Z)
    given = {
        "stream": "toy",
        "stream_version": 1,
        "learner": "mine",
        "variant": "theory",
        "horizon": 8,
    }
    return {
        "hindsight": (
            taut.hindsight,
            {
                "problem": PROBLEM,
                "stream": Z,
                "horizon": 5,
                "seeds": None,
                "prefixes": None,
                "method": "exact",
                "tolerance": 1e-8,
            },
        ),
        "certify": (
            lambda **given: taut.certify(run, check=False, **given),
            {
                "problem": None,
                "stream": None,
                "seeds": None,
                "score": None,
                "best": None,
                "data": None,
            },
        ),
        "compare": (
            taut.compare,
            {
                "learners": {"a": CLIPPED},
                "problem": PROBLEM,
                "stream": Z,
                "horizon": 5,
                "seeds": None,
                "score": None,
                "feedback": None,
            },
        ),
        "rates": (
            taut.rates,
            {"learner": CLIPPED, "family": (PROBLEM, Z), "horizons": (2, 3, 5), "seeds": None},
        ),
        "metrics.regret": (lambda **given: taut.metrics.regret(run, **given), {"best": 0.0}),
        "arena.Result": (
            Result,
            {
                **given,
                "values": {"regret": (1.0,), "violation": (1.0,)},
                "parameters": "",
                "bounds": {},
                "broken": (),
                "origin": "taut",
                "version": "0.1.0",
            },
        ),
        "arena.play": (
            arena_play,
            {
                "folder": "arena",
                "learners": (),
                "streams": ("toy",),
                "horizons": (256,),
                "seeds": 1,
                "grid": False,
            },
        ),
    }


def models() -> Targets:
    """Problems written in CVXPY."""
    x, slack, z = cp.Variable(2, name="x"), cp.Variable(name="t"), cp.Parameter(2, name="z")
    known = [cp.sum(x) <= 1, x >= 0, x <= 1]
    return {
        "from_cvxpy": (
            taut.from_cvxpy,
            {
                "loss": cp.sum_squares(x - z),
                "constraints": known,
                "domain": None,
                "constants": None,
                "per_round": None,
                "domain_binds": False,
                "recourse": None,
            },
        ),
        "recourse": (lambda variable: taut.recourse(x, variable), {"variable": slack}),
        "previous": (taut.previous, {"variable": x}),
    }

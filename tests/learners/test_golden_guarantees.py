"""Parameters and bounds of all methods in several settings equal stored numbers, so that no formula
changes unnoticed.

The numbers prove nothing: other tests compare formulas with derivations, runs and attacks. After a
change that is meant, write them again: python tests/learners/test_golden_guarantees.py
"""

import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.engine import register_dataclass
from taut.learners import Observed, Setting
from taut.learners.averaged import Averaged
from taut.learners.bandit import TwoPoint
from taut.learners.bounded_game import BoundedGame
from taut.learners.dual_mirror import DualMirror
from taut.learners.schedules import Constant, Inverse, InverseRoot, Power, Reciprocal
from taut.learners.surrogate import Potential, StrongSurrogate, Surrogate

STORED = Path(__file__).parent / "golden_guarantees.json"

ALL = taut.Constants(
    radius=1.3,
    loss_lipschitz=2.1,
    constraint_lipschitz=1.7,
    loss_range=3.7,
    constraint_range=2.3,
    strong_convexity=0.4,
    constraint_smoothness=0.9,
    constraint_count=1,
    slater=0.35,
    error_bound=0.6,
)


@register_dataclass
@dataclass(frozen=True)
class OwnPotential(Potential):
    """q^2 / 2, for which nothing is proven."""

    def slope(self, queue, t):
        return queue


SEEN = Observed(1.9, 151.0, 0.8, 1.6)
SETTINGS = {
    "all known": Setting(ALL, 2.2, True, 0.0, -0.2, observed=SEEN),
    "violated at first": Setting(ALL, 2.2, True, 0.45, 0.45, path_length=3.1),
    "several, changing": Setting(
        ALL.with_values(constraint_count=3, constraint_smoothness=None, error_bound=None),
        2.2,
        False,
        observed=SEEN,
    ),
    "affine": Setting(
        ALL.with_values(
            constraint_smoothness=0.0, constraint_count=4, strong_convexity=0.0, half_spaces=4
        ),
        2.2,
        True,
        0.0,
        -0.1,
        constraints_affine=True,
        observed=SEEN,
    ),
    "little known": Setting(
        taut.Constants(
            radius=0.7, loss_lipschitz=0.5, constraint_lipschitz=2.9, constraint_count=1
        ),
        1.4,
        True,
        0.0,
        -1.0,
    ),
}
OPTIONS = {
    "clipped-ogd": [
        {"beta": 0.3, "alpha": 0.2},
        {"rule": "bound-optimal", "weight": 2.5},
        {"rule": "bound-optimal", "initial_distance": 0.0},
    ],
    "clipped-ogd-strong": [{"rule": "paper"}],
    "clipped-ogd-doubling": [{"beta": 0.6, "warm": True}],
    "half-space": [
        {"memory": 0},
        {"memory": 3, "sweeps": None},
        {"start_up": 0.0, "joint": True},
        {"rows": "all"},
    ],
    "half-space-horizon": [{"memory": 0}, {"sweeps": None, "rows": "all"}],
    "half-space-anytime": [{"memory": 0}],
    "half-space-strong": [{"memory": 0}],
    "averaged": [{"sigma": 0.3}, {"sigma": 0.3, "gradient_sigma": 0.2}],
    "averaged-smooth": [{"sigma": 0.3}],
    "averaged-blocks": [{"sigma": 0.3}, {"sigma": 0.3, "block": 3}],
    "block-frank-wolfe": [{"block": 5}],
    "delay-tolerant": [{"delay": 4}],
    "one-point": [{"penalty": None}, {"penalty": 2.0}],
    "two-point": [{"penalty": None}, {"penalty": 2.0}],
    "no-slater": [{"gain": 2.0, "regulariser": 0.5}],
    "a-ogd": [{"beta": 0.7}],
    "a-ogd-strong-clipped": [{"beta": 0.3}],
    "step-experts": [{"penalty": 2.0}, {"cuts": False}],
    "surrogate": [{"c": 0.4}],
    "surrogate-anytime": [{"penalty": 0.3}],
    "yu-neely": [{"norm": 2.5}],
}
FIXED = taut.HalfSpace(0.02, 2.0, sweeps=None, rows="all", joint=True)
BY_HAND = {  # parameters that theorems do not allow, or allow in some settings only
    "half-space, 1 / t^1.5": taut.HalfSpace(Power(0.1, 0.0, 1.5), 2.0),
    "half-space, steep": taut.HalfSpace(Inverse(0.1), 2.0),
    "half-space, memory": taut.HalfSpace(0.02, 2.0, memory=2),
    "half-space, small margin": taut.HalfSpace(0.02, 2.0, 0.0005, joint=True),
    "half-space, margin": taut.HalfSpace(0.01, 2.0, 0.1, joint=True),
    "half-space, large margin": taut.HalfSpace(0.02, 2.0, 0.4),
    "clipped-ogd, 1 / t^1.5": taut.ClippedOGD(Power(0.1, 0.0, 1.5), 30.0),
    "clipped-ogd, short": taut.ClippedOGD(1e-6, 30.0),
    "clipped-ogd, steep": taut.ClippedOGD(Inverse(0.1, 1.0), 30.0),
    "clipped-ogd, small sigma": taut.ClippedOGD(0.02, 1.0),
    "projected-ogd, 1 / t^1.5": taut.ProjectedOGD(Power(0.1, 0.0, 1.5), taut.Ball(0.8, shape=2)),
    "projected-ogd, steep": taut.ProjectedOGD(Inverse(0.1), taut.Ball(0.8, shape=2)),
    "ogd, two steps": taut.SaddlePoint(Constant(0.01), Constant(0.02), Constant(0.1)),
    "ogd, mixed": taut.SaddlePoint(Constant(0.01), InverseRoot(0.02), Constant(0.1)),
    "a-ogd, two powers": taut.SaddlePoint(
        Constant(0.01), Reciprocal(InverseRoot(9.0), 1.0), InverseRoot(9.0)
    ),
    "a-ogd, shifted": taut.SaddlePoint(
        InverseRoot(0.1, 2.0), Reciprocal(InverseRoot(9.0), 1.0), InverseRoot(9.0)
    ),
    "bounded-game, two powers": BoundedGame(InverseRoot(0.1), Constant(0.1), 5.0),
    "two-point, half-space": TwoPoint(taut.HalfSpace(0.01, 2.0), 0.01, 2.0, 1.0, np.zeros(2)),
    "two-point, clipped-ogd": TwoPoint(taut.ClippedOGD(0.1, 30.0), 0.01, 2.0, 1.0, np.zeros(2)),
    "dual-mirror, 100 rounds": DualMirror(0.1, 100),
    "surrogate, own potential": Surrogate(0.3, OwnPotential(), 0.5, 0.5, 2.0),
    "surrogate-strong, steep": StrongSurrogate(3.0, 2.0),
    "averaged, 100 rounds": Averaged(FIXED, 100, 0.3),
    "averaged, noisy gradients": Averaged(replace(FIXED, joint=False), 2000, 0.3, 0.2),
    "averaged, memory": Averaged(replace(FIXED, memory=2), 2000, 0.3),
    "averaged, margin": Averaged(replace(FIXED, margin=0.1), 2000, 0.3),
    "averaged, not joint": Averaged(replace(FIXED, joint=False), 2000, 0.3),
    "averaged-smooth, less smooth": Averaged(FIXED, 2000, 0.3, smoothness=0.1, rows="smooth"),
    "averaged-smooth, 1 / sqrt(t)": Averaged(
        replace(FIXED, eta=InverseRoot(0.1)), 2000, 0.3, smoothness=2.0, rows="smooth"
    ),
}
ONLY_BY_HAND = {
    "announced": replace(SETTINGS["all known"], announced=True),
    "moving, changing": replace(SETTINGS["several, changing"], path_length=3.1),
    "larger": replace(SETTINGS["affine"], size=5),
    "unknown start": replace(SETTINGS["affine"], initial_violation=None, initial_excess=None),
}
BANDITS = ("one-point", "two-point")
"""Methods that need a domain. Without options they are asked for without one."""
HORIZONS = (9, 1000)
CASES = [
    (name, setting, horizon, options)
    for name in taut.LEARNERS
    for options in ({}, *OPTIONS.get(name, ()))
    for setting in SETTINGS
    for horizon in (
        HORIZONS if options.get("rule") != "bound-optimal" else HORIZONS[1:]
    )  # optimal parameters take long
] + [(name, setting, 1000, {}) for name in BY_HAND for setting in (*SETTINGS, *ONLY_BY_HAND)]


def digest(*texts):
    return hashlib.sha256("|".join(texts).encode()).hexdigest()[:8]


def described(name, setting, horizon, options):
    """The parameters of the method, then its guarantees, each as a list of texts and numbers."""
    known = (SETTINGS | ONLY_BY_HAND)[setting]
    given = known.constants
    if name in BANDITS and options:
        count = given.constraint_count
        given = taut.Problem(
            jnp.vdot, lambda x: jnp.resize(x, count), taut.Ball(1.1, shape=2), given
        )
    try:
        learner = BY_HAND.get(name) or taut.LEARNERS[name].build(
            given, horizon, feasible=taut.Ball(0.8, shape=2), **options
        )
    except ValueError as error:
        return [["refused", str(error).partition(":")[0]]]
    leaves = jax.tree.leaves(learner)
    parameters = [
        float(np.sum(np.arange(1, 1 + np.size(leaf)) * np.ravel(leaf))) for leaf in leaves
    ]
    rows = [["parameters", *parameters]]
    for one in learner.guarantees(known, horizon):
        text = digest(
            one.source, *sorted(one.assumptions), str(one.expected), str(bool(one.reason))
        )
        rows.append([one.quantity, text, *([] if one.bound is None else [float(one.bound)])])
    return rows


def label(case):
    name, setting, horizon, options = case
    return f"{name} {json.dumps(options, sort_keys=True)} {setting} {horizon}"


STORED_ROWS = json.loads(STORED.read_text()) if STORED.exists() else {}


@pytest.mark.parametrize("name", dict.fromkeys(case[0] for case in CASES))
def test_parameters_and_bounds_are_those_that_are_stored(name):
    for case in CASES:
        if case[0] != name:
            continue
        assert label(case) in STORED_ROWS, (
            "store the numbers with python tests/learners/test_golden_guarantees.py"
        )
        found, stored = described(*case), STORED_ROWS[label(case)]
        assert [row[: _texts(row)] for row in found] == [row[: _texts(row)] for row in stored], (
            label(case)
        )
        for row, other in zip(found, stored, strict=True):
            numbers, others = row[_texts(row) :], other[_texts(other) :]
            assert numbers == pytest.approx(others, rel=1e-9, abs=1e-300, nan_ok=True), (
                label(case),
                row[0],
            )


def _texts(row):
    return 1 if row[0] == "parameters" else 2


def test_the_stored_numbers_are_those_of_all_methods():
    assert set(STORED_ROWS) <= {label(case) for case in CASES}
    bounds = [
        row[2]
        for rows in STORED_ROWS.values()
        for row in rows
        if row[0] != "parameters" and len(row) > 2
    ]
    assert len(bounds) > 500
    assert all(math.isfinite(bound) for bound in bounds)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    lines = [f"{json.dumps(label(case))}: {json.dumps(described(*case))}" for case in CASES]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")

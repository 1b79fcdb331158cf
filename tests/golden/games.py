"""The games of the golden file: every registered learner, every problem of `taut.testing`, six
ways to play them.

A case is a learner, a problem, a mode and a float type. `alone` plays one seed of a case by itself,
`together` several seeds in one simulation. What a seed gives must not depend on the others.
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.testing.playing import applies, tuned
from taut.testing.problems import PROBLEMS

ROUNDS, SEEDS = 50, 10
SEED_COUNTS = (1, 3, 10)
TYPES = ("float64", "float32")
MODES = ("plain", "announced", "previous", "adversary", "feedback", "checkpoint")
CHUNK = 16
"""Rounds that are played at a time: a checkpoint is written, and read again, after so many."""
ROUNDS_SHOWN = (2, 3, 5, 9, 17, 33, 50)
"""The rounds whose decisions the golden file shows."""
KNOWN = {known.name: known for known in PROBLEMS}


@dataclass(frozen=True)
class Case:
    """One game, to be played with any number of seeds."""

    learner: str
    problem: str
    mode: str
    dtype: str

    @property
    def stored(self) -> Case:
        """The case with the same numbers: a checkpoint changes none of them."""
        if self.mode == "checkpoint":
            return Case(self.learner, self.problem, "plain", self.dtype)
        return self

    def __str__(self) -> str:
        return " ".join((self.learner, self.problem, self.mode, self.dtype))


def problems_of(name: str) -> list[str]:
    """The problems that a method can play."""
    names = [known.name for known in PROBLEMS if applies(taut.LEARNERS[name], known)]
    if name == "dual-mirror":
        # Its normals add up to zero: rounding would decide which decision uses the least.
        names.remove("moving")
    return names


@cache
def learner_of(name: str, problem: str) -> taut.Learner:
    return tuned(taut.LEARNERS[name], KNOWN[problem], ROUNDS)


def modes_of(name: str) -> list[str]:
    """The modes in which a method can be played."""
    learner = learner_of(name, problems_of(name)[0])
    left_out = set() if learner.heeds_announced else {"announced"}
    if learner.request_first:  # it sees the whole round before its decision
        left_out.add("feedback")
    return [mode for mode in MODES if mode not in left_out]


def full_product() -> list[Case]:
    """All cases."""
    return [
        Case(name, problem, mode, dtype)
        for name in taut.LEARNERS
        for problem in problems_of(name)
        for mode in modes_of(name)
        for dtype in TYPES
    ]


def stored_cases() -> list[Case]:
    """The cases of the golden file: every learner on every problem, and in every mode and float
    type on one of them."""
    cases = {}
    for name in taut.LEARNERS:
        for problem in problems_of(name):
            cases[Case(name, problem, "plain", "float64")] = None
        for mode, dtype in itertools.product(modes_of(name), TYPES):
            cases[_case(name, mode, dtype).stored] = None
    return list(cases)


COMBINATIONS = (
    (10, "float64"),
    (3, "float32"),
    (1, "float64"),
    (10, "float32"),
    (3, "float64"),
    (1, "float32"),
)
"""Any three in a row have all numbers of seeds and both float types."""


def tested_games() -> list[tuple[Case, int]]:
    """The cases and numbers of seeds of the test: every learner meets every mode, number of seeds
    and float type."""
    games = []
    for place, name in enumerate(taut.LEARNERS):
        combinations = itertools.islice(itertools.cycle(COMBINATIONS), place, None)
        modes = [mode for mode in modes_of(name) if mode != "checkpoint"]
        chosen = {mode: next(combinations) for mode in modes}
        chosen["checkpoint"] = chosen["plain"]  # which runs the same program
        for mode, (seeds, dtype) in chosen.items():
            games.append((_case(name, mode, dtype), seeds))
    return games


def _case(name: str, mode: str, dtype: str) -> Case:
    """The case of a method, a mode and a float type, in which its problems take turns."""
    problems, place = problems_of(name), list(taut.LEARNERS).index(name)
    turn = MODES.index("plain" if mode == "checkpoint" else mode) + place
    return Case(name, problems[(turn + 2 * TYPES.index(dtype)) % len(problems)], mode, dtype)


# -- The modes


def _with_previous(loss, constraints):
    """A cost of moving, and a limit of how far a decision moves."""

    def priced(x, z, previous):
        return loss(x, z) + 0.1 * jnp.sum((x - previous) ** 2)

    def limited(x, z, previous):
        return constraints(x, z), jnp.sum((x - previous) ** 2) - 0.04

    return priced, limited


def _announced(x, z):
    """A half-space that depends on the data, with the centre of every domain inside."""
    level = 0.6 + 0.3 * jnp.tanh(jnp.sum(jax.tree.leaves(z)[0]))
    return jnp.sum(x) - level.astype(x.dtype)


@cache
def _problem(problem: str, mode: str, aggregated: bool) -> taut.Problem:
    """The problem as it is played in this mode."""
    stated = KNOWN[problem].problem
    if mode == "announced":
        stated = taut.Problem(
            stated.loss,
            stated.constraints,
            stated.domain,
            stated.constants,
            announced=_announced,
        )
    if mode == "previous":
        loss, constraints = _with_previous(stated.loss, stated.constraints.values)
        stated = taut.Problem(loss, constraints, stated.domain, previous=True)
    return taut.max_of(stated) if aggregated else stated


def _late(key, t):
    return jax.random.randint(key, (), 0, 4)


@cache
def _feedback(name: str, problem: str) -> taut.Feedback:
    """A feedback that the method is made for, or one of three others."""
    kinds = taut.LEARNERS[name].feedback
    if "bandit" in kinds:
        return taut.Bandit(2 if name == "two-point" else 1)
    if "delayed" in kinds:
        return taut.Delayed(4)
    if "batched" in kinds:
        constraints = KNOWN[problem].problem.constraints
        rows = np.linspace(0.8, 1.2, 40)
        return taut.Batched(lambda x, row: row * constraints.values(x, None), rows, size=8)
    others = (
        taut.Noisy(values=0.1, gradients=0.05),
        taut.Delayed(3),
        taut.Delayed(_late, longest=3),
    )
    return others[list(taut.LEARNERS).index(name) % 3]


# -- Playing


class _Interruption(Exception):
    """Ends a simulation in the middle."""


def _interrupted(learner, problem, data, options):
    """Play with a checkpoint, stop after the first chunk if there are more, and go on."""
    alone, running = options["seeds"] is None, [False]

    def chunk(start, length):
        if start > 0 and not running[0]:
            raise _Interruption
        cut = slice(start, start + length)
        return jax.tree.map(lambda a: a[cut] if alone else a[:, cut], data)

    with tempfile.TemporaryDirectory() as folder:
        options = {**options, "checkpoint": folder}
        try:
            return taut.simulate(learner, problem, chunk, **options)
        except _Interruption:
            running[0] = True
            return taut.simulate(learner, problem, chunk, **options)


def _first(problem: str) -> np.ndarray:
    """The first decision: a point where no two constraints tie, because rounding decides between
    them in later rounds."""
    centre = np.asarray(KNOWN[problem].problem.domain.centre)
    return centre + 0.1 * np.cos(np.arange(1, 1 + centre.size)).reshape(centre.shape)


def _played(case: Case, data, key, seeds, rounds, added=0.0):
    learner = learner_of(case.learner, case.problem)
    aggregated = taut.LEARNERS[case.learner].aggregated
    problem = _problem(case.problem, case.mode, aggregated)
    options = {"key": key, "seeds": seeds, "horizon": rounds, "record": ("decisions",)}
    options |= {"x1": np.asarray(_first(case.problem), case.dtype), "chunk": CHUNK}
    if case.mode == "checkpoint":
        return _interrupted(learner, problem, data, options)
    if case.mode == "feedback":
        options |= {"feedback": _feedback(case.learner, case.problem), "unproven": True}
    if case.mode == "adversary":
        data = _reveal(case.problem, added)
    return taut.simulate(learner, problem, data, **options)


KEY = 7
UNEVEN = 0.05 * np.cos(np.arange(1, 10)).reshape(3, 3)
"""Added to matrices that are data, so that rows and columns have different sums. A step to one of
the data would otherwise make constraints tie, and rounding would decide between them."""


@cache
def _stream(problem: str):
    data = KNOWN[problem].stream(SEEDS, ROUNDS, seed=3)
    return data + UNEVEN if problem == "doubly-stochastic" else data


@cache
def _reveal(problem: str, added: float = 0.0):
    """The adversary of a problem, whose data can be given small additions."""
    reveal = KNOWN[problem].reveal

    def revealed(t, x, key):
        data = reveal(t, x, key)
        if problem == "doubly-stochastic":
            data = data + jnp.asarray(UNEVEN, data.dtype)
        return jax.tree.map(lambda a: a + added * _waves(a, t).astype(a.dtype), data)

    return revealed


def _waves(a, t=0):
    """Numbers between -1 and 1, as many as there are in the array."""
    return jnp.cos(jnp.arange(a.size) + t).reshape(a.shape)


def alone(case: Case, seed: int, rounds: int) -> taut.Run:
    """Play one seed by itself."""
    data = jax.tree.map(lambda a: a[seed], _stream(case.problem))
    return _played(case, data, _key(seed), None, rounds)


def together(case: Case, seeds: int, rounds: int) -> taut.Run:
    """Play the first seeds side by side, or the first one by itself."""
    if seeds == 1:
        return alone(case, 0, rounds)
    data = jax.tree.map(lambda a: a[:seeds], _stream(case.problem))
    return _played(case, data, jax.random.key(KEY), seeds, rounds)


def _key(seed: int):
    """The key of one seed, which does not depend on how many there are."""
    return jax.random.split(jax.random.key(KEY), SEEDS)[seed]


# -- How many rounds rounding does not decide

SHAKEN = {"float64": 1e-13, "float32": 1e-6}
"""What is added to the data of every round: more than rounding, and little."""
DECIDED = {"float64": 1e-9, "float32": 1e-3}
"""Decisions that differ by more have been decided by what was added."""


def steady_rounds(case: Case, seed: int) -> int:
    """The number of rounds of a seed after which noise of the size of rounding has not yet decided
    anything, such as which of two tied constraints is the larger."""
    plain, steady = alone(case, seed, ROUNDS).decisions[0], ROUNDS
    for added in (-SHAKEN[case.dtype], SHAKEN[case.dtype]):
        data = jax.tree.map(lambda a: a[seed], _stream(case.problem))
        data = jax.tree.map(lambda a, added=added: a + added * np.asarray(_waves(a)), data)
        shaken = _played(case, data, _key(seed), None, ROUNDS, added).decisions[0]
        far = np.abs(shaken - plain).reshape(ROUNDS, -1).max(axis=1) > DECIDED[case.dtype]
        # The final decision, after as many rounds, has to be steady too.
        steady = min(steady, int(np.argmax(far)) - 1 if far.any() else ROUNDS)
    return steady


# -- Numbers


def _sum_of(decision: np.ndarray) -> float:
    """One number that changes with every entry of a decision."""
    flat = np.ravel(decision).astype(float)
    return float(np.cos(np.arange(1, 1 + flat.size)) @ flat)


def numbers_of(run: taut.Run, seed: int, short: bool = False) -> list[float]:
    """What the golden file shows of a seed: totals, the final decision and some of the others;
    `short` is three numbers."""
    totals = run.totals
    numbers = [totals.loss[seed], totals.worst_violation[seed], _sum_of(run.final[seed])]
    if not short:
        each = (totals.excess, totals.violation, totals.squared, totals.peak)
        numbers += [_sum_of(total[seed]) for total in each]
        shown = [t for t in ROUNDS_SHOWN if t <= run.decisions.shape[1]]
        numbers += [_sum_of(run.decisions[seed, t - 1]) for t in shown]
    return [float(number) for number in numbers]

"""Assumptions: what a guarantee rests on, checked against the problem and the run as far as
checking goes.

Each one comes out as "given" (nothing could be checked), "verified exactly" or "proven" (it is a
fact, see `facts`), "probed, not refuted" (it held wherever it was tried, which is not a proof) or
"refuted", with the witness that refutes it. Constants are compared with what was observed in all
rounds of the run, and with values at decisions all over the domain in a sample of the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array, default_float
from ..learners import Assumes
from ..player.steps import Extreme
from ..problem.constants import SYMBOLS
from ..problem.domains import Domain
from ..problem.domains.support import centre_of, project_rows
from ..problem.evaluation import constraint_evaluation
from ..problem.feasibility import find_feasible
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..problem.sampling import generator, sample_decisions, sample_rounds
from ..problem.streams import Stream
from ..problem.transforms import Tightened
from .facts.find import PROVEN, VERIFIED, Fact, Facts
from .observed import Observations, largest_values, probe, walk_back

GIVEN, PROBED, REFUTED = "given", "probed, not refuted", "refuted"
NOTHING = Facts()
"""No facts."""
SLACK = 1e-6
"""Relative room for rounding before a probe counts as a refutation,"""
UNITS = 64
"""at least so many units of rounding of the numbers that are added up."""
SAMPLES = 192
"""Decisions that are tried, besides those that were played."""
ROUNDS = 16
"""Rounds that are sampled for probes all over the domain."""
DISTANCES = 12
"""Infeasible decisions whose distance to the feasible set is computed."""
_DEFAULT_KEY = np.array([0, 0], np.uint32)
_DEFAULT_KEYS = np.array(
    [[1797259609, 2579123966], [928981903, 3453687069], [4146024105, 2718843009]], np.uint32
)
"""`jax.random.key(0)` and its split into three, which would be compiled otherwise."""


@dataclass(frozen=True)
class Assumption:
    """One assumption and what is known of it."""

    name: str
    status: str
    detail: str
    witness: Any = None
    """For a refuted assumption: the point, or points, at which it fails."""

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")

    @property
    def refuted(self) -> bool:
        """Whether a counterexample was found."""
        return self.status == REFUTED


@dataclass(frozen=True, eq=False)
class _Probes:
    """Decisions at which assumptions are tried, and what is known there. Losses and constraints are
    evaluated at pairs of them only if an assumption is not proven."""

    problem: Problem
    stream: Stream | None
    points: Array
    """The played ones first."""
    seen: Observations
    facts: Facts
    keys: Any
    """Of the rounds, and of the pairs."""

    @cached_property
    def data(self) -> Any:
        """A sample of the rounds."""
        return None if self.stream is None else rounds_of(self.stream, self.keys[0])

    @cached_property
    def order(self) -> Array:
        """The other decision of each pair."""
        return generator(self.keys[1]).permutation(len(self.points))

    @cached_property
    def values(self) -> dict[str, Array]:
        """What `probe` finds at the pairs; empty without data."""
        if self.stream is None:
            return {}
        return probe(self.problem, self.points, self.order, self.data)

    @property
    def unit(self) -> float:
        """How far rounding can move a number, as a share of the numbers that are added up."""
        return UNITS * float(np.finfo(self.points.dtype).eps)

    @property
    def slack(self) -> float:
        """The same, and at least `SLACK`."""
        return max(SLACK, self.unit)

    def worst(self, score: Array) -> dict[str, Array]:
        """Return the pair with the largest score, (round, point)."""
        i = int(np.argmax(score)) % score.shape[1]
        return {"x": np.asarray(self.points[i]), "y": np.asarray(self.points[self.order[i]])}


def check(
    problem: Problem,
    stream: Stream | None,
    key: jax.Array | None,
    seen: Observations,
    feasible: Domain | None = None,
    facts: Facts = NOTHING,
    rests: Collection[str] = (),
) -> tuple[Assumption, ...]:
    """Check all that can be checked of `problem` over `stream`.

    Arguments:
        problem: the problem that was played.
        stream: its data; without them losses are not probed, nor constraints that change.
        key: random key for the probes.
        seen: what was observed in all rounds of the run.
        feasible: the set that the learner takes for the feasible set, if it projects onto one.
        facts: what is proven. Constants are those of the problem, strengthened by facts.
        rests: names of all assumptions on which a bound may rest.
    """
    problem = problem.with_constants(facts.strengthened(problem.constants))
    where, *keys = _DEFAULT_KEYS if key is None else jax.random.split(key, 3)
    sampled = sample_decisions(problem.domain, where, SAMPLES)
    points = np.concatenate([seen.violating, seen.played, sampled]).astype(default_float())
    probes = _Probes(problem, stream, points, seen, facts, keys)
    checks = _checked(probes, feasible, rests)
    return tuple(assumption for assumption in checks if assumption is not None)


def _checked(
    probes: _Probes, feasible: Domain | None, rests: Collection[str]
) -> Iterator[Assumption | None]:
    """All assumptions in the order in which a certificate shows them; None for those that are not
    stated. A player keeps no data, so that less is checked of it."""
    problem, facts = probes.problem, probes.facts
    moving, probing = problem.constraints.takes_data, probes.stream is not None
    yield _domain(problem, probes.points)
    if probing:
        yield _convex(probes, "losses", "loss", facts.convex_losses)
        yield _convex(probes, "constraints", "excess", facts.convex_constraints)
    yield from _extremes(probes)
    yield _radius(problem, probes.points)
    if probing:
        yield _count(probes)
        yield _strong(probes)
        yield _smooth(probes)
    yield _centre(probes)
    if probing or not moving:
        yield check_slater(problem, probes.data if moving else None, facts=facts)
        yield _error_bound(probes)
        yield _half_spaces(problem, facts)
    yield _fixed(problem)
    if probing and str(Assumes.AFFINE_CONSTRAINTS) in rests:
        yield _affine(probes)
    if probing and feasible is not None:
        yield _projection(probes, feasible)


def _proven(name: str, problem: Problem, facts: Facts) -> Assumption | None:
    """The assumption about a constant whose value is a fact; None if it is none."""
    fact = facts.proof(name, problem.constants)
    if fact is None:
        return None
    return Assumption(name, fact.kind, f"{SYMBOLS[name]} = {fact.value:.6g}: {fact.source}")


def rounds_of(stream: Stream, key: Any) -> Any:
    """A sample of the data of a run's rounds, for a random key or None."""
    count = min(ROUNDS, stream.horizon * stream.seeds)
    return sample_rounds(stream, _DEFAULT_KEY if key is None else key, count)


def _convex(probes: _Probes, what: str, kind: str, fact: Fact | None) -> Assumption:
    name, proof = f"convex {what}", probes.problem.proof_of_convexity
    if fact is not None and not proof:
        return Assumption(name, fact.kind, fact.source)
    gap, scale = probes.values[f"{kind}_gap"], probes.values[f"{kind}_scale"]
    short = -gap - probes.slack * (1e-3 * scale.max() + scale)
    if short.max() > 0:
        i = int(np.argmax(short)) % len(probes.points)
        least = gap.reshape(-1, len(probes.points))[:, i].min()
        detail = f"one of the {what} at y lies {-least:.3g} below its tangent at x"
        return Assumption(name, REFUTED, detail, probes.worst(short))
    if proof:
        return Assumption(name, PROVEN, f"by {proof}")
    return Assumption(name, PROBED, f"first-order inequality at {gap.size} pairs")


def _extremes(probes: _Probes) -> Iterator[Assumption | None]:
    """The constants that bound what is seen: in all rounds of the run, and wherever else it was
    tried."""

    def at_one(kind: str) -> tuple[float, str, Any]:
        values = probes.values[kind]
        witness = {"x": probes.worst(values)["x"]}
        return float(values.max()), "at x, which was not played", witness

    def spread() -> tuple[float, str, Any]:
        loss, points = probes.values["loss"], probes.points
        differences = loss.max(axis=1) - loss.min(axis=1)
        row = loss[int(np.argmax(differences))]
        ends = {"x": np.asarray(points[row.argmax()]), "y": np.asarray(points[row.argmin()])}
        return float(differences.max()), "between x and y", ends

    # Ranges are those of values, in which larger numbers may cancel.
    sizes = probes.seen.constraint_size, probes.seen.loss_size
    yield _largest("loss_lipschitz", probes, 0.0, partial(at_one, "loss_slope"))
    yield _largest("constraint_lipschitz", probes, 0.0, partial(at_one, "excess_slope"))
    yield _largest("constraint_range", probes, sizes[0], partial(at_one, "excess_reach"))
    yield _largest("loss_range", probes, sizes[1], spread)


def _largest(
    name: str, probes: _Probes, size: float, elsewhere: Callable[[], tuple[float, str, Any]]
) -> Assumption | None:
    """A constant that bounds what was observed; `elsewhere` finds the largest number at the probes,
    where it is, and a witness."""
    constants, seen = probes.problem.constants, probes.seen
    stated = getattr(constants, name)
    if stated is None:
        return None
    extreme: Extreme = getattr(seen, name)
    text = f"{SYMBOLS[name]} = {stated:.6g} ({constants.source(name)})"
    most = stated + probes.slack * stated + probes.unit * size + 1e-12
    if extreme.value > most:
        seed = "" if extreme.seed is None else f" of seed {extreme.seed}"
        detail = f"{text}, but {extreme.value:.6g} in round {extreme.round}{seed}"
        return Assumption(name, REFUTED, detail, extreme.witness)
    proven = _proven(name, probes.problem, probes.facts)
    if proven is not None:
        return proven
    rounds = f"rounds {seen.since:,} to {seen.rounds:,}"
    if seen.since == 1:
        rounds = f"all {seen.rounds:,} rounds" + (f" of {seen.seeds} seeds" * (seen.seeds > 1))
    observed = f"{text}, largest over {rounds} {extreme.value:.6g}"
    if probes.stream is None and not np.isfinite(extreme.value):
        return Assumption(name, GIVEN, f"{text}, not observed")
    if probes.stream is None:
        return Assumption(name, PROBED, observed)
    largest, where, witness = elsewhere()
    if largest > most:
        return Assumption(name, REFUTED, f"{text}, but {largest:.6g} {where}", witness)
    return Assumption(name, PROBED, f"{observed}, elsewhere {largest:.6g}")


def _count(probes: _Probes) -> Assumption | None:
    problem = probes.problem
    stated = problem.constants.constraint_count
    if stated is None:
        return None
    rounds = None
    if problem.constraints.takes_data:
        rounds = jax.tree.map(lambda a: a[None], probes.data)
    count = constraint_evaluation(problem).count(probes.points[:1, None], rounds)
    detail = f"m = {stated}; the number of constraint values is {count}"
    status = VERIFIED if stated == count else REFUTED
    return Assumption("constraint_count", status, detail, {"m": count})


def _radius(problem: Problem, points: Array) -> Assumption | None:
    stated = problem.constants.radius
    if stated is None:
        return None
    exact = float(problem.domain.radius)
    if exact <= stated * (1 + SLACK):
        return Assumption("radius", VERIFIED, f"R = {stated:.6g}, the domain's is {exact:.6g}")
    offsets = (points - centre_of(problem.domain)).reshape(len(points), -1)
    farthest = points[int(np.linalg.norm(offsets, axis=1).argmax())]
    detail = f"R = {stated:.6g}, but the domain reaches {exact:.6g} from its centre"
    return Assumption("radius", REFUTED, detail, {"x": np.asarray(farthest)})


def _domain(problem: Problem, points: Array) -> Assumption:
    """Look for a feasible point outside: walk back to g <= 0 from far outside in many
    directions."""
    if problem.constraints.takes_data:
        why = "constraints change with the round: the domain counts as part of them"
        return Assumption("domain", GIVEN, why)
    if problem.proof_of_domain:
        why = f"it contains the feasible set: {problem.proof_of_domain}"
        return Assumption("domain", VERIFIED, why)
    if problem.domain_binds:
        return Assumption("domain", GIVEN, "the domain is a constraint itself")
    outside, feasible, ends = walk_back(problem.as_stated(), points)
    hits = np.flatnonzero(outside & feasible)
    if hits.size:
        why = (
            "a feasible decision lies outside the domain; if the domain is a limit that always "
            "holds, say so with Problem(..., domain_binds=True)"
        )
        return Assumption("domain", REFUTED, why, {"x": np.asarray(ends[hits[0]])})
    why = f"no feasible decision outside the domain in {len(points)} directions"
    return Assumption("domain", PROBED, why)


def _strong(probes: _Probes) -> Assumption | None:
    name, modulus = "strong_convexity", probes.problem.constants.strong_convexity
    proven = _proven(name, probes.problem, probes.facts)
    if modulus == 0 or proven is not None:
        return proven if modulus else None
    values = probes.values
    gap, scale, length = values["loss_gap"], values["loss_scale"], values["length"]
    short = modulus / 2 * length**2 - gap - probes.slack * (1e-3 * scale.max() + scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        curvature = np.nanmin(np.where(length > 1e-6, 2 * gap / length**2, np.inf))
    but = f"the losses curve by {curvature:.6g} only between x and y"
    return _at_pairs(name, probes, short, but)


def _smooth(probes: _Probes) -> Assumption | None:
    name, stated = "constraint_smoothness", probes.problem.constants.constraint_smoothness
    proven = _proven(name, probes.problem, probes.facts)
    if stated is None or proven is not None:
        return proven
    values = probes.values
    room = max(1e-9, probes.unit) * float(values["excess_slope"].max())
    over = values["excess_bend"] - stated * values["length"] * (1 + SLACK) - room
    but = "gradients at x and y differ by more than L times their distance"
    return _at_pairs(name, probes, over, but)


def _at_pairs(name: str, probes: _Probes, over: Array, but: str) -> Assumption:
    """A constant of curvature, which a pair with `over` above 0 refutes."""
    constants = probes.problem.constants
    text = f"{SYMBOLS[name]} = {getattr(constants, name):.6g} ({constants.source(name)})"
    if over.max() > 0:
        return Assumption(name, REFUTED, f"{text}, but {but}", probes.worst(over))
    return Assumption(name, PROBED, f"{text} at {over.size} pairs")


def _centre(probes: _Probes) -> Assumption | None:
    problem = probes.problem
    if problem.constraints.takes_data:
        return None
    centre = centre_of(problem.domain)
    excess = float(largest_values(problem, centre[None])[0])
    rounding = UNITS * float(np.finfo(centre.dtype).eps) * max(probes.seen.constraint_size, 0.0)
    if excess > rounding:
        detail = f"the domain's centre exceeds a constraint by {excess:.6g}"
        return Assumption("centre feasible", REFUTED, detail, {"x": centre})
    return Assumption("centre feasible", VERIFIED, f"max g = {excess:.6g} at the domain's centre")


def check_slater(
    problem: Problem, data: Any = None, name: str = "slater", facts: Facts | None = None
) -> Assumption | None:
    """Look for a decision with g_i <= -epsilon for all i, or for a proof that there is none.

    Arguments:
        problem: the problem.
        data: rounds in which the decision must have that much room, if constraints change: a
            sample, so finding one proves nothing about the other rounds.
        name: what to call the assumption.
        facts: what is proven of the problem.
    """
    stated = problem.constants.slater
    if stated is None:
        return None
    verified = None if facts is None else _proven("slater", problem, facts)
    if verified is not None:
        return verified
    constraints = problem.constraints
    if constraints.takes_data:

        def in_all(x: jax.Array) -> jax.Array:
            return jax.vmap(lambda z: constraints.values(x, z))(data).ravel()

        problem = Problem(problem.loss, in_all, problem.domain)
    margin = Tightened(problem.constraints, stated * (1 - SLACK))
    tighter = replace(problem.constants, slater=None, estimated=frozenset(), exact=frozenset())
    point, bound, proven, *_ = find_feasible(Problem(problem.loss, margin, problem.domain, tighter))
    text = f"epsilon = {stated:.6g}"
    if point is not None:
        status, why = PROBED if constraints.takes_data else VERIFIED, "a decision with slack"
        return Assumption(name, status, f"{why} {stated:.6g} exists", {"x": np.asarray(point)})
    if proven:
        room = stated - bound
        why = f"{text}, but no decision has more slack than {room:.6g}"
        return Assumption(name, REFUTED, why, {"room": room})
    return Assumption(name, GIVEN, f"{text}: neither found nor refuted")


def _half_spaces(problem: Problem, facts: Facts) -> Assumption | None:
    stated, smooth = problem.constants.half_spaces, facts.constraint_smoothness
    if stated is None:
        return None
    proven = _proven("half_spaces", problem, facts)
    if proven is not None:
        return proven
    seen, text = facts.half_spaces, f"M = {stated} ({problem.constants.source('half_spaces')})"
    if seen is not None and smooth is not None and smooth.value == 0 and seen.value > stated:
        detail = f"{text}, but the rounds have {seen.value} different half-spaces"
        return Assumption("half_spaces", REFUTED, detail, {"M": int(seen.value)})
    return Assumption("half_spaces", GIVEN, f"{text}: not checked")


def _error_bound(probes: _Probes) -> Assumption | None:
    """Distances to the feasible set are exact: the nearest feasible decision is a best fixed
    decision in hindsight."""
    problem, points = probes.problem, probes.points
    stated = problem.constants.error_bound
    if stated is None or problem.constraints.takes_data:
        return None
    proven = _proven("error_bound", problem, probes.facts)
    if proven is not None:
        return proven
    from .hindsight import hindsight

    excess = largest_values(problem, points)
    outside = np.flatnonzero(excess > 1e-6)[:DISTANCES]
    text = f"kappa = {stated:.6g}"
    if not outside.size:
        why = f"{text}: no infeasible decision was at hand to try"
        return Assumption("error_bound", GIVEN, why)
    tried = points[outside]
    # The problem keeps it, so that nothing is compiled again for the next certificate.
    nearest = programs_of(problem).get(
        (_half_square, problem.domain),
        lambda: Problem(_half_square, problem.constraints, problem.domain),
    )
    best = hindsight(nearest, tried[:, None], seeds=len(tried))
    distance = np.linalg.norm((best.decision - tried).reshape(len(tried), -1), axis=1)
    short = stated * distance * (1 - 1e-4) - excess[outside]
    if short.max() > 1e-7 + probes.unit * max(probes.seen.constraint_size, 0.0):
        i = int(short.argmax())
        value = float(excess[outside[i]])
        detail = f"{text}, but max g = {value:.6g} at distance {distance[i]:.6g}"
        return Assumption("error_bound", REFUTED, detail, {"x": tried[i]})
    return Assumption("error_bound", PROBED, f"{text} at {len(tried)} infeasible decisions")


def _half_square(x: jax.Array, z: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum((x - z) ** 2)


def _fixed(problem: Problem) -> Assumption:
    name = str(Assumes.FIXED_CONSTRAINTS)
    if problem.constraints.takes_data:
        return Assumption(name, REFUTED, "the constraints depend on the round's data", {})
    return Assumption(name, VERIFIED, "the constraints do not depend on the round's data")


def _affine(probes: _Probes) -> Assumption:
    name, smooth = str(Assumes.AFFINE_CONSTRAINTS), probes.facts.constraint_smoothness
    if smooth is not None and smooth.value == 0:
        return Assumption(name, smooth.kind, smooth.source)
    bend = probes.values["excess_bend"]
    if bend.max() > probes.slack * probes.values["excess_slope"].max():
        detail = f"constraint gradients at x and y differ by {bend.max():.3g}"
        return Assumption(name, REFUTED, detail, probes.worst(bend))
    return Assumption(name, PROBED, f"gradients are equal at {bend.size} pairs")


def _projection(probes: _Probes, feasible: Domain) -> Assumption:
    """Whether the set that a learner projects onto is the feasible set."""
    problem, points, slack = probes.problem, probes.points, probes.slack
    name = str(Assumes.PROJECTION)
    if problem.constraints.takes_data:
        why = "not checked, because the constraints depend on the round's data"
        return Assumption(name, GIVEN, why)
    projected = project_rows(feasible, points.reshape(len(points), -1))
    inside = projected.reshape(points.shape).astype(points.dtype)
    excess, outside = largest_values(problem, inside), largest_values(problem, points)
    size = float(np.abs(outside).max())
    if excess.max() > slack * size:
        why = f"the set contains x with max g = {excess.max():.3g}"
        return Assumption(name, REFUTED, why, {"x": np.asarray(inside[int(excess.argmax())])})
    away = np.linalg.norm((points - inside).reshape(len(points), -1), axis=1)
    far = away > slack * float(problem.domain.radius)
    missed = np.flatnonzero((outside <= -slack * size) & far)
    if missed.size:
        why = "x is feasible, but not in the set"
        return Assumption(name, REFUTED, why, {"x": np.asarray(points[missed[0]])})
    why = f"the set and the feasible set agree at {len(points)} decisions"
    return Assumption(name, PROBED, why)

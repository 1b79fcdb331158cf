"""Assumptions: what a guarantee rests on, checked against the problem and the run as far as
checking goes.

Each one comes out as "given" (nothing could be checked), "verified exactly" or "proven" (it is a
fact, see `facts`), "probed, not refuted" (it held wherever it was tried, which is not a proof) or
"refuted", with the witness that refutes it. Constants are compared with what was observed in all
rounds of the run, and with values at decisions all over the domain in a sample of the rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array, default_float
from ..learners import Assumes
from ..problem.constants import SYMBOLS
from ..problem.domains import Domain
from ..problem.domains.support import centre_of, project_rows
from ..problem.feasibility import find_feasible
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..problem.sampling import generator, sample_decisions, sample_rounds
from ..problem.streams import Stream
from ..problem.transforms import Tightened
from .facts.fact import PROVEN, VERIFIED, Fact, Facts
from .observed import Extreme, Observations
from .probes import largest_values, probe, walk_back

__all__ = [
    "GIVEN",
    "PROBED",
    "PROVEN",
    "REFUTED",
    "VERIFIED",
    "Assumption",
    "check",
    "check_slater",
    "rounds_of",
]

GIVEN, PROBED, REFUTED = "given", "probed, not refuted", "refuted"
SLACK = 1e-6
"""Relative room for rounding before a probe counts as a refutation,"""
UNITS = 64
"""at least so many units of rounding of the numbers that are added up."""
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
    def refuted(self) -> bool:
        """Whether a counterexample was found."""
        return self.status == REFUTED


def check(
    problem: Problem,
    stream: Stream | None,
    key: jax.Array | None,
    seen: Observations,
    feasible: Domain | None = None,
    samples: int = 192,
    facts: Facts | None = None,
) -> tuple[Assumption, ...]:
    """Check all that can be checked of `problem` over `stream`.

    Arguments:
        problem: the problem that was played.
        stream: its data; without them losses are not probed, nor constraints that change.
        key: random key for the probes.
        seen: what was observed in all rounds of the run.
        feasible: the set that the learner takes for the feasible set, if it projects onto one.
        samples: number of decisions to try, besides those that were played.
        facts: what is proven. Constants are those of the problem, strengthened by facts.
    """
    facts = facts or Facts()
    problem = problem.with_constants(facts.strengthened(problem.constants))
    where, when, who = _DEFAULT_KEYS if key is None else jax.random.split(key, 3)
    points = sample_decisions(problem.domain, where, samples)
    points = np.concatenate([seen.violating, seen.played, points]).astype(
        default_float()
    )  # played ones first
    if stream is None:
        without = _without_data(problem, points, seen, facts)
        return tuple(one for one in without if one is not None)
    data = _sampled(stream, when, points)
    order = generator(who).permutation(len(points))
    partner, found = points[order], probe(problem, points, order, data)
    rounds = None if not problem.constraints.takes_data else data
    gaps = {"losses": facts.convex_losses, "constraints": facts.convex_constraints}
    kinds = {"losses": "loss", "constraints": "excess"}
    checks = [
        _domain(problem, points),
        *(
            _convex(
                problem,
                what,
                found[f"{kind}_gap"],
                found[f"{kind}_scale"],
                points,
                partner,
                gaps[what],
            )
            for what, kind in kinds.items()
        ),
        _largest("loss_lipschitz", problem, found["loss_slope"], points, seen, facts),
        _largest("constraint_lipschitz", problem, found["excess_slope"], points, seen, facts),
        _largest("constraint_range", problem, found["excess_reach"], points, seen, facts),
        _range(problem, found["loss"], points, seen, facts),
        _radius(problem, points),
        _count(problem, found["excess"]),
        _strong(problem, found, points, partner, facts),
        _smooth(problem, found, points, partner, facts),
        _centre(problem, seen),
        check_slater(problem, rounds, facts=facts),
        _error_bound(problem, points, seen, facts),
        _half_spaces(problem, facts),
        *_kinds(problem, found, points, partner, facts),
        None if feasible is None else _projection(problem, feasible, points),
    ]
    return tuple(assumption for assumption in checks if assumption is not None)


def _proven(name: str, problem: Problem, facts: Facts) -> Assumption | None:
    """The assumption about a constant whose value is a fact; None if it is none."""
    fact = facts.proof(name, problem.constants)
    if fact is None:
        return None
    text = f"{SYMBOLS[name]} = {fact.value:.6g}: {fact.source}"
    return Assumption(name, fact.kind, text)


def _without_data(
    problem: Problem, points: Array, seen: Observations, facts: Facts
) -> Iterator[Assumption | None]:
    """What can be checked of a player, whose data are not kept."""
    yield _domain(problem, points)
    for name in ("loss_lipschitz", "constraint_lipschitz", "constraint_range"):
        yield _largest(name, problem, None, points, seen, facts)
    yield _range(problem, None, points, seen, facts)
    yield _radius(problem, points)
    yield _centre(problem, seen)
    name = str(Assumes.FIXED_CONSTRAINTS)
    if problem.constraints.takes_data:
        yield Assumption(name, REFUTED, "the constraints depend on the round's data", {})
        return
    yield Assumption(name, VERIFIED, "the constraints do not depend on the round's data")
    yield check_slater(problem, facts=facts)
    yield _error_bound(problem, points, seen, facts)
    yield _half_spaces(problem, facts)


def rounds_of(stream: Stream, key: jax.Array | None, seen: Observations) -> Any:
    """A sample of the data of a run's rounds."""
    return _sampled(stream, _DEFAULT_KEY if key is None else key, seen.played)


def _sampled(stream: Stream, key: Any, points: Array) -> Any:
    return sample_rounds(stream, key, min(ROUNDS, stream.horizon * stream.seeds), points)


def _unit(points: Array) -> float:
    """How far rounding can move a number, as a share of the numbers that are added up."""
    return UNITS * float(np.finfo(points.dtype).eps)


def _slack(points: Array) -> float:
    return max(SLACK, _unit(points))


def _worst(score: Array, points: Array) -> tuple[int, int, Array]:
    round, point = np.unravel_index(int(np.argmax(score)), score.shape)
    return int(round), int(point), np.asarray(points[point])


def _convex(
    problem: Problem,
    what: str,
    gap: Array,
    scale: Array,
    points: Array,
    partner: Array,
    fact: Fact | None,
) -> Assumption:
    name = f"convex {what}"
    short = -gap - _slack(points) * (1e-3 * scale.max() + scale)
    if short.max() > 0:
        _, i, x = _worst(short, points)
        y = np.asarray(partner[i])
        detail = (
            f"one of the {what} at y lies {-gap.reshape(-1, len(points))[:, i].min():.3g} below "
            "its tangent at x"
        )
        return Assumption(name, REFUTED, detail, {"x": x, "y": y})
    if problem.proof_of_convexity:
        return Assumption(name, PROVEN, f"by {problem.proof_of_convexity}")
    if fact is not None:
        return Assumption(name, fact.kind, fact.source)
    return Assumption(name, PROBED, f"first-order inequality at {gap.size} pairs")


def _largest(
    name: str,
    problem: Problem,
    sampled: Array | None,
    points: Array,
    seen: Observations,
    facts: Facts,
) -> Assumption | None:
    stated = getattr(problem.constants, name)
    if stated is None:
        return None
    extreme: Extreme = getattr(seen, name)
    text = f"{SYMBOLS[name]} = {stated:.6g} ({problem.constants.source(name)})"
    # A range is that of values, in which larger numbers may cancel.
    room = _slack(points) * stated + _unit(points) * (
        seen.constraint_size if name == "constraint_range" else 0.0
    )
    known = _exceeded(name, stated, room, text, extreme) or _proven(name, problem, facts)
    if known is not None:
        return known
    if sampled is None:
        return _only_seen(name, text, seen, extreme)
    if sampled.max() > stated + room + 1e-12:
        _, _, x = _worst(sampled, points)
        return Assumption(
            name, REFUTED, f"{text}, but {sampled.max():.6g} at x, which was not played", {"x": x}
        )
    return Assumption(
        name, PROBED, f"{text}, {_over_all(seen, extreme)}, elsewhere {sampled.max():.6g}"
    )


def _only_seen(name: str, text: str, seen: Observations, extreme: Extreme) -> Assumption:
    if not np.isfinite(extreme.value):
        return Assumption(name, GIVEN, f"{text}, not observed")
    return Assumption(name, PROBED, f"{text}, {_over_all(seen, extreme)}")


def _exceeded(
    name: str, stated: float, room: float, text: str, extreme: Extreme
) -> Assumption | None:
    if extreme.value <= stated + room + 1e-12:
        return None
    seed = "" if extreme.seed is None else f" of seed {extreme.seed}"
    detail = f"{text}, but {extreme.value:.6g} in round {extreme.round}{seed}"
    return Assumption(name, REFUTED, detail, extreme.witness)


def _over_all(seen: Observations, extreme: Extreme) -> str:
    if seen.since > 1:
        return f"largest over rounds {seen.since:,} to {seen.rounds:,} {extreme.value:.6g}"
    of_all = f"{seen.rounds:,} rounds" + (f" of {seen.seeds} seeds" if seen.seeds > 1 else "")
    return f"largest over all {of_all} {extreme.value:.6g}"


def _range(
    problem: Problem, loss: Array | None, points: Array, seen: Observations, facts: Facts
) -> Assumption | None:
    stated = problem.constants.loss_range
    if stated is None:
        return None
    text = f"F = {stated:.6g} ({problem.constants.source('loss_range')})"
    room = _slack(points) * stated + _unit(points) * seen.loss_size
    known = _exceeded("loss_range", stated, room, text, seen.loss_range)
    known = known or _proven("loss_range", problem, facts)
    if known is not None:
        return known
    if loss is None:
        return _only_seen("loss_range", text, seen, seen.loss_range)
    spread = loss.max(axis=1) - loss.min(axis=1)
    if spread.max() > stated + room + 1e-12:
        row = int(np.argmax(spread))
        ends = {
            "x": np.asarray(points[loss[row].argmax()]),
            "y": np.asarray(points[loss[row].argmin()]),
        }
        return Assumption(
            "loss_range", REFUTED, f"{text}, but {spread.max():.6g} between x and y", ends
        )
    return Assumption(
        "loss_range",
        PROBED,
        f"{text}, {_over_all(seen, seen.loss_range)}, elsewhere {spread.max():.6g}",
    )


def _count(problem: Problem, excess: Array) -> Assumption | None:
    stated = problem.constants.constraint_count
    if stated is None:
        return None
    count = excess.shape[-1]
    status = VERIFIED if stated == count else REFUTED
    return Assumption(
        "constraint_count",
        status,
        f"m = {stated}; the number of constraint values is {count}",
        {"m": count},
    )


def _radius(problem: Problem, points: Array) -> Assumption | None:
    stated = problem.constants.radius
    if stated is None:
        return None
    exact = float(problem.domain.radius)
    if exact > stated * (1 + SLACK):
        away = np.linalg.norm(
            (np.asarray(points) - centre_of(problem.domain)).reshape(len(points), -1), axis=1
        )
        detail = f"R = {stated:.6g}, but the domain reaches {exact:.6g} from its centre"
        return Assumption("radius", REFUTED, detail, {"x": np.asarray(points[int(away.argmax())])})
    return Assumption("radius", VERIFIED, f"R = {stated:.6g}, the domain's is {exact:.6g}")


def _domain(problem: Problem, points: Array) -> Assumption:
    """Look for a feasible point outside: walk back to g <= 0 from far outside in many
    directions."""
    if problem.constraints.takes_data:
        return Assumption(
            "domain", GIVEN, "constraints change with the round: the domain counts as part of them"
        )
    if problem.proof_of_domain:
        return Assumption(
            "domain", VERIFIED, f"it contains the feasible set: {problem.proof_of_domain}"
        )
    if problem.domain_binds:
        return Assumption("domain", GIVEN, "the domain is a constraint itself")
    outside, feasible, ends = walk_back(problem.as_stated(), points)
    hits = np.flatnonzero(outside & feasible)
    if hits.size:
        x = np.asarray(ends[hits[0]])
        mend = (
            "if the domain is a limit that always holds, say so with Problem(..., "
            "domain_binds=True)"
        )
        return Assumption(
            "domain", REFUTED, f"a feasible decision lies outside the domain; {mend}", {"x": x}
        )
    return Assumption(
        "domain", PROBED, f"no feasible decision outside the domain in {len(points)} directions"
    )


def _strong(
    problem: Problem, probe: dict[str, Array], points: Array, partner: Array, facts: Facts
) -> Assumption | None:
    modulus = problem.constants.strong_convexity
    if modulus == 0:
        return None
    proven = _proven("strong_convexity", problem, facts)
    if proven is not None:
        return proven
    source = problem.constants.source("strong_convexity")
    short = (
        modulus / 2 * probe["length"] ** 2
        - probe["loss_gap"]
        - _slack(points) * (1e-3 * probe["loss_scale"].max() + probe["loss_scale"])
    )
    if short.max() > 0:
        _, i, x = _worst(short, points)
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = np.nanmin(
                np.where(
                    probe["length"] > 1e-6, 2 * probe["loss_gap"] / probe["length"] ** 2, np.inf
                )
            )
        detail = (
            f"H = {modulus:.6g} ({source}), but the losses curve by {seen:.6g} only between x and y"
        )
        return Assumption(
            "strong_convexity", REFUTED, detail, {"x": x, "y": np.asarray(partner[i])}
        )
    return Assumption(
        "strong_convexity", PROBED, f"H = {modulus:.6g} ({source}) at {short.size} pairs"
    )


def _smooth(
    problem: Problem, probe: dict[str, Array], points: Array, partner: Array, facts: Facts
) -> Assumption | None:
    stated = problem.constants.constraint_smoothness
    if stated is None:
        return None
    proven = _proven("constraint_smoothness", problem, facts)
    if proven is not None:
        return proven
    room = max(1e-9, _unit(points)) * float(probe["excess_slope"].max())
    over = probe["excess_bend"] - stated * probe["length"] * (1 + SLACK) - room
    source = problem.constants.source("constraint_smoothness")
    if over.max() > 0:
        _, i, x = _worst(over, points)
        detail = (
            f"L = {stated:.6g} ({source}), but gradients at x and y differ by more than L times "
            "their distance"
        )
        return Assumption(
            "constraint_smoothness", REFUTED, detail, {"x": x, "y": np.asarray(partner[i])}
        )
    return Assumption(
        "constraint_smoothness", PROBED, f"L = {stated:.6g} ({source}) at {over.size} pairs"
    )


def _centre(problem: Problem, seen: Observations) -> Assumption | None:
    if problem.constraints.takes_data:
        return None
    centre = centre_of(problem.domain)[None]
    excess = float(largest_values(problem, centre)[0])
    if excess > _unit(centre) * max(seen.constraint_size, 0.0):
        detail = f"the domain's centre exceeds a constraint by {excess:.6g}"
        return Assumption("centre feasible", REFUTED, detail, {"x": centre_of(problem.domain)})
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
        status = PROBED if constraints.takes_data else VERIFIED
        return Assumption(
            name, status, f"a decision with slack {stated:.6g} exists", {"x": np.asarray(point)}
        )
    if proven:
        room = stated - bound
        return Assumption(
            name, REFUTED, f"{text}, but no decision has more slack than {room:.6g}", {"room": room}
        )
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


def _error_bound(
    problem: Problem, points: Array, seen: Observations, facts: Facts
) -> Assumption | None:
    """Distances to the feasible set are exact: the nearest feasible decision is a best fixed
    decision in hindsight."""
    stated = problem.constants.error_bound
    if stated is None or problem.constraints.takes_data:
        return None
    proven = _proven("error_bound", problem, facts)
    if proven is not None:
        return proven
    from .hindsight import hindsight

    excess = largest_values(problem, points)
    outside = np.flatnonzero(excess > 1e-6)[:DISTANCES]
    if not outside.size:
        return Assumption(
            "error_bound", GIVEN, f"kappa = {stated:.6g}: no infeasible decision was at hand to try"
        )
    tried = points[outside]
    nearest = programs_of(
        problem
    ).get(  # kept, so that nothing is compiled again for the next certificate
        (_half_square, problem.domain),
        lambda: Problem(_half_square, problem.constraints, problem.domain),
    )
    best = hindsight(nearest, tried[:, None], seeds=len(tried))
    distance = np.linalg.norm((best.decision - tried).reshape(len(tried), -1), axis=1)
    short = stated * distance * (1 - 1e-4) - excess[outside]
    if short.max() > 1e-7 + _unit(points) * max(seen.constraint_size, 0.0):
        i = int(short.argmax())
        detail = (
            f"kappa = {stated:.6g}, but max g = {float(excess[outside[i]]):.6g} at distance "
            f"{distance[i]:.6g}"
        )
        return Assumption("error_bound", REFUTED, detail, {"x": tried[i]})
    return Assumption(
        "error_bound", PROBED, f"kappa = {stated:.6g} at {len(tried)} infeasible decisions"
    )


def _half_square(x: jax.Array, z: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum((x - z) ** 2)


def _kinds(
    problem: Problem, found: dict[str, Array], points: Array, partner: Array, facts: Facts
) -> Iterator[Assumption]:
    """Whether constraints are fixed and whether they are affine, for theorems that need it."""
    name = str(Assumes.FIXED_CONSTRAINTS)
    if problem.constraints.takes_data:
        yield Assumption(name, REFUTED, "the constraints depend on the round's data", {})
    else:
        yield Assumption(name, VERIFIED, "the constraints do not depend on the round's data")
    bend, name = found["excess_bend"], str(Assumes.AFFINE_CONSTRAINTS)
    smooth = facts.constraint_smoothness
    if smooth is not None and smooth.value == 0:
        yield Assumption(name, smooth.kind, smooth.source)
    elif bend.max() > _slack(points) * found["excess_slope"].max():
        _, i, x = _worst(bend, points)
        detail = f"constraint gradients at x and y differ by {bend.max():.3g}"
        yield Assumption(name, REFUTED, detail, {"x": x, "y": np.asarray(partner[i])})
    else:
        yield Assumption(name, PROBED, f"gradients are equal at {bend.size} pairs")


def _projection(problem: Problem, feasible: Domain, points: Array) -> Assumption:
    """Whether the set that a learner projects onto is the feasible set."""
    name = str(Assumes.PROJECTION)
    if problem.constraints.takes_data:
        return Assumption(
            name, GIVEN, "not checked, because the constraints depend on the round's data"
        )
    inside = (
        project_rows(feasible, points.reshape(len(points), -1))
        .reshape(points.shape)
        .astype(points.dtype)
    )
    excess, outside = largest_values(problem, inside), largest_values(problem, points)
    size, slack = float(np.abs(outside).max()), _slack(points)
    if excess.max() > slack * size:
        detail = f"the set contains x with max g = {excess.max():.3g}"
        return Assumption(name, REFUTED, detail, {"x": np.asarray(inside[int(excess.argmax())])})
    away = np.linalg.norm(np.asarray(points - inside).reshape(len(points), -1), axis=1)
    missed = np.flatnonzero(
        (outside <= -slack * size) & (away > slack * float(problem.domain.radius))
    )
    if missed.size:
        return Assumption(
            name, REFUTED, "x is feasible, but not in the set", {"x": np.asarray(points[missed[0]])}
        )
    return Assumption(
        name, PROBED, f"the set and the feasible set agree at {len(points)} decisions"
    )

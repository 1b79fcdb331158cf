"""Assumptions: what a guarantee rests on, checked against the problem itself as far as checking goes.

Each one comes out as "given" (nothing could be checked), "verified exactly", "probed, not refuted" (it held at every
point tried, which is not a proof) or "refuted", with the witness that refutes it. Probes are the decisions played,
decisions all over the domain, and pairs of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..problem.constants import SYMBOLS
from ..problem.constraints import Constraints
from ..problem.domains import Domain
from ..problem.problem import Problem
from ..problem.rounds import FullInformation
from ..problem.sampling import sample_decisions, sample_rounds
from ..problem.streams import Stream

__all__ = ["GIVEN", "PROBED", "REFUTED", "VERIFIED", "Assumption", "check"]

Array = np.ndarray[Any, Any]
GIVEN, VERIFIED, PROBED, REFUTED = "given", "verified exactly", "probed, not refuted", "refuted"
SLACK = 1e-6
"""Relative room for rounding before a probe counts as a refutation."""
ROUNDS = 16


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
    problem: Problem, stream: Stream, played: Array, key: jax.Array, samples: int = 192
) -> tuple[Assumption, ...]:
    """Check all that can be checked of `problem` over `stream`; `played` are decisions of a run, (n, *shape)."""
    where, when, who = jax.random.split(key, 3)
    points = jnp.asarray(sample_decisions(problem.domain, where, samples))
    if len(played):
        points = jnp.concatenate([points, jnp.asarray(played, points.dtype)])
    data = sample_rounds(stream, when, min(ROUNDS, stream.horizon * stream.seeds), points)
    partner = points[jax.random.permutation(who, len(points))]
    probe = _probe(problem, points, partner, data)
    found = [
        _domain(problem, points),
        _convex(problem, "losses", probe["loss_gap"], probe["loss_scale"], points, partner),
        _convex(problem, "constraints", probe["excess_gap"], probe["excess_scale"], points, partner),
        _largest("loss_lipschitz", problem, probe["loss_slope"], points),
        _largest("constraint_lipschitz", problem, probe["excess_slope"], points),
        _largest("constraint_range", problem, probe["excess_reach"], points),
        _range(problem, probe["loss"], points),
        _radius(problem, points),
        _strong(problem, probe, points, partner),
        _smooth(problem, probe, points, partner),
        _centre(problem),
        _slater(problem, probe["excess"], points),
        _error_bound(problem, points),
    ]
    return tuple(one for one in found if one is not None)


def _probe(problem: Problem, points: jax.Array, partner: jax.Array, data: Any) -> dict[str, Array]:
    """Values, slopes and first-order gaps at (round, point), all in one compiled pass."""
    found = _probed(problem.loss, problem.constraints, problem.domain, points, partner, data)
    return {name: np.asarray(value) for name, value in found.items()}


@partial(jax.jit, static_argnums=0)
def _probed(
    loss_function: Any, constraints: Constraints, domain: Domain, points: jax.Array, partner: jax.Array, data: Any
) -> dict[str, jax.Array]:
    def at(x: jax.Array, y: jax.Array, z: Any) -> dict[str, jax.Array]:
        round = FullInformation(loss_function, constraints, domain, z)
        here, there = round.constraints(x), round.constraints(y)
        loss, slope = round.loss(x), round.gradient(x)
        step = y - x
        eye = jnp.eye(here.values.shape[0], dtype=x.dtype)
        rows = jax.vmap(lambda w: here.pullback(w).ravel())(eye)
        other = jax.vmap(lambda w: there.pullback(w).ravel())(eye)
        length = jnp.sqrt(jnp.sum(step**2))
        # f(y) - f(x) - <f'(x), y - x>: never negative for a convex function.
        loss_gap = round.loss(y) - loss - jnp.vdot(slope, step)
        excess_gap = there.values - here.values - here.pushforward(step)
        worst = jnp.argmin(excess_gap)
        return {
            "loss": loss,
            "loss_slope": jnp.sqrt(jnp.sum(slope**2)),
            "loss_gap": loss_gap,
            "loss_scale": jnp.abs(loss) + jnp.abs(round.loss(y)) + jnp.abs(jnp.vdot(slope, step)),
            "excess": here.values,
            "excess_slope": jnp.max(jnp.sqrt(jnp.sum(rows**2, axis=1))),
            "excess_reach": jnp.max(jnp.abs(here.values)),
            "excess_gap": excess_gap[worst],
            "excess_scale": (jnp.abs(here.values) + jnp.abs(there.values) + jnp.abs(here.pushforward(step)))[worst],
            "excess_bend": jnp.max(jnp.sqrt(jnp.sum((rows - other) ** 2, axis=1))),
            "length": length,
        }

    sweep = jax.vmap(jax.vmap(at, in_axes=(0, 0, None)), in_axes=(None, None, 0))
    return sweep(points, partner, data)


def _worst(score: Array, points: jax.Array) -> tuple[int, int, Array]:
    round, point = np.unravel_index(int(np.argmax(score)), score.shape)
    return int(round), int(point), np.asarray(points[point])


def _convex(problem: Problem, what: str, gap: Array, scale: Array, points: jax.Array, partner: jax.Array) -> Assumption:
    name = f"convex {what}"
    short = -gap - SLACK * (1e-3 + scale)
    if short.max() > 0:
        _, i, x = _worst(short, points)
        y = np.asarray(partner[i])
        detail = f"one of the {what} at y lies {-gap.reshape(-1, len(points))[:, i].min():.3g} below its tangent at x"
        return Assumption(name, REFUTED, detail, {"x": x, "y": y})
    if problem.proof_of_convexity:
        return Assumption(name, VERIFIED, f"proven by {problem.proof_of_convexity}")
    return Assumption(name, PROBED, f"first-order inequality at {gap.size} pairs")


def _largest(name: str, problem: Problem, seen: Array, points: jax.Array) -> Assumption | None:
    stated = getattr(problem.constants, name)
    if stated is None:
        return None
    symbol, source = SYMBOLS[name], problem.constants.source(name)
    if seen.max() > stated * (1 + SLACK) + 1e-12:
        _, _, x = _worst(seen, points)
        return Assumption(name, REFUTED, f"{symbol} = {stated:.6g} ({source}), but {seen.max():.6g} at x", {"x": x})
    return Assumption(name, PROBED, f"{symbol} = {stated:.6g} ({source}), largest seen {seen.max():.6g}")


def _range(problem: Problem, loss: Array, points: jax.Array) -> Assumption | None:
    stated = problem.constants.loss_range
    if stated is None:
        return None
    spread = loss.max(axis=1) - loss.min(axis=1)
    source = problem.constants.source("loss_range")
    if spread.max() > stated * (1 + SLACK) + 1e-12:
        row = int(np.argmax(spread))
        ends = {"x": np.asarray(points[loss[row].argmax()]), "y": np.asarray(points[loss[row].argmin()])}
        return Assumption(
            "loss_range", REFUTED, f"F = {stated:.6g} ({source}), but {spread.max():.6g} between x and y", ends
        )
    return Assumption("loss_range", PROBED, f"F = {stated:.6g} ({source}), largest seen {spread.max():.6g}")


def _radius(problem: Problem, points: jax.Array) -> Assumption | None:
    stated = problem.constants.radius
    if stated is None:
        return None
    exact = float(problem.domain.radius)
    if exact > stated * (1 + SLACK):
        away = np.linalg.norm((np.asarray(points) - np.asarray(problem.domain.centre)).reshape(len(points), -1), axis=1)
        detail = f"R = {stated:.6g}, but the domain reaches {exact:.6g} from its centre"
        return Assumption("radius", REFUTED, detail, {"x": np.asarray(points[int(away.argmax())])})
    return Assumption("radius", VERIFIED, f"R = {stated:.6g}, the domain's is {exact:.6g}")


def _domain(problem: Problem, points: jax.Array) -> Assumption:
    """Look for a feasible point outside: walk back to g <= 0 from far outside in many directions."""
    if problem.constraints.takes_data:
        return Assumption("domain", GIVEN, "constraints change with the round: the domain counts as part of them")
    if problem.proof_of_domain:
        return Assumption("domain", VERIFIED, f"it contains the feasible set: {problem.proof_of_domain}")
    if problem.domain_binds:
        return Assumption("domain", GIVEN, "the domain is a constraint itself")
    outside, feasible, ends = _walk_back(problem.constraints, problem.domain, points)
    hits = np.flatnonzero(np.asarray(outside) & np.asarray(feasible))
    if hits.size:
        x = np.asarray(ends[hits[0]])
        return Assumption("domain", REFUTED, "a feasible decision lies outside the domain", {"x": x})
    return Assumption("domain", PROBED, f"no feasible decision outside the domain in {len(points)} directions")


@jax.jit
def _walk_back(constraints: Constraints, domain: Domain, points: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Whether each walk ends outside the domain, whether it ends feasible, and where."""
    centre = domain.centre
    far = 3 * jnp.asarray(domain.radius, points.dtype)

    def walk(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        ray = x - centre
        length = jnp.sqrt(jnp.sum(ray**2))
        start = centre + ray * far / jnp.where(length > 0, length, 1)

        def step(_: int, y: jax.Array) -> jax.Array:
            values, pull, _push = constraints.linearise(y, None)
            active = (values == jnp.max(values)).astype(y.dtype)
            slope = pull(active / jnp.sum(active))
            size = jnp.sum(slope**2)
            # A little further than the tangent plane, to land inside.
            move = 1.001 * (jnp.maximum(jnp.max(values), 0)) / jnp.where(size > 0, size, 1)
            return y - move * slope

        end = jax.lax.fori_loop(0, 200, step, start)
        return ~domain.contains(end, 1e-6), jnp.max(constraints.values(end, None)) <= 0, end

    return jax.vmap(walk)(points)


def _strong(problem: Problem, probe: dict[str, Array], points: jax.Array, partner: jax.Array) -> Assumption | None:
    modulus = problem.constants.strong_convexity
    if modulus == 0:
        return None
    source = problem.constants.source("strong_convexity")
    short = modulus / 2 * probe["length"] ** 2 - probe["loss_gap"] - SLACK * (1e-3 + probe["loss_scale"])
    if short.max() > 0:
        _, i, x = _worst(short, points)
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = np.nanmin(np.where(probe["length"] > 1e-6, 2 * probe["loss_gap"] / probe["length"] ** 2, np.inf))
        detail = f"H = {modulus:.6g} ({source}), but the losses curve by {seen:.6g} only between x and y"
        return Assumption("strong_convexity", REFUTED, detail, {"x": x, "y": np.asarray(partner[i])})
    return Assumption("strong_convexity", PROBED, f"H = {modulus:.6g} ({source}) at {short.size} pairs")


def _smooth(problem: Problem, probe: dict[str, Array], points: jax.Array, partner: jax.Array) -> Assumption | None:
    stated = problem.constants.constraint_smoothness
    if stated is None:
        return None
    over = probe["excess_bend"] - stated * probe["length"] * (1 + SLACK) - 1e-9
    source = problem.constants.source("constraint_smoothness")
    if over.max() > 0:
        _, i, x = _worst(over, points)
        detail = f"L = {stated:.6g} ({source}), but gradients at x and y differ by more than L times their distance"
        return Assumption("constraint_smoothness", REFUTED, detail, {"x": x, "y": np.asarray(partner[i])})
    return Assumption("constraint_smoothness", PROBED, f"L = {stated:.6g} ({source}) at {over.size} pairs")


def _centre(problem: Problem) -> Assumption | None:
    if problem.constraints.takes_data:
        return None
    excess = float(np.max(np.asarray(problem.constraints.values(problem.domain.centre, None))))
    if excess > 0:
        detail = f"the domain's centre exceeds a constraint by {excess:.6g}"
        return Assumption("centre feasible", REFUTED, detail, {"x": np.asarray(problem.domain.centre)})
    return Assumption("centre feasible", VERIFIED, f"max g = {excess:.6g} at the domain's centre")


def _slater(problem: Problem, excess: Array, points: jax.Array) -> Assumption | None:
    stated = problem.constants.slater
    if stated is None:
        return None
    worst = excess.max(axis=(0, 2))
    if worst.min() <= -stated * (1 - SLACK):
        status = VERIFIED if not problem.constraints.takes_data else PROBED
        return Assumption(
            "slater", status, f"epsilon = {stated:.6g}: max g = {worst.min():.6g} at a decision that was tried"
        )
    return Assumption(
        "slater", GIVEN, f"epsilon = {stated:.6g}: no decision tried has so much room (best {-worst.min():.6g})"
    )


def _error_bound(problem: Problem, points: jax.Array) -> Assumption | None:
    """Distances to the feasible set are exact: the nearest feasible decision is a best fixed decision in hindsight."""
    stated = problem.constants.error_bound
    if stated is None or problem.constraints.takes_data:
        return None
    from .hindsight import hindsight

    excess = jax.vmap(lambda x: jnp.max(problem.constraints.values(x, None)))(points)
    outside = np.flatnonzero(np.asarray(excess) > 1e-6)[:12]
    if not outside.size:
        return Assumption("error_bound", GIVEN, f"kappa = {stated:.6g}: no infeasible decision was at hand to try")
    tried = np.asarray(points)[outside]
    nearest = Problem(_half_square, problem.constraints, problem.domain)
    best = hindsight(nearest, tried[:, None], seeds=len(tried))
    distance = np.linalg.norm((best.decision - tried).reshape(len(tried), -1), axis=1)
    short = stated * distance * (1 - 1e-4) - np.asarray(excess)[outside]
    if short.max() > 1e-7:
        i = int(short.argmax())
        detail = f"kappa = {stated:.6g}, but max g = {float(excess[outside[i]]):.6g} at distance {distance[i]:.6g}"
        return Assumption("error_bound", REFUTED, detail, {"x": tried[i]})
    return Assumption("error_bound", PROBED, f"kappa = {stated:.6g} at {len(tried)} infeasible decisions")


def _half_square(x: jax.Array, z: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum((x - z) ** 2)

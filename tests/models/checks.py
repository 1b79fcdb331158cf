"""What is checked of an accepted model, each against CVXPY or against samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
from statement import FOUR, Case, Game, Program, parts

import taut
from without_compiling import in_numpy

ROUNDS = {"HalfSpace": 40, "ClippedOGD": 120}
"""Rounds that each learner plays."""
HORIZON = 60_000
"""The horizon of Clipped-OGD, of which the first rounds are played from the best fixed decision.
Where a constraint is active, its violation settles near sqrt((m + 1) / T) times the largest
constraint value within a few rounds, so that T must be large: at T = 120, fifteen models are above
one per cent, by the factor sqrt(60000 / 120) = 22 as far as this predicts."""
SOLVED = 8
"""Rounds of the program that is solved by CVXPY as a whole."""
SAMPLES = 1000
SHARE = 0.01
"""The largest mean violation of a learner, as a share of the largest constraint value."""


class Played:
    """A model as a game, with data, and with admissible decisions and data at which it is
    compared."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.random = np.random.default_rng(sum(map(ord, case.name)))
        self.game = Game()
        self.stated = case.model(self.game)
        given = (self.stated,) if isinstance(self.stated, cp.Problem) else self.stated
        self.problem = taut.from_cvxpy(*given, **case.options)
        self.model = getattr(self.problem, "model", self.problem)
        """The model itself, without the memory of one round that `taut.previous` adds."""
        self.loss, self.constraints = parts(self.stated)

    def stream(self, count: int, corners: bool = False) -> dict[str, Any]:
        """Admissible data of several rounds."""
        return {
            name: one.rounds(self.random, count, corners) for name, one in self.game.inputs.items()
        }

    @cached_property
    def data(self) -> dict[str, Any]:
        """The stream that is played and solved in hindsight."""
        return self.stream(max(ROUNDS.values()))

    @property
    def short(self) -> dict[str, Any]:
        """The rounds that are solved in hindsight."""
        return {name: value[:SOLVED] for name, value in self.data.items()}

    @cached_property
    def best(self) -> Any:
        """Their best fixed decision."""
        return taut.hindsight(self.problem, self.short or np.zeros(SOLVED))

    @cached_property
    def remembered(self) -> list[Any]:
        """Parameters that stand for the decision of the round before."""
        return [p for p in self.model.parameters if p.name().startswith("previous(")]

    def full(self, stream: dict[str, Any], count: int) -> tuple[Any, ...]:
        """Data in the model's own order, with decisions of the domain for previous decisions."""
        ends = {p.name(): self.decisions(count) for p in self.remembered}
        named = stream | ends
        return tuple(jnp.asarray(named[p.name()], float) for p in self.model.parameters)

    def decisions(self, count: int) -> np.ndarray[Any, Any]:
        """Decisions of the domain: projections of distant points, and points between two of
        them."""
        domain = self.problem.domain
        far = np.asarray(domain.centre) + 2 * float(domain.radius) * self.random.normal(
            size=(count, *domain.shape)
        )
        found = np.array(self.project(far))
        share = self.random.uniform(size=(count // 2, *(1 for _ in domain.shape)))
        found[: count // 2] = share * found[: count // 2] + (1 - share) * found[::-1][: count // 2]
        return found

    @cached_property
    def project(self) -> Any:
        return in_numpy(jax.vmap(self.problem.domain.project))

    @cached_property
    def seen(self) -> Any:
        """Loss, gradient, rows and their gradients at many (x, z)."""
        model = self.model

        def one(x: Any, z: Any) -> Any:
            rows = lambda x: model.constraints.values(x, z)  # noqa: E731
            return *jax.value_and_grad(model.loss)(x, z), rows(x), jax.jacrev(rows)(x)

        return in_numpy(jax.vmap(one))

    @cached_property
    def samples(self) -> tuple[Any, Any, list[Any]]:
        """Decisions, data, and what was seen there. Data are inside their bounds in one half, at
        their corners in the other."""
        half = SAMPLES // 2
        inner, corner = self.stream(half), self.stream(half, corners=True)
        z = self.full(
            {name: np.concatenate([inner[name], corner[name]]) for name in inner}, SAMPLES
        )
        x = self.decisions(SAMPLES)
        return (
            x,
            z,
            [
                np.asarray(part)
                for part in self.seen(jnp.asarray(x), z if z else jnp.zeros(SAMPLES))
            ],
        )

    def assign(self, x: Any, z: tuple[Any, ...]) -> None:
        """Give the user's CVXPY objects the values of a decision and of a round."""
        flat = np.ravel(x)
        for variable in self.model.variables:
            value = np.asarray(flat[self.model.spans[variable.id]]).reshape(variable.shape)
            if variable.is_symmetric() and value.size > 1:
                value = (value + value.T) / 2
            variable.save_value(np.diag(np.diag(value)) if variable.attributes["diag"] else value)
        for parameter, value in zip(self.model.parameters, z, strict=True):
            parameter.save_value(np.asarray(value))


def check_constants(played: Played) -> Iterator[str]:
    """No proven constant is exceeded at any admissible decision and data."""
    problem, (x, _, (_, slope, values, slopes)) = played.model, played.samples
    known = problem.constants
    flat = x.reshape(len(x), -1)
    pull = slope.reshape(len(x), -1)
    rows = slopes.reshape(len(x), values.shape[1], -1)
    attained = {
        "radius": np.linalg.norm(flat - np.ravel(problem.domain.centre), axis=1).max(),
        "loss_lipschitz": np.linalg.norm(pull, axis=1).max(),
        "constraint_lipschitz": np.linalg.norm(rows, axis=2).max(),
        "constraint_range": np.abs(values).max(),
    }
    for name in FOUR:
        if name in known.estimated and name not in played.case.estimated:
            yield f"{name}: estimated"
    for name, value in attained.items():
        if name not in known.estimated and value > getattr(known, name) * (1 + 1e-9) + 1e-12:
            yield f"{name}: {getattr(known, name)} is exceeded by {value}"
    if problem.count != values.shape[1] or problem.constants.constraint_count != values.shape[1]:
        yield (
            f"constraint_count: got {problem.constants.constraint_count} for {values.shape[1]} rows"
        )
    yield from _pairs(played)


def _pairs(played: Played) -> Iterator[str]:
    """Ranges, strong convexity and smoothness, from pairs of decisions in the same rounds."""
    problem, (x, z, (loss, slope, values, slopes)) = played.model, played.samples
    known = problem.constants
    other = np.roll(x, 1, axis=0)
    with_z = z if z else jnp.zeros(len(x))
    loss_, _, values_, slopes_ = (
        np.asarray(part) for part in played.seen(jnp.asarray(other), with_z)
    )
    step = (other - x).reshape(len(x), -1)
    length = np.linalg.norm(step, axis=1)
    scale = 1e-9 * (1 + np.abs(loss).max())
    if (
        "loss_range" not in known.estimated
        and np.abs(loss - loss_).max() > known.loss_range * (1 + 1e-9) + scale
    ):
        yield f"loss_range: {known.loss_range} is exceeded by {np.abs(loss - loss_).max()}"
    above = loss_ - loss - np.sum(slope.reshape(step.shape) * step, axis=1)
    if above.min() < -1e-7 * (1 + np.abs(loss).max()):
        yield f"the loss is not convex: it is {-above.min()} below a tangent"
    if "strong_convexity" not in known.estimated and np.any(
        above + scale < 0.5 * known.strong_convexity * length**2 * (1 - 1e-6)
    ):
        yield f"strong_convexity: {known.strong_convexity} is too large"
    rise = values_ - values - np.einsum("prx,px->pr", slopes.reshape(*values.shape, -1), step)
    if rise.min() < -1e-7 * (1 + np.abs(values).max()):
        yield f"a constraint is not convex: it is {-rise.min()} below a tangent"
    if known.constraint_smoothness is not None and "constraint_smoothness" not in known.estimated:
        turn = np.linalg.norm((slopes_ - slopes).reshape(*values.shape, -1), axis=2).max(axis=1)
        if np.any(turn > known.constraint_smoothness * length * (1 + 1e-6) + 1e-7):
            yield (
                f"constraint_smoothness: {known.constraint_smoothness} is exceeded by "
                f"{(turn / length).max()}"
            )


def check_values(played: Played) -> Iterator[str]:
    """Loss, rows and their slopes along a direction are those of CVXPY."""
    x, z, (loss, slope, values, slopes) = played.samples
    model = played.model
    h = 1e-6 * float(played.problem.domain.radius)
    for k in range(3):  # data inside their bounds: corners are often kinks
        one = tuple(np.asarray(part[k]) for part in z)
        # A point inside: a step does not leave the domain, and projections are often at kinks of
        # norms.
        inner = 0.5 * x[k] + 0.3 * x[k + 1] + 0.2 * x[SAMPLES - 1 - k]
        at = jax.tree.map(
            lambda part: part[None], (jnp.asarray(inner), one if one else jnp.zeros(()))
        )
        loss, slope, values, slopes = (np.asarray(part)[0] for part in played.seen(*at))
        if not model.after.values:
            played.assign(inner, one)
            wanted = float(np.ravel(played.loss.value)[0])
            if abs(wanted - loss) > 1e-8 * (1 + abs(wanted)):
                yield f"loss: got {loss}, CVXPY says {wanted}"
        else:
            wanted = _after_the_data(played, inner, one)
            if wanted is not None and abs(wanted - loss) > 1e-5 * (1 + abs(wanted)):
                yield f"loss: got {loss}, the best choice after the data costs {wanted}"
        toward = x[k + 5] - inner  # to another decision, so that equations and symmetry still hold
        toward = toward / max(float(np.linalg.norm(toward)), 1e-12)
        for name, got, expressions in (
            ("loss", [loss], [model.objective]),
            ("row", values, [row for one in model.excesses for row in one.rows]),
        ):
            tangent = np.tensordot(slope if name == "loss" else slopes, toward, axes=toward.ndim)
            ends = []
            for sign in (0, 1, -1):
                played.assign(inner + sign * h * toward, one)
                ends.append(np.concatenate([np.ravel(e.value, order="C") for e in expressions]))
            if np.abs(ends[0] - got).max() > 1e-8 * (1 + np.abs(got).max()):
                yield f"{name}: got {got}, CVXPY says {ends[0]}"
            difference = (ends[1] - ends[2]) / (2 * h)
            if np.abs(difference - tangent).max() > 1e-4 * (1 + np.abs(difference).max()):
                yield (
                    f"gradient of {name}: got {tangent} along a direction, differences of CVXPY's "
                    f"values say {difference}"
                )


def _after_the_data(played: Played, x: Any, z: tuple[Any, ...]) -> float | None:
    """The smallest loss over the variables that are chosen after the data; None if there is no
    choice."""
    played.assign(x, z)
    fixed = [v == np.array(v.value) for v in played.model.variables]
    return _solved(cp.Problem(cp.Minimize(played.loss), [*played.constraints, *fixed]))


def _solved(program: cp.Problem) -> float | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = program.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            return None
    return float(value) if np.isfinite(value) else None


def check_violations(played: Played) -> Iterator[str]:
    """The largest row that is played is the largest violation of the constraints and attributes as
    they were stated."""
    if played.model.after.values:
        return
    x, z, (_, _, values, _) = played.samples
    for k in range(0, SAMPLES, SAMPLES // 8):
        played.assign(x[k], tuple(np.asarray(part[k]) for part in z))
        stated = max(
            [
                0.0,
                *(excess for one in played.constraints for excess in _excess(one)),
                *_attributes(played),
            ]
        )
        got = max(0.0, float(values[k].max()))
        scale = 1e-6 * (1 + float(np.abs(values).max()))
        same = (
            (got > scale) == (stated > scale) if played.case.cones else abs(got - stated) <= scale
        )
        if not same:
            yield f"rows: the largest excess is {got}, the constraints are violated by {stated}"


def _excess(constraint: Any) -> list[float]:
    values = [np.asarray(part.value, float) for part in constraint.args]
    if isinstance(constraint, cp.SOC):
        t, x = values
        return [float(np.max(np.linalg.norm(x, axis=constraint.axis if x.ndim > 1 else None) - t))]
    if isinstance(constraint, cp.ExpCone):
        a, b, c = values
        return [float(np.max(b * np.exp(a / b) - c))]
    if isinstance(constraint, cp.PowCone3D):
        a, b, c = values
        return [
            float(np.max(np.abs(c) - a**constraint.alpha.value * b ** (1 - constraint.alpha.value)))
        ]
    return [float(np.max(constraint.violation()))]


def _attributes(played: Played) -> Iterator[float]:
    for variable in played.model.variables:
        given, value = variable.attributes, np.asarray(variable.value)
        low, high = given.get("bounds") or (None, None)
        low = 0.0 if given["nonneg"] or given["pos"] else low
        for sign, edge in ((-1.0, low), (1.0, high)):
            if edge is not None:
                yield float(
                    np.max(
                        sign * (value - (edge.value if isinstance(edge, cp.Expression) else edge))
                    )
                )
        if given["PSD"]:
            yield float(-np.linalg.eigvalsh((value + value.T) / 2).min())


def check_domain(played: Played) -> Iterator[str]:
    """The feasible set of a round, maximised in random directions by CVXPY, lies in the domain."""
    data = played.stream(1)
    program = Program(numbers={name: value[0] for name, value in data.items()})
    _, constraints = parts(played.case.model(program))
    if isinstance(given := played.case.options.get("domain"), taut.Domain):
        constraints += given.to_cvxpy(next(iter(program.known.values())))
    inside = in_numpy(lambda x: played.problem.domain.contains(x, 1e-5))
    for _ in range(2):
        direction = {name: played.random.normal(size=v.shape) for name, v in program.known.items()}
        goal = sum(cp.sum(cp.multiply(direction[name], v)) for name, v in program.known.items())
        if _solved(cp.Problem(cp.Maximize(goal), constraints)) is None:
            yield "domain: CVXPY finds no largest feasible decision in a random direction"
            continue
        names = [v.name() for v in played.model.variables]
        found = {name: _dense(program.known[name].value) for name in names}
        x = np.asarray(played.model.assemble(found if len(found) > 1 else found[names[0]]), float)
        x = x.reshape(played.problem.domain.shape)
        if not inside(x):
            yield f"domain: {found} is feasible and outside"
    if played.case.domain and type(played.problem.domain).__name__ != played.case.domain:
        yield f"domain: got {played.problem.domain!r}, expected {played.case.domain}"


def _dense(value: Any) -> Any:
    return value.toarray() if hasattr(value, "toarray") else value


def check_hindsight(played: Played) -> Iterator[str]:
    """The best fixed decision costs what one CVXPY program of all rounds says."""
    short, best = played.short, played.best
    program, losses, constraints = Program(), [], []
    for t in range(SOLVED):
        program.numbers = {name: value[t] for name, value in short.items()}
        loss, rows = parts(played.case.model(program))
        losses.append(loss)
        constraints += rows
    if isinstance(given := played.case.options.get("domain"), taut.Domain):
        constraints += given.to_cvxpy(next(iter(program.known.values())))
    value = _solved(cp.Problem(cp.Minimize(sum(losses)), constraints))
    if value is None:
        yield "hindsight: CVXPY does not solve the program of all rounds"
    elif abs(value - best.loss[0]) > 1e-5 * (1 + abs(value)):
        yield f"hindsight: got {best.loss[0]}, CVXPY says {value}"
    if best.gap[0] > 1e-6:
        yield f"hindsight: the certified gap is {best.gap[0]}"


def check_learners(played: Played) -> Iterator[str]:
    """Half-space and clipped learners stay finite and violate little."""
    problem = played.problem
    for name, most in ROUNDS.items():
        rounds = most // 5 if played.case.slow else most
        long = name == "ClippedOGD"
        learner = getattr(taut, name).tuned(problem.constants, HORIZON if long else rounds)
        start = played.best.decision[0] if long else problem.domain.centre
        mean = violation(played, learner, rounds, start) / max(
            float(problem.constants.constraint_range), 1e-9
        )
        if not mean <= SHARE:
            yield f"{name}: the mean violation is {mean:.2%} of the largest constraint value"


def violation(played: Played, learner: Any, rounds: int, start: Any) -> float:
    """The mean over rounds of the largest violation."""
    problem = played.problem
    names = [p.name() for p in played.model.parameters]

    @in_numpy
    def step(state: Any, z: Any, before: Any) -> Any:
        z = problem.given(z, before)
        return learner.step(state, problem.round(z)), problem.constraints.values(state.x, z)

    x = jnp.asarray(start, float)
    state, before = learner.init(x, problem.constants.constraint_count), x
    excess = []
    for t in range(rounds):
        z = tuple(
            np.asarray(played.data[name][t]) for name in names if name in played.data
        ) or np.zeros(())
        (state, rows), before = step(state, z, before), state.x
        excess.append(max(0.0, float(np.max(rows))))
    return float(np.mean(excess))


CHECKS = (
    check_constants,
    check_values,
    check_violations,
    check_domain,
    check_hindsight,
    check_learners,
)

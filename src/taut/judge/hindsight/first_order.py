r"""A first-order method with a proof, for decisions of thousands of numbers, where Hessians are too
large.

The augmented Lagrangian of the mean loss f and the constraints g (those of all rounds, if they
change),

    f(u) + sum_i ([w_i + r g_i(u)]_+^2 - w_i^2) / (2 r),

is minimised over the domain by accelerated projected gradient steps with restarts (Nesterov;
O'Donoghue and Candes, 2015), whose length is found by doubling and shrinking a curvature. Between
two passes of `STEPS` steps the multipliers become w = [w + r g(u)]_+. With any multipliers w >= 0,
for every feasible y,

    f(y) >= f(u) + w g(u) + min_{y in B} <f'(u) + w g'(u), y - u>,

a bound that needs only the domain's support function. The decision that is returned lies between u
and a decision with g < 0, as near to u as feasibility allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...engine import Array
from ...problem.constraints import Constraints
from ...problem.evaluation import loss_of_round
from ...problem.feasibility import check_feasible
from ...problem.problem import Problem
from ...problem.programs import Programs, programs_of
from ...problem.streams import Stream
from .objective import relative_gap
from .result import Hindsight, NotCertified, of_elements
from .scaling import Scaling, as_double, sample_points
from .structure import refuse_loss_below_tangent, simplified
from .tolerances import ALLOWED_EXCESS, FEASIBLE

STEPS = 40
"""Gradient steps between two updates of the multipliers."""
PASSES = 2000
"""The largest number of such updates."""
LARGE, FEW_PASSES = 200, 250
"""Decisions of more numbers are tried by this method first, with fewer updates, unless all losses
are quadratic."""
DOUBLINGS = 60
"""The largest number of times that a step is halved before it is taken."""
GROWTH, ENOUGH = 4.0, 0.5
"""The penalty grows by this factor if a pass leaves more than this share of the violation."""
LARGEST_PENALTY = 1e15
"""A larger penalty would be infinite in the end, and is of no use with 64 bits."""
ROUNDING = 1e-14
"""A comparison of two values of the objective allows for so much rounding, relatively."""
SHRINKING = 0.9
"""The curvature shrinks by this factor after every step, so that steps can become longer again."""
WITNESSES, BELOW = 3, 1e-7
"""Decisions at which convexity is checked, and how far below a tangent rounding may put a value,
relatively."""
MARGINS = (0.1, 0.01, 1e-3, 1e-4)
SEARCH = 100
"""For each margin, steps that look for a decision with g below minus this share of the largest
value."""


class _Element(NamedTuple):
    """One seed and prefix: its loss, constraints and data."""

    programs: Programs
    loss: Callable[..., Any]
    constraints: Constraints
    scaling: Scaling
    data: Any
    rounds: int

    def excess(self, u: Array) -> Array:
        """Return the constraint values, one row per round if they change."""
        values = self.programs.call(_excess, self.constraints, self.scaling, self.data, u)
        return np.asarray(values)

    def evaluate(self, u: Array, multipliers: Array) -> tuple[float, Array, Array, Array]:
        """Return the mean loss, its gradient, the constraint values, and the gradient of the
        Lagrangian."""
        value, slope, excess, whole = map(np.asarray, self._called(_evaluate, u, multipliers))
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            raise ValueError(
                "loss: got a value or gradient that is not finite; expected finite numbers"
            )
        if not (np.isfinite(excess).all() and np.isfinite(whole).all()):
            raise ValueError(
                "constraints: got a value or gradient that is not finite; expected finite numbers"
            )
        return float(value), slope, excess, whole

    def steps(
        self, u: Array, multipliers: Array, penalty: float, curvature: float
    ) -> tuple[Array, float]:
        """Take `STEPS` accelerated steps on the augmented Lagrangian; return the last decision and
        the curvature."""
        moved, bent = self._called(_steps, u, multipliers, penalty, curvature)
        return np.asarray(moved), float(bent)

    def _called(self, function: Callable[..., Any], *arguments: Any) -> Any:
        fixed = self.constraints, self.scaling, self.data
        return self.programs.call(function, *fixed, *arguments, static=(self.loss,))


def solve_by_first_order(
    problem: Problem,
    stream: Stream,
    ends: tuple[int, ...],
    tolerance: float,
    rng: np.random.Generator,
    most: int = PASSES,
) -> Hindsight:
    """Return the best fixed decisions for all seeds and prefixes (`ends`, ascending), each with a
    proven gap.

    Arguments:
        problem: the problem.
        stream: its data.
        ends: numbers of rounds.
        tolerance: the relative gap at which to stop. A larger one is an error.
        rng: for sampled checks.
        most: updates of the multipliers, at most.
    """
    constraints = simplified(problem.constraints)
    check_feasible(problem)
    scaling = Scaling.measured(problem, constraints, stream, ends, rng)
    unit = float(scaling.loss_unit)
    everyone = stream.block(0, ends[-1])
    columns, passes = [], 0
    for seed in range(stream.seeds):
        u: Array = np.zeros(scaling.size)
        for end in ends:
            data = jax.tree.map(lambda a, s=seed, e=end: jnp.asarray(as_double(a[s, :e])), everyone)
            element = _Element(programs_of(problem), problem.loss, constraints, scaling, data, end)
            best, took = _minimise(element, u, tolerance, most)
            worst = float((element.excess(best.u) * scaling.units).max())
            if best.gap > tolerance:
                raise NotCertified(
                    f"not certified: after {took * STEPS} steps the best decision for {end} "
                    f"rounds has a certified relative gap of {best.gap:.2g}; expected at most "
                    f"{tolerance:.2g}. Ask for a larger tolerance"
                )
            _check_convex(element, best, sample_points(scaling, rng, 1 + WITNESSES)[1:])
            u, passes = best.u, max(passes, took)
            columns.append(
                (
                    scaling.decisions(u[None])[0, 0],
                    unit * end * best.value,
                    best.gap,
                    worst,
                    unit * end * _by_constraint(best.multipliers) / scaling.units,
                )
            )
    return of_elements(columns, stream.seeds, f"first-order ({passes * STEPS} steps)", unit)


class _Best(NamedTuple):
    """The best decision so far, with multipliers that prove the gap."""

    u: Array
    value: float
    worst: float
    gap: float
    multipliers: Array


def _minimise(element: _Element, u: Array, tolerance: float, most: int) -> tuple[_Best, int]:
    """Return the best decision and the number of passes that it took."""
    u = element.scaling.project(u[None])[0]
    multipliers = np.zeros_like(element.excess(u))
    value, slope, excess, _ = element.evaluate(u, multipliers)
    interior = _interior(element, multipliers)
    allowed = ALLOWED_EXCESS * FEASIBLE * max(1.0, float(np.abs(excess).max()))
    penalty = max(float(np.linalg.norm(slope)), 1e-12) / max(1.0, float(np.abs(excess).max()) ** 2)
    curvature, lower, upper, left, count = 1.0, -np.inf, np.inf, np.inf, 0
    best, bought, proof = (u, value, np.inf), 0.0, multipliers
    while True:
        value, _, excess, whole = element.evaluate(u, multipliers)
        proven = value + float((multipliers * excess).sum())
        proven += float(element.scaling.least_change(whole[None], u[None])[0])
        if proven > lower:
            lower, proof = proven, multipliers
        at, reached, worst = _feasible(element, u, value, excess, interior)
        if worst <= allowed and reached < upper:
            upper, best = reached, (at, reached, worst)
            # What is violated by rounding may have bought a loss below the optimum.
            bought = float((multipliers * np.maximum(element.excess(at), 0)).sum())
        elif upper == np.inf and worst < best[2]:
            best = at, reached, worst
        gap = np.inf
        if upper < np.inf:
            gap = max(relative_gap(upper, min(lower, upper - bought), element.rounds), 0.0)
        if gap <= tolerance or count == most:
            return _Best(*best, gap, proof), count
        over = float(excess.max(initial=0.0))
        penalty = min(penalty * (GROWTH if over > ENOUGH * left else 1.0), LARGEST_PENALTY)
        left = min(left, over) if over > 0 else left
        u, curvature = element.steps(u, multipliers, penalty, curvature)
        count += 1
        multipliers = np.maximum(multipliers + penalty * element.excess(u), 0)


def _feasible(
    element: _Element, u: Array, value: float, excess: Array, interior: tuple[Array, Array] | None
) -> tuple[Array, float, float]:
    """Return a feasible decision near `u`, its mean loss and its largest constraint value.

    Without a decision with g < 0 it is `u` itself, which is feasible only in the limit.
    """
    worst = float(excess.max())
    if worst <= 0 or interior is None:
        return u, value, worst
    centre, values = interior
    over = np.maximum(excess, 0)
    share = float(np.max(over / (over - values)))  # g is convex, so this share of the way is enough
    u = (1 - share) * u + share * centre
    value, _, excess, _ = element.evaluate(u, np.zeros_like(excess))
    return u, value, float(excess.max())


def _interior(element: _Element, zeros: Array) -> tuple[Array, Array] | None:
    """Return a decision with g < 0 and the values of g there, found by Polyak's steps towards max g
    = -margin, or None."""
    u = element.scaling.project(np.zeros((1, element.scaling.size)))[0]
    excess = element.evaluate(u, zeros)[2]
    size = max(1.0, float(np.abs(excess).max()))
    for margin in MARGINS:
        for _ in range(SEARCH):
            worst = float(excess.max())
            if worst <= -margin * size / 2:
                return u, excess
            weights = np.zeros_like(zeros)
            weights.flat[int(excess.argmax())] = 1.0
            _, slope, _, whole = element.evaluate(u, weights)
            direction = whole - slope
            length = float(direction @ direction)
            if length == 0:
                break
            u = element.scaling.project((u - (worst + margin * size) / length * direction)[None])[0]
            excess = element.evaluate(u, zeros)[2]
    return None


def _by_constraint(multipliers: Array) -> Array:
    """Return the multipliers, added over the rounds if constraints change."""
    added: Array = multipliers.reshape(-1, multipliers.shape[-1]).sum(axis=0)
    return added


def _check_convex(element: _Element, best: _Best, witnesses: Array) -> None:
    """Raise an error if loss or constraints somewhere lie below their tangent at the solution, on
    which the proof relies."""
    u, weights = best.u, best.multipliers
    value, slope, excess, whole = element.evaluate(u, weights)
    held, size = float((weights * excess).sum()), float((weights * np.abs(excess)).sum())
    for witness in witnesses:
        there, _, values, _ = element.evaluate(witness, weights)
        refuse_loss_below_tangent(value, slope, u, witness, there, element.rounds, element.scaling)
        model, reached = (
            held + float((whole - slope) @ (witness - u)),
            float((weights * values).sum()),
        )
        if reached < model - BELOW * (size + abs(model) + abs(reached)):
            raise ValueError(
                f"constraints: got {reached:.6g}, weighted by the multipliers, at a decision "
                f"where their tangent at the solution is {model:.6g}; expected convex "
                "constraints, which lie above their tangents"
            )


def _excess(constraints: Constraints, scaling: Scaling, data: Any, u: Any) -> jax.Array:
    return _linearised(constraints, scaling, data, jnp.asarray(u))[0]


def _evaluate(
    loss: Callable[..., Any],
    constraints: Constraints,
    scaling: Scaling,
    data: Any,
    u: Any,
    multipliers: Any,
) -> tuple[jax.Array, ...]:
    value, slope = jax.value_and_grad(_mean(loss, scaling, data))(jnp.asarray(u))
    excess, pull = _linearised(constraints, scaling, data, jnp.asarray(u))
    return value, slope, excess, slope + pull(jnp.asarray(multipliers))


def _steps(
    loss: Callable[..., Any],
    constraints: Constraints,
    scaling: Scaling,
    data: Any,
    u: Any,
    multipliers: Any,
    penalty: Any,
    curvature: Any,
) -> tuple[jax.Array, jax.Array]:
    mean = _mean(loss, scaling, data)

    def value_slope(u: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, slope = jax.value_and_grad(mean)(u)
        excess, pull = _linearised(constraints, scaling, data, u)
        active = jnp.maximum(multipliers + penalty * excess, 0)
        return value + jnp.sum(active * active) / (2 * penalty), slope + pull(active)

    def value(u: jax.Array) -> jax.Array:
        active = jnp.maximum(
            multipliers + penalty * _linearised(constraints, scaling, data, u)[0], 0
        )
        return mean(u) + jnp.sum(active * active) / (2 * penalty)

    def one(_: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        u, ahead, momentum, curvature = carry
        here, slope = value_slope(ahead)

        def reached(curvature: jax.Array) -> jax.Array:
            return scaling.scaled(
                scaling.domain.project(scaling.decision(ahead - slope / curvature))
            )

        def too_long(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
            curvature, tries = carry
            step = reached(curvature) - ahead
            there = value(ahead + step)
            slack = ROUNDING * (jnp.abs(here) + jnp.abs(there))
            model = here + slope @ step + curvature / 2 * (step @ step)
            return ~(there <= model + slack) & (tries < DOUBLINGS)

        curvature, _ = lax.while_loop(
            too_long, lambda c: (2 * c[0], c[1] + 1), (curvature, jnp.zeros((), jnp.int32))
        )
        moved = reached(curvature)
        restart = slope @ (moved - u) > 0
        longer = (1 + jnp.sqrt(1 + 4 * momentum * momentum)) / 2
        onward = moved + (momentum - 1) / longer * (moved - u)
        ahead = jnp.where(
            restart, moved, scaling.scaled(scaling.domain.project(scaling.decision(onward)))
        )
        return moved, ahead, jnp.where(restart, 1.0, longer), SHRINKING * curvature

    u = jnp.asarray(u)
    begun = (u, u, jnp.ones(()), jnp.asarray(curvature, u.dtype))
    u, _, _, curvature = lax.fori_loop(0, STEPS, one, begun)
    return u, curvature


def _mean(
    loss: Callable[..., Any], scaling: Scaling, data: Any
) -> Callable[[jax.Array], jax.Array]:
    def mean(u: jax.Array) -> jax.Array:
        x = scaling.decision(u)
        losses = jax.vmap(lambda z: loss_of_round(loss, x, z))(data)
        return jnp.mean(losses / scaling.loss_unit)

    return mean


def _linearised(
    constraints: Constraints, scaling: Scaling, data: Any, u: jax.Array
) -> tuple[jax.Array, Callable[[jax.Array], jax.Array]]:
    """Return all constraint values in units, one row per round if they change, and the function
    weights -> gradient."""
    x, units = scaling.decision(u), scaling.units
    if not constraints.takes_data:
        values, pull, _ = constraints.linearise(x, None)
        return values / units, lambda weights: scaling.radius * jnp.ravel(pull(weights / units))
    values = jax.vmap(lambda z: constraints.values(x, z) / units)(data)

    def pulled(weights: jax.Array) -> jax.Array:
        parts = jax.vmap(lambda z, w: constraints.linearise(x, z).pullback(w / units))(
            data, weights
        )
        return scaling.radius * jnp.ravel(jnp.sum(parts, axis=0))

    return values, pulled

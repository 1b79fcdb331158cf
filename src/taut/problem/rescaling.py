"""The same problem in other units: radius and gradients of size 1, so that parameters from theory
fit every scale."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..engine import register_dataclass
from .constants import Constants
from .constraints import Constraints
from .problem import Problem
from .streams import RoundData


def rescaled(problem: Problem) -> Rescaled:
    r"""Return the problem in units in which radius R, G_f and G_g are 1.

    With x the original decision, the new one is y = x / R; the loss is f(R y) / (G_f R), the
    constraints g(R y) / (G_g R). Feasible decisions, and which decision is best, stay the same.
    Several methods ask for impractical horizons or steps where radius and gradients are far from 1,
    for example with decisions in megawatts.

    Players show decisions in the original units, and `problem.present(run.decisions)` converts
    those of a run. `problem.units` has the factors, and `problem.original` the problem before.

    >>> import jax.numpy as jnp, taut
    >>> known = taut.Constants(loss_lipschitz=3e4, constraint_lipschitz=1.0)
    >>> watts = taut.Problem(
    ...     lambda x, z: 30 * z * x.sum(),
    ...     lambda x: x.sum() - 500,
    ...     taut.Box(0, 1000, shape=2),
    ...     known,
    ... )
    >>> small = rescaled(watts)
    >>> round(small.constants.radius, 6), small.constants.loss_lipschitz, small.units
    (1.0, 1.0, Units(decision=707.1067811865476, loss=21213203.435596429,
    constraint=707.1067811865476))
    """
    arguments.instance("problem", problem, Problem, "taut.Problem(...)")
    return Rescaled(problem)


@dataclass(frozen=True)
class Units:
    """What one unit of the rescaled problem is in the original one."""

    decision: float
    loss: float
    constraint: float


@register_dataclass
@dataclass(frozen=True)
class _RescaledConstraints(Constraints):
    """g(R y) / (G_g R)."""

    inner: Constraints
    decision: float
    constraint: float

    @property
    def takes_data(self) -> bool:  # type: ignore[override]
        return self.inner.takes_data

    def row_names(self, x: Any = None, z: Any = None) -> tuple[str, ...] | None:
        return self.inner.row_names(x, z)

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        unit = jnp.asarray(self.decision, x.dtype)
        return self.inner.values(unit * x, _original_data(z, unit)) / jnp.asarray(
            self.constraint, x.dtype
        )


def _original_data(z: Any, unit: jax.Array) -> Any:
    """Return the data in the original units; only a previous decision has one."""
    return RoundData(z.data, unit * z.previous) if isinstance(z, RoundData) else z


class Rescaled(Problem):
    """A problem in units of its own constants; see `taut.rescaled`."""

    def __init__(self, problem: Problem) -> None:
        radius, slope, steepness = problem.constants.need(
            "radius", "loss_lipschitz", "constraint_lipschitz"
        )
        for name, value in (("loss_lipschitz", slope), ("constraint_lipschitz", steepness)):
            if value == 0:
                raise ValueError(
                    f"{name}: got 0; expected a positive number, which becomes the unit"
                )
        self.original = problem
        self.units = Units(float(radius), float(slope * radius), float(steepness * radius))
        self.proof_of_convexity, self.proof_of_domain = (
            problem.proof_of_convexity,
            problem.proof_of_domain,
        )
        loss, units = problem.loss, self.units

        def scaled_loss(x: jax.Array, z: Any) -> jax.Array:
            unit = jnp.asarray(units.decision, x.dtype)
            value = loss(unit * x, _original_data(z, unit))
            return jnp.asarray(value, x.dtype) / jnp.asarray(units.loss, x.dtype)

        super().__init__(
            scaled_loss,
            _RescaledConstraints(problem.constraints, units.decision, units.constraint),
            problem.domain.scaled(1 / units.decision),
            _in_units(problem.constants, units),
            problem.domain_binds,
            coordinate_names=problem.coordinate_names,
        )
        if problem.announced is not None:
            self.announced = _RescaledConstraints(
                problem.announced, units.decision, units.constraint
            )
        # The functions above take the previous decision as part of the data.
        self.previous = problem.previous
        self.start = None if problem.start is None else problem.start / units.decision

    def arrange(self, data: Any) -> Any:
        """Data are those of the original problem."""
        return self.original.arrange(data)

    def present(self, decision: Any) -> Any:
        """Decisions in the original units, in the original problem's own form."""
        decision = decision if hasattr(decision, "shape") else np.asarray(decision, float)
        return self.original.present(decision * decision.dtype.type(self.units.decision))

    def assemble(self, decision: Any) -> Any:
        """A decision in the original units as one of this problem."""
        return np.asarray(self.original.assemble(decision)) / self.units.decision


def _in_units(known: Constants, units: Units) -> Constants:
    """The constants of the rescaled problem; marks stay."""
    per_unit = {
        "radius": units.decision,
        "loss_lipschitz": units.loss / units.decision,
        "constraint_lipschitz": units.constraint / units.decision,
        "loss_range": units.loss,
        "constraint_range": units.constraint,
        "strong_convexity": units.loss / units.decision**2,
        "constraint_smoothness": units.constraint / units.decision**2,
        "slater": units.constraint,
        "error_bound": units.constraint / units.decision,
        "gap": units.constraint,
    }
    values = {
        name: getattr(known, name) / unit
        for name, unit in per_unit.items()
        if getattr(known, name) is not None
    }
    ones = {name: 1.0 for name in ("radius", "loss_lipschitz", "constraint_lipschitz")}
    return dataclasses.replace(known, **(values | ones))

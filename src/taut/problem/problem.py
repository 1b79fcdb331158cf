"""Problem: a game described once (loss, constraints, domain, constants); it knows nothing of algorithms."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .. import arguments
from ..engine import default_float
from .constants import Constants
from .constraints import Constraints, LogSumExp, Max, Smoothed, Squared, Stated, Tightened
from .domains import Domain
from .rounds import FullInformation
from .streams import Stream, as_stream

__all__ = ["Problem", "log_sum_exp", "max_of", "smoothed", "squared", "tightened"]


class Problem:
    r"""Every round, play x_t in B; then f_t(x) = loss(x, z_t) is revealed, and g(x) <= 0 should have held.

    Arguments:
        loss: `loss(x, z)`, scalar and convex in x, written in `jax.numpy`.
        constraints: `constraints(x)`, or `constraints(x, z)` if they change from round to round: a scalar, a vector or
            several arrays, convex in x. Feasible means that every entry is at most 0.
        domain: B, which contains the feasible set and is cheap to project on. Decisions have its shape.
        constants: what is known of the problem; what follows from the domain is added, the rest can be estimated.
        domain_binds: whether the domain is a constraint itself (limits that are always enforced), not only a set that
            contains the feasible one.

    Gradients come from automatic differentiation.

    >>> import jax.numpy as jnp, taut
    >>> toy = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
    >>> toy.constants.radius, toy.constants.constraint_count
    (1.0, 1)
    """

    proof_of_convexity: str = ""
    """What proves loss and constraints convex, if anything does; otherwise it is the user's word."""
    proof_of_domain: str = ""
    """What proves that the domain contains the feasible set, if anything does."""

    def __init__(
        self,
        loss: Callable[[jax.Array, Any], Any],
        constraints: Callable[..., Any] | Constraints,
        domain: Domain,
        constants: Constants | None = None,
        domain_binds: bool = False,
    ) -> None:
        if not callable(loss):
            raise TypeError(f"loss: got {loss!r}; expected a function loss(x, z)")
        if not isinstance(domain, Domain):
            raise TypeError(f"domain: got {domain!r}; expected a taut domain such as taut.Ball(1.0, shape=2)")
        if constants is not None and not isinstance(constants, Constants):
            raise TypeError(f"constants: got {constants!r}; expected taut.Constants(...)")
        self.loss = loss
        self.constraints = constraints if isinstance(constraints, Constraints) else Stated.of(constraints)
        self.domain = domain
        self.domain_binds = domain_binds
        self.constants = _completed(self, constants or Constants())

    def round(self, data: Any) -> FullInformation:
        """The round in which `data` is revealed."""
        return FullInformation(self.loss, self.constraints, self.domain, data)

    def arrange(self, data: Any) -> Any:
        """A user's data as loss and constraints take them; models written in CVXPY key them by parameter."""
        return data

    def present(self, decision: np.ndarray[Any, Any]) -> Any:
        """A decision as the user knows it; models written in CVXPY name its parts."""
        return decision

    def assemble(self, decision: Any) -> Any:
        """The inverse of `present`: what a user hands over as a decision, as an array."""
        return decision

    def offline(self, stream: Stream, ends: tuple[int, ...], tolerance: float, rng: np.random.Generator) -> Any:
        """The best fixed decisions in hindsight, for problems that know a route of their own to them; else None."""
        return None

    def estimate_constants(
        self, stream: Any, key: jax.Array, *, horizon: int | None = None, seeds: int | None = None, samples: int = 512
    ) -> Constants:
        """These constants with every unknown entry sampled over the domain and the stream, and marked as estimated.

        A sampled maximum is a lower bound on the true one: a certificate repeats the mark.
        """
        from .estimation import estimate

        known = estimate(
            self,
            as_stream(self.arrange(stream), horizon=horizon, seeds=seeds),
            key,
            arguments.count("samples", samples),
        )
        return self.constants.merged(known)

    def with_constants(self, constants: Constants) -> Problem:
        """The same game with other constants."""
        if not isinstance(constants, Constants):
            raise TypeError(f"constants: got {constants!r}; expected taut.Constants(...)")
        return self._with(self.constraints, constants)

    def _with(self, constraints: Constraints, constants: Constants) -> Problem:
        """A twin that keeps all that a kind of problem adds, such as the names of variables and parameters."""
        twin = copy.copy(self)
        twin.constraints = constraints
        twin.constants = _completed(twin, constants)
        return twin

    def __repr__(self) -> str:
        loss = getattr(self.loss, "__name__", type(self.loss).__name__)
        return f"Problem({loss}, {type(self.constraints).__name__}, {self.domain!r}, {self.constants!r})"


def max_of(problem: Problem) -> Problem:
    """The same game with its constraints aggregated into their maximum (m = 1)."""
    return _transformed(problem, Max(problem.constraints))


def log_sum_exp(problem: Problem, temperature: float) -> Problem:
    """The same game with a smooth maximum from above, (1/temperature) log sum exp(temperature g_i).

    It lies at most ln(m)/temperature above the maximum: take a temperature of the order of sqrt(T). The paper's
    Proposition 1 has no temperature (that is 1), which leaves its own toy problem without any feasible point.
    """
    return _transformed(problem, LogSumExp(problem.constraints, arguments.positive("temperature", temperature)))


def squared(problem: Problem) -> Problem:
    """The same game with the constraints ([g_i]_+)^2, the paper's g-tilde."""
    return _transformed(problem, Squared(problem.constraints))


def tightened(problem: Problem, rho: float) -> Problem:
    """The same game with the constraints g_i + rho <= 0."""
    return _transformed(problem, Tightened(problem.constraints, arguments.positive("rho", rho)))


def smoothed(problem: Problem, width: float, data: Any = None) -> Problem:
    """The same game with |.| and max inside the constraints smoothed from above; the gap is in its constants.

    Arguments:
        problem: the game.
        width: w in |u| <= sqrt(u^2 + w^2); the gap is proportional to it, the smoothness constant to its inverse.
        data: one round's data, needed only if the constraints depend on it (shapes matter, values do not).
    """
    if problem.constraints.takes_data and data is None:
        raise ValueError("data: got None; expected one round's data, because the constraints depend on it")
    data = None if data is None else problem.arrange(data)
    # Shapes only: a gap that depended on this round's values would not hold for the others, and is refused.
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype), data)
    x = jax.ShapeDtypeStruct(problem.domain.shape, default_float())
    return _transformed(problem, Smoothed.of(problem.constraints, width, x, shapes))


def _transformed(problem: Problem, constraints: Constraints) -> Problem:
    return problem._with(constraints, constraints.constants(problem.constants))


def _completed(problem: Problem, given: Constants) -> Constants:
    """The given constants with all that follows from the domain and the constraints' shape."""
    known = given
    if known.radius is None:
        known = known.with_values(radius=float(problem.domain.radius), exact=True)
    if not problem.constraints.takes_data:
        x = jax.ShapeDtypeStruct(problem.domain.shape, default_float())
        count = int(jax.eval_shape(lambda y: problem.constraints.values(y, None), x).shape[0])
        if known.constraint_count is None:
            known = known.with_values(constraint_count=count, exact=True)
        elif known.constraint_count != count:
            raise ValueError(
                f"constraint_count: got {known.constraint_count}; expected {count}, what constraints gives"
            )
        if known.constraint_range is None and known.constraint_lipschitz is not None:
            at_centre = np.asarray(problem.constraints.values(problem.domain.centre, None))
            reach = float(np.max(np.abs(at_centre))) + known.constraint_lipschitz * float(problem.domain.radius)
            known = _implied(known, "constraint_range", reach, "constraint_lipschitz")
    if known.loss_range is None and known.loss_lipschitz is not None:
        reach = known.loss_lipschitz * float(problem.domain.diameter)
        known = _implied(known, "loss_range", reach, "loss_lipschitz")
    return known


def _implied(known: Constants, name: str, value: float, source: str) -> Constants:
    return known.with_values(**{name: value}, estimated=source in known.estimated, exact=source not in known.estimated)

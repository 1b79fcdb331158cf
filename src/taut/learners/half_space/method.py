r"""Half-space learners: a gradient step, then projections onto linear models of the constraints.

    y       = x_t - eta_t p_t,                              p_t = df_t(x_t)
    H_t   = {u : v_t + s_t.(u - x_t) + rho <= 0},
        v_t = max_i g_{t,i}(x_t), s_t its gradient, rho the margin
    x_{t+1} = Pi_B( projections on kept cuts ( Pi_{H_t}(y) ) )

Every decision that is feasible in round t (with margin rho) lies in H_t, because constraints are
convex. So projecting on H_t never moves away from any of them. That is why regret is no larger than
for plain gradient descent, even if an adversary chooses the constraints, from one value and one
gradient per round. Gradients are divided by their norm, so multiplying constraints by a constant
changes nothing. A cut stays valid after its round, so cuts are kept (`cuts.py`) and projected on
again: a constraint that comes back is not violated twice. For constraints that change, cuts have
lifetimes (`lifetimes.py`). Two sweeps over the kept cuts are enough in most rounds; where they are
not, the exact projection ends the round (`projection.py`). Guarantees are in `guarantees.py`,
formulas in `bounds`.

The members of the family differ in their steps. `half-space` adapts eta_t to the gradients that it
has seen: it needs no constant, multiplying the losses changes nothing, and its bound on regret is
known after the run. `half-space-anytime` takes eta_t = R / (G_f sqrt t): it must be told G_f, its
bound is known before the run, its steps do not depend on the data, and with `memory=None` its
violation is O(sqrt T) instead of O(sqrt(T log T)). Measured results of the two differ little: take
`half-space` unless G_f is known and the bound is needed in advance. `half-space-horizon` is for a
known number of rounds, `half-space-strong` for strongly convex losses, `half-space-margin` for
constraints that must never be violated.

Who had which idea is in docs/theory.md, theorem by theorem.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ... import arguments
from ...jaxpr.maxima import entry_of_largest
from ...problem.constants import Constants
from ...problem.domains import Domain
from ...problem.rounds import FullInformation, Round
from ..base import Learner, first_round, largest_row, learner_dataclass, sizes
from ..card import NONE, ROOT, STRONG, THREE_QUARTERS, WITH_CURVATURE, Card, Growth
from ..guarantee import Guarantee, Setting
from ..protocols import StepsFromDecision
from ..schedules import CLIP, AdaGradNorm, Constant, Inverse, InverseRoot, Schedule, Slopes
from ..theorem import NonNegative, Positive
from . import bounds, guarantees as half_space_guarantees
from .announced import enforced
from .cuts import Cuts, LinearModels, Rows, confirm, no_cuts, onto_cuts, remember
from .joint_projection import project_jointly
from .lifetimes import LONGEST
from .projection import Project, of_flat_points

if TYPE_CHECKING:
    from ...problem.problem import Problem


Make = TypeVar("Make", bound=Callable[..., Any])
ROWS = ("largest", "all")
MEMORY, SWEEPS, START_UP = 16, 2, 100.0
"""Defaults, chosen by `python -m benchmarks.frontier`."""
LIFE = 64
"""The first life of a cut of constraints that take data."""
BY_PROBLEM = "by problem"
"""Lives are chosen from the problem: `LIFE` if constraints take data, for ever if they do not or if
all cuts are kept."""
CONFIRMED = 2**20
"""Cuts are confirmed by all m rows of d entries if m^2 d is at most this, by the largest if not."""


class HalfSpaceState(NamedTuple):
    """The state of a half-space learner."""

    x: jax.Array
    """The decision to play in round t."""
    t: jax.Array
    """The round, counted from 1."""
    slopes: Slopes | None
    """What an adaptive step keeps of the loss gradients."""
    cuts: Cuts | None
    """The kept cuts; `None` without memory."""
    cuts_hold: jax.Array
    """Whether all cuts held after every round so far, within D / (t + 1)^2, and none was dropped
    because others contradict it."""
    correction: jax.Array
    """The sum of m_t^2 / (2 eta_t) over the rounds so far, which is subtracted from the bound on
    regret. m_t^2 is the sum of the squares of moves onto H_t and the domain."""


def _cut_options(
    constants: Constants | None,
    problem: Problem | None,
    *,
    memory: int | None = MEMORY,
    sweeps: int | None = SWEEPS,
    joint: bool | None = None,
    rows: str = "largest",
    life: int | str | None = BY_PROBLEM,
) -> dict[str, Any]:
    """Return the fields of a half-space learner that do not depend on its step: the options that
    all constructors share, with their defaults."""
    if joint is None:  # where there is one constraint that is known to be smooth
        joint = (
            constants is not None
            and constants.constraint_smoothness is not None
            and constants.constraint_count == 1
        )
    if life == BY_PROBLEM:
        changing = problem is not None and problem.constraints.takes_data
        life = LIFE if changing and memory is not None else None
    return {"memory": memory, "sweeps": sweeps, "joint": joint, "rows": rows, "life": life}


def _with_cut_options(make: Make) -> Make:
    """Give a constructor the signature of what it takes: its own arguments, and those of
    `_cut_options` in the place of `**cuts`."""
    own = list(inspect.signature(make).parameters.values())[:-1]
    shared = inspect.signature(_cut_options).parameters.values()
    options = [parameter for parameter in shared if parameter.kind is parameter.KEYWORD_ONLY]
    make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*own, *options], return_annotation="HalfSpace"
    )
    return make


@learner_dataclass
class HalfSpace(StepsFromDecision, Learner):
    r"""Gradient step, half-space of the current constraint, kept cuts, projection onto the domain.

    Guarantee: with the adaptive step, regret <= (D^2 / (2 R) + R) sqrt(S_T) for every T, where S_T
    is the sum of the squared loss gradients that were observed plus the start-up term, plus D times
    what was cut off gradients that were more than twice as long as any before; the squared
    violation is O(sqrt T) up to logarithms; and if all constraints are among M half-spaces (M <=
    memory), the clipped violation is at most (M + 1) G_g D, whatever T is, or M (1 + log2(1 + T /
    life)) + 1 times G_g D with lifetimes. Nothing needs to be
    known but the domain. See `docs/theory.md`, "Beyond the paper".

    Arguments:
        eta: the step: a number, a schedule, or `AdaGradNorm(radius, start_up, clip)`.
        diameter: D, the diameter of the domain; sweeps stop when kept cuts hold within D / (t +
            1)^2.
        margin: rho, added to every constraint.
        memory: number of kept cuts. Keep none if values are noisy or if the comparator moves.
            `None` keeps all of them: `simulate` and players enlarge the memory as they play, every
            projection is exact, and `sweeps` and `joint` have no effect.
        sweeps: number of sweeps over the cuts in a round at most; where a cut is still exceeded,
            the exact projection follows. `None` projects exactly at once.
        joint: whether the last projection is onto the domain and H_t together, which smooth
            constraints need on domains other than a ball.
        rows: "largest" uses the largest constraint only (one Jacobian product per round), "all"
            every one of them (m).
        life: rounds that a new cut is projected on after the last round in which its constraint was
            in force; the life doubles when the constraint comes back. `None`: for ever.

    >>> import jax.numpy as jnp, taut
    >>> toy = taut.Problem(
    ...     lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    ... )
    >>> taut.learner("half-space", toy, memory=4)
    HalfSpace(eta=AdaGradNorm(scale=1.0, start_up=100.0, clip=2.0), diameter=2.0, margin=0.0,
    memory=4, sweeps=2, joint=False, rows='largest', life=None)
    """

    @property
    def side_by_side(self) -> bool:
        """A round with several constraints projects until all cuts hold, so seeds take less time
        one after the other."""
        return False

    exact: ClassVar[bool] = True
    """Whether rounds end with the exact projection where sweeps do not suffice."""

    eta: Schedule | Any
    diameter: Positive
    margin: NonNegative = 0.0
    memory: int | None = field(default=0, metadata={"static": True})
    sweeps: int | None = field(default=SWEEPS, metadata={"static": True})
    joint: bool = field(default=False, metadata={"static": True})
    rows: str = field(default="largest", metadata={"static": True})
    life: int | None = field(default=None, metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory is not None:
            object.__setattr__(self, "memory", arguments.count("memory", self.memory, 0))
        if self.sweeps is not None:
            object.__setattr__(self, "sweeps", arguments.count("sweeps", self.sweeps))
        object.__setattr__(self, "joint", arguments.flag("joint", self.joint))
        arguments.one_of("rows", self.rows, ROWS)
        if isinstance(self.life, str):
            raise ValueError(
                f"life: got {self.life!r}; expected a number of rounds, None or {BY_PROBLEM!r}"
            )
        if self.life is not None:
            object.__setattr__(self, "life", arguments.count("life", self.life, 1, LONGEST))
            if self.memory is None:
                raise ValueError(
                    f"life: got {self.life} with memory=None, which keeps all cuts for ever; "
                    "expected life=None, or a number of kept cuts"
                )

    @classmethod
    @_with_cut_options
    def adaptive(
        cls,
        domain: Domain | None = None,
        constants: Constants | None = None,
        problem: Problem | None = None,
        start_up: float = START_UP,
        clip: float | None = CLIP,
        **cuts: Any,
    ) -> HalfSpace:
        """eta_t = R / sqrt(start_up max |q|^2 + sum |q|^2): no constants, no horizon (the default
        learner).

        A gradient is shortened to `clip` times the longest before it (`None`: never), so that one
        absurd reading does not end all movement.
        """
        radius, diameter = sizes(domain, constants)
        step = AdaGradNorm(radius, start_up, clip)
        return cls(step, diameter, **_cut_options(constants, problem, **cuts))

    @classmethod
    @_with_cut_options
    def tuned(
        cls,
        constants: Constants,
        horizon: int,
        domain: Domain | None = None,
        problem: Problem | None = None,
        **cuts: Any,
    ) -> HalfSpace:
        """eta = R / (G_f sqrt T) for a known horizon: regret <= G_f R sqrt T if the first decision
        is the centre."""
        radius, diameter = sizes(domain, constants)
        eta = radius / (_slope(constants) * math.sqrt(arguments.count("horizon", horizon)))
        return cls(Constant(eta), diameter, **_cut_options(constants, problem, **cuts))

    @classmethod
    @_with_cut_options
    def anytime(
        cls,
        constants: Constants,
        domain: Domain | None = None,
        problem: Problem | None = None,
        **cuts: Any,
    ) -> HalfSpace:
        """eta_t = R / (G_f sqrt t): the same rates for every horizon."""
        radius, diameter = sizes(domain, constants)
        step = InverseRoot(radius / _slope(constants))
        return cls(step, diameter, **_cut_options(constants, problem, **cuts))

    @classmethod
    @_with_cut_options
    def strongly_convex(
        cls,
        constants: Constants,
        domain: Domain | None = None,
        problem: Problem | None = None,
        **cuts: Any,
    ) -> HalfSpace:
        """eta_t = 1 / (H (t + t_0 - 1)), t_0 the least whole number with 1 / (H t_0) <= D / G_f.

        The first step of 1 / (H t) can be many times as long as the domain is wide, which costs one
        large violation.
        """
        (modulus,) = constants.need("strong_convexity")
        _, diameter = sizes(domain, constants)
        start = max(1, math.ceil(_slope(constants) / (modulus * diameter) * (1 - 1e-12)))
        step = Inverse(1 / modulus, float(start - 1))
        return cls(step, diameter, **_cut_options(constants, problem, **cuts))

    @classmethod
    def with_margin(
        cls,
        constants: Constants,
        horizon: int,
        domain: Domain | None = None,
        memory: int = 0,
        sweeps: int | None = SWEEPS,
        rows: str = "largest",
    ) -> HalfSpace:
        """No violation at all: a margin rho that is just large enough, and steps that cannot cross
        it.

        Needs fixed constraints and a Slater point. For one smooth constraint the margin is L eta^2
        G_f^2, which costs a constant in regret; otherwise see `bounds.half_space_margin`.
        """
        radius, diameter = sizes(domain, constants)
        memory = arguments.count("memory", memory, 0)
        (slater,) = constants.need("slater")
        known: dict[str, Any] = {
            "horizon": horizon,
            "diameter": diameter,
            "loss_lipschitz": _slope(constants),
            "slater": slater,
        }
        joint: bool = _cut_options(constants, None)["joint"]
        if joint:
            known |= {
                "radius": radius,
                "constraint_smoothness": constants.constraint_smoothness,
                "memory": memory > 0,
            }
            eta, margin = bounds.smooth_half_space_margin(**known)
        else:
            (slope,) = constants.need("constraint_lipschitz")
            eta, margin = bounds.half_space_margin(**known, constraint_lipschitz=slope)
        return cls(Constant(eta), diameter, margin, memory, sweeps, joint, rows)

    def with_room(self, slots: int) -> HalfSpace:
        """Return the learner that keeps `slots` cuts, each for ever, and projects exactly, if this
        one keeps all cuts."""
        if self.memory is not None:
            return self
        return replace(self, memory=slots, sweeps=None, joint=False)

    def is_full(self, state: HalfSpaceState) -> bool:
        """Whether a learner that keeps all cuts has no empty slot left, so that one of its cuts may
        have been overwritten."""
        if self.memory is not None or state.cuts is None:
            return False
        return bool(np.any(np.all(np.asarray(state.cuts.active) > 0, axis=-1)))

    def init(self, x1: jax.Array, count: int) -> HalfSpaceState:
        """Play x1 first, with an empty memory."""
        if self.memory is None:
            raise ValueError(
                "memory: got None, for which only taut.simulate and taut.Player enlarge the "
                "memory as they play, without checkpoint=, feedback= and advice; expected a number "
                "of kept cuts"
            )
        slopes = self.eta.begin(x1.dtype) if isinstance(self.eta, AdaGradNorm) else None
        cuts = no_cuts(self.memory, x1.size, x1.dtype, self.life) if self.memory else None
        nothing = jnp.zeros((), x1.dtype)
        return HalfSpaceState(x1, first_round(), slopes, cuts, jnp.ones((), bool), nothing)

    def step(self, state: HalfSpaceState, round: Round) -> HalfSpaceState:
        """Step, project on the current half-space, store it, project on the kept ones, stay in the
        domain."""
        x, t, _, cuts, hold, correction = state
        project = of_flat_points(round.project, x.shape)
        diameter = jnp.asarray(self.diameter, x.dtype)
        # y = x_t - eta_t p_t
        gradient = round.gradient(x)
        eta, length, slopes = self._eta(state, gradient)
        y = (x - length * gradient).reshape(-1)
        # H_t, which is kept
        models = self._models(x, round, self.rows)
        current = models.most_violated()
        excess = current.excess(y)
        if cuts is not None:
            worth = (current.distance > 0) | (excess > 0)
            cuts = remember(cuts, current, worth, t, diameter, self.life)
            if self.life is not None and self._confirms(x, round):
                cuts = confirm(cuts, partial(self._models, x, round, "all"), t, diameter)
        # x_{t+1} = Pi_B( projections on kept cuts ( Pi_{H_t}(y) ) )
        jointly = partial(project_jointly, project, normal=current.normal, excess=current.excess)
        exact, several = self.sweeps is None, models.distances.shape[0] > 1
        if self.joint and cuts is None and not several:
            z, holds = jointly(y), jnp.ones((), bool)
            moves = _square(z - y)
        else:
            # An exact projection is on H_t, too.
            outside = jnp.zeros_like(excess) if exact else jnp.maximum(excess, 0)
            in_half_space = y - outside * current.normal
            inside = project(in_half_space)
            z, cuts, holds = onto_cuts(
                project,
                inside,
                cuts,
                models.rows if exact or several else None,
                t,
                diameter,
                alive_in=t + 1,
                sweeps=self.sweeps,
                ends_exactly=self.exact,
                first=current.place if exact else None,
            )
            moves = jnp.square(outside) + _square(inside - in_half_space)
            if exact:  # on the cuts and once more on the domain: only the sum is known
                moves += _square(z - inside) / 2
            z = jointly(z) if self.joint else z
        correction += jnp.where(eta > 0, moves / (2 * jnp.where(eta > 0, eta, 1)), 0)
        return HalfSpaceState(z.reshape(x.shape), t + 1, slopes, cuts, hold & holds, correction)

    def shortened(self) -> HalfSpace:
        """Return the learner without exact projections, which most games do not need."""
        if self.sweeps is None or type(self) is not HalfSpace:  # a subclass may play otherwise
            return self
        return _SweepsOnly(**vars(self))

    def heed(self, state: HalfSpaceState, round: FullInformation) -> HalfSpaceState:
        """Move the decision into the half-spaces of the announced constraints, see
        `announced.py`."""
        return state._replace(x=enforced(state.x, round))

    def into_cuts(
        self, state: HalfSpaceState, x: jax.Array, project: Project, rows: Rows | None
    ) -> tuple[jax.Array, jax.Array]:
        """Return another point, moved into the kept cuts, the rows and the domain by its
        projection, and whether all of them hold there. A point that satisfies them does not
        move."""
        flat, diameter = of_flat_points(project, x.shape), jnp.asarray(self.diameter, x.dtype)
        y, _, holds = onto_cuts(
            flat, flat(x.reshape(-1)), state.cuts, rows, state.t, diameter, alive_in=state.t
        )
        return y.reshape(x.shape), holds

    def kept(self, state: HalfSpaceState) -> Rows | None:
        """Return the kept cuts that are alive; other slots have a normal of zeros."""
        if state.cuts is None:
            return None
        cuts = state.cuts.alive(state.t)
        normals, offsets, alive = cuts.normals, cuts.offsets, cuts.in_force
        return Rows(jnp.where(alive[:, None], normals, 0), jnp.where(alive, offsets, 0))

    def with_cut_at(self, state: HalfSpaceState, x: jax.Array, round: Round) -> HalfSpaceState:
        """Return the state with the cut that the round reveals at a point that was played instead
        of the learner's, if it violates there."""
        if state.cuts is None:
            return state
        seen = self._models(x, round, self.rows).most_violated()
        diameter = jnp.asarray(self.diameter, x.dtype)
        cuts = remember(state.cuts, seen, seen.distance > 0, state.t, diameter, self.life)
        return state._replace(cuts=cuts)

    def guarantees(self, setting: Setting, horizon: int) -> Iterable[Guarantee]:
        """Yield every theorem of `docs/theory.md`, "Beyond the paper", that applies to these
        parameters."""
        return half_space_guarantees.guarantees(self, setting, horizon)

    def multiplier(self, state: HalfSpaceState, round: Round) -> jax.Array:
        """The multiplier of the current half-space: x_t - eta_t (p_t + lambda_t s_t) lies in it.
        Kept cuts have none."""
        constraints, gradient = round.constraints(state.x), round.gradient(state.x)
        value, row = largest_row(constraints)
        _, eta, _ = self._eta(state, gradient)
        slope = constraints.pullback(row)
        margin = jnp.asarray(self.margin, state.x.dtype)
        excess = value + margin - eta * jnp.sum(slope * gradient)
        scale = eta * _square(slope)
        return row * jnp.where(
            scale > 0, jnp.maximum(excess, 0) / jnp.where(scale > 0, scale, 1), 0
        )

    def _eta(
        self, state: HalfSpaceState, gradient: jax.Array
    ) -> tuple[jax.Array, jax.Array, Slopes | None]:
        """The step eta_t, the same times the share of the gradient that an adaptive step accepts,
        and what it keeps of the gradient."""
        if state.slopes is None or not isinstance(self.eta, AdaGradNorm):
            eta = self.eta(state.t, state.x.dtype)
            return eta, eta, None
        length, slopes = self.eta.with_gradient(state.slopes, gradient)
        return self.eta.after(slopes), length, slopes

    def _models(self, x: jax.Array, round: Round, rows: str) -> LinearModels:
        values, pull, _ = round.constraints(x)
        count = values.shape[0]
        if count == 1:
            weights = jnp.ones((1, 1), x.dtype)
        elif rows == "largest":
            largest = entry_of_largest(values)
            weights, values = largest[None], jnp.sum(largest * values)[None]
        else:
            weights = jnp.eye(count, dtype=x.dtype)
        # One after the other: side by side they are a matrix product, which no kernel contains.
        slopes = pull(weights[0])[None] if len(weights) == 1 else lax.map(pull, weights)
        slopes = slopes.reshape(len(weights), -1)
        return LinearModels.of(x, values + jnp.asarray(self.margin, x.dtype), slopes)

    @staticmethod
    def _confirms(x: jax.Array, round: Round) -> bool:
        """Whether there are other constraints than the largest, few enough to look at all."""
        count = round.constraints(x).values.shape[0]
        return count > 1 and count**2 * x.size <= CONFIRMED


@learner_dataclass
class _SweepsOnly(HalfSpace):
    """A half-space learner whose rounds end after the sweeps. The first round that leaves a cut
    exceeded is the last: it has to be played again by the learner itself."""

    exact: ClassVar[bool] = False

    def fell_short(self, state: HalfSpaceState) -> jax.Array:
        """Whether a round was not ended."""
        return ~state.cuts_hold


def _square(move: jax.Array) -> jax.Array:
    return jnp.sum(jnp.square(move))


def _slope(constants: Constants) -> float:
    return arguments.positive("loss_lipschitz", constants.need("loss_lipschitz")[0])


_OURS = "docs/theory.md, Beyond the paper"
_COST = (
    "1 projection, m constraint values, 1 vector-Jacobian product, K d additions for K kept cuts"
)
_ROOT = {"regret": ROOT, "violation": THREE_QUARTERS, "squared violation": ROOT}

CARDS = (
    Card(
        "half-space",
        HalfSpace.adaptive,
        "Half-space",
        f"{_OURS} (adaptive step, memory of cuts)",
        cost=_COST,
        growth={
            "regret": ROOT,
            "violation": Growth("T^(3/4) (log T)^(1/4)", 0.75),
            "squared violation": Growth("sqrt(T log T)", 0.5),
        },
    ),
    *(
        Card(name, make, title, _OURS, cost=_COST, needs=("loss_lipschitz",), growth=_ROOT)
        for name, make, title in (
            ("half-space-horizon", HalfSpace.tuned, "Half-space (known horizon)"),
            ("half-space-anytime", HalfSpace.anytime, "Half-space (anytime)"),
        )
    ),
    Card(
        "half-space-strong",
        HalfSpace.strongly_convex,
        "Half-space, strongly convex",
        _OURS,
        "strongly convex",
        STRONG,
        cost=_COST,
        needs=("loss_lipschitz", "strong_convexity"),
        growth=WITH_CURVATURE,
    ),
    Card(
        "half-space-margin",
        HalfSpace.with_margin,
        "Half-space with a margin",
        "Hutchinson & Alizadeh, ICML 2025, and docs/theory.md, H5",
        cost=_COST,
        assumptions=(
            "convex losses",
            "convex constraints that are the same in every round",
            "Slater's condition",
        ),
        needs=("loss_lipschitz", "slater"),
        fixed_constraints=True,
        slater=True,
        growth={"regret": ROOT, "violation": NONE, "peak violation": NONE},
        known_failures={
            "check_constraint_matters": (
                "in the rounds of the check its steps are too short to reach the toy's constraint"
            )
        },
    ),
)

"""The checks that every learner must pass. Each takes a card and the problems that the method
applies to.

A check raises AssertionError with a sentence that says what a learner must do. Structural checks
alone pass on learners that ignore their constraint or never advance their round counter, so
`check_schedule_matters` and `check_constraint_matters` look at exactly that; the checks of
guarantees compare every bound with what was measured.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import files
from ..engine import Array
from ..learners import Card, Learner
from ..learners.protocols import is_random, points_of
from ..play.compile import count_compiled
from ..play.simulate import simulate
from ..player.player import Player
from ..problem.domains import Ball, Domain
from ..problem.problem import Problem
from ..problem.transforms import Tightened
from ..problem.watched import WatchedRound
from .guarantee_checks import (
    check_assumptions_are_known,
    check_bounds_hold_against_adversaries,
    check_bounds_hold_on_random_streams,
    check_growth_matches_bounds,
)
from .playing import (
    CHUNK,
    RECORD,
    as_played,
    decisions_of,
    home,
    known_violation,
    play,
    require,
    require_close,
    require_equal,
    shared_run,
    shared_stream,
    tuned,
)
from .problems import ROUNDS, SEEDS, TOY, KnownProblem, linear_loss
from .side_by_side import check_seeds_side_by_side

Check = Callable[[Card, Sequence[KnownProblem]], None]

_FREE = Ball(1e6, shape=2)
_UNCONSTRAINED = Problem(linear_loss, Tightened(TOY.problem.constraints, -1e9), _FREE)
"""The toy with no constraint within reach; its radius and level are traced, so it shares the toy's
programs."""


def checks_for(card: Card) -> Iterator[Check]:
    """Yield the checks that apply to a method."""
    yield from (check_card, check_is_pytree, check_survives_json, check_horizon_matters)
    yield check_seeds_side_by_side
    if card.request_first:
        return  # the checks below play the usual protocol
    yield from (
        check_step_is_pure,
        check_calls_declared_oracles_at_x_t_only,
        check_is_deterministic,
        check_seeds_are_independent,
        check_batch_equals_loop,
        check_player_equals_simulation,
        check_does_not_see_the_future,
        check_stays_in_domain,
        check_compiles_once,
        check_float32,
        check_schedule_matters,
        check_constraint_matters,
        check_assumptions_are_known,
        check_bounds_hold_on_random_streams,
        check_bounds_hold_against_adversaries,
    )
    if card.growth:
        yield check_growth_matches_bounds


# -- The card and the class


def check_card(card: Card, problems: Sequence[KnownProblem]) -> None:
    """The method builds a learner for at least one known problem, and the card says where it comes
    from."""
    require(
        problems,
        f"{card.name} must apply to at least one of the problems: its card excludes all of them",
    )
    for known in problems:
        made = tuned(card, known)
        require(isinstance(made, Learner), f"make must return a taut.Learner; it returned {made!r}")


def check_is_pytree(card: Card, problems: Sequence[KnownProblem]) -> None:
    """A learner is a frozen dataclass whose parameters are the leaves of a pytree."""
    learner = tuned(card, problems[0])
    how = "a learner class must be decorated with @taut.learner_dataclass"
    require(
        dataclasses.is_dataclass(learner), f"{type(learner).__name__} is not a dataclass: {how}"
    )
    leaves, structure = jax.tree.flatten(learner)
    require(
        not any(leaf is learner for leaf in leaves),
        f"{type(learner).__name__} is not a pytree: {how}",
    )
    rebuilt = jax.tree.unflatten(structure, leaves)
    require(
        files.same(files.pack(rebuilt), files.pack(learner)),
        "rebuilding a learner from its leaves must not change it",
    )


def check_survives_json(card: Card, problems: Sequence[KnownProblem]) -> None:
    """A learner that is saved and loaded is the same learner."""
    learner = tuned(card, problems[0])
    back = files.unpack(json.loads(json.dumps(files.pack(learner))))
    sentence = (
        "a learner must keep its type and every parameter when it is saved: fields hold numbers, "
        "arrays, schedules"
    )
    require(type(back) is type(learner) and repr(back) == repr(learner), sentence)
    for new, old in zip(jax.tree.leaves(back), jax.tree.leaves(learner), strict=True):
        require_equal(new, old, sentence)


def check_horizon_matters(card: Card, problems: Sequence[KnownProblem]) -> None:
    """Parameters depend on the horizon exactly if the card says that it is needed."""
    short, long = (files.pack(tuned(card, problems[0], horizon)) for horizon in (100, 400))
    if card.needs_horizon:
        require(
            short != long,
            "the card says needs_horizon=True, so parameters must depend on the horizon",
        )
    else:
        require(
            short == long,
            "the card says needs_horizon=False, so parameters must not depend on the horizon",
        )


# -- Pure steps that ask only what they declare


def _first_state(learner: Learner, problem: Problem) -> Any:
    count = problem.constants.constraint_count
    return learner.init(problem.domain.centre + 0.3, 1 if count is None else count)


def _first_data(known: KnownProblem) -> Any:
    return jax.tree.map(lambda a: jnp.asarray(a[0, 0]), shared_stream(known))


def check_step_is_pure(card: Card, problems: Sequence[KnownProblem]) -> None:
    """Two traces of a step are the same program, a step keeps the state's structure, and a state
    can be copied."""
    for known in problems[:2]:
        _check_step_is_pure(tuned(card, known), as_played(card, known.problem), _first_data(known))


def _check_step_is_pure(learner: Learner, problem: Problem, z: Any) -> None:
    def stepping() -> Callable[[Any, Any], Any]:
        return lambda state, z: learner.step(
            state, problem.round(z)
        )  # a new function, so that JAX traces again

    state = _first_state(learner, problem)
    first, second = (str(jax.make_jaxpr(stepping())(state, z)) for _ in range(2))
    require(
        first == second,
        "step must be pure: two traces of it differ, so it depends on more than its arguments",
    )
    before = jax.tree.map(np.array, state)
    compiled = jax.jit(stepping())
    after = jax.tree.map(np.asarray, compiled(state, z))
    require(
        _types(after) == _types(before),
        "step must return a state of the structure, shapes and types of init's",
    )
    leaves, structure = jax.tree.flatten(before)
    copied = jax.tree.unflatten(
        structure, [np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) for a in leaves]
    )
    again = jax.tree.map(np.asarray, compiled(copied, z))
    for new, old in zip(jax.tree.leaves(again), jax.tree.leaves(after), strict=True):
        require_equal(
            new,
            old,
            "the state must hold all that the next round needs: a copied state continues "
            "differently",
        )
    for new, old in zip(jax.tree.leaves(state), jax.tree.leaves(before), strict=True):
        require_equal(new, old, "step must not change its argument")


def _types(state: Any) -> tuple[str, list[Any]]:
    leaves, structure = jax.tree.flatten(state)
    return str(structure), [(leaf.shape, leaf.dtype) for leaf in leaves]


def check_calls_declared_oracles_at_x_t_only(card: Card, problems: Sequence[KnownProblem]) -> None:
    """A step calls the oracles that the card declares and no others, and asks only about x_t."""
    for known in problems[:2]:
        learner, problem = tuned(card, known), as_played(card, known.problem)
        calls, only_here = _oracles(learner, problem, _first_data(known))
        require(
            calls == set(card.oracles),
            f"step must call the oracles that the card declares: it calls {sorted(calls)}, the "
            f"card has {sorted(card.oracles)}",
        )
        require(
            only_here,
            "step may ask a round about the decision that was played, state.x, and about no other",
        )


def _oracles(learner: Learner, problem: Problem, z: Any) -> tuple[set[str], bool]:
    calls: set[str] = set()
    elsewhere: list[Any] = []

    def step(state: Any, z: Any) -> Any:
        played = points_of(learner, state)

        def asked(name: str, about: Any) -> None:
            calls.add(name)
            at_x = any(about is point for point in played)
            if name in ("loss", "gradient", "values") and not at_x:
                elsewhere.append(about)

        round: Any = WatchedRound(problem.round(z), asked)
        return learner.step(state, round)

    jax.eval_shape(step, _first_state(learner, problem), z)
    return calls, not elsewhere


# -- Runs


def check_is_deterministic(card: Card, problems: Sequence[KnownProblem]) -> None:
    """The same call gives the same run, and inputs are left unchanged."""
    for known in problems:
        learner = tuned(card, known)
        packed = files.pack(learner)
        first, again = shared_run(card, known), play(card, known, learner)
        for name in (*RECORD, "final"):
            require_equal(
                getattr(first, name),
                getattr(again, name),
                f"the same run twice must give the same {name}",
            )
        require(files.same(packed, files.pack(learner)), "playing must not change the learner")


def check_seeds_are_independent(card: Card, problems: Sequence[KnownProblem]) -> None:
    """The decisions of a seed depend on the data of that seed alone."""
    for known in problems[:2]:
        run = shared_run(card, known)
        if is_random(tuned(card, known)):
            continue  # its decisions depend on the seed's random key too
        repeated = jax.tree.map(lambda a: np.repeat(a[1:2], SEEDS, axis=0), shared_stream(known))
        alone = play(card, known, data=repeated)
        for seed in range(SEEDS):
            require_equal(
                decisions_of(alone)[seed],
                decisions_of(run)[1],
                "a seed's decisions must not depend on the data of others",
            )


def _key_of(seed: int) -> jax.Array:
    """The random key that a simulation of all seeds gives to one of them."""
    return jax.random.split(jax.random.key(0), SEEDS)[seed]


def check_batch_equals_loop(card: Card, problems: Sequence[KnownProblem]) -> None:
    """Seeds that are played side by side equal seeds that are played one by one."""
    known = home(card) if home(card) in problems else problems[0]
    run, problem = shared_run(card, known), as_played(card, known.problem)
    for seed in range(SEEDS):
        data = jax.tree.map(lambda a, k=seed: a[k], shared_stream(known))
        single = simulate(
            tuned(card, known), problem, data, key=_key_of(seed), chunk=CHUNK, record=("decisions",)
        )
        sentence = (
            "a batch of seeds must equal the seeds played one by one: step must work under jax.vmap"
        )
        require_close(decisions_of(single)[0], decisions_of(run)[seed], sentence, atol=1e-10)
        require_close(single.totals.violation[0], run.totals.violation[seed], sentence, atol=1e-10)


def check_player_equals_simulation(card: Card, problems: Sequence[KnownProblem]) -> None:
    """A player that observes the stream round by round takes the decisions of the simulation."""
    known = home(card) if home(card) in problems else problems[0]
    run, data = shared_run(card, known), shared_stream(known)
    player = Player(tuned(card, known), as_played(card, known.problem), key=_key_of(0))
    for t in range(8):
        require_close(
            player.decision,
            decisions_of(run)[0, t],
            "a player must take the same decisions as a simulation",
        )
        player.observe(jax.tree.map(lambda a, t=t: a[0, t], data))


def check_does_not_see_the_future(card: Card, problems: Sequence[KnownProblem]) -> None:
    """Changing the data of round t changes no decision up to x_t, and changes x_{t+1}."""
    t = 41 if ROUNDS > 41 else ROUNDS // 2

    def negate(a: Array) -> Array:
        a = a.copy()
        a[:, t - 1] *= -1
        return a

    for known in problems[:3]:
        before = decisions_of(shared_run(card, known))
        after = decisions_of(play(card, known, data=jax.tree.map(negate, shared_stream(known))))
        require_equal(
            after[:, :t],
            before[:, :t],
            "a decision must not depend on data that are revealed later",
        )
        require(
            np.any(after[:, t:] != before[:, t:]),
            "a learner must react to what it observes: other data, other decisions",
        )


@jax.jit
def _contained(domain: Domain, decisions: jax.Array) -> jax.Array:
    return jax.vmap(jax.vmap(domain.contains))(decisions)


def check_stays_in_domain(card: Card, problems: Sequence[KnownProblem]) -> None:
    """Every decision lies in the domain, or in the feasible set if the method projects onto
    that."""
    for known in problems:
        decisions = jnp.asarray(decisions_of(shared_run(card, known)))
        inside = (
            known.feasible
            if card.needs_feasible and known.feasible is not None
            else known.problem.domain
        )
        require(
            jnp.all(_contained(inside, decisions)),
            f"every decision must lie in {inside!r}: end step with round.project",
        )
        require(
            is_random(tuned(card, known))
            or np.all(np.ptp(np.asarray(decisions)[:, 0], axis=0) == 0),
            "the first decision must not depend on the seed",
        )


def check_compiles_once(card: Card, problems: Sequence[KnownProblem]) -> None:
    """Other parameters, data, levels and horizons run the program that is already compiled."""
    known = problems[0]
    shared_run(card, known)
    compiled = count_compiled()
    problem, data = as_played(card, known.lowered(0.25)), known.stream(seed=9)
    learner = tuned(card, known, horizon=777)
    for other, rounds in ((learner, ROUNDS), (learner, 50)):
        simulate(other, problem, data, horizon=rounds, seeds=SEEDS, chunk=CHUNK, record=RECORD)
    require(
        count_compiled() == compiled,
        "changing parameters or data must not recompile: numeric parameters are fields of the "
        "dataclass, flags are static",
    )


def _check_step_keeps_types(learner: Learner, problem: Problem, z: Any, x1: Array) -> None:
    """The step itself must not widen the state, whatever the type of its parameters; only types are
    computed."""

    def cast(tree: Any, dtype: Any) -> Any:
        floats = jax.tree.map(lambda a: jnp.issubdtype(jnp.result_type(a), jnp.floating), tree)
        return jax.tree.map(
            lambda a, is_float: np.asarray(a, dtype) if is_float else a, tree, floats
        )

    learner, narrow = cast(learner, np.float64), cast(z, np.float32)
    count = problem.constants.constraint_count
    begun = learner.init(jnp.asarray(x1), 1 if count is None else count)
    after = jax.eval_shape(lambda state, z: learner.step(state, problem.round(z)), begun, narrow)
    require(
        _types(after) == _types(begun),
        "step must keep a state in 32 bits in 32 bits: convert parameters with x.dtype",
    )


def check_float32(card: Card, problems: Sequence[KnownProblem]) -> None:
    """In 32 bits the run is the same up to rounding, and nothing is silently computed in another
    width."""
    known = home(card) if home(card) in problems else problems[0]
    x1 = np.asarray(known.problem.domain.centre, np.float32)
    _check_step_keeps_types(
        tuned(card, known), as_played(card, known.problem), _first_data(known), x1
    )
    data = jax.tree.map(lambda a: a[0], shared_stream(known))
    run = simulate(
        tuned(card, known), as_played(card, known.problem), data, x1=x1, chunk=CHUNK, record=RECORD
    )
    double = shared_run(card, known)
    for name in RECORD:
        require(
            getattr(run, name).dtype == np.float32, f"a game in 32 bits must keep {name} in 32 bits"
        )
    if is_random(tuned(card, known)):
        return  # random numbers in 32 bits are other numbers
    early = slice(0, 20)  # later, rounding may decide between two equally good subgradients
    require_close(
        decisions_of(run)[0, early],
        decisions_of(double)[0, early],
        "32 and 64 bits must agree up to rounding",
        atol=2e-4,
    )


# -- What structure cannot tell: schedule and constraint are used


def check_schedule_matters(card: Card, problems: Sequence[KnownProblem]) -> None:
    """With one loss gradient for ever and no constraint in reach, steps get shorter with the round,
    or with the horizon."""
    known = home(card)
    if known not in problems:
        return
    lengths = _step_lengths(card, known, ROUNDS)
    if card.needs_horizon:
        longer = _step_lengths(card, known, 16 * ROUNDS)
        require(
            longer[9] < 0.9 * lengths[9],
            "a method that is tuned for a horizon must take shorter steps for a longer one",
        )
    else:
        early, late = lengths[:10].mean(), lengths[-10:].mean()
        require(
            late < 0.9 * early,
            "a method without a horizon must shorten its steps: does the round counter advance?",
        )


def _step_lengths(card: Card, known: KnownProblem, horizon: int) -> Array:
    learner: Any = tuned(card, known, horizon)
    if card.needs_feasible:
        learner = dataclasses.replace(learner, feasible=_FREE)
    data = np.broadcast_to([0.6, 0.8], (SEEDS, ROUNDS, 2))
    run = simulate(
        learner, as_played(card, _UNCONSTRAINED), data, seeds=SEEDS, chunk=CHUNK, record=RECORD
    )
    return np.linalg.norm(np.diff(decisions_of(run)[0], axis=0), axis=-1)


def check_constraint_matters(card: Card, problems: Sequence[KnownProblem]) -> None:
    """Taking the constraint away changes the decisions, and makes the violation larger."""
    for known in problems:
        tight, data = shared_run(card, known), shared_stream(known)
        if card.needs_feasible:
            wider: Any = jax.tree.map(lambda leaf: 10 * leaf, known.feasible)
            learner: Any = tuned(card, known)
            learner = dataclasses.replace(learner, feasible=wider)
            loose = play(card, known, learner)
        else:
            loose = play(card, known, by=100.0)
        changed = np.any(
            decisions_of(tight) != decisions_of(loose),
            axis=tuple(range(1, decisions_of(tight).ndim)),
        )
        require(np.all(changed), f"{known.name}: the constraint must influence the decisions")
        with_it, without = (
            known_violation(known, decisions_of(run), data) for run in (tight, loose)
        )
        require(
            np.all(with_it < (1 - 1e-4) * without),
            f"{known.name}: the learner must violate less than without its constraint; does it "
            "use the constraint's gradient?",
        )

"""Advice: what a user's own controller would play, handed in before a round.

Missing advice is a row of NaN in arrays, and `None` in live use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..display import counted
from ..engine import Array
from ..learners import Advised, Learner
from ..problem.feedback import Feedback
from ..problem.problem import Problem
from ..problem.streams import Arrays, Stream, as_stream, required_arguments
from ..problem.tracing import traced

__all__ = [
    "Advice",
    "advice_of_round",
    "advice_of_rounds",
    "check_advice_function",
    "check_advised",
    "forecast_of_rounds",
    "last_data",
    "with_adviser",
]

LAST = "last"
"""The forecast that the data of a round are those of the round before."""

Advice = Arrays | Callable[..., Any]
"""Advice of all rounds: arrays (seed, round, adviser, *decision), or a function."""


def with_adviser(learner: Learner, advice: Any, forecast: Any = None) -> Learner:
    """Return the learner with one adviser, or two for both advice and forecasts, if there is any
    and it has none."""
    advisers = (advice is not None) + (forecast is not None)
    return learner if not advisers or isinstance(learner, Advised) else Advised(learner, advisers)


def check_advised(learner: Learner, feedback: Feedback | None) -> Advised:
    """Refuse advice for a learner that has no advisers, or that does not see whole rounds."""
    if not isinstance(learner, Advised):
        raise TypeError(
            f"advice: got advice for {type(learner).__name__}; expected a learner with advisers, "
            "taut.Advised(learner)"
        )
    if feedback is not None:
        raise ValueError(
            f"advice: got advice with feedback={feedback!r}; expected full information, because "
            "advisers are weighed by their losses"
        )
    return learner


def advice_of_rounds(
    advice: Any, learner: Learner, problem: Problem, stream: Stream, feedback: Feedback | None
) -> Advice | None:
    """Return the advice of all rounds, checked.

    Arguments:
        advice: None, an array or a function; see `taut.simulate`.
        learner: it must have advisers.
        problem: for the shape of a decision.
        stream: the data, for the numbers of rounds and seeds.
        feedback: what the learner sees of a round.
    """
    if advice is None:
        return None
    own = check_advised(learner, feedback)
    if callable(advice):
        required = required_arguments(advice)
        if required != 2:
            raise TypeError(
                f"advice: got a function with {required} required arguments; expected "
                "advice(round, previous), written in jax.numpy, or an array"
            )
        return advice
    if isinstance(advice, Arrays):  # of a run that is played again
        return advice
    array = arguments.as_array("advice", advice)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"advice: got values of type {array.dtype}; expected real numbers")
    shape, rounds, seeds = problem.domain.shape, stream.horizon, stream.seeds
    array = array.astype(float, copy=False)
    layouts = [(-1, own.advisers, *shape), (seeds, -1, own.advisers, *shape)]
    if own.advisers == 1:
        layouts += [(-1, *shape), (seeds, -1, *shape)]
    for layout in layouts:
        if _fits(array.shape, layout, rounds):
            break
    else:
        experts = "" if own.advisers == 1 else f", {own.advisers}"
        raise ValueError(
            f"advice: got shape {array.shape}; expected ({rounds}{experts}"
            f"{''.join(f', {n}' for n in shape)}): the decisions of "
            f"{counted(own.advisers, 'adviser')} in {counted(rounds, 'round')}, or the same "
            f"after an axis of {counted(seeds, 'seed')}"
        )
    each = layout[0] == seeds and layout[1] == -1
    array = array.reshape(*array.shape[: 1 + each], own.advisers, *shape)
    _check_rows(array, own.advisers, 1 + each)
    if not each:
        array = np.broadcast_to(array[None], (seeds, *array.shape))
    return Arrays(array, rounds, seeds, True)


def forecast_of_rounds(
    forecast: Any, learner: Learner, problem: Problem, stream: Stream, feedback: Feedback | None
) -> Stream | str | None:
    """Return predicted data of all rounds as a stream, checked like `stream`, or "last"."""
    if forecast is None:
        return None
    check_advised(learner, feedback)
    if isinstance(forecast, str):
        arguments.one_of("forecast", forecast, (LAST,))
        if stream.reacts:
            raise ValueError(
                'forecast: got "last" for an adversary; expected an array of forecasts, because '
                "what an adversary reveals is not kept"
            )
        return LAST
    if isinstance(forecast, Stream):
        return forecast
    seeds = None if stream.seeds == 1 else stream.seeds
    made = as_stream(problem.arrange(forecast), horizon=stream.horizon, seeds=seeds)
    found, expected = (
        jax.tree.map(lambda leaf: leaf.shape[2:], one.block(0, 1)) for one in (made, stream)
    )
    if found != expected:
        raise ValueError(
            f"forecast: got data of shapes {found}; expected {expected}, as in the stream"
        )
    return made


def last_data(stream: Stream, start: int, length: int) -> Any:
    """Return the data of the rounds before start + 1 .. start + length, NaN before round 1."""
    if start:
        return stream.block(start - 1, length)
    block = stream.block(0, length)

    def shifted(leaf: Array) -> Array:
        made = np.roll(leaf, 1, axis=1)
        made[:, 0] = np.nan if made.dtype.kind == "f" else 0
        return made

    return jax.tree.map(shifted, block)


def check_advice_function(advice: Callable[..., Any], learner: Learner, x: jax.Array) -> None:
    """Refuse a function whose advice has another shape than the decisions of all advisers."""
    assert isinstance(learner, Advised)
    called = "advice(round, previous)"
    first = jnp.asarray(1, jnp.int32)
    returned = traced(called, "advice", "advice", advice, first, x)
    expected = [(learner.advisers, *x.shape), *([x.shape] if learner.advisers == 1 else [])]
    if getattr(returned, "shape", None) not in expected:
        raise ValueError(
            f"advice: {called} returned {arguments.shown(returned)}; expected an array of shape "
            f"{' or '.join(map(str, expected))}"
        )


def _fits(shape: tuple[int, ...], layout: tuple[int, ...], rounds: int) -> bool:
    """Whether an array has a layout, in which -1 stands for at least so many rounds."""
    return len(shape) == len(layout) and all(
        n >= rounds if m == -1 else n == m for n, m in zip(shape, layout, strict=True)
    )


def _check_rows(array: Array, advisers: int, axes: int) -> None:
    """Refuse advice that is neither finite nor missing."""
    flat = array.reshape(*array.shape[: axes + 1], -1)
    missing = np.isnan(flat).all(axis=-1)
    bad = ~np.isfinite(flat).all(axis=-1) & ~missing
    if bad.any():
        *_, round, adviser = np.argwhere(bad)[0]
        whose = f" of adviser {adviser + 1}" if advisers > 1 else ""
        raise ValueError(
            f"advice: got a value that is not finite{whose} in round {round + 1}; expected finite "
            "numbers, or NaN in all entries of a decision that is missing"
        )


def advice_of_round(advice: Any, learner: Advised, problem: Problem, dtype: Any) -> Array:
    """Return the advice of one round, (adviser, *decision), with NaN for missing advice.

    Arguments:
        advice: None; a decision, for one adviser; or a list with a decision or None for each.
        learner: the learner.
        problem: the problem, which may name the parts of a decision.
        dtype: the float type of all computations.
    """
    count, shape = learner.advisers, problem.domain.shape
    entries = [advice] if count == 1 else advice
    if advice is None:
        entries = [None] * count
    if not isinstance(entries, (list, tuple, np.ndarray)) or len(entries) != count:
        raise ValueError(
            f"advice: got {arguments.shown(advice)}; expected a list of {count} decisions, one for "
            "each adviser, with None where one is missing"
        )
    rows = []
    for k, entry in enumerate(entries):
        name = "advice" if count == 1 else f"advice[{k}]"
        if entry is None:
            rows.append(np.full(shape, np.nan, dtype))
            continue
        row = arguments.finite(name, problem.assemble(entry))
        if row.shape == (1, *shape) and count == 1:
            row = row[0]
        if row.shape != shape:
            raise ValueError(f"{name}: got shape {row.shape}; expected {shape}, that of a decision")
        rows.append(row.astype(dtype))
    return np.stack(rows)

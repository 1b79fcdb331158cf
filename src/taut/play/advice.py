"""Advice: what a user's own controller would play, handed in before a round.

Missing advice is said explicitly: None in a list, a masked row of an array, an empty row of a
table. A number that is not finite is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from .round import Told

MISSING = (
    "Missing advice is None in a list, a masked row of an array (numpy.ma) or an empty row of a "
    "table"
)
"""What an error says about advice that is not finite."""

LAST = "last"
"""The forecast that the data of a round are those of the round before."""

Advice = Arrays | Callable[..., Any]
"""Advice of all rounds: arrays (seed, round, adviser, *decision) with arrays of what is given, or a
function."""


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
    advice: Any,
    learner: Learner,
    problem: Problem,
    stream: Stream,
    feedback: Feedback | None,
    predicted: bool = False,
) -> Advice | None:
    """Return the advice of all rounds, checked.

    With forecasts, which `predicted` says, the last adviser stands for them.
    """
    if advice is None:
        return None
    count = check_advised(learner, feedback).advisers - predicted
    check_others(count, advice)
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
    if isinstance(advice, (list, tuple)) and _contains_none(advice):
        array, mask = listed_advice(advice, count, problem)
    else:
        array, mask = numbers_and_gaps(advice, problem.coordinate_names)
    shape, rounds, seeds = problem.domain.shape, stream.horizon, stream.seeds
    layouts = [(-1, count, *shape), (seeds, -1, count, *shape)]
    if count == 1:
        layouts += [(-1, *shape), (seeds, -1, *shape)]
    for layout in layouts:
        if _fits(array.shape, layout, rounds):
            break
    else:
        experts = "" if count == 1 else f", {count}"
        raise ValueError(
            f"advice: got shape {array.shape}; expected ({rounds}{experts}"
            f"{''.join(f', {n}' for n in shape)}): the decisions of "
            f"{counted(count, 'adviser')} in {counted(rounds, 'round')}, or the same "
            f"after an axis of {counted(seeds, 'seed')}"
        )
    each = layout[0] == seeds and layout[1] == -1
    lead = array.shape[: 1 + each]
    array, mask = (part.reshape(*lead, count, *shape) for part in (array, mask))
    speaks, wrong = given_and_wrong(array, mask, 2 + each)
    if wrong.any():
        *_, round, adviser = np.argwhere(wrong)[0]
        whose = f" of adviser {adviser + 1}" if count > 1 else ""
        raise ValueError(
            f"advice: got a value that is not finite{whose} in round {round + 1}; expected finite "
            f"numbers. {MISSING}"
        )
    if not each:
        array, speaks = (
            np.broadcast_to(part[None], (seeds, *part.shape)) for part in (array, speaks)
        )
    return Arrays((array, speaks), rounds, seeds, True)


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
    masked: list[Any] = []
    arranged = problem.arrange(_filled(forecast, masked))
    made = as_stream(arranged, horizon=stream.horizon, seeds=seeds)
    shapes, expected = (
        jax.tree.map(lambda leaf: leaf.shape[2:], source.block(0, 1)) for source in (made, stream)
    )
    if shapes != expected:
        raise ValueError(
            f"forecast: got data of shapes {shapes}; expected {expected}, as in the stream"
        )
    if not isinstance(made, Arrays):
        return made
    lead = 1 + made.seed_axis
    known = np.ones(jax.tree.leaves(made.data)[0].shape[:lead], bool)
    for array in masked:
        known &= _known_rounds(array, lead)
    return Arrays((made.data, known), made.horizon, made.seeds, made.seed_axis)


def _filled(forecast: Any, masked: list[Any]) -> Any:
    """Return a forecast without masks; its masked arrays are added to a list."""
    if isinstance(forecast, np.ma.MaskedArray):
        masked.append(forecast)
        return forecast.filled(0)
    if type(forecast) is dict:
        return {name: _filled(part, masked) for name, part in forecast.items()}
    if type(forecast) is tuple:
        return tuple(_filled(part, masked) for part in forecast)
    return forecast


def _known_rounds(leaf: Any, lead: int) -> Array:
    """Return for which rounds a masked array has predictions; `lead` axes are seeds and rounds."""
    mask = np.ma.getmaskarray(leaf).reshape(*leaf.shape[:lead], -1)
    gone = mask.all(axis=-1)
    partly = np.argwhere(mask.any(axis=-1) & ~gone)
    if len(partly):
        raise ValueError(
            f"forecast: got a prediction with masked entries in round {partly[0][-1] + 1}; "
            "expected all entries of the round, or none"
        )
    return np.asarray(~gone)


def predicted_data(
    forecast: Stream | str, stream: Stream, start: int, length: int
) -> tuple[Any, Array]:
    """Return predicted data of the rounds start + 1 .. start + length, and whether they are known:
    those of `forecast`, or the data of the round before, which round 1 has none of."""
    if isinstance(forecast, Arrays):
        pair: tuple[Any, Array] = forecast.block(start, length)
        return pair
    if isinstance(forecast, Stream):
        return _with_known(forecast.block(start, length))
    if start:
        return _with_known(stream.block(start - 1, length))
    block = jax.tree.map(lambda leaf: np.roll(leaf, 1, axis=1), stream.block(0, length))
    data, known = _with_known(block)
    known[:, 0] = False
    return data, known


def _with_known(block: Any) -> tuple[Any, Array]:
    """Return the data of some rounds, all of which are known."""
    return block, np.ones(jax.tree.leaves(block)[0].shape[:2], bool)


def check_advice_function(
    advice: Callable[..., Any], learner: Learner, x: jax.Array, predicted: bool
) -> None:
    """Refuse a function whose advice has another shape than the decisions of all advisers; with
    forecasts, of all but the last."""
    assert isinstance(learner, Advised)
    called, count = "advice(round, previous)", learner.advisers - predicted
    first = jnp.asarray(1, jnp.int32)

    def arrays(round: Any, previous: Any) -> Any:
        returned = advice(round, previous)
        return returned if isinstance(returned, tuple) else (returned, True)

    returned = traced(called, "advice", "advice", arrays, first, x)
    shapes = [getattr(each, "shape", None) for each in returned]
    expected = [(count, *x.shape), *([x.shape] if count == 1 else [])]
    if len(shapes) != 2 or shapes[0] not in expected or shapes[1] not in [(), (count,)]:
        raise ValueError(
            f"advice: {called} returned {arguments.shown(returned[0])}; expected an array of shape "
            f"{' or '.join(map(str, expected))}, or a pair of it and which advisers say something"
        )


def as_told(said: Any, predicted: Any, like: jax.Array) -> Told:
    """Return what a learner is told before a round. It may be traced.

    Arguments:
        said: what advisers would play; or a pair of it and which advisers say something; or None.
            The last advisers may be missing from it: they say nothing.
        predicted: predicted data, for which the last adviser stands, and whether they are known; or
            None.
        like: an array (adviser, *decision).
    """
    rows, speaks = said if isinstance(said, tuple) else (said, True)
    rows = like[:0] if rows is None else jnp.asarray(rows, like.dtype)
    rows = rows.reshape(-1, *like.shape[1:])
    speaks = jnp.broadcast_to(jnp.asarray(speaks, bool), rows.shape[:1])
    silent = like[len(rows) :]  # those of whom nothing was handed in
    rows = jnp.concatenate([rows, silent])
    speaks = jnp.concatenate([speaks, jnp.zeros(len(silent), bool)])
    if predicted is None:
        return Told(rows, speaks)
    forecast, known = predicted
    known = jnp.reshape(jnp.asarray(known, bool), (1,))
    return Told(rows, jnp.concatenate([speaks[:-1], known]), forecast)


def _fits(shape: tuple[int, ...], layout: tuple[int, ...], rounds: int) -> bool:
    """Whether an array has a layout, in which -1 stands for at least so many rounds."""
    return len(shape) == len(layout) and all(
        n >= rounds if m == -1 else n == m for n, m in zip(shape, layout, strict=True)
    )


def _contains_none(advice: Any) -> bool:
    """Whether a list of rounds, or one of its lists of advisers, contains None."""
    return any(
        entry is None or (isinstance(entry, (list, tuple)) and any(each is None for each in entry))
        for entry in advice
    )


def check_others(count: int, advice: Any) -> None:
    """Refuse advice if the only adviser is the decision for a forecast."""
    if count == 0 and advice is not None:
        raise ValueError(
            "advice: got advice beside a forecast, whose decision is that of the only adviser; "
            "expected taut.Advised(learner, advisers=2) for both"
        )


def numbers_and_gaps(advice: Any, names: tuple[str, ...] | None) -> tuple[Array, Array]:
    """Return advice as numbers, and which of them are missing: masked entries of an array and empty
    cells of a table of pandas. Columns with the names of a decision's entries are put in order."""
    if hasattr(advice, "isna"):
        if names is not None and set(names) == set(map(str, getattr(advice, "columns", ()))):
            advice = advice[list(names)]
        mask = np.asarray(advice.isna())
        try:
            return np.asarray(advice.to_numpy(dtype=float, na_value=np.nan)), mask
        except (TypeError, ValueError) as error:
            raise TypeError(f"advice: got a table ({error}); expected real numbers") from None
    if isinstance(advice, np.ma.MaskedArray):
        return np.asarray(advice.filled(0), float), np.ma.getmaskarray(advice)
    array = arguments.as_array("advice", advice)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"advice: got values of type {array.dtype}; expected real numbers")
    return array.astype(float, copy=False), np.broadcast_to(False, array.shape)


def given_and_wrong(array: Array, mask: Array, lead: int) -> tuple[Array, Array]:
    """Return which decisions are not missing, and which of these are not finite or have gaps; the
    first `lead` axes are not those of a decision."""
    flat, gaps = (part.reshape(*part.shape[:lead], -1) for part in (array, mask))
    speaks = np.asarray(~gaps.all(axis=-1))
    return speaks, np.asarray(speaks & ~(np.isfinite(flat) & ~gaps).all(axis=-1))


def listed_advice(advice: Sequence[Any], count: int, problem: Problem) -> tuple[Array, Array]:
    """Return a list with what advisers say, an entry for each round or member, as numbers, and
    which of them are missing."""
    array = np.zeros((len(advice), count, *problem.domain.shape))
    mask = np.zeros(array.shape, bool)
    for i, entry in enumerate(advice):
        array[i], speaks = said_in_round(f"advice[{i}]", entry, count, problem)
        mask[i, ~speaks] = True
    return array, mask


def said_in_round(name: str, advice: Any, count: int, problem: Problem) -> tuple[Array, Array]:
    """Return what advisers say in one round, (adviser, *decision), and which say something.

    `name` is what the user calls the advice: None; a decision, for one adviser; or a list with a
    decision or None for each.
    """
    shape = problem.domain.shape
    entries = [None] * count if advice is None else [advice] if count == 1 else advice
    if not isinstance(entries, (list, tuple, np.ndarray)) or len(entries) != count:
        raise ValueError(
            f"{name}: got {arguments.shown(advice)}; expected a list of {count} decisions, one for "
            "each adviser, with None where one is missing"
        )
    rows = np.zeros((count, *shape))
    for k, entry in enumerate(entries):
        if entry is None:
            continue
        own = name if count == 1 else f"{name}[{k}]"
        row = arguments.as_array(own, problem.assemble(entry))
        if row.dtype.kind not in "fiub":
            raise TypeError(f"{own}: got values of type {row.dtype}; expected real numbers")
        if row.shape == (1, *shape) and count == 1:
            row = row[0]
        if row.shape != shape:
            raise ValueError(f"{own}: got shape {row.shape}; expected {shape}, that of a decision")
        rows[k] = row
    return rows, np.array([entry is not None for entry in entries], bool)


def advice_of_round(
    advice: Any, learner: Advised, problem: Problem, dtype: Any, predicted: bool
) -> tuple[Array, Array] | None:
    """Return what advisers say in one round, and which say something; None if there are none.

    With a forecast, which `predicted` says, the last adviser stands for it, and a list may end with
    None.
    """
    count = learner.advisers - predicted
    if predicted and isinstance(advice, (list, tuple)) and len(advice) == count + 1:
        *others, last = advice
        if last is None:
            advice = others[0] if count == 1 else others or None
    check_others(count, advice)
    if count == 0:
        return None
    rows, speaks = said_in_round("advice", advice, count, problem)
    for k in np.flatnonzero(speaks):
        arguments.finite("advice" if count == 1 else f"advice[{k}]", rows[k])
    return rows.astype(dtype), speaks

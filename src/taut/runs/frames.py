"""Tidy pandas tables of a run."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..engine import Array
from ..extras import optional
from .totals import Totals

if TYPE_CHECKING:
    import pandas

    from .run import Run


KINDS = ("rounds", "decisions", "multipliers", "weights", "totals")


def run_frame(run: Run, what: str) -> pandas.DataFrame:
    """Return the table that `Run.to_dataframe` describes."""
    arguments.one_of("what", what, KINDS)
    if what == "totals":
        return _totals(run)
    columns = _per_round(run) if what == "rounds" else _kept(run, what)
    return _framed(run, columns, 1 if what == "rounds" else run.every)


def coordinates(names: tuple[str, ...] | None, shape: tuple[int, ...], letter: str) -> list[str]:
    """Return the names of the entries of an array of this shape, or names made from a letter."""
    size = int(np.prod(shape))
    if names is not None and len(names) == size:
        return list(names)
    return [
        f"{letter}[{', '.join(map(str, place))}]" for place in itertools.product(*map(range, shape))
    ]


def _per_round(run: Run) -> dict[str, Array]:
    if run.loss is None and run.excess is None:
        raise ValueError(
            'what: got "rounds" of a run that recorded neither loss nor excess; expected '
            'simulate(..., record=("loss", "excess")), or what="totals"'
        )
    values = {
        name: value
        for name, value in (("loss", run.loss), ("excess", run.excess))
        if value is not None
    }
    if run.excess is not None:
        values["violation"] = np.maximum(run.excess, 0)
    return values


def _kept(run: Run, what: str) -> dict[str, Array]:
    values: Array | None = getattr(run, what)
    if values is None:
        raise ValueError(
            f'what: got "{what}" of a run that did not record them; expected simulate(..., '
            f'record=("{what}",))'
        )
    lead = 3 if run.swept else 2
    shape = values.shape[lead:]
    if what == "decisions":
        labels = coordinates(run.coordinate_names, shape, "x")
    elif what == "weights":
        labels = ["weight[learner]", *(f"weight[adviser {k}]" for k in range(1, *shape))]
    else:  # the learner may see other constraints than those that are scored
        labels = coordinates(None, shape, "multiplier")
        if run.constraint_names is not None and shape == (len(run.constraint_names),):
            labels = [f"multiplier[{name}]" for name in run.constraint_names]
    flat = values.reshape(*values.shape[:lead], -1)
    return {label: flat[..., i] for i, label in enumerate(labels)}


def _framed(run: Run, columns: dict[str, Array], every: int) -> pandas.DataFrame:
    pd = optional("pandas")

    rounds = pd.RangeIndex(1, run.horizon + 1, name="round") if run.index is None else run.index
    rounds = rounds[every - 1 :: every]
    levels: list[Any] = [rounds]
    if run.seeds > 1 or run.swept:
        levels.insert(0, pd.RangeIndex(run.seeds, name="seed"))
    if run.swept:
        levels.insert(0, pd.RangeIndex(len(run.learner), name="learner"))  # type: ignore[arg-type]
    index = levels[0] if len(levels) == 1 else pd.MultiIndex.from_product(levels)
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()}, index=index)


def _totals(run: Run) -> pandas.DataFrame:
    pd = optional("pandas")

    totals: Totals = run.totals
    names = coordinates(run.constraint_names, totals.peak.shape[-1:], "g")
    levels: list[Any] = [pd.RangeIndex(run.seeds, name="seed"), pd.Index(names, name="constraint")]
    if run.swept:
        levels.insert(0, pd.RangeIndex(len(run.learner), name="learner"))  # type: ignore[arg-type]
    values = {
        name: getattr(totals, name).ravel() for name in ("excess", "violation", "squared", "peak")
    }
    return pd.DataFrame(values, index=pd.MultiIndex.from_product(levels))

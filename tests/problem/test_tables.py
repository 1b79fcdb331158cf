"""Tables and lists as streams: the same numbers as the arrays they hold."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import taut
from small_games import GAME, assert_bit_equal, targets
from taut.problem.tables import index_of, plain

LEARNER = taut.ClippedOGD(0.3, 20.0)
DATA = targets()
FRAME = pd.DataFrame(DATA, columns=["a", "b"])


def polars_frame():
    polars = pytest.importorskip("polars")
    return polars.DataFrame({"a": DATA[:, 0], "b": DATA[:, 1]})


STREAMS = {
    "pandas": lambda: FRAME,
    "polars": polars_frame,
    "xarray": lambda: xr.DataArray(DATA.T, dims=("entry", "round")),
    "list": DATA.tolist,
    "list of tuples of numbers as a frame": lambda: pd.DataFrame.from_records(DATA.tolist()),
}


@pytest.mark.parametrize("kind", list(STREAMS))
def test_a_table_is_the_array_it_holds(kind):
    assert_bit_equal(
        taut.simulate(LEARNER, GAME, STREAMS[kind]()), taut.simulate(LEARNER, GAME, DATA)
    )


def test_seeds_of_an_xarray_come_first():
    data = xr.DataArray(targets(seeds=3).transpose(1, 2, 0), dims=("round", "entry", "seed"))
    assert_bit_equal(
        taut.simulate(LEARNER, GAME, data, seeds=3),
        taut.simulate(LEARNER, GAME, targets(seeds=3), seeds=3),
    )


def test_columns_become_the_parameters_of_a_model():
    x, price, demand = (
        cp.Variable(2, name="x", bounds=[0, 1]),
        cp.Parameter(2, name="price"),
        cp.Parameter(name="demand"),
    )
    model = taut.from_cvxpy(price @ x + cp.square(cp.sum(x) - demand), [cp.sum(x) <= 1])
    table = pd.DataFrame({"demand": np.linspace(0, 1, 5), "weather": np.ones(5)})
    z = model.arrange({"price": pd.DataFrame(np.ones((5, 2))), "demand": table["demand"]})
    assert [part.shape for part in z] == [(5, 2), (5,)]
    scalar = taut.from_cvxpy(cp.square(cp.sum(x) - demand), [cp.sum(x) <= 1])
    np.testing.assert_array_equal(
        scalar.arrange(table)[0], table["demand"]
    )  # other columns are left out
    np.testing.assert_array_equal(scalar.arrange(table["demand"])[0], table["demand"])
    assert scalar.arrange(table.iloc[2])[0] == table["demand"][2]  # one row, live
    assert [np.shape(part) for part in model.arrange([[[1.0, 2.0]], [3.0]])] == [(1, 2), (1,)]


def test_what_is_not_a_table_is_left_alone():
    for value in (None, 1.0, "text", (), [], {}, abs):
        assert plain(value) is value or plain(value) == value
    assert isinstance(plain([np.zeros(3), np.ones(3)]), list)  # a pytree of arrays
    assert plain({"a": [1, 2]})["a"].tolist() == [1, 2]
    assert plain(([1, 2], 3.0))[0].tolist() == [1, 2]


def test_an_index_that_only_counts_is_none():
    assert index_of(FRAME) is None
    assert index_of(DATA) is None
    named = FRAME.set_axis(pd.Index([f"day {i}" for i in range(60)]))
    assert index_of({"a": DATA, "b": named}) is named.index
    assert (
        index_of(xr.DataArray(DATA, dims=("time", "entry"), coords={"time": np.arange(60)})).name
        == "time"
    )


def test_refusals_name_the_column():
    with pytest.raises(
        TypeError, match=r"in the column 'city'; expected real numbers\. Drop the column"
    ):
        taut.simulate(LEARNER, GAME, FRAME.assign(city="Berlin"))
    with pytest.raises(
        ValueError, match=r"rows have the lengths \[1, 2\]; expected rows of one length"
    ):
        taut.simulate(LEARNER, GAME, [[1.0, 2.0], [3.0]])

"""Labels: the index of a table that goes in comes out, names of constraints and coordinates are
shown and saved."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import taut
from small_games import BALL, FOUR, ROUNDS, distance, targets

LEARNER = taut.ClippedOGD(0.3, 20.0)
NAMED = taut.Problem(
    distance,
    lambda x: {"sum": jnp.sum(x) - 1, "box": x - 0.8},
    BALL,
    coordinate_names=["gas", "coal"],
)
INDEXES = {
    "times": pd.date_range("2024-03-30", periods=ROUNDS, freq="5min", name="time"),
    "times with a zone": pd.date_range(
        "2024-03-30 22:00", periods=ROUNDS, freq="1h", tz="Europe/Berlin", name="t"
    ),
    "numbers": pd.Index(np.arange(ROUNDS) * 2.5, name="metres"),
    "labels": pd.Index([f"day {i}" for i in range(ROUNDS)]),
}


@pytest.mark.parametrize("kind", list(INDEXES))
def test_the_index_comes_back(kind, tmp_path):
    index = INDEXES[kind]
    frame = pd.DataFrame(targets(), index=index, columns=["a", "b"])
    run = taut.simulate(LEARNER, NAMED, frame, record=("loss", "excess", "decisions"), every=7)
    np.testing.assert_array_equal(run.loss, taut.simulate(LEARNER, NAMED, targets()).loss)
    pd.testing.assert_index_equal(run.to_dataframe().index, index)
    pd.testing.assert_index_equal(run.to_dataframe("decisions").index, index[6::7])
    run.save(tmp_path / "run.nc")
    back = taut.Run.load(tmp_path / "run.nc")
    pd.testing.assert_index_equal(back.index, index)
    pd.testing.assert_frame_equal(back.to_dataframe(), run.to_dataframe(), check_freq=False)
    assert (back.constraint_names, back.coordinate_names) == (
        ("sum", "box[0]", "box[1]"),
        ("gas", "coal"),
    )
    shorter = taut.simulate(LEARNER, NAMED, frame, horizon=9)
    pd.testing.assert_index_equal(shorter.index, index[:9])


def test_tables_are_tidy_and_small():
    run = taut.simulate(
        LEARNER,
        FOUR,
        targets(seeds=3),
        seeds=3,
        record=("loss", "excess", "decisions", "multipliers"),
        every=4,
    )
    rounds = run.to_dataframe()
    assert rounds.shape == (3 * ROUNDS, 3)
    assert rounds.index.names == ["seed", "round"]
    assert rounds.loc[(2, 17), "excess"] == run.excess[2, 16]
    assert rounds.loc[(2, 17), "violation"] == max(run.excess[2, 16], 0)
    decisions = run.to_dataframe("decisions")
    assert decisions.shape == (3 * 15, 2)
    assert decisions.loc[(1, 8), "x[1]"] == run.decisions[1, 1, 1]
    assert run.to_dataframe("multipliers").shape == (3 * 15, 4)
    totals = run.to_dataframe("totals")
    assert totals.loc[(2, "g[3]"), "peak"] == run.totals.peak[2, 3]
    with pytest.raises(ValueError, match="what: got 'all'; expected one of 'rounds'"):
        run.to_dataframe("all")


def test_multipliers_have_the_names_of_their_constraints():
    run = taut.simulate(LEARNER, NAMED, targets(), record=("multipliers",))
    names = ["multiplier[sum]", "multiplier[box[0]]", "multiplier[box[1]]"]
    assert list(run.to_dataframe("multipliers").columns) == names
    unnamed = taut.simulate(LEARNER, FOUR, targets(), record=("multipliers",))
    assert unnamed.to_dataframe("multipliers").columns[-1] == "multiplier[3]"


def test_a_sweep_has_one_more_level():
    run = taut.simulate([LEARNER, taut.ClippedOGD(0.1, 20.0)], FOUR, targets())
    frame = run.to_dataframe()
    assert frame.index.names == ["learner", "seed", "round"]
    assert frame.loc[(1, 0, 5), "loss"] == run.loss[1, 0, 4]


def test_names_label_the_dataset():
    data = taut.simulate(
        LEARNER, NAMED, pd.DataFrame(targets(), index=INDEXES["times"])
    ).to_xarray()
    assert data["total_peak"].sel(constraint="sum").shape == (1,)
    assert data["final"].sel(axis_0="coal").shape == (1,)
    assert (
        data["loss"].swap_dims(round="time").sel(time="2024-03-30 00:10").item()
        == data["loss"][0, 2].item()
    )


def test_names_are_checked_and_dropped_by_transforms():
    assert taut.max_of(NAMED).constraint_names is None
    assert NAMED.with_constants(NAMED.constants).constraint_names == ("sum", "box[0]", "box[1]")
    with pytest.raises(ValueError, match="coordinate_names: got 3 names; expected 2"):
        taut.Problem(distance, jnp.sum, BALL, coordinate_names=["a", "b", "c"])
    with pytest.raises(ValueError, match="expected names that differ"):
        taut.Problem(distance, jnp.sum, BALL, coordinate_names=["a", "a"])
    with pytest.raises(TypeError, match="constraint_names: got 'cap'; expected a list of names"):
        taut.Problem(distance, jnp.sum, BALL, constraint_names="cap")

"""Advice in columns of the data file of `taut run` and `taut certify`."""

import numpy as np
import pandas as pd
import pytest

from taut.cli.commands import advice_apart


def test_columns_of_advice_are_taken_apart():
    table = pd.DataFrame(
        {"demand": [1.0, 2.0], "mine_a": [0.5, np.nan], "mine_b": [0.1, np.nan]},
        index=pd.Index(["one", "two"], name="time"),
    )
    data, advice = advice_apart(table, "mine_")
    assert data.tolist() == [1.0, 2.0]
    assert data.index.name == "time"
    np.testing.assert_array_equal(advice, [[0.5, 0.1], [np.nan, np.nan]])
    assert advice.isna().all(axis=1).tolist() == [False, True]  # an empty row is missing advice
    assert advice_apart(table, None)[1] is None


@pytest.mark.parametrize("prefix", ["", "other", "m d"])
def test_a_prefix_without_columns_is_refused(prefix):
    table = pd.DataFrame({"demand": [1.0], "mine": [2.0]})
    with pytest.raises(ValueError, match="--advice: got"):
        advice_apart(table, prefix)
    with pytest.raises(ValueError, match="--advice: got"):
        advice_apart(np.ones(3), "mine")

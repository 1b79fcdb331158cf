"""Constants from enclosures: bounds over divided boxes, and curvature."""

import numpy as np

from taut.intervals.constants import Edges, least_upper


def test_dividing_the_box_improves_a_loose_bound():
    box = Edges(np.array([-1.0]), np.array([1.0]), 1)

    def bound(part):  # of x (x - 1) with each factor bounded apart, at most 2 in truth
        ends = [
            a * b for a in (part.low[0], part.high[0]) for b in (part.low[0] - 1, part.high[0] - 1)
        ]
        return max(ends)

    def loose(part):
        return bound(part) + 3 * (part.high[0] - part.low[0])

    assert loose(box) == 8.0
    assert 2.0 <= least_upper(loose, box, 2.0) <= 2.0 * 1.2
    assert least_upper(lambda part: 1.0, box, 2.0) == 2.0  # never below what is attained


def test_a_range_is_a_difference_of_decisions_which_may_be_in_different_parts_of_the_box():
    box = Edges(
        np.array([-1.0, 0.0]), np.array([1.0, 3.0]), 1
    )  # a decision and a number of the data

    def bound(part):  # on x z - y z, twice too large
        return 2 * (part.high[0] - part.low[0]) * part.high[1]

    assert least_upper(bound, box, 6.0) < 6.5  # wrong: two decisions of the same part
    assert least_upper(bound, box, 6.0, data_only=True) == 12.0

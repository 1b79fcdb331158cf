"""Conformance."""

from taut.learners.cvv_pro import CARDS
from taut.testing import parametrize_with_checks, run_check


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    run_check(card, check)

"""`check_learner`: all checks of one method, for authors of learners inside and outside this
package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..display import counted
from ..engine import double_precision
from ..learners import LEARNERS, Card, Learner
from .checks import Check, checks_for
from .playing import applies, name_of, quick_compilation
from .problems import PROBLEMS, KnownProblem


def check_learner(
    method: Card | Learner | str, problems: Sequence[KnownProblem] = PROBLEMS
) -> None:
    """Run every check on a method; raise one AssertionError that lists the checks that failed.

    A check that is listed in `card.known_failures` must fail: one that passes is reported too, so
    that the list stays true.

    Arguments:
        method: a `taut.Card`, the name of a registered method, or a learner. A learner is played as
            it is, on the toy problem; a card lets the checks build it for every problem, so they
            see more.
        problems: the problems to play; by default those of `taut.testing.PROBLEMS` to which the
            card applies.

    The checks compute in 64 bits, whatever precision JAX is set to.

    >>> import taut
    >>> from taut.testing import check_learner
    >>> check_learner(taut.LEARNERS["drift-plus-penalty"], problems=taut.testing.PROBLEMS[:1])
    """
    card = _as_card(method)
    if isinstance(method, Learner):
        problems = problems[:1]
    failed = {}
    for check in checks_for(card):
        if isinstance(method, Learner) and check.__name__ in _NEEDS_CARD:
            continue
        try:
            run_check(card, check, problems)
        except AssertionError as error:
            failed[check.__name__] = str(error)
    if failed:
        listed = "".join(f"\n- {name}: {text}" for name, text in failed.items())
        raise AssertionError(f"{card.name} fails {counted(len(failed), 'check')}:{listed}")


_NEEDS_CARD = {
    "check_horizon_matters",
    "check_schedule_matters",
    "check_calls_declared_oracles_at_x_t_only",
}
"""Checks of what only a card declares."""


def run_check(card: Card, check: Check, problems: Sequence[KnownProblem] = PROBLEMS) -> None:
    """Run one check; a check that the card expects to fail must fail."""
    expected = card.known_failures.get(check.__name__)
    usable = [known for known in problems if applies(card, known)]
    # The checks compare numbers up to rounding of 64 bits.
    with quick_compilation(), double_precision():
        try:
            check(card, usable)
        except AssertionError:
            if expected is None:
                raise
            return
    if expected is not None:
        raise AssertionError(
            f"it passes, although known_failures says {expected!r}: remove the entry"
        )


def parametrize_with_checks(methods: Iterable[Card | str]) -> Any:
    """A pytest decorator: the test gets (card, check) for every check of every method, and calls
    `run_check(card, check)`.

    @taut.testing.parametrize_with_checks(CARDS)
    def test_conformance(card, check):
        taut.testing.run_check(card, check)
    """
    import pytest

    pairs = [(card, check) for card in map(_as_card, methods) for check in checks_for(card)]
    return pytest.mark.parametrize(("card", "check"), pairs, ids=name_of)


def _as_card(method: Any) -> Card:
    if isinstance(method, Card):
        return method
    if isinstance(method, str):
        return LEARNERS[method]
    if isinstance(method, Learner):
        return Card(type(method).__name__, lambda: method)
    raise TypeError(
        f"method: got {method!r}; expected a taut.Card, the name of a method, or a learner"
    )

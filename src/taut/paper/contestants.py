"""The learners that the paper's figures compare, with the parameters of the paper and with the
scale-aware rule."""

from __future__ import annotations

from collections.abc import Callable

from ..arena.contest import Contestant
from ..learners import ClippedOGD, Learner, SaddlePoint
from ..problem.constants import Constants

__all__ = ["for_convex_losses", "for_strongly_convex_losses"]

_BETAS = ((0.5, "half", "1/2"), (2 / 3, "two-thirds", "2/3"))


def for_convex_losses() -> tuple[Contestant, ...]:
    """Return OGD, A-OGD and Clipped-OGD with the paper's parameters, then Clipped-OGD with the
    scale-aware rule."""
    found = [Contestant("ogd", "OGD", SaddlePoint.mahdavi, False)]
    for beta, name, text in _BETAS:
        found.append(Contestant(f"a-ogd-{name}", f"A-OGD, $\\beta={text}$", _adaptive(beta), True))
    for rule, prefix, suffix in (
        ("paper", "clipped", ""),
        ("scale-aware", "scaled", ", scale-aware"),
    ):
        for beta, name, text in _BETAS:
            label = f"Clipped-OGD{suffix}, $\\beta={text}$"
            found.append(Contestant(f"{prefix}-{name}", label, _clipped(beta, rule), False))
    return tuple(found)


def for_strongly_convex_losses() -> tuple[Contestant, ...]:
    """Return the learners for convex losses, then those that use strong convexity."""
    found = [
        Contestant(
            "strong", "Our-strong", lambda c, T: ClippedOGD.strongly_convex(c, rule="paper"), True
        )
    ]
    found.append(
        Contestant(
            "strong-scaled",
            "Our-strong, scale-aware",
            lambda c, T: ClippedOGD.strongly_convex(c),
            True,
        )
    )
    for beta, name, text in _BETAS:
        label = f"A-OGD strongly convex, $\\beta={text}$"
        found.append(Contestant(f"a-ogd-strong-{name}", label, _adaptive_strong(beta), True))
    return (*for_convex_losses(), *found)


def _adaptive(beta: float) -> Callable[[Constants, int], Learner]:
    return lambda c, T: SaddlePoint.jenatton(c, beta)


def _adaptive_strong(beta: float) -> Callable[[Constants, int], Learner]:
    return lambda c, T: SaddlePoint.jenatton_strongly_convex(c, beta)


def _clipped(beta: float, rule: str) -> Callable[[Constants, int], Learner]:
    return lambda c, T: ClippedOGD.tuned(c, T, beta, rule=rule)

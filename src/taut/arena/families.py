"""Families of learners: methods that share their main step, with one colour and one representative.

The representative is chosen here and not by its results, so that a family with many members does
not have many chances to lead.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..learners.registry import FAMILIES as MODULES

__all__ = ["FAMILIES", "OTHERS", "Family", "family_of"]


@dataclass(frozen=True)
class Family:
    """Methods that share their main step."""

    name: str
    title: str
    colour: str
    """As in the palette of Okabe and Ito, which colour-blind readers can distinguish."""
    representative: str
    """The member that headline tables show."""
    modules: tuple[str, ...] = ()
    """The modules of `taut.learners` whose methods belong to the family."""
    members: tuple[str, ...] = ()
    """Methods that belong to it and are not in one of these modules."""


FAMILIES = (
    Family(
        "half-space",
        "half-space steps",
        "#D55E00",
        "half-space",
        ("half_space", "delay_tolerant", "step_experts", "recoo"),
        ("half-space-all-cuts", "half-space-advised"),
    ),
    Family(
        "clipped-ogd",
        "Clipped-OGD",
        "#0072B2",
        "clipped-ogd",
        ("clipped_ogd", "doubling"),
        ("numpy-clipped-ogd",),
    ),
    Family("saddle-point", "saddle-point steps", "#7F7F7F", "ogd", ("saddle_point",)),
    Family(
        "surrogate",
        "surrogate losses",
        "#009E73",
        "surrogate",
        ("surrogate",),
        ("numpy-surrogate", "universal-experts"),
    ),
    Family(
        "queue",
        "queues and multipliers",
        "#E69F00",
        "drift-plus-penalty",
        ("drift_plus_penalty", "yu_neely", "no_slater", "bounded_game"),
    ),
    Family(
        "budget",
        "budget pacing",
        "#56B4E9",
        "dual-mirror",
        ("dual_mirror",),
        ("dual-mirror-remaining", "budget-program"),
    ),
    Family("values", "values only", "#CC79A7", "two-point", ("bandit",)),
    Family("averaged", "averaged constraints", "#882255", "averaged-blocks", ("averaged",)),
)
"""The families in the order in which legends show them."""
OTHERS = Family("other", "other methods", "#332288", "")
"""The family of all methods that belong to none; each of them represents itself."""


def _by_learner() -> dict[str, Family]:
    where = {name: family for family in FAMILIES for name in family.modules}
    known = {name: family for family in FAMILIES for name in family.members}
    for module in MODULES:
        family = where.get(module.__name__.rpartition(".")[2])
        if family is not None:
            known |= {card.name: family for card in module.CARDS}
    return known


_KNOWN = _by_learner()


def family_of(learner: str) -> Family:
    """Return the family of a method by its name.

    >>> family_of("half-space-strong").title
    'half-space steps'
    >>> family_of("my-method").name
    'other'
    """
    return _KNOWN.get(learner, OTHERS)

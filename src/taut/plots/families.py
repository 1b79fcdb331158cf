"""Families of learners: methods that share their main step, with one colour and one marker in all
figures, and one representative in headline tables.

The representative is chosen here and not by its results, so that a family with many members does
not have many chances to lead.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..learners.registry import FAMILIES as MODULES


@dataclass(frozen=True)
class Family:
    """Methods that share their main step."""

    name: str
    title: str
    colour: str
    """Colour-blind readers can distinguish it from the others; a test simulates what they see."""
    marker: str
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
        "o",
        "half-space",
        ("half_space", "delay_tolerant", "step_experts", "recoo"),
        ("half-space-all-cuts", "half-space-advised"),
    ),
    Family(
        "clipped-ogd",
        "Clipped-OGD",
        "#0072B2",
        "s",
        "clipped-ogd",
        ("clipped_ogd", "doubling"),
        ("numpy-clipped-ogd",),
    ),
    Family("saddle-point", "saddle-point steps", "#868686", "^", "ogd", ("saddle_point",)),
    Family(
        "surrogate",
        "surrogate losses",
        "#1E6B43",
        "D",
        "surrogate",
        ("surrogate",),
        ("numpy-surrogate", "universal-experts"),
    ),
    Family(
        "queue",
        "queues and multipliers",
        "#F2B705",
        "v",
        "drift-plus-penalty",
        ("drift_plus_penalty", "yu_neely", "no_slater", "bounded_game"),
    ),
    Family(
        "budget",
        "budget pacing",
        "#5FB8F5",
        "P",
        "dual-mirror",
        ("dual_mirror",),
        ("dual-mirror-remaining", "budget-program"),
    ),
    Family("values", "values only", "#E8A0CC", "X", "two-point", ("bandit",)),
    Family("averaged", "averaged constraints", "#6B1F57", "*", "averaged-blocks", ("averaged",)),
)
"""The families in the order in which legends show them."""
OTHERS = Family("other", "other methods", "#2A1A6E", "h", "")
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


def family_of_object(learner: object) -> Family:
    """Return the family of a learner by the module of its class.

    >>> import taut
    >>> family_of_object(taut.HalfSpace(0.1, 2.0)).name
    'half-space'
    """
    names = type(learner).__module__.split(".")
    inside = names[2] if names[:2] == ["taut", "learners"] and len(names) > 2 else ""
    return next((family for family in FAMILIES if inside in family.modules), OTHERS)

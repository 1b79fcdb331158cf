"""The error of a formula whose theorem does not cover the parameters it is given."""

__all__ = ["OutsideTheorem"]


class OutsideTheorem(ValueError):
    """The parameters are admissible numbers, but the theorem says nothing about them; the text says why."""

"""The error of a best decision in hindsight that could not be proven to be best."""

__all__ = ["NoInterior", "NotCertified"]


class NotCertified(RuntimeError):
    """No decision could be proven to be the best one within the tolerance."""


class NoInterior(NotCertified, ValueError):
    """No decision satisfies the constraints with slack, so that multipliers need not exist."""

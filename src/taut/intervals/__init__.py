"""Interval arithmetic: enclosures of values, slopes and gradient norms over a box."""

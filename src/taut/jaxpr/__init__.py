"""Traced programs: `walk` evaluates one with rules of one's own, `maxima` differentiates largest
values by index."""

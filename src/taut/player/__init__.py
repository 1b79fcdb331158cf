"""A learner in live use, one round at a time.

Read `player` first, then `observation` (how a round is played), `steps` (what is compiled),
`history` and `extremes` (what it remembers) and `file`.
"""

"""A learner in live use, one round at a time.

Read `player` first, then `observation` (how a round is played), `steps` (the state, and what is
compiled), `memory` (what it remembers), `guards` and `file`.
"""

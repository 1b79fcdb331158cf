"""Simulations: the only place in which rounds are played.

Read `round` first (one round as pure functions), then `loop` (the loop over rounds), `compile` and
`passes` (what makes it fast), `simulation` (a simulation in chunks) and `simulate`; `step` is the
same for people who compile games themselves.
"""

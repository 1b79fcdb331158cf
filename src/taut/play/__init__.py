"""Simulations: the only place in which rounds are played.

Read `round` first (one round as pure functions), then `loop` (the loop over rounds), `compile` and
`passes` (what makes it fast), `simulation` (a simulation in chunks) and `simulate`; `step` is the
same for people who compile games themselves. These files are all that a plain simulation needs,
with `buffers` and `packing`, which lay out its arrays.

The others are entered only by simulations that ask for them: `announced` (constraints known before
a decision), `advice` and `forecast` (what the user's own controller would play), `with_feedback`
(what a learner sees of a round), `checkpoint` (to continue after a kill) and `replay` (to play a
run again for its certificate).
"""

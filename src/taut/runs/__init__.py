"""The result of a simulation.

Read `run` first, then `totals` (sums over rounds) and `metrics` (functions of a run); `frames` and
`labels` make tables, `file` reads and writes a run.
"""

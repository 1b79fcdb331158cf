"""The result of a simulation: the run, its totals, metrics, tables and file."""

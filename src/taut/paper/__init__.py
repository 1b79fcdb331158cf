"""The reproduction of Yuan & Lamperski (NeurIPS 2018): experiments, claims, figures and report.

Read `reproduce` first (all steps), then one of the `experiments` with the `contestants` it
compares, `claims` with their `criteria`, and last `figures` and `report`, which read stored results
only.
"""

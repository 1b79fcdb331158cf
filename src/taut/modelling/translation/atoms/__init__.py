"""Translations of CVXPY's atoms to JAX functions.

Read `table` first: it says which atoms are supported. `rules` has the translation of each, and
`kernels` the numerical functions behind them.
"""

"""Translations of CVXPY's atoms to JAX functions.

Read `table` first: it lists every atom that is supported. The translations are in `affine`,
`elementwise` and `spectral`; `kernels` has the numerical functions behind them.
"""

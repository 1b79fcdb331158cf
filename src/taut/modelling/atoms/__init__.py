"""Translations of CVXPY's atoms to JAX. Read `table` first: it lists every atom that is supported."""

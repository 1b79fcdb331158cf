"""From CVXPY expressions to JAX functions of decisions and data."""

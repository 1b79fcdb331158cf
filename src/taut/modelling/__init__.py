"""Problems written in CVXPY, played as online games: expressions become JAX functions."""

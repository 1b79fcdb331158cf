"""Problems written in CVXPY. Their expressions are translated to JAX functions.

Read `model` (the public function `from_cvxpy`), then `translate` and `atoms/table` (the
translation), `inequalities` (constraints), `constants` (constants of theory) and `hindsight` (the
best decision from the expressions themselves).
"""

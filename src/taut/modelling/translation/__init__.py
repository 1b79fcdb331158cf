"""From CVXPY expressions to JAX functions of decisions and data.

Read `statement` first, the model as the user states it, then `reading` (what a user may pass, and
the proof of convexity), `inequalities` (constraints as expressions that must not exceed zero) and
`translate` (the JAX functions, with one rule per atom in `atoms`). `parameters` and `round_data`
are about data, and `attributes` about bounds and symmetry of variables. `affine_forms` gives
matrices of affine expressions, and `statement` also copies expressions for CVXPY's solvers.
"""

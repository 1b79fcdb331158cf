"""Interval arithmetic: proven bounds on values, slopes and gradients of functions over a domain.

Read `enclosure` first: it says what is bounded. `arithmetic`, `curves` and `matrices` are the rules
for single operations. `of_jaxpr` applies them to functions written
in JAX and `of_cvxpy` to CVXPY expressions. `constants` turns bounds into Lipschitz constants,
ranges and curvature.
"""

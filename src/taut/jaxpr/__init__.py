"""Programs that JAX traced from a user's functions.

Read `walk` first, which evaluates a program with a rule of one's own. `maxima` differentiates
largest values by index, `exactness` finds comparisons that rounding can upset, `in_numpy` evaluates
small programs with their derivatives.
"""

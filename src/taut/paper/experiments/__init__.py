"""The experiments of the paper. Each module has a function `play` that returns a dataset.

Read `toy` first (two dimensions), then `doubly_stochastic`, `dispatch`, and last `theory`, which
compares measured growth with the bounds. `CHOICES` lists the variants of what the paper does not
specify. Problems and data are those of `taut.arena`.
"""

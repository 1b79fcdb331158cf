"""The experiments of the paper. Each module defines its problem and its data, and a function `play` that returns a dataset.

Read `toy` first (two dimensions), then `doubly_stochastic`, `dispatch` with its data in `demand`, and last `theory`, which
compares measured growth with the bounds. `CHOICES` lists the variants of what the paper does not specify.
"""

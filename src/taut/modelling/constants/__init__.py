"""Constants of a model, such as the largest gradient of the loss.

Read `constants` first: affine and quadratic parts have closed forms, other parts are bounded by
interval arithmetic (`enclosures`), and what neither covers is searched for, with values and
gradients at many points at once (`search`).
"""

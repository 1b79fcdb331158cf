"""Facts: what can be proven of a problem from its traced program, its domain and its data.

Read `find` first: what a fact is, and where each comes from. `half_spaces` reads affine
pieces off a traced program, `polyhedra` derives an error bound from them, `ranges` applies interval
arithmetic, and `find` looks for a decision with room. A fact is a number that is certain up to
rounding; what is not certain is no fact.
"""

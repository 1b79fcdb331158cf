"""A problem: loss, constraints, domain and constants; its data; and checks that they fit. It knows
nothing of methods.

Read `problem` first, then `constraints` and `domains`, then `rounds` (what a learner sees) and
`streams` (the data).
"""

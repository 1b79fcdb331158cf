"""Variables that are chosen after the data of a round, such as epigraph and slack variables.

Read `after_data` first: it decides which variables these are, and replaces them by expressions of
their best values, one at a time; `joint_recourse` states all others together as a
small linear or quadratic program (`inner_program`), whose smallest value is the atom
`inner_minimum`.
Its value comes from the vertices of its multipliers (`vertices`) or from an interior-point method
(`interior_point`), for which multipliers are bounded when the model is built.
"""

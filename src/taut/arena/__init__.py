"""Standard streams and the contest of all learners on them.

Read `contest`: it simulates several learners on one problem and stream for a list of horizons and returns one labelled
dataset. The reproduction of the paper (`taut.paper`) uses it.
"""

"""Standard streams and the contest of all learners on them.

`contest` simulates several learners on one problem and stream for a list of horizons and returns one labelled dataset.
The package builds on `taut.play` and `taut.judge`; the reproduction of the paper (`taut.paper`) uses it.
"""

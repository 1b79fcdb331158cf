"""Interval arithmetic: enclosures of values, slopes and gradient norms over a box.

Read `enclosure` first, then `of_jaxpr` and `of_cvxpy`, its two front ends, and `constants`, what
theory needs of an enclosure.
"""

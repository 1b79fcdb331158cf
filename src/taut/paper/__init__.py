"""The reproduction of Yuan & Lamperski (NeurIPS 2018): experiments, claims, figures and report.

Read `pipeline` first, then `reproduce`, one of the `experiments`, `claims`, and `figures`.
"""

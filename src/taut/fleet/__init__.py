"""Thousands of independent players of one family of problems.

Read `fleet` first, then `steps` (what is compiled), `members` (which row is whose) and `data`.
"""

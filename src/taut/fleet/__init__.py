"""Thousands of independent players of one family of problems.

Read `fleet` first, then `blocks` (what is compiled), `members` (which row is whose), `coming` (how
rounds are played) and `data`.
"""

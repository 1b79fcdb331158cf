"""The command line.

Read `main` first; `commands` has those on a user's own problem, `arena` those of the arena.
"""

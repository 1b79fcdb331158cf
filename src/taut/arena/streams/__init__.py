"""The standard streams. Every module with a tuple `STREAMS` is found by `taut.arena.registry`.

Read `toy` first, then `pool`, whose constraints change. `linear` and `newton` have what several
streams share.
"""

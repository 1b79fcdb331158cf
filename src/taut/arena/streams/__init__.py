"""The standard streams. Every module with a tuple `STREAMS` is found by `taut.arena.registry`.

Read `toy` first, then `half_spaces`, where constraints change. `newton` has what several streams
share.
"""

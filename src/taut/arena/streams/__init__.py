"""The standard streams. Every module with a tuple `STREAMS` is found by `taut.arena.registry`; read `toy` first."""

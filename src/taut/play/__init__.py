"""Simulation and live use: the only place in which rounds are played.

Read `simulate` first, then `chunks` (a simulation in pieces) and `loop` (the compiled loop over
rounds), then `player`.
"""

"""How a game is played, compiled: what `taut.simulate` and `taut.Player` are made of, and nothing a user need import.

`opening` checks that everything fits, `table` lays a simulation out and plays it chunk by chunk, `referee` is the compiled
chunk, `lowering` writes a round as XLA compiles it well, `parcels` and `staging` hand arrays over, `checkpoint` keeps what is
needed to go on, `diagnosis` finds the number that was not finite. `live` and `ledger` are the step and the totals of a player.
"""

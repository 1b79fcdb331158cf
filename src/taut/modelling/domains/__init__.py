"""The set that decisions are projected on, from the constraints of a model.

Read `simple_domain` first: it chooses a simple set for each block of entries, which
`set_detection` reads from the constraints, and solves for other bounds. `presolve` then
leaves out the constraints that hold on all of the domain, and `atom_domains` checks that loss and
constraints are defined on all of it.
"""

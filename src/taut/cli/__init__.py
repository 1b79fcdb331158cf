"""The command line.

Read `main` first; `commands` does what the commands ask for, `arena` has those of the arena, and
`with_jax` sets JAX up for them.
"""

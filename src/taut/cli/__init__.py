"""The command line. `main` has the commands, `arena` those of the arena."""

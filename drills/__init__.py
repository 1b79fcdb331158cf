"""Drills: programs that try to break taut for longer than a test may take. `make drill` and `make
fuzz` run them."""

"""Figures of runs, players and judgements, in one style."""

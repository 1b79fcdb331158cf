"""A learner in live use: `player.py` first, then `steps.py`, what it remembers and its file."""

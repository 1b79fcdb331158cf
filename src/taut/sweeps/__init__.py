"""Sweeps: many independent simulations in threads, processes or on a cluster, with one small file
per simulation.

Read `cell` (what is simulated), `sweep` (the public function and its result), `driver` (how cells
are handed out and what happens when a worker dies), `task` (what a worker does), `executors`,
and `store` (the files).
"""

from .cell import Cell
from .result import Sweep
from .sweep import sweep
from .task import Failure

__all__ = ["Cell", "Failure", "Sweep", "sweep"]

"""Compiler options with which XLA's CPU backend compiles loops over short rounds better."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from ...engine import unless_chosen
from ...jax_internals import TESTED

if TYPE_CHECKING:
    from . import RoundFacts

__all__ = ["OPTIONS"]


class Options:
    """Options that were chosen by measurement, for versions of XLA in which they were tested."""

    name: ClassVar[str] = "options"
    options: ClassVar[dict[str, Any]] = {
        # Otherwise reductions of 32 or more numbers become windows, which are not vectorised.
        "xla_disable_hlo_passes": "tree_reduction_rewriter",
        # xla_backend_optimization_level stays at 3, the default. With 1, programs are compiled in a
        # quarter less time, but LLVM ends the process for some of them.
        # Looks closely at which arrays are in use at the same time: a round copies fewer of them.
        **unless_chosen({"xla_cpu_copy_insertion_use_region_analysis": True}),
        # Computes a number right before it is used.
        **unless_chosen({"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}),
    }

    def suits(self, facts: RoundFacts) -> bool:
        """Return whether this version of XLA knows the options."""
        return facts.backend == "cpu" and facts.jax.startswith(TESTED)

    def of_round(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the round as it is."""
        return body

    def of_program(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the program as it is."""
        return program


OPTIONS = Options()

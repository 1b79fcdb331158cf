"""Commands that compute set JAX up when they are called, so that help and completion do not load
it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

__all__ = ["WithJax"]


class WithJax(TyperCommand):
    """A command that computes: with float64 and a persistent compilation cache."""

    def invoke(self, ctx: Any) -> Any:
        """Set JAX up and run the command."""
        _prepare()
        return super().invoke(ctx)


def _prepare() -> None:
    """Enable float64, and a persistent compilation cache unless the user has configured one. Call
    before any JAX array."""
    import jax

    from ..engine import remove_damaged_programs

    jax.config.update("jax_enable_x64", True)
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "taut"
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        remove_damaged_programs(cache)

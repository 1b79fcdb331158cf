"""taut."""

"""The set that decisions are projected on, from the constraints of a model."""

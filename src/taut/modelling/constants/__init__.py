"""Constants of a model, by structure, interval arithmetic or search."""

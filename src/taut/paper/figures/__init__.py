"""Figures of the reproduction. Every function takes a stored dataset and returns a matplotlib
figure; none simulates.

Read `gallery` first (the list of figures with their captions, `draw_all`), then `paper` (the
paper's figures), `theory` (growth and bounds), and `style` (how each contestant is drawn).
"""

from .gallery import GALLERY, Picture, draw_all, pictures, save

__all__ = ["GALLERY", "Picture", "draw_all", "pictures", "save"]

"""The painter: stored results in, matplotlib figures out. Nothing here simulates, and nothing opens a window.

`draw_all(folder)` draws every figure of a reproduction; `run_figure(run)` draws any run of your own.
"""

from ...play.plot import run_figure
from .gallery import GALLERY, Picture, draw_all, pictures, save

__all__ = ["GALLERY", "Picture", "draw_all", "pictures", "run_figure", "save"]

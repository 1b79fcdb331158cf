"""The list of all figures of the report with their captions, and functions that draw them from
stored results."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import files
from . import captions, paper, theory

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

__all__ = ["GALLERY", "Picture", "draw_all", "pictures", "save"]

DPI, NARROW_DPI = 150, 190
FIGURES = "figures"


@dataclass(frozen=True)
class Picture:
    """One figure: its file name, title and experiment, and the functions that draw it and write its
    caption."""

    name: str
    title: str
    experiment: str
    draw: Callable[..., Figure]
    caption: Callable[[xarray.Dataset], str]


def _both(
    name: str, title: str, experiment: str, draw: Any, caption: Any
) -> tuple[Picture, Picture]:
    """Return the figure with the paper's parameters and the same figure with the scale-aware
    rule."""
    aware = {"rule": "scale-aware"}
    return (
        Picture(name, title, experiment, draw, caption),
        Picture(
            f"{name}-scale-aware",
            f"{title}, scale-aware steps",
            experiment,
            partial(draw, **aware),
            partial(caption, **aware),
        ),
    )


GALLERY = (
    *_both(
        "figure-1-trajectories",
        "Fig. 1: toy, trajectories",
        "toy",
        paper.trajectories,
        captions.trajectories,
    ),
    *_both(
        "figure-4-toy", "Appendix figure: toy, sums against T", "toy", paper.sums, captions.sums
    ),
    *_both(
        "figure-2-doubly-stochastic",
        "Fig. 2: doubly stochastic matrices",
        "doubly-stochastic",
        paper.sums,
        captions.sums,
    ),
    *_both(
        "figure-3-dispatch",
        "Fig. 3: economic dispatch",
        "dispatch",
        paper.dispatch,
        captions.dispatch,
    ),
    Picture(
        "theory-clipped",
        "Theorem 1 and Lemma 1: growth and bounds",
        "theory",
        theory.clipped,
        captions.clipped,
    ),
    Picture(
        "theory-regret",
        "Theorem 1 and Proposition 3: regret with the paper's step",
        "theory",
        theory.regret,
        captions.regret,
    ),
    Picture(
        "theory-strong", "Theorem 2 and Proposition 1", "theory", theory.strong, captions.strong
    ),
    Picture(
        "theory-baselines", "Propositions 4 and 5", "theory", theory.baselines, captions.baselines
    ),
    Picture(
        "theory-exponents",
        "Growth exponents, measured and allowed",
        "theory",
        theory.exponents,
        captions.exponents,
    ),
)


def pictures(folder: str | Path) -> Iterator[tuple[Picture, xarray.Dataset]]:
    """Yield the figures whose experiments are stored in the folder, each with its dataset."""
    import xarray as xr

    loaded: dict[str, xarray.Dataset] = {}
    for picture in GALLERY:
        path = Path(folder) / picture.experiment / "results.nc"
        if picture.experiment not in loaded and path.is_file():
            loaded[picture.experiment] = xr.load_dataset(path, engine="h5netcdf")
        if picture.experiment in loaded:
            yield picture, loaded[picture.experiment]


def draw_all(folder: str | Path) -> list[Path]:
    """Draw all figures whose results are stored. Returns the files: `<name>.png`, `.pdf` and
    `-narrow.png` per figure."""
    target = Path(folder) / FIGURES
    written = []
    for picture, data in pictures(folder):
        written += save(picture.draw(data), target / picture.name)
        written += save(
            picture.draw(data, narrow=True), target / f"{picture.name}-narrow", ("png",), NARROW_DPI
        )
    if not written:
        raise FileNotFoundError(
            f"folder: got {folder}, without results; expected one that `taut reproduce` wrote"
        )
    return written


def save(
    figure: Figure, path: Path, kinds: tuple[str, ...] = ("png", "pdf"), dpi: int = DPI
) -> list[Path]:
    """Write the figure in all given formats. The files contain no dates or versions, so equal
    results give equal bytes."""
    written = []
    figure.set_dpi(dpi)
    for kind in kinds:
        content = _png(figure) if kind == "png" else _pdf(figure)
        figure.set_layout_engine("none")  # compute the layout once, not again for every file
        written.append(path.with_name(f"{path.name}.{kind}"))
        files.write_atomically(written[-1], content)
    return written


def _png(figure: Figure) -> bytes:
    """Render a PNG in one pass (`savefig` draws twice) with a colour palette, which makes it a
    third of the size."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas: Any = FigureCanvasAgg(figure)  # its methods are not annotated
    buffer = io.BytesIO()
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
    palette = picture.quantize(128, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    palette.save(buffer, "png", dpi=(figure.dpi, figure.dpi))
    return buffer.getvalue()


def _pdf(figure: Figure) -> bytes:
    import matplotlib.backends.backend_pdf as pdf

    buffer = io.BytesIO()
    canvas: Any = pdf.FigureCanvasPdf(figure)
    canvas.print_pdf(buffer, metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return buffer.getvalue()

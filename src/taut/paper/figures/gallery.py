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

from ... import storage
from . import paper, theory

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


DPI, NARROW_DPI = 150, 190
FIGURES = "figures"


@dataclass(frozen=True)
class Picture:
    """One figure: its file name, title and experiment, the function that draws it, and its caption,
    in which attributes of the dataset stand in braces."""

    name: str
    title: str
    experiment: str
    draw: Callable[..., Figure]
    caption: str


_RULES = {
    "": "All learners use the parameters of the paper.",
    "-scale-aware": "Clipped-OGD uses the scale-aware rule, which has separate bounds on the "
    "gradients of losses and constraints; the other learners use the parameters of the paper.",
}


def _both(name: str, title: str, experiment: str, draw: Any, caption: str) -> Iterator[Picture]:
    """Yield the figure with the paper's parameters and the same figure with the scale-aware
    rule."""
    for suffix, rule in _RULES.items():
        drawn = partial(draw, rule="scale-aware") if suffix else draw
        shown = f"{title}, scale-aware steps" if suffix else title
        yield Picture(f"{name}{suffix}", shown, experiment, drawn, f"{caption} {rule}")


_SUMS = (
    "Lines are means over the sequences, shaded areas their range; {choice}. In a signed sum, "
    "rounds with slack offset rounds with violations; in a clipped sum they do not. A learner can "
    "reduce its regret by leaving the feasible set, so regret has to be read together with the "
    "clipped violation."
)
GALLERY = (
    *_both(
        "figure-1-trajectories",
        "Fig. 1: toy, trajectories",
        "toy",
        paper.trajectories,
        "Decisions on one sequence of T = {walk} rounds, one panel per \u03b2. OGD has no \u03b2 "
        "and is the same in both panels. The feasible set is shaded; the dotted circle is the "
        "outer ball, R = {radius:.3g}. Compare how far the paths are from the boundary after they "
        "have reached it, and whether they end at the star.",
    ),
    *_both("figure-4-toy", "Appendix figure: toy, sums against T", "toy", paper.sums, _SUMS),
    *_both(
        "figure-2-doubly-stochastic",
        "Fig. 2: doubly stochastic matrices",
        "doubly-stochastic",
        paper.sums,
        f"{_SUMS} An equality h = 0 is written as h and -h, whose maximum is never negative, so "
        "nothing can cancel in the first panel (b). The paper does not say what its panel shows. "
        "The second panel (b) is the other reading: the signed sum of every constraint by itself, "
        "of which the largest is drawn.",
    ),
    *_both(
        "figure-3-dispatch",
        "Fig. 3: economic dispatch",
        "dispatch",
        paper.dispatch,
        "(a) is the demand that the learner sees, rescaled from {source}; {choice}. In (b), values "
        "above 0 mean that emissions exceed the cap of 100 or that a generator exceeds its "
        "limits; the panel with Clipped-OGD only has its own scale. In (c), compare the curves "
        "with the dashed line: a learner that stays at its first decision violates no constraint "
        "but does not serve the demand.",
    ),
    Picture(
        "theory-clipped",
        "Theorem 1 and Lemma 1: growth and bounds",
        "theory",
        partial(theory.growth, panels=theory.CLIPPED, width=4.6, height=2.7, columns=2),
        "Clipped-OGD with the scale-aware rule, \u03b2 from light to dark. Solid lines are "
        "measured values, dashed lines of the same colour their explicit bounds. A larger \u03b2 "
        "gives less violation and more regret: compare the order of the curves in (a) with that "
        "in (b) and (c). In (d) the constraint is smooth, and theory says that the largest "
        "violation in a round decreases with T. A curve that is no steeper than its dashed bound "
        "has the rate of the theorem.",
    ),
    Picture(
        "theory-regret",
        "Theorem 1 and Proposition 3: regret with the paper's step",
        "theory",
        partial(theory.growth, panels=theory.REGRET, width=4.6),
        "Clipped-OGD with the step that the paper prints, \u03b2 from light to dark. In (a) losses "
        "are random. There the learner can do better than every fixed decision, because it may "
        "leave the feasible set, so regret can be negative and says little about the rate. In (b) "
        "costs alternate at first and are then constant, which makes both terms of the bound grow "
        "as fast as they can. Solid lines that run along their dashed bounds show that the bounds "
        "cannot be improved by much.",
    ),
    Picture(
        "theory-strong",
        "Theorem 2 and Proposition 1",
        "theory",
        partial(theory.growth, panels=theory.STRONG, width=3.4),
        "(a), (b) Strongly convex losses. T is on a logarithmic axis, on which O(log T) is a "
        "straight line; regret should stay below the dashed bound. Regret can be negative, because "
        "a learner can leave the feasible set and can adapt to the losses, which the best fixed "
        "decision cannot. (c) Four constraints are aggregated by log-sum-exp with the largest "
        "temperature that Lemma 1 allows, which is of the order T^(1/6). The largest violation in "
        "a round should decrease at least as fast as the dotted line, T to the power \u22121/6, "
        "and stay below the dashed bound of the lemma. As printed, with temperature 1, no decision "
        "is feasible at all.",
    ),
    Picture(
        "theory-baselines",
        "Propositions 4 and 5",
        "theory",
        partial(theory.growth, panels=theory.BASELINES, width=4.4),
        "The earlier methods with the clipped Lagrangian. Solid lines are the clipped violation, "
        "dashed lines its explicit bound. If a solid line is steeper than its dashed line, the "
        "asymptotic rate is not reached at these horizons.",
    ),
    Picture(
        "theory-exponents",
        "Growth exponents, measured and allowed",
        "theory",
        theory.exponents,
        "Dots are growth exponents fitted over the horizons, with their confidence intervals, "
        "which are mostly narrower than the dot. Black ticks are the largest exponents that theory "
        "allows. A dot should be to the left of its tick; those to the right are drawn hollow. "
        "Rows without a dot have no exponent, for example because regret is negative. Theory "
        "describes large T: an exponent measured at these horizons can exceed it although the "
        "explicit bound holds.",
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
        storage.write_atomically(written[-1], content)
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

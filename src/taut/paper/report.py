"""The report of a reproduction: one HTML page with claims, results and figures of a folder, which
needs no network. `report.html.jinja` is filled in."""

from __future__ import annotations

import base64
import json
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import storage
from .criteria import LOOKS
from .datasets import names, title_of
from .figures.gallery import FIGURES, pictures
from .reproduce import EXPERIMENTS

if TYPE_CHECKING:
    import xarray


_FIRST = "figure-1-trajectories"
"""The figure that is shown at the beginning of the page."""
_SYMBOLS = {
    "eta": "\u03b7",
    "sigma": "\u03c3",
    "mu": "\u03bc",
    "theta": "\u03b8",
    "beta": "\u03b2",
    "epsilon": "\u03b5",
    "kappa": "\u03ba",
}


def write_report(folder: str | Path) -> Path:
    """Write `report.html` into the output folder of a reproduction, from its claims, results and
    figures. Draw the figures first (`taut.paper.figures.draw_all`)."""
    import jinja2

    folder = Path(folder)
    if not (folder / "claims.json").is_file():
        raise FileNotFoundError(
            f"folder: got {folder}, without claims.json; expected one that `taut reproduce` wrote"
        )
    judged = json.loads((folder / "claims.json").read_text("utf-8"))
    tally = _tally(judged["claims"])
    *most, last = [text for _, _, text in tally]
    figures = list(_figures(folder))
    template = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = template.from_string(
        resources.files(__package__).joinpath("report.html.jinja").read_text("utf-8")
    ).render(
        experiments=[
            _experiment(folder, name)
            for name in EXPERIMENTS
            if (folder / name / "results.nc").is_file()
        ],
        claims=[_claim(claim) for claim in judged["claims"]],
        tally=tally,
        verdicts=f"{', '.join(most)} and {last}" if most else last,
        first=[figure for figure in figures if figure["name"] == _FIRST],
        figures=[figure for figure in figures if figure["name"] != _FIRST],
        choices=judged["open"],
        options=judged["options"],
        versions=judged["versions"],
    )
    path = folder / "report.html"
    storage.write_atomically(path, page.encode())
    return path


def _claim(claim: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table of verdicts."""
    others = [f"{choice['choice']}: {choice['verdict']}" for choice in claim["choices"]]
    survives = {True: "yes", False: "no", None: "no other choices"}[claim["survives"]]
    return claim | {
        "css": LOOKS[claim["verdict"]].css,
        "mark": LOOKS[claim["verdict"]].mark,
        "others": others,
        "survives": survives,
        "figures": [(name, f"{value:.4g}") for name, value in claim["figures"].items()],
    }


def _tally(claims: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return class, mark and text, such as "10 hold", of every verdict that occurs."""
    verdicts = [claim["verdict"] for claim in claims]
    return [
        (look.css, look.mark, f"{n} {look.verbs[n > 1]}")
        for verdict, look in LOOKS.items()
        if (n := verdicts.count(verdict))
    ]


def _figures(folder: Path) -> Any:
    """Yield the figures that have been drawn, each with a wide and a narrow picture and its
    caption."""
    for picture, data in pictures(folder):
        wide, narrow = (folder / FIGURES / f"{picture.name}{kind}.png" for kind in ("", "-narrow"))
        if wide.is_file() and narrow.is_file():
            yield {
                "name": picture.name,
                "title": picture.title,
                "caption": picture.caption.format(**data.attrs),
                "wide": _embedded(wide),
                "narrow": _embedded(narrow),
            }


def _embedded(path: Path) -> dict[str, Any]:
    """Return a PNG as base64 with its size, so that the browser can reserve the space before it
    decodes the picture."""
    content = path.read_bytes()
    width, height = (
        int.from_bytes(content[at : at + 4], "big") for at in (16, 20)
    )  # of the PNG's IHDR chunk
    return {"data": base64.b64encode(content).decode(), "width": width, "height": height}


def _experiment(folder: Path, name: str) -> dict[str, Any]:
    """Describe what was run and with which parameters."""
    import xarray as xr

    data = xr.load_dataset(folder / name / "results.nc", engine="h5netcdf")
    others = []
    for path in sorted((folder / name).glob("choice-*.nc")):
        with xr.open_dataset(path, engine="h5netcdf") as other:
            others.append(str(other.attrs["choice"]))
    return {"name": name, "ran": _ran(data), "others": others, "parameters": _parameters(data)}


def _ran(data: xarray.Dataset) -> list[str]:
    lines = []
    if "case" in data.dims:
        lines.append(f"{data.sizes['case']} cases, one per result and \u03b2")
    else:
        lines.append(f"{data.sizes['contestant']} learners; {data.attrs['choice']}")
    if "horizon" in data.dims:
        horizons = ", ".join(f"{int(T):,}" for T in data["horizon"].values)
        lines.append(f"{data.sizes['seed']} random sequences per horizon, T = {horizons}")
    else:
        lines.append(f"T = {data.sizes['round']:,} rounds")
    if "source" in data.attrs:
        lines.append(f"source: {data.attrs['source']}")
        lines.append(f"constants: {_rounded(data.attrs['constants'])}")
    return lines


def _parameters(data: xarray.Dataset) -> list[tuple[str, str]]:
    """Return the learners with their parameters, at the longest horizon if they depend on it."""
    if "contestant" not in data.dims:
        return []
    return [
        (title_of(data, name), _rounded(str(data["parameters"].sel(contestant=name).item())))
        for name in names(data)
    ]


def _rounded(text: str) -> str:
    """Round all decimal numbers in a text to four significant digits and write Greek letters;
    datasets keep full precision."""
    text = re.sub(r"[a-z]+", lambda match: _SYMBOLS.get(match[0], match[0]), text)
    return re.sub(r"\d+\.\d+(?:e[-+]?\d+)?", lambda match: f"{float(match[0]):.4g}", text)

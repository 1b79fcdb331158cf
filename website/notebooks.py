"""Run the tutorials and store their outputs: python -m website.notebooks [name ...].

GitHub shows a notebook as it is stored, so the tutorials are committed with what they print and
draw. Each notebook holds a checksum of the code that its outputs belong to; a test fails if the
code has changed since.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt

jax.config.update("jax_enable_x64", True)

from .execute import Session, notebook_cells  # noqa: E402
from .pages import DOCS, TUTORIALS  # noqa: E402

PIXELS = 90
"""Dots per inch of stored figures, which keeps every notebook far below a megabyte."""


def checksum(path: Path) -> str:
    """Return the checksum of the code of a notebook."""
    code = [source for kind, source in notebook_cells(path) if kind == "code"]
    return hashlib.sha256("\n\n".join(code).encode()).hexdigest()


def executed(path: Path) -> dict[str, Any]:
    """Run a notebook and return it with its outputs."""
    stored: dict[str, Any] = json.loads(path.read_text())
    session = Session(path.with_suffix(".md"))
    count = 0
    for cell in stored["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        source = "".join(cell["source"])
        printed, value = session.execute(source)
        figures = [plt.figure(number) for number in plt.get_fignums()]
        cell["outputs"] = [
            *([_stream(printed)] if printed.strip() else []),
            *([_result(value, count)] if session.shows(value, source, bool(figures)) else []),
            *(_picture(figure) for figure in figures),
        ]
        cell["execution_count"] = count
        plt.close("all")
    stored["metadata"]["taut"] = {"code": checksum(path)}
    return stored


def _stream(text: str) -> dict[str, Any]:
    return {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}


def _result(value: Any, count: int) -> dict[str, Any]:
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    page = getattr(value, "_repr_html_", lambda: None)()
    if page is not None:
        data["text/html"] = page.splitlines(keepends=True)
    return {
        "data": data,
        "execution_count": count,
        "metadata": {},
        "output_type": "execute_result",
    }


def _picture(figure: Any) -> dict[str, Any]:
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=PIXELS, format="png", bbox_inches="tight")
    text = base64.b64encode(drawn.getvalue()).decode()
    return {
        "data": {"image/png": text, "text/plain": ["<Figure>"]},
        "metadata": {},
        "output_type": "display_data",
    }


def main(names: list[str]) -> None:
    """Run the named tutorials, or all of them."""
    for name in names or TUTORIALS:
        path = DOCS / "tutorials" / f"{name}.ipynb"
        path.write_text(json.dumps(executed(path), indent=1, ensure_ascii=False) + "\n")
        print(f"{name}: {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
